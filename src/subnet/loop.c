/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Credit loops of the paths. A queue is a sending port with a virtual lane. The graph has an edge
 * from each queue to the next one on each path, since the first waits for the second. A loop is a
 * cycle of this graph.
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

enum colour { NOT_VISITED, IN_PATH, VISITED, IN_LOOP };

struct queue {
	uint64_t *successors; /* NULL: none */
	uint32_t node;
	uint16_t seen_lid; /* the last LID to which path_follow() came through this queue */
	uint16_t seen_levels; /* the service levels of these paths, a bit for each */
	uint32_t parent; /* the queue from which queue_visit() came to this one */
	uint32_t next; /* the successor to which queue_visit() goes next */
	enum colour colour;
};

struct graph {
	const struct subnet *subnet;
	subnet_levels_fn *levels;
	const void *levels_context;
	uint32_t *first; /* by node: its first queue */
	struct queue *queues;
	uint32_t queue_count;
};

/* A path: from a port of a CA to a LID, with a service level. */
struct path {
	uint32_t node;
	uint32_t port;
	uint16_t lid;
	uint8_t sl;
};

/* Handles two queues of which one follows the other on a path. Returns 0 or -ENOMEM. */
typedef int queue_pair_fn(
	struct graph *graph, uint32_t from, uint32_t to, uint8_t sl, void *context);

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

/* The queue of `port` that packets from `in_port` enter; NO_QUEUE: they have none. */
static int64_t queue_of(
	const struct graph *graph, uint32_t node, uint32_t in_port, uint32_t port, uint8_t sl)
{
	const struct node_port *out = &graph->subnet->nodes[node].ports[port];
	uint8_t vl;

	if (out->info.port_state != IB_PORT_ACTIVE || out->peer_node == TOPOLOGY_NO_NODE ||
		!port_vl_find(out, in_port, sl, &vl))
		return NO_QUEUE;
	return queue_at(graph, node, port, vl);
}

/*
 * Has path_follow() come through the queue before, to this LID with this service level? Notes that
 * it has now.
 */
static bool queue_is_seen(struct queue *queue, const struct path *path)
{
	const uint16_t level = (uint16_t)(1u << path->sl);
	const bool is_same_lid = queue->seen_lid == path->lid;
	const bool is_seen = is_same_lid && queue->seen_levels & level;

	queue->seen_levels = is_same_lid ? queue->seen_levels | level : level;
	queue->seen_lid = path->lid;
	return is_seen;
}

/* Follow a path up to a queue that a path to the same LID has passed: both go on alike. */
static int path_follow(
	struct graph *graph, const struct path *path, queue_pair_fn *each, void *context)
{
	const struct subnet *subnet = graph->subnet;
	uint32_t node = path->node, port = path->port;
	int64_t at = queue_of(graph, node, 0, port, path->sl);

	while (at != NO_QUEUE && !queue_is_seen(&graph->queues[at], path)) {
		const struct node_port *out = &subnet->nodes[node].ports[port];
		const uint32_t in_port = out->peer_port, from = (uint32_t)at;

		node = out->peer_node;
		if (!node_is_switch(&subnet->nodes[node]))
			return 0;
		port = subnet_switch_route(subnet, node, path->lid);
		if (port == 0 || port > subnet->nodes[node].port_count || port == in_port)
			return 0;
		at = queue_of(graph, node, in_port, port, path->sl);
		if (at != NO_QUEUE && each(graph, from, (uint32_t)at, path->sl, context))
			return -ENOMEM;
	}
	return 0;
}

/* The next port of a CA. Begin with *node and *port 0. Returns false at the end. */
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

/* Follow the paths from all CAs to a LID. */
static int paths_to_follow(struct graph *graph, uint16_t lid, queue_pair_fn *each, void *context)
{
	struct path path = {.lid = lid};

	while (ca_port_next(graph->subnet, &path.node, &path.port)) {
		const uint16_t levels =
			graph->levels(graph->levels_context, path.node, path.port, lid);

		for (path.sl = 0; path.sl < SL_COUNT; path.sl++)
			if (levels >> path.sl & 1 && path_follow(graph, &path, each, context))
				return -ENOMEM;
	}
	return 0;
}

/* Follow the paths between all CAs. */
static int paths_follow(struct graph *graph, queue_pair_fn *each, void *context)
{
	const struct subnet *subnet = graph->subnet;

	for (uint32_t i = 0; i < graph->queue_count; i++)
		graph->queues[i].seen_lid = 0;
	for (uint32_t node = 0, port = 0; ca_port_next(subnet, &node, &port);) {
		const struct ib_port_info *info = &subnet->nodes[node].ports[port].info;

		for (uint32_t lid = info->lid; info->lid && lid < info->lid + (1u << info->lmc);
			lid++)
			if (paths_to_follow(graph, (uint16_t)lid, each, context))
				return -ENOMEM;
	}
	return 0;
}

static int successor_add(struct graph *graph, uint32_t from, uint32_t to, uint8_t sl, void *context)
{
	struct queue *queue = &graph->queues[from];
	const uint32_t bit = to - graph->first[graph->queues[to].node];

	(void)sl;
	(void)context;
	if (!queue->successors)
		queue->successors = calloc(SUCCESSOR_WORDS, sizeof(*queue->successors));
	if (!queue->successors)
		return -ENOMEM;
	queue->successors[bit / 64] |= 1ull << bit % 64;
	return 0;
}

static void queue_place(const struct graph *graph, uint32_t queue, struct subnet_hop *ret_hop)
{
	const uint32_t node = graph->queues[queue].node;

	*ret_hop = (struct subnet_hop){.node = node,
		.port = (uint8_t)((queue - graph->first[node]) / LANES),
		.vl = (uint8_t)((queue - graph->first[node]) % LANES)};
}

/* The queue's next successor that queue_visit() has not seen; NO_QUEUE: there is none. */
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

/* The loop that queue_visit() has found. levels_add() finds the service levels. */
struct found_loop {
	uint32_t first;
	uint32_t last; /* the parents lead from this queue back to the first one */
	uint16_t levels;
};

/* Copy the loop: the queues from the last one along the parents to the first one. */
static void loop_note(
	struct graph *graph, const struct found_loop *found, struct subnet_loop *ret_loop)
{
	uint32_t count = 1;

	for (uint32_t at = found->last; at != found->first; at = graph->queues[at].parent) {
		graph->queues[at].colour = IN_LOOP;
		count++;
	}
	ret_loop->length = count;
	for (uint32_t at = found->last; count--; at = graph->queues[at].parent)
		if (count < SUBNET_LOOP_MAX)
			queue_place(graph, at, &ret_loop->hops[count]);
}

/* Visit all queues that a queue leads to, depth first. Returns true when the path meets itself. */
static bool queue_visit(struct graph *graph, uint32_t first, struct found_loop *ret_found)
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
			*ret_found = (struct found_loop){.first = (uint32_t)next, .last = at};
			return true;
		} else if (graph->queues[next].colour == NOT_VISITED) {
			graph->queues[next].colour = IN_PATH;
			graph->queues[next].parent = at;
			at = (uint32_t)next;
		}
	}
}

static bool graph_has_loop(struct graph *graph, struct found_loop *ret_found)
{
	for (uint32_t i = 0; i < graph->queue_count; i++)
		if (graph->queues[i].colour == NOT_VISITED && graph->queues[i].successors &&
			queue_visit(graph, i, ret_found))
			return true;
	return false;
}

/* Add the service level of a path that makes a queue of the loop wait for the next one. */
static int levels_add(struct graph *graph, uint32_t from, uint32_t to, uint8_t sl, void *context)
{
	struct found_loop *found = context;
	const bool is_in_loop = to == found->first
		? from == found->last
		: graph->queues[to].colour == IN_LOOP && graph->queues[to].parent == from;

	if (is_in_loop)
		found->levels |= (uint16_t)(1u << sl);
	return 0;
}

static int loop_find(struct graph *graph, struct subnet_loop *ret_loop)
{
	struct found_loop found = {0};

	if (graph_make(graph) || paths_follow(graph, successor_add, NULL))
		return -ENOMEM;
	if (!graph_has_loop(graph, &found))
		return 0;
	loop_note(graph, &found, ret_loop);
	paths_follow(graph, levels_add, &found);
	ret_loop->levels = found.levels;
	return 1;
}

int subnet_loop_find(const struct subnet *subnet, subnet_levels_fn *levels, const void *context,
	struct subnet_loop *ret_loop)
{
	struct graph graph = {.subnet = subnet, .levels = levels, .levels_context = context};
	const int result = loop_find(&graph, ret_loop);

	graph_done(&graph);
	return result;
}
