/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/deadlock.h"

#include <stdlib.h>

#include "base/arith.h"

/* What the search knows of one priority. */
struct search {
	const struct fabric *fabric;
	uint32_t priority;
	bool *is_dead; /* by port: its egress queue */
};

/* Does the queue hold a frame that came in through port `ingress`? */
static bool queue_holds(const struct search *search, uint32_t port, uint32_t ingress)
{
	const struct port_priority *of = &search->fabric->ports[port].priority[search->priority];

	for (const struct fabric_packet *packet = of->queue.first; packet; packet = packet->next)
		if (packet->ingress == ingress)
			return true;
	return false;
}

/* Is the port one of the switch that `ingress` belongs to? */
static bool is_beside(const struct search *search, uint32_t port, uint32_t ingress)
{
	const struct fabric_port *ports = search->fabric->ports;

	return !ports[port].is_host && ports[port].node == ports[ingress].node;
}

/* Is the queue paused by a priority group of a switch? */
static bool is_candidate(const struct search *search, uint32_t port)
{
	const struct fabric_port *of = &search->fabric->ports[port];
	const struct fabric_port *peer = &search->fabric->ports[of->peer];

	return !of->is_host && (of->paused >> search->priority & 1) &&
		!(of->stormed >> search->priority & 1) &&
		of->priority[search->priority].queue.first &&
		peer->priority[search->priority].group.is_paused;
}

/* Does the group that has paused the queue wait for a queue that is not dead? */
static bool may_resume(const struct search *search, uint32_t port)
{
	uint32_t ingress = search->fabric->ports[port].peer;

	for (uint32_t i = 0; i < search->fabric->port_count; i++)
		if (is_beside(search, i, ingress) && !search->is_dead[i] &&
			queue_holds(search, i, ingress))
			return true;
	return false;
}

/* The dead queues: all candidates, less those that may resume, until none is left to remove. */
static bool dead_find(struct search *search)
{
	bool has_changed = true;
	bool is_any = false;

	for (uint32_t i = 0; i < search->fabric->port_count; i++)
		search->is_dead[i] = is_candidate(search, i);
	while (has_changed) {
		has_changed = is_any = false;
		for (uint32_t i = 0; i < search->fabric->port_count; i++) {
			if (!search->is_dead[i])
				continue;
			search->is_dead[i] = !may_resume(search, i);
			has_changed |= !search->is_dead[i];
			is_any |= search->is_dead[i];
		}
	}
	return is_any;
}

/* A dead queue that the queue of `port` waits for. */
static uint32_t next_dead(const struct search *search, uint32_t port)
{
	uint32_t ingress = search->fabric->ports[port].peer;
	uint32_t next = 0;

	while (!is_beside(search, next, ingress) || !search->is_dead[next] ||
		!queue_holds(search, next, ingress))
		next++;
	return next;
}

/* Follow the dead queues until the way comes back to one of them. */
static void cycle_note(const struct search *search, struct deadlock *deadlock)
{
	uint32_t at = 0;
	uint32_t first;

	while (!search->is_dead[at])
		at++;
	/* After as many steps as there are ports the way is in its cycle. */
	for (uint32_t i = 0; i < search->fabric->port_count; i++)
		at = next_dead(search, at);
	*deadlock = (struct deadlock){.priority = search->priority};
	first = at;
	do {
		const struct port_priority *of =
			&search->fabric->ports[at].priority[search->priority];

		if (deadlock->port_count < DEADLOCK_PORTS_MAX)
			deadlock->ports[deadlock->port_count++] = at;
		deadlock->since_ps = max_u64(deadlock->since_ps, of->queue_changed_ps);
		at = next_dead(search, at);
	} while (at != first);
}

bool deadlock_find(const struct fabric *fabric, struct deadlock *ret_deadlock)
{
	struct search search = {.fabric = fabric};
	bool is_found = false;

	search.is_dead = (bool *)calloc(fabric->port_count + 1ull, sizeof(bool));
	if (!search.is_dead)
		return false;
	for (; search.priority < FABRIC_PRIORITY_COUNT && !is_found; search.priority++) {
		is_found = dead_find(&search);
		if (is_found)
			cycle_note(&search, ret_deadlock);
	}
	free(search.is_dead);
	return is_found;
}
