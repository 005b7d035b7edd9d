/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The data path makes its system calls without the C library. The library's functions are
 * cancellation points, and a thread that is cancelled there would keep the caller's locks.
 */
#include "port/tcp.h"

#include <linux/filter.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include "base/arith.h"
#include "os/log.h"
#include "port/address.h"
#include "port/socket.h"

static socklen_t sockaddr_make(union socket_address *to, const struct port_tcp_address *from)
{
	return socket_address_make(to, &from->gid, from->ifindex, from->port);
}

/* The first keepalive probe is sent after a quarter of `seconds`, then one each eighth of it. */
void port_tcp_set_user_timeout(int fd, unsigned seconds)
{
	unsigned idle_s = seconds / 4 + !(seconds / 4), interval_s = seconds / 8 + !(seconds / 8);

	socket_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, (int)idle_s);
	socket_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, (int)interval_s);
	socket_set(fd, IPPROTO_TCP, TCP_KEEPCNT, (int)((seconds - idle_s) / interval_s));
}

/* Set the options of every connection. If the kernel refuses one, the connection still works. */
static void options_set(int fd)
{
	socket_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	socket_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	port_tcp_set_user_timeout(fd, PORT_TCP_USER_TIMEOUT_S);
}

/*
 * Is this error about the addresses? The program gets such an error as its result, so it is not
 * logged.
 */
static bool is_answer(int error)
{
	switch (error) {
	case EADDRINUSE:
	case EADDRNOTAVAIL:
	case ECONNREFUSED:
	case EHOSTDOWN:
	case EHOSTUNREACH:
	case ENETDOWN:
	case ENETUNREACH:
	case ETIMEDOUT:
		return true;
	default:
		return false;
	}
}

/* `call` has failed: close the socket. Returns -errno. */
static int fail_close(int fd, const char *what, const char *call)
{
	int error = -errno;

	if (!is_answer(errno))
		log_refusal(what, call);
	close(fd);
	return error;
}

static int open_socket(sa_family_t family, const char *what)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? log_refusal(what, "socket") : fd;
}

static const char no_listener[] = "no listener for iWARP connections";
static const char no_connection[] = "no iWARP connection";

int port_tcp_listen(const struct port_tcp_address *local, bool is_ipv6_only, int backlog)
{
	union socket_address address;
	socklen_t bytes = sockaddr_make(&address, local);
	int fd = open_socket(address.base.sa_family, no_listener);

	if (fd < 0)
		return fd;
	socket_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (address.base.sa_family == AF_INET6)
		socket_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, is_ipv6_only);
	if (bind(fd, &address.base, bytes))
		return fail_close(fd, no_listener, "bind");
	if (listen(fd, backlog))
		return fail_close(fd, no_listener, "listen");
	return fd;
}

int port_tcp_accept(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return -errno;
	options_set(fd);
	return fd;
}

int port_tcp_connect(
	const struct port_tcp_address *local, const struct port_tcp_address *remote, uint8_t tos)
{
	union socket_address from, to;
	socklen_t from_bytes = sockaddr_make(&from, local), to_bytes = sockaddr_make(&to, remote);
	int fd = open_socket(to.base.sa_family, no_connection);

	if (fd < 0)
		return fd;
	options_set(fd);
	socket_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (to.base.sa_family == AF_INET6)
		socket_set(fd, IPPROTO_IPV6, IPV6_TCLASS, tos);
	else
		socket_set(fd, IPPROTO_IP, IP_TOS, tos);
	if (bind(fd, &from.base, from_bytes))
		return fail_close(fd, no_connection, "bind");
	if (connect(fd, &to.base, to_bytes) && errno != EINPROGRESS)
		return fail_close(fd, no_connection, "connect");
	return fd;
}

int port_tcp_connected(int fd)
{
	int error = 0;
	socklen_t bytes = sizeof(error);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes))
		return -errno;
	return -error;
}

int port_tcp_addresses(
	int fd, struct port_tcp_address *ret_local, struct port_tcp_address *ret_remote)
{
	union socket_address local = {0}, remote = {0};
	socklen_t local_bytes = sizeof(local), remote_bytes = sizeof(remote);

	if (getsockname(fd, &local.base, &local_bytes) ||
		getpeername(fd, &remote.base, &remote_bytes))
		return -errno;
	*ret_local = (struct port_tcp_address){
		.gid = socket_address_gid(&local), .port = socket_address_port(&local)};
	*ret_remote = (struct port_tcp_address){
		.gid = socket_address_gid(&remote), .port = socket_address_port(&remote)};
	if (local.base.sa_family == AF_INET6)
		ret_local->ifindex = local.ipv6.sin6_scope_id;
	ret_remote->ifindex = ret_local->ifindex;
	return 0;
}

int64_t port_tcp_receive(int fd, const struct iovec *pieces, unsigned count)
{
	int64_t bytes;

	if (count == 1)
		return port_tcp_receive_one(fd, pieces->iov_base, pieces->iov_len);
	bytes = syscall(SYS_readv, fd, pieces, count);
	return bytes < 0 ? (errno == EINTR ? -EAGAIN : -errno) : bytes;
}

enum { SEND_FLAGS = MSG_NOSIGNAL | MSG_DONTWAIT };

static int64_t send_pieces(int fd, const struct iovec *pieces, unsigned count)
{
	const struct msghdr message = {
		.msg_iov = (struct iovec *)(uintptr_t)pieces, /* the kernel only reads them */
		.msg_iovlen = count,
	};

	return syscall(SYS_sendmsg, fd, &message, SEND_FLAGS);
}

int64_t port_tcp_send(int fd, const struct iovec *pieces, unsigned count)
{
	int64_t taken = count == 1
		? syscall(SYS_sendto, fd, pieces->iov_base, pieces->iov_len, SEND_FLAGS, NULL, 0)
		: send_pieces(fd, pieces, count);

	return taken < 0 ? (errno == EINTR ? -EAGAIN : -errno) : taken;
}

int port_tcp_look(int fd, struct port_tcp_state *ret)
{
	struct tcp_info info = {0};
	socklen_t bytes = sizeof(info);
	int waiting_bytes;

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) ||
		ioctl(fd, SIOCOUTQ, &waiting_bytes))
		return -errno;
	*ret = (struct port_tcp_state){
		.is_under_way = waiting_bytes > 0,
		.is_repeating = info.tcpi_retransmits || info.tcpi_probes,
		.heard_ns_ago = info.tcpi_last_ack_recv * 1000000ull,
	};
	return 0;
}

void port_tcp_end(int fd)
{
	shutdown(fd, SHUT_WR);
}

void port_tcp_set_dropping(int fd, bool is_dropping)
{
	const struct linger linger = {.l_onoff = is_dropping};

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

/*
 * Attach a filter that accepts only segments without payload: acknowledgements, FIN and RST. The
 * filter sees a segment from its TCP header on. If the kernel refuses the filter, payload that
 * arrives after close() makes the kernel reset the connection.
 */
static void payload_refuse(int fd)
{
	static const struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 12), /* data offset, in the upper 4 bits */
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 2),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x3c), /* the header's length in bytes */
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	const struct sock_fprog program = {
		.len = ARRAY_COUNT(code),
		.filter = (struct sock_filter *)(uintptr_t)code, /* the kernel only reads it */
	};

	setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

/* The number of reads is limited, because input keeps arriving if the kernel refused the filter. */
enum { DISCARDS_MAX = 16, DISCARD_BYTES = 1 << 26 };

static void input_discard(int fd)
{
	int64_t bytes = 1;

	for (unsigned i = 0; i < DISCARDS_MAX && bytes > 0; i++)
		bytes = syscall(SYS_recvfrom, fd, NULL, DISCARD_BYTES, MSG_DONTWAIT | MSG_TRUNC,
			NULL, NULL);
}

/*
 * If the peer sends no FIN, Linux keeps the closed socket for the time TCP_LINGER2 minus
 * TCP_TIMEWAIT_LEN (one minute). Afterwards it keeps only a stub without a filter, which resets the
 * connection when input arrives. A peer whose connection is reset may lose bytes that it has
 * received and not yet read. To keep the socket and its filter for SILENCE_S, port_tcp_finish()
 * sets TCP_LINGER2 to SILENCE_S + TIMEWAIT_S.
 */
enum { SILENCE_S = 10, TIMEWAIT_S = 60 };

void port_tcp_finish(int fd, unsigned give_up_ms)
{
	payload_refuse(fd);
	input_discard(fd);
	socket_set(fd, IPPROTO_TCP, TCP_LINGER2, TIMEWAIT_S + SILENCE_S);
	if (give_up_ms)
		socket_set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)give_up_ms);
}
