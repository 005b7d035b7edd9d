/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_TRANSPORT_H
#define URNIC_NVMF_TARGET_TRANSPORT_H

/*
 * A target's transport carries commands from hosts. TCP and RDMA implement `struct
 * target_transport`, and call the functions target_queue_*() and target_command_*(). One thread
 * runs a target: all calls in both directions are on the thread of its loop.
 *
 * A queue is one connection: an Admin or I/O queue pair of NVMe, and SQ and CQ have the same number
 * of entries. The transport owns its memory. Its life:
 *
 *     target_queue_open()      the connection is established: after ICReq, or at the CM request
 *     target_queue_command()   a command has arrived; the first one is Connect
 *     close()                  the core wants the connection to end. Returns at once
 *     target_queue_closed()    the connection has ended, asked for or not; called once, and never
 *                              from within close(), fetch(), prepare() or respond(). The core does
 *                              not touch the queue afterwards, apart from pending commands
 *
 * A command is memory of the transport. From target_queue_command() to respond() it belongs to the
 * core, and each command comes back by respond() exactly once, also after target_queue_closed().
 * Therefore the transport releases a queue when it is closed and its last command has come back.
 *
 * Data lies in one buffer per command, which the transport owns from respond() on:
 *
 *     to the controller     the core calls fetch(), and the transport moves the host's data to
 *                           `data`: bytes of the capsule, R2T and H2CData, or an RDMA READ
 *     from the controller   the core calls prepare(), and the transport sets `data` to a buffer of
 *                           `data_bytes`. The core fills all of it
 *
 * Both end by target_command_data_ready(), perhaps before they return. While a queue has no more
 * memory, its transport lets a command wait. A transport has enough memory for the two halves of a
 * fused pair, of `data_bytes_max` each, when no other command has any, also if its buffers are
 * contiguous. When the connection is lost, the transport calls target_command_data_ready() for each
 * command that waits in fetch() or prepare(), with NVME_SQ_DELETED, before target_queue_closed().
 *
 * respond() sends the data, if the command succeeded and has any towards the host, and then the
 * completion. On a closed queue it only takes the command back. The core sets SQHD.
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
	TARGET_DATA_BYTES_MAX = 1 << 20, /* of one command: MDTS, unless the transport has less */
	TARGET_PEER_BYTES = 96,
};

/* How the data of a command travels, as its SGL descriptor and capsule say. */
enum target_direction {
	TARGET_NO_DATA,
	TARGET_TO_CONTROLLER,
	TARGET_FROM_CONTROLLER,
};

struct target_transport {
	const char *name; /* "tcp", "rdma" */
	uint8_t trtype; /* of discovery log entries: 3, 1 */
	uint32_t sgls; /* of Identify Controller */
	uint32_t data_bytes_max; /* of a command: a power of two, from 4,096 */

	/*
	 * Connect has granted `entries` to the queue, of 2 to TARGET_IO_ENTRIES_MAX: at most
	 * `entries` commands are pending at once. False: Connect fails, for lack of memory or
	 * because the connection was made for another number.
	 */
	bool (*set_entries)(struct target_queue *queue, uint16_t entries);

	void (*fetch)(struct target_command *command);
	void (*prepare)(struct target_command *command);
	void (*respond)(struct target_command *command);
	void (*close)(struct target_queue *queue);
};

/* Where the core has a command. */
enum target_stage {
	TARGET_STAGE_WORKING, /* in fetch(), prepare(), a backend, or in the hands of a handler */
	TARGET_STAGE_PARKED, /* waits for its namespace, or for lost commands of its host */
	TARGET_STAGE_EVENT, /* an Asynchronous Event Request that waits for an event */
	TARGET_STAGE_FUSED, /* the first half of a pair, which waits for the second */
	TARGET_STAGE_DELAYED, /* by error injection; forever if it is dropped */
};

/* The head of a transport's queue object. */
struct target_queue {
	/* Set by the transport before target_queue_open(). */
	const struct target_transport *transport;
	struct target_port *port;
	char peer[TARGET_PEER_BYTES]; /* the host's address, for messages */
	uint32_t in_capsule_bytes; /* of I/O commands: IOCCSZ * 16 - 64 */
	bool is_surplus; /* as target_admit() has said: Connect is to be refused */

	/* The transport reads these after Connect. */
	bool is_connected;
	bool has_flow_control; /* of the submission queue. Without it TCP may use C2H SUCCESS */
	uint16_t qid;
	uint16_t entries; /* 0 before Connect */

	/* The core's. */
	struct target *target;
	struct target_controller *controller;
	struct peer_host *host; /* after Connect; it stays for what is at work */
	struct list node; /* of the controller, or of the target before Connect */
	struct list connection; /* of the target, until it is closed and nothing is pending */
	struct list commands; /* pending, in the order of arrival */
	struct loop_timer connect_timer;
	struct target_command *fused; /* the first half of a pair, which waits for the second */
	uint16_t sqhd;
	uint16_t pending; /* commands that the core has, AERs included */
	bool is_closing; /* the core has called close() */
	bool is_closed;
	/* Pending commands by the low bits of their identifiers: 0 means no conflict. */
	uint16_t cid_counts[256];
};

/* The head of a transport's command object. */
struct target_command {
	/* Set by the transport before target_queue_command(). */
	struct nvme_sqe sqe;
	/* The length that the SGL descriptor gives; 0: no data. May be anything up to 2^32 - 1. */
	uint32_t data_bytes;
	/* Part of the data, or all of it, was in the capsule. */
	bool is_in_capsule;
	/*
	 * NVME_SUCCESS, or how the command ends at once because its descriptor or capsule is wrong.
	 */
	uint16_t refusal;

	/* Set by fetch() and prepare(). */
	uint8_t *data;

	/* Set by the core before respond(). `data_bytes` is then what goes to the host, or 0. */
	struct nvme_cqe cqe;
	enum target_direction direction;

	/* The core's, from target_queue_command() to respond(). */
	struct target_queue *queue;
	struct list node; /* of queue->commands */
	enum target_stage stage;
	struct list parked; /* of the namespace, host or controller, as `stage` says */
	struct list lost; /* of the host */
	bool is_at_work; /* in a backend */
	void (*ready)(struct target_command *command);
	void (*run)(struct target_command *command);
	struct target_namespace *ns; /* referenced */
	struct backend_request request;
	struct iovec iov; /* the backend may change it */
	struct target_pair *pair; /* of fused commands */
	struct loop_timer delay; /* of error injection */
	struct loop_work step; /* the next one of a command that takes several */
	uint32_t index; /* the range at work, of Dataset Management and Copy */
	uint64_t done_bytes; /* of that range, or of Verify and Write Zeroes */
	uint64_t target_offset; /* of Copy */
	uint8_t *scratch; /* of Compare, Copy and Verify: a buffer of the core */
};

/*
 * Whether the target admits a connection.
 *
 * A host may have no more connections than the target has left for all other hosts. The address in
 * `peer`, without the port number, identifies the host. The target admits a few connections above
 * that limit as surplus, so that the response to Connect can give the reason of the refusal.
 */
enum target_admission {
	TARGET_ADMITTED,
	TARGET_ADMITTED_AS_SURPLUS,
	TARGET_NOT_ADMITTED,
};

/*
 * Decide on a connection before it takes memory. A connection that is not admitted is counted, and
 * the operator gets a sentence. A transport that can report the reason by itself refuses a surplus
 * connection, too.
 */
enum target_admission target_admit(struct target *target, const char *peer);

/*
 * A connection of a host to a port. The caller has set the head's first fields; all others are 0.
 * The core calls close() if no Connect succeeds in time.
 */
void target_queue_open(struct target *target, struct target_queue *queue);

/*
 * A command has arrived. Respond, fetch, prepare and close may be called before this returns.
 *
 * False: the host has more commands pending than the queue has entries, and the connection is to
 * end as after a violation of the protocol. The core has not taken the command.
 */
bool target_queue_command(struct target_queue *queue, struct target_command *command);

/* After fetch() or prepare(). A `status` but NVME_SUCCESS: the data is missing or damaged. */
void target_command_data_ready(struct target_command *command, uint16_t status);

/* The connection has ended. */
void target_queue_closed(struct target_queue *queue);

/*
 * Hand requests of backends to the kernel now, before the loop does so by itself: for a transport
 * that has a batch of commands behind it. Not from within a call of the core.
 */
void target_flush(struct target *target);

#endif
