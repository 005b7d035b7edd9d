/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NETDEV_NEIGHBOUR_H
#define URNIC_NETDEV_NEIGHBOUR_H

/*
 * Is there anybody at the next hop? What an adapter's driver has to know before it can send, and
 * what the kernel's rdma_cm therefore asks when it resolves an address; here the kernel would find
 * out by itself, but a program wants to hear of a host that is dead when it resolves the address,
 * as with an adapter.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"
#include "base/gid.h"

enum neighbour {
	NEIGHBOUR_KNOWN, /* it has a link address, or needs none, or nobody can say */
	NEIGHBOUR_ASKED, /* not yet; the kernel is asking */
};

/*
 * Look at the next hop from a local address to a remote one, and have the kernel ask for its link
 * address if it has none.
 *
 * `ifindex`  Of the interface that it leaves by.
 *
 * Some ten microseconds; does not wait for an answer. Any thread may call.
 */
enum neighbour neighbour_look(const struct gid *local, const struct gid *remote, uint32_t ifindex)
	URNIC_EXPORT_AS(neighbour_look);

enum { NEIGHBOUR_MAC_BYTES = 6 };

/*
 * The Ethernet address of the next hop from a local address to a remote one, from the kernel's
 * routes and its neighbour table.
 *
 * `ifindex`  Of the interface that the route must leave by, without an IPv6 next hop for IPv4.
 * `ret_mac`  Set on success.
 *
 * False when the route leads elsewhere, or the table has no address that the kernel itself would
 * use, or nobody can say. Some ten microseconds, but the kernel may make the caller wait for its
 * lock. Any thread may call.
 */
bool neighbour_mac(const struct gid *local, const struct gid *remote, uint32_t ifindex,
	uint8_t ret_mac[NEIGHBOUR_MAC_BYTES]);

#endif
