/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shortest paths, and the choice among equal ones (ECMP).
 *
 * Each switch knows, for each switch that has hosts, the ports that are on a shortest path to it. A
 * frame takes one of them by a hash of its addresses, its UDP source port and a salt of the switch.
 * So the frames of a flow take one path, and flows with other source ports take others.
 */
#ifndef URNIC_FABRIC_ROUTE_H
#define URNIC_FABRIC_ROUTE_H

#include "fabric/fabric.h"

/* The port through which a frame leaves the switch; FABRIC_NO_PORT: there is no path. */
uint32_t route_choose(
	const struct fabric *fabric, uint32_t switch_number, const struct fabric_packet *packet);

/*
 * From now on frames to `host` leave the switch through `port`, a port of it. Returns 0 or -ENOMEM.
 * Call it after fabric_route().
 */
int route_override(struct fabric *fabric, uint32_t switch_number, uint32_t host, uint32_t port);

/* The ports of a switch, in their order. Borrowed until the next fabric_route(). */
const uint32_t *route_ports_of(
	const struct fabric *fabric, uint32_t switch_number, uint32_t *ret_count);

/* May frames to `host` come back to a switch where they have been? */
bool route_has_loop(const struct fabric *fabric, uint32_t host);

void route_done(struct fabric *fabric);

#endif
