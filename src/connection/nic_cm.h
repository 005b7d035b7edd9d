/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_CONNECTION_NIC_CM_H
#define URNIC_CONNECTION_NIC_CM_H

/*
 * The process's connection manager: cm/cm.h on sockets, with a clock and a thread.
 *
 * There is one, made by the first nic_cm_start(). Messages for this process come from urnicd, on a
 * socket of their own; ours go out from sockets of ours, one per local address. A thread waits for
 * messages and deadlines. The functions below lock the manager, do what their namesakes of cm/cm.h
 * do, send what that caused, and tell the events: `on_event` is called with the manager locked, by
 * whichever thread caused the event, and may call nothing here.
 *
 * After fork() the child has no manager: what it inherited of connections is dead, and calls on it
 * do nothing.
 */

#include "agent/agent_client.h"
#include "base/export.h"
#include "cm/cm.h"

struct nic_cm_user {
	void (*on_event)(const struct cm_event *event);
	/*
	 * Around a fork: take the locks that come after the manager's, so that the child finds
	 * nothing half done; give them back; the same in the child, which forgets what is the
	 * parent's.
	 */
	void (*fork_prepare)(void);
	void (*fork_parent)(void);
	void (*fork_child)(void);
};

/*
 * Start the manager, unless it runs already.
 *
 * `guid`      Of a device; the manager's name for itself in messages.
 * `user`      The same in each call; kept.
 *
 * Returns 0 or the -errno of urnicd or of making a thread; the reason is in the log.
 */
int nic_cm_start(uint64_t guid, const struct nic_cm_user *user) URNIC_EXPORT_AS(nic_cm_start);

/*
 * Have what comes for QP1 at a local address, and be able to send from it. Any number of times.
 *
 * Returns 0 or the -errno of agent_client_gsi_address(), or of making a socket.
 */
int nic_cm_use_address(const struct agent_address *address) URNIC_EXPORT_AS(nic_cm_use_address);

/* Only the first half of that: have what comes for QP1 there. */
int nic_cm_hear_address(const struct agent_address *address) URNIC_EXPORT_AS(nic_cm_hear_address);

/* agent_client_claim() and agent_client_unclaim(). The manager runs. */
int nic_cm_claim(struct agent_claim *claim) URNIC_EXPORT_AS(nic_cm_claim);
void nic_cm_unclaim(struct agent_claim *claim) URNIC_EXPORT_AS(nic_cm_unclaim);

/* Each as in cm/cm.h. They return -ENODEV in a forked child for what it inherited. */
int nic_cm_conn_create(struct cm_conn *conn, void *user) URNIC_EXPORT_AS(nic_cm_conn_create);
void nic_cm_release(struct cm_conn *conn) URNIC_EXPORT_AS(nic_cm_release);
void nic_cm_listen(struct cm_listener *listener) URNIC_EXPORT_AS(nic_cm_listen);
void nic_cm_listener_add(struct cm_listener *listener, struct cm_conn *conn)
	URNIC_EXPORT_AS(nic_cm_listener_add);

/* cm_unlisten(), and the release of the listener's spare connections. */
void nic_cm_unlisten(struct cm_listener *listener) URNIC_EXPORT_AS(nic_cm_unlisten);
int nic_cm_connect(struct cm_conn *conn, const struct cm_path *path, const struct cm_req *req)
	URNIC_EXPORT_AS(nic_cm_connect);
int nic_cm_accept(struct cm_conn *conn, const struct cm_rep *rep) URNIC_EXPORT_AS(nic_cm_accept);
int nic_cm_reject(struct cm_conn *conn, const struct cm_rej *rej) URNIC_EXPORT_AS(nic_cm_reject);
int nic_cm_ready(struct cm_conn *conn) URNIC_EXPORT_AS(nic_cm_ready);
int nic_cm_establish(struct cm_conn *conn) URNIC_EXPORT_AS(nic_cm_establish);
/*
 * The lane of the connection's queue pair takes in what has arrived, and sends what it owes. So
 * what the peer acknowledged before it disconnected is complete before the program hears of that;
 * and the peer has our acknowledgements before our DREQ. Not with the manager locked.
 */
void nic_cm_settle(const struct cm_conn *conn) URNIC_EXPORT_AS(nic_cm_settle);
int nic_cm_disconnect(struct cm_conn *conn) URNIC_EXPORT_AS(nic_cm_disconnect);
int nic_cm_sidr_request(struct cm_conn *conn, const struct cm_path *path,
	const struct cm_sidr_req *request) URNIC_EXPORT_AS(nic_cm_sidr_request);
int nic_cm_sidr_answer(struct cm_conn *conn, const struct cm_sidr_rep *answer)
	URNIC_EXPORT_AS(nic_cm_sidr_answer);

/* Which life of the process this is: it changes with a fork. */
uint64_t nic_cm_epoch(void) URNIC_EXPORT_AS(nic_cm_epoch);

/* 24 random bits, for a starting PSN. */
uint32_t nic_cm_random_psn(void) URNIC_EXPORT_AS(nic_cm_random_psn);

#endif
