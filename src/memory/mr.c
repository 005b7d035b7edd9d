/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/mr.h"

#include <assert.h>
#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "memory/mr_explain.h"
#include "memory/mr_internal.h"

int mr_fault_errno(enum mr_fault fault)
{
	static const int errors[] = {
#define MR_FAULT(name, local, bind, tagged, read, error, sentence) [MR_FAULT_##name] = -(error),
#include "memory/mr_fault.def"
#undef MR_FAULT
	};

	return errors[fault];
}

static_assert(sizeof(struct mr_slot) == 64, "a slot is a cache line");

uint32_t mr_slot_key(const struct mr_table *table, const struct mr_slot *slot, uint8_t variant)
{
	uint32_t plain =
		(uint32_t)(slot - table->slots) | (uint32_t)slot->generation << MR_KEY_SLOT_BITS;

	return permute_forward(table->permutation, plain) << MR_KEY_VARIANT_BITS | variant;
}

int mr_table_init(struct mr_table *table, struct arena *arena, uint32_t slot_count,
	const struct permutation *permutation)
{
	uint64_t slots_offset, places_offset, null_offset, permutation_offset;

	assert(slot_count > 0 && slot_count <= MR_SLOT_COUNT_MAX);
	memset(table, 0, sizeof(*table));
	slots_offset = arena_alloc(arena, slot_count * sizeof(struct mr_slot));
	places_offset = arena_alloc(arena, slot_count * sizeof(struct mr_place));
	null_offset = arena_alloc(arena, 2 * MR_NULL_BYTES);
	permutation_offset = arena_alloc(arena, sizeof(*permutation));
	table->free_ring = calloc(slot_count, sizeof(uint32_t));
	table->gone = calloc(1, sizeof(*table->gone));
	if (!slots_offset || !places_offset || !null_offset || !permutation_offset ||
		!table->free_ring || !table->gone) {
		arena_free(arena, slots_offset);
		arena_free(arena, places_offset);
		arena_free(arena, null_offset);
		arena_free(arena, permutation_offset);
		free(table->free_ring);
		free(table->gone);
		return -ENOMEM;
	}
	table->slots = arena_at(arena, slots_offset);
	table->places = arena_at(arena, places_offset);
	table->null_zeros = arena_at(arena, null_offset);
	table->null_sink = table->null_zeros + MR_NULL_BYTES;
	table->slot_count = slot_count;
	memcpy(arena_at(arena, permutation_offset), permutation, sizeof(*permutation));
	table->permutation = arena_at(arena, permutation_offset);
	return 0;
}

void mr_table_done(struct mr_table *table)
{
	free(table->free_ring);
	free(table->gone);
	memset(table, 0, sizeof(*table));
}

/* A slot that was never used, else the slot that has been free longest. NULL: no slot is free. */
static struct mr_slot *slot_next(struct mr_table *table)
{
	uint32_t index;

	if (table->fresh_count < table->slot_count)
		return &table->slots[table->fresh_count++];
	if (!table->free_count)
		return NULL;
	index = table->free_ring[table->free_head];
	table->free_head = (table->free_head + 1) % table->slot_count;
	table->free_count--;
	return &table->slots[index];
}

struct mr_slot *mr_slot_take(struct mr_table *table, uint32_t pd, enum mr_kind kind)
{
	bool is_window = mr_kind_is_window(kind);
	uint32_t *count = is_window ? &table->window_count : &table->region_count;
	uint32_t count_max = is_window ? MR_WINDOW_COUNT_MAX : MR_REGION_COUNT_MAX;
	struct mr_slot *slot = *count < count_max ? slot_next(table) : NULL;

	if (!slot)
		return NULL;
	(*count)++;
	slot->pd = pd;
	atomic_store_explicit(&slot->kind, (uint8_t)kind, memory_order_release);
	return slot;
}

static const struct mr_extent nowhere = {0, 0, 0};

static void place_write(
	const struct mr_table *table, const struct mr_slot *slot, const struct mr_extent *extent)
{
	struct mr_place *place = &table->places[slot - table->slots];

	atomic_store_explicit(&place->segment, extent->segment, memory_order_relaxed);
	atomic_store_explicit(&place->start, extent->start, memory_order_relaxed);
	/* A peer that reads this `end` also sees the other fields. An `end` of 0 means no bytes. */
	atomic_store_explicit(&place->end, extent->end, memory_order_release);
}

void mr_slot_free(struct mr_table *table, struct mr_slot *slot)
{
	uint32_t place = (table->free_head + table->free_count) % table->slot_count;

	if (mr_kind_is_window(mr_slot_kind(slot)))
		table->window_count--;
	else
		table->region_count--;
	atomic_store_explicit(&slot->key_word, 0, memory_order_release);
	atomic_store_explicit(&slot->kind, MR_KIND_FREE, memory_order_relaxed);
	place_write(table, slot, &nowhere);
	slot->generation++;
	table->free_ring[place] = (uint32_t)(slot - table->slots);
	table->free_count++;
}

static bool region_is_legal(const struct mr_region *region)
{
	uint64_t address = (uint64_t)(uintptr_t)region->address;
	uint32_t needs_local_write = MR_REMOTE_WRITE | MR_REMOTE_ATOMIC;

	if (region->bytes &&
		(region->iova + (region->bytes - 1) < region->iova ||
			address + (region->bytes - 1) < address))
		return false;
	return !(region->access & needs_local_write) || (region->access & MR_LOCAL_WRITE);
}

static void region_write(
	const struct mr_table *table, struct mr_slot *slot, const struct mr_region *region)
{
	uint32_t granted = MR_LOCAL_READ | (region->access & MR_ON_DEMAND ? 0 : MR_TOUCH);

	slot->pd = region->pd;
	place_write(table, slot, &nowhere);
	mr_slot_set(slot, region->access | granted, region->iova, region->bytes,
		(uint64_t)(uintptr_t)region->address);
}

int mr_table_add(
	struct mr_table *table, const struct mr_region *region, uint8_t variant, uint32_t *ret_key)
{
	struct mr_slot *slot;

	if (!region_is_legal(region))
		return -EINVAL;
	slot = mr_slot_take(table, region->pd, MR_KIND_REGION);
	if (!slot)
		return -ENOMEM;
	region_write(table, slot, region);
	*ret_key = mr_slot_key(table, slot, variant);
	mr_slot_publish(slot, *ret_key);
	return 0;
}

int mr_table_add_null(struct mr_table *table, uint32_t pd, uint8_t variant, uint32_t *ret_key)
{
	struct mr_slot *slot = mr_slot_take(table, pd, MR_KIND_NULL);

	if (!slot)
		return -ENOMEM;
	mr_slot_set(slot, MR_LOCAL_READ | MR_LOCAL_WRITE, 0, UINT64_MAX, 0);
	*ret_key = mr_slot_key(table, slot, variant);
	mr_slot_publish(slot, *ret_key);
	return 0;
}

/*
 * The region or null region of `pd` with this key. Returns 0; -EINVAL when there is none; -EBUSY
 * when windows are bound to it.
 */
static int region_find(
	const struct mr_table *table, uint32_t key, uint32_t pd, struct mr_slot **ret_slot)
{
	struct mr_slot *slot = mr_slot_find(table, key);

	if (!slot || slot->pd != pd || mr_kind_is_window(mr_slot_kind(slot)))
		return -EINVAL;
	if (atomic_load_explicit(&slot->window_count, memory_order_relaxed))
		return -EBUSY;
	*ret_slot = slot;
	return 0;
}

/* Make lookups of the key fail, and wait until no process uses its memory (mr_quiesce_fn). */
static bool key_withdraw(const struct mr_table *table, struct mr_slot *slot, uint32_t key)
{
	atomic_store_explicit(&slot->key_word, 0, memory_order_seq_cst);
	return !table->quiesce || table->quiesce(key);
}

int mr_table_change(
	struct mr_table *table, uint32_t key, uint32_t pd, const struct mr_region *region)
{
	struct mr_slot *slot;
	int error = region_find(table, key, pd, &slot);

	if (!error && (mr_slot_kind(slot) != MR_KIND_REGION || !region_is_legal(region)))
		error = -EINVAL;
	if (!error) {
		mr_gone_note(table, slot, key, true);
		error = key_withdraw(table, slot, key) ? 0 : MR_IN_USE;
		region_write(table, slot, region);
		mr_slot_publish(slot, key);
	}
	return error;
}

int mr_table_remove(struct mr_table *table, uint32_t key, uint32_t pd)
{
	struct mr_slot *slot;
	int error = region_find(table, key, pd, &slot);

	if (!error) {
		mr_gone_note(table, slot, key, false);
		error = key_withdraw(table, slot, key) ? 0 : MR_IN_USE;
		mr_slot_free(table, slot);
	}
	return error;
}

static const uint32_t writes = MR_LOCAL_WRITE | MR_REMOTE_WRITE | MR_REMOTE_ATOMIC;

/*
 * `granted` lacks some of `access`. If only MR_TOUCH is missing, the memory is on-demand: fault the
 * pages in.
 */
static enum mr_fault pages_demand(const struct mr_table *table, uint32_t granted, uint32_t access,
	uint64_t address, uint64_t bytes)
{
	if ((granted & (access & ~(uint32_t)MR_TOUCH)) != (access & ~(uint32_t)MR_TOUCH))
		return MR_FAULT_ACCESS;
	if (!bytes || !table->touch ||
		table->touch((void *)(uintptr_t)address, bytes, (access & writes) != 0))
		return MR_OK;
	return MR_FAULT_PAGE;
}

/*
 * A window may be bound again during the lookup, under the same key. So the fields are valid only
 * if the whole key word, with its version, is the same before and after they are read. If the word
 * has changed, the lookup ran during a bind or an invalidation, so it may fail. A type 2 window is
 * checked by queue pair, not by protection domain, because the bind has checked that the window and
 * the queue pair have the same protection domain.
 */
static enum mr_fault window_resolve(const struct mr_table *table, const struct mr_slot *slot,
	uint32_t key, struct mr_user user, uint32_t access, uint64_t iova, uint64_t bytes,
	uint8_t **ret_pointer)
{
	uint64_t word = atomic_load_explicit(&slot->key_word, memory_order_acquire);
	uint32_t granted = atomic_load_explicit(&slot->access, memory_order_relaxed);
	uint32_t qpn = atomic_load_explicit(&slot->qpn, memory_order_relaxed);
	uint64_t start = mr_slot_get(&slot->iova);
	uint64_t limit_bytes = mr_slot_get(&slot->bytes);
	uint64_t address = mr_slot_get(&slot->address);
	bool is_mine =
		mr_slot_kind(slot) == MR_KIND_WINDOW_2 ? qpn == user.qpn : slot->pd == user.pd;

	atomic_thread_fence(memory_order_acquire);
	if ((word & MR_KEY_MASK) != (MR_KEY_IS_LIVE | key) ||
		atomic_load_explicit(&slot->key_word, memory_order_relaxed) != word)
		return MR_FAULT_KEY;
	if (!is_mine)
		return MR_FAULT_PD;
	if (!range_inside(iova, bytes, start, limit_bytes))
		return MR_FAULT_BOUNDS;
	address += iova - start;
	*ret_pointer = (uint8_t *)(uintptr_t)address;
	return (granted & access) == access ? MR_OK
					    : pages_demand(table, granted, access, address, bytes);
}

static enum mr_fault null_resolve(const struct mr_table *table, const struct mr_slot *slot,
	uint32_t pd, uint32_t access, uint8_t **ret_pointer)
{
	if (slot->pd != pd)
		return MR_FAULT_PD;
	if (access & ~(uint32_t)(MR_LOCAL_READ | MR_LOCAL_WRITE | MR_TOUCH))
		return MR_FAULT_ACCESS;
	*ret_pointer = access & MR_LOCAL_WRITE ? table->null_sink : table->null_zeros;
	return MR_OK;
}

enum mr_fault mr_resolve_for(const struct mr_table *table, uint32_t key, struct mr_user user,
	uint32_t access, uint64_t iova, uint64_t bytes, uint8_t **ret_pointer)
{
	const struct mr_slot *slot = mr_slot_find(table, key);
	enum mr_kind kind;

	if (!slot)
		return MR_FAULT_KEY;
	kind = mr_slot_kind(slot);
	if (kind == MR_KIND_NULL)
		return null_resolve(table, slot, user.pd, access, ret_pointer);
	if (kind != MR_KIND_REGION)
		return window_resolve(table, slot, key, user, access, iova, bytes, ret_pointer);
	if (slot->pd != user.pd)
		return MR_FAULT_PD;
	uint64_t start = mr_slot_get(&slot->iova);
	if (!range_inside(iova, bytes, start, mr_slot_get(&slot->bytes)))
		return MR_FAULT_BOUNDS;
	uint64_t address = mr_slot_get(&slot->address) + (iova - start);
	*ret_pointer = (uint8_t *)(uintptr_t)address;
	uint32_t granted = atomic_load_explicit(&slot->access, memory_order_relaxed);
	return (granted & access) == access ? MR_OK
					    : pages_demand(table, granted, access, address, bytes);
}

void mr_cache(const struct mr_table *table, uint32_t key, struct mr_cached *ret_cached)
{
	const struct mr_slot *slot = mr_slot_find(table, key);

	*ret_cached = (struct mr_cached){.key_word = NULL};
	if (!slot || mr_slot_kind(slot) != MR_KIND_REGION)
		return;
	*ret_cached = (struct mr_cached){
		.key_word = &slot->key_word,
		.word = atomic_load_explicit(&slot->key_word, memory_order_acquire),
		.iova = mr_slot_get(&slot->iova),
		.bytes = mr_slot_get(&slot->bytes),
		.pointer = (uint8_t *)(uintptr_t)mr_slot_get(&slot->address),
		.access = atomic_load_explicit(&slot->access, memory_order_relaxed),
	};
}

enum mr_fault mr_resolve_whole(
	const struct mr_table *table, uint32_t key, struct mr_user user, uint32_t access)
{
	const struct mr_slot *slot = mr_slot_find(table, key);
	uint8_t *pointer;

	if (!slot)
		return MR_FAULT_KEY;
	return mr_resolve_for(table, key, user, access, mr_slot_get(&slot->iova),
		mr_slot_get(&slot->bytes), &pointer);
}

const struct mr_slot *mr_region_of(const struct mr_table *table, uint32_t key)
{
	const struct mr_slot *slot = mr_slot_find(table, key);
	uint32_t index;

	if (!slot || !mr_kind_is_window(mr_slot_kind(slot)))
		return slot;
	index = slot->region_index;
	return index < table->slot_count ? &table->slots[index] : NULL;
}

/* False only if `used` is the key of another region. A window may lie in any region. */
bool mr_keys_may_meet(const struct mr_table *table, uint32_t used, uint32_t key)
{
	const struct mr_slot *slot = mr_slot_find(table, used);

	return used == key || !slot || mr_kind_is_window(mr_slot_kind(slot));
}

/* --- lookups by another process --- */

void mr_table_publish(
	const struct mr_table *table, const struct arena *arena, struct mr_public *ret_public)
{
	*ret_public = (struct mr_public){
		.slots_offset = arena_offset(arena, table->slots),
		.places_offset = arena_offset(arena, table->places),
		.permutation_offset = arena_offset(arena, table->permutation),
		.slot_count = table->slot_count,
	};
}

static bool never_there(void *address, uint64_t bytes, bool is_written)
{
	(void)address;
	(void)bytes;
	(void)is_written;
	return false;
}

int mr_table_view(
	struct mr_table *view, uint8_t *base, uint64_t bytes, const struct mr_public *where)
{
	const struct mr_public copy = *where; /* the other process may change it */
	const struct mr_public *public = &copy;
	uint64_t table_bytes = (uint64_t) public->slot_count * sizeof(struct mr_slot);
	uint64_t places_bytes = (uint64_t) public->slot_count * sizeof(struct mr_place);

	if (public->slot_count == 0 || public->slot_count > MR_SLOT_COUNT_MAX ||
		public->slots_offset % alignof(struct mr_slot) ||
		!range_inside(public->slots_offset, table_bytes, 0, bytes) ||
		public->places_offset % alignof(struct mr_place) ||
		!range_inside(public->places_offset, places_bytes, 0, bytes) ||
		public->permutation_offset % alignof(struct permutation) ||
		!range_inside(public->permutation_offset, sizeof(struct permutation), 0, bytes))
		return -EINVAL;
	*view = (struct mr_table){
		.slots = (struct mr_slot *)(void *)(base + public->slots_offset),
		.places = (struct mr_place *)(void *)(base + public->places_offset),
		.slot_count = public->slot_count,
		.permutation = (const struct permutation *)(const void *)(base +
			public->permutation_offset),
		.touch = never_there,
	};
	return 0;
}

void mr_table_place(const struct mr_table *table, uint32_t key, const struct mr_extent *extent)
{
	const struct mr_slot *slot = mr_slot_find(table, key);

	assert(slot && mr_slot_kind(slot) == MR_KIND_REGION);
	place_write(table, slot, extent);
}

bool mr_region_extent(
	const struct mr_table *table, const struct mr_slot *region, struct mr_extent *ret_extent)
{
	const struct mr_place *place = &table->places[region - table->slots];

	ret_extent->end = atomic_load_explicit(&place->end, memory_order_acquire);
	ret_extent->start = atomic_load_explicit(&place->start, memory_order_relaxed);
	ret_extent->segment = atomic_load_explicit(&place->segment, memory_order_relaxed);
	return ret_extent->start < ret_extent->end;
}

void mr_table_unmap(const struct mr_table *table, uint32_t segment)
{
	for (uint32_t i = 0; i < table->fresh_count; i++)
		if (atomic_load_explicit(&table->places[i].segment, memory_order_relaxed) ==
			segment)
			place_write(table, &table->slots[i], &nowhere);
}

bool mr_table_suspend(const struct mr_table *table)
{
	for (uint32_t i = 0; i < table->fresh_count; i++)
		if (atomic_load_explicit(&table->slots[i].key_word, memory_order_relaxed))
			atomic_fetch_or(&table->slots[i].key_word, MR_KEY_IS_SUSPENDED);
	/*
	 * No lookup finds a key now, so the key in an in-use mark does not say which memory is in
	 * use. So wait for all marks.
	 */
	return !table->quiesce || table->quiesce(0);
}

bool mr_key_is_known(const struct mr_table *table, uint32_t key)
{
	uint32_t plain = permute_back(table->permutation, key >> MR_KEY_VARIANT_BITS);
	uint32_t index = plain & (MR_SLOT_COUNT_MAX - 1);
	uint64_t word = index < table->slot_count ? atomic_load(&table->slots[index].key_word) : 0;

	return (word & MR_KEY_MASK & ~MR_KEY_IS_SUSPENDED) == (MR_KEY_IS_LIVE | key);
}

void mr_table_resume(const struct mr_table *table)
{
	for (uint32_t i = 0; i < table->fresh_count; i++) {
		struct mr_slot *slot = &table->slots[i];
		uint64_t word = atomic_load_explicit(&slot->key_word, memory_order_relaxed);

		/* `word` is current, because all lanes are locked. */
		if (word & MR_KEY_IS_SUSPENDED)
			mr_slot_publish(slot, (uint32_t)word);
	}
}

static struct mr_region region_read(const struct mr_slot *slot)
{
	return (struct mr_region){
		.pd = slot->pd,
		.access = atomic_load_explicit(&slot->access, memory_order_relaxed),
		.iova = mr_slot_get(&slot->iova),
		.bytes = mr_slot_get(&slot->bytes),
		.address = (void *)(uintptr_t)mr_slot_get(&slot->address),
	};
}

bool mr_table_find(
	const struct mr_table *table, uint32_t key, uint32_t pd, struct mr_region *ret_region)
{
	const struct mr_slot *slot = mr_slot_find(table, key);

	if (!slot || slot->pd != pd || mr_slot_kind(slot) != MR_KIND_REGION)
		return false;
	*ret_region = region_read(slot);
	return true;
}

bool mr_table_next(const struct mr_table *table, uint32_t *index, struct mr_region *ret_region)
{
	while (*index < table->fresh_count) {
		const struct mr_slot *slot = &table->slots[(*index)++];

		if (mr_slot_kind(slot) != MR_KIND_REGION)
			continue;
		*ret_region = region_read(slot);
		return true;
	}
	return false;
}

void mr_table_place_last(
	const struct mr_table *table, uint32_t index, const struct mr_extent *extent)
{
	place_write(table, &table->slots[index - 1], extent);
}

bool mr_table_overlaps(const struct mr_table *table, uint64_t address, uint64_t bytes)
{
	for (uint32_t i = 0; i < table->fresh_count; i++) {
		const struct mr_slot *slot = &table->slots[i];
		uint64_t slot_bytes = mr_slot_get(&slot->bytes);
		uint64_t slot_address = mr_slot_get(&slot->address);

		if (mr_slot_kind(slot) != MR_KIND_REGION || !slot_bytes || !bytes)
			continue;
		if (slot_address - address < bytes || address - slot_address < slot_bytes)
			return true;
	}
	return false;
}

uint32_t mr_table_count(const struct mr_table *table)
{
	return table->region_count;
}
