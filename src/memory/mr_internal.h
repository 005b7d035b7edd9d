/* SPDX-License-Identifier: BSD-2-Clause */
/* The slots of struct mr_table, which regions and windows share. Only mr.c and mw.c use this. */
#ifndef URNIC_MEMORY_MR_INTERNAL_H
#define URNIC_MEMORY_MR_INTERNAL_H

#include "memory/mr.h"

enum { MR_KEY_VARIANT_BITS = 8, MR_KEY_SLOT_BITS = 16 };

#define MR_KEY_IS_LIVE      (1ull << 32)
#define MR_KEY_IS_SUSPENDED (1ull << 33)

enum { MR_KEY_VERSION_SHIFT = 34 };

#define MR_KEY_MASK ((1ull << MR_KEY_VERSION_SHIFT) - 1)

/*
 * Take a free slot as `kind`. Lookups find it after mr_slot_publish(). Returns NULL when no slot is
 * free, or the table has as many regions or windows as it may.
 */
struct mr_slot *mr_slot_take(struct mr_table *table, uint32_t pd, enum mr_kind kind);

/* Free the slot. The keys of its next 255 uses differ from the keys of this use. */
void mr_slot_free(struct mr_table *table, struct mr_slot *slot);

/* The key of a slot for one of its 256 variants. */
uint32_t mr_slot_key(const struct mr_table *table, const struct mr_slot *slot, uint8_t variant);

/* A key word that the slot never had before. The caller serializes calls for one slot. */
static inline uint64_t mr_slot_word(struct mr_slot *slot, uint32_t key)
{
	uint64_t version = atomic_load_explicit(&slot->version, memory_order_relaxed) + 1;

	atomic_store_explicit(&slot->version, (uint32_t)version, memory_order_relaxed);
	return version << MR_KEY_VERSION_SHIFT | MR_KEY_IS_LIVE | key;
}

/* From now on, lookups of `key` find the slot. */
static inline void mr_slot_publish(struct mr_slot *slot, uint32_t key)
{
	atomic_store_explicit(&slot->key_word, mr_slot_word(slot, key), memory_order_release);
}

static inline bool mr_slot_has_key(const struct mr_slot *slot, uint32_t key, memory_order order)
{
	return (atomic_load_explicit(&slot->key_word, order) & MR_KEY_MASK) ==
		(MR_KEY_IS_LIVE | key);
}

/* The slot whose key is `key` now, or NULL. The slot that a wrong key leads to has another key. */
static inline struct mr_slot *mr_slot_find(const struct mr_table *table, uint32_t key)
{
	uint32_t plain = permute_back(table->permutation, key >> MR_KEY_VARIANT_BITS);
	uint32_t index = plain & (MR_SLOT_COUNT_MAX - 1);

	if (index >= table->slot_count)
		return NULL;
	struct mr_slot *slot = &table->slots[index];
	return mr_slot_has_key(slot, key, memory_order_acquire) ? slot : NULL;
}

static inline enum mr_kind mr_slot_kind(const struct mr_slot *slot)
{
	return (enum mr_kind)atomic_load_explicit(&slot->kind, memory_order_acquire);
}

static inline bool mr_kind_is_window(enum mr_kind kind)
{
	return kind == MR_KIND_WINDOW_1 || kind == MR_KIND_WINDOW_2;
}

/* Read a field. If the slot is a window, another lane may be changing the field. */
static inline uint64_t mr_slot_get(const _Atomic uint64_t *field)
{
	return atomic_load_explicit(field, memory_order_relaxed);
}

static inline void mr_slot_set(
	struct mr_slot *slot, uint32_t access, uint64_t iova, uint64_t bytes, uint64_t address)
{
	atomic_store_explicit(&slot->access, access, memory_order_relaxed);
	atomic_store_explicit(&slot->iova, iova, memory_order_relaxed);
	atomic_store_explicit(&slot->bytes, bytes, memory_order_relaxed);
	atomic_store_explicit(&slot->address, address, memory_order_relaxed);
}

#endif
