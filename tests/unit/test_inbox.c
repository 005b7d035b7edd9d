/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An inbox between two threads: its initiator publishes as fast as it can, its owner collects,
 * closes it at any moment, and opens it again. What the initiator was told is true: a record that
 * was published is collected, once, in its order; one that was not, never is.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "local/inbox.h"
#include "port/sim_random.h"
#include "support/arena_memory.h"

enum { INBOX_BYTES = 1 << 16, GENERATIONS = 400, RECORDS_MAX = 600 };

static struct inbox *inbox;
static _Atomic uint32_t told[2 * GENERATIONS + 2]; /* published, by generation */
static _Atomic bool is_over;

/* Publish in this generation until it ends. */
static void publish_all(uint32_t generation)
{
	uint32_t collected_seen = 0;

	while (!atomic_load(&is_over)) {
		struct inbox_record record = {
			.wr_id = inbox_sequence(generation, inbox_count(inbox))};
		bool is_published;

		if (!inbox_has_room(inbox, &collected_seen)) {
			if (inbox_generation(inbox) != generation)
				return;
			continue;
		}
		if (!inbox_enter(inbox, generation, INBOX_PUBLISHES))
			return;
		is_published = inbox_publish(inbox, generation, &record);
		if (is_published)
			atomic_fetch_add(&told[generation], 1);
		inbox_leave(inbox);
		if (!is_published)
			return;
	}
}

static void *initiator(void *unused)
{
	(void)unused;
	while (!atomic_load(&is_over)) {
		uint32_t generation = inbox_generation(inbox);

		if (inbox_generation_is_open(generation))
			publish_all(generation);
	}
	return NULL;
}

/* Collect what there is, at most `limit`; `count` were before. Returns how many there are then. */
static uint32_t collect(uint32_t generation, uint32_t count, uint32_t limit)
{
	const struct inbox_record *record;

	while (count < limit && (record = inbox_next(inbox))) {
		assert_int_equal(record->wr_id, inbox_sequence(generation, count));
		inbox_collected(inbox);
		count++;
	}
	return count;
}

static void what_was_published_is_collected_and_nothing_else(void **state)
{
	struct sim_random random = {5};
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, initiator, NULL), 0);
	for (uint32_t round = 0; round < GENERATIONS; round++) {
		uint32_t limit = (uint32_t)sim_random_below(&random, RECORDS_MAX);
		uint32_t count = 0;

		inbox_open(inbox);
		uint32_t generation = inbox_generation(inbox);
		while (count < limit)
			count = collect(generation, count, limit);
		/* Whoever is in it now publishes nothing any more, however long he stays. */
		inbox_close(inbox);
		count = collect(generation, count, UINT32_MAX);
		while (atomic_load(&inbox->in_use) != INBOX_IS_FREE)
			;
		assert_int_equal(count, atomic_load(&told[generation]));
	}
	atomic_store(&is_over, true);
	pthread_join(thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_published_is_collected_and_nothing_else),
	};

	inbox = arena_peers_side(arena_memory_new(INBOX_BYTES));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
