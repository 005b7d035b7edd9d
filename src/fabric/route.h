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

void route_done(struct fabric *fabric);

#endif
