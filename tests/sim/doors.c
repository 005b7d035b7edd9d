/* SPDX-License-Identifier: BSD-2-Clause */
#include "doors.h"

#include <stdlib.h>
#include <string.h>

#include "local/datagram.h"

enum { DOOR_COUNT_MAX = 16 };

#define AGAIN_NS 1000000u

/* How this host sees one of the two. */
struct view {
	struct peer peer;
	struct far_host host;
	struct world *world;
};

struct doors {
	struct mr_public mrs;
	struct guest_table *guests;
	struct door_owner owner;
	struct doorbell *bell[WORLD_LANE_COUNT_MAX];
	uint64_t bell_offset[WORLD_LANE_COUNT_MAX];
	struct door_table *table[WORLD_LANE_COUNT_MAX];
	struct datagram_lane lane[WORLD_LANE_COUNT_MAX];
	struct datagram_path path[WORLD_LANE_COUNT_MAX][WORLD_HOST_COUNT];
	struct far_owner guest; /* who this host is elsewhere */
	struct view view[WORLD_HOST_COUNT];
	bool is_lazy; /* collects late */
	struct door_qp *door[DOOR_COUNT_MAX];
	uint32_t door_count;
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

static const struct peer_ops mapped_ops = {far_write, NULL, map, kick, NULL};
static const struct peer_ops far_ops = {far_write, NULL, NULL, kick, NULL};

/* One thread runs all: nobody can be inside while an owner waits. */
static bool wait(uint32_t who, uint32_t round)
{
	(void)who;
	(void)round;
	abort();
}

static bool is_alive(void *context, uint32_t who)
{
	(void)context;
	(void)who;
	return true;
}

/* doors_collect() looks by itself. */
static void ask(void)
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
	struct doors *doors = host->doors;
	uint64_t offset;

	doors->bell[lane] =
		shared_object(&host->arena, sizeof(struct doorbell), &doors->bell_offset[lane]);
	guest_bell_init(doors->bell[lane], doors->guests);
	doors->table[lane] = object(&host->arena, sizeof(struct door_table), &offset);
	datagram_lane_init(&doors->lane[lane], ask);
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++) {
		doors->path[lane][i] = (struct datagram_path){
			.id = sim_path(host->number, i),
			.local = host->address,
			.remote = world->host[i].address,
		};
		datagram_path_add(&doors->lane[lane], &doors->path[lane][i]);
	}
}

static void host_init(struct world *world, struct host *host)
{
	struct doors *doors = calloc(1, sizeof(*doors));
	uint64_t offset;

	if (!doors)
		abort();
	host->doors = doors;
	mr_table_publish(&host->mrs, &host->arena, &doors->mrs);
	doors->guests = shared_object(&host->arena, sizeof(struct guest_table), &offset);
	doors->owner = (struct door_owner){.guests = doors->guests, .wait = wait};
	doors->guest = (struct far_owner){.who = 1 + host->number, .is_alive = is_alive};
	doors->is_lazy = draw(world) % 2;
	for (uint32_t i = 0; i < host->lane_count; i++)
		lane_init(world, host, i);
}

static void view_init(struct world *world, struct doors *doors, uint32_t number)
{
	struct view *view = &doors->view[number];
	const struct host *host = &world->host[number];

	view->world = world;
	view->peer.base = host->arena.base;
	view->peer.bytes = host->arena.bytes;
	view->peer.ops = draw(world) % 2 ? &mapped_ops : &far_ops;
	if (mr_table_view(&view->peer.mrs, view->peer.base, view->peer.bytes, &host->doors->mrs))
		abort();
	view->host.peer = &view->peer;
	view->host.guests = host->doors->guests;
	view->host.owner = &doors->guest;
}

void doors_init(struct world *world)
{
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++)
		host_init(world, &world->host[i]);
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++)
		for (uint32_t j = 0; j < WORLD_HOST_COUNT; j++)
			view_init(world, world->host[i].doors, j);
}

static bool is_any(const struct datagram_route *route, const void *context)
{
	(void)route;
	(void)context;
	return true;
}

void doors_done(struct doors *doors)
{
	struct datagram_route *route;

	for (uint32_t i = 0; doors && i < WORLD_LANE_COUNT_MAX; i++)
		while (doors->table[i] &&
			(route = datagram_route_take(&doors->lane[i], is_any, NULL)))
			free(route);
	free(doors);
}

void doors_add(struct world *world, struct qp *qp, uint32_t number)
{
	struct host *host = &world->host[number];
	struct doors *doors = host->doors;
	struct door_place place;
	struct door_qp *door;

	if (!doors)
		return;
	door = calloc(1, sizeof(*door));
	if (!door || doors->door_count == DOOR_COUNT_MAX)
		abort();
	place = (struct door_place){
		.table = doors->table[qp->lane->index],
		.bell = doors->bell[qp->lane->index],
		.owner = &doors->owner,
	};
	place.door = object(&host->arena, sizeof(struct door), &place.offset);
	door_add_address(place.door, &host->address);
	door_add(door, qp, &place, &doors->lane[qp->lane->index]);
	doors->door[doors->door_count++] = door;
}

void doors_remove(struct world *world, struct qp *qp)
{
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++) {
		struct doors *doors = world->host[i].doors;

		for (uint32_t j = 0; doors && j < doors->door_count; j++) {
			struct door_qp *door = doors->door[j];

			if (door->qp != qp)
				continue;
			if (!door_remove(door, sim_now_ns(world->sim)))
				abort();
			free(door);
			doors->door[j] = doors->door[--doors->door_count];
			return;
		}
	}
}

/* --- answering --- */

static struct datagram_process process_of(
	struct world *world, const struct host *from, uint32_t lane, uint32_t to, uint32_t qpn)
{
	struct far_host *host = &from->doors->view[to].host;
	const struct host *other = &world->host[to];
	struct datagram_process process = {.host = host};

	while (other->lane[process.lane].slot != qpn >> 16)
		process.lane++;
	process.doors = other->doors->table[process.lane];
	process.bell = other->doors->bell[process.lane];
	host->bell_offset[process.lane] = other->doors->bell_offset[process.lane];
	process.seat = far_seat(host, lane, process.lane);
	if (!process.seat)
		abort();
	process.seat_offset = arena_offset(&other->arena, arena_owners_side(process.seat));
	return process;
}

static bool is_same(const struct datagram_route *route, const void *context)
{
	const struct datagram_question *question = context;

	return route->path == question->path && route->qpn == question->qpn;
}

static void forget(struct datagram_lane *lane,
	bool (*is_it)(const struct datagram_route *route, const void *context), const void *context)
{
	free(datagram_route_take(lane, is_it, context));
}

/* True when somebody asks. */
static bool answer(struct world *world, struct host *host, uint32_t index)
{
	struct datagram_lane *lane = &host->doors->lane[index];
	struct datagram_question question = lane->question;
	struct datagram_route *route;

	if (!question.path)
		return false;
	if (draw(world) % 4)
		return true;
	forget(lane, is_same, &question);
	route = calloc(1, sizeof(*route));
	if (!route)
		abort();
	if (draw(world) % 8)
		route->process = process_of(world, host, index,
			(uint32_t)(question.path - host->doors->path[index]), question.qpn);
	else
		route->again_ns = sim_now_ns(world->sim) + AGAIN_NS;
	datagram_answer(lane, route);
	return true;
}

/* True when there was something to collect. */
static bool collect(struct world *world, struct host *host, uint32_t index)
{
	struct doors *doors = host->doors;

	if (!doorbell_is_rung(doors->bell[index]))
		return false;
	if (!doors->is_lazy || draw(world) % 4 == 0)
		guest_collect(&host->lane[index], doors->bell[index], sim_now_ns(world->sim));
	return true;
}

bool doors_collect(struct world *world, uint32_t number)
{
	struct host *host = &world->host[number];
	bool has_happened = false;

	for (uint32_t i = 0; host->doors && i < host->lane_count; i++) {
		has_happened |= collect(world, host, i);
		has_happened |= answer(world, host, i);
		if (draw(world) % 256 == 0)
			forget(&host->doors->lane[i], is_any, NULL);
	}
	return has_happened;
}
