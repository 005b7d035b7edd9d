/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "support/sim_random.h"

enum { ARENA_BYTES = 1 << 20, BLOCK_COUNT = 200 };

static _Alignas(64) uint8_t memory[ARENA_BYTES];
static struct arena arena;

static int setup(void **state)
{
	(void)state;
	memset(memory, 0, sizeof(memory));
	arena_init(&arena, memory, sizeof(memory));
	return 0;
}

static bool is_zero(uint64_t offset, uint64_t bytes)
{
	const uint8_t *at = arena_at(&arena, offset);

	for (uint64_t i = 0; i < bytes; i++)
		if (at[i])
			return false;
	return true;
}

static void arena_block_is_aligned_zeroed_and_never_at_zero(void **state)
{
	(void)state;
	for (uint64_t bytes = 1; bytes < 3000; bytes += 97) {
		uint64_t offset = arena_alloc(&arena, bytes);

		assert_int_not_equal(offset, 0);
		assert_int_equal(offset % 64, 0);
		assert_true(is_zero(offset, bytes));
		assert_int_equal(arena_offset(&arena, arena_at(&arena, offset)), offset);
	}
}

static void arena_freed_block_is_used_again_and_zeroed(void **state)
{
	uint64_t offset = arena_alloc(&arena, 100);

	(void)state;
	memset(arena_at(&arena, offset), 0xff, 100);
	arena_free(&arena, offset);
	assert_int_equal(arena_alloc(&arena, 128), offset); /* of the same size class */
	assert_true(is_zero(offset, 128));
}

static void arena_full_returns_zero_and_stays_usable(void **state)
{
	uint64_t offset;
	uint64_t last = 0;
	uint32_t count = 0;

	(void)state;
	while ((offset = arena_alloc(&arena, 4096)) != 0) {
		last = offset;
		count++;
	}
	/* The rest is tables, and less than a chunk. */
	assert_in_range(
		count, (ARENA_BYTES - 2 * ARENA_CHUNK_BYTES) / 4096, ARENA_BYTES / 4096 - 1);
	assert_int_equal(arena_alloc(&arena, UINT64_MAX), 0);
	arena_free(&arena, last);
	assert_int_equal(arena_alloc(&arena, 4096), last);
}

static void arena_free_of_zero_does_nothing(void **state)
{
	(void)state;
	arena_free(&arena, 0);
	assert_int_equal(arena.live_bytes, 0);
}

/* An idle queue pair touches its headers and not its rings: they cost no page each. */
static void arena_small_blocks_are_neighbours_whatever_lies_between(void **state)
{
	uint64_t first = arena_alloc(&arena, 64);

	(void)state;
	for (uint64_t i = 1; i < 20; i++) {
		assert_int_not_equal(arena_alloc(&arena, 8192), 0);
		assert_int_not_equal(arena_alloc(&arena, 500), 0);
		assert_int_equal(arena_alloc(&arena, 64), first + 64 * i);
	}
}

static void expect_abort_of_free(uint64_t offset)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		static const struct rlimit no_core = {0, 0};

		signal(SIGABRT, SIG_DFL); /* cmocka has a handler */
		setrlimit(RLIMIT_CORE, &no_core);
		if (!freopen("/dev/null", "w", stderr))
			_exit(1);
		arena_free(&arena, offset);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void arena_free_of_no_block_ends_the_program(void **state)
{
	uint64_t offset = arena_alloc(&arena, 256);
	uint64_t large = arena_alloc(&arena, 100000);

	(void)state;
	expect_abort_of_free(offset + 64);
	expect_abort_of_free(large + ARENA_CHUNK_BYTES);
	expect_abort_of_free(ARENA_BYTES * 2);
	arena_free(&arena, offset);
	expect_abort_of_free(offset);
	arena_free(&arena, large);
	assert_int_equal(arena.live_bytes, 0);
}

/* Blocks in use hold what was written to them, whatever happens around them. */
static void arena_blocks_never_overlap(void **state)
{
	struct {
		uint64_t offset;
		uint64_t bytes;
	} block[BLOCK_COUNT] = {0};
	struct sim_random random = {1};

	(void)state;
	for (uint32_t step = 0; step < 20000; step++) {
		uint32_t i = (uint32_t)sim_random_below(&random, BLOCK_COUNT);
		uint8_t mark = (uint8_t)(1 + i);

		if (block[i].offset) {
			const uint8_t *at = arena_at(&arena, block[i].offset);

			for (uint64_t j = 0; j < block[i].bytes; j++)
				assert_int_equal(at[j], mark);
			arena_free(&arena, block[i].offset);
			block[i].offset = 0;
		} else {
			block[i].bytes = sim_random_between(&random, 1, 3000);
			block[i].offset = arena_alloc(&arena, block[i].bytes);
			if (!block[i].offset)
				continue;
			assert_true(is_zero(block[i].offset, block[i].bytes));
			memset(arena_at(&arena, block[i].offset), mark, block[i].bytes);
		}
	}
	for (uint32_t i = 0; i < BLOCK_COUNT; i++)
		arena_free(&arena, block[i].offset);
	assert_int_equal(arena.live_bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(arena_block_is_aligned_zeroed_and_never_at_zero, setup),
		cmocka_unit_test_setup(arena_freed_block_is_used_again_and_zeroed, setup),
		cmocka_unit_test_setup(arena_full_returns_zero_and_stays_usable, setup),
		cmocka_unit_test_setup(arena_free_of_zero_does_nothing, setup),
		cmocka_unit_test_setup(
			arena_small_blocks_are_neighbours_whatever_lies_between, setup),
		cmocka_unit_test_setup(arena_free_of_no_block_ends_the_program, setup),
		cmocka_unit_test_setup(arena_blocks_never_overlap, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
