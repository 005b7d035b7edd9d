/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "base/record_ring.h"

static struct record_ring *ring;
static uint8_t out[RECORD_BYTES_MAX];

static int setup(void **state)
{
	(void)state;
	ring = aligned_alloc(64, sizeof(*ring));
	assert_non_null(ring);
	memset(ring, 0, sizeof(*ring));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(ring);
	return 0;
}

static bool put(uint32_t count, uint8_t value)
{
	uint8_t bytes[RECORD_BYTES_MAX];
	const struct record_piece pieces[] = {{bytes, count / 3}, {bytes, count - count / 3}};

	memset(bytes, value, count);
	return record_ring_put(ring, pieces, 2);
}

static void assert_takes(uint32_t count, uint8_t value)
{
	assert_int_equal(record_ring_take(ring, out), count);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(out[i], value);
}

static void records_come_out_in_order(void **state)
{
	(void)state;
	assert_int_equal(record_ring_take(ring, out), 0);
	assert_true(put(1, 7));
	assert_true(put(RECORD_BYTES_MAX, 8));
	assert_true(put(100, 9));
	assert_takes(1, 7);
	assert_takes(RECORD_BYTES_MAX, 8);
	assert_takes(100, 9);
	assert_int_equal(record_ring_take(ring, out), 0);
}

/* Lengths of all kinds, several times round. */
static void records_are_whole_where_the_ring_begins_again(void **state)
{
	uint32_t written = 0, taken = 0;

	(void)state;
	while (written < 20000) {
		uint32_t ahead = 1 + written * 7u % 900;

		for (uint32_t i = 0; i < ahead; i++, written++)
			assert_true(put(1 + written * 37u % 8000, (uint8_t)written));
		for (; taken < written; taken++)
			assert_takes(1 + taken * 37u % 8000, (uint8_t)taken);
	}
	assert_true(atomic_load(&ring->written) > 4ull * RECORD_RING_BYTES);
	assert_int_equal(atomic_load(&ring->dropped), 0);
}

/* Once around: a record that would not be in one piece has no place, and put() takes it. */
static void record_is_written_at_its_place(void **state)
{
	uint32_t places = 0, puts = 0;

	(void)state;
	for (uint64_t bytes = 0; bytes < RECORD_RING_BYTES + 5000; bytes += 5008) {
		uint8_t *place = record_ring_place(ring, 5000);

		if (place) {
			assert_true(place >= ring->bytes &&
				place + 5000 <= ring->bytes + RECORD_RING_BYTES);
			assert_int_equal((uintptr_t)place % 8, 0);
			memset(place, 5, 4999);
			record_ring_commit(ring, place, 4999);
			places++;
		} else {
			assert_true(put(4999, 5));
			puts++;
		}
		assert_takes(4999, 5);
	}
	assert_true(places > 1000);
	assert_int_equal(puts, 1);
	assert_int_equal(atomic_load(&ring->dropped), 0);
	while (put(RECORD_BYTES_MAX, 1))
		;
	assert_null(record_ring_place(ring, RECORD_BYTES_MAX));
	assert_int_equal(atomic_load(&ring->dropped), 1);
}

/* The reader moves the records that were there when it looked, over the end of the ring. */
static void moved_records_are_those_that_were_there(void **state)
{
	static uint8_t moved[2 * RECORD_BYTES_MAX];
	const uint8_t *record;
	uint64_t bytes;
	uint32_t count;

	(void)state;
	while (atomic_load(&ring->written) < RECORD_RING_BYTES - 100) {
		assert_true(put(1000, 1));
		assert_takes(1000, 1);
	}
	assert_true(put(101, 1));
	assert_true(put(200, 2));
	bytes = record_ring_written(ring) - atomic_load(&ring->read);
	assert_true(put(300, 3));
	assert_true(record_ring_move(ring, bytes, moved));
	record = record_first(moved, bytes, &count);
	assert_int_equal(count, 101);
	assert_true(record[0] == 1 && record[100] == 1);
	bytes -= record_room(101);
	record = record_first(moved + record_room(101), bytes, &count);
	assert_int_equal(count, 200);
	assert_true(record[0] == 2 && record[199] == 2);
	assert_null(record_first(moved, record_room(101) - 1, &count));
	assert_takes(300, 3);
}

static void impossible_move_empties_the_ring(void **state)
{
	(void)state;
	atomic_store(&ring->written, RECORD_RING_BYTES + 1);
	assert_false(record_ring_move(ring, RECORD_RING_BYTES + 1, out));
	assert_true(record_ring_is_empty(ring));
}

static void what_finds_no_room_is_dropped_and_counted(void **state)
{
	uint32_t count = 0;

	(void)state;
	while (put(4000, (uint8_t)count))
		count++;
	assert_int_equal(count, RECORD_RING_BYTES / 4008);
	assert_false(put(4000, 1));
	assert_int_equal(atomic_load(&ring->dropped), 2);
	for (uint32_t i = 0; i < count; i++)
		assert_takes(4000, (uint8_t)i);
	assert_true(put(4000, 5));
	assert_takes(4000, 5);
}

static void index_that_makes_no_sense_is_a_full_ring(void **state)
{
	(void)state;
	while (put(10, 1))
		continue;
	atomic_store(&ring->read, atomic_load(&ring->written) + 8);
	assert_false(put(10, 1));
	atomic_store(&ring->read, UINT64_MAX - RECORD_RING_BYTES);
	assert_false(put(10, 1));
}

/* A record that would cost time to make is dropped before, when the ring has no room for any. */
static void writer_is_told_before_that_there_is_no_room(void **state)
{
	(void)state;
	assert_false(record_ring_drops(ring, 3));
	while (!record_ring_drops(ring, 3))
		assert_true(put(4000, 1));
	assert_int_equal(atomic_load(&ring->dropped), 3);
	assert_takes(4000, 1);
	assert_takes(4000, 1);
	assert_takes(4000, 1);
	assert_false(record_ring_drops(ring, 3));
}

static void assert_is_thrown_away(void)
{
	assert_int_equal(record_ring_take(ring, out), -EPROTO);
	assert_int_equal(record_ring_take(ring, out), 0);
	assert_true(put(10, 3));
	assert_takes(10, 3);
}

static void writer_that_breaks_the_rules_loses_what_is_there(void **state)
{
	uint32_t head[2];

	(void)state;
	put(100, 1);
	put(100, 2);
	memset(ring->bytes, 0, 8); /* a page that was discarded */
	assert_is_thrown_away();

	atomic_store(&ring->written, atomic_load(&ring->written) + RECORD_RING_BYTES + 8);
	assert_is_thrown_away();

	atomic_store(&ring->written, atomic_load(&ring->written) + 4);
	assert_int_equal(record_ring_take(ring, out), -EPROTO);

	/* Lengths that are too long: for a record, and for what is there. */
	for (uint32_t count = 101; count < 1u << 31; count *= 2) {
		atomic_store(&ring->written, 0);
		atomic_store(&ring->read, 0);
		put(96, 1);
		head[0] = count;
		head[1] = ~count;
		memcpy(ring->bytes, head, sizeof(head));
		assert_int_equal(record_ring_take(ring, out), -EPROTO);
	}
}

static void staged_records_become_visible_together(void **state)
{
	const struct record_piece piece = {"two records", 11};
	uint64_t at = atomic_load(&ring->written);

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		assert_true(record_ring_stage_sized(ring, RECORD_RING_BYTES, &at, &piece, 1));
		assert_true(record_ring_is_empty(ring));
	}
	record_ring_publish(ring, at);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(record_ring_take(ring, out), 11);
		assert_memory_equal(out, piece.bytes, 11);
	}
	assert_int_equal(record_ring_take(ring, out), 0);
	/* What is staged takes room. */
	while (record_ring_stage_sized(ring, RECORD_RING_BYTES, &at, &piece, 1))
		;
	assert_true(at - atomic_load(&ring->written) <= RECORD_RING_BYTES);
	assert_int_equal(atomic_load(&ring->dropped), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(records_come_out_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(record_is_written_at_its_place, setup, teardown),
		cmocka_unit_test_setup_teardown(
			records_are_whole_where_the_ring_begins_again, setup, teardown),
		cmocka_unit_test_setup_teardown(
			moved_records_are_those_that_were_there, setup, teardown),
		cmocka_unit_test_setup_teardown(impossible_move_empties_the_ring, setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_finds_no_room_is_dropped_and_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(
			index_that_makes_no_sense_is_a_full_ring, setup, teardown),
		cmocka_unit_test_setup_teardown(
			writer_is_told_before_that_there_is_no_room, setup, teardown),
		cmocka_unit_test_setup_teardown(
			staged_records_become_visible_together, setup, teardown),
		cmocka_unit_test_setup_teardown(
			writer_that_breaks_the_rules_loses_what_is_there, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
