/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/deadlock/deadlock.h"

#include <stdlib.h>

#include "base/arith.h"
#include "fabric/infiniband/internal.h"

/* A queue is a port and a lane: a priority, or a virtual lane of InfiniBand. */
struct search {
	const struct fabric *fabric;
	uint32_t lane_count;
	bool *is_dead; /* by port and lane: its egress queue */
};

static const struct infiniband_vl *vl_of(const struct search *search, uint32_t port, uint32_t lane)
{
	return &search->fabric->infiniband->ports[port].vls[lane];
}

static const struct packet_queue *queue_of(
	const struct search *search, uint32_t port, uint32_t lane)
{
	return search->fabric->infiniband ? &vl_of(search, port, lane)->queue
					  : &search->fabric->ports[port].priority[lane].queue;
}

static bool *dead_of(const struct search *search, uint32_t port, uint32_t lane)
{
	return &search->is_dead[(uint64_t)port * search->lane_count + lane];
}

/* Does the queue hold a frame that came in through a lane of port `ingress`? */
static bool queue_holds(const struct search *search, uint32_t port, uint32_t lane, uint32_t ingress,
	uint32_t ingress_lane)
{
	const struct fabric_packet *packet = queue_of(search, port, lane)->first;

	if (!search->fabric->infiniband && lane != ingress_lane)
		return false;
	for (; packet; packet = packet->next)
		if (infiniband_ingress_of(search->fabric, packet) == ingress &&
			(!search->fabric->infiniband || packet->ingress_vl == ingress_lane))
			return true;
	return false;
}

/* Is the port one of the switch that `ingress` belongs to? */
static bool is_beside(const struct search *search, uint32_t port, uint32_t ingress)
{
	const struct fabric_port *ports = search->fabric->ports;

	return !ports[port].is_host && !ports[ingress].is_host &&
		ports[port].node == ports[ingress].node;
}

/* Is the queue paused by a priority group of a switch? */
static bool is_paused(const struct search *search, uint32_t port, uint32_t lane)
{
	const struct fabric_port *of = &search->fabric->ports[port];
	const struct fabric_port *peer = &search->fabric->ports[of->peer];

	return !peer->is_host && (of->paused >> lane & 1) && !(of->stormed >> lane & 1) &&
		peer->priority[lane].group.is_paused;
}

/* Has the buffer at the other end no room for the queue's first packet? */
static bool is_out_of_credits(const struct search *search, uint32_t port, uint32_t lane)
{
	const struct fabric_port *of = &search->fabric->ports[port];

	return lane != IB_VL_MANAGEMENT && !search->fabric->ports[of->peer].is_host &&
		credit_blocks(queue_of(search, port, lane)->first->bytes) >
		vl_of(search, of->peer, lane)->receiver.free_blocks;
}

static bool is_candidate(const struct search *search, uint32_t port, uint32_t lane)
{
	if (search->fabric->ports[port].is_host || !queue_of(search, port, lane)->first)
		return false;
	return search->fabric->infiniband ? is_out_of_credits(search, port, lane)
					  : is_paused(search, port, lane);
}

/*
 * A queue that the queue waits for: it holds frames of the buffer at the other end of the cable,
 * and is dead or not, as asked. Returns false when there is none. A multicast packet keeps its
 * buffer until all copies have left: copies in queues that may move leave, and then this is exact.
 */
static bool next_find(const struct search *search, uint32_t port, uint32_t lane, bool is_dead,
	uint32_t *ret_port, uint32_t *ret_lane)
{
	uint32_t ingress = search->fabric->ports[port].peer;

	for (uint32_t i = 0; i < search->fabric->port_count; i++) {
		if (!is_beside(search, i, ingress))
			continue;
		for (uint32_t j = 0; j < search->lane_count; j++) {
			if (*dead_of(search, i, j) != is_dead ||
				!queue_holds(search, i, j, ingress, lane))
				continue;
			*ret_port = i;
			*ret_lane = j;
			return true;
		}
	}
	return false;
}

/* Remove from the dead queues those that may move again. Returns whether there were any. */
static bool dead_reduce(const struct search *search)
{
	bool has_changed = false;
	uint32_t port;
	uint32_t lane;

	for (uint32_t i = 0; i < search->fabric->port_count; i++)
		for (uint32_t j = 0; j < search->lane_count; j++)
			if (*dead_of(search, i, j) &&
				next_find(search, i, j, false, &port, &lane)) {
				*dead_of(search, i, j) = false;
				has_changed = true;
			}
	return has_changed;
}

/* Find the dead queues: take all candidates, and remove those that may move until none is left. */
static bool dead_find(const struct search *search, uint32_t *ret_port, uint32_t *ret_lane)
{
	for (uint32_t i = 0; i < search->fabric->port_count; i++)
		for (uint32_t j = 0; j < search->lane_count; j++)
			*dead_of(search, i, j) = is_candidate(search, i, j);
	while (dead_reduce(search))
		;
	for (uint32_t j = 0; j < search->lane_count; j++)
		for (uint32_t i = 0; i < search->fabric->port_count; i++)
			if (*dead_of(search, i, j)) {
				*ret_port = i;
				*ret_lane = j;
				return true;
			}
	return false;
}

/* When the queue moved last. */
static uint64_t moved_ps(const struct search *search, uint32_t port, uint32_t lane)
{
	return search->fabric->infiniband
		? vl_of(search, port, lane)->head_since_ps
		: search->fabric->ports[port].priority[lane].queue_changed_ps;
}

/* Walk from each dead queue to one for which it waits, until the walk repeats itself. */
static void cycle_note(
	const struct search *search, uint32_t port, uint32_t lane, struct deadlock *deadlock)
{
	uint64_t steps = (uint64_t)search->fabric->port_count * search->lane_count;
	uint32_t first_port;
	uint32_t first_lane;

	/* After as many steps as there are queues, the walk is within its cycle. */
	while (steps-- && next_find(search, port, lane, true, &port, &lane))
		;
	*deadlock = (struct deadlock){.priority = lane};
	first_port = port;
	first_lane = lane;
	do {
		uint64_t moved = moved_ps(search, port, lane);

		if (deadlock->port_count < DEADLOCK_PORTS_MAX) {
			deadlock->lanes[deadlock->port_count] = (uint8_t)lane;
			deadlock->ports[deadlock->port_count++] = port;
		}
		deadlock->since_ps = max_u64(deadlock->since_ps, moved);
	} while (next_find(search, port, lane, true, &port, &lane) &&
		(port != first_port || lane != first_lane));
}

bool deadlock_find(const struct fabric *fabric, struct deadlock *ret_deadlock)
{
	struct search search = {
		.fabric = fabric,
		.lane_count = fabric->infiniband ? IB_VL_COUNT : FABRIC_PRIORITY_COUNT,
	};
	bool is_found;
	uint32_t port;
	uint32_t lane;

	search.is_dead =
		(bool *)calloc((fabric->port_count + 1ull) * search.lane_count, sizeof(bool));
	if (!search.is_dead)
		return false;
	is_found = dead_find(&search, &port, &lane);
	if (is_found)
		cycle_note(&search, port, lane, ret_deadlock);
	free(search.is_dead);
	return is_found;
}
