/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_HOST_TRANSPORT_H
#define URNIC_NVMF_HOST_TRANSPORT_H

/*
 * A host's transport carries commands to a controller. TCP and RDMA implement this table.
 *
 * A transport queue is one connection: an Admin or I/O queue pair of NVMe. The host's core
 * (controller.h) makes it, and has these duties:
 *
 *     open()     starts to connect. The transport calls connected(), or lost(), later
 *     submit()   hands over a command, after connected(). At most `depth` are pending at once. The
 *                first one is Connect, which the core builds
 *     close()    ends the connection. It also takes back a queue that is still connecting
 *
 * The transport assigns the command identifier, and writes the bits of PSDT and the SGL descriptor
 * into the SQE. It decides whether data travels in the capsule. Each command that was submitted is
 * done exactly once. Either its response has come, or close() ends it.
 *
 * The core detects time-outs; a transport has timers for its own disconnection only. A command that
 * must end at once ends by close(): when that returns, neither the transport nor the controller
 * touches the data of any command again. So the core may then repeat the command on another queue.
 *
 * A transport queue lives on one loop. All calls and callbacks are on the loop's thread. The
 * transport calls connected(), lost() and done() never from within open() or submit(). The core
 * calls close() neither from one of them nor from done().
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
	HOST_DEPTH_MAX = 1024, /* commands of a queue at once */
};

/* How a command ended. */
enum host_end {
	/* `cqe` is the controller's response. If that is success, all data has arrived. */
	HOST_COMPLETED,
	/*
	 * The controller has responded, but the data was damaged on its way to the host: the
	 * command may be repeated on the same queue.
	 */
	HOST_DAMAGED,
	/* Ended by close(): nothing of the command has left this host. */
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
	/* The caller's, untouched by it until done(). At most the controller's MDTS. */
	void *data;
	uint32_t data_bytes; /* 0: no data */
	enum host_direction direction;
	/* Called once. Then the command is the caller's again, who may submit it again. */
	void (*done)(struct host_command *command, enum host_end end);

	/* Set by submit(): what Abort names. */
	uint16_t cid;
	/* Set before done() with HOST_COMPLETED. */
	uint8_t cqe[HOST_CQE_BYTES];

	/* The transport's own, from submit() to done(). */
	struct list node;
	/* The core's own. */
	struct list core_node;
	uint64_t deadline_ns;
};

struct host_transport;

/* The head of a transport's own queue object. */
struct host_queue {
	const struct host_transport *transport;
};

struct host_queue_settings {
	struct loop *loop;
	struct sockaddr_storage remote;
	struct sockaddr_storage local; /* ss_family 0: any address */

	uint16_t qid; /* 0: Admin */
	uint16_t cntlid; /* of I/O queues: from the Connect of the Admin queue */
	uint32_t depth; /* commands at once: SQSIZE, which is 0's based, has the same number */

	/*
	 * From Identify Controller; 0 on the Admin queue, where a transport uses what its
	 * specification grants to every controller.
	 */
	uint32_t in_capsule_bytes; /* IOCCSZ * 16 - 64 */
	uint32_t sgls;
	uint32_t data_bytes_max; /* of one command: MDTS in bytes, or the core's own limit */

	/* TCP only: digests to ask for. A controller that answers otherwise is refused. */
	bool wants_header_digest;
	bool wants_data_digest;

	/* The connection is ready for Connect. */
	void (*connected)(void *context);
	/*
	 * The connection failed or ended; called once at most. Pending commands wait for close().
	 *
	 * `error`   Negative errno: -ECONNREFUSED, -EPROTO for a violation of the protocol,
	 *           -ECONNRESET and so on.
	 * `reason`  A sentence for the user, without full stop.
	 */
	void (*lost)(void *context, int error, const char *reason);
	void *context;
};

struct host_transport {
	const char *name; /* "tcp", "rdma": what users write */
	uint8_t trtype; /* of discovery log entries: 3, 1 */

	/*
	 * Make a queue and start to connect.
	 *
	 * `settings`    Copied.
	 * `ret_reason`  HOST_REASON_BYTES; set on failure.
	 *
	 * 0, or -errno with nothing left behind.
	 */
	int (*open)(const struct host_queue_settings *settings, struct host_queue **ret_queue,
		char *ret_reason);

	/*
	 * Send a command. After lost() the transport keeps it until close(), which ends it with
	 * HOST_UNSENT. Never fails: an object has all the memory that it needs since open().
	 */
	void (*submit)(struct host_queue *queue, struct host_command *command);

	/*
	 * Look for responses now, without sleeping, and call done() for them: the busy-poll mode.
	 * The sleeping mode works beside it. Returns the number of commands that were done.
	 */
	unsigned (*poll)(struct host_queue *queue);

	/*
	 * End the connection at once, call done() for each pending command in the order of
	 * submission, and free the queue. Nothing is called back afterwards. Data that TCP has not
	 * sent yet is dropped, not sent later.
	 */
	void (*close)(struct host_queue *queue);
};

extern const struct host_transport host_tcp;
extern const struct host_transport host_rdma;

#endif
