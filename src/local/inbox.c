/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/inbox.h"

#include <assert.h>

static_assert(sizeof(struct inbox_record) == 64, "a cache line each");

/* The sequence of a record that nobody will publish. No generation that is open has it. */
#define CLOSED inbox_sequence(0, 0)

void inbox_open(struct inbox *inbox)
{
	struct inbox_private *private = inbox_private(inbox);
	uint32_t generation = private->generation + 1;

	assert(inbox_generation_is_open(generation));
	*private = (struct inbox_private){.generation = generation};
	atomic_store_explicit(&inbox->collected, 0, memory_order_relaxed);
	atomic_store_explicit(&inbox->count, 0, memory_order_relaxed);
	for (uint32_t i = 0; i < INBOX_RECORD_COUNT; i++)
		atomic_store_explicit(&inbox->record[i].sequence,
			inbox_sequence(generation, i - INBOX_RECORD_COUNT), memory_order_relaxed);
	atomic_store_explicit(&inbox->generation, generation, memory_order_release);
}

/* The first record that was not published yet never will be, nor those behind it. */
static void records_close(struct inbox *inbox, uint32_t generation)
{
	uint32_t first = inbox_private(inbox)->collected;

	for (uint32_t number = first; number - first < INBOX_RECORD_COUNT; number++) {
		uint64_t empty = inbox_sequence(generation, number - INBOX_RECORD_COUNT);

		if (atomic_compare_exchange_strong(
			    &inbox_record_at(inbox, number)->sequence, &empty, CLOSED))
			return;
	}
}

void inbox_close(struct inbox *inbox)
{
	struct inbox_private *private = inbox_private(inbox);
	uint32_t generation = private->generation;

	if (!inbox_generation_is_open(generation))
		return;
	private->generation = generation + 1;
	atomic_store(&inbox->generation, generation + 1);
	records_close(inbox, generation);
}

bool inbox_mark_meets(const _Atomic uint64_t *in_use, const struct mr_table *mrs, uint32_t key,
	uint64_t *ret_mark)
{
	uint64_t mark = atomic_load(in_use);

	*ret_mark = mark;
	return (mark & INBOX_USES_KEY) && mr_keys_may_meet(mrs, (uint32_t)mark, key);
}

enum {
	CLOCKLESS_ROUNDS =
		200, /* of a wait: it spins, and no mark of a process that runs lasts longer */
	REVOKE_ATTEMPTS_MAX = 16,
};

bool inbox_is_late(uint32_t round, const struct inbox_patience *patience)
{
	return round >= CLOCKLESS_ROUNDS && patience->now_ns() >= patience->until_ns;
}

bool inbox_revoke(_Atomic uint64_t *in_use, const struct mr_table *mrs, uint32_t key)
{
	uint64_t mark;

	for (uint32_t attempt = 0; attempt < REVOKE_ATTEMPTS_MAX; attempt++) {
		if (!inbox_mark_meets(in_use, mrs, key, &mark))
			return true;
		if (atomic_compare_exchange_strong(in_use, &mark, mark | INBOX_IS_REVOKED))
			return false;
	}
	return false;
}

const struct inbox_record *inbox_next(const struct inbox *inbox)
{
	uint32_t generation = inbox_private(inbox)->generation;
	uint32_t number = inbox_private(inbox)->collected;
	const struct inbox_record *record = &inbox->record[number % INBOX_RECORD_COUNT];

	generation -= !inbox_generation_is_open(generation);
	return atomic_load_explicit(&record->sequence, memory_order_acquire) ==
			inbox_sequence(generation, number)
		? record
		: NULL;
}

void inbox_collected(struct inbox *inbox)
{
	uint32_t collected = ++inbox_private(inbox)->collected;

	atomic_store_explicit(&inbox->collected, collected, memory_order_release);
}

bool inbox_remark(struct inbox *inbox, uint32_t generation, uint64_t mark)
{
	atomic_store(&inbox->in_use, mark);
	return inbox_is_entered(inbox, generation);
}
