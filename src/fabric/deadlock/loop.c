/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/deadlock/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "fabric/infiniband/edges.h"
#include "fabric/infiniband/internal.h"
#include "fabric/route.h"

/* Queues are numbered port * IB_VL_COUNT + lane. */
struct search {
	const struct fabric *fabric;
	uint32_t queue_count;
	uint32_t *waits; /* by queue: for how many others that are left */
	bool *is_seen; /* by queue: packets of one destination and SL came out of it */
	uint32_t *stack; /* room for all queues */
	struct edges edges; /* a queue waits for another one */
	int error;
};

static void edge_add(struct search *search, uint32_t from, uint32_t to)
{
	if (edges_has(&search->edges, from, to))
		return;
	if (edges_add(&search->edges, from, to))
		search->error = -ENOMEM;
	else
		search->waits[from]++;
}

/* The queue that packets to a host enter after `queue`, at the next switch; NO_EDGE: none. */
static uint32_t queue_next(const struct search *search, uint32_t queue, uint32_t host, uint32_t sl)
{
	const struct fabric *fabric = search->fabric;
	uint32_t input = fabric->ports[queue / IB_VL_COUNT].peer;
	uint32_t node = fabric->ports[input].node;
	const struct infiniband *infiniband = fabric->infiniband;
	uint32_t output;
	uint32_t vl;

	if (fabric->ports[input].is_host)
		return NO_EDGE;
	output =
		infiniband
			->forwarding[(uint64_t)node * infiniband->lid_count + infiniband_lid(host)];
	if (output == FABRIC_NO_PORT)
		return NO_EDGE;
	vl = infiniband_vl_of(fabric, input, output, sl);
	return vl == IB_VL_MANAGEMENT ? NO_EDGE : output * IB_VL_COUNT + vl;
}

/* Follow the packets of a service level from all hosts to one, and add an edge for each hop. */
static void paths_follow(struct search *search, uint32_t host, uint32_t sl)
{
	const struct fabric *fabric = search->fabric;

	memset(search->is_seen, 0, search->queue_count);
	for (uint32_t i = 0; i < fabric->host_count; i++) {
		uint32_t port = fabric->hosts[i].port;
		uint32_t vl = infiniband_vl_of(fabric, port, port, sl);
		uint32_t queue = port * IB_VL_COUNT + vl;

		/* A port discards the packets of a service level that it maps to VL15. */
		if (vl == IB_VL_MANAGEMENT ||
			infiniband_service_level(fabric, i, host, (uint8_t)sl) != sl)
			continue;
		while (i != host && queue != NO_EDGE && !search->is_seen[queue]) {
			uint32_t next = queue_next(search, queue, host, sl);

			search->is_seen[queue] = true;
			if (next != NO_EDGE)
				edge_add(search, queue, next);
			queue = next;
		}
	}
}

static void stack_push(struct search *search, uint32_t *depth, uint32_t queue)
{
	if (search->is_seen[queue])
		return;
	search->is_seen[queue] = true;
	search->stack[(*depth)++] = queue;
}

/* The copies of packets that came out of a queue: it waits for the queues of all of them. */
static void copies_follow(
	struct search *search, uint32_t queue, uint32_t group, uint32_t sl, uint32_t *depth)
{
	const struct fabric *fabric = search->fabric;
	uint32_t input = fabric->ports[queue / IB_VL_COUNT].peer;
	struct multicast_row copies;
	const uint32_t *ports;
	uint32_t count;

	if (fabric->ports[input].is_host)
		return;
	copies = infiniband_copies_of(fabric, input, group);
	ports = route_ports_of(fabric, fabric->ports[input].node, &count);
	for (uint32_t i = 0; i < min_u32(count, MULTICAST_PORTS_MAX - 1); i++) {
		uint32_t vl = infiniband_vl_of(fabric, input, ports[i], sl);

		if (!multicast_row_has(&copies, i + 1) || vl == IB_VL_MANAGEMENT)
			continue;
		edge_add(search, queue, ports[i] * IB_VL_COUNT + vl);
		stack_push(search, depth, ports[i] * IB_VL_COUNT + vl);
	}
}

/* Follow the packets of a service level from all hosts of a group to its members. */
static void group_follow(struct search *search, uint32_t group, uint32_t sl)
{
	const struct fabric *fabric = search->fabric;
	uint32_t depth = 0;

	memset(search->is_seen, 0, search->queue_count);
	for (uint32_t i = 0; i < fabric->host_count; i++) {
		uint32_t port = fabric->hosts[i].port;
		uint32_t vl = infiniband_vl_of(fabric, port, port, sl);

		if (fabric->infiniband->groups[group].roles[i] != INFINIBAND_STRANGER &&
			vl != IB_VL_MANAGEMENT &&
			infiniband_group_level(fabric, group, (uint8_t)sl) == sl)
			stack_push(search, &depth, port * IB_VL_COUNT + vl);
	}
	while (depth)
		copies_follow(search, search->stack[--depth], group, sl, &depth);
}

/* Does the queue wait for one that is not removed? */
static bool is_left(const struct search *search, uint32_t queue)
{
	return search->waits[queue];
}

/* Count again for how many remaining queues each one waits. Returns whether a count has changed. */
static bool waits_reduce(struct search *search)
{
	bool has_changed = false;

	for (uint32_t i = 0; i < search->queue_count; i++) {
		uint32_t count = 0;

		if (!is_left(search, i))
			continue;
		for (uint32_t e = search->edges.first[i]; e != NO_EDGE;
			e = search->edges.edges[e].next)
			count += is_left(search, search->edges.edges[e].to);
		has_changed |= count != search->waits[i];
		search->waits[i] = count;
	}
	return has_changed;
}

static uint32_t next_left(const struct search *search, uint32_t queue)
{
	const struct edge *edges = search->edges.edges;
	uint32_t edge = search->edges.first[queue];

	while (!is_left(search, edges[edge].to))
		edge = edges[edge].next;
	return edges[edge].to;
}

static bool loop_note(const struct search *search, struct deadlock *loop)
{
	uint32_t at = 0;
	uint32_t first;

	while (at < search->queue_count && !is_left(search, at))
		at++;
	if (at == search->queue_count)
		return false;
	/* After as many steps as there are queues, the walk is within its loop. */
	for (uint32_t i = 0; i < search->queue_count; i++)
		at = next_left(search, at);
	*loop = (struct deadlock){.priority = at % IB_VL_COUNT};
	first = at;
	do {
		if (loop->port_count < DEADLOCK_PORTS_MAX) {
			loop->lanes[loop->port_count] = (uint8_t)(at % IB_VL_COUNT);
			loop->ports[loop->port_count++] = at / IB_VL_COUNT;
		}
		at = next_left(search, at);
	} while (at != first);
	return true;
}

static int loop_search(struct search *search, uint8_t service_levels, struct deadlock *loop)
{
	for (uint32_t host = 0; host < search->fabric->host_count; host++)
		for (uint32_t sl = 0; sl < FABRIC_PRIORITY_COUNT; sl++)
			if (service_levels >> sl & 1)
				paths_follow(search, host, sl);
	for (uint32_t group = 0; group < search->fabric->infiniband->group_count; group++)
		for (uint32_t sl = 0; sl < FABRIC_PRIORITY_COUNT; sl++)
			if (service_levels >> sl & 1)
				group_follow(search, group, sl);
	if (search->error)
		return search->error;
	while (waits_reduce(search))
		;
	return loop_note(search, loop);
}

int infiniband_loop_find(
	const struct fabric *fabric, uint8_t service_levels, struct deadlock *ret_loop)
{
	struct search search = {
		.fabric = fabric,
		.queue_count = fabric->port_count * IB_VL_COUNT,
	};
	int error = -ENOMEM;
	uint32_t *first;

	first = (uint32_t *)calloc(search.queue_count + 1ull, sizeof(uint32_t));
	search.waits = (uint32_t *)calloc(search.queue_count + 1ull, sizeof(uint32_t));
	search.is_seen = (bool *)calloc(search.queue_count + 1ull, sizeof(bool));
	search.stack = (uint32_t *)calloc(search.queue_count + 1ull, sizeof(uint32_t));
	if (first && search.waits && search.is_seen && search.stack) {
		edges_init(&search.edges, first, search.queue_count);
		error = loop_search(&search, service_levels, ret_loop);
	}
	free(first);
	free(search.waits);
	free(search.is_seen);
	free(search.stack);
	edges_done(&search.edges);
	return error;
}
