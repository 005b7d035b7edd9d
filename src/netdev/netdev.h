/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NETDEV_NETDEV_H
#define URNIC_NETDEV_NETDEV_H

/*
 * The network interfaces of this network namespace.
 *
 * A list is a snapshot, taken over netlink and never refreshed. The interface of the default route
 * comes first, then the others by index, and loopback last, because many programs take the first
 * usable interface. Any thread may take a snapshot.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/export.h"
#include "base/gid.h"

enum {
	NETDEV_NAME_BYTES = 16,
	NETDEV_GIDS_MAX = 32, /* further addresses of an interface are left out */
	NETDEV_COUNT_MAX = 256, /* further interfaces are left out */
};

struct netdev {
	char name[NETDEV_NAME_BYTES];
	uint32_t ifindex;
	uint32_t mtu_bytes; /* the longest IP packet */
	uint8_t mac[6]; /* zero if the link has none (loopback, tunnels) */
	bool is_up;
	bool is_loopback;
	bool has_carrier; /* operational: false while the cable is out */
	/* The best default route (IPv4 before IPv6, then by metric) uses this interface. */
	bool has_default_route;
	uint32_t gid_count;
	/* IPv4, then global IPv6, then link-local; each in the kernel's order. */
	struct gid gids[NETDEV_GIDS_MAX];
};

static inline bool netdev_is_usable(const struct netdev *netdev)
{
	return netdev->is_up && netdev->gid_count > 0;
}

struct netdev_list {
	uint64_t netns_cookie; /* identifies the network namespace; 0 before Linux 5.14 */
	bool is_complete; /* false: there are more interfaces than fit */
	uint32_t count;
	struct netdev devices[NETDEV_COUNT_MAX];
};

/* The interface of that index; NULL: it is not in the list. */
static inline struct netdev *netdev_find(struct netdev_list *list, uint32_t ifindex)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (list->devices[i].ifindex == ifindex)
			return &list->devices[i];
	return NULL;
}

/*
 * Take a snapshot of this network namespace. Tentative and failed (duplicate) IPv6 addresses are
 * left out, because no socket can be bound to them.
 *
 * Returns 0 and a list for free(); -ENOMEM; or the -errno of netlink.
 */
int netdev_list_create(struct netdev_list **ret_list) URNIC_EXPORT_AS(netdev_list_create);

/*
 * Does this network namespace have this address?
 *
 * `ifindex`  The interface of a link-local address; 0: any.
 */
bool netdev_has_address(const struct gid *gid, uint32_t ifindex);

#endif
