/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/route.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/arith.h"

#define NO_SWITCH UINT32_MAX
#define FAR       UINT32_MAX

/* A route that was set by hand. */
struct route_row {
	uint32_t switch_number;
	uint32_t host;
	uint32_t port;
};

/* Where a host is connected. */
struct route_end {
	uint32_t port; /* of the switch, towards the host */
	uint32_t switch_number; /* NO_SWITCH: another host is at its cable */
};

/*
 * Switches with hosts have a place in `edge`. The ports from switch s towards the switch at place e
 * are ports[first[s * edge_count + e]] up to the next entry's.
 */
struct fabric_routes {
	uint32_t edge_count;
	uint32_t *edge; /* by switch: its place; NO_SWITCH: it has no host */
	uint32_t *first;
	uint32_t *ports;
	uint32_t port_count;
	struct route_end
		*ends; /* by host; close together, because each frame at a switch needs one */
	/* The ports of switch s are own[own_first[s]] up to own[own_first[s + 1]]. */
	uint32_t *own_first;
	uint32_t *own;
	struct route_row *rows; /* these replace the shortest paths */
	uint32_t row_count;
};

static void routes_free(struct fabric_routes *routes)
{
	if (!routes)
		return;
	free(routes->edge);
	free(routes->first);
	free(routes->ports);
	free(routes->ends);
	free(routes->own_first);
	free(routes->own);
	free(routes->rows);
	free(routes);
}

void route_done(struct fabric *fabric)
{
	routes_free(fabric->routes);
	fabric->routes = NULL;
}

static uint32_t *numbers_new(uint64_t count)
{
	return (uint32_t *)calloc(count + 1, sizeof(uint32_t));
}

/* The switch at the other end of a switch's port; NO_SWITCH: a host. */
static uint32_t neighbour_of(const struct fabric *fabric, uint32_t port)
{
	const struct fabric_port *peer = &fabric->ports[fabric->ports[port].peer];

	return peer->is_host ? NO_SWITCH : peer->node;
}

static bool own_ports_find(const struct fabric *fabric, struct fabric_routes *routes)
{
	uint32_t count = 0;

	routes->own_first = numbers_new(fabric->switch_count + 1ull);
	routes->own = numbers_new(fabric->port_count);
	if (!routes->own_first || !routes->own)
		return false;
	for (uint32_t i = 0; i < fabric->port_count; i++)
		if (!fabric->ports[i].is_host)
			routes->own_first[fabric->ports[i].node + 1]++;
	for (uint32_t i = 0; i < fabric->switch_count; i++) {
		count += routes->own_first[i + 1];
		routes->own_first[i + 1] = count;
	}
	for (uint32_t i = fabric->port_count; i--;) {
		/* Fill each switch's entries from the end, so begin with the last port. */
		const struct fabric_port *port = &fabric->ports[i];

		if (!port->is_host)
			routes->own[--routes->own_first[port->node + 1]] = i;
	}
	/* own_first[i + 1] was the end of switch i. The loop has moved it down to the beginning. */
	for (uint32_t i = 0; i < fabric->switch_count; i++)
		routes->own_first[i] = routes->own_first[i + 1];
	routes->own_first[fabric->switch_count] = count;
	return true;
}

const uint32_t *route_ports_of(
	const struct fabric *fabric, uint32_t switch_number, uint32_t *ret_count)
{
	const struct fabric_routes *routes = fabric->routes;

	*ret_count = routes->own_first[switch_number + 1] - routes->own_first[switch_number];
	return routes->own + routes->own_first[switch_number];
}

static bool ends_find(const struct fabric *fabric, struct fabric_routes *routes)
{
	routes->ends =
		(struct route_end *)calloc(fabric->host_count + 1ull, sizeof(struct route_end));
	if (!routes->ends)
		return false;
	for (uint32_t i = 0; i < fabric->host_count; i++) {
		uint32_t port = fabric->hosts[i].port;

		routes->ends[i].switch_number =
			port == FABRIC_NO_PORT ? NO_SWITCH : neighbour_of(fabric, port);
		if (port != FABRIC_NO_PORT)
			routes->ends[i].port = fabric->ports[port].peer;
	}
	return true;
}

static bool edges_find(const struct fabric *fabric, struct fabric_routes *routes)
{
	routes->edge = numbers_new(fabric->switch_count);
	if (!routes->edge)
		return false;
	for (uint32_t i = 0; i < fabric->switch_count; i++)
		routes->edge[i] = NO_SWITCH;
	for (uint32_t i = 0; i < fabric->port_count; i++)
		if (!fabric->ports[i].is_host && neighbour_of(fabric, i) == NO_SWITCH &&
			routes->edge[fabric->ports[i].node] == NO_SWITCH)
			routes->edge[fabric->ports[i].node] = routes->edge_count++;
	return true;
}

/* The distance of each switch from `start`, breadth first. `queue` has room for all switches. */
static void distances_find(const struct fabric *fabric, const struct fabric_routes *routes,
	uint32_t start, uint32_t *distance, uint32_t *queue)
{
	uint32_t begin = 0;
	uint32_t end = 0;

	for (uint32_t i = 0; i < fabric->switch_count; i++)
		distance[i] = FAR;
	distance[start] = 0;
	queue[end++] = start;
	while (begin < end) {
		uint32_t at = queue[begin++];

		for (uint32_t i = routes->own_first[at]; i < routes->own_first[at + 1]; i++) {
			uint32_t next = neighbour_of(fabric, routes->own[i]);

			if (next == NO_SWITCH || distance[next] != FAR)
				continue;
			distance[next] = distance[at] + 1;
			queue[end++] = next;
		}
	}
}

/* Is the port of switch `at` the first step of a shortest path? */
static bool leads_closer(
	const struct fabric *fabric, const uint32_t *distance, uint32_t at, uint32_t port)
{
	uint32_t next = neighbour_of(fabric, port);

	return next != NO_SWITCH && distance[at] != FAR && distance[next] + 1 == distance[at];
}

/* Either count the ports towards the edge switch `start`, or, with `fill`, write them down. */
static void paths_collect(const struct fabric *fabric, struct fabric_routes *routes, uint32_t start,
	const uint32_t *distance, uint32_t *fill)
{
	uint32_t place = routes->edge[start];

	for (uint32_t at = 0; at < fabric->switch_count; at++) {
		uint64_t entry = (uint64_t)at * routes->edge_count + place;

		for (uint32_t i = routes->own_first[at]; i < routes->own_first[at + 1]; i++) {
			if (!leads_closer(fabric, distance, at, routes->own[i]))
				continue;
			if (fill)
				routes->ports[fill[entry]++] = routes->own[i];
			else
				routes->first[entry + 1]++;
		}
	}
}

static void paths_pass(const struct fabric *fabric, struct fabric_routes *routes, uint32_t *scratch,
	uint32_t *fill)
{
	for (uint32_t start = 0; start < fabric->switch_count; start++) {
		if (routes->edge[start] == NO_SWITCH)
			continue;
		distances_find(fabric, routes, start, scratch, scratch + fabric->switch_count);
		paths_collect(fabric, routes, start, scratch, fill);
	}
}

static bool paths_find(const struct fabric *fabric, struct fabric_routes *routes)
{
	uint64_t entries = (uint64_t)fabric->switch_count * routes->edge_count;
	uint32_t *scratch = numbers_new(2ull * fabric->switch_count);
	uint32_t *fill = numbers_new(entries);
	bool is_done = false;

	routes->first = numbers_new(entries + 1);
	if (scratch && fill && routes->first) {
		paths_pass(fabric, routes, scratch, NULL);
		for (uint64_t i = 0; i < entries; i++) {
			routes->first[i + 1] += routes->first[i];
			fill[i] = routes->first[i];
		}
		routes->port_count = routes->first[entries];
		routes->ports = numbers_new(routes->port_count);
		if (routes->ports) {
			paths_pass(fabric, routes, scratch, fill);
			is_done = true;
		}
	}
	free(scratch);
	free(fill);
	return is_done;
}

/* Does each switch with hosts reach all others? Two hosts may also share a cable. */
static bool is_connected(const struct fabric *fabric, const struct fabric_routes *routes)
{
	for (uint32_t i = 0; i < fabric->host_count; i++)
		if (fabric->hosts[i].port == FABRIC_NO_PORT)
			return false;
	for (uint32_t at = 0; at < fabric->switch_count; at++)
		for (uint32_t place = 0; place < routes->edge_count; place++) {
			uint64_t entry = (uint64_t)at * routes->edge_count + place;

			if (routes->edge[at] != NO_SWITCH && routes->edge[at] != place &&
				routes->first[entry] == routes->first[entry + 1])
				return false;
		}
	return true;
}

int fabric_route(struct fabric *fabric)
{
	struct fabric_routes *routes = (struct fabric_routes *)calloc(1, sizeof(*routes));

	route_done(fabric);
	if (!routes || !own_ports_find(fabric, routes) || !ends_find(fabric, routes) ||
		!edges_find(fabric, routes) || !paths_find(fabric, routes)) {
		routes_free(routes);
		return -ENOMEM;
	}
	fabric->routes = routes;
	return is_connected(fabric, routes) ? 0 : -ENETUNREACH;
}

int route_override(struct fabric *fabric, uint32_t switch_number, uint32_t host, uint32_t port)
{
	struct fabric_routes *routes = fabric->routes;
	struct route_row *rows = (struct route_row *)realloc(
		routes->rows, (routes->row_count + 1ull) * sizeof(struct route_row));

	if (!rows)
		return -ENOMEM;
	routes->rows = rows;
	rows[routes->row_count++] = (struct route_row){switch_number, host, port};
	return 0;
}

/* The ports through which frames to a host may leave a switch. */
static uint32_t ports_towards(const struct fabric *fabric, uint32_t switch_number, uint32_t host,
	const uint32_t **ret_ports)
{
	const struct fabric_routes *routes = fabric->routes;
	const struct route_end *end = &routes->ends[host];
	uint64_t entry;

	for (uint32_t i = 0; i < routes->row_count; i++)
		if (routes->rows[i].switch_number == switch_number &&
			routes->rows[i].host == host) {
			*ret_ports = &routes->rows[i].port;
			return 1;
		}
	*ret_ports = &end->port;
	if (end->switch_number == switch_number)
		return 1;
	if (end->switch_number == NO_SWITCH)
		return 0;
	entry = (uint64_t)switch_number * routes->edge_count + routes->edge[end->switch_number];
	*ret_ports = routes->ports + routes->first[entry];
	return routes->first[entry + 1] - routes->first[entry];
}

enum visit { NOT_VISITED, ON_THE_WAY, DONE };

static bool visit_loops(
	const struct fabric *fabric, uint32_t switch_number, uint32_t host, uint8_t *visits)
{
	const uint32_t *ports;
	uint32_t count;

	if (visits[switch_number] != NOT_VISITED)
		return visits[switch_number] == ON_THE_WAY;
	visits[switch_number] = ON_THE_WAY;
	count = ports_towards(fabric, switch_number, host, &ports);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t next = neighbour_of(fabric, ports[i]);

		if (next != NO_SWITCH && visit_loops(fabric, next, host, visits))
			return true;
	}
	visits[switch_number] = DONE;
	return false;
}

bool route_has_loop(const struct fabric *fabric, uint32_t host)
{
	uint8_t *visits = (uint8_t *)calloc(fabric->switch_count + 1ull, 1);
	bool has_loop = !visits;

	for (uint32_t i = 0; i < fabric->switch_count && !has_loop; i++)
		has_loop = visit_loops(fabric, i, host, visits);
	free(visits);
	return has_loop;
}

uint32_t route_choose(
	const struct fabric *fabric, uint32_t switch_number, const struct fabric_packet *packet)
{
	uint64_t flow = (uint64_t)packet->source << 40 ^ (uint64_t)packet->destination << 16 ^
		packet->source_port;
	const uint32_t *ports;
	uint32_t count = ports_towards(fabric, switch_number, packet->destination, &ports);

	if (!count)
		return FABRIC_NO_PORT;
	if (count == 1)
		return ports[0];
	return ports[mix_u64(flow ^ fabric->switches[switch_number].salt) % count];
}
