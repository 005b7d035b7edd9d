/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A channel between two threads: its initiator publishes as fast as it can, its owner collects,
 * closes it at any moment, and opens it again. The result of a publication is right: a published
 * record is collected once and in order, and a refused record is never collected.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "local/channel/channel.h"
#include "support/arena_memory.h"
#include "support/sim_random.h"

enum { CHANNEL_BYTES = 1 << 16, GENERATIONS = 400, RECORDS_MAX = 600 };

static struct request_channel *channel;
static _Atomic uint32_t told[2 * GENERATIONS + 2]; /* published, by generation */
static _Atomic bool is_over;

/* Publish in this generation until it ends. */
static void publish_all(uint32_t generation)
{
	uint32_t collected_seen = 0;

	while (!atomic_load(&is_over)) {
		struct channel_record record = {
			.wr_id = channel_sequence(generation, channel_count(channel))};
		bool is_published;

		if (!channel_has_room(channel, &collected_seen)) {
			if (channel_generation(channel) != generation)
				return;
			continue;
		}
		if (!channel_enter(channel, generation, CHANNEL_PUBLISHES))
			return;
		is_published = channel_publish(channel, generation, &record);
		if (is_published)
			atomic_fetch_add(&told[generation], 1);
		channel_leave(channel);
		if (!is_published)
			return;
	}
}

static void *initiator(void *unused)
{
	(void)unused;
	while (!atomic_load(&is_over)) {
		uint32_t generation = channel_generation(channel);

		if (channel_generation_is_open(generation))
			publish_all(generation);
	}
	return NULL;
}

/* Collect what there is, at most `limit`; `count` were before. Returns how many there are then. */
static uint32_t collect(uint32_t generation, uint32_t count, uint32_t limit)
{
	const struct channel_record *record;

	while (count < limit && (record = channel_next(channel))) {
		assert_int_equal(record->wr_id, channel_sequence(generation, count));
		channel_collected(channel);
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

		channel_open(channel);
		uint32_t generation = channel_generation(channel);
		while (count < limit)
			count = collect(generation, count, limit);
		/*
		 * Once the channel is closed, the initiator publishes nothing, however long it
		 * keeps its mark.
		 */
		channel_close(channel);
		count = collect(generation, count, UINT32_MAX);
		while (atomic_load(&channel->in_use) != CHANNEL_IS_FREE)
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

	channel = arena_peers_side(arena_memory_new(CHANNEL_BYTES));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
