/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_CM_CM_H
#define URNIC_CM_CM_H

/*
 * The connection manager of a process: the protocol of IBTA volume 1, chapter 12, without I/O. The
 * caller passes messages and the time, and fetches packets and events.
 *
 * A `struct cm_conn` is a connection, or a request for a service's queue pair (SIDR), from the
 * first message to the end of its time wait. The caller owns its memory. The active side makes a
 * connection before it sends a REQ. The passive side gives a listener as many spare connections as
 * its backlog, because no peer may cause an allocation. cm_release() ends the program's use of a
 * connection. The manager may still have to finish the protocol. When CM_EVENT_RELEASED arrives,
 * the caller may free the memory.
 *
 * cm_receive() and cm_expire() report events of the network and the clock; the other calls are
 * requests of the program. After each call the caller fetches the results: cm_next_event() until
 * there is none, then cm_next_packet() until there is none. cm_deadline_ns() says when to call
 * cm_expire().
 *
 * The manager repeats a message that is not answered, first after CM_FIRST_RETRY_NS. Each further
 * wait is twice as long as the wait before, up to the peer's response timeout. Chapter 12 requires
 * only the repetitions after a response timeout; the earlier ones do not count as retries. The
 * manager gives up after (retries + 1) response timeouts.
 *
 * The peer may be hostile, so a message for a connection must come from its peer's address and name
 * both communication IDs. The table cm_verdict.def lists the messages that each state allows. The
 * caller serializes all calls. Times are monotonic nanoseconds.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/deadline.h"
#include "base/gid.h"
#include "base/list.h"
#include "base/permute.h"
#include "wire/cm/cm_message.h"
#include "wire/cm/gsi_packet.h"

#define CM_FIRST_RETRY_NS 250000000u

enum {
	CM_BUCKETS = 1024, /* power of two */
	CM_OUTBOX = 64, /* messages that one call may cause */
	CM_EVENTS = 4, /* events that one call may cause */
	CM_RESPONSE_TIMEOUT = 20, /* 4.3 s, as the kernel's rdma_cm */
	CM_RETRIES_MAX = 15,
	CM_DREQ_RETRIES = 2, /* few, because the connection is over with or without a DREP */
	/* 69 s: our MRA requests this time. If a peer's MRA requests more, only this is granted. */
	CM_SERVICE_TIMEOUT = 24,
	CM_LIFETIME_CODE = 19, /* the time wait, 2.1 s, as a code: twice the lifetime of a packet */
	CM_QUERIES_MAX = 3, /* unanswered queries after which a peer counts as silent */
	CM_PEER_WINDOWS = 64, /* power of two */
	CM_QUERIES_OF_PEER_MAX = 8, /* queries to a peer in CM_PEER_WINDOW_NS */
	/* After this many RTUs with wrong IDs in CM_PEER_WINDOW_NS, a peer's RTUs prove nothing. */
	CM_RTUS_UNKNOWN_MAX = 8,
	/*
	 * How long after the end of a listener the program is likely to listen anew at the same
	 * port. Long enough for a busy machine.
	 */
	CM_LISTENER_EXPECTED_MS = 3000,
	/* The least half_open_max: programs set a backlog of 1, yet accept many peers at a time. */
	CM_HALF_OPEN_MIN = 128,
};

/*
 * The longest that an accepted connection waits for its RTU, whatever timeout and retries its REQ
 * names. With the kernel's response timeout, the REP is repeated ten times in this period. A peer
 * that requests time (MRA) gets another CM_SERVICE_TIMEOUT, once.
 */
#define CM_HALF_OPEN_NS 33000000000u

/*
 * An accepted connection keeps its place in the backlog for at least this period. Within it, a live
 * peer usually sends its RTU. Under a flood of REQs, places become free only once in a period. The
 * period is shorter than the interval at which peers repeat a REQ. Otherwise a peer in step with
 * the period would never find a free place.
 */
#define CM_HALF_OPEN_MIN_NS 200000000u

#define CM_QUERY_PAUSE_NS 250000000u /* between two queries about one connection */
#define CM_PEER_WINDOW_NS 1000000000u

enum cm_state {
#define CM_STATE(NAME, rejects, timeout, last, sentence) CM_STATE_##NAME,
#include "cm/cm_state.def"
#undef CM_STATE
	CM_STATE_COUNT
};

enum cm_event_kind {
	CM_EVENT_REQ, /* passive: event->message.req at event->listener */
	CM_EVENT_REP, /* active: event->message.rep; answer by cm_ready() or cm_reject() */
	CM_EVENT_ESTABLISHED, /* passive: the RTU has arrived */
	CM_EVENT_REJ, /* the peer's event->message.rej has ended the connection */
	CM_EVENT_DREQ, /* the peer disconnects; answer by cm_disconnect() */
	CM_EVENT_DREP, /* the peer has answered our DREQ */
	CM_EVENT_TIMEWAIT_EXIT,
	CM_EVENT_SIDR_REQ, /* passive: event->message.sidr_req; answer by cm_sidr_answer() */
	CM_EVENT_SIDR_REP, /* active: event->message.sidr_rep */
	CM_EVENT_REQ_TIMEOUT, /* no answer to our REQ or SIDR_REQ */
	CM_EVENT_REP_TIMEOUT, /* no answer to our REP */
	CM_EVENT_DREQ_TIMEOUT, /* no answer to our DREQ; the connection is over nevertheless */
	CM_EVENT_UNREACHABLE, /* the network reports that our REQ or SIDR_REQ was not delivered */
	CM_EVENT_RELEASED, /* after cm_release(): the caller may free the connection */
};

/* The two ends of a connection. */
struct cm_path {
	struct gid local;
	struct gid remote;
	uint32_t ifindex; /* of the local address's interface: the scope of link-local addresses */
	/*
	 * The traffic class of the manager's messages. That of the queue pair's packets is in the
	 * address vector.
	 */
	uint8_t traffic_class;
	/* InfiniBand only; the manager's messages have a GRH, so `local` and `remote` are GIDs. */
	struct cm_path_ib {
		uint8_t port; /* counted from 1; 0: a path over Ethernet */
		uint8_t sl;
		uint16_t slid;
		uint16_t dlid;
		/* The path's P_Key; 0: unknown, so the one at index 0 of the port's table. */
		uint16_t pkey;
	} ib;
};

struct cm_listener {
	struct list node; /* in cm.listeners */
	struct list spares; /* struct cm_conn, for future requests */
	uint64_t service_id;
	struct gid address; /* zero: any address; ::ffff:0.0.0.0: any IPv4 address */
	uint32_t ifindex; /* the interface of a link-local `address`; else 0 */
	bool is_ipv6_only; /* if `address` is zero: take no requests to IPv4 addresses */
	uint32_t half_open_max; /* limit of connections that are accepted but not established */
	uint32_t half_open_count; /* connections in half_open */
	struct list half_open; /* struct cm_conn, in the order of their acceptance */
	struct list pending; /* struct cm_conn: requests that the program has not answered */
	void *user;
};

struct cm_conn {
	enum cm_state state;
	bool is_released;
	bool is_active; /* we sent the REQ */
	uint32_t local_comm_id;
	uint32_t remote_comm_id; /* 0 until known */
	uint32_t local_qpn;
	uint32_t remote_qpn;
	uint64_t remote_guid; /* the GUID of the peer's channel adapter, from its REQ or REP */
	uint64_t transaction_id;
	struct cm_path path;
	/* Repeated until its answer arrives, and sent again as the answer to a duplicate. */
	struct cm_message sent;
	struct deadline deadline;
	uint64_t give_up_ns; /* when the manager stops repeating `sent` */
	uint64_t retry_ns; /* length of the wait for the next repetition */
	bool is_repeated; /* `sent` was sent more than once */
	uint8_t response_timeout; /* the time that the peer has to answer: a code (IBTA 12.6.5) */
	uint8_t retries; /* the manager gives up after retries + 1 response timeouts */
	uint8_t queries_out; /* queries (peer_query()) that the peer has not answered */
	uint64_t queried_ns; /* time of the last query; 0: none */
	uint64_t accepted_ns; /* when we sent the REP; 0: not sent */
	/* NULL: the connection is established, is over, is active, or has lost its listener. */
	struct cm_listener *listener;
	struct list half_open; /* in listener->half_open or ->pending */
	struct list by_local; /* in cm.by_local; a spare connection: in listener->spares */
	struct list by_remote; /* in cm.by_remote, once the peer's communication ID is known */
	struct list by_qpn; /* in cm.by_qpn, from the peer's REQ or REP until the time wait */
	struct cm_last_message *last_message; /* NULL: none */
	void *user;
};

struct cm_event {
	enum cm_event_kind kind;
	struct cm_conn *conn;
	struct cm_listener *listener; /* set in CM_EVENT_REQ and CM_EVENT_SIDR_REQ */
	struct cm_message message; /* the message that caused the event, if any */
};

/*
 * The last message of a connection: urnicd, or over InfiniBand the fabric's process, sends it to
 * the peer if the process dies. It is plain data, because another process reads it in the dead
 * process's NIC memory. All zero: there is none.
 */
struct cm_last_message {
	uint32_t attribute; /* enum cm_attribute: CM_REJ, CM_DREQ or CM_DREP; 0: unused */
	uint32_t local_comm_id;
	uint32_t remote_comm_id; /* 0: unknown */
	uint32_t remote_qpn;
	uint16_t answered; /* enum cm_answered: which message the REJ answers */
	uint16_t reason; /* enum cm_reject, of the REJ */
	uint32_t ifindex; /* the interface of a link-local address */
	uint64_t ca_guid; /* `guid` of struct cm */
	struct gid local;
	struct gid remote;
	struct cm_path_ib ib; /* port 0: a path over Ethernet */
};

/* The most last messages that one process leaves; its further connections leave none. */
enum { CM_LAST_MESSAGES_MAX = 4096 };

struct cm_counters {
#define COUNTER(name, sentence) uint64_t name;
#include "cm/cm_counter.def"
#undef COUNTER
};

struct cm {
	uint8_t slot; /* the top byte of our communication IDs */
	uint64_t guid; /* our channel adapter's GUID, which our messages state */
	uint32_t next_id;
	uint32_t next_psn;
	struct permutation permutation;
	struct deadline_heap deadlines;
	uint32_t conn_count; /* connections; `deadlines` has room for all of them */
	struct list listeners;
	struct list by_local[CM_BUCKETS];
	struct list by_remote[CM_BUCKETS];
	struct list by_qpn[CM_BUCKETS];
	/*
	 * What each peer has caused within CM_PEER_WINDOW_NS. The index is a hash of the peer's
	 * address; peers with the same hash share an entry.
	 */
	struct cm_peer_window {
		uint64_t since_ns;
		uint32_t queries; /* sent to the peer */
		uint32_t rtus_unknown; /* RTUs from its address that name no connection of ours */
	} windows[CM_PEER_WINDOWS];
	uint32_t outbox_first, outbox_count;
	struct cm_outgoing {
		struct cm_path path;
		uint8_t mad[MAD_BYTES];
	} outbox[CM_OUTBOX];
	uint32_t event_first, event_count;
	struct cm_event events[CM_EVENTS];
	/* The caller's array of last_message_count entries; NULL: connections leave none. */
	struct cm_last_message *last_messages;
	uint32_t last_message_count;
	uint32_t last_message_next; /* all entries before this index are used */
	struct cm_counters counters;
};

/*
 * Make a manager without connections.
 *
 * `slot`         The process's slot, by which urnicd routes messages to it.
 * `permutation`  A random one. It makes the communication IDs, so a stranger cannot predict them.
 *                The manager copies it.
 * `random`       Chooses the first communication ID and PSN.
 */
void cm_init(struct cm *cm, uint8_t slot, uint64_t guid, const struct permutation *permutation,
	uint64_t random);

/*
 * Keep the last messages of connections from now on.
 *
 * `last_messages`  `count` zeroed entries. The caller owns them, and keeps them until the end of
 *                  the manager.
 *
 * The manager must have no connection yet.
 */
void cm_keep_last_messages(struct cm *cm, struct cm_last_message *last_messages, uint32_t count);

/* End the manager. All connections are released, and no listener is left. */
void cm_done(struct cm *cm);

/* --- events of the network and the clock --------------------------------------------------- */

/*
 * Receive a MAD for QP1.
 *
 * `path`  From us to the sender of the MAD: `remote` is the sender's address, `local` the
 *         destination address of the MAD.
 */
void cm_receive(
	struct cm *cm, const struct cm_path *path, const uint8_t mad[MAD_BYTES], uint64_t now_ns);

/*
 * The network reports that a message of ours did not arrive.
 *
 * `path`            The path of that message.
 * `is_port_closed`  The host is there, but has no process to answer. The manager treats this like a
 *                   REJ with reason "invalid service ID". False: the host cannot be reached.
 * `mad`             The message, which the report quotes. So the reporting host has received it.
 *
 * A report counts only for a first message, a REQ or SIDR_REQ. Later in a connection, only timeouts
 * end it. The report of a closed port is ignored until the message was repeated, because some
 * programs (qperf) publish their port before they listen.
 */
void cm_undeliverable(struct cm *cm, const struct cm_path *path, bool is_port_closed,
	const uint8_t mad[MAD_BYTES]);

/* When cm_expire() is due, or DEADLINE_NEVER. */
uint64_t cm_deadline_ns(const struct cm *cm);

/* Handle one expired deadline. Returns whether there was one; call until there is none. */
bool cm_expire(struct cm *cm, uint64_t now_ns);

/* --- results ------------------------------------------------------------------------------ */

/* Take the oldest event. Returns false when there is none. */
bool cm_next_event(struct cm *cm, struct cm_event *ret_event);

/*
 * Take the next packet, from BTH to pad, to be sent along *ret_path. Returns false when there is
 * none.
 */
bool cm_next_packet(struct cm *cm, struct cm_path *ret_path, uint8_t ret_packet[GSI_PACKET_BYTES]);

/* --- requests of the program -------------------------------------------------------------- */

/*
 * Create a connection in state IDLE. `conn` is zeroed memory of the caller. Returns 0 or -ENOMEM.
 */
int cm_conn_create(struct cm *cm, struct cm_conn *conn, void *user);

/*
 * The program no longer uses the connection. The manager finishes the protocol, then reports
 * CM_EVENT_RELEASED.
 */
void cm_release(struct cm *cm, struct cm_conn *conn, uint64_t now_ns);

/*
 * From now on requests for listener->service_id go to this listener. The caller sets the service,
 * the address, half_open_max (the backlog; at least CM_HALF_OPEN_MIN is allowed) and `user`.
 *
 * Up to half_open_max connections of the listener may be accepted but not established. When the
 * program accepts one more, it displaces the oldest of these whose peer has sent no MRA, or, if all
 * peers have sent one, the oldest of all. The displaced connection ends as after a timeout. While
 * the connection to displace is younger than CM_HALF_OPEN_MIN_NS, the manager drops new requests.
 */
void cm_listen(struct cm *cm, struct cm_listener *listener);

/* Give a listener another spare connection, which is in state IDLE. */
void cm_listener_add(struct cm_listener *listener, struct cm_conn *conn);

/* Take a spare connection back; NULL when there is none. */
struct cm_conn *cm_listener_take(struct cm_listener *listener);

/*
 * Take no more requests. Before this call the caller takes the spare connections back. The
 * listener's other connections go on as before.
 */
void cm_unlisten(struct cm_listener *listener);

/*
 * Request a connection: IDLE -> REQ_SENT.
 *
 * `req`  What the program chooses. The manager fills in communication ID, GIDs, timeouts and
 *        retries.
 *
 * This call and all calls below return 0, or -EINVAL in a state that does not allow the call.
 */
int cm_connect(struct cm *cm, struct cm_conn *conn, const struct cm_path *path,
	const struct cm_req *req, uint64_t now_ns);

/* Answer a REQ: REQ_RCVD -> REP_SENT. `rep` has all fields but communication IDs and GUID. */
int cm_accept(struct cm *cm, struct cm_conn *conn, const struct cm_rep *rep, uint64_t now_ns);

/*
 * Refuse a REQ or a REP, or give up waiting for an answer. `rej` has reason, info and private data.
 */
int cm_reject(struct cm *cm, struct cm_conn *conn, const struct cm_rej *rej, uint64_t now_ns);

/* Answer a REP: REP_RCVD -> ESTABLISHED. */
int cm_ready(struct cm *cm, struct cm_conn *conn, uint64_t now_ns);

/*
 * The queue pair has received a packet, which stands for the RTU: REP_SENT -> ESTABLISHED (IBTA
 * 12.9.7.2).
 */
int cm_establish(struct cm *cm, struct cm_conn *conn, uint64_t now_ns);

/* Request to disconnect, or answer the peer's DREQ. */
int cm_disconnect(struct cm *cm, struct cm_conn *conn, uint64_t now_ns);

/*
 * Request the queue pair of a service: IDLE -> SIDR_REQ_SENT. `request` has service ID, P_Key and
 * private data.
 */
int cm_sidr_request(struct cm *cm, struct cm_conn *conn, const struct cm_path *path,
	const struct cm_sidr_req *request, uint64_t now_ns);

/* Answer a SIDR_REQ: SIDR_REQ_RCVD -> IDLE. `answer` has all fields but the request ID. */
int cm_sidr_answer(
	struct cm *cm, struct cm_conn *conn, const struct cm_sidr_rep *answer, uint64_t now_ns);

/* Assert the invariants of the manager and of its connections. For tests. */
void cm_check(const struct cm *cm);

/* --- without a connection ----------------------------------------------------------------- */

/*
 * The answer to a message that no connection and no listener takes: a REJ to a REQ, REP or RTU, a
 * SIDR_REP to a SIDR_REQ, a DREP to a DREQ, an APR to a LAP (IBTA 12.9.8.1, 12.11.2, 12.9.9).
 *
 * Returns false when no answer is due.
 */
bool cm_answer_unknown(const struct cm_message *message, struct cm_message *ret_answer);

/*
 * Build a connection's last message. `last_message` is memory of another process, so any bytes are
 * legal input. Returns false when there is no last message.
 */
bool cm_last_message_build(
	const struct cm_last_message *last_message, struct cm_message *ret_message);

/* The key by which a message is routed. */
enum cm_route {
	CM_ROUTE_SERVICE, /* the listener on this service ID */
	CM_ROUTE_COMM_ID, /* the connection with this communication ID */
	CM_ROUTE_ALL, /* none: the message names neither ID, so it may be for any process */
};

/* Sets the output for the ID by which the message is routed; the other output stays unchanged. */
enum cm_route cm_route(
	const struct cm_message *message, uint64_t *ret_service_id, uint32_t *ret_comm_id);

/*
 * The address to which a request on this path was made. Over InfiniBand it is the one that the
 * request names, because GIDs are no IP addresses. Otherwise it is the result of
 * cm_request_address(), which also says what *ret_header becomes.
 */
struct gid cm_path_request_address(const struct cm_message *message, const struct cm_path *path,
	struct ip_cm_header *ret_header) URNIC_EXPORT_AS(cm_path_request_address);

/*
 * The address to which the peer's program has connected. Usually it is the address at which the
 * request's packet arrived.
 *
 * A program may connect to a loopback address, which has no device. The packet then goes from an
 * address of the host to the same address, and its RDMA IP CM header (IBTA A11) has the loopback
 * address. This function trusts the header only in such a packet, because other hosts cannot send
 * such a packet.
 *
 * `message`     A REQ or a SIDR_REQ. For any other message the result is `local`.
 * `local`       The address at which the packet arrived.
 * `remote`      The address of its sender.
 * `ret_header`  Set to the RDMA IP CM header if the result is that header's address; otherwise
 *               unchanged. NULL: not wanted.
 */
struct gid cm_request_address(const struct cm_message *message, const struct gid *local,
	const struct gid *remote, struct ip_cm_header *ret_header)
	URNIC_EXPORT_AS(cm_request_address);

/* Is this the zero address of IPv6 (which stands for both families) or of IPv4? */
bool cm_address_is_any(const struct gid *gid) URNIC_EXPORT_AS(cm_address_is_any);

/*
 * Does the address that a listener is bound to include `address`? `ifindex` is the interface of
 * `address`.
 */
bool cm_address_matches(const struct gid *listening, uint32_t listening_ifindex, bool is_ipv6_only,
	const struct gid *address, uint32_t ifindex) URNIC_EXPORT_AS(cm_address_matches);

/* The slot in a communication ID. */
static inline uint8_t cm_comm_id_slot(uint32_t comm_id)
{
	return (uint8_t)(comm_id >> 24);
}

#endif
