/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

socklen_t socket_address_make(
	union socket_address *address, const struct gid *gid, uint32_t scope_ifindex, uint16_t port)
{
	memset(address, 0, sizeof(*address));
	if (gid_is_ipv4(gid)) {
		address->ipv4.sin_family = AF_INET;
		address->ipv4.sin_port = htons(port);
		memcpy(&address->ipv4.sin_addr, gid->raw + 12, 4);
		return sizeof(address->ipv4);
	}
	address->ipv6.sin6_family = AF_INET6;
	address->ipv6.sin6_port = htons(port);
	memcpy(&address->ipv6.sin6_addr, gid->raw, sizeof(gid->raw));
	if (gid_is_link_local(gid))
		address->ipv6.sin6_scope_id = scope_ifindex;
	return sizeof(address->ipv6);
}

struct gid socket_address_gid(const union socket_address *address)
{
	struct gid gid;

	if (address->base.sa_family == AF_INET) {
		uint8_t ipv4[4];

		memcpy(ipv4, &address->ipv4.sin_addr, sizeof(ipv4));
		return gid_from_ipv4(ipv4);
	}
	memcpy(gid.raw, &address->ipv6.sin6_addr, sizeof(gid.raw));
	return gid;
}

uint16_t socket_address_port(const union socket_address *address)
{
	return ntohs(address->base.sa_family == AF_INET ? address->ipv4.sin_port
							: address->ipv6.sin6_port);
}

const char *gid_to_text(
	const struct gid *gid, uint32_t scope_ifindex, char text[ADDRESS_TEXT_BYTES])
{
	if (gid_is_ipv4(gid)) {
		inet_ntop(AF_INET, gid->raw + 12, text, ADDRESS_TEXT_BYTES);
		return text;
	}
	inet_ntop(AF_INET6, gid->raw, text, ADDRESS_TEXT_BYTES);
	if (gid_is_link_local(gid)) {
		size_t used = strlen(text);

		snprintf(text + used, ADDRESS_TEXT_BYTES - used, "%%%u", scope_ifindex);
	}
	return text;
}
