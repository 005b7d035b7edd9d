/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_CONNECTION_NIC_IWCM_H
#define URNIC_CONNECTION_NIC_IWCM_H

/*
 * Connections of iWARP queue pairs: TCP, and MPA's request and reply on it (cm/mpa.h), up to where
 * a queue pair takes over the stream; and the news that it is over.
 *
 * A thread, made by the first call that needs it, waits for connections and for frames of MPA.
 * Events are told by `on_event` of nic_iwcm_start(), from that thread with the manager locked, or,
 * of NIC_IW_ENDED, from whoever drives the queue pair's lane or destroys it, with that lane locked:
 * it may wake, and call nothing here but nic_iwcm_locked_*.
 *
 * A listener has room for as many connections without a request as its backlog, and some at least;
 * those beyond wait in the kernel. A peer that connects and says nothing is left after a while, and
 * sooner when others wait for its place.
 *
 * After fork() the child has none of this.
 */

#include "base/export.h"
#include "base/list.h"
#include "cm/mpa.h"
#include "nic/nic_stream.h"
#include "port/tcp.h"

enum nic_iw_event {
	NIC_IW_REQUESTED, /* at a listener; nic_iwcm_locked_adopt() takes it, or it is dropped */
	NIC_IW_ACCEPTED, /* conn->mpa.peer is the reply; nic_iwcm_open() goes on */
	NIC_IW_REJECTED, /* conn->mpa.peer is the reply */
	NIC_IW_FAILED, /* conn->error, -errno: no connection, or no valid reply */
	NIC_IW_ENDED, /* the stream of an open connection is over */
};

enum nic_iw_state {
	NIC_IW_NONE,
	NIC_IW_CONNECTING, /* TCP */
	NIC_IW_REFUSED, /* by TCP: tried again in a moment */
	NIC_IW_ASKING, /* the request goes out, the reply is awaited */
	NIC_IW_LISTENING, /* the request is awaited */
	NIC_IW_DECIDING, /* for the program to say */
	NIC_IW_OPEN, /* the queue pair has it, or had it */
};

struct nic_iw_listener;

struct nic_iw_conn {
	struct list node; /* in the manager's list while it has a descriptor */
	enum nic_iw_state state;
	int fd; /* with a state up to DECIDING; -1 in REFUSED */
	int error;
	uint8_t tos;
	uint32_t refusals;
	uint64_t deadline_ns;
	struct mpa_conn mpa;
	struct port_tcp_address local;
	struct port_tcp_address remote;
	struct nic_iw_listener *listener; /* of one that waits for a request */
	struct nic_stream_user stream; /* see nic_stream.c */
	_Atomic bool is_end_told;
	void *user;
};

struct nic_iw_listener {
	struct list node;
	int fd; /* -1: none */
	bool is_full; /* the kernel keeps further connections */
	uint32_t room; /* of `pending` */
	struct nic_iw_conn *pending; /* `room` of them */
	void *user;
};

typedef void nic_iw_event_fn(enum nic_iw_event event, struct nic_iw_conn *conn);

/* Start the manager, unless it runs already. Returns 0 or -errno. */
int nic_iwcm_start(nic_iw_event_fn *on_event) URNIC_EXPORT_AS(nic_iwcm_start);

/* What the environment says about MPA. */
struct mpa_policy nic_iwcm_policy(void) URNIC_EXPORT_AS(nic_iwcm_policy);

/*
 * Listen. listener->user is set. Returns 0, or -errno as port_tcp_listen(), -ENOMEM.
 */
int nic_iwcm_listen(struct nic_iw_listener *listener, const struct port_tcp_address *local,
	bool is_ipv6_only, uint32_t backlog) URNIC_EXPORT_AS(nic_iwcm_listen);

/* No more; again does no harm. */
void nic_iwcm_unlisten(struct nic_iw_listener *listener) URNIC_EXPORT_AS(nic_iwcm_unlisten);

/*
 * A zeroed connection is none. conn->user is set; conn->mpa after mpa_connect(); local and remote
 * say from where to where.
 */
int nic_iwcm_connect(struct nic_iw_conn *conn, uint8_t tos) URNIC_EXPORT_AS(nic_iwcm_connect);

/* In NIC_IW_REQUESTED: `conn` becomes the connection that `pending` is, in state DECIDING. */
void nic_iwcm_locked_adopt(struct nic_iw_conn *conn, struct nic_iw_conn *pending)
	URNIC_EXPORT_AS(nic_iwcm_locked_adopt);

/*
 * Hand the connection to the queue pair with this number: the active side after NIC_IW_ACCEPTED;
 * the passive one sends its reply, which mpa_accept() has made, first. The queue pair is in RTS
 * then.
 *
 * Returns 0, -EINVAL without such a queue pair in INIT, -ECONNRESET when the connection is no more.
 */
int nic_iwcm_open(struct nic_iw_conn *conn, uint32_t qpn, uint32_t ifindex)
	URNIC_EXPORT_AS(nic_iwcm_open);

/* Send the reply that mpa_reject() has made, and close. */
void nic_iwcm_reject(struct nic_iw_conn *conn) URNIC_EXPORT_AS(nic_iwcm_reject);

/*
 * The queue pair that has it goes to the error state; what is left to say about it is NIC_IW_ENDED.
 */
void nic_iwcm_disconnect(struct nic_iw_conn *conn) URNIC_EXPORT_AS(nic_iwcm_disconnect);

/*
 * The end of it, in any state: no more events come when this returns. A queue pair that has it goes
 * to the error state.
 */
void nic_iwcm_close(struct nic_iw_conn *conn) URNIC_EXPORT_AS(nic_iwcm_close);

#endif
