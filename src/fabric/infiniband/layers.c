/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Layered shortest paths (LASH): each pair of hosts has the first service level in which its paths,
 * there and back, close no loop with those of the pairs before. Each service level has a virtual
 * lane of its own, so packets of different levels never wait for each other.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/arith.h"
#include "fabric/infiniband/internal.h"

#define NO_EDGE UINT32_MAX

/* The port `from` waits for another one, in a layer. */
struct edge {
	uint32_t from; /* port * FABRIC_PRIORITY_COUNT + layer, as the array `first` */
	uint32_t to; /* port */
	uint32_t next; /* of the same port and layer; NO_EDGE: the last one */
};

struct layering {
	const struct fabric *fabric;
	uint32_t layer_count;
	uint32_t *first; /* by port and layer: its newest edge */
	uint32_t *seen; /* by port: the search that has seen it */
	uint32_t *stack; /* room for all ports */
	uint32_t search_number;
	struct edge *edges;
	uint32_t edge_count;
	uint32_t edge_capacity;
	int error;
};

/* Is `goal` among the ports that `port` waits for, at some distance? */
static bool leads_to(struct layering *layering, uint32_t layer, uint32_t port, uint32_t goal)
{
	uint32_t depth = 0;

	layering->search_number++;
	layering->seen[port] = layering->search_number;
	layering->stack[depth++] = port;
	while (depth) {
		uint32_t at = layering->stack[--depth];
		uint32_t edge = layering->first[at * FABRIC_PRIORITY_COUNT + layer];

		if (at == goal)
			return true;
		for (; edge != NO_EDGE; edge = layering->edges[edge].next) {
			uint32_t to = layering->edges[edge].to;

			if (layering->seen[to] == layering->search_number)
				continue;
			layering->seen[to] = layering->search_number;
			layering->stack[depth++] = to;
		}
	}
	return false;
}

static bool edge_exists(const struct layering *layering, uint32_t from, uint32_t to)
{
	uint32_t edge = layering->first[from];

	while (edge != NO_EDGE && layering->edges[edge].to != to)
		edge = layering->edges[edge].next;
	return edge != NO_EDGE;
}

static bool edge_room(struct layering *layering)
{
	uint32_t capacity = 2 * layering->edge_capacity + 64;
	struct edge *edges;

	if (layering->edge_count < layering->edge_capacity)
		return true;
	edges = (struct edge *)realloc(layering->edges, capacity * sizeof(struct edge));
	if (!edges) {
		layering->error = -ENOMEM;
		return false;
	}
	layering->edges = edges;
	layering->edge_capacity = capacity;
	return true;
}

/* Returns false when the edge closes a loop, or without memory. */
static bool edge_add(struct layering *layering, uint32_t layer, uint32_t port, uint32_t next)
{
	uint32_t from = port * FABRIC_PRIORITY_COUNT + layer;

	if (edge_exists(layering, from, next))
		return true;
	if (leads_to(layering, layer, next, port) || !edge_room(layering))
		return false;
	layering->edges[layering->edge_count] = (struct edge){from, next, layering->first[from]};
	layering->first[from] = layering->edge_count++;
	return true;
}

/* Take back all edges but the first `count`. */
static void edges_remove(struct layering *layering, uint32_t count)
{
	while (layering->edge_count > count) {
		const struct edge *edge = &layering->edges[--layering->edge_count];

		layering->first[edge->from] = edge->next;
	}
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
		uint32_t count = layering->edge_count;

		if (path_add(layering, layer, a, b) && path_add(layering, layer, b, a))
			return layer;
		edges_remove(layering, count);
	}
	return layering->layer_count;
}

static int layers_assign(struct layering *layering, uint8_t *service_levels)
{
	uint32_t hosts = layering->fabric->host_count;

	for (uint32_t i = 0; i < layering->fabric->port_count * FABRIC_PRIORITY_COUNT; i++)
		layering->first[i] = NO_EDGE;
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

int infiniband_layers_assign(struct fabric *fabric)
{
	uint64_t ports = fabric->port_count + 1ull;
	struct layering layering = {
		.fabric = fabric,
		.layer_count = min_u32(FABRIC_PRIORITY_COUNT, fabric->infiniband->config.data_vls),
	};
	uint32_t *numbers =
		(uint32_t *)calloc(ports * (FABRIC_PRIORITY_COUNT + 2), sizeof(uint32_t));
	uint8_t *service_levels =
		(uint8_t *)calloc((uint64_t)fabric->host_count * fabric->host_count + 1, 1);
	int error = -ENOMEM;

	fabric->infiniband->service_levels = service_levels;
	if (numbers && service_levels) {
		layering.seen = numbers;
		layering.stack = numbers + ports;
		layering.first = numbers + 2 * ports;
		error = layers_assign(&layering, service_levels);
	}
	free(layering.edges);
	free(numbers);
	return error;
}
