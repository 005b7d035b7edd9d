/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection identifier in the library: the public structure, the connection manager's
 * connection, and its possible events.
 *
 * Both the program's calls and the connection manager cause events. An identifier embeds one entry
 * per type of event for its channel's queue, so posting allocates nothing. Details of an event stay
 * in the identifier until the program takes the event.
 *
 * A listener has as many identifiers in reserve as its backlog. A request takes one of these
 * identifiers. When the program takes the request, rdma_get_cm_event() puts a new identifier into
 * the reserve.
 *
 * References: the program has one until rdma_destroy_id(); the connection manager has another until
 * the connection's protocol has ended.
 *
 * Lock: id_lock guards id->id.channel while events are posted, the lists of requests, and reference
 * counts. os/lock_order.def says in which order it is taken.
 */
#ifndef URNIC_FRONT_RDMACM_ID_ID_H
#define URNIC_FRONT_RDMACM_ID_ID_H

#include "base/list.h"
#include "connection/nic_cm.h"
#include "connection/nic_iwcm.h"
#include "event/event_queue.h"
#include "front/rdmacm/abi.h"
#include "nic/nic_fabric_query.h"
#include "nic/nic_failure.h"

enum {
	/* Events that older headers do not name. */
	ID_EVENT_ADDRINFO_RESOLVED = RDMA_CM_EVENT_TIMEWAIT_EXIT + 1,
	ID_EVENT_ADDRINFO_ERROR,
	ID_EVENT_USER,
	ID_EVENT_INTERNAL,
	ID_EVENT_COUNT,
	/* The limit of the kernel's rdma_ucm; a backlog of 0 stands for this limit, too */
	ID_BACKLOG_MAX = 1024,
	ID_ACK_TIMEOUT = 17, /* the code of 0.54 s, which the kernel's rdma_cm uses on Ethernet */
	ID_HOP_LIMIT = 64,
	ID_RETRY_COUNT_MAX = 7,
};

struct device;
struct multicast_group;
struct user_event;

struct channel {
	struct rdma_event_channel public; /* first, because programs hold its address */
	struct event_queue queue;
	_Atomic uint32_t readers; /* number of threads in rdma_get_cm_event() */
	_Atomic pid_t taker; /* the thread that was last in rdma_get_cm_event(); 0: none */
};

/* How far the connection of an identifier has come. */
enum id_state {
	ID_IDLE,
	ID_BOUND,
	/*
	 * The kernel resolves the next hop; on InfiniBand, the subnet administrator resolves the
	 * LID
	 */
	ID_RESOLVING,
	ID_ADDRESS_RESOLVED,
	ID_ROUTING, /* on InfiniBand, the subnet administrator looks for the path */
	ID_ROUTE_RESOLVED,
	ID_LISTENING,
	ID_CONNECTING, /* active: REQ sent */
	ID_RESPONDED, /* active: the peer has accepted; the program calls rdma_establish() */
	ID_REQUESTED, /* passive: the REQ has arrived; the program accepts or rejects */
	ID_ACCEPTED, /* passive: REP sent, the RTU has not arrived */
	ID_CONNECTED,
	ID_OVER, /* rejected, disconnected, failed */
};

struct id_event {
	struct event event;
	struct id *id;
	enum rdma_cm_event_type type;
	int status; /* 0, -errno, or the reason of a REJ */
	struct multicast_group
		*group; /* the group of a multicast event; NULL for any other event */
	struct user_event *user; /* the user event that contains this event, or NULL */
};

/* The agreed attributes of a connection, in host byte order. */
struct id_agreement {
	/* Each side chooses the PSN with which the other side begins to send (IBTA 12.7). */
	uint32_t rq_psn; /* this side's choice: the first PSN that the peer sends */
	uint32_t sq_psn; /* the peer's choice: the first PSN that this side sends */
	uint32_t remote_qpn;
	uint32_t remote_qkey; /* only for a datagram service */
	/* READs and atomics that this side's responder executes at once */
	uint8_t responder_resources;
	uint8_t initiator_depth; /* READs and atomics that this side's requester has outstanding */
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t ack_timeout;
	uint8_t path_mtu; /* enum ibv_mtu */
	bool has_srq;
};

struct id {
	struct rdma_cm_id id; /* first, because programs hold its address */
	/* The program's calls change the state. The thread of watch.c reads it, too. */
	_Atomic(enum id_state) state;
	struct list in_ids; /* in watched_ids of watch.c */
	struct list in_bucket; /* in a bucket of id_buckets of watch.c */
	struct list in_resolving; /* in ids_waiting of resolver.c */
	uint64_t resolve_until_ns; /* resolver.c reports a failure at this time */
	/* InfiniBand: the query in the states ID_RESOLVING and ID_ROUTING */
	struct nic_fabric_query query;
	uint64_t epoch; /* nic_cm_epoch() at creation: a forked child has another one */
	uint32_t references; /* guarded by id_lock */
	/* The identifier has a private channel, and each call waits for the event that it causes */
	bool is_sync;
	bool has_conn; /* `conn` is created */
	bool is_iwarp; /* `device` is an iWARP device, and `iw` is used in place of `conn` */
	struct cm_conn conn;
	struct agent_claim claim;
	struct device *device;
	uint32_t gid_index; /* the entry of the local address in the GID table of `device` */
	struct cm_path path;
	/* InfiniBand, active side: values of the subnet administrator's answer; 0: unknown */
	uint8_t path_mtu;
	uint8_t path_rate;
	struct id_agreement agreement;
	struct nic_iw_conn iw; /* only if is_iwarp */
	uint32_t iw_qpn; /* active side, iWARP: the number of the queue pair to connect */

	/* Options */
	uint8_t tos;
	uint8_t ack_timeout;
	bool is_reusable;
	bool is_family_only;

	/* Listening */
	struct cm_listener listener;
	/* Requests that the program has not taken, linked by in_requests; guarded by id_lock */
	struct list requests;
	struct list in_requests; /* in listen->requests or listen->iw_spares */
	struct id *listen; /* passive: the listener to which the request came */
	/* Passive: the program has accepted, or is about to; guarded by id_lock */
	bool is_accepted;
	/*
	 * Number of identifiers that requests took from the reserve and that are to be replaced;
	 * guarded by id_lock
	 */
	uint32_t spares_missing;
	struct nic_iw_listener iw_listener;
	/* Number of identifiers that requests took from iw_spares; guarded by id_lock */
	uint32_t iw_spares_missing;
	/* The reserve for requests over iWARP, linked by in_requests; guarded by id_lock */
	struct list iw_spares;

	/* Events */
	struct id_event events[ID_EVENT_COUNT];
	struct cm_message request; /* passive: the peer's REQ or SIDR_REQ */
	struct cm_message response; /* REP, REJ or SIDR_REP */
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_taken; /* how many events the program has taken; guarded by `mutex` */
	/* How many events the program has acknowledged; guarded by `mutex` */
	uint32_t events_acked;

	/* Endpoints */
	/*
	 * For a passive endpoint, the attributes of each queue pair that rdma_get_request()
	 * creates; otherwise NULL
	 */
	struct ibv_qp_init_attr *qp_init;
	uint8_t *connect_data; /* private data from rdma_getaddrinfo(), to be sent in the REQ */
	size_t connect_bytes;
	/* Of struct multicast_group: the multicast groups that the identifier has joined */
	struct list groups;

	/* id_lock guards the members below. */
	/* Of struct user_event: the user events that the program has not taken */
	struct list user_events;
	struct rdma_addrinfo *addrinfo; /* what the next rdma_query_addrinfo() returns, or NULL */
	bool is_resolving_addrinfo;
};

extern pthread_mutex_t id_lock;

static inline struct id *id_of(struct rdma_cm_id *public)
{
	return container_of(public, struct id, id);
}

/*
 * The identifier that a call names. NULL with errno: EINVAL for a null pointer, ENOENT for a
 * destroyed identifier. The function does not access a destroyed identifier. perftest passes one
 * when its server was not ready.
 */
struct id *id_find(struct rdma_cm_id *public);

static inline bool id_is_datagram(const struct id *id)
{
	return id->id.qp_type == IBV_QPT_UD;
}

/* Return -1 and set errno, as this ABI reports errors. `error` is positive. */
static inline int fail_quietly(int error)
{
	errno = error;
	return -1;
}

/*
 * fail_quietly() that also reports the failure, with the reason that a check has noted
 * (id_cause()). `call` is the function of the ABI, whose name is in the report.
 */
#define fail_errno(error) fail_call(__func__, error)

static inline int fail_call(const char *call, int error)
{
	nic_failure_end(call, error);
	return fail_quietly(error);
}

/* Note why the call of this thread is about to fail; returns the reason's errno, positive. */
static inline int id_cause(enum reason reason)
{
	return nic_failure_cause(reason);
}

/* `rc` is 0 or -errno. If it has the errno of `reason`, note `reason`. Returns `rc`. */
static inline int id_cause_if(int rc, enum reason reason)
{
	return rc < 0 ? -nic_failure_cause_if(-rc, reason) : rc;
}

/* Drop a reference. The last one frees the identifier. */
void id_unref(struct id *id);

/*
 * Keep the reason why the identifier fails, with its remote address, or with its local address if
 * it has no remote one. Events that report a failure keep the reason themselves (event_cause.h).
 */
void id_report_failure(const struct id *id, enum reason reason, const char *why);

/* What the connection manager reports (struct cm_ops); `event->conn->user` is a struct id. */
void id_take_event(const struct cm_event *event);

/* Queue an event for the program. */
void id_post(struct id *id, enum rdma_cm_event_type type, int status);

/*
 * id_post_event() posts an event that need not be in id->events. id_post_locked() is
 * id_post_event() for a caller that has locked id_lock. id_forget_event() removes an event from the
 * queue, if the event is there. id_move_event() moves a waiting event to another channel's queue;
 * id_lock is locked.
 */
void id_post_event(struct id *id, struct id_event *event, int status);
void id_post_locked(struct id *id, struct id_event *event, int status);
void id_forget_event(struct id *id, struct id_event *event);
void id_move_event(struct event *event, struct event_queue *from, struct event_queue *to);

/*
 * Passive side. Until the program has accepted, id_post_locked() drops the events of a request, but
 * for the request itself and the program's own. So does the kernel's rdma_ucm, and programs
 * (valkey-server) rely on it. Of a request whose peer is gone, rdma_accept() fails.
 *
 * rdma_accept() sets `is_accepted`, and clears it when it fails, which also drops what was posted
 * in between.
 */
void id_set_accepted(struct id *id, bool is_accepted);

/* Acknowledge the event that a synchronous call has left in the identifier. */
void id_ack_event(struct id *id);

/*
 * If the identifier is synchronous, wait for the event that the current call has caused. Returns 0,
 * or -1 with errno.
 */
int id_complete(struct id *id);

/* Put one more identifier into a listener's reserve. Returns 0 or -errno. */
int id_add_spare(struct id *listen);

/*
 * Call `add` once for each of the *missing identifiers of a listener's reserve, or until memory
 * runs out. *missing becomes the number that is still missing.
 */
void id_replace_spares(struct id *listen, uint32_t *missing, int (*add)(struct id *listen));

/*
 * An identifier of a listener's reserve has become a request: queue the request for the program,
 * and add 1 to *missing.
 */
void id_request(struct id *id, struct id *listen, uint32_t *missing);

/*
 * Prepare a request for the program: set the device, the addresses and the peer's parameters.
 * Returns 0 or -errno.
 */
int id_open_request(struct id *id);

/* Claim the port of `address`, and take the device that has the address. Returns 0 or -errno. */
int id_bind(struct id *id, const struct sockaddr *address);

/*
 * Use the first device of these kinds (enum device_kind) that has this address. If no device has a
 * loopback address, use the device of device_find_for_loopback(). Returns 0; or -ENODEV when there
 * is none.
 */
int id_take_local(struct id *id, uint32_t kinds, const struct gid *gid, uint32_t ifindex);

/* The kinds of devices that can serve the identifier: iWARP serves reliable connections only. */
uint32_t id_device_kinds(const struct id *id);

/* Allocate an identifier without a connection. NULL when there is no memory. */
struct id *id_alloc(
	struct channel *channel, enum rdma_port_space ps, enum ibv_qp_type qp_type, void *context);

/*
 * Agree on these numbers of READs and atomics; if the device's limits are lower, agree on the
 * limits.
 */
void id_agree_reads(struct id *id, uint32_t responder_resources, uint32_t initiator_depth);

/* The P_Key of the path. On Ethernet, and while the path is unknown, it is the default P_Key. */
uint16_t id_pkey(const struct id *id);

/*
 * Do what id_agree_reads() does, for a program that accepts. RDMA_MAX_RESP_RES and
 * RDMA_MAX_INIT_DEPTH in `param` stand for the numbers that the peer requested.
 */
void id_accept_reads(struct id *id, const struct rdma_conn_param *param);

/* The address vector for packets from the identifier's address to `remote`. */
struct ibv_ah_attr id_address_vector(const struct id *id, const struct gid *remote);

/* Fill in the route of the public structure. Returns 0 or -errno. */
int id_fill_path(struct id *id);

/* The two halves of id_fill_path(): the first one may fail, with -ENOMEM. */
int id_path_alloc(struct id *id);
void id_path_fill(struct id *id);

/*
 * id_qp_connect() moves the queue pair of an agreed connection to RTS, id_qp_fail() to the error
 * state. Both return 0 or an errno.
 */
int id_qp_connect(struct id *id);
int id_qp_fail(struct id *id);

/*
 * Create a channel for the program, or a private one for synchronous calls. NULL with errno on
 * failure.
 */
struct channel *channel_create(void);
void channel_destroy(struct channel *channel);

#endif
