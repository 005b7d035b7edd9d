/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Credit loops of the switches' tables: the graph in which a queue waits for the next one on some
 * route. A queue is a port that sends, with a virtual lane.
 */
#include <errno.h>
#include <stdlib.h>

#include "subnet/subnet_internal.h"

enum {
	LANES = 16,
	SUCCESSORS = 256 * LANES, /* of a queue: the ports of the switch at the end of its cable */
	SUCCESSOR_WORDS = SUCCESSORS / 64,
	NO_QUEUE = -1,
};

enum colour { NOT_VISITED, IN_PATH, VISITED };

struct queue {
	uint64_t *successors; /* NULL: none */
	uint32_t node;
	uint32_t seen_lid; /* the last one whose routes have come through */
	uint32_t parent; /* while it is in the path */
	uint32_t next; /* the successor that the visit looks at next */
	enum colour colour;
};

struct graph {
	const struct subnet *subnet;
	uint8_t sl;
	uint32_t *first; /* by node: its first queue */
	struct queue *queues;
	uint32_t queue_count;
};

static int graph_make(struct graph *graph)
{
	const struct subnet *subnet = graph->subnet;

	graph->first = calloc(subnet->node_count + 1, sizeof(*graph->first));
	if (!graph->first)
		return -ENOMEM;
	for (uint32_t i = 0; i < subnet->node_count; i++)
		graph->first[i + 1] = graph->first[i] + (subnet->nodes[i].port_count + 1) * LANES;
	graph->queue_count = graph->first[subnet->node_count];
	graph->queues = calloc(graph->queue_count + 1, sizeof(*graph->queues));
	if (!graph->queues)
		return -ENOMEM;
	for (uint32_t i = 0; i < subnet->node_count; i++)
		for (uint32_t j = graph->first[i]; j < graph->first[i + 1]; j++)
			graph->queues[j].node = i;
	return 0;
}

static void graph_done(struct graph *graph)
{
	for (uint32_t i = 0; graph->queues && i < graph->queue_count; i++)
		free(graph->queues[i].successors);
	free(graph->queues);
	free(graph->first);
}

static uint32_t queue_at(const struct graph *graph, uint32_t node, uint32_t port, uint8_t vl)
{
	return graph->first[node] + port * LANES + vl;
}

/* The queue of a port for what came in by `in_port`; NO_QUEUE: there is none. */
static int64_t queue_of(const struct graph *graph, uint32_t node, uint32_t in_port, uint32_t port)
{
	const struct node_port *out = &graph->subnet->nodes[node].ports[port];
	uint8_t vl;

	if (out->info.port_state != IB_PORT_ACTIVE || out->peer_node == TOPOLOGY_NO_NODE ||
		!port_vl_find(out, in_port, graph->sl, &vl))
		return NO_QUEUE;
	return queue_at(graph, node, port, vl);
}

static int successor_add(struct queue *queue, uint32_t port, uint8_t vl)
{
	const uint32_t bit = port * LANES + vl;

	if (!queue->successors)
		queue->successors = calloc(SUCCESSOR_WORDS, sizeof(*queue->successors));
	if (!queue->successors)
		return -ENOMEM;
	queue->successors[bit / 64] |= 1ull << bit % 64;
	return 0;
}

/* Follow a LID from a port of a CA, until the route has been there before. */
static int route_follow(struct graph *graph, uint32_t node, uint32_t port, uint16_t lid)
{
	const struct subnet *subnet = graph->subnet;
	int64_t at = queue_of(graph, node, 0, port);

	while (at != NO_QUEUE && graph->queues[at].seen_lid != lid) {
		const struct node_port *out = &subnet->nodes[node].ports[port];
		const uint32_t in_port = out->peer_port;
		struct queue *queue = &graph->queues[at];

		queue->seen_lid = lid;
		node = out->peer_node;
		if (!node_is_switch(&subnet->nodes[node]))
			return 0;
		port = subnet_switch_route(subnet, node, lid);
		if (port == 0 || port > subnet->nodes[node].port_count || port == in_port)
			return 0;
		at = queue_of(graph, node, in_port, port);
		if (at != NO_QUEUE && successor_add(queue, port, (uint8_t)(at % LANES)))
			return -ENOMEM;
	}
	return 0;
}

/* The ports of all CAs, for a loop that starts with *node and *port at 0. */
static bool ca_port_next(const struct subnet *subnet, uint32_t *node, uint32_t *port)
{
	for (; *node < subnet->node_count; (*node)++, *port = 0) {
		const struct subnet_node *here = &subnet->nodes[*node];

		if (!node_is_switch(here) && *port < here->port_count) {
			(*port)++;
			return true;
		}
	}
	return false;
}

/* Add the routes from all CAs to the LIDs of a port. */
static int routes_add(struct graph *graph, const struct ib_port_info *info)
{
	for (uint32_t lid = info->lid; info->lid && lid < info->lid + (1u << info->lmc); lid++)
		for (uint32_t node = 0, port = 0; ca_port_next(graph->subnet, &node, &port);)
			if (route_follow(graph, node, port, (uint16_t)lid))
				return -ENOMEM;
	return 0;
}

static int graph_fill(struct graph *graph)
{
	const struct subnet *subnet = graph->subnet;

	for (uint32_t node = 0, port = 0; ca_port_next(subnet, &node, &port);)
		if (routes_add(graph, &subnet->nodes[node].ports[port].info))
			return -ENOMEM;
	return 0;
}

static void queue_place(const struct graph *graph, uint32_t queue, struct subnet_hop *ret_hop)
{
	const uint32_t node = graph->queues[queue].node;

	*ret_hop = (struct subnet_hop){.node = node,
		.port = (uint8_t)((queue - graph->first[node]) / LANES),
		.vl = (uint8_t)((queue - graph->first[node]) % LANES)};
}

/* The next successor that the visit of a queue has not looked at; NO_QUEUE: there is none. */
static int64_t successor_next(struct graph *graph, struct queue *queue)
{
	struct subnet_hop place;

	while (queue->successors && queue->next < SUCCESSORS) {
		const uint32_t bit = queue->next++;

		if (!(queue->successors[bit / 64] >> bit % 64 & 1))
			continue;
		queue_place(graph, (uint32_t)(queue - graph->queues), &place);
		return graph->first[graph->subnet->nodes[place.node].ports[place.port].peer_node] +
			bit;
	}
	return NO_QUEUE;
}

/* The path from `from` back to `to` is the loop. */
static void loop_note(
	const struct graph *graph, uint32_t from, uint32_t to, struct subnet_loop *ret_loop)
{
	uint32_t count = 1;

	for (uint32_t at = from; at != to; at = graph->queues[at].parent)
		count++;
	ret_loop->length = count;
	for (uint32_t at = from; count--; at = graph->queues[at].parent)
		if (count < SUBNET_LOOP_MAX)
			queue_place(graph, at, &ret_loop->hops[count]);
}

/* Visit all that waits behind a queue. Returns true when the path has come back to itself. */
static bool queue_visit(struct graph *graph, uint32_t first, struct subnet_loop *ret_loop)
{
	uint32_t at = first;

	graph->queues[at].colour = IN_PATH;
	for (;;) {
		struct queue *queue = &graph->queues[at];
		const int64_t next = successor_next(graph, queue);

		if (next == NO_QUEUE) {
			queue->colour = VISITED;
			if (at == first)
				return false;
			at = queue->parent;
		} else if (graph->queues[next].colour == IN_PATH) {
			loop_note(graph, at, (uint32_t)next, ret_loop);
			return true;
		} else if (graph->queues[next].colour == NOT_VISITED) {
			graph->queues[next].colour = IN_PATH;
			graph->queues[next].parent = at;
			at = (uint32_t)next;
		}
	}
}

int subnet_loop_find(const struct subnet *subnet, uint8_t sl, struct subnet_loop *ret_loop)
{
	struct graph graph = {.subnet = subnet, .sl = sl};
	int result = graph_make(&graph);

	if (result == 0)
		result = graph_fill(&graph);
	for (uint32_t i = 0; result == 0 && i < graph.queue_count; i++)
		if (graph.queues[i].colour == NOT_VISITED && graph.queues[i].successors)
			result = queue_visit(&graph, i, ret_loop);
	graph_done(&graph);
	return result;
}
