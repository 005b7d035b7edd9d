/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A channel between two threads: its initiator publishes as fast as it can, its owner collects,
 * closes it at any moment, and opens it again. The result of a publication is right: a published
 * record is collected once and in order, and a refused record is never collected. And which pages
 * of the ring a connection touches.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "local/channel/channel.h"
#include "support/arena_memory.h"
#include "support/sim_random.h"

enum {
	RING_BYTES = 1 << 16, /* whole pages of any size */
	MEMORY_BYTES = 2 * RING_BYTES,
	GENERATIONS = 400,
	RECORDS_MAX = 600,
};

static struct request_channel *channel;
static struct channel_ring *ring;
static _Atomic uint32_t told[2 * GENERATIONS + 20]; /* published, by generation */
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
		is_published = channel_publish(channel, ring, generation, &record);
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

	while (count < limit && (record = channel_next(channel, ring))) {
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

		channel_open(channel, ring);
		uint32_t generation = channel_generation(channel);
		while (count < limit)
			count = collect(generation, count, limit);
		/*
		 * Once the channel is closed, the initiator publishes nothing, however long it
		 * keeps its mark.
		 */
		channel_close(channel, ring);
		count = collect(generation, count, UINT32_MAX);
		while (atomic_load(&channel->in_use) != CHANNEL_IS_FREE)
			;
		assert_int_equal(count, atomic_load(&told[generation]));
	}
	atomic_store(&is_over, true);
	pthread_join(thread, NULL);
}

/* Only the initiator's first record touches the ring: an idle connection takes no memory for it. */
static void ring_without_a_record_is_not_touched(void **state)
{
	(void)state;
	assert_int_equal(mprotect(ring, RING_BYTES, PROT_NONE), 0);
	for (uint32_t round = 0; round < 3; round++) {
		channel_open(channel, ring);
		uint32_t generation = channel_generation(channel);

		assert_null(channel_next(channel, ring));
		assert_true(channel_enter(channel, generation, CHANNEL_USES_KEY));
		channel_leave(channel);
		channel_close(channel, ring);
		assert_null(channel_next(channel, ring));
	}
	assert_int_equal(mprotect(ring, RING_BYTES, PROT_READ | PROT_WRITE), 0);
}

/* The next connection of a channel touches as much of the ring as the ones before have used. */
static void ring_is_renewed_as_far_as_it_was_used(void **state)
{
	static const struct channel_record record;

	(void)state;
	for (uint32_t round = 0; round < 3; round++) {
		channel_open(channel, ring);
		uint32_t generation = channel_generation(channel);

		for (uint32_t i = 0; i < 2 + round; i++) {
			assert_true(channel_enter(channel, generation, CHANNEL_PUBLISHES));
			assert_true(channel_publish(channel, ring, generation, &record));
			channel_leave(channel);
			assert_non_null(channel_next(channel, ring));
			channel_collected(channel);
		}
		channel_close(channel, ring);
		/* The records, and the place that was closed */
		for (uint32_t i = 0; i < CHANNEL_RECORD_COUNT; i++)
			assert_int_equal(ring->record[i].sequence != 0, i < 3 + round);
	}
}

/* An invalid record may have neighbours that no initiator has published. */
static void ring_with_an_invalid_record_is_renewed_throughout(void **state)
{
	(void)state;
	channel_open(channel, ring);
	channel_begin_records(channel);
	assert_null(channel_next(channel, ring));
	atomic_store(&ring->record[CHANNEL_RECORD_COUNT - 1].sequence, 77);
	channel_distrust(channel);
	channel_close(channel, ring);
	channel_open(channel, ring);
	for (uint32_t i = 0; i < CHANNEL_RECORD_COUNT; i++)
		assert_int_equal(ring->record[i].sequence,
			channel_sequence(channel_generation(channel), i - CHANNEL_RECORD_COUNT));
	channel_close(channel, ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ring_without_a_record_is_not_touched),
		cmocka_unit_test(ring_is_renewed_as_far_as_it_was_used),
		cmocka_unit_test(ring_with_an_invalid_record_is_renewed_throughout),
		cmocka_unit_test(what_was_published_is_collected_and_nothing_else),
	};

	channel = arena_peers_side(arena_memory_new(MEMORY_BYTES));
	ring = (void *)((uint8_t *)channel + RING_BYTES);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
