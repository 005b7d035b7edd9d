/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The network of the kernel: TCP sockets.
 *
 * The host's sockets have SO_LINGER with time 0: close() drops the bytes that the kernel has not
 * sent yet. Otherwise an old write command could reach the controller after the host has repeated
 * that command on a new connection.
 *
 * Accepted sockets have SO_KEEPALIVE and TCP_USER_TIMEOUT. A host that does not use NVMe's keep
 * alive may vanish with commands outstanding, and that host's next connection waits until these
 * commands have ended. The options limit that wait, because they end the old connection. Both are
 * needed: while sent bytes are not acknowledged, the kernel sends no probes of SO_KEEPALIVE, and
 * without TCP_USER_TIMEOUT it retransmits for some 15 minutes. As a side effect, a host that reads
 * nothing for 60 seconds loses its connection.
 */
#include "nvmf/common/network.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	BACKLOG = 128,
	/* The kernel ends a connection 60 seconds after the last byte from its peer. */
	ALIVE_IDLE_SECONDS = 30,
	ALIVE_STEP_SECONDS = 10,
	ALIVE_STEPS = 3,
	UNACKNOWLEDGED_MS = 60000,
};

static socklen_t address_bytes(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					      : sizeof(struct sockaddr_in);
}

static int socket_open(const struct sockaddr_storage *address)
{
	return socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static int fail_close(int fd)
{
	int error = -errno;

	close(fd);
	return error;
}

static int socket_connect(struct network *network, const struct sockaddr_storage *local,
	const struct sockaddr_storage *remote)
{
	const struct linger drop = {.l_onoff = 1};
	const int on = 1;
	int fd = socket_open(remote);

	(void)network;
	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &drop, sizeof(drop));
	if (local->ss_family != 0 &&
		bind(fd, (const struct sockaddr *)local, address_bytes(remote)) != 0)
		return fail_close(fd);
	if (connect(fd, (const struct sockaddr *)remote, address_bytes(remote)) != 0 &&
		errno != EINPROGRESS)
		return fail_close(fd);
	return fd;
}

static int socket_connected(struct network *network, int fd)
{
	int error = 0;
	socklen_t bytes = sizeof(error);

	(void)network;
	(void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
	return -error;
}

static int socket_listen(struct network *network, const struct sockaddr_storage *address)
{
	const int on = 1;
	int fd = socket_open(address);

	(void)network;
	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->ss_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, (const struct sockaddr *)address, address_bytes(address)) != 0 ||
		listen(fd, BACKLOG) != 0)
		return fail_close(fd);
	return fd;
}

static void keep_alive(int fd)
{
	const int on = 1, idle = ALIVE_IDLE_SECONDS, step = ALIVE_STEP_SECONDS, count = ALIVE_STEPS;
	const unsigned unacknowledged = UNACKNOWLEDGED_MS;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &step, sizeof(step));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
	(void)setsockopt(
		fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged, sizeof(unacknowledged));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

static int socket_accept(struct network *network, int fd, struct sockaddr_storage *ret_peer)
{
	const int on = 1;
	socklen_t bytes = sizeof(*ret_peer);
	int accepted =
		accept4(fd, (struct sockaddr *)ret_peer, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);

	(void)network;
	if (accepted < 0)
		return -errno;
	(void)setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	keep_alive(accepted);
	return accepted;
}

static ssize_t socket_send(
	struct network *network, int fd, const struct iovec *parts, size_t part_count)
{
	struct msghdr message = {
		.msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = part_count};
	ssize_t sent;

	(void)network;
	do {
		sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : sent;
}

static ssize_t socket_receive(
	struct network *network, int fd, const struct iovec *parts, size_t part_count)
{
	struct msghdr message = {
		.msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = part_count};
	ssize_t received;

	(void)network;
	do {
		received = recvmsg(fd, &message, MSG_DONTWAIT);
	} while (received < 0 && errno == EINTR);
	return received < 0 ? -errno : received;
}

static void socket_close(struct network *network, int fd)
{
	(void)network;
	close(fd);
}

struct network network_sockets = {
	.connect = socket_connect,
	.connected = socket_connected,
	.listen = socket_listen,
	.accept = socket_accept,
	.send = socket_send,
	.receive = socket_receive,
	.close = socket_close,
};

void network_address_text(const struct sockaddr_storage *address, char *text, size_t text_bytes)
{
	char host[INET6_ADDRSTRLEN + 16] = "?";
	char port[8] = "?";

	getnameinfo((const struct sockaddr *)address, sizeof(*address), host, sizeof(host), port,
		sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(text, text_bytes, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}
