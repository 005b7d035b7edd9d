/* SPDX-License-Identifier: BSD-2-Clause */
#include <net/if.h>
#include <unistd.h>

#include "netdev/netdev.h"
#include "port/address.h"
#include "port/socket.h"

/* A local address is one that a socket can be bound to. */
static bool can_bind(const struct gid *gid, uint32_t ifindex)
{
	union socket_address address;
	socklen_t bytes = socket_address_make(&address, gid, ifindex, 0);
	int fd = socket_open(address.base.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool is_bound;

	if (fd < 0)
		return false;
	is_bound = bind(fd, &address.base, bytes) == 0;
	close(fd);
	return is_bound;
}

bool netdev_has_address(const struct gid *gid, uint32_t ifindex)
{
	struct if_nameindex *interfaces;
	bool is_found = false;

	if (ifindex || !gid_is_link_local(gid))
		return can_bind(gid, ifindex);
	interfaces = if_nameindex();
	if (!interfaces)
		return false;
	for (uint32_t i = 0; !is_found && interfaces[i].if_index; i++)
		is_found = can_bind(gid, interfaces[i].if_index);
	if_freenameindex(interfaces);
	return is_found;
}
