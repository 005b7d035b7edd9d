/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_RUNTIME_CAPTURE_SOCKET_H
#define URNIC_RUNTIME_CAPTURE_SOCKET_H

/*
 * How a process that starts meets one that captures.
 *
 * Who captures listens on a unix SOCK_SEQPACKET socket with an abstract name, `@urnic-capture-<uid>`, which the kernel keeps
 * apart per network namespace. Each NIC that begins connects, and if somebody listens there who may look at its user's memory
 * anyway (the same user, or root), hands over the descriptor of its NIC memory. Nothing is answered, and the connection ends.
 */

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

/* Returns the length for bind() and connect(). */
socklen_t capture_socket_name(struct sockaddr_un *ret_address, uid_t uid);

/*
 * Listen, as the effective user. Returns a nonblocking socket, or -errno: -EADDRINUSE when another process of the user does.
 */
int capture_socket_listen(void);

/*
 * Take in what a process that has begun has handed over. Returns 0, its number and the descriptor, which is the caller's;
 * -EAGAIN when there is none; or another -errno for one that is to be ignored.
 */
int capture_socket_accept(int listener, pid_t *ret_pid, int *ret_memory);

/* Hand over `memory` to whoever captures what this user does. Returns whether anybody took it. Never blocks. */
bool capture_socket_offer(int memory);

#endif
