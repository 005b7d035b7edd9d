/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_HOST_TRANSPORT_H
#define URNIC_NVMF_HOST_TRANSPORT_H

/*
 * A host's transport carries commands to a controller. TCP and RDMA implement this table.
 *
 * A transport queue is one connection: an Admin or I/O queue pair of NVMe. The host's core
 * (controller.h) calls:
 *
 *     open()     starts to connect. The transport calls connected() or lost() later
 *     submit()   hands a command to the transport, after connected(). At most `depth` commands are
 *                pending at once. The first command is Connect, which the core builds
 *     close()    ends the connection, even while it is being made
 *
 * The transport assigns the command identifier, and writes the bits of PSDT and the SGL descriptor
 * into the SQE. It decides whether data travels in the capsule. Each submitted command is done
 * exactly once: when its response has arrived, or in close().
 *
 * The core detects time-outs, so a transport needs no timers for commands. The core calls close()
 * to end a command at once. After close() neither the transport nor the controller touches the data
 * of any command of that queue, so the core may repeat the command on another queue.
 *
 * A transport queue lives on one loop. All calls and callbacks are on the loop's thread. The
 * transport never calls connected(), lost() or done() from within open() or submit(). The core
 * never calls close() from within connected(), lost() or done().
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "nvmf/common/list.h"
#include "nvmf/common/loop.h"

enum {
	HOST_SQE_BYTES = 64,
	HOST_CQE_BYTES = 16,
	HOST_REASON_BYTES = 256, /* a sentence for the user */
	HOST_DEPTH_MAX = 1024, /* pending commands of a queue */
};

/* How a command ended. */
enum host_end {
	/* `cqe` is the controller's response. If its status is success, all data has arrived. */
	HOST_COMPLETED,
	/*
	 * The controller has responded, but the data digest of data to the host was wrong. The core
	 * may repeat the command on the same queue.
	 */
	HOST_DAMAGED,
	/* Ended by close(), before a byte of the command has left this host. */
	HOST_UNSENT,
	/* Ended by close(): the controller may have executed the command. */
	HOST_LOST,
};

enum host_direction {
	HOST_NO_DATA,
	HOST_TO_CONTROLLER,
	HOST_FROM_CONTROLLER,
};

struct host_command {
	/*
	 * The submission queue entry as bytes. The core fills all but the command identifier, PSDT
	 * and the data pointer (bytes 24 to 39), which are 0 until submit().
	 */
	uint8_t sqe[HOST_SQE_BYTES];
	/* Memory of the caller, who does not touch it until done(). At most MDTS bytes. */
	void *data;
	uint32_t data_bytes; /* 0: no data */
	enum host_direction direction;
	/* Called once. From then on the caller owns the command, and may submit it again. */
	void (*done)(struct host_command *command, enum host_end end);

	/* Set by submit(); an Abort command names it. */
	uint16_t cid;
	/* Set before done() with HOST_COMPLETED. */
	uint8_t cqe[HOST_CQE_BYTES];

	/* Only the transport uses this, from submit() to done(). */
	struct list node;
	/* Only the core uses these. */
	struct list core_node;
	uint64_t deadline_ns;
};

struct host_transport;

/* The first member of each transport's queue object. */
struct host_queue {
	const struct host_transport *transport;
};

struct host_queue_settings {
	struct loop *loop;
	struct sockaddr_storage remote;
	struct sockaddr_storage local; /* ss_family 0: any address */

	uint16_t qid; /* 0: the Admin queue */
	uint16_t cntlid; /* for I/O queues: the result of Connect on the Admin queue */
	uint32_t depth; /* the most pending commands; equal to SQSIZE, which is 0's based */

	/*
	 * From Identify Controller. Both are 0 for the Admin queue, where a transport uses the
	 * values that its specification allows with every controller.
	 */
	uint32_t in_capsule_bytes; /* IOCCSZ * 16 - 64 */
	uint32_t sgls;
	uint32_t data_bytes_max; /* the most data of one command, at most MDTS */

	/* TCP only: which digests to request. The host refuses a controller that differs. */
	bool wants_header_digest;
	bool wants_data_digest;

	/* The connection is ready for Connect. */
	void (*connected)(void *context);
	/*
	 * The connection failed or ended; called at most once. Pending commands wait for close().
	 *
	 * `error`   A negative errno: -ECONNREFUSED, -EPROTO for a violation of the protocol,
	 *           -ECONNRESET and so on.
	 * `reason`  A sentence for the user, without full stop.
	 */
	void (*lost)(void *context, int error, const char *reason);
	void *context;
};

struct host_transport {
	const char *name; /* as users write it: "tcp" or "rdma" */
	uint8_t trtype; /* TRTYPE of discovery log entries: 3 (TCP) or 1 (RDMA) */

	/*
	 * Create a queue and start to connect.
	 *
	 * `settings`    The transport copies them.
	 * `ret_reason`  HOST_REASON_BYTES bytes; set on failure.
	 *
	 * Returns 0; or -errno, with nothing allocated.
	 */
	int (*open)(const struct host_queue_settings *settings, struct host_queue **ret_queue,
		char *ret_reason);

	/*
	 * Send a command. After lost() the transport keeps the command until close(), which ends it
	 * with HOST_UNSENT. submit() never fails, because open() has allocated all memory.
	 */
	void (*submit)(struct host_queue *queue, struct host_command *command);

	/*
	 * Handle the responses that have arrived, without sleeping, and call done() for their
	 * commands. A caller that polls calls this; the loop handles responses, too. Returns how
	 * many commands were done.
	 */
	unsigned (*poll)(struct host_queue *queue);

	/*
	 * End the connection at once, call done() for each pending command in the order of
	 * submission, and free the queue. No callback follows. Over TCP, the kernel drops the data
	 * that it has not sent yet.
	 */
	void (*close)(struct host_queue *queue);
};

extern const struct host_transport host_tcp;
extern const struct host_transport host_rdma;

#endif
