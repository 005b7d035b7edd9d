/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_CONNECTION_NIC_CM_H
#define URNIC_CONNECTION_NIC_CM_H

/*
 * The process's connection manager for RoCE devices: cm/cm.h on sockets, with a clock and a thread.
 *
 * The first nic_cm_start() makes the manager. urnicd receives the messages to QP1, and passes the
 * manager those for this process on a unix socket. The manager sends from UDP sockets, one per
 * local address. Its thread waits for messages and deadlines.
 *
 * Each function below locks the manager, does what its namesake in cm/cm.h does, sends the packets
 * and delivers the events that result. The thread that causes an event calls `on_event` with the
 * manager locked. `on_event` may not call these functions.
 *
 * After fork() the child has no manager, and its inherited connections are dead. The caller
 * recognises them by nic_cm_epoch(), and must not pass them to these functions.
 */

#include "agent/agent_client.h"
#include "base/export.h"
#include "cm/cm.h"

struct nic_cm_user {
	void (*on_event)(const struct cm_event *event);
	/*
	 * Called around a fork. `fork_prepare` takes the user's locks that come after the manager's
	 * (lock_order.def), so that the child finds consistent objects. `fork_parent` and
	 * `fork_child` release these locks, each in its process. `fork_child` also forgets the
	 * parent's connections.
	 */
	void (*fork_prepare)(void);
	void (*fork_parent)(void);
	void (*fork_child)(void);
};

/*
 * Start the manager, unless it runs already.
 *
 * `guid`  GUID of a device, which the manager states in its CM messages.
 * `user`  Callbacks, the same in each call. Borrowed until the process ends.
 *
 * Returns 0, or -errno of urnicd or of making the thread; the reason is in the log.
 */
int nic_cm_start(uint64_t guid, const struct nic_cm_user *user) URNIC_EXPORT_AS(nic_cm_start);

/*
 * Receive the messages for QP1 of a local address, and open a socket to send from it. Repeated
 * calls do no harm.
 *
 * Returns 0, or -errno of agent_client_gsi_address() or of making the socket.
 */
int nic_cm_use_address(const struct agent_address *address) URNIC_EXPORT_AS(nic_cm_use_address);

/* Receive the messages for QP1 of a local address, without a socket to send from it. */
int nic_cm_receive_address(const struct agent_address *address)
	URNIC_EXPORT_AS(nic_cm_receive_address);

/* agent_client_claim() and agent_client_unclaim(). Call them only after nic_cm_start(). */
int nic_cm_claim(struct agent_claim *claim) URNIC_EXPORT_AS(nic_cm_claim);
void nic_cm_unclaim(struct agent_claim *claim) URNIC_EXPORT_AS(nic_cm_unclaim);

/* Each does what its namesake in cm/cm.h does. */
int nic_cm_conn_create(struct cm_conn *conn, void *user) URNIC_EXPORT_AS(nic_cm_conn_create);
void nic_cm_release(struct cm_conn *conn) URNIC_EXPORT_AS(nic_cm_release);
void nic_cm_listen(struct cm_listener *listener) URNIC_EXPORT_AS(nic_cm_listen);
void nic_cm_listener_add(struct cm_listener *listener, struct cm_conn *conn)
	URNIC_EXPORT_AS(nic_cm_listener_add);

/* Release the listener's spare connections, then cm_unlisten(). */
void nic_cm_unlisten(struct cm_listener *listener) URNIC_EXPORT_AS(nic_cm_unlisten);
int nic_cm_connect(struct cm_conn *conn, const struct cm_path *path, const struct cm_req *req)
	URNIC_EXPORT_AS(nic_cm_connect);
int nic_cm_accept(struct cm_conn *conn, const struct cm_rep *rep) URNIC_EXPORT_AS(nic_cm_accept);
int nic_cm_reject(struct cm_conn *conn, const struct cm_rej *rej) URNIC_EXPORT_AS(nic_cm_reject);
int nic_cm_ready(struct cm_conn *conn) URNIC_EXPORT_AS(nic_cm_ready);
int nic_cm_establish(struct cm_conn *conn) URNIC_EXPORT_AS(nic_cm_establish);
/*
 * Drive the lane of the connection's queue pair: process the packets that have arrived, and send
 * pending acknowledgements. Call this before our DREQ, so that the peer gets our acknowledgements
 * first. The manager is not locked.
 */
void nic_cm_drive_lane(const struct cm_conn *conn) URNIC_EXPORT_AS(nic_cm_drive_lane);
/*
 * Call this before the program sees a disconnect. The peer may have acknowledged requests before
 * its DREQ, and the acknowledgement may arrive up to 20 ms after the DREQ. So while requests are
 * outstanding, the call drives the lane again and again for up to 20 ms. The manager is not locked.
 */
void nic_cm_await_acknowledgements(const struct cm_conn *conn)
	URNIC_EXPORT_AS(nic_cm_await_acknowledgements);
int nic_cm_disconnect(struct cm_conn *conn) URNIC_EXPORT_AS(nic_cm_disconnect);
int nic_cm_sidr_request(struct cm_conn *conn, const struct cm_path *path,
	const struct cm_sidr_req *request) URNIC_EXPORT_AS(nic_cm_sidr_request);
int nic_cm_sidr_answer(struct cm_conn *conn, const struct cm_sidr_rep *answer)
	URNIC_EXPORT_AS(nic_cm_sidr_answer);

/* The number of the process's NIC. A forked child's NIC has a different number. */
uint64_t nic_cm_epoch(void) URNIC_EXPORT_AS(nic_cm_epoch);

uint32_t nic_cm_random_psn(void) URNIC_EXPORT_AS(nic_cm_random_psn);

#endif
