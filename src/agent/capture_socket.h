/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_AGENT_CAPTURE_SOCKET_H
#define URNIC_AGENT_CAPTURE_SOCKET_H

/*
 * How a process that starts meets one that captures.
 *
 * Who captures listens on a unix SOCK_SEQPACKET socket, whose path agent/place.h finds; root for
 * all users. Each NIC that begins connects, and if somebody listens there who may look at its
 * user's memory anyway (the same user, or root), hands over the descriptor of its NIC memory.
 * Nothing is answered, and the connection ends.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "agent/place.h"

/*
 * Listen, as the effective user. Returns 0 and a listener, for place_leave(); or -errno:
 * -EADDRINUSE when another process of the user does.
 */
int capture_socket_listen(struct place_listener *ret_listener);

/*
 * Take in what a process that has begun has handed over. Returns 0, its number, its user and the
 * descriptors of both sides of its NIC memory, which are the caller's and may be of anything;
 * -EAGAIN when there is none; or another -errno for one that is to be ignored.
 */
int capture_socket_accept(
	int listener, pid_t *ret_pid, uid_t *ret_uid, int *ret_memory, int *ret_shared);

/*
 * Hand over both sides of NIC memory to whoever captures what this user does. Returns whether
 * anybody took it. Never blocks.
 */
bool capture_socket_offer(int memory, int shared);

#endif
