/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PORT_ADDRESS_H
#define URNIC_PORT_ADDRESS_H

/*
 * GIDs as socket addresses and as text.
 *
 * Pure functions over plain values; any thread may call. IPv4 GIDs become AF_INET addresses, all
 * others AF_INET6.
 */

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/export.h"
#include "base/gid.h"

/* An IPv4 or IPv6 address; `base.sa_family` says which. */
union socket_address {
	struct sockaddr base;
	struct sockaddr_in ipv4;
	struct sockaddr_in6 ipv6;
};

enum { ADDRESS_TEXT_BYTES = 64 };

/*
 * Make the socket address of (`gid`, `port`).
 *
 * `scope_ifindex`  The interface of a link-local GID; ignored for other GIDs.
 *
 * Returns the length to pass to bind() or sendmsg().
 */
socklen_t socket_address_make(union socket_address *address, const struct gid *gid,
	uint32_t scope_ifindex, uint16_t port) URNIC_EXPORT_AS(socket_address_make);

/* The GID of an IPv4 or IPv6 socket address. */
struct gid socket_address_gid(const union socket_address *address)
	URNIC_EXPORT_AS(socket_address_gid);

/* The port number in host order. */
uint16_t socket_address_port(const union socket_address *address)
	URNIC_EXPORT_AS(socket_address_port);

/* Write the GID in the usual form: 10.0.0.1, fd00::1 or fe80::1%2. Returns `text`. */
const char *gid_to_text(const struct gid *gid, uint32_t scope_ifindex,
	char text[ADDRESS_TEXT_BYTES]) URNIC_EXPORT_AS(gid_to_text);

#endif
