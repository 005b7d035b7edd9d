/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/table.h"

#include "check/check.h"

enum { FIRST_BITS = 8 };

static struct table_slot *slot_for(struct table_slots *slots, uint64_t key)
{
	for (uint32_t i = table_index(slots, key);; i++) {
		struct table_slot *slot = &slots->slots[i & ((1u << slots->bits) - 1)];

		if (slot->key == key || slot->key == 0)
			return slot;
	}
}

static void slot_set(struct table_slots *slots, uint64_t key, void *value)
{
	struct table_slot *slot = slot_for(slots, key);

	if (slot->key == 0)
		slots->count++;
	atomic_store_explicit(&slot->value, value, memory_order_release);
	atomic_store_explicit(&slot->key, key, memory_order_release);
}

/* Make a table with room for twice as many entries, and copy the entries that have a value. */
static struct table_slots *slots_grow(struct table_slots *before)
{
	uint32_t bits = FIRST_BITS, live = 0;
	struct table_slots *grown;

	for (uint32_t i = 0; before && i < 1u << before->bits; i++)
		live += before->slots[i].value != NULL;
	while (live * 4 > 1u << bits)
		bits++;
	grown = check_allocate(sizeof(*grown) + (sizeof(grown->slots[0]) << bits));
	if (!grown)
		return NULL;
	grown->bits = bits;
	for (uint32_t i = 0; before && i < 1u << before->bits; i++)
		if (before->slots[i].value)
			slot_set(grown, before->slots[i].key, before->slots[i].value);
	return grown;
}

void table_set(struct table *table, uint64_t key, void *value)
{
	struct table_slots *slots = table->slots;

	if (!slots || slots->count * 2 >= 1u << slots->bits) {
		struct table_slots *grown = slots_grow(slots);

		if (!grown)
			return;
		atomic_store_explicit(&table->slots, grown, memory_order_release);
		slots = grown;
	}
	slot_set(slots, key, value);
}

void *table_next(struct table *table, uint32_t *i)
{
	struct table_slots *slots = table->slots;

	while (slots && *i < 1u << slots->bits) {
		void *value = slots->slots[(*i)++].value;

		if (value)
			return value;
	}
	return NULL;
}
