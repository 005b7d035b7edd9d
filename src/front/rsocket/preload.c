/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librspreload.so: a plain sockets program over RDMA (rsocket(7)).
 *
 * Loaded before the C library, it takes socket() of TCP and UDP and every call on such a descriptor, and
 * makes rsockets calls of them. The program holds a descriptor of its own, a placeholder, which
 * stays the same when a connection cannot be made over RDMA: then an ordinary socket takes its
 * place. Everything else goes to the C library.
 *
 * Not taken: epoll. A program that waits with it sees nothing of an rsocket.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "front/rsocket/fd_sets.h"

#define PRELOAD_EXPORT __attribute__((visibility("default")))

/* The C library's function of this name, with the type of ours. */
#define REAL(name)                            \
	static __typeof__(name) *real_##name; \
	if (!real_##name)                     \
	real_##name = (__typeof__(name) *)(uintptr_t)dlsym(RTLD_NEXT, #name)

enum { DESCRIPTORS_MAX = 65536 };

/* By the program's descriptor: the rsocket, plus one; 0 for what is none. */
static int rsocket_of[DESCRIPTORS_MAX];

/* Inside an rsockets call: its own sockets are ordinary. */
static __thread int depth;

static int lookup(int fd)
{
	if (depth || fd < 0 || fd >= DESCRIPTORS_MAX)
		return -1;
	return __atomic_load_n(&rsocket_of[fd], __ATOMIC_ACQUIRE) - 1;
}

static void set(int fd, int rsocket)
{
	__atomic_store_n(&rsocket_of[fd], rsocket + 1, __ATOMIC_RELEASE);
}

/* The value of an rsockets call. */
#define INSIDE(call)                           \
	({                                     \
		depth++;                       \
		__typeof__(call) value = call; \
		depth--;                       \
		value;                         \
	})

/* The whole body of a function whose first parameter is the descriptor. */
#define FORWARD(name, fd, ...)                                            \
	do {                                                              \
		REAL(name);                                               \
		int over_rdma = lookup(fd);                               \
		if (over_rdma >= 0)                                       \
			return INSIDE(r##name(over_rdma, ##__VA_ARGS__)); \
		return real_##name(fd, ##__VA_ARGS__);                    \
	} while (0)

/* --- made and ended --- */

/* A descriptor that is the program's name for an rsocket. */
static int placeholder_make(int rsocket)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (fd >= DESCRIPTORS_MAX) {
		REAL(close);
		real_close(fd);
		errno = EMFILE;
		fd = -1;
	}
	if (fd >= 0)
		set(fd, rsocket);
	return fd;
}

PRELOAD_EXPORT int socket(int domain, int type, int protocol)
{
	int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
	bool is_ours = (domain == AF_INET || domain == AF_INET6) &&
		((kind == SOCK_STREAM && (protocol == 0 || protocol == IPPROTO_TCP)) ||
			(kind == SOCK_DGRAM && (protocol == 0 || protocol == IPPROTO_UDP)));
	int rs, fd;

	REAL(socket);
	if (depth || !is_ours)
		return real_socket(domain, type, protocol);
	rs = INSIDE(rsocket(domain, type, protocol));
	if (rs < 0)
		return real_socket(domain, type, protocol);
	fd = placeholder_make(rs);
	if (fd < 0)
		INSIDE(rclose(rs));
	return fd;
}

static int accepted(int rs)
{
	int fd = rs < 0 ? -1 : placeholder_make(rs);

	if (rs >= 0 && fd < 0)
		INSIDE(rclose(rs));
	return fd;
}

PRELOAD_EXPORT int accept(int fd, struct sockaddr *restrict addr, socklen_t *restrict addrlen)
{
	int rs = lookup(fd);

	REAL(accept);
	if (rs < 0)
		return real_accept(fd, addr, addrlen);
	return accepted(INSIDE(raccept(rs, addr, addrlen)));
}

PRELOAD_EXPORT int accept4(
	int fd, struct sockaddr *restrict addr, socklen_t *restrict addrlen, int flags)
{
	int rs = lookup(fd);

	REAL(accept4);
	if (rs < 0)
		return real_accept4(fd, addr, addrlen, flags);
	rs = INSIDE(raccept(rs, addr, addrlen));
	if (rs >= 0 && (flags & SOCK_NONBLOCK))
		INSIDE(rfcntl(rs, F_SETFL, O_NONBLOCK));
	return accepted(rs);
}

PRELOAD_EXPORT int close(int fd)
{
	int rs = lookup(fd);

	REAL(close);
	if (rs >= 0) {
		set(fd, -1);
		INSIDE(rclose(rs));
	}
	return real_close(fd);
}

/* An ordinary socket takes the place of the rsocket, with its flags. */
static int make_ordinary(int fd, int rs, int family)
{
	int flags = INSIDE(rfcntl(rs, F_GETFL));
	int ordinary, type = SOCK_STREAM;
	socklen_t bytes = sizeof(type);

	REAL(socket);
	REAL(dup2);
	REAL(close);
	INSIDE(rgetsockopt(rs, SOL_SOCKET, SO_TYPE, &type, &bytes));
	ordinary = real_socket(family, type, 0);
	if (ordinary < 0)
		return -1;
	fcntl(ordinary, F_SETFL, flags & O_NONBLOCK);
	set(fd, -1);
	INSIDE(rclose(rs));
	if (real_dup2(ordinary, fd) < 0) {
		real_close(ordinary);
		return -1;
	}
	return real_close(ordinary);
}

/* Whoever refuses, or is not there at all over RDMA, may be there over TCP. */
PRELOAD_EXPORT int connect(int fd, const struct sockaddr *addr, socklen_t addrlen)
{
	int rs = lookup(fd);

	REAL(connect);
	if (rs < 0)
		return real_connect(fd, addr, addrlen);
	if (!INSIDE(rconnect(rs, addr, addrlen)))
		return 0;
	if (errno == EINPROGRESS || errno == EALREADY || errno == EISCONN || errno == EINTR)
		return -1;
	if (make_ordinary(fd, rs, addr->sa_family))
		return -1;
	return real_connect(fd, addr, addrlen);
}

PRELOAD_EXPORT int dup2(int from, int to)
{
	int rs = lookup(from);

	REAL(dup2);
	if (lookup(to) >= 0 && from != to) {
		INSIDE(rclose(lookup(to)));
		set(to, -1);
	}
	/* One rsocket has one name: the copy gets it. */
	if (rs >= 0 && from != to && to >= 0 && to < DESCRIPTORS_MAX) {
		if (real_dup2(from, to) < 0)
			return -1;
		set(from, -1);
		set(to, rs);
		return to;
	}
	return real_dup2(from, to);
}

PRELOAD_EXPORT int bind(int fd, const struct sockaddr *addr, socklen_t addrlen)
{
	FORWARD(bind, fd, addr, addrlen);
}

PRELOAD_EXPORT int listen(int fd, int backlog)
{
	FORWARD(listen, fd, backlog);
}

PRELOAD_EXPORT int shutdown(int fd, int how)
{
	FORWARD(shutdown, fd, how);
}

/* --- bytes --- */

PRELOAD_EXPORT ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	FORWARD(send, fd, buf, len, flags);
}

PRELOAD_EXPORT ssize_t sendto(int fd, const void *buf, size_t len, int flags,
	const struct sockaddr *dest_addr, socklen_t addrlen)
{
	FORWARD(sendto, fd, buf, len, flags, dest_addr, addrlen);
}

PRELOAD_EXPORT ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	FORWARD(sendmsg, fd, msg, flags);
}

PRELOAD_EXPORT ssize_t write(int fd, const void *buf, size_t count)
{
	FORWARD(write, fd, buf, count);
}

PRELOAD_EXPORT ssize_t writev(int fd, const struct iovec *iov, int iovcnt)
{
	FORWARD(writev, fd, iov, iovcnt);
}

PRELOAD_EXPORT ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	FORWARD(recv, fd, buf, len, flags);
}

PRELOAD_EXPORT ssize_t recvfrom(int fd, void *restrict buf, size_t len, int flags,
	struct sockaddr *restrict src_addr, socklen_t *restrict addrlen)
{
	FORWARD(recvfrom, fd, buf, len, flags, src_addr, addrlen);
}

PRELOAD_EXPORT ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	FORWARD(recvmsg, fd, msg, flags);
}

PRELOAD_EXPORT ssize_t read(int fd, void *buf, size_t count)
{
	FORWARD(read, fd, buf, count);
}

PRELOAD_EXPORT ssize_t readv(int fd, const struct iovec *iov, int iovcnt)
{
	FORWARD(readv, fd, iov, iovcnt);
}

/* The file is mapped: it goes from the page cache into the send buffer. */
PRELOAD_EXPORT ssize_t sendfile(int out_fd, int in_fd, off_t *offset, size_t count)
{
	int rs = lookup(out_fd);
	off_t from = offset ? *offset : lseek(in_fd, 0, SEEK_CUR);
	char piece[65536];
	ssize_t sent;

	REAL(sendfile);
	if (rs < 0)
		return real_sendfile(out_fd, in_fd, offset, count);
	sent = pread(in_fd, piece, count < sizeof(piece) ? count : sizeof(piece), from);
	if (sent > 0)
		sent = INSIDE(rwrite(rs, piece, (size_t)sent));
	if (sent > 0 && offset)
		*offset += sent;
	else if (sent > 0)
		lseek(in_fd, from + sent, SEEK_SET);
	return sent;
}

/* --- waiting --- */

PRELOAD_EXPORT int poll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	struct pollfd *translated;
	bool has_rsocket = false;
	int ready;

	REAL(poll);
	if (depth)
		return real_poll(fds, nfds, timeout);
	translated = malloc((nfds + 1) * sizeof(*translated));
	if (!translated)
		return -1;
	for (nfds_t i = 0; i < nfds; i++) {
		int rs = lookup(fds[i].fd);

		translated[i] = fds[i];
		has_rsocket |= rs >= 0;
		if (rs >= 0)
			translated[i].fd = rs;
	}
	ready = has_rsocket ? INSIDE(rpoll(translated, nfds, timeout))
			    : real_poll(translated, nfds, timeout);
	for (nfds_t i = 0; i < nfds; i++)
		fds[i].revents = translated[i].revents;
	free(translated);
	return ready;
}

PRELOAD_EXPORT int select(int nfds, fd_set *restrict readfds, fd_set *restrict writefds,
	fd_set *restrict exceptfds, struct timeval *restrict timeout)
{
	const struct fd_sets sets = {readfds, writefds, exceptfds};
	struct pollfd fds[FD_SETSIZE];
	nfds_t count = fd_sets_to_poll(&sets, nfds < FD_SETSIZE ? nfds : FD_SETSIZE, fds);
	bool has_rsocket = false;

	REAL(select);
	for (nfds_t i = 0; i < count; i++)
		has_rsocket |= lookup(fds[i].fd) >= 0;
	if (!has_rsocket)
		return real_select(nfds, readfds, writefds, exceptfds, timeout);
	if (poll(fds, count, fd_sets_timeout_ms(timeout)) < 0)
		return -1;
	return fd_sets_from_poll(&sets, fds, count);
}

/* --- options and names --- */

PRELOAD_EXPORT int getpeername(int fd, struct sockaddr *restrict addr, socklen_t *restrict addrlen)
{
	FORWARD(getpeername, fd, addr, addrlen);
}

PRELOAD_EXPORT int getsockname(int fd, struct sockaddr *restrict addr, socklen_t *restrict addrlen)
{
	FORWARD(getsockname, fd, addr, addrlen);
}

PRELOAD_EXPORT int setsockopt(int fd, int level, int optname, const void *optval, socklen_t optlen)
{
	int rs = lookup(fd);

	REAL(setsockopt);
	if (rs < 0)
		return real_setsockopt(fd, level, optname, optval, optlen);
	/* An option that RDMA does not have is none that a program could do with. */
	if (INSIDE(rsetsockopt(rs, level, optname, optval, optlen)) && errno != ENOPROTOOPT)
		return -1;
	return 0;
}

PRELOAD_EXPORT int getsockopt(
	int fd, int level, int optname, void *restrict optval, socklen_t *restrict optlen)
{
	FORWARD(getsockopt, fd, level, optname, optval, optlen);
}

PRELOAD_EXPORT int fcntl(int fd, int cmd, ...)
{
	int rs = lookup(fd);
	va_list arguments;
	long argument;

	va_start(arguments, cmd);
	argument = va_arg(arguments, long);
	va_end(arguments);
	REAL(fcntl);
	if (rs < 0 || cmd == F_GETFD || cmd == F_SETFD)
		return real_fcntl(fd, cmd, argument);
	return INSIDE(rfcntl(rs, cmd, argument));
}
