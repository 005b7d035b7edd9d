/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_AGENT_CAPTURE_SOCKET_H
#define URNIC_AGENT_CAPTURE_SOCKET_H

/*
 * How a starting process finds a running capture.
 *
 * The capturing program listens on a unix SOCK_SEQPACKET socket, whose path agent/place.h finds;
 * root listens for all users. Each new NIC connects. If the listener is of the same user or root,
 * the NIC passes it the descriptors of its NIC memory. The listener sends no answer, and the
 * connection ends.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "agent/place.h"

/*
 * Listen, as the effective user. Returns 0 and a listener, for place_leave(); -EADDRINUSE when
 * another process of the user listens; or another -errno.
 */
int capture_socket_listen(struct place_listener *ret_listener);

/*
 * Receive the NIC memory of a new process. Returns 0, the process, its user and the descriptors of
 * both sides of its NIC memory. The caller owns these descriptors and checks them: they may be of
 * any kind. Returns -EAGAIN when no process has connected; another -errno: ignore the process.
 */
int capture_socket_accept(
	int listener, pid_t *ret_pid, uid_t *ret_uid, int *ret_memory, int *ret_shared);

/*
 * Pass both sides of NIC memory to the program that captures this user's processes. Returns whether
 * such a program took them. Never blocks.
 */
bool capture_socket_offer(int memory, int shared);

#endif
