/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A map from 64-bit keys, which are not 0, to pointers. Any thread may look up a key without a
 * lock; additions need check_lock. When a table grows, its old memory is not freed, because threads
 * may still read it.
 */
#ifndef URNIC_CHECK_TABLE_H
#define URNIC_CHECK_TABLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct table_slot {
	_Atomic uint64_t key;
	_Atomic(void *) value;
};

struct table_slots {
	uint32_t bits; /* there are 2^bits slots */
	uint32_t count;
	struct table_slot slots[];
};

struct table {
	_Atomic(struct table_slots *) slots;
};

static inline uint32_t table_index(const struct table_slots *slots, uint64_t key)
{
	return (uint32_t)((key * 0x9e3779b97f4a7c15u) >> (64 - slots->bits));
}

/* The value of `key`; NULL if there is none. */
static inline void *table_find(struct table *table, uint64_t key)
{
	struct table_slots *slots = atomic_load_explicit(&table->slots, memory_order_acquire);

	if (!slots)
		return NULL;
	for (uint32_t i = table_index(slots, key);; i++) {
		struct table_slot *slot = &slots->slots[i & ((1u << slots->bits) - 1)];
		uint64_t found = atomic_load_explicit(&slot->key, memory_order_acquire);

		if (found == key)
			return atomic_load_explicit(&slot->value, memory_order_acquire);
		if (!found)
			return NULL;
	}
}

/*
 * Set the value of `key`; NULL removes it. check_lock is locked. If there is no memory, nothing
 * changes.
 */
void table_set(struct table *table, uint64_t key, void *value);

/* The next value, for a loop that starts with *i at 0; NULL after the last one. */
void *table_next(struct table *table, uint32_t *i);

#endif
