/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Routing engines, as a subnet manager has them: they fill the forwarding tables of all switches.
 *
 * Of the ports that lead to a destination, both engines take the one with the fewest destinations
 * so far. With minhop a port leads to a destination if it is on a shortest path. With updn each
 * switch has a rank, its distance from the roots. A path first goes up towards the roots, then only
 * down. A switch that can reach a destination by going down alone does so. So a packet on its way
 * down never waits for one on its way up, and credits cannot wait for each other in a cycle.
 *
 * The roots are the switches that are farthest from all hosts, such as the core of a fat tree. If
 * each switch has hosts, or such roots leave some destination without a path, switch 0 is the root.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/arith.h"
#include "fabric/infiniband/internal.h"
#include "fabric/route.h"

#define FAR       UINT32_MAX
#define NO_SWITCH UINT32_MAX

struct routing {
	struct fabric *fabric;
	bool is_updn;
	uint32_t *rank; /* by switch; kept for the trees of groups */
	uint32_t *distance; /* by switch: to the destination; updn: going down only */
	uint32_t *climb; /* by switch, updn: going up first; FAR: it need not, or cannot */
	uint32_t *queue; /* room for all switches */
	uint32_t *order; /* switches by rank */
	uint32_t *load; /* by port: destinations */
};

static uint32_t neighbour_of(const struct fabric *fabric, uint32_t port)
{
	const struct fabric_port *peer = &fabric->ports[fabric->ports[port].peer];

	return peer->is_host ? NO_SWITCH : peer->node;
}

static bool is_above(const struct routing *routing, uint32_t a, uint32_t b)
{
	return infiniband_is_above(routing->rank, a, b);
}

/*
 * Find the distance of each switch from the switches whose distance is 0, breadth first. With
 * `goes_up` each step goes to a switch that is above.
 */
static void distances_spread(const struct routing *routing, uint32_t *distance, bool goes_up)
{
	const struct fabric *fabric = routing->fabric;
	uint32_t begin = 0;
	uint32_t end = 0;

	for (uint32_t i = 0; i < fabric->switch_count; i++)
		if (!distance[i])
			routing->queue[end++] = i;
	while (begin < end) {
		uint32_t at = routing->queue[begin++];
		uint32_t count;
		const uint32_t *ports = route_ports_of(fabric, at, &count);

		for (uint32_t i = 0; i < count; i++) {
			uint32_t next = neighbour_of(fabric, ports[i]);

			if (next == NO_SWITCH || distance[next] != FAR ||
				(goes_up && !is_above(routing, next, at)))
				continue;
			distance[next] = distance[at] + 1;
			routing->queue[end++] = next;
		}
	}
}

static void numbers_fill(uint32_t *numbers, uint32_t count, uint32_t value)
{
	for (uint32_t i = 0; i < count; i++)
		numbers[i] = value;
}

/* --- ranks --- */

/* Set `distance` to each switch's distance from the nearest host. Returns the longest one. */
static uint32_t levels_find(struct routing *routing)
{
	const struct fabric *fabric = routing->fabric;
	uint32_t longest = 0;

	numbers_fill(routing->distance, fabric->switch_count, FAR);
	for (uint32_t i = 0; i < fabric->port_count; i++)
		if (!fabric->ports[i].is_host && neighbour_of(fabric, i) == NO_SWITCH)
			routing->distance[fabric->ports[i].node] = 0;
	distances_spread(routing, routing->distance, false);
	for (uint32_t i = 0; i < fabric->switch_count; i++)
		if (routing->distance[i] != FAR)
			longest = max_u32(longest, routing->distance[i]);
	return longest;
}

static void ranks_spread(struct routing *routing)
{
	uint32_t count = 0;

	distances_spread(routing, routing->rank, false);
	for (uint32_t rank = 0; count < routing->fabric->switch_count; rank++)
		for (uint32_t i = 0; i < routing->fabric->switch_count; i++)
			if (routing->rank[i] == rank || (!rank && routing->rank[i] == FAR))
				routing->order[count++] = i;
}

/* Rank all switches. Returns false if switch 0 is the root because each switch has hosts. */
static bool ranks_find(struct routing *routing)
{
	uint32_t longest = levels_find(routing);

	numbers_fill(routing->rank, routing->fabric->switch_count, FAR);
	for (uint32_t i = 0; longest && i < routing->fabric->switch_count; i++)
		if (routing->distance[i] == longest)
			routing->rank[i] = 0;
	if (!longest)
		routing->rank[0] = 0;
	ranks_spread(routing);
	return longest;
}

/* --- paths --- */

/* Find the shortest paths that go up first. `order` has the switches above before those below. */
static void climbs_find(struct routing *routing)
{
	const struct fabric *fabric = routing->fabric;

	numbers_fill(routing->climb, fabric->switch_count, FAR);
	for (uint32_t i = 0; i < fabric->switch_count; i++) {
		uint32_t at = routing->order[i];
		uint32_t count;
		const uint32_t *ports = route_ports_of(fabric, at, &count);

		for (uint32_t j = 0; routing->distance[at] == FAR && j < count; j++) {
			uint32_t next = neighbour_of(fabric, ports[j]);
			uint32_t way = FAR;

			if (next != NO_SWITCH && is_above(routing, next, at))
				way = min_u32(routing->distance[next], routing->climb[next]);
			if (way != FAR)
				routing->climb[at] = min_u32(routing->climb[at], way + 1);
		}
	}
}

/* Does the port of switch `at` lead to the destination? */
static bool port_leads(const struct routing *routing, uint32_t at, uint32_t port)
{
	uint32_t next = neighbour_of(routing->fabric, port);
	uint32_t way;

	if (next == NO_SWITCH)
		return false;
	if (routing->distance[at] != FAR)
		return routing->distance[next] != FAR &&
			routing->distance[next] + 1 == routing->distance[at] &&
			(!routing->is_updn || is_above(routing, at, next));
	way = min_u32(routing->distance[next], routing->climb[next]);
	return routing->is_updn && way != FAR && is_above(routing, next, at) &&
		way + 1 == routing->climb[at];
}

/* The port of switch `at` with the fewest destinations; FABRIC_NO_PORT: there is no path. */
static uint32_t port_choose(const struct routing *routing, uint32_t at)
{
	uint32_t count;
	const uint32_t *ports = route_ports_of(routing->fabric, at, &count);
	uint32_t best = FABRIC_NO_PORT;

	for (uint32_t i = 0; i < count; i++)
		if (port_leads(routing, at, ports[i]) &&
			(best == FABRIC_NO_PORT || routing->load[ports[i]] < routing->load[best]))
			best = ports[i];
	return best;
}

/* Returns whether all switches reach the host. */
static bool host_route(struct routing *routing, uint32_t host)
{
	struct fabric *fabric = routing->fabric;
	uint32_t last = fabric->ports[fabric->hosts[host].port].peer;
	uint32_t leaf = fabric->ports[last].node;
	bool is_whole = true;

	if (fabric->ports[last].is_host)
		return true; /* the two hosts have a cable of their own */
	numbers_fill(routing->distance, fabric->switch_count, FAR);
	routing->distance[leaf] = 0;
	distances_spread(routing, routing->distance, routing->is_updn);
	climbs_find(routing);
	for (uint32_t at = 0; at < fabric->switch_count; at++) {
		uint32_t port = at == leaf ? last : port_choose(routing, at);

		infiniband_set_forwarding(fabric, at, infiniband_lid(host), port);
		if (port == FABRIC_NO_PORT)
			is_whole = false;
		else
			routing->load[port]++;
	}
	return is_whole;
}

static bool hosts_route(struct routing *routing)
{
	bool is_whole = true;

	numbers_fill(routing->load, routing->fabric->port_count, 0);
	for (uint32_t i = 0; i < routing->fabric->host_count; i++)
		is_whole = host_route(routing, i) && is_whole;
	return is_whole;
}

static bool routing_run(struct routing *routing)
{
	bool has_roots = ranks_find(routing);

	if (hosts_route(routing))
		return true;
	if (!routing->is_updn || !has_roots)
		return false;
	numbers_fill(routing->rank, routing->fabric->switch_count, FAR);
	routing->rank[0] = 0;
	ranks_spread(routing);
	return hosts_route(routing);
}

int infiniband_route(struct fabric *fabric)
{
	uint64_t switches = fabric->switch_count + 1ull;
	struct routing routing = {.fabric = fabric};
	uint32_t *numbers =
		(uint32_t *)calloc(4 * switches + fabric->port_count + 1, sizeof(uint32_t));
	bool is_whole;

	if (!numbers)
		return -ENOMEM;
	routing.is_updn = fabric->infiniband->config.routing == INFINIBAND_UPDN;
	routing.rank = fabric->infiniband->rank;
	routing.distance = numbers;
	routing.climb = numbers + switches;
	routing.queue = numbers + 2 * switches;
	routing.order = numbers + 3 * switches;
	routing.load = numbers + 4 * switches;
	is_whole = routing_run(&routing);
	free(numbers);
	return is_whole ? 0 : -ENETUNREACH;
}
