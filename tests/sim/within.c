/* SPDX-License-Identifier: BSD-2-Clause */
#include "within.h"

#include <stdlib.h>
#include <string.h>

enum { CONNECTION_COUNT_MAX = 64 };

struct within {
	struct world *world;
	struct peer peer; /* how this host sees the other */
	struct mr_public mrs; /* of this host */
	struct local_owner owner;
	struct local_lane lane[WORLD_LANE_COUNT_MAX];
	uint64_t table_offset[WORLD_LANE_COUNT_MAX];
	uint64_t srqs_offset;
	bool is_lazy; /* collects late */
	uint32_t unreachable_in; /* one copy in so many fails; 0: none */
	/* The mark of one copy in so many is revoked, as if it had taken too long; 0: none */
	uint32_t revoked_in;
	struct local_qp *local[CONNECTION_COUNT_MAX];
	uint32_t local_count;
};

static struct within *within_of(struct peer *peer)
{
	return container_of(peer, struct within, peer);
}

static bool is_reached(struct within *within)
{
	return !within->unreachable_in ||
		sim_random_next(&within->world->local_random) % within->unreachable_in != 0;
}

/* This host is copying. */
static void maybe_revoke(struct within *within)
{
	if (!within->revoked_in ||
		sim_random_next(&within->world->local_random) % within->revoked_in)
		return;
	for (uint32_t i = 0; i < within->local_count; i++) {
		struct request_channel *target = within->local[i]->qp->initiator->target;

		if (target && atomic_load(&target->in_use) & CHANNEL_USES_KEY)
			atomic_fetch_or(&target->in_use, CHANNEL_IS_REVOKED);
	}
}

static bool far_write(struct peer *peer, uint64_t to, const uint8_t *from, size_t bytes)
{
	if (!is_reached(within_of(peer)))
		return false;
	maybe_revoke(within_of(peer));
	copy_place((uint8_t *)(uintptr_t)to, from, bytes);
	return true;
}

static bool far_read(struct peer *peer, uint8_t *to, uint64_t from, size_t bytes)
{
	if (!is_reached(within_of(peer)))
		return false;
	maybe_revoke(within_of(peer));
	memcpy(to, (const uint8_t *)(uintptr_t)from, bytes);
	return true;
}

/* Some stretches are mapped, others are not. */
static uint8_t *map(
	struct peer *peer, const struct mr_slot *region, uint64_t address, uint64_t *bytes)
{
	struct within *within = within_of(peer);

	(void)region;
	if (sim_random_next(&within->world->local_random) % 4 == 0)
		*bytes = 1 + sim_random_next(&within->world->local_random) % *bytes;
	return is_reached(within) ? (uint8_t *)(uintptr_t)address : NULL;
}

static void kick(struct peer *peer, uint32_t lane)
{
	(void)peer;
	(void)lane;
}

static const struct peer_ops mapped_ops = {far_write, far_read, map, kick, NULL, NULL};
static const struct peer_ops far_ops = {far_write, far_read, NULL, kick, NULL, NULL};

/* One thread runs all: nobody can be in a channel while its owner waits. */
static bool wait(uint32_t who, uint32_t round)
{
	(void)who;
	(void)round;
	abort();
}

/* Nobody collects while one end waits: it soon gives up. */
static void pause(uint32_t round)
{
	(void)round;
}

static uint64_t no_time(void)
{
	return 0;
}

static void host_init(struct world *world, uint32_t number)
{
	struct host *host = &world->host[number];
	uint64_t random = sim_random_next(&world->local_random);
	struct within *within = calloc(1, sizeof(*within));

	if (!within)
		abort();
	host->within = within;
	within->world = world;
	within->owner = (struct local_owner){wait, pause, no_time, 1 + number, NULL, 0};
	within->peer.ops = random % 2 ? &mapped_ops : &far_ops;
	within->is_lazy = random / 2 % 2;
	within->unreachable_in = random / 4 % 2 ? 2 + (uint32_t)(random / 8 % 20) : 0;
	within->revoked_in = random / 160 % 2 ? 2 + (uint32_t)(random / 320 % 20) : 0;
	within->srqs_offset = arena_alloc(&host->arena, sizeof(struct srq_directory));
	if (!within->srqs_offset)
		abort();
	host->srqs->directory = arena_at(&host->arena, within->srqs_offset);
	mr_table_publish(&host->mrs, &host->arena, &within->mrs);
	for (uint32_t i = 0; i < host->lane_count; i++) {
		uint64_t doorbell_offset = arena_alloc(&host->arena, sizeof(struct doorbell));

		within->table_offset[i] = arena_alloc(&host->arena, sizeof(struct channel_table));
		if (!doorbell_offset || !within->table_offset[i])
			abort();
		within->lane[i].doorbell =
			arena_peers_side(arena_at(&host->arena, doorbell_offset));
		within->lane[i].owner = &within->owner;
	}
}

void within_init(struct world *world)
{
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++)
		host_init(world, i);
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++) {
		struct peer *peer = &world->host[i].within->peer;
		const struct host *other = &world->host[1 - i];

		peer->base = other->arena.base;
		peer->bytes = other->arena.bytes;
		if (mr_table_view(&peer->mrs, peer->base, peer->bytes, &other->within->mrs))
			abort();
	}
}

void within_done(struct within *within)
{
	free(within);
}

static struct channel_table *table_of(const struct host *host, uint32_t lane)
{
	return arena_at(&host->arena, host->within->table_offset[lane]);
}

static const struct channel_table *table_of_slot(const struct host *host, uint32_t slot)
{
	for (uint32_t i = 0; i < host->lane_count; i++)
		if (host->lane[i].slot == slot)
			return table_of(host, i);
	abort();
}

static bool has_way_in(enum qp_type type)
{
	return type == QP_TYPE_RC || type == QP_TYPE_UC || type == QP_TYPE_XRC_SEND ||
		type == QP_TYPE_XRC_RECV;
}

void within_connect(struct world *world, struct qp *qp, uint32_t number)
{
	struct host *host = &world->host[number];
	struct within *within = host->within;
	struct local_channel place;
	struct local_initiator *initiator;
	struct local_qp *local;
	bool has_way;

	if (!within || !has_way_in(qp->type))
		return;
	local = calloc(1, sizeof(*local));
	initiator = calloc(1, sizeof(*initiator));
	if (!local || !initiator || within->local_count == CONNECTION_COUNT_MAX)
		abort();
	has_way = sim_random_next(&world->local_random) % 8 != 0;
	place.offset = arena_alloc(&host->arena, sizeof(struct request_channel));
	place.ring_offset = arena_alloc_shared(&host->arena, sizeof(struct channel_ring));
	if (!place.offset || !place.ring_offset)
		abort();
	place.ring = arena_peers_side(arena_at(&host->arena, place.ring_offset));
	place.channel = arena_peers_side(arena_at(&host->arena, place.offset));
	place.lane = &within->lane[qp->lane->index];
	place.srqs_offset = within->srqs_offset;
	within->local[within->local_count++] = local;
	local_connect(local, initiator, qp, &place, has_way ? &within->peer : NULL,
		has_way ? table_of_slot(&world->host[1 - number], qp->attr.dest_qpn >> 16) : NULL);
	table_of(host, qp->lane->index)->offset[qp->qpn % CHANNEL_TABLE_COUNT] = place.offset;
}

void within_disconnect(struct world *world, struct qp *qp)
{
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++) {
		struct host *host = &world->host[i];
		struct within *within = host->within;

		for (uint32_t j = 0; within && j < within->local_count; j++) {
			struct local_initiator *initiator = qp->initiator;
			struct local_qp *local = within->local[j];

			if (local->qp != qp)
				continue;
			table_of(host, qp->lane->index)->offset[qp->qpn % CHANNEL_TABLE_COUNT] = 0;
			if (!local_disconnect(local, sim_now_ns(world->sim)))
				abort();
			free(initiator);
			free(local);
			within->local[j] = within->local[--within->local_count];
			return;
		}
	}
}

bool within_has_events(const struct world *world, uint32_t number)
{
	const struct host *host = &world->host[number];

	for (uint32_t i = 0; host->within && i < host->lane_count; i++)
		if (local_has_work(&host->within->lane[i]))
			return true;
	return false;
}

bool within_collect(struct world *world, uint32_t number)
{
	struct host *host = &world->host[number];
	bool has_collected = false;

	for (uint32_t i = 0; host->within && i < host->lane_count; i++) {
		struct local_lane *lane = &host->within->lane[i];

		if (!local_has_work(lane))
			continue;
		has_collected = true;
		if (!host->within->is_lazy || sim_random_next(&world->local_random) % 4 == 0)
			local_collect(&host->lane[i], lane, sim_now_ns(world->sim));
	}
	return has_collected;
}

void within_forget_peer(struct world *world, uint32_t number)
{
	struct within *within = world->host[number].within;

	for (uint32_t i = 0; within && i < within->local_count; i++)
		local_forget_peer(within->local[i]);
}
