/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_CONNECTION_NIC_IWCM_H
#define URNIC_CONNECTION_NIC_IWCM_H

/*
 * The connection manager for iWARP queue pairs. It sets up TCP, then exchanges MPA's request and
 * reply (cm/mpa.h), until a queue pair takes over the stream. Later it reports the stream's end.
 *
 * A thread, made by nic_iwcm_start(), waits for connections and for MPA frames. It calls `on_event`
 * with the manager locked. NIC_IW_ENDED is different: the thread that drives or destroys the queue
 * pair reports it, with the queue pair's lane locked. So `on_event` may wake threads, but may call
 * no function of this header except nic_iwcm_locked_*.
 *
 * A listener has `backlog` places, at least PENDING_MIN, for connections whose MPA request has not
 * arrived. Further connections wait in the kernel. A peer that sends no request loses its place
 * after REQUEST_NS, or after HURRY_NS while other peers wait for a place (nic_iwcm_handshake.c).
 *
 * After fork() the child has no manager.
 */

#include "base/export.h"
#include "base/list.h"
#include "cm/mpa.h"
#include "nic/object/nic_stream.h"
#include "port/tcp.h"

enum nic_iw_event {
	/*
	 * A request has arrived at a listener. Unless `on_event` calls nic_iwcm_locked_adopt(), the
	 * manager drops the connection.
	 */
	NIC_IW_REQUESTED,
	NIC_IW_ACCEPTED, /* conn->mpa.peer is the reply; the program calls nic_iwcm_open() */
	NIC_IW_REJECTED, /* conn->mpa.peer is the reply */
	NIC_IW_FAILED, /* no connection, or no valid reply; conn->error is -errno */
	NIC_IW_ENDED, /* the stream of an open connection has ended */
};

enum nic_iw_state {
	NIC_IW_NONE,
	NIC_IW_QUEUED, /* waits until an earlier connection to the same port is established */
	NIC_IW_CONNECTING, /* TCP handshake under way */
	NIC_IW_REFUSED, /* TCP was refused; the manager tries again after a pause */
	NIC_IW_REQUESTING, /* active: the MPA request is sent, the reply is awaited */
	NIC_IW_LISTENING, /* passive: TCP is accepted, the MPA request is awaited */
	NIC_IW_DECIDING, /* the request or the reply has arrived; the program decides */
	NIC_IW_OPEN, /* the queue pair has, or had, the stream */
};

struct nic_iw_listener;

struct nic_iw_conn {
	struct list node; /* in the manager's list while the manager has `fd` */
	enum nic_iw_state state;
	int fd; /* the manager's socket, up to state DECIDING; -1 in QUEUED and REFUSED */
	int error;
	uint8_t tos;
	uint32_t refusals;
	uint64_t deadline_ns;
	struct mpa_conn mpa;
	struct port_tcp_address local;
	struct port_tcp_address remote;
	/* The listener whose `pending` has this connection; or NULL. */
	struct nic_iw_listener *listener;
	struct nic_stream_user stream; /* names the queue pair, in state OPEN */
	_Atomic bool is_end_reported;
	void *user;
};

struct nic_iw_listener {
	struct list node;
	int fd; /* -1: none */
	bool is_full; /* no place is free: further connections wait in the kernel */
	uint64_t again_ns; /* when the manager calls accept() again after an error; 0: none */
	uint32_t room; /* the places: entries of `pending` */
	struct nic_iw_conn *pending;
	void *user;
};

typedef void nic_iw_event_fn(enum nic_iw_event event, struct nic_iw_conn *conn);

/* Start the manager, unless it runs already. Returns 0 or -errno. */
int nic_iwcm_start(nic_iw_event_fn *on_event) URNIC_EXPORT_AS(nic_iwcm_start);

/* The policy that URNIC_MPA sets. */
struct mpa_policy nic_iwcm_policy(void) URNIC_EXPORT_AS(nic_iwcm_policy);

/*
 * Listen at `local`; the caller has set listener->user. Returns 0, -ENOMEM, or -errno as
 * port_tcp_listen().
 */
int nic_iwcm_listen(struct nic_iw_listener *listener, const struct port_tcp_address *local,
	bool is_ipv6_only, uint32_t backlog) URNIC_EXPORT_AS(nic_iwcm_listen);

/* Stop listening, and drop connections whose request has not arrived. Repeated calls do no harm. */
void nic_iwcm_unlisten(struct nic_iw_listener *listener) URNIC_EXPORT_AS(nic_iwcm_unlisten);

/*
 * Connect `conn`. The caller has zeroed `conn`, set its user, local and remote, and prepared
 * conn->mpa with mpa_connect(). Returns 0 or -errno.
 *
 * The requests to one port reach the peer in the order of the calls, because some programs rely on
 * that (docs/iwarp.md): a connection waits until the manager has sent the request of the one before
 * it, at most for QUEUED_NS.
 */
int nic_iwcm_connect(struct nic_iw_conn *conn, uint8_t tos) URNIC_EXPORT_AS(nic_iwcm_connect);

/* Move `pending` into `conn`, in state DECIDING. Called by on_event(NIC_IW_REQUESTED) only. */
void nic_iwcm_locked_adopt(struct nic_iw_conn *conn, struct nic_iw_conn *pending)
	URNIC_EXPORT_AS(nic_iwcm_locked_adopt);

/*
 * Hand the connection to the queue pair `qpn`, which moves to RTS. The active side calls this after
 * NIC_IW_ACCEPTED. On the passive side the manager first sends the reply of mpa_accept().
 *
 * Returns 0; -EINVAL if `qpn` is no queue pair in INIT; -ECONNRESET if the connection has ended.
 */
int nic_iwcm_open(struct nic_iw_conn *conn, uint32_t qpn, uint32_t ifindex)
	URNIC_EXPORT_AS(nic_iwcm_open);

/* Send the reply of mpa_reject(), and close the connection. */
void nic_iwcm_reject(struct nic_iw_conn *conn) URNIC_EXPORT_AS(nic_iwcm_reject);

/*
 * Move the connection's queue pair to the error state. NIC_IW_ENDED is the only event that may
 * follow.
 */
void nic_iwcm_disconnect(struct nic_iw_conn *conn) URNIC_EXPORT_AS(nic_iwcm_disconnect);

/*
 * End the connection, in any state. Its queue pair moves to the error state. After this call has
 * returned, no event follows.
 */
void nic_iwcm_close(struct nic_iw_conn *conn) URNIC_EXPORT_AS(nic_iwcm_close);

#endif
