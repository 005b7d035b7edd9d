/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection identifier in the library: the public structure, the manager's connection, and its
 * possible events.
 *
 * Calls of the program and the manager cause events. An identifier has one entry per type of event
 * in its channel's queue, so posting allocates nothing. Details of an event stay in the identifier
 * until the program takes the event.
 *
 * A listener has as many identifiers in reserve as its backlog. A request takes one; the program's
 * rdma_get_cm_event() replaces it.
 *
 * Life: the program has one reference, until rdma_destroy_id(); the manager another, until the
 * connection's protocol has ended.
 *
 * Lock: id_lock guards id->id.channel while events are posted, the lists of requests, and reference
 * counts. Its place is in os/lock_order.def.
 */
#ifndef URNIC_FRONT_RDMACM_ID_H
#define URNIC_FRONT_RDMACM_ID_H

#include "base/list.h"
#include "connection/nic_cm.h"
#include "connection/nic_iwcm.h"
#include "event/event_queue.h"
#include "front/rdmacm/abi.h"

enum {
	/* Events that older headers do not name. */
	ID_EVENT_ADDRINFO_RESOLVED = RDMA_CM_EVENT_TIMEWAIT_EXIT + 1,
	ID_EVENT_ADDRINFO_ERROR,
	ID_EVENT_USER,
	ID_EVENT_INTERNAL,
	ID_EVENT_COUNT,
	ID_BACKLOG_MAX = 1024, /* also for a backlog of 0; as the kernel's rdma_ucm */
	ID_ACK_TIMEOUT = 17, /* 0.54 s: what the kernel's rdma_cm uses on Ethernet */
	ID_HOP_LIMIT = 64,
	ID_RETRY_COUNT_MAX = 7,
};

struct device;
struct group;
struct user_event;

struct channel {
	struct rdma_event_channel public; /* first: programs hold this */
	struct event_queue queue;
	_Atomic uint32_t readers; /* threads in rdma_get_cm_event() */
};

/* The next step of an identifier. */
enum id_state {
	ID_IDLE,
	ID_BOUND,
	ID_RESOLVING, /* waits for the next hop */
	ID_ADDRESS_RESOLVED,
	ID_ROUTE_RESOLVED,
	ID_LISTENING,
	ID_CONNECTING, /* active: REQ sent */
	/* active: accepted, and the program has its own queue pair: rdma_establish() */
	ID_RESPONDED,
	ID_REQUESTED, /* passive: the program accepts or rejects */
	ID_ACCEPTED, /* passive: waits for the RTU */
	ID_CONNECTED,
	ID_OVER, /* rejected, disconnected, failed */
};

struct id_event {
	struct event event;
	struct id *id;
	enum rdma_cm_event_type type;
	int status; /* 0, -errno, or the reason of a REJ */
	struct group *group; /* of a multicast event, else NULL */
	struct user_event *user; /* that contains it, or NULL */
};

/* The agreed attributes of a connection; host order. */
struct id_agreement {
	/* Each side chooses the PSN with which the other begins (IBTA 12.7). */
	uint32_t rq_psn; /* ours, sent to the peer */
	uint32_t sq_psn; /* the peer's */
	uint32_t remote_qpn;
	uint32_t remote_qkey; /* datagrams */
	uint8_t responder_resources; /* READs and atomics that our responder executes at once */
	uint8_t initiator_depth; /* READs and atomics that our requester has outstanding */
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t ack_timeout;
	uint8_t path_mtu; /* enum ibv_mtu */
	bool has_srq;
};

struct id {
	struct rdma_cm_id id; /* first: programs hold this */
	/* Changed by the program's calls; watch.c reads it in its own thread */
	_Atomic(enum id_state) state;
	struct list in_ids; /* of watch.c, like the next */
	struct list in_bucket;
	struct list in_resolving; /* of resolver.c, like the next, its time limit */
	uint64_t resolve_until_ns;
	uint64_t epoch; /* of the process, across forks */
	uint32_t references; /* under id_lock */
	bool is_sync; /* it has its own channel, and calls wait for their event */
	bool has_conn;
	bool is_iwarp; /* its device is an iWARP device, and `iw` its connection */
	struct cm_conn conn;
	struct agent_claim claim;
	struct device *device;
	uint32_t gid_index; /* of the local address */
	struct cm_path path;
	struct id_agreement agreement;
	struct nic_iw_conn iw; /* iWARP: in place of `conn` */
	uint32_t iw_qpn; /* of the queue pair for which a connection is requested */

	/* Options */
	uint8_t tos;
	uint8_t ack_timeout;
	bool is_reusable;
	bool is_family_only;

	/* Listening */
	struct cm_listener listener;
	struct list requests; /* of id.in_requests: not taken by the program yet; under id_lock */
	struct list in_requests;
	struct id *listen; /* of a request: its listener */
	uint32_t spares_missing; /* taken by requests, not yet replaced; under id_lock */
	struct nic_iw_listener iw_listener;
	uint32_t iw_spares_missing; /* likewise */
	struct list iw_spares; /* the reserve for its requests, of in_requests; under id_lock */

	/* Events */
	struct id_event events[ID_EVENT_COUNT];
	struct cm_message request; /* REQ or SIDR_REQ of a passive side */
	struct cm_message response; /* REP, REJ or SIDR_REP */
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_taken; /* under `mutex` */
	uint32_t events_acked;

	/* Endpoints */
	struct ibv_qp_init_attr *qp_init; /* passive endpoint: for each request */
	uint8_t *connect_data; /* of rdma_getaddrinfo(): private data of the connection */
	size_t connect_bytes;
	struct list groups; /* of struct group: multicast */

	/* Under id_lock */
	struct list user_events; /* of struct user_event: not taken */
	struct rdma_addrinfo *addrinfo; /* rdma_query_addrinfo() will hand it out, or NULL */
	bool is_resolving_addrinfo;
};

extern pthread_mutex_t id_lock;

static inline struct id *id_of(struct rdma_cm_id *public)
{
	return container_of(public, struct id, id);
}

/*
 * The identifier that a call names. NULL and errno: EINVAL for a null pointer, ENOENT for a
 * destroyed identifier, which is not dereferenced. perftest uses destroyed ones after its server
 * was not ready.
 */
struct id *id_find(struct rdma_cm_id *public);

static inline bool id_is_datagram(const struct id *id)
{
	return id->id.qp_type == IBV_QPT_UD;
}

/* Return -1 and set errno, as this ABI reports errors. `error` is positive. */
static inline int fail_errno(int error)
{
	errno = error;
	return -1;
}

/* Drop a reference. The last one frees the identifier. */
void id_unref(struct id *id);

/* Log why there is no connection to the remote address. */
void id_log(const struct id *id, const char *why);

/* Queue an event for the program. */
void id_post(struct id *id, enum rdma_cm_event_type type, int status);

/*
 * Variants for an event outside of id->events: id_post_event() posts it, id_post_locked() posts it
 * with id_lock held. id_forget_event() removes an event, taken or not.
 */
void id_post_event(struct id *id, struct id_event *event, int status);
void id_post_locked(struct id *id, struct id_event *event, int status);
void id_forget_event(struct id *id, struct id_event *event);

/* Acknowledge the event that a synchronous call has left in the identifier. */
void id_ack_event(struct id *id);

/*
 * Wait for the event of the call just made, if the identifier is synchronous. Returns 0 or -1 and
 * errno.
 */
int id_complete(struct id *id);

/* Put one more identifier into a listener's reserve. Returns 0 or -errno. */
int id_add_spare(struct id *listen);

/* Refill a listener's reserve by `add`. Without memory the rest stays missing. */
void id_replace_spares(struct id *listen, uint32_t *missing, int (*add)(struct id *listen));

/* An identifier of a listener's reserve has become a request: queue it for the program. */
void id_request(struct id *id, struct id *listen, uint32_t *missing);

/*
 * Prepare a request for the program: device, addresses, the peer's parameters. Returns 0 or -errno.
 */
int id_open_request(struct id *id);

/* Claim the port of `address` and take the device that has it. Returns 0 or -errno. */
int id_bind(struct id *id, const struct sockaddr *address);

/*
 * Take the first device of these kinds (enum device_kind) that has this address. For a loopback
 * address without a device, take that of device_find_for_loopback(). -ENODEV: there is none.
 */
int id_take_local(struct id *id, uint32_t kinds, const struct gid *gid, uint32_t ifindex);

/* The kinds of devices that can serve the identifier: iWARP serves reliable connections only. */
uint32_t id_device_kinds(const struct id *id);

/* A new identifier without a connection. NULL when there is no memory. */
struct id *id_alloc(
	struct channel *channel, enum rdma_port_space ps, enum ibv_qp_type qp_type, void *context);

/* Agree on so many READs and atomics, as far as the device can. */
void id_agree_reads(struct id *id, uint32_t responder_resources, uint32_t initiator_depth);

/* id_agree_reads() for accepting; "the maximum" means what the peer requested. */
void id_accept_reads(struct id *id, const struct rdma_conn_param *param);

/* The address vector for packets from the identifier's address. */
struct ibv_ah_attr id_address_vector(const struct id *id, const struct gid *remote);

/* Fill in the route of the public structure. Returns 0 or -errno. */
int id_fill_path(struct id *id);

/*
 * Bring the queue pair of an agreed connection up, or move it to the error state. Return 0 or an
 * errno.
 */
int id_qp_connect(struct id *id);
int id_qp_fail(struct id *id);

/* A private channel for synchronous calls. NULL and errno. */
struct channel *channel_create(void);
void channel_destroy(struct channel *channel);

#endif
