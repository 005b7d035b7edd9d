/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host's association with one controller: its queues, and what happens when they are lost.
 *
 * A controller connects by itself: Admin queue, Connect, properties, CC.EN, CSTS.RDY, Identify,
 * number of queues, events, I/O queues (NVMe over Fabrics, in NVMe base 2.0 sections 3.3 and 3.5).
 * Then it is live. When a connection is lost, a command does not end in time, or a Keep Alive is
 * not answered, all queues are closed and a new association is made: first at once, then after
 * delays that double up to `reconnect_delay_ns`.
 *
 *     HOST_CONNECTING    not live yet; a failure ends it, unless `keeps_trying`
 *     HOST_LIVE          requests are sent
 *     HOST_RECONNECTING  requests wait
 *     HOST_FAILED        given up; each request is done with -ENOTCONN
 *
 * Requests wait while the controller is not live. After `fast_fail_ns` without connection they are
 * done with -ENOTCONN, as are new ones; after `loss_ns` the controller has failed.
 *
 * What a lost connection means for a request that was sent: the controller may have executed it or
 * not. If `is_repeatable`, it is sent again on the next association, as a Linux host does. Reads,
 * writes, flushes, trims and zeroes are repeatable, because nobody can rely on what overlapping
 * requests do before one of them is done. A request that is not repeatable is done with -EIO. Each
 * request is done exactly once.
 *
 * A request with an error status is sent again up to HOST_REPEATS_MAX times, if it is repeatable
 * and the controller does not say "do not retry".
 *
 * A request that takes longer than its time is aborted, and if that does not end it, the
 * association is made anew.
 *
 * All calls and callbacks are on the loop's thread. done() may run inside host_submit().
 */
#ifndef URNIC_NVMF_HOST_CONTROLLER_H
#define URNIC_NVMF_HOST_CONTROLLER_H

#include "nvmf/host/controller/transport.h"

enum {
	HOST_NQN_BYTES = 224, /* 223 and the end */
	HOST_IDENTIFY_BYTES = 4096,
	HOST_REPEATS_MAX = 5, /* Linux's nvme_max_retries */
	HOST_IO_QUEUES_MAX = 64,
	HOST_DATA_BYTES_MAX = 1 << 20, /* of one command, if the controller allows more */
};

/* Times; 0 in the settings stands for these. */
#define HOST_KATO_MS_DEFAULT            5000u
#define HOST_ADMIN_TIMEOUT_NS_DEFAULT   60000000000u
#define HOST_IO_TIMEOUT_NS_DEFAULT      30000000000u
#define HOST_CONNECT_TIMEOUT_NS_DEFAULT 10000000000u
#define HOST_RECONNECT_NS_DEFAULT       10000000000u
#define HOST_LOSS_NS_DEFAULT            600000000000u
#define HOST_NEVER_NS                   UINT64_MAX

enum host_state {
	HOST_CONNECTING,
	HOST_LIVE,
	HOST_RECONNECTING,
	HOST_FAILED,
};

struct host_controller_settings {
	struct loop *loop;
	const struct host_transport *transport;
	struct sockaddr_storage remote;
	struct sockaddr_storage local; /* ss_family 0: any */
	char subnqn[HOST_NQN_BYTES];
	char hostnqn[HOST_NQN_BYTES];
	uint8_t hostid[16]; /* not all zero */

	unsigned io_queues; /* 0: for discovery and administration only */
	uint32_t io_depth; /* commands at once per I/O queue; 0: 128 */
	bool wants_header_digest;
	bool wants_data_digest;

	uint32_t kato_ms; /* 0: the default; UINT32_MAX: no keep alive */
	uint64_t admin_timeout_ns;
	uint64_t io_timeout_ns;
	uint64_t connect_timeout_ns; /* for the whole sequence */
	uint64_t reconnect_delay_ns; /* the longest delay between two attempts */
	uint64_t loss_ns; /* HOST_NEVER_NS: tries for ever */
	uint64_t fast_fail_ns; /* 0 or HOST_NEVER_NS: requests wait until `loss_ns` */
	bool keeps_trying; /* also when the first attempt fails */

	/* The state has changed; host_controller_reason() says why. Neither may be NULL. */
	void (*changed)(void *context, enum host_state state);
	/* An asynchronous event: dword 0 of its completion (NVMe base 2.0, section 5.2). */
	void (*event)(void *context, uint32_t result);
	void *context;
};

struct host_queue_state; /* a queue, as the controller sees it */

struct host_request {
	/* The caller fills sqe (sqe.h), data, data_bytes and direction. */
	struct host_command command;
	bool is_admin;
	bool is_repeatable;
	uint64_t timeout_ns; /* 0: the controller's; HOST_NEVER_NS: none */
	/*
	 * Called once; then the request is the caller's again.
	 *
	 * `error`  0: the controller has answered, and `status` says how: 0 for success. -ENOTCONN:
	 *          the controller was given up before the request was answered. -EIO: the
	 *          connection was lost, and a request that is not repeatable had been sent.
	 */
	void (*done)(struct host_request *request, int error);
	uint16_t status; /* DNR (bit 14), M, CRD, status code type (10:8), code (7:0) */
	uint64_t result; /* dwords 0 and 1 of the CQE */

	/* The controller's own, from host_submit() to done(). */
	struct host_queue_state *queue;
	struct list node;
	unsigned repeats;
	bool is_aborting;
	bool is_own; /* the controller's own request: never sent again */
};

enum {
	HOST_STATUS_MASK = 0x7ff, /* type and code */
	HOST_STATUS_TYPE = 0x700,
	HOST_STATUS_DNR = 0x4000,
	HOST_STATUS_TRANSIENT = 0x22, /* generic: Transient Transport Error */
};

struct host_controller;

/*
 * Begin to connect. 0, or -ENOMEM, or -EINVAL for settings out of range. changed() is not called
 * from here.
 */
int host_controller_create(
	const struct host_controller_settings *settings, struct host_controller **ret_controller);

/* Close all queues; each pending request is done with -ENOTCONN or -EIO. Not from a callback. */
void host_controller_destroy(struct host_controller *controller);

void host_submit(struct host_controller *controller, struct host_request *request);

/* Look for responses without sleeping. Returns the number of commands that were done. */
unsigned host_controller_poll(struct host_controller *controller);

enum host_state host_controller_state(const struct host_controller *controller);

/* Why the last connection or attempt ended, in a sentence without full stop; "" if none did. */
const char *host_controller_reason(const struct host_controller *controller);
int host_controller_error(const struct host_controller *controller);

/* Once it has been live: the bytes of Identify Controller, and what follows from them. */
const uint8_t *host_controller_identity(const struct host_controller *controller);
uint16_t host_controller_cntlid(const struct host_controller *controller);
unsigned host_controller_io_queues(const struct host_controller *controller);
uint32_t host_controller_io_depth(const struct host_controller *controller);
/* The most data of one command: MDTS, but HOST_DATA_BYTES_MAX at most. */
uint32_t host_controller_data_bytes_max(const struct host_controller *controller);
/* How often the association was made anew. */
uint64_t host_controller_reconnects(const struct host_controller *controller);

/* A sentence for a status, without full stop. */
const char *host_status_text(uint16_t status, char *text, size_t text_bytes);

#endif
