/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PORT_TCP_H
#define URNIC_PORT_TCP_H

/*
 * TCP sockets for iWARP: made, and bytes moved. Nothing blocks; the caller serializes the calls on
 * one socket. Descriptors are the caller's to close.
 *
 * Small messages are not held back (TCP_NODELAY), and a peer that is gone is noticed after a while
 * even if nothing is sent (keepalive). While something is under way keepalive has no say, and the
 * kernel goes on repeating for a quarter of an hour: port_tcp_look() is for who does not want to
 * wait as long. (TCP_USER_TIMEOUT would end connections to a live peer that does not read, too.)
 */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/gid.h"

/* Where a socket is, or shall be. */
struct port_tcp_address {
	struct gid gid; /* the zero address of its family: any */
	uint32_t ifindex; /* the scope of a link-local address */
	uint16_t port; /* 0: any */
};

/*
 * Listen. `is_ipv6_only`: with any address of IPv6, leave IPv4 to others. The address may be one
 * where connections still end (SO_REUSEADDR).
 *
 * Returns a descriptor, or -errno.
 */
int port_tcp_listen(const struct port_tcp_address *local, bool is_ipv6_only, int backlog);

/* Take a connection. Returns its descriptor, or -EAGAIN when there is none, or another -errno. */
int port_tcp_accept(int listener);

/*
 * Begin to connect. `local` may have no port. `tos`: of its packets.
 *
 * Returns a descriptor, which becomes writable when it is known whether there is a connection; or
 * -errno.
 */
int port_tcp_connect(
	const struct port_tcp_address *local, const struct port_tcp_address *remote, uint8_t tos);

/* Has it come about? Returns 0, or -errno of why not. */
int port_tcp_connected(int fd);

/* Both ends of a connection. Returns 0 or -errno. */
int port_tcp_addresses(
	int fd, struct port_tcp_address *ret_local, struct port_tcp_address *ret_remote);

/*
 * Receive into the pieces in order. Returns how many bytes, at least 1; 0 when the peer has ended
 * its half; -EAGAIN for none now; another -errno when the connection is lost.
 */
int64_t port_tcp_receive(int fd, const struct iovec *pieces, unsigned count);

/*
 * The same into one piece. Inline: it may matter how deep in calls a system call is made
 * (worker_streams_read_ahead).
 */
static inline int64_t port_tcp_receive_one(int fd, void *to, size_t bytes)
{
	/* Around the C library's function: that is a cancellation point, and locks are held. */
	int64_t taken = syscall(SYS_recvfrom, fd, to, bytes, MSG_DONTWAIT, NULL, NULL);

	return taken < 0 ? (errno == EINTR ? -EAGAIN : -errno) : taken;
}

/*
 * Send the pieces in order. Returns how many bytes were taken, -EAGAIN for none now, another -errno
 * when the connection is lost.
 */
int64_t port_tcp_send(int fd, const struct iovec *pieces, unsigned count);

enum { PORT_TCP_PATIENCE_S = 40 };

/*
 * A peer that says nothing for so many seconds, at least 2, keepalive's questions included, is
 * gone. PORT_TCP_PATIENCE_S when never called.
 */
void port_tcp_set_patience(int fd, unsigned seconds);

/* What has become of the bytes that were sent. */
struct port_tcp_state {
	bool is_under_way; /* some are not acknowledged */
	/*
	 * The kernel sends them, or asks for room for them, again, and had no answer to the last
	 * time
	 */
	bool is_repeating;
	uint64_t heard_ns_ago; /* since an acknowledgement last came, of whatever */
};

/* Returns 0 or -errno. */
int port_tcp_look(int fd, struct port_tcp_state *ret);

/* End our half. */
void port_tcp_end(int fd);

#endif
