/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_CONNECTION_NIC_IWCM_HANDSHAKE_H
#define URNIC_CONNECTION_NIC_IWCM_HANDSHAKE_H

/*
 * An iWARP connection before a queue pair takes it over: TCP connect and accept, MPA request and
 * reply, and the time limit of each. Only files of this room use this header; nic_iwcm.c has the
 * lock, the thread and the program's calls.
 *
 * The caller of each function has locked the manager.
 */

#include "connection/nic_iwcm.h"

struct iwcm_manager {
	bool is_running;
	int epoll;
	int kick; /* eventfd that ends the thread's sleep */
	uint64_t sleeps_until_ns; /* the deadline until which the thread sleeps */
	nic_iw_event_fn *on_event;
	struct list conns; /* connections whose descriptors the manager has */
	struct list listeners;
};

extern struct iwcm_manager iwcm_manager;

/* Change what epoll reports about `fd`. `operation` as in epoll_ctl(2). Returns 0 or -errno. */
int iwcm_watch_fd(int fd, uint32_t events, int operation);

/* Take a connection's descriptor from the manager. The caller then owns the descriptor. */
int iwcm_release_fd(struct nic_iw_conn *conn);

/* Close a connection that no queue pair has taken over. */
void iwcm_drop(struct nic_iw_conn *conn);

/* iwcm_drop(). Unless a listener still has the connection, report NIC_IW_FAILED with -errno. */
void iwcm_fail(struct nic_iw_conn *conn, int error);

/*
 * Send the pending MPA frame. It always fits into the buffer of an idle socket. Returns 0, or
 * -errno when the connection is broken.
 */
int iwcm_send_frame(struct nic_iw_conn *conn, int fd);

/* Begin the TCP handshake, of a first or another attempt. Returns 0 or -errno. */
int iwcm_connect(struct nic_iw_conn *conn);

/*
 * Let the new connection wait in state QUEUED if an earlier one to the same port has not sent its
 * request. Returns whether it waits.
 */
bool iwcm_queue(struct nic_iw_conn *conn);

/* epoll has reported the socket of a connection, or of a listener. */
void iwcm_serve_conn(struct nic_iw_conn *conn);
void iwcm_serve_listener(struct nic_iw_listener *listener);

/*
 * Watch the listener's socket again if PAUSE_NS have passed since accept() failed. Returns when to
 * call this again; UINT64_MAX if the listener needs no further call.
 */
uint64_t iwcm_listener_resume(struct nic_iw_listener *listener, uint64_t now_ns);

#endif
