/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/mr.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"

static_assert(sizeof(struct mr_slot) == 64, "a slot is a cache line");

enum { KEY_VARIANT_BITS = 8, KEY_SLOT_BITS = 16 };

static const uint64_t key_is_live = 1ull << 32;

static uint32_t key_make(
	const struct mr_table *table, uint32_t index, uint8_t generation, uint8_t variant)
{
	uint32_t plain = index | (uint32_t)generation << KEY_SLOT_BITS;

	return permute_forward(&table->permutation, plain) << KEY_VARIANT_BITS | variant;
}

/*
 * The slot a key names, or NULL. A key that was made up names some slot, whose key_word then does
 * not match.
 */
static struct mr_slot *slot_find(const struct mr_table *table, uint32_t key)
{
	uint32_t plain = permute_back(&table->permutation, key >> KEY_VARIANT_BITS);
	uint32_t index = plain & (MR_SLOT_COUNT_MAX - 1);

	if (index >= table->slot_count)
		return NULL;
	struct mr_slot *slot = &table->slots[index];
	if (atomic_load_explicit(&slot->key_word, memory_order_acquire) != (key_is_live | key))
		return NULL;
	return slot;
}

int mr_table_init(struct mr_table *table, struct arena *arena, uint32_t slot_count,
	uint64_t secret_a, uint64_t secret_b)
{
	assert(slot_count > 0 && slot_count <= MR_SLOT_COUNT_MAX);
	memset(table, 0, sizeof(*table));
	uint64_t offset = arena_alloc(arena, slot_count * sizeof(struct mr_slot));
	if (!offset)
		return -ENOMEM;
	table->free_ring = calloc(slot_count, sizeof(uint32_t));
	if (!table->free_ring) {
		arena_free(arena, offset, slot_count * sizeof(struct mr_slot));
		return -ENOMEM;
	}
	table->slots = arena_at(arena, offset);
	table->slot_count = slot_count;
	permutation_init(&table->permutation, secret_a, secret_b);
	return 0;
}

void mr_table_done(struct mr_table *table)
{
	free(table->free_ring);
	memset(table, 0, sizeof(*table));
}

/* Never-used slots first, then the one that has been free longest. */
static bool slot_take(struct mr_table *table, uint32_t *ret_index)
{
	if (table->fresh_count < table->slot_count) {
		*ret_index = table->fresh_count++;
		return true;
	}
	if (!table->free_count)
		return false;
	*ret_index = table->free_ring[table->free_head];
	table->free_head = (table->free_head + 1) % table->slot_count;
	table->free_count--;
	return true;
}

int mr_table_add(
	struct mr_table *table, const struct mr_region *region, uint8_t variant, uint32_t *ret_key)
{
	uint64_t address = (uint64_t)(uintptr_t)region->address;
	uint32_t needs_local_write = MR_REMOTE_WRITE | MR_REMOTE_ATOMIC;
	uint32_t index;

	if (region->bytes &&
		(region->iova + (region->bytes - 1) < region->iova ||
			address + (region->bytes - 1) < address))
		return -EINVAL;
	if ((region->access & needs_local_write) && !(region->access & MR_LOCAL_WRITE))
		return -EINVAL;
	if (!slot_take(table, &index))
		return -ENOMEM;

	struct mr_slot *slot = &table->slots[index];
	uint32_t key = key_make(table, index, slot->generation, variant);
	slot->pd = region->pd;
	slot->access = region->access;
	slot->iova = region->iova;
	slot->bytes = region->bytes;
	slot->address = address;
	atomic_store_explicit(&slot->key_word, key_is_live | key, memory_order_release);
	*ret_key = key;
	return 0;
}

bool mr_table_remove(struct mr_table *table, uint32_t key, uint32_t pd)
{
	struct mr_slot *slot = slot_find(table, key);

	if (!slot || slot->pd != pd)
		return false;
	atomic_store_explicit(&slot->key_word, 0, memory_order_release);
	slot->generation++;
	table->free_ring[(table->free_head + table->free_count) % table->slot_count] =
		(uint32_t)(slot - table->slots);
	table->free_count++;
	return true;
}

enum mr_fault mr_resolve(const struct mr_table *table, uint32_t key, uint32_t pd, uint32_t access,
	uint64_t iova, uint64_t bytes, uint8_t **ret_pointer)
{
	const struct mr_slot *slot = slot_find(table, key);

	if (!slot)
		return MR_FAULT_KEY;
	if (slot->pd != pd)
		return MR_FAULT_PD;
	if ((slot->access & access) != access)
		return MR_FAULT_ACCESS;
	if (!range_inside(iova, bytes, slot->iova, slot->bytes))
		return MR_FAULT_BOUNDS;
	*ret_pointer = (uint8_t *)(uintptr_t)(slot->address + (iova - slot->iova));
	return MR_OK;
}

uint32_t mr_table_count(const struct mr_table *table)
{
	return table->fresh_count - table->free_count;
}
