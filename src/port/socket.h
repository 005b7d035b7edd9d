/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PORT_SOCKET_H
#define URNIC_PORT_SOCKET_H

/* Sockets of urnic's own, and what several of them need. Any thread. */

#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/gid.h"

enum { SOCKET_HOP_LIMIT = 64 }; /* of a sender, unless a packet has its own */

/*
 * socket(2) itself. A program may run with librspreload, which makes rsockets of the program's
 * sockets. urnic's own sockets must be real ones, whichever thread opens them.
 */
static inline int socket_open(int family, int type, int protocol)
{
	return (int)syscall(SYS_socket, family, type, protocol);
}

/* Set an option whose value is an int. Returns 0 or -errno. */
int socket_set(int fd, int level, int name, int value);

/* Drop all input: unread input of a socket to which no peer sends must not pile up. 0 or -errno. */
int socket_refuse_input(int fd);

/* Make the send buffer as large as this, or as the limit allows. */
void socket_grow_send_buffer(int fd, int bytes);

/*
 * A UDP socket that only sends RoCEv2 packets, bound to a free source port, which is searched
 * upwards from a random one. Its packets have DF, as the ICRC covers the IPv4 identification, which
 * DF makes predictable: 0, or 0, 1, 2 ... for the segments of a send.
 *
 * `scope_ifindex`  The interface of a link-local address.
 *
 * Returns the descriptor, or -errno: -EADDRINUSE when all tried ports are taken.
 */
int socket_open_sender(const struct gid *local, uint32_t scope_ifindex, uint16_t *ret_port);

#endif
