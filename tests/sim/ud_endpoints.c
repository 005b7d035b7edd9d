/* SPDX-License-Identifier: BSD-2-Clause */
#include "ud_endpoints.h"

#include <stdlib.h>
#include <string.h>

#include "local/datagram.h"

enum { UD_ENDPOINT_COUNT_MAX = 16 };

#define AGAIN_NS 1000000u

/* How this host sees one of the two. */
struct view {
	struct peer peer;
	struct owner_process owner;
	struct world *world;
};

struct endpoints {
	struct mr_public mrs;
	struct local_owner owner;
	struct local_lane local_lane[WORLD_LANE_COUNT_MAX];
	uint64_t doorbell_offset[WORLD_LANE_COUNT_MAX];
	struct ud_endpoint_table *table[WORLD_LANE_COUNT_MAX];
	struct datagram_lane lane[WORLD_LANE_COUNT_MAX];
	struct datagram_path path[WORLD_LANE_COUNT_MAX][WORLD_HOST_COUNT];
	struct view view[WORLD_HOST_COUNT];
	bool is_lazy; /* collects late */
	struct ud_endpoint_qp *endpoint[UD_ENDPOINT_COUNT_MAX];
	uint32_t endpoint_count;
};

static uint64_t draw(struct world *world)
{
	return sim_random_next(&world->local_random);
}

/* --- what is asked of them --- */

static bool far_write(struct peer *peer, uint64_t to, const uint8_t *from, size_t bytes)
{
	(void)peer;
	copy_place((uint8_t *)(uintptr_t)to, from, bytes);
	return true;
}

/* Some stretches are mapped, others are not. */
static uint8_t *map(
	struct peer *peer, const struct mr_slot *region, uint64_t address, uint64_t *bytes)
{
	struct world *world = container_of(peer, struct view, peer)->world;

	(void)region;
	if (draw(world) % 4 == 0)
		*bytes = 1 + draw(world) % *bytes;
	return draw(world) % 8 ? (uint8_t *)(uintptr_t)address : NULL;
}

static void kick(struct peer *peer, uint32_t lane)
{
	(void)peer;
	(void)lane;
}

/* One thread runs all: nobody can be inside while an owner waits. */
static bool wait(uint32_t who, uint32_t round)
{
	(void)who;
	(void)round;
	abort();
}

static bool is_alive(struct peer *peer, uint32_t who)
{
	(void)peer;
	(void)who;
	return true;
}

static const struct peer_ops mapped_ops = {far_write, NULL, map, kick, NULL, is_alive};
static const struct peer_ops far_ops = {far_write, NULL, NULL, kick, NULL, is_alive};

/* endpoints_collect() looks by itself. */
static void request_lookup(void)
{
}

/* --- life --- */

static void *object(struct arena *arena, uint64_t bytes, uint64_t *ret_offset)
{
	*ret_offset = arena_alloc(arena, bytes);
	if (!*ret_offset)
		abort();
	return arena_at(arena, *ret_offset);
}

static void *shared_object(struct arena *arena, uint64_t bytes, uint64_t *ret_offset)
{
	return arena_peers_side(object(arena, bytes, ret_offset));
}

static void lane_init(struct world *world, struct host *host, uint32_t lane)
{
	struct endpoints *endpoints = host->endpoints;
	uint64_t offset;

	endpoints->local_lane[lane].owner = &endpoints->owner;
	endpoints->local_lane[lane].doorbell = shared_object(
		&host->arena, sizeof(struct doorbell), &endpoints->doorbell_offset[lane]);
	endpoints->table[lane] = object(&host->arena, sizeof(struct ud_endpoint_table), &offset);
	datagram_lane_init(&endpoints->lane[lane], request_lookup);
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++) {
		endpoints->path[lane][i] = (struct datagram_path){
			.id = sim_path(host->number, i),
			.local = host->address,
			.remote = world->host[i].address,
		};
		datagram_path_add(&endpoints->lane[lane], &endpoints->path[lane][i]);
	}
}

static void host_init(struct world *world, struct host *host)
{
	struct endpoints *endpoints = calloc(1, sizeof(*endpoints));
	uint64_t offset;

	if (!endpoints)
		abort();
	host->endpoints = endpoints;
	mr_table_publish(&host->mrs, &host->arena, &endpoints->mrs);
	endpoints->owner = (struct local_owner){.wait = wait, .who = 1 + host->number};
	endpoints->owner.borrowers =
		shared_object(&host->arena, sizeof(struct borrower_table), &offset);
	endpoints->is_lazy = draw(world) % 2;
	for (uint32_t i = 0; i < host->lane_count; i++)
		lane_init(world, host, i);
}

static void view_init(struct world *world, struct endpoints *endpoints, uint32_t number)
{
	struct view *view = &endpoints->view[number];
	const struct host *host = &world->host[number];

	view->world = world;
	view->peer.base = host->arena.base;
	view->peer.bytes = host->arena.bytes;
	view->peer.ops = draw(world) % 2 ? &mapped_ops : &far_ops;
	if (mr_table_view(
		    &view->peer.mrs, view->peer.base, view->peer.bytes, &host->endpoints->mrs))
		abort();
	view->owner.peer = &view->peer;
	view->owner.borrowers = host->endpoints->owner.borrowers;
	view->owner.self = &endpoints->owner;
}

void endpoints_init(struct world *world)
{
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++)
		host_init(world, &world->host[i]);
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++)
		for (uint32_t j = 0; j < WORLD_HOST_COUNT; j++)
			view_init(world, world->host[i].endpoints, j);
}

static bool is_any(const struct datagram_route *route, const void *context)
{
	(void)route;
	(void)context;
	return true;
}

void endpoints_done(struct endpoints *endpoints)
{
	struct datagram_route *route;

	for (uint32_t i = 0; endpoints && i < WORLD_LANE_COUNT_MAX; i++)
		while (endpoints->table[i] &&
			(route = datagram_route_take(&endpoints->lane[i], is_any, NULL)))
			free(route);
	free(endpoints);
}

void endpoints_add(struct world *world, struct qp *qp, uint32_t number)
{
	struct host *host = &world->host[number];
	struct endpoints *endpoints = host->endpoints;
	struct ud_endpoint_place place;
	struct ud_endpoint_qp *endpoint;

	if (!endpoints)
		return;
	endpoint = calloc(1, sizeof(*endpoint));
	if (!endpoint || endpoints->endpoint_count == UD_ENDPOINT_COUNT_MAX)
		abort();
	place = (struct ud_endpoint_place){
		.table = endpoints->table[qp->lane->index],
		.lane = &endpoints->local_lane[qp->lane->index],
	};
	place.endpoint = object(&host->arena, sizeof(struct ud_endpoint), &place.offset);
	ud_endpoint_add_address(place.endpoint, &host->address);
	ud_endpoint_add(endpoint, qp, &place, &endpoints->lane[qp->lane->index]);
	endpoints->endpoint[endpoints->endpoint_count++] = endpoint;
}

void endpoints_remove(struct world *world, struct qp *qp)
{
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++) {
		struct endpoints *endpoints = world->host[i].endpoints;

		for (uint32_t j = 0; endpoints && j < endpoints->endpoint_count; j++) {
			struct ud_endpoint_qp *endpoint = endpoints->endpoint[j];

			if (endpoint->qp != qp)
				continue;
			if (!ud_endpoint_remove(endpoint, sim_now_ns(world->sim)))
				abort();
			free(endpoint);
			endpoints->endpoint[j] = endpoints->endpoint[--endpoints->endpoint_count];
			return;
		}
	}
}

/* --- answering --- */

static struct datagram_process process_of(
	struct world *world, const struct host *from, uint32_t lane, uint32_t to, uint32_t qpn)
{
	struct owner_process *owner = &from->endpoints->view[to].owner;
	const struct host *other = &world->host[to];
	struct datagram_process process = {.owner = owner};

	while (other->lane[process.lane].slot != qpn >> 16)
		process.lane++;
	process.endpoints = other->endpoints->table[process.lane];
	process.doorbell = other->endpoints->local_lane[process.lane].doorbell;
	owner->doorbell_offset[process.lane] = other->endpoints->doorbell_offset[process.lane];
	process.channel = owner_channel(owner, lane, process.lane);
	if (!process.channel)
		abort();
	return process;
}

static bool is_same(const struct datagram_route *route, const void *context)
{
	const struct datagram_lookup *lookup = context;

	return route->path == lookup->path && route->qpn == lookup->qpn;
}

static void forget(struct datagram_lane *lane,
	bool (*is_it)(const struct datagram_route *route, const void *context), const void *context)
{
	free(datagram_route_take(lane, is_it, context));
}

/* True when a lookup is pending. */
static bool answer(struct world *world, struct host *host, uint32_t index)
{
	struct datagram_lane *lane = &host->endpoints->lane[index];
	struct datagram_lookup lookup = lane->lookup;
	struct datagram_route *route;

	if (!lookup.path)
		return false;
	if (draw(world) % 4)
		return true;
	forget(lane, is_same, &lookup);
	route = calloc(1, sizeof(*route));
	if (!route)
		abort();
	if (draw(world) % 8)
		route->process = process_of(world, host, index,
			(uint32_t)(lookup.path - host->endpoints->path[index]), lookup.qpn);
	else
		route->again_ns = sim_now_ns(world->sim) + AGAIN_NS;
	datagram_lookup_done(lane, route);
	return true;
}

/* True when there was something to collect. */
static bool collect(struct world *world, struct host *host, uint32_t index)
{
	struct endpoints *endpoints = host->endpoints;

	if (!local_has_work(&endpoints->local_lane[index]))
		return false;
	if (!endpoints->is_lazy || draw(world) % 4 == 0)
		local_collect(
			&host->lane[index], &endpoints->local_lane[index], sim_now_ns(world->sim));
	return true;
}

bool endpoints_collect(struct world *world, uint32_t number)
{
	struct host *host = &world->host[number];
	bool has_happened = false;

	for (uint32_t i = 0; host->endpoints && i < host->lane_count; i++) {
		has_happened |= collect(world, host, i);
		has_happened |= answer(world, host, i);
		if (draw(world) % 256 == 0)
			forget(&host->endpoints->lane[i], is_any, NULL);
	}
	return has_happened;
}
