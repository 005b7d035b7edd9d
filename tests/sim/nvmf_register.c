/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The search, for one block: a set of configurations, each of which explains all that has ended so
 * far. A configuration is a value and the pending actions that have happened already. When an
 * action ends, the search lets pending writes happen in each order until the action has happened
 * too. Reads need no choice: they happen as soon as the value is right, because a read does not
 * affect other actions.
 */
#include "nvmf_register.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	VALUES_MAX = 64, /* of a block: bits in `saved` */
	VALUES_FULL = 44, /* the others are zeroes and copies */
	SLOTS_MAX = 32,
	CONFIGS_MAX = 1 << 14,
	HASH_BITS = 16,
	COUNTER_BITS = 16,
	NONE = -1,
};

/* A value that a copy has written: its number follows. */
#define COPIED (1ull << 63)

struct register_set {
	struct nvmf_world *world;
	unsigned blocks;
	struct {
		unsigned value_count;
		unsigned last; /* action, or NONE */
		unsigned open_count; /* writes that are not closed */
	} * block;
	unsigned last_flush;
	struct register_action *actions;
	unsigned count, room;
	uint64_t *crashes;
	unsigned crash_count;
	uint64_t place;
};

/* One thing that happens to a block: its beginning, its end, or a crash. */
struct event {
	uint64_t place;
	const struct register_action *action; /* NULL: a crash */
	bool is_end;
};

struct config {
	uint64_t value;
	uint64_t saved; /* bits of the values that a crash may leave */
	uint32_t done; /* slots of pending actions that have happened */
};

struct search {
	struct register_set *set;
	const struct register_action *slots[SLOTS_MAX];
	struct config *configs; /* one of the two buffers */
	unsigned count;
	bool is_undecided;
	uint64_t followed;
	uint64_t values[VALUES_MAX]; /* by their bits in `saved` */
	unsigned value_count;
	uint64_t hash[1 << HASH_BITS]; /* places in `configs`, and the round that they are of */
	uint64_t round;
	struct config buffers[2][CONFIGS_MAX];
};

static bool is_effect(const struct register_action *action)
{
	return action->kind != REGISTER_READ && action->kind != REGISTER_READ_OTHER;
}

/* --- recording --- */

struct register_set *register_create(struct nvmf_world *world, unsigned blocks)
{
	struct register_set *set = calloc(1, sizeof(*set));

	if (!set)
		abort();
	set->world = world;
	set->blocks = blocks;
	set->block = calloc(blocks, sizeof(*set->block));
	if (!set->block)
		abort();
	for (unsigned i = 0; i < blocks; i++)
		set->block[i].last = (unsigned)NONE;
	set->last_flush = (unsigned)NONE;
	return set;
}

void register_destroy(struct register_set *set)
{
	free(set->block);
	free(set->actions);
	free(set->crashes);
	free(set);
}

uint64_t register_value(struct register_set *set, unsigned block)
{
	return (uint64_t)(block + 1) << COUNTER_BITS | ++set->block[block].value_count;
}

bool register_is_full(const struct register_set *set, unsigned block)
{
	return set->block[block].value_count >= VALUES_FULL;
}

bool register_is_of(uint64_t value, unsigned block)
{
	return value == 0 || value >> COUNTER_BITS == block + 1;
}

unsigned register_begin(struct register_set *set, const struct register_action *action)
{
	unsigned *last =
		action->kind == REGISTER_FLUSH ? &set->last_flush : &set->block[action->block].last;
	struct register_action *copy;

	if (set->count == set->room) {
		set->room = set->room ? 2 * set->room : 4096;
		set->actions = realloc(set->actions, set->room * sizeof(*set->actions));
		if (!set->actions)
			abort();
	}
	copy = &set->actions[set->count];
	*copy = *action;
	copy->outcome = REGISTER_PENDING;
	copy->is_closed = false;
	copy->begin = set->place++;
	copy->end = UINT64_MAX;
	copy->previous = *last;
	*last = set->count;
	set->block[action->block].open_count += is_effect(action);
	return set->count++;
}

void register_close(struct register_set *set, unsigned number)
{
	struct register_action *action = &set->actions[number];

	if (action->is_closed)
		return;
	action->is_closed = true;
	action->end = set->place++;
	set->block[action->block].open_count -= is_effect(action);
}

void register_lose(struct register_set *set, unsigned number)
{
	set->actions[number].outcome = REGISTER_MAYBE;
}

void register_refute(struct register_set *set, unsigned number, uint64_t value)
{
	set->actions[number].kind = REGISTER_READ_OTHER;
	set->actions[number].value = value;
	register_end(set, number, REGISTER_DONE, value);
}

unsigned register_open_count(const struct register_set *set, unsigned block)
{
	return set->block[block].open_count;
}

void register_end(
	struct register_set *set, unsigned number, enum register_outcome outcome, uint64_t value)
{
	struct register_action *action = &set->actions[number];

	action->outcome = outcome;
	if (action->kind == REGISTER_READ)
		action->value = value;
	register_close(set, number);
}

void register_crash(struct register_set *set)
{
	set->crashes = realloc(set->crashes, (set->crash_count + 1) * sizeof(*set->crashes));
	if (!set->crashes)
		abort();
	set->crashes[set->crash_count++] = set->place++;
}

/* --- the meaning of actions --- */

/* Has the block that was copied had this value by the end of the copy? */
static bool is_copied(const struct register_set *set, uint64_t copied, uint64_t value)
{
	const struct register_action *copy = &set->actions[copied & ~COPIED];

	if (!register_is_of(value, (unsigned)copy->other))
		return false;
	for (unsigned i = set->block[copy->other].last; value && i != (unsigned)NONE;
		i = set->actions[i].previous) {
		const struct register_action *action = &set->actions[i];

		if (action->value == value && is_effect(action) && action->begin < copy->end &&
			action->outcome != REGISTER_NEVER)
			return true;
	}
	return value == 0;
}

static bool may_be(const struct register_set *set, uint64_t present, uint64_t value)
{
	return present & COPIED ? is_copied(set, present, value) : present == value;
}

static uint64_t bit_of(struct search *search, uint64_t value)
{
	unsigned i = 0;

	if (search->set->crash_count == 0)
		return 0;
	while (i < search->value_count && search->values[i] != value)
		i++;
	if (i == search->value_count) {
		if (i == VALUES_MAX) {
			search->is_undecided = true;
			return 0;
		}
		search->values[search->value_count++] = value;
	}
	return 1ull << i;
}

/* Pending reads that find their value happen now. */
static void settle(const struct search *search, struct config *config)
{
	for (unsigned i = 0; i < SLOTS_MAX; i++) {
		const struct register_action *action = search->slots[i];
		bool is_there;

		if (!action || config->done >> i & 1 || is_effect(action))
			continue;
		if (action->kind == REGISTER_READ)
			is_there = may_be(search->set, config->value, action->value);
		else
			is_there = config->value & COPIED || config->value != action->value;
		if (is_there)
			config->done |= 1u << i;
	}
}

/* The pending action in `slot` happens. False: it cannot. */
static bool apply(struct search *search, struct config *config, unsigned slot)
{
	const struct register_action *action = search->slots[slot];

	switch (action->kind) {
	case REGISTER_READ:
	case REGISTER_READ_OTHER:
		return false;
	case REGISTER_SWAP:
		if (!may_be(search->set, config->value, action->other))
			return false;
		config->value = action->value;
		break;
	case REGISTER_WRITE:
		config->value = action->value;
		break;
	case REGISTER_DISCARD:
		config->value = 0;
		break;
	case REGISTER_COPY:
		config->value = COPIED | (uint64_t)(action - search->set->actions);
		break;
	case REGISTER_FLUSH:
		config->saved = 0;
		break;
	}
	/* An acknowledged one: there was no crash between what it wrote and its flush. */
	if (action->is_durable && action->outcome == REGISTER_DONE)
		config->saved = 0;
	config->saved |= bit_of(search, config->value);
	config->done |= 1u << slot;
	settle(search, config);
	return true;
}

/* --- sets of configurations --- */

/* Begin a new set in the other buffer; returns the old one. */
static const struct config *set_begin(struct search *search)
{
	const struct config *old = search->configs;

	search->configs = search->buffers[old == search->buffers[0]];
	search->count = 0;
	search->round++;
	return old;
}

/* Add a configuration, unless it is there. */
static void set_add(struct search *search, const struct config *config)
{
	uint64_t key = mix_u64(config->value ^ mix_u64(config->saved ^ mix_u64(config->done)));
	uint32_t at = (uint32_t)(key >> (64 - HASH_BITS));

	while (search->hash[at] / CONFIGS_MAX == search->round) {
		const struct config *other = &search->configs[search->hash[at] % CONFIGS_MAX];

		if (other->value == config->value && other->saved == config->saved &&
			other->done == config->done)
			return;
		at = (at + 1) % (1 << HASH_BITS);
	}
	if (search->count == CONFIGS_MAX) {
		search->is_undecided = true;
		return;
	}
	search->hash[at] = search->round * CONFIGS_MAX + search->count;
	search->configs[search->count++] = *config;
	search->followed++;
}

/* Follow all configurations, until in each the actions of `goal` have happened; 0: to the end. */
static void reach(struct search *search, uint32_t goal)
{
	for (unsigned i = 0; i < search->count && !search->is_undecided; i++) {
		for (unsigned slot = 0; slot < SLOTS_MAX; slot++) {
			struct config next = search->configs[i];

			if (goal && (next.done & goal) == goal)
				break;
			if (!search->slots[slot] || next.done >> slot & 1)
				continue;
			if (apply(search, &next, slot))
				set_add(search, &next);
		}
	}
}

/* Keep the members in which the actions of `must` have happened, and forget those of `forget`. */
static void set_filter(struct search *search, uint32_t must, uint32_t forget)
{
	unsigned count = search->count;
	const struct config *old = set_begin(search);

	for (unsigned i = 0; i < count; i++) {
		struct config next = old[i];

		if ((next.done & must) != must)
			continue;
		next.done &= ~forget;
		settle(search, &next);
		set_add(search, &next);
	}
}

/* --- events --- */

static void event_begin(struct search *search, const struct register_action *action)
{
	unsigned slot = 0;

	while (slot < SLOTS_MAX && search->slots[slot])
		slot++;
	if (slot == SLOTS_MAX) {
		search->is_undecided = true;
		return;
	}
	search->slots[slot] = action;
	if (!is_effect(action))
		set_filter(search, 0, 0);
}

static void event_end(struct search *search, const struct register_action *action)
{
	bool is_optional = action->outcome != REGISTER_DONE || action->kind == REGISTER_DISCARD;
	unsigned slot = 0;
	uint32_t bit;

	while (search->slots[slot] != action)
		slot++;
	bit = 1u << slot;
	reach(search, bit);
	search->slots[slot] = NULL;
	set_filter(search, is_optional ? 0 : bit, bit);
}

static void event_crash(struct search *search)
{
	const struct config *old;
	unsigned count;

	reach(search, 0);
	count = search->count;
	old = set_begin(search);
	for (unsigned i = 0; i < count; i++) {
		for (unsigned bit = 0; bit < search->value_count; bit++) {
			struct config next = old[i];

			if (!(next.saved >> bit & 1))
				continue;
			next.value = search->values[bit];
			next.saved = 1ull << bit;
			settle(search, &next);
			set_add(search, &next);
		}
	}
}

/* --- a block --- */

static bool is_of_block(const struct register_action *action, unsigned block)
{
	if (action->kind == REGISTER_FLUSH)
		return block >= action->block && block - action->block < action->other;
	return action->block == block;
}

/* Reads without an answer, and what never happened, tell nothing. */
static bool is_telling(const struct register_action *action)
{
	if (action->outcome == REGISTER_NEVER)
		return false;
	return action->outcome == REGISTER_DONE || is_effect(action);
}

static int event_compare(const void *a, const void *b)
{
	const struct event *one = a, *other = b;

	return one->place < other->place ? -1 : one->place > other->place;
}

static unsigned events_add(const struct register_set *set, unsigned block, unsigned last,
	struct event *events, unsigned count)
{
	for (unsigned i = last; i != (unsigned)NONE; i = set->actions[i].previous) {
		const struct register_action *action = &set->actions[i];

		if (!is_of_block(action, block) || !is_telling(action))
			continue;
		events[count++] = (struct event){action->begin, action, false};
		if (action->end != UINT64_MAX)
			events[count++] = (struct event){action->end, action, true};
	}
	return count;
}

static unsigned events_collect(const struct register_set *set, unsigned block, struct event *events)
{
	unsigned count = events_add(set, block, set->block[block].last, events, 0);

	if (set->crash_count)
		count = events_add(set, block, set->last_flush, events, count);
	for (unsigned i = 0; i < set->crash_count; i++)
		events[count++] = (struct event){set->crashes[i], NULL, false};
	qsort(events, count, sizeof(*events), event_compare);
	return count;
}

static const char *kind_name(enum register_kind kind)
{
	static const char *const names[] = {
		[REGISTER_READ] = "read",
		[REGISTER_READ_OTHER] = "read other than",
		[REGISTER_WRITE] = "write",
		[REGISTER_DISCARD] = "discard",
		[REGISTER_SWAP] = "swap",
		[REGISTER_COPY] = "copy",
		[REGISTER_FLUSH] = "flush",
	};

	return names[kind];
}

static void history_print(const struct event *events, unsigned count, unsigned failed)
{
	for (unsigned i = 0; i < count; i++) {
		const struct register_action *action = events[i].action;

		printf("%s%8llu  ", i == failed ? "->" : "  ", (unsigned long long)events[i].place);
		if (!action) {
			printf("crash\n");
			continue;
		}
		printf("%-5s %s %llx (%llx)%s%s\n", events[i].is_end ? "end" : "begin",
			kind_name(action->kind), (unsigned long long)action->value,
			(unsigned long long)action->other, action->is_durable ? ", durable" : "",
			action->outcome == REGISTER_MAYBE ? ", perhaps" : "");
	}
}

static void block_check(
	struct search *search, unsigned block, const struct event *events, unsigned count)
{
	struct config first = {0};

	memset(search->slots, 0, sizeof(search->slots));
	search->value_count = 0;
	search->is_undecided = false;
	(void)set_begin(search);
	first.saved = bit_of(search, 0);
	set_add(search, &first);
	for (unsigned i = 0; i < count && !search->is_undecided; i++) {
		if (!events[i].action)
			event_crash(search);
		else if (events[i].is_end)
			event_end(search, events[i].action);
		else
			event_begin(search, events[i].action);
		if (search->count || search->is_undecided)
			continue;
		history_print(events, count, i);
		NVMF_CHECK(search->set->world, search->count,
			"block %u has a history that no order explains", block);
	}
}

void register_check(struct register_set *set, struct register_result *result)
{
	static struct search search;
	struct event *events = calloc(2 * set->count + set->crash_count + 1, sizeof(*events));

	if (!events)
		abort();
	search.set = set;
	search.followed = 0;
	search.configs = search.buffers[0];
	for (unsigned block = 0; block < set->blocks; block++) {
		block_check(&search, block, events, events_collect(set, block, events));
		result->undecided += search.is_undecided;
	}
	result->actions += set->count;
	result->configs += search.followed;
	free(events);
}
