/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PORT_TCP_H
#define URNIC_PORT_TCP_H

/*
 * TCP sockets for iWARP: connections and byte transfers. No function blocks. The caller serializes
 * the calls on a socket, and closes the descriptors that functions return.
 *
 * Small messages are not delayed (TCP_NODELAY). Keepalive detects a dead peer of an idle
 * connection. While sent bytes are unacknowledged, keepalive has no effect, and the kernel
 * retransmits for a quarter of an hour. A caller that wants to give up earlier watches the
 * connection with port_tcp_look(). (TCP_USER_TIMEOUT would also end a connection whose peer is
 * alive but does not read.)
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
	struct gid gid; /* the zero address of a family means any address */
	uint32_t ifindex; /* the scope of a link-local address */
	uint16_t port; /* 0: any port */
};

/*
 * Listen at `local`. `is_ipv6_only`: a socket for any address of IPv6 does not accept IPv4.
 * Earlier connections of the address that are still ending do not make the call fail
 * (SO_REUSEADDR). Returns a descriptor, or -errno.
 */
int port_tcp_listen(const struct port_tcp_address *local, bool is_ipv6_only, int backlog);

/* Accept a connection. Returns its descriptor; -EAGAIN when none waits; or another -errno. */
int port_tcp_accept(int listener);

/*
 * Begin to connect. `local` may have port 0. `tos` is the TOS or traffic class of the packets.
 * Returns a descriptor, which becomes writable when the connection is established or has failed; or
 * -errno.
 */
int port_tcp_connect(
	const struct port_tcp_address *local, const struct port_tcp_address *remote, uint8_t tos);

/* The result of port_tcp_connect(): 0, or -errno. */
int port_tcp_connected(int fd);

/* Get the addresses of both ends of a connection. Returns 0 or -errno. */
int port_tcp_addresses(
	int fd, struct port_tcp_address *ret_local, struct port_tcp_address *ret_remote);

/*
 * Receive into the pieces in order. Returns the number of bytes, at least 1; 0 when the peer has
 * ended its half of the connection; -EAGAIN when no bytes have arrived; another -errno when the
 * connection is lost.
 */
int64_t port_tcp_receive(int fd, const struct iovec *pieces, unsigned count);

/*
 * Like port_tcp_receive(), but into one piece. The function is inline because a system call is
 * faster when the call stack is shallow (worker_streams_read_ahead()).
 */
static inline int64_t port_tcp_receive_one(int fd, void *to, size_t bytes)
{
	/* Not the C library's function, a cancellation point, because the caller holds locks. */
	int64_t taken = syscall(SYS_recvfrom, fd, to, bytes, MSG_DONTWAIT, NULL, NULL);

	return taken < 0 ? (errno == EINTR ? -EAGAIN : -errno) : taken;
}

/*
 * Send the pieces in order. Returns the number of bytes that the kernel took; -EAGAIN when its send
 * buffer is full; another -errno when the connection is lost.
 */
int64_t port_tcp_send(int fd, const struct iovec *pieces, unsigned count);

enum { PORT_TCP_USER_TIMEOUT_S = 40 };

/*
 * Set after how many seconds of silence the kernel gives up the peer of an idle connection. The
 * keepalive probes are sent within these seconds. `seconds` is at least 2; the default is
 * PORT_TCP_USER_TIMEOUT_S.
 */
void port_tcp_set_user_timeout(int fd, unsigned seconds);

/* The state of the sent bytes. */
struct port_tcp_state {
	bool is_under_way; /* some bytes are not acknowledged */
	/*
	 * The kernel retransmits bytes or window probes, and the peer has not answered the last
	 * retransmission.
	 */
	bool is_repeating;
	uint64_t heard_ns_ago; /* time since the last acknowledgement of any kind */
};

/* Get the state of the sent bytes. Returns 0 or -errno. */
int port_tcp_look(int fd, struct port_tcp_state *ret);

/* End our half of the connection: send a FIN after the bytes that the kernel has taken. */
void port_tcp_end(int fd);

/*
 * Set what the kernel does with unacknowledged bytes once the process has closed the socket or has
 * died. With `is_dropping` the kernel drops them, and resets the connection. Otherwise it continues
 * to send them, which is the default.
 */
void port_tcp_set_dropping(int fd, bool is_dropping);

/*
 * Leave the end of the connection to the kernel: it sends the bytes that it has taken, then a FIN.
 * The call discards unread input. Next, the caller closes the socket, or the process ends.
 *
 * Linux resets a connection that is closed with unread input, or that receives input after the
 * close, and then drops the bytes that it has not sent yet. To prevent that, the call attaches a
 * filter that drops segments with payload before TCP sees them. The filter stays for some seconds
 * after the FIN, so that the peer can read all bytes.
 *
 * `give_up_ms`  The time without progress after which the kernel gives up the connection. 0: the
 *               kernel's default.
 */
void port_tcp_finish(int fd, unsigned give_up_ms);

#endif
