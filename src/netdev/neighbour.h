/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NETDEV_NEIGHBOUR_H
#define URNIC_NETDEV_NEIGHBOUR_H

/*
 * Does the next hop exist? An adapter's driver needs the next hop's link address before it can
 * send, so the kernel's rdma_cm looks that address up when it resolves an IP address. For urnic the
 * kernel would look the link address up only when urnic sends. But programs expect the resolution
 * of a dead host's address to fail, so urnic looks at the next hop during the resolution, too.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"
#include "base/gid.h"

enum neighbour {
	NEIGHBOUR_KNOWN, /* the next hop has a link address, needs none, or the answer is unknown */
	NEIGHBOUR_PENDING, /* the link address is missing; the kernel is looking it up */
};

/*
 * Look at the next hop from a local address to a remote one. If its link address is missing, make
 * the kernel look it up.
 *
 * `ifindex`  The outgoing interface.
 *
 * The call does not wait for the kernel's look-up, so it takes some ten microseconds. Any thread
 * may call.
 */
enum neighbour neighbour_look(const struct gid *local, const struct gid *remote, uint32_t ifindex)
	URNIC_EXPORT_AS(neighbour_look);

enum { NEIGHBOUR_MAC_BYTES = 6 };

/*
 * The Ethernet address of the next hop from a local address to a remote one, from the kernel's
 * routes and its neighbour table.
 *
 * `ifindex`  The interface that the route must use.
 * `ret_mac`  Set on success.
 *
 * False when the route uses another interface, an IPv4 route has an IPv6 next hop (RTA_VIA), the
 * remote address is this machine's own, the table has no address that the kernel itself would use,
 * or the answer is unknown. Takes some ten microseconds, but the caller may wait for a lock of the
 * kernel. Any thread may call.
 */
bool neighbour_mac(const struct gid *local, const struct gid *remote, uint32_t ifindex,
	uint8_t ret_mac[NEIGHBOUR_MAC_BYTES]);

#endif
