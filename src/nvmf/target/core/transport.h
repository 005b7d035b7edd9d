/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_TRANSPORT_H
#define URNIC_NVMF_TARGET_TRANSPORT_H

/*
 * A target's transport carries commands from hosts. TCP and RDMA implement `struct
 * target_transport`, and call the functions target_queue_*() and target_command_*(). One thread
 * runs a target: all calls in both directions are on the thread of its loop.
 *
 * A queue is one connection: an Admin or I/O queue pair of NVMe. SQ and CQ have the same number of
 * entries. The transport owns the memory of the queue. The life of a queue:
 *
 *     target_queue_open()      the connection is established: after ICReq, or at the CM request
 *     target_queue_command()   a command has arrived; the first one is Connect
 *     close()                  the core requests the end of the connection. Returns at once
 *     target_queue_closed()    the connection has ended, with or without close(). The transport
 *                              calls this once, and never from within close(), fetch(), prepare()
 *                              or respond(). Afterwards the core touches the queue only for pending
 *                              commands
 *
 * The transport owns the memory of a command. From target_queue_command() to respond() the core
 * uses the command. The core returns each command by respond() exactly once, even after
 * target_queue_closed(). So the transport frees a queue when the queue is closed and the core has
 * returned its last command.
 *
 * Data lies in one buffer for each command, which the transport frees after respond():
 *
 *     to the controller     the core calls fetch(), and the transport moves the host's data to
 *                           `data`: bytes of the capsule, R2T and H2CData, or an RDMA READ
 *     from the controller   the core calls prepare(), and the transport sets `data` to a buffer of
 *                           `data_bytes`. The core fills all of it
 *
 * The transport answers both calls by target_command_data_ready(), perhaps before they return.
 * While a queue has no memory left, its transport lets commands wait. A queue always has memory for
 * the two halves of a fused pair, up to `data_bytes_max` each, once its other commands have
 * returned theirs. When the connection is lost, the transport calls target_command_data_ready()
 * with NVME_SQ_DELETED for each command that waits in fetch() or prepare(), before
 * target_queue_closed().
 *
 * respond() sends the data for the host, if the command has such data and has succeeded, and then
 * the completion. On a closed queue respond() only returns the command to the transport. The core
 * sets SQHD.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "nvmf/common/codec/command.h"
#include "nvmf/common/list.h"
#include "nvmf/common/loop.h"
#include "nvmf/target/backend/backend.h"

struct target;
struct target_port;
struct target_queue;
struct target_command;
struct target_controller;
struct peer_host;
struct target_namespace;
struct target_pair;

enum {
	TARGET_ADMIN_ENTRIES_MAX = 128,
	TARGET_IO_ENTRIES_MAX = 1024, /* MQES + 1 */
	TARGET_DATA_BYTES_MAX = 1 << 20, /* the most data of a command; a transport may have less */
	TARGET_PEER_BYTES = 96,
};

/* The direction of a command's data. */
enum target_direction {
	TARGET_NO_DATA,
	TARGET_TO_CONTROLLER,
	TARGET_FROM_CONTROLLER,
};

struct target_transport {
	const char *name; /* "tcp", "rdma" */
	uint8_t trtype; /* TRTYPE of discovery log entries: 3 (TCP) or 1 (RDMA) */
	uint32_t sgls; /* SGLS of Identify Controller */
	uint32_t data_bytes_max; /* the most data of a command: a power of two, at least 4,096 */

	/*
	 * Connect has asked for `entries`, from 2 to TARGET_IO_ENTRIES_MAX: at most `entries`
	 * commands are pending at once. Returns false if there is no memory, or the connection
	 * cannot have this number of entries; then Connect fails.
	 */
	bool (*set_entries)(struct target_queue *queue, uint16_t entries);

	void (*fetch)(struct target_command *command);
	void (*prepare)(struct target_command *command);
	void (*respond)(struct target_command *command);
	void (*close)(struct target_queue *queue);
};

/* What a command that the core has is waiting for. */
enum target_stage {
	TARGET_STAGE_WORKING, /* in fetch(), prepare(), a backend, or a function of the core */
	/* waits for its namespace, for lost commands of its host, or for a scratch buffer */
	TARGET_STAGE_PARKED,
	TARGET_STAGE_EVENT, /* an Asynchronous Event Request that waits for an event */
	TARGET_STAGE_FUSED, /* the first half of a pair, which waits for the second */
	TARGET_STAGE_DELAYED, /* error injection delays the command, or drops it (for ever) */
};

/* The first member of a transport's queue object. */
struct target_queue {
	/* Set by the transport before target_queue_open(). */
	const struct target_transport *transport;
	struct target_port *port;
	char peer[TARGET_PEER_BYTES]; /* the host's address, for messages */
	uint32_t in_capsule_bytes; /* the most in-capsule data of I/O commands: IOCCSZ * 16 - 64 */
	bool is_surplus; /* TARGET_ADMITTED_AS_SURPLUS: the core refuses Connect */

	/* The transport reads these after Connect. */
	bool is_connected;
	bool has_flow_control; /* SQ flow control. Without it TCP may set SUCCESS in C2HData */
	uint16_t qid;
	uint16_t entries; /* 0 before Connect */

	/* Only the core uses these. */
	struct target *target;
	struct target_controller *controller;
	struct peer_host *host; /* set by Connect; NULL again when peer_host.c frees it */
	struct list node; /* in controller->queues, or before Connect in target->opening */
	struct list connection; /* in target->connections, until connection_check() removes it */
	struct list commands; /* pending commands, in the order of arrival */
	struct loop_timer connect_timer;
	struct target_command *fused; /* the first half of a pair, which waits for the second */
	struct list scratch_parked; /* commands that wait for a scratch buffer */
	struct loop_work scratch_resume;
	uint16_t scratches; /* how many commands have a scratch buffer */
	uint16_t sqhd;
	uint16_t pending; /* how many commands the core has, AERs included */
	bool is_closing; /* the core has called close() */
	bool is_closed;
	/*
	 * How many pending commands have each value of the low 8 bits of the cid, to find
	 * conflicts.
	 */
	uint16_t cid_counts[256];
};

/* The first member of a transport's command object. */
struct target_command {
	/* Set by the transport before target_queue_command(). */
	struct nvme_sqe sqe;
	/* The length in the SGL descriptor, which may be any value up to 2^32 - 1; 0: no data. */
	uint32_t data_bytes;
	/* The data is in the capsule. */
	bool is_in_capsule;
	/*
	 * NVME_SUCCESS, or the status with which the core ends the command at once, because its
	 * descriptor or capsule is wrong.
	 */
	uint16_t refusal;

	/* Set by fetch() and prepare(). */
	uint8_t *data;

	/*
	 * Set by the core before respond(). Then `data_bytes` is the length of the data for the
	 * host, or 0.
	 */
	struct nvme_cqe cqe;
	enum target_direction direction;

	/* Only the core uses these, from target_queue_command() to respond(). */
	struct target_queue *queue;
	struct list node; /* in queue->commands */
	enum target_stage stage;
	/* In `parked` of the namespace or host, queue->scratch_parked, or controller->events. */
	struct list parked;
	struct list lost; /* in host->lost */
	bool is_at_work; /* a backend is executing it */
	void (*ready)(struct target_command *command);
	/* The next step, when the command no longer waits */
	void (*run)(struct target_command *command);
	struct target_namespace *ns; /* the command holds a reference */
	struct backend_request request;
	struct iovec iov; /* of `request`; the backend may change it */
	struct target_pair *pair; /* NULL unless the command is half of a fused pair */
	struct loop_timer delay; /* error injection: ends the delay of the command */
	struct loop_work step; /* runs the next step of a command that has several */
	uint32_t index; /* the present range of Dataset Management or Copy */
	uint64_t done_bytes; /* how much of that range, or of a Verify or Write Zeroes, is done */
	uint64_t target_offset; /* where Copy writes next, in bytes */
	uint8_t *scratch; /* a buffer of the core, for Compare, Copy and Verify */
	bool has_counted_scratch; /* `scratch` is one of queue->scratches */
};

/*
 * The decision of target_admit() on a connection.
 *
 * A host may open a connection while it has fewer connections than the target can still admit. The
 * address in `peer`, without the port number, identifies the host. The target admits a few
 * connections above that limit as surplus, so that the response to Connect can give the reason of
 * the refusal.
 */
enum target_admission {
	TARGET_ADMITTED,
	TARGET_ADMITTED_AS_SURPLUS,
	TARGET_NOT_ADMITTED,
};

/*
 * Decide on a connection, before memory is allocated for it. Unless the result is TARGET_ADMITTED,
 * the call counts a refusal, and the operator gets a sentence. A transport that can itself report
 * the reason to the host also refuses surplus connections.
 */
enum target_admission target_admit(struct target *target, const char *peer);

/*
 * The host has not sent the data of a write in time, so the transport ends the connection. This
 * gives the operator a sentence.
 */
void target_report_no_data(struct target_queue *queue);

/*
 * A host has connected to a port. The caller has set the fields of `queue` that the transport sets;
 * all others are 0. The core calls close() if no Connect succeeds in time.
 */
void target_queue_open(struct target *target, struct target_queue *queue);

/* The connection has ended (see above). */
void target_queue_closed(struct target_queue *queue);

/*
 * Pass requests of backends to the kernel now, before the loop does so. A transport calls this
 * after a batch of commands, but never from within a call by the core.
 */
void target_flush(struct target *target);

#endif
