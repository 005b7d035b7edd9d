/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/rdmacm/address.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "front/rdmacm/infiniband.h"
#include "os/log.h"
#include "port/address.h"
#include "port/socket.h"

enum { ANY_PORT = 9 /* connect() needs a port, but nothing is sent to it */ };

static const union socket_address *address_from(const struct sockaddr *address)
{
	return (const union socket_address *)(const void *)address;
}

socklen_t address_bytes(const struct sockaddr *address)
{
	switch (address->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return 0;
	}
}

struct gid address_gid(const struct sockaddr *address)
{
	return socket_address_gid(address_from(address));
}

uint16_t address_port(const struct sockaddr *address)
{
	return socket_address_port(address_from(address));
}

void address_set_port(struct sockaddr *address, uint16_t port)
{
	if (address->sa_family == AF_INET)
		((struct sockaddr_in *)(void *)address)->sin_port = htons(port);
	else
		((struct sockaddr_in6 *)(void *)address)->sin6_port = htons(port);
}

bool address_is_any(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
		return address_from(address)->ipv4.sin_addr.s_addr == htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(&address_from(address)->ipv6.sin6_addr);
}

bool address_is_loopback(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
		return ntohl(address_from(address)->ipv4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(&address_from(address)->ipv6.sin6_addr);
}

uint32_t address_ifindex(const struct sockaddr *address)
{
	struct gid gid = address_gid(address);

	return address->sa_family == AF_INET6 && gid_is_link_local(&gid)
		? address_from(address)->ipv6.sin6_scope_id
		: 0;
}

void address_make(
	struct sockaddr_storage *address, const struct gid *gid, uint16_t port, uint32_t ifindex)
{
	memset(address, 0, sizeof(*address));
	socket_address_make((union socket_address *)(void *)address, gid, ifindex, port);
}

static int kernel_route(
	int fd, const struct sockaddr *remote, uint8_t tos, struct sockaddr_storage *local)
{
	const int value = tos;
	struct sockaddr_storage from = *local, to = {0};
	socklen_t bytes = sizeof(*local);

	memcpy(&to, remote, address_bytes(remote));
	address_set_port((struct sockaddr *)&from, 0);
	address_set_port((struct sockaddr *)&to, ANY_PORT);
	if (tos != 0)
		setsockopt(fd, remote->sa_family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6,
			remote->sa_family == AF_INET ? IP_TOS : IPV6_TCLASS, &value, sizeof(value));
	if (!address_is_any((struct sockaddr *)&from) &&
		bind(fd, (struct sockaddr *)&from, address_bytes((struct sockaddr *)&from)) != 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&to, address_bytes(remote)) != 0 ||
		getsockname(fd, (struct sockaddr *)local, &bytes) != 0)
		return -errno;
	return 0;
}

int address_source(const struct sockaddr *remote, uint8_t tos, struct sockaddr_storage *local)
{
	int fd, rc;

	if (infiniband_is_used())
		return infiniband_source(remote, local);
	fd = socket_open(remote->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return log_refusal("the route to a peer is not known", "socket");
	rc = kernel_route(fd, remote, tos, local);
	close(fd);
	return rc;
}
