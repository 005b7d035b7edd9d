/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/socket.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/ip.h>
#include <sys/random.h>

#include "os/log.h"
#include "port/address.h"
#include "wire/roce.h"

enum { SOURCE_PORTS_TRIED_MAX = 1024 };

int socket_set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

int socket_refuse_input(int fd)
{
	struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog program = {.len = 1, .filter = &drop};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ? -errno : 0;
}

void socket_grow_send_buffer(int fd, int bytes)
{
	if (socket_set(fd, SOL_SOCKET, SO_SNDBUFFORCE, bytes))
		socket_set(fd, SOL_SOCKET, SO_SNDBUF, bytes);
}

static int source_bind(int fd, const struct gid *local, uint32_t scope_ifindex, uint16_t *ret_port)
{
	const unsigned range = 0x10000 - ROCE_SOURCE_PORT_MIN;
	uint16_t first = 0;

	/* If there is no random number, the search begins at the lowest port. */
	if (getrandom(&first, sizeof(first), 0) != sizeof(first))
		first = 0;
	for (unsigned i = 0; i < SOURCE_PORTS_TRIED_MAX; i++) {
		uint16_t port = (uint16_t)(ROCE_SOURCE_PORT_MIN + (first + i) % range);
		union socket_address address;
		socklen_t bytes = socket_address_make(&address, local, scope_ifindex, port);

		if (bind(fd, &address.base, bytes) == 0) {
			*ret_port = port;
			return 0;
		}
		if (errno != EADDRINUSE)
			return -errno;
	}
	return -EADDRINUSE;
}

/* Log that there is no socket, unless the caller can do without one. Returns `error`. */
static int sender_refused(const char *what, const char *call, int error)
{
	errno = -error;
	if (what)
		log_refusal(what, call);
	return error;
}

static int sender_set_options(int fd, bool is_ipv4)
{
	int level = is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
	int rc = socket_set(fd, level, is_ipv4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER,
		is_ipv4 ? IP_PMTUDISC_DO : IPV6_PMTUDISC_DO);

	if (!rc)
		rc = socket_set(fd, level, is_ipv4 ? IP_TTL : IPV6_UNICAST_HOPS, SOCKET_HOP_LIMIT);
	return rc ? rc : socket_refuse_input(fd);
}

int socket_open_sender(
	const struct gid *local, uint32_t scope_ifindex, const char *what, uint16_t *ret_port)
{
	bool is_ipv4 = gid_is_ipv4(local);
	int fd = socket_open(is_ipv4 ? AF_INET : AF_INET6,
		SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP);
	const char *call = "setsockopt";
	int rc;

	if (fd < 0)
		return sender_refused(what, "socket", -errno);
	rc = sender_set_options(fd, is_ipv4);
	if (!rc) {
		call = "bind";
		rc = source_bind(fd, local, scope_ifindex, ret_port);
	}
	if (!rc)
		return fd;
	close(fd);
	return sender_refused(what, call, rc);
}
