/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/inbox.h"

#include <assert.h>

static_assert(sizeof(struct inbox_record) == 64, "a cache line each");
static_assert(sizeof(struct inbox_bell) == 64, "a cache line of its own");

void inbox_open(struct inbox *inbox)
{
	uint64_t published = atomic_load_explicit(&inbox->published, memory_order_relaxed);
	uint32_t generation = inbox_generation(published);

	assert(!inbox_generation_is_open(generation));
	atomic_store_explicit(&inbox->collected, 0, memory_order_relaxed);
	atomic_store_explicit(
		&inbox->published, (uint64_t)(generation + 1) << 32, memory_order_release);
}

void inbox_close(struct inbox *inbox)
{
	uint64_t published = atomic_load_explicit(&inbox->published, memory_order_relaxed);

	while (inbox_generation_is_open(inbox_generation(published)))
		if (atomic_compare_exchange_weak(
			    &inbox->published, &published, published + (1ull << 32)))
			break;
}

const struct inbox_record *inbox_next(const struct inbox *inbox)
{
	uint32_t count = (uint32_t)atomic_load_explicit(&inbox->published, memory_order_acquire);
	uint32_t collected = atomic_load_explicit(&inbox->collected, memory_order_relaxed);

	return count == collected ? NULL : &inbox->record[collected % INBOX_RECORD_COUNT];
}

void inbox_collected(struct inbox *inbox)
{
	uint32_t collected = atomic_load_explicit(&inbox->collected, memory_order_relaxed);

	atomic_store_explicit(&inbox->collected, collected + 1, memory_order_release);
}

bool inbox_enter(struct inbox *inbox, uint32_t generation, uint64_t mark)
{
	uint64_t expected = INBOX_IS_FREE;

	/* Sequentially consistent: the mark is seen, or what it is to be seen before has happened. */
	if (!atomic_compare_exchange_strong(&inbox->in_use, &expected, mark))
		return false;
	if (inbox_generation(atomic_load(&inbox->published)) == generation)
		return true;
	inbox_leave(inbox);
	return false;
}

void inbox_leave(struct inbox *inbox)
{
	atomic_store_explicit(&inbox->in_use, INBOX_IS_FREE, memory_order_release);
}

bool inbox_publish(struct inbox *inbox, uint32_t generation, const struct inbox_record *record)
{
	uint64_t published = atomic_load_explicit(&inbox->published, memory_order_relaxed);

	if (inbox_generation(published) != generation)
		return false;
	inbox->record[(uint32_t)published % INBOX_RECORD_COUNT] = *record;
	/* The count is the low half: it must not carry into the generation. */
	return atomic_compare_exchange_strong(&inbox->published, &published,
		(published & ~(uint64_t)UINT32_MAX) | (uint32_t)(published + 1));
}

void inbox_ring(struct inbox *inbox, struct inbox_bell *bell, uint64_t offset)
{
	uint64_t first;

	if (atomic_exchange(&inbox->is_rung, 1))
		return;
	first = atomic_load_explicit(&bell->first_offset, memory_order_relaxed);
	do {
		inbox->next_offset = first;
	} while (!atomic_compare_exchange_weak(&bell->first_offset, &first, offset));
}
