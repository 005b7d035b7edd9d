/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PORT_SOCKET_H
#define URNIC_PORT_SOCKET_H

/* Opening urnic's sockets, and setting common options. Any thread may call. */

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/gid.h"

enum { SOCKET_HOP_LIMIT = 64 }; /* for packets of socket_open_sender(); a message may override it */

/*
 * The system call socket(2), not the C library's function. A program may run with librspreload,
 * which replaces that function and makes rsockets. urnic's own sockets must be real sockets.
 */
static inline int socket_open(int family, int type, int protocol)
{
	return (int)syscall(SYS_socket, family, type, protocol);
}

/* Set an option whose value is an int. Returns 0 or -errno. */
int socket_set(int fd, int level, int name, int value);

/*
 * Drop all input of a socket that urnic never reads, so that unread input does not accumulate.
 * Returns 0 or -errno.
 */
int socket_refuse_input(int fd);

/* Make the send buffer `bytes` large, or as large as the system's limit allows. */
void socket_grow_send_buffer(int fd, int bytes);

/*
 * Open a UDP socket that only sends RoCEv2 packets. It is bound to a free source port; the search
 * for that port goes upwards from a random port. The socket's IPv4 packets have the flag DF. With
 * DF, the IPv4 identification that the kernel writes, and that the ICRC covers, is predictable: 0,
 * or 0, 1, 2 ... for the packets of one super-packet.
 *
 * `scope_ifindex`  The interface of a link-local address.
 * `what`           What is missing without the socket, as in log_refusal(). NULL: the caller does
 *                  without, so an error is not logged.
 *
 * Returns the descriptor, or -errno: -EADDRINUSE when all tried ports are taken.
 */
int socket_open_sender(
	const struct gid *local, uint32_t scope_ifindex, const char *what, uint16_t *ret_port);

#endif
