/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Layered shortest paths (LASH): each pair of hosts has the first service level in which its paths,
 * there and back, close no loop with those of the pairs before. Each service level has a virtual
 * lane of its own, so packets of different levels never wait for each other. A group has one level
 * for all of its packets, chosen in the same way.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "fabric/infiniband/edges.h"
#include "fabric/infiniband/internal.h"
#include "fabric/route.h"

struct layering {
	const struct fabric *fabric;
	uint32_t layer_count;
	uint32_t *seen; /* by port: the search that has seen it */
	uint32_t *stack; /* room for all ports */
	uint32_t search_number;
	struct edges edges; /* from port * FABRIC_PRIORITY_COUNT + layer to port */
	int error;
};

/* Does `port` wait for `goal`, directly or through other ports? */
static bool leads_to(struct layering *layering, uint32_t layer, uint32_t port, uint32_t goal)
{
	uint32_t depth = 0;

	layering->search_number++;
	layering->seen[port] = layering->search_number;
	layering->stack[depth++] = port;
	while (depth) {
		uint32_t at = layering->stack[--depth];
		uint32_t edge = layering->edges.first[at * FABRIC_PRIORITY_COUNT + layer];

		if (at == goal)
			return true;
		for (; edge != NO_EDGE; edge = layering->edges.edges[edge].next) {
			uint32_t to = layering->edges.edges[edge].to;

			if (layering->seen[to] == layering->search_number)
				continue;
			layering->seen[to] = layering->search_number;
			layering->stack[depth++] = to;
		}
	}
	return false;
}

/* Add an edge to the layer. Returns false when the edge closes a loop, or without memory. */
static bool edge_add(struct layering *layering, uint32_t layer, uint32_t port, uint32_t next)
{
	uint32_t from = port * FABRIC_PRIORITY_COUNT + layer;

	if (edges_has(&layering->edges, from, next))
		return true;
	if (leads_to(layering, layer, next, port))
		return false;
	if (!edges_add(&layering->edges, from, next))
		return true;
	layering->error = -ENOMEM;
	return false;
}

static bool path_add(
	struct layering *layering, uint32_t layer, uint32_t source, uint32_t destination)
{
	const struct fabric *fabric = layering->fabric;
	const struct infiniband *infiniband = fabric->infiniband;
	uint32_t port = fabric->hosts[source].port;
	uint32_t input = fabric->ports[port].peer;

	while (!fabric->ports[input].is_host) {
		uint32_t next = infiniband->forwarding[(uint64_t)fabric->ports[input].node *
				infiniband->lid_count +
			infiniband_lid(destination)];

		if (!edge_add(layering, layer, port, next))
			return false;
		port = next;
		input = fabric->ports[port].peer;
	}
	return true;
}

/* The layer of a pair of hosts; layer_count: there is none. */
static uint32_t pair_layer(struct layering *layering, uint32_t a, uint32_t b)
{
	for (uint32_t layer = 0; layer < layering->layer_count; layer++) {
		uint32_t count = layering->edges.count;

		if (path_add(layering, layer, a, b) && path_add(layering, layer, b, a))
			return layer;
		edges_remove(&layering->edges, count);
	}
	return layering->layer_count;
}

/* The packets of a group: each queue waits for all copies of what it sends. */
static bool group_add(struct layering *layering, uint32_t layer, uint32_t group)
{
	const struct fabric *fabric = layering->fabric;

	for (uint32_t port = 0; port < fabric->port_count; port++) {
		uint32_t input = fabric->ports[port].peer;
		struct multicast_row copies;
		const uint32_t *ports;
		uint32_t count;

		if (fabric->ports[input].is_host)
			continue;
		copies = infiniband_copies_of(fabric, input, group);
		ports = route_ports_of(fabric, fabric->ports[input].node, &count);
		for (uint32_t i = 0; i < min_u32(count, MULTICAST_PORTS_MAX - 1); i++)
			if (multicast_row_has(&copies, i + 1) &&
				!edge_add(layering, layer, port, ports[i]))
				return false;
	}
	return true;
}

static int layers_assign(struct layering *layering, uint8_t *service_levels)
{
	uint32_t hosts = layering->fabric->host_count;

	for (uint32_t a = 0; a < hosts; a++)
		for (uint32_t b = a + 1; b < hosts; b++) {
			uint32_t layer = pair_layer(layering, a, b);

			if (layering->error)
				return layering->error;
			if (layer == layering->layer_count)
				return -ENETUNREACH;
			service_levels[a * hosts + b] = (uint8_t)layer;
			service_levels[b * hosts + a] = (uint8_t)layer;
		}
	return 0;
}

static bool layering_init(struct layering *layering, const struct fabric *fabric)
{
	uint64_t ports = fabric->port_count + 1ull;

	*layering = (struct layering){
		.fabric = fabric,
		.layer_count = min_u32(FABRIC_PRIORITY_COUNT, fabric->infiniband->config.data_vls),
		.seen = (uint32_t *)calloc(ports * (FABRIC_PRIORITY_COUNT + 2), sizeof(uint32_t)),
	};
	if (!layering->seen)
		return false;
	layering->stack = layering->seen + ports;
	edges_init(&layering->edges, layering->stack + ports,
		fabric->port_count * FABRIC_PRIORITY_COUNT);
	return true;
}

static void layering_done(struct layering *layering)
{
	edges_done(&layering->edges);
	free(layering->seen);
}

int infiniband_layers_assign(struct fabric *fabric)
{
	uint8_t *service_levels =
		(uint8_t *)calloc((uint64_t)fabric->host_count * fabric->host_count + 1, 1);
	struct layering layering = {0};
	int error = -ENOMEM;

	fabric->infiniband->service_levels = service_levels;
	if (service_levels && layering_init(&layering, fabric))
		error = layers_assign(&layering, service_levels);
	layering_done(&layering);
	return error;
}

/* The paths that have their layers already close no loop. */
static void layers_restore(struct layering *layering)
{
	const struct infiniband *infiniband = layering->fabric->infiniband;
	const uint32_t hosts = layering->fabric->host_count;

	for (uint32_t a = 0; a < hosts; a++)
		for (uint32_t b = 0; b < hosts; b++)
			if (a != b)
				path_add(layering, infiniband->service_levels[a * hosts + b], a, b);
	for (uint32_t i = 0; i + 1 < infiniband->group_count; i++)
		group_add(layering, infiniband->groups[i].service_level, i);
}

int infiniband_layers_add_group(struct fabric *fabric)
{
	const uint32_t group = fabric->infiniband->group_count - 1;
	struct layering layering = {0};
	int error = -ENOMEM;
	uint32_t layer = 0;

	if (layering_init(&layering, fabric)) {
		layers_restore(&layering);
		for (; layer < layering.layer_count; layer++) {
			uint32_t count = layering.edges.count;

			if (group_add(&layering, layer, group))
				break;
			edges_remove(&layering.edges, count);
		}
		fabric->infiniband->groups[group].service_level = (uint8_t)layer;
		error = layer < layering.layer_count ? layering.error : -ENETUNREACH;
	}
	layering_done(&layering);
	return error;
}

int infiniband_set_service_levels(struct fabric *fabric, const uint8_t *levels)
{
	const size_t bytes = (size_t)fabric->host_count * fabric->host_count;
	uint8_t *copy = (uint8_t *)malloc(bytes + 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, levels, bytes);
	free(fabric->infiniband->service_levels);
	fabric->infiniband->service_levels = copy;
	return 0;
}
