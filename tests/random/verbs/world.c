/* SPDX-License-Identifier: BSD-2-Clause */
#include "world.h"

#include <stdarg.h>

_Atomic uint64_t creation_count = 1;
_Atomic uint32_t known_qpns[QPNS];
_Atomic uint32_t known_srqns[QPNS];

void world_fail(const struct world *world, const char *file, int line, const char *format, ...)
{
	int error = errno;
	char what[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	fprintf(stderr, "%s:%d: seed %llu, thread %u, call %llu, %s: %s (errno %d)\n", file, line,
		(unsigned long long)world->seed, world->thread,
		(unsigned long long)world->call_count, world->call, what, error);
	abort();
}

static struct item *pick(struct world *world, enum kind kind, unsigned opening)
{
	unsigned start = below(world, ITEMS_MAX);

	for (unsigned i = 0; i < ITEMS_MAX; i++) {
		struct item *item = &world->items[(start + i) % ITEMS_MAX];

		if (item->verbs && item->kind == kind &&
			(opening == OPENINGS || item->opening == opening))
			return item;
	}
	return NULL;
}

struct item *item_pick(struct world *world, enum kind kind)
{
	return pick(world, kind, OPENINGS);
}

struct item *item_pick_of(struct world *world, enum kind kind, unsigned opening)
{
	return pick(world, kind, opening);
}

static struct item *item_free(struct world *world)
{
	for (unsigned i = 0; i < ITEMS_MAX; i++)
		if (!world->items[i].verbs)
			return &world->items[i];
	return NULL;
}

bool world_has_room(const struct world *world)
{
	unsigned living = 0;

	for (unsigned i = 0; i < ITEMS_MAX; i++)
		living += world->items[i].verbs != NULL;
	return living < ITEMS_MAX - 8;
}

struct item *item_add(struct world *world, enum kind kind, void *verbs, unsigned opening,
	struct item *const parents[])
{
	struct item *item = item_free(world);

	CHECK(world, item, "no room");
	*item = (struct item){.kind = kind,
		.verbs = verbs,
		.opening = opening,
		.id = (uint32_t)world->call_count};
	for (unsigned i = 0; parents && parents[i]; i++) {
		CHECK(world, i < PARENTS_MAX, "many parents");
		item->parents[i] = parents[i];
		parents[i]->users++;
	}
	creation_count++;
	return item;
}

struct corpse corpse_of(const struct item *item)
{
	struct corpse corpse = {.kind = item->kind, .created = creation_count};

	memcpy(&corpse.verbs, item->verbs, kind_bytes(item->kind));
	return corpse;
}

void item_drop(struct world *world, struct item *item, const struct corpse *corpse)
{
	if (item->kind < KIND_WITH_HANDLE_COUNT)
		world->corpses[world->corpse_next++ % CORPSES] = *corpse;
	for (unsigned i = 0; i < PARENTS_MAX; i++)
		if (item->parents[i])
			item->parents[i]->users--;
	item->verbs = NULL;
}

struct corpse *corpse_pick(struct world *world)
{
	struct corpse *corpse = &world->corpses[below(world, CORPSES)];

	if (!corpse->created || creation_count - corpse->created > CORPSE_AGE_MAX)
		return NULL;
	return corpse;
}

uint32_t *handle_of(enum kind kind, void *verbs)
{
	switch ((int)kind) {
#define KIND(name, type, handle) \
	case KIND_##name:        \
		return (uint32_t *)&((struct type *)verbs)->handle;
		KINDS_WITH_HANDLE(KIND)
#undef KIND
	}
	return NULL;
}

size_t kind_bytes(enum kind kind)
{
	switch ((int)kind) {
#define KIND(name, type, handle) \
	case KIND_##name:        \
		return sizeof(struct type);
		KINDS_WITH_HANDLE(KIND)
#undef KIND
	}
	return 0;
}

struct ibv_ah_attr world_address(const struct world *world, unsigned opening)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.grh = {.dgid = world->openings[opening].gid, .hop_limit = 1},
	};
}

struct ibv_sge world_sge(struct world *world, unsigned opening)
{
	struct item *mr = item_pick_of(world, KIND_MR, opening);
	struct ibv_sge sge = {
		.addr = (uintptr_t)world->buffer + below(world, BUFFER_BYTES),
		.length = below(world, 2048),
		.lkey = below(world, 10) ? 0 : (uint32_t)sim_random_next(&world->random),
	};

	if (mr) {
		const struct ibv_mr *region = mr->verbs;

		sge.lkey = region->lkey;
		sge.addr = (uintptr_t)region->addr + below(world, mr->mr.length);
		sge.length = below(world, mr->mr.length);
		/* Half of them fit. */
		if (percent(world, 50))
			sge.length %=
				(uint32_t)((uintptr_t)region->addr + mr->mr.length - sge.addr);
	}
	if (percent(world, 1))
		sge.addr = sim_random_next(&world->random);
	if (percent(world, 1))
		sge.length = (uint32_t)sim_random_next(&world->random);
	return sge;
}

static const struct call *call_pick(struct world *world)
{
	static const struct call *const tables[] = {
		calls_objects, calls_memory, calls_queues, calls_data, calls_wrong};
	unsigned sum = 0;
	unsigned drawn;

	for (size_t i = 0; i < ARRAY_COUNT(tables); i++)
		for (const struct call *call = tables[i]; call->name; call++)
			sum += call->weight;
	drawn = below(world, sum);
	for (size_t i = 0; i < ARRAY_COUNT(tables); i++)
		for (const struct call *call = tables[i]; call->name; call++) {
			if (drawn < call->weight)
				return call;
			drawn -= call->weight;
		}
	abort();
}

void world_step(struct world *world)
{
	const struct call *call = call_pick(world);

	world->call_count++;
	world->call = call->name;
	errno = 0;
	call->run(world);
	world->call = "between calls";
	world->beats++;
}

void world_end(struct world *world)
{
	unsigned rounds = 0;
	bool is_left = true;

	world->call = "end";
	while (is_left) {
		unsigned start = below(world, ITEMS_MAX);

		is_left = false;
		for (unsigned i = 0; i < ITEMS_MAX; i++) {
			struct item *item = &world->items[(start + i) % ITEMS_MAX];

			if (!item->verbs)
				continue;
			is_left = true;
			/* A queue pair leaves its groups first. */
			if (item->groups)
				leave_groups(world, item);
			item_destroy(world, item);
			world->beats++;
		}
		CHECK(world, rounds++ < 100, "something cannot be destroyed");
	}
}
