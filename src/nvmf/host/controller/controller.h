/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host's association with one controller. `struct host_controller` is the host's side of it: the
 * queues, the requests, and the recovery after a lost connection.
 *
 * The object connects after its creation, in this order: Admin queue, Connect, properties, CC.EN,
 * CSTS.RDY, Identify, number of queues, events, I/O queues (NVMe base 2.0, sections 3.3 and 3.5).
 * Then it is live. If a connection is lost, a command does not end in time, or a Keep Alive is not
 * answered, the object closes all queues and makes a new association. The first attempt is at once,
 * later attempts follow after delays that double up to `reconnect_delay_ns`.
 *
 *     HOST_CONNECTING    the object has never been live; the first failure leads to HOST_FAILED,
 *                        unless `keeps_trying` is set
 *     HOST_LIVE          the object sends requests
 *     HOST_RECONNECTING  requests wait
 *     HOST_FAILED        the object makes no more attempts; each request is done with -ENOTCONN
 *
 * Requests wait while the controller is not live. After `fast_fail_ns` without a connection, both
 * waiting and new requests are done with -ENOTCONN. After `loss_ns` the state becomes HOST_FAILED.
 *
 * If a connection is lost after a request was sent, the controller may have executed the request or
 * not. If `is_repeatable` is set, the object sends the request again on the next association, as a
 * Linux host does. Otherwise the request is done with -EIO. Reads, writes, flushes, trims and
 * zeroes are repeatable, because the result of overlapping requests is undefined until one of them
 * is done. Each request is done exactly once.
 *
 * If `holds_io` is set, I/O requests also wait each time the object becomes live. The caller then
 * checks whether the namespace is still the same, and calls host_allow_io() or host_refuse_io().
 * Admin requests do not wait for that.
 *
 * A repeatable request that ends with an error status is sent again, up to HOST_REPEATS_MAX times,
 * unless the controller has set DNR ("do not retry").
 *
 * The object sends an Abort for a request that exceeds its time-out. If the Abort does not end the
 * request, the object makes a new association.
 *
 * All calls and callbacks are on the loop's thread. done() may run inside host_submit().
 */
#ifndef URNIC_NVMF_HOST_CONTROLLER_H
#define URNIC_NVMF_HOST_CONTROLLER_H

#include "nvmf/host/controller/transport.h"

enum {
	HOST_NQN_BYTES = 224, /* 223 and a NUL */
	HOST_IDENTIFY_BYTES = 4096,
	HOST_REPEATS_MAX = 5, /* equal to nvme_max_retries of Linux */
	HOST_IO_QUEUES_MAX = 64,
	HOST_DATA_BYTES_MAX = 1 << 20, /* the most data of one command, even if MDTS allows more */
};

/* A time of 0 in the settings means the default here. */
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
	struct sockaddr_storage local; /* ss_family 0: any address */
	char subnqn[HOST_NQN_BYTES];
	char hostnqn[HOST_NQN_BYTES];
	uint8_t hostid[16]; /* not all zero */

	unsigned io_queues; /* 0: only Admin commands, as for a discovery controller */
	uint32_t io_depth; /* the most pending commands of an I/O queue; 0: 128 */
	bool wants_header_digest;
	bool wants_data_digest;

	uint32_t kato_ms; /* 0: the default; UINT32_MAX: no keep alive */
	uint64_t admin_timeout_ns;
	uint64_t io_timeout_ns;
	uint64_t connect_timeout_ns; /* from the start of an attempt until HOST_LIVE */
	uint64_t reconnect_delay_ns; /* the longest delay between two attempts */
	uint64_t loss_ns; /* HOST_NEVER_NS: tries for ever */
	uint64_t fast_fail_ns; /* 0 or HOST_NEVER_NS: requests wait until `loss_ns` */
	bool holds_io; /* I/O requests wait for host_allow_io() */
	bool keeps_trying; /* make further attempts even if the first one fails */

	/*
	 * Called when the state has changed; host_controller_reason() says why. Neither changed()
	 * nor event() may be NULL.
	 */
	void (*changed)(void *context, enum host_state state);
	/*
	 * Called for an asynchronous event: `result` is dword 0 of its completion (NVMe base 2.0,
	 * section 5.2).
	 */
	void (*event)(void *context, uint32_t result);
	void *context;
};

struct host_queue_state; /* the controller's state of one queue */

struct host_request {
	/* The caller fills sqe (sqe.h), data, data_bytes and direction. */
	struct host_command command;
	bool is_admin;
	bool is_repeatable;
	uint64_t timeout_ns; /* 0: the time-out in the settings; HOST_NEVER_NS: none */
	/*
	 * Called once; from then on the request belongs to the caller again.
	 *
	 * `error`  0: the controller has answered, and `status` is its status, 0 for success.
	 *          -ENOTCONN: the request was not sent, and will not be. -EIO: the request was sent
	 *          and the connection was lost, so the controller may have executed it; or the
	 *          request has more data than MDTS allows since a reconnect; or the caller has
	 *          refused I/O.
	 */
	void (*done)(struct host_request *request, int error);
	uint16_t status; /* DNR (bit 14), M, CRD, status code type (10:8), code (7:0) */
	uint64_t result; /* dwords 0 and 1 of the CQE */

	/* Only the host controller uses these, from host_submit() to done(). */
	struct host_queue_state *queue;
	struct list node;
	unsigned repeats;
	bool is_aborting;
	bool is_own; /* a request of the host controller itself, which is never repeated */
};

enum {
	HOST_STATUS_MASK = 0x7ff, /* status code type and status code */
	HOST_STATUS_TYPE = 0x700,
	HOST_STATUS_DNR = 0x4000,
	HOST_STATUS_TRANSIENT = 0x22, /* Transient Transport Error */
};

struct host_controller;

/*
 * Create the object, which begins to connect. Returns 0, -ENOMEM, or -EINVAL for settings out of
 * range. This call never calls changed().
 */
int host_controller_create(
	const struct host_controller_settings *settings, struct host_controller **ret_controller);

/*
 * Close all queues; each pending request is done with -ENOTCONN or -EIO. Callbacks may not call
 * this. `controller` may be NULL.
 */
void host_controller_destroy(struct host_controller *controller);

void host_submit(struct host_controller *controller, struct host_request *request);

/*
 * Only if `holds_io` is set. host_allow_io() sends the I/O requests that wait, and later ones at
 * once. host_refuse_io() ends I/O requests with -EIO: those that wait, those that would be
 * repeated, and later ones. Each call has effect until the other one is called, or the object
 * becomes live again.
 */
void host_allow_io(struct host_controller *controller);
void host_refuse_io(struct host_controller *controller);

/*
 * Handle the responses that have arrived, without sleeping. If there are none, look for them a few
 * times more. Returns how many commands were done.
 */
unsigned host_controller_poll(struct host_controller *controller);

enum host_state host_controller_state(const struct host_controller *controller);

/* Why the last connection or attempt ended: a sentence without full stop; "" if none has ended. */
const char *host_controller_reason(const struct host_controller *controller);
int host_controller_error(const struct host_controller *controller);

/*
 * The bytes of Identify Controller, and the values that the controller has granted. The caller asks
 * for them only after HOST_LIVE was reached once.
 */
const uint8_t *host_controller_identity(const struct host_controller *controller);
uint16_t host_controller_cntlid(const struct host_controller *controller);
unsigned host_controller_io_queues(const struct host_controller *controller);
uint32_t host_controller_io_depth(const struct host_controller *controller);
/* The most data of one command in bytes: the smaller of MDTS and HOST_DATA_BYTES_MAX. */
uint32_t host_controller_data_bytes_max(const struct host_controller *controller);
/* How often the controller has become live again after a loss. */
uint64_t host_controller_reconnects(const struct host_controller *controller);

/* Write a sentence for `status`, without full stop, into `text`; returns `text`. */
const char *host_status_text(uint16_t status, char *text, size_t text_bytes);

#endif
