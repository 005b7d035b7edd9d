/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PORT_TCP_H
#define URNIC_PORT_TCP_H

/*
 * TCP sockets for iWARP: connections and byte transfers. Nothing blocks; the caller serializes the
 * calls on a socket, and closes descriptors.
 *
 * Small messages are not delayed (TCP_NODELAY). Keepalive notices a dead peer of an idle
 * connection. While bytes are under way keepalive has no effect, and the kernel retransmits for a
 * quarter of an hour. port_tcp_look() lets a caller give up earlier. (TCP_USER_TIMEOUT would also
 * end connections to a live peer that does not read.)
 */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/gid.h"

/* The local or remote address of a socket. */
struct port_tcp_address {
	struct gid gid; /* the zero address of its family: any */
	uint32_t ifindex; /* the scope of a link-local address */
	uint16_t port; /* 0: any */
};

/*
 * Listen. `is_ipv6_only`: with the any address of IPv6, leave IPv4 to others. Connections of the
 * address may still be ending (SO_REUSEADDR). Returns a descriptor, or -errno.
 */
int port_tcp_listen(const struct port_tcp_address *local, bool is_ipv6_only, int backlog);

/* Accept a connection. Returns its descriptor; -EAGAIN when there is none; or another -errno. */
int port_tcp_accept(int listener);

/*
 * Begin to connect. `local` may have no port. `tos`: of its packets. Returns a descriptor, which
 * becomes writable when the connection is established or has failed; or -errno.
 */
int port_tcp_connect(
	const struct port_tcp_address *local, const struct port_tcp_address *remote, uint8_t tos);

/* The result of port_tcp_connect(): 0, or -errno. */
int port_tcp_connected(int fd);

/* Both ends of a connection. Returns 0 or -errno. */
int port_tcp_addresses(
	int fd, struct port_tcp_address *ret_local, struct port_tcp_address *ret_remote);

/*
 * Receive into the pieces in order. Returns the number of bytes, at least 1; 0 when the peer has
 * ended its half; -EAGAIN for none now; another -errno when the connection is lost.
 */
int64_t port_tcp_receive(int fd, const struct iovec *pieces, unsigned count);

/*
 * port_tcp_receive() into one piece. Inline, because the depth of the call stack matters for a
 * system call (worker_streams_read_ahead).
 */
static inline int64_t port_tcp_receive_one(int fd, void *to, size_t bytes)
{
	/*
	 * Not the C library's function: that is a cancellation point, and the caller holds locks.
	 */
	int64_t taken = syscall(SYS_recvfrom, fd, to, bytes, MSG_DONTWAIT, NULL, NULL);

	return taken < 0 ? (errno == EINTR ? -EAGAIN : -errno) : taken;
}

/*
 * Send the pieces in order. Returns the number of bytes taken; -EAGAIN for none now; another -errno
 * when the connection is lost.
 */
int64_t port_tcp_send(int fd, const struct iovec *pieces, unsigned count);

enum { PORT_TCP_USER_TIMEOUT_S = 40 };

/*
 * Give up a peer that is silent for so many seconds, at least 2, keepalive probes included. The
 * default is PORT_TCP_USER_TIMEOUT_S.
 */
void port_tcp_set_user_timeout(int fd, unsigned seconds);

/* The state of the sent bytes. */
struct port_tcp_state {
	bool is_under_way; /* some are not acknowledged */
	/*
	 * The kernel retransmits the bytes, or repeats its window probes, and the last repetition
	 * is unanswered.
	 */
	bool is_repeating;
	uint64_t heard_ns_ago; /* since the last acknowledgement of any kind */
};

/* Returns 0 or -errno. */
int port_tcp_look(int fd, struct port_tcp_state *ret);

/* End our half. */
void port_tcp_end(int fd);

/*
 * What the close of the socket does, also when the process is killed. If set, it drops the bytes
 * that the peer has not acknowledged, and resets the connection. Otherwise, and at first, the
 * kernel goes on sending them.
 */
void port_tcp_set_dropping(int fd, bool is_dropping);

/*
 * Leave the rest to the kernel: it sends the bytes that it has taken, then a FIN. Input is
 * discarded. The caller closes the socket next, or the process ends.
 *
 * Otherwise Linux resets a connection that is closed with unread input, or that receives input
 * afterwards, and drops what it has not sent yet. Here, the socket has no input: segments with
 * payload are dropped before TCP sees them. That lasts for some seconds beyond the FIN, so that the
 * peer can read all.
 *
 * `give_up_ms`  The kernel drops a connection without progress for so long. 0: its own limit.
 */
void port_tcp_finish(int fd, unsigned give_up_ms);

#endif
