/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "memory/copy.h"
#include "support/permutation.h"
#include "support/sim_random.h"

enum { ARENA_BYTES = 1 << 19, PD = 4, BYTES = 4096, SGE_COUNT = 5 };

static _Alignas(64) uint8_t arena_memory[ARENA_BYTES];
static uint8_t memory[BYTES];
static struct arena arena;
static struct mr_table table;
static uint32_t key;

static int setup(void **state)
{
	struct mr_region region = {PD, MR_LOCAL_WRITE, (uintptr_t)memory, BYTES, memory};

	(void)state;
	memset(arena_memory, 0, sizeof(arena_memory));
	arena_init(&arena, arena_memory, sizeof(arena_memory));
	assert_int_equal(mr_table_init(&table, &arena, 4, test_permutation(1)), 0);
	assert_int_equal(mr_table_add(&table, &region, 0, &key), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mr_table_done(&table);
	return 0;
}

static struct sge sge_of(uint32_t offset, uint32_t bytes)
{
	return (struct sge){(uintptr_t)memory + offset, bytes, key};
}

static void any_length_is_copied_exactly(place_fn *place)
{
	uint8_t from[100];
	uint8_t to[120];

	for (uint32_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i + 1);
	for (uint32_t offset = 0; offset < 9; offset++) {
		for (uint32_t bytes = 0; bytes <= sizeof(from); bytes++) {
			memset(to, 0, sizeof(to));
			place(to + offset, from, bytes);
			assert_memory_equal(to + offset, from, bytes);
			for (uint32_t i = 0; i < sizeof(to); i++)
				if (i < offset || i >= offset + bytes)
					assert_int_equal(to[i], 0);
		}
	}
}

static void copy_place_of_any_length_copies_exactly_that(void **state)
{
	(void)state;
	any_length_is_copied_exactly(copy_place);
}

static void copy_with_its_tail_first_copies_exactly_that(void **state)
{
	(void)state;
	any_length_is_copied_exactly(copy_place_tail_first);
}

enum { WATCHED_BYTES = 256 };

static _Atomic uint8_t watched[WATCHED_BYTES];
static _Atomic bool is_hole_seen;

/* Looks for the last byte without the first one. */
static void *hole_watch(void *argument)
{
	(void)argument;
	while (!is_hole_seen)
		if (watched[WATCHED_BYTES - 1] && !watched[0])
			is_hole_seen = true;
	return NULL;
}

static void copy_with_its_tail_first_shows_a_hole(void **state)
{
	uint8_t from[WATCHED_BYTES];
	pthread_t watcher;

	(void)state;
	memset(from, 1, sizeof(from));
	assert_int_equal(pthread_create(&watcher, NULL, hole_watch, NULL), 0);
	while (!is_hole_seen) {
		for (int i = WATCHED_BYTES - 1; i >= 0; i--)
			watched[i] = 0;
		copy_place_tail_first((uint8_t *)watched, from, sizeof(from));
	}
	assert_int_equal(pthread_join(watcher, NULL), 0);
}

/* At the limit and around it, wherever the lines of memory begin. */
static void copy_of_long_memory_copies_exactly_that(void **state)
{
	static const size_t sizes[] = {1, 100, COPY_STREAM_BYTES - 1, COPY_STREAM_BYTES,
		COPY_STREAM_BYTES + 1, COPY_STREAM_BYTES + 63, COPY_STREAM_BYTES + 200};
	size_t room_bytes = COPY_STREAM_BYTES + 512;
	uint8_t *from = malloc(room_bytes), *to = malloc(room_bytes);

	(void)state;
	for (size_t i = 0; i < room_bytes; i++)
		from[i] = (uint8_t)(i * 31 + i / 256 + 1);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		for (size_t offset = 0; offset < 130; offset += 13) {
			memset(to, 0, room_bytes);
			copy_place_long(to + offset, from + 3, sizes[i]);
			assert_memory_equal(to + offset, from + 3, sizes[i]);
			for (size_t k = 0; k < offset; k++)
				assert_int_equal(to[k], 0);
			for (size_t k = offset + sizes[i];
				k < room_bytes && k < offset + sizes[i] + 100; k++)
				assert_int_equal(to[k], 0);
		}
	}
	free(from);
	free(to);
}

static void expect_moved(size_t to, size_t from, size_t bytes, size_t room_bytes)
{
	uint8_t *memory_of_both = malloc(room_bytes), *before = malloc(room_bytes);

	for (size_t i = 0; i < room_bytes; i++)
		memory_of_both[i] = before[i] = (uint8_t)(i * 31 + i / 256 + 1);
	copy_place_long(memory_of_both + to, memory_of_both + from, bytes);
	assert_memory_equal(memory_of_both, before, to);
	assert_memory_equal(memory_of_both + to, before + from, bytes);
	assert_memory_equal(
		memory_of_both + to + bytes, before + to + bytes, room_bytes - to - bytes);
	free(memory_of_both);
	free(before);
}

/* A program may WRITE over what it WRITEs from. */
static void copy_onto_itself_moves_the_bytes(void **state)
{
	static const size_t sizes[] = {1, 5, 8, 9, 16, 100, 4096, COPY_STREAM_BYTES + 77};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		for (size_t distance = 0; distance < 140; distance += 1 + distance / 12) {
			expect_moved(distance, 0, sizes[i], sizes[i] + 160);
			expect_moved(0, distance, sizes[i], sizes[i] + 160);
		}
	}
}

static sigjmp_buf interrupted;

static void on_fault(int signal)
{
	(void)signal;
	siglongjmp(interrupted, 1);
}

/* Wherever the copy is interrupted. */
static void last_bytes_of_a_long_copy_come_last(void **state)
{
	enum { PAGE_BYTES = 4096, PAGES = 16, COPIED_BYTES = PAGES * PAGE_BYTES };
	struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER}, before;
	static uint8_t from[COPIED_BYTES];
	uint8_t *to = mmap(
		NULL, COPIED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t last;

	(void)state;
	assert_ptr_not_equal(to, MAP_FAILED);
	memset(from, 1, sizeof(from));
	assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
	for (volatile int i = 0; i < PAGES - 1; i++) {
		uint8_t *hidden = to + i * PAGE_BYTES;

		assert_int_equal(mprotect(hidden, PAGE_BYTES, PROT_NONE), 0);
		if (!sigsetjmp(interrupted, 1)) {
			copy_place_any(to, from, COPIED_BYTES);
			fail();
		}
		memcpy(&last, to + COPIED_BYTES - sizeof(last), sizeof(last));
		assert_int_equal(last, 0);
		assert_int_equal(mprotect(hidden, PAGE_BYTES, PROT_READ | PROT_WRITE), 0);
		memset(to, 0, COPIED_BYTES);
	}
	assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
	munmap(to, COPIED_BYTES);
}

/* The twin: byte by byte, over a list laid out flat. */
static void sge_copies_agree_with_a_copy_byte_by_byte(void **state)
{
	struct sim_random random = {1};
	uint8_t expected[BYTES];
	uint8_t data[BYTES];
	uint8_t got[BYTES];

	(void)state;
	for (uint32_t step = 0; step < 20000; step++) {
		struct sge list[SGE_COUNT];
		uint8_t *flat[SGE_COUNT * 300] = {NULL};
		uint32_t count = 1 + (uint32_t)sim_random_below(&random, SGE_COUNT);
		uint32_t total = 0;

		for (uint32_t i = 0; i < count; i++) {
			uint32_t bytes = (uint32_t)sim_random_below(&random, 300);
			uint32_t at = i * 800 + (uint32_t)sim_random_below(&random, 400);

			list[i] = sge_of(at, bytes);
			for (uint32_t j = 0; j < bytes; j++)
				flat[total++] = memory + at + j;
		}
		assert_int_equal(sge_total_bytes(list, count), total);
		uint32_t offset = (uint32_t)sim_random_below(&random, total + 1ull);
		uint32_t bytes = (uint32_t)sim_random_below(&random, total - offset + 1ull);

		for (uint32_t i = 0; i < bytes; i++)
			data[i] = (uint8_t)sim_random_next(&random);
		memcpy(expected, memory, BYTES);
		for (uint32_t i = 0; i < bytes; i++)
			expected[flat[offset + i] - memory] = data[i];
		assert_int_equal(sge_scatter(&table, PD, list, count, offset, bytes, data), MR_OK);
		assert_memory_equal(memory, expected, BYTES);
		assert_int_equal(sge_gather(&table, PD, list, count, offset, bytes, got), MR_OK);
		assert_memory_equal(got, data, bytes);
		const uint8_t *piece = sge_piece(&table, PD, list, count, offset, bytes);
		bool is_one = bytes > 0 && flat[offset + bytes - 1] == flat[offset] + bytes - 1;
		if (piece)
			assert_ptr_equal(piece, flat[offset]);
		if (bytes > 0 && count == 1)
			assert_true(is_one && piece);
	}
}

static void sge_scatter_with_one_bad_entry_writes_nothing(void **state)
{
	struct sge list[3] = {sge_of(0, 10), sge_of(100, 10), sge_of(BYTES - 5, 10)};
	uint8_t before[BYTES];
	uint8_t data[30];

	(void)state;
	memset(data, 0xab, sizeof(data));
	memset(memory, 0, sizeof(memory));
	memcpy(before, memory, BYTES);
	assert_int_equal(sge_scatter(&table, PD, list, 3, 0, 30, data), MR_FAULT_BOUNDS);
	list[2] = sge_of(200, 10);
	list[1].lkey ^= 1;
	assert_int_equal(sge_scatter(&table, PD, list, 3, 0, 30, data), MR_FAULT_KEY);
	list[1].lkey ^= 1;
	assert_int_equal(sge_scatter(&table, PD + 1, list, 3, 0, 30, data), MR_FAULT_PD);
	assert_memory_equal(memory, before, BYTES);
	assert_int_equal(sge_scatter(&table, PD, list, 3, 0, 30, data), MR_OK);
}

static void sge_entry_that_is_not_reached_is_not_checked(void **state)
{
	struct sge list[2] = {sge_of(0, 10), sge_of(BYTES, 10)};
	uint8_t data[20];

	(void)state;
	assert_int_equal(sge_gather(&table, PD, list, 2, 0, 10, data), MR_OK);
	assert_int_equal(sge_gather(&table, PD, list, 2, 0, 11, data), MR_FAULT_BOUNDS);
}

static void sge_piece_that_may_not_be_read_is_none(void **state)
{
	struct sge list[2] = {sge_of(0, 10), sge_of(BYTES, 10)};

	(void)state;
	assert_ptr_equal(sge_piece(&table, PD, list, 2, 3, 7), memory + 3);
	assert_null(sge_piece(&table, PD, list, 2, 3, 8)); /* two pieces */
	assert_null(sge_piece(&table, PD, list, 2, 10, 10)); /* out of bounds */
	assert_null(sge_piece(&table, PD + 1, list, 2, 0, 10));
}

static void sge_check_skips_empty_entries_only(void **state)
{
	struct sge list[2] = {sge_of(0, 10), {1, 0, 0}};

	(void)state;
	assert_int_equal(sge_check(&table, PD, MR_LOCAL_WRITE, list, 2), MR_OK);
	list[1].bytes = 1;
	assert_int_equal(sge_check(&table, PD, MR_LOCAL_WRITE, list, 2), MR_FAULT_KEY);
}

static void sge_total_of_huge_entries_does_not_wrap(void **state)
{
	struct sge list[3] = {{0, UINT32_MAX, 0}, {0, UINT32_MAX, 0}, {0, 2, 0}};

	(void)state;
	assert_int_equal(sge_total_bytes(list, 3), 2 * (uint64_t)UINT32_MAX + 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(copy_place_of_any_length_copies_exactly_that),
		TEST(copy_with_its_tail_first_copies_exactly_that),
		TEST(copy_with_its_tail_first_shows_a_hole),
		TEST(copy_of_long_memory_copies_exactly_that),
		TEST(copy_onto_itself_moves_the_bytes),
		TEST(last_bytes_of_a_long_copy_come_last),
		TEST(sge_copies_agree_with_a_copy_byte_by_byte),
		TEST(sge_scatter_with_one_bad_entry_writes_nothing),
		TEST(sge_entry_that_is_not_reached_is_not_checked),
		TEST(sge_piece_that_may_not_be_read_is_none),
		TEST(sge_check_skips_empty_entries_only),
		TEST(sge_total_of_huge_entries_does_not_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
