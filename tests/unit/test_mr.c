/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory/mw.h"
#include "support/permutation.h"
#include "support/sim_random.h"

enum { ARENA_BYTES = 8 << 20, PD = 4, REGION_BYTES = 1000, ALL = MR_LOCAL_WRITE | MR_REMOTE_ANY };

static _Alignas(64) uint8_t arena_memory[ARENA_BYTES];
static uint8_t memory[REGION_BYTES];
static struct arena arena;
static struct mr_table table;

static void start(uint32_t slot_count)
{
	memset(arena_memory, 0, sizeof(arena_memory));
	arena_init(&arena, arena_memory, sizeof(arena_memory));
	assert_int_equal(mr_table_init(&table, &arena, slot_count, test_permutation(11)), 0);
}

static int setup(void **state)
{
	(void)state;
	start(8);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mr_table_done(&table);
	return 0;
}

static uint32_t add(uint64_t iova, uint64_t bytes, uint32_t access)
{
	struct mr_region region = {PD, access, iova, bytes, memory};
	uint32_t key;

	assert_int_equal(mr_table_add(&table, &region, 0x5a, &key), 0);
	return key;
}

static enum mr_fault resolve(uint32_t key, uint64_t iova, uint64_t bytes)
{
	uint8_t *pointer = NULL;
	enum mr_fault fault = mr_resolve(&table, key, PD, MR_REMOTE_WRITE, iova, bytes, &pointer);

	if (fault == MR_OK && bytes)
		assert_true(pointer >= memory && pointer + bytes <= memory + REGION_BYTES);
	return fault;
}

static void mr_range_inside_resolves_to_its_bytes(void **state)
{
	uint32_t key = add(0x10000, REGION_BYTES, ALL);
	uint8_t *pointer;

	(void)state;
	assert_int_equal(mr_resolve(&table, key, PD, MR_REMOTE_READ, 0x10064, 10, &pointer), MR_OK);
	assert_ptr_equal(pointer, memory + 100);
	assert_int_equal(resolve(key, 0x10000, REGION_BYTES), MR_OK);
	assert_int_equal(resolve(key, 0x10000 + REGION_BYTES - 1, 1), MR_OK);
}

static void mr_range_outside_is_refused_without_overflow(void **state)
{
	uint32_t key = add(0x10000, REGION_BYTES, ALL);

	(void)state;
	assert_int_equal(resolve(key, 0x10000, REGION_BYTES + 1), MR_FAULT_BOUNDS);
	assert_int_equal(resolve(key, 0xffff, 1), MR_FAULT_BOUNDS);
	assert_int_equal(resolve(key, 0x10000 + REGION_BYTES, 1), MR_FAULT_BOUNDS);
	assert_int_equal(resolve(key, 0x10001, UINT64_MAX), MR_FAULT_BOUNDS);
	assert_int_equal(resolve(key, UINT64_MAX, 0x10002), MR_FAULT_BOUNDS);
	assert_int_equal(resolve(key, 0, UINT64_MAX), MR_FAULT_BOUNDS);
}

static void mr_region_at_the_top_of_the_address_space_is_exact(void **state)
{
	uint32_t key = add(UINT64_MAX - REGION_BYTES + 1, REGION_BYTES, ALL);

	(void)state;
	assert_int_equal(resolve(key, UINT64_MAX, 1), MR_OK);
	assert_int_equal(resolve(key, UINT64_MAX, 2), MR_FAULT_BOUNDS);
	assert_int_equal(resolve(key, 0, 1), MR_FAULT_BOUNDS);
}

static void mr_region_that_wraps_is_not_registered(void **state)
{
	struct mr_region region = {PD, 0, UINT64_MAX - 10, 12, memory};
	uint32_t key;

	(void)state;
	assert_int_equal(mr_table_add(&table, &region, 0, &key), -EINVAL);
	region = (struct mr_region){PD, 0, 0, UINT64_MAX, memory};
	assert_int_equal(mr_table_add(&table, &region, 0, &key), -EINVAL);
	assert_int_equal(mr_table_count(&table), 0);
}

static void mr_empty_region_grants_nothing(void **state)
{
	uint32_t key = add(0x10000, 0, ALL);

	(void)state;
	assert_int_equal(resolve(key, 0x10000, 0), MR_OK);
	assert_int_equal(resolve(key, 0x10000, 1), MR_FAULT_BOUNDS);
}

static void mr_remote_write_needs_local_write(void **state)
{
	static const uint32_t refused[] = {
		MR_REMOTE_WRITE, MR_REMOTE_ATOMIC, MR_REMOTE_WRITE | MR_REMOTE_READ};
	struct mr_region region = {PD, 0, 0, 10, memory};
	uint32_t key;

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		region.access = refused[i];
		assert_int_equal(mr_table_add(&table, &region, 0, &key), -EINVAL);
		region.access |= MR_LOCAL_WRITE;
		assert_int_equal(mr_table_add(&table, &region, 0, &key), 0);
	}
	region.access = MR_REMOTE_READ;
	assert_int_equal(mr_table_add(&table, &region, 0, &key), 0);
}

static void mr_access_is_granted_right_by_right(void **state)
{
	static const uint32_t rights[] = {
		MR_LOCAL_WRITE, MR_REMOTE_WRITE, MR_REMOTE_READ, MR_REMOTE_ATOMIC};
	uint8_t *pointer;

	(void)state;
	for (uint32_t granted = 0; granted < 16; granted++) {
		uint32_t access = granted;

		if (access & (MR_REMOTE_WRITE | MR_REMOTE_ATOMIC))
			access |= MR_LOCAL_WRITE;
		uint32_t key = add(0, REGION_BYTES, access);
		for (uint32_t i = 0; i < 4; i++)
			assert_int_equal(mr_resolve(&table, key, PD, rights[i], 0, 1, &pointer),
				access & rights[i] ? MR_OK : MR_FAULT_ACCESS);
		assert_int_equal(mr_resolve(&table, key, PD, MR_LOCAL_READ, 0, 1, &pointer), MR_OK);
		assert_int_equal(mr_table_remove(&table, key, PD), 0);
	}
}

static void mr_of_another_pd_is_refused_and_not_removed(void **state)
{
	uint32_t key = add(0, REGION_BYTES, ALL);
	uint8_t *pointer;

	(void)state;
	assert_int_equal(mr_resolve(&table, key, PD + 1, 0, 0, 1, &pointer), MR_FAULT_PD);
	assert_int_equal(mr_table_remove(&table, key, PD + 1), -EINVAL);
	assert_int_equal(resolve(key, 0, 1), MR_OK);
}

static void mr_removed_key_never_matches_a_later_region(void **state)
{
	uint32_t old[2000];

	(void)state;
	for (uint32_t i = 0; i < 2000; i++) {
		old[i] = add(0, REGION_BYTES, ALL);
		assert_int_equal(resolve(old[i], 0, 1), MR_OK);
		for (uint32_t j = i > 200 ? i - 200 : 0; j < i; j++)
			assert_int_equal(resolve(old[j], 0, 1), MR_FAULT_KEY);
		assert_int_equal(mr_table_remove(&table, old[i], PD), 0);
		assert_int_equal(mr_table_remove(&table, old[i], PD), -EINVAL);
	}
}

static void mr_keys_of_others_do_not_match(void **state)
{
	uint32_t key = add(0, REGION_BYTES, ALL);
	struct sim_random random = {1};

	(void)state;
	for (uint32_t bit = 0; bit < 32; bit++)
		assert_int_equal(resolve(key ^ 1u << bit, 0, 1), MR_FAULT_KEY);
	for (uint32_t i = 0; i < 1000000; i++) {
		uint32_t guess = (uint32_t)sim_random_next(&random);

		if (guess != key)
			assert_int_equal(resolve(guess, 0, 1), MR_FAULT_KEY);
	}
}

static void mr_table_when_full_refuses_and_recovers(void **state)
{
	struct mr_region region = {PD, ALL, 0, 10, memory};
	uint32_t key[8];
	uint32_t another;

	(void)state;
	for (uint32_t i = 0; i < 8; i++)
		key[i] = add(0, REGION_BYTES, ALL);
	assert_int_equal(mr_table_add(&table, &region, 0, &another), -ENOMEM);
	assert_int_equal(mr_table_count(&table), 8);
	assert_int_equal(mr_table_remove(&table, key[3], PD), 0);
	assert_int_equal(mr_table_add(&table, &region, 0, &another), 0);
	assert_int_equal(resolve(key[3], 0, 1), MR_FAULT_KEY);
	assert_int_equal(mr_table_add(&table, &region, 0, &another), -ENOMEM);
}

static void mr_table_is_full_of_so_many_regions_and_windows_all_with_keys_of_their_own(void **state)
{
	static uint8_t seen[1 << 24];
	struct mr_region region = {PD, ALL, 0, 10, memory};
	uint32_t key;

	(void)state;
	mr_table_done(&table);
	start(MR_SLOT_COUNT_MAX);
	for (uint32_t i = 0; i < MR_REGION_COUNT_MAX; i++) {
		key = add(i, 1, ALL);
		assert_int_equal(seen[key >> 8]++, 0);
		assert_int_equal(resolve(key, i, 1), MR_OK);
	}
	assert_int_equal(mr_table_add(&table, &region, 0, &key), -ENOMEM);
	assert_int_equal(mr_table_add_null(&table, PD, 0, &key), -ENOMEM);
	for (uint32_t i = 0; i < MR_WINDOW_COUNT_MAX; i++) {
		assert_int_equal(mw_add(&table, PD, MR_KIND_WINDOW_2, 0, &key), 0);
		assert_int_equal(seen[key >> 8]++, 0);
	}
	assert_int_equal(mw_add(&table, PD, MR_KIND_WINDOW_2, 0, &key), -ENOMEM);
}

static void mr_changed_region_has_its_key_and_nothing_else(void **state)
{
	struct mr_region region = {PD + 1, MR_REMOTE_READ, 0x500, 10, memory + 20};
	uint32_t key = add(0x10000, REGION_BYTES, ALL);
	uint8_t *pointer;

	(void)state;
	assert_int_equal(mr_table_change(&table, key, PD, &region), 0);
	assert_int_equal(
		mr_resolve(&table, key, PD, MR_REMOTE_READ, 0x10000, 1, &pointer), MR_FAULT_PD);
	assert_int_equal(mr_resolve(&table, key, PD + 1, MR_REMOTE_READ, 0x10000, 1, &pointer),
		MR_FAULT_BOUNDS);
	assert_int_equal(mr_resolve(&table, key, PD + 1, MR_REMOTE_WRITE, 0x500, 1, &pointer),
		MR_FAULT_ACCESS);
	assert_int_equal(mr_resolve(&table, key, PD + 1, MR_LOCAL_READ, 0x503, 7, &pointer), MR_OK);
	assert_ptr_equal(pointer, memory + 23);
}

static void mr_change_that_is_refused_changes_nothing(void **state)
{
	struct mr_region region = {PD, MR_REMOTE_WRITE, 0, 10, memory};
	uint32_t key = add(0x10000, REGION_BYTES, ALL);
	uint32_t null_key;

	(void)state;
	assert_int_equal(mr_table_change(&table, key, PD, &region), -EINVAL);
	region.access = ALL;
	assert_int_equal(mr_table_change(&table, key, PD + 1, &region), -EINVAL);
	assert_int_equal(mr_table_change(&table, key ^ 1, PD, &region), -EINVAL);
	assert_int_equal(mr_table_add_null(&table, PD, 0, &null_key), 0);
	assert_int_equal(mr_table_change(&table, null_key, PD, &region), -EINVAL);
	assert_int_equal(resolve(key, 0x10000, REGION_BYTES), MR_OK);
}

static uint32_t touched;
static bool is_there;

static bool touch(void *address, uint64_t bytes, bool is_written)
{
	assert_ptr_equal(address, memory + 10);
	assert_int_equal(bytes, 5);
	touched += is_written ? 100 : 1;
	return is_there;
}

static void mr_on_demand_asks_for_its_pages_before_each_access(void **state)
{
	uint32_t plain = add(0, REGION_BYTES, ALL);
	uint32_t key = add(0, REGION_BYTES, ALL | MR_ON_DEMAND);
	uint8_t *pointer;

	(void)state;
	table.touch = touch;
	for (uint32_t i = 0; i < 2; i++) {
		enum mr_fault expected = i ? MR_OK : MR_FAULT_PAGE;

		touched = 0;
		is_there = i;
		assert_int_equal(
			mr_resolve(&table, key, PD, MR_LOCAL_READ, 10, 5, &pointer), MR_OK);
		assert_int_equal(
			mr_resolve(&table, plain, PD, MR_LOCAL_WRITE | MR_TOUCH, 10, 5, &pointer),
			MR_OK);
		assert_int_equal(touched, 0);
		assert_int_equal(
			mr_resolve(&table, key, PD, MR_LOCAL_READ | MR_TOUCH, 10, 5, &pointer),
			expected);
		assert_int_equal(touched, 1);
		assert_int_equal(
			mr_resolve(&table, key, PD, MR_REMOTE_WRITE | MR_TOUCH, 10, 5, &pointer),
			expected);
		assert_int_equal(touched, 101);
	}
	/* What is refused anyway is not asked for. */
	assert_int_equal(mr_resolve(&table, key, PD, MR_FLUSH_GLOBAL | MR_TOUCH, 10, 5, &pointer),
		MR_FAULT_ACCESS);
	assert_int_equal(
		mr_resolve(&table, key, PD, MR_LOCAL_READ | MR_TOUCH, 10, REGION_BYTES, &pointer),
		MR_FAULT_BOUNDS);
	assert_int_equal(touched, 101);
}

static void mr_null_region_gives_zeros_and_swallows(void **state)
{
	uint8_t *from, *to;
	uint32_t key;

	(void)state;
	assert_int_equal(mr_table_add_null(&table, PD, 0x11, &key), 0);
	assert_int_equal(mr_resolve(&table, key, PD, MR_LOCAL_WRITE, 0, MR_NULL_BYTES, &to), MR_OK);
	memset(to, 0xff, MR_NULL_BYTES);
	assert_int_equal(
		mr_resolve(&table, key, PD, MR_LOCAL_READ, UINT64_MAX - 5, 3, &from), MR_OK);
	for (uint32_t i = 0; i < MR_NULL_BYTES; i++)
		assert_int_equal(from[i], 0);
	assert_int_equal(mr_resolve(&table, key, PD + 1, MR_LOCAL_READ, 0, 1, &from), MR_FAULT_PD);
	assert_int_equal(mr_resolve(&table, key, PD, MR_REMOTE_READ, 0, 1, &from), MR_FAULT_ACCESS);
	assert_int_equal(mr_table_remove(&table, key, PD), 0);
	assert_int_equal(mr_resolve(&table, key, PD, MR_LOCAL_READ, 0, 1, &from), MR_FAULT_KEY);
}

static void mr_whole_region_is_resolved_wherever_it_is(void **state)
{
	struct mr_user user = {PD, 9};
	uint32_t key = add(0x10000, REGION_BYTES, MR_LOCAL_WRITE | MR_REMOTE_READ);

	(void)state;
	assert_int_equal(mr_resolve_whole(&table, key, user, MR_REMOTE_READ), MR_OK);
	assert_int_equal(mr_resolve_whole(&table, key, user, MR_REMOTE_WRITE), MR_FAULT_ACCESS);
	assert_int_equal(mr_resolve_whole(&table, key ^ 1, user, MR_REMOTE_READ), MR_FAULT_KEY);
}

/* --- seen from another process --- */

static struct mr_table view;
static uint32_t withdrawn;

/* The key is not found any more, and the region is still what it was. */
static bool on_quiesce(uint32_t key)
{
	struct mr_public public;
	uint8_t *pointer;

	mr_table_publish(&table, &arena, &public);
	assert_int_equal(mr_table_view(&view, arena_memory, ARENA_BYTES, &public), 0);
	assert_int_equal(mr_resolve(&view, key, PD, MR_REMOTE_WRITE, 0, 1, &pointer), MR_FAULT_KEY);
	withdrawn = key;
	return true;
}

static void table_seen_from_outside_gives_the_same_answers(void **state)
{
	uint32_t key = add(5000, REGION_BYTES, ALL);
	uint32_t on_demand = add(5000, REGION_BYTES, ALL | MR_ON_DEMAND);
	struct mr_public public;
	uint32_t null_key;
	uint8_t *pointer = NULL;

	(void)state;
	assert_int_equal(mr_table_add_null(&table, PD, 1, &null_key), 0);
	mr_table_publish(&table, &arena, &public);
	assert_int_equal(mr_table_view(&view, arena_memory, ARENA_BYTES, &public), 0);
	assert_int_equal(mr_resolve(&view, key, PD, MR_REMOTE_READ, 5010, 5, &pointer), MR_OK);
	assert_ptr_equal(pointer, memory + 10);
	assert_int_equal(
		mr_resolve(&view, key, PD + 1, MR_REMOTE_READ, 5010, 5, &pointer), MR_FAULT_PD);
	assert_int_equal(mr_resolve(&view, key, PD, MR_REMOTE_READ, 5010, REGION_BYTES, &pointer),
		MR_FAULT_BOUNDS);
	assert_int_equal(
		mr_resolve(&view, on_demand, PD, MR_REMOTE_READ | MR_TOUCH, 5010, 5, &pointer),
		MR_FAULT_PAGE);
	assert_int_equal(
		mr_resolve(&view, null_key, PD, MR_LOCAL_WRITE | MR_TOUCH, 7, 5, &pointer), MR_OK);
	assert_null(pointer);
}

static void table_that_is_not_inside_of_the_memory_is_not_seen(void **state)
{
	struct mr_public public, bad;

	(void)state;
	mr_table_publish(&table, &arena, &public);
	bad = public;
	bad.slots_offset = ARENA_BYTES - 64;
	assert_int_equal(mr_table_view(&view, arena_memory, ARENA_BYTES, &bad), -EINVAL);
	bad = public;
	bad.slots_offset = UINT64_MAX - 63;
	assert_int_equal(mr_table_view(&view, arena_memory, ARENA_BYTES, &bad), -EINVAL);
	bad = public;
	bad.slot_count = MR_SLOT_COUNT_MAX + 1;
	assert_int_equal(mr_table_view(&view, arena_memory, ARENA_BYTES, &bad), -EINVAL);
	bad = public;
	bad.permutation_offset = ARENA_BYTES - sizeof(struct permutation) + 2;
	assert_int_equal(mr_table_view(&view, arena_memory, ARENA_BYTES, &bad), -EINVAL);
	bad.permutation_offset = public.permutation_offset + 1;
	assert_int_equal(mr_table_view(&view, arena_memory, ARENA_BYTES, &bad), -EINVAL);
}

static void key_is_withdrawn_before_its_region_changes_or_goes(void **state)
{
	uint32_t key = add(0, REGION_BYTES, ALL);
	struct mr_region other = {PD, ALL, 100, REGION_BYTES, memory};
	uint32_t window;

	(void)state;
	table.quiesce = on_quiesce;
	assert_int_equal(mr_table_change(&table, key, PD, &other), 0);
	assert_int_equal(withdrawn, key);
	assert_int_equal(resolve(key, 100, 1), MR_OK);
	withdrawn = 0;
	assert_int_equal(mr_table_remove(&table, key, PD), 0);
	assert_int_equal(withdrawn, key);
	assert_int_equal(mw_add(&table, PD, MR_KIND_WINDOW_1, 3, &window), 0);
	assert_int_equal(mw_remove(&table, window, PD), 0);
	assert_int_equal(withdrawn, window);
}

static bool extent_is(const struct mr_table *of, uint32_t key, uint64_t start, uint64_t end)
{
	struct mr_extent extent;
	const struct mr_slot *region = mr_region_of(of, key);

	assert_non_null(region);
	return mr_region_extent(of, region, &extent) && extent.start == start &&
		extent.end == end && extent.segment == 7;
}

static void extent_is_seen_from_outside_until_the_region_changes_or_goes(void **state)
{
	struct mr_extent extent = {100, 200, 7}, seen;
	struct mr_region region = {PD, ALL, 100, REGION_BYTES, memory};
	uint32_t key = add(0, REGION_BYTES, ALL), other = add(0, REGION_BYTES, ALL);
	struct mr_public public;

	(void)state;
	mr_table_publish(&table, &arena, &public);
	assert_int_equal(mr_table_view(&view, arena_memory, ARENA_BYTES, &public), 0);
	assert_false(mr_region_extent(&view, mr_region_of(&view, key), &seen));
	mr_table_place(&table, key, &extent);
	assert_true(extent_is(&view, key, 100, 200));
	assert_false(mr_region_extent(&view, mr_region_of(&view, other), &seen));
	assert_int_equal(mr_table_change(&table, key, PD, &region), 0);
	assert_false(mr_region_extent(&view, mr_region_of(&view, key), &seen));
	mr_table_place(&table, key, &extent);
	mr_table_unmap(&table, 6);
	assert_true(extent_is(&view, key, 100, 200));
	mr_table_unmap(&table, 7);
	assert_false(mr_region_extent(&view, mr_region_of(&view, key), &seen));
	mr_table_place(&table, key, &extent);
	const struct mr_slot *slot = mr_region_of(&view, key);
	assert_int_equal(mr_table_remove(&table, key, PD), 0);
	assert_false(mr_region_extent(&view, slot, &seen));
}

/* What was kept of `key` still says what a lookup says, or nothing. */
static bool is_kept(const struct mr_cached *cached, uint32_t key)
{
	uint8_t *pointer = mr_cached_find(cached, key, MR_REMOTE_WRITE | MR_TOUCH, 0x10008, 8);

	assert_true(!pointer || pointer == memory + 8);
	return pointer != NULL;
}

static void cached_lookup_grants_what_a_lookup_grants(void **state)
{
	uint32_t key = add(0x10000, 100, MR_LOCAL_WRITE | MR_REMOTE_WRITE);
	struct mr_cached cached = {.key_word = NULL};

	(void)state;
	assert_false(is_kept(&cached, key));
	assert_false(is_kept(&cached, 0));
	mr_cache(&table, key, &cached);
	assert_true(is_kept(&cached, key));
	assert_false(is_kept(&cached, key ^ 1));
	assert_null(mr_cached_find(&cached, key, MR_REMOTE_READ, 0x10008, 8));
	assert_null(mr_cached_find(&cached, key, MR_REMOTE_WRITE, 0x10000 - 1, 8));
	assert_null(mr_cached_find(&cached, key, MR_REMOTE_WRITE, 0x10000 + 93, 8));
	assert_null(mr_cached_find(&cached, key, MR_REMOTE_WRITE, 0x10008, UINT64_MAX - 4));
	assert_ptr_equal(
		mr_cached_find(&cached, key, MR_REMOTE_WRITE, 0x10000 + 92, 8), memory + 92);
}

static void cached_lookup_ends_with_whatever_happens_to_the_key(void **state)
{
	struct mr_region region = {PD, ALL, 0x10000, 100, memory};
	uint32_t key = add(0x10000, 100, ALL);
	struct mr_cached cached;

	(void)state;
	mr_cache(&table, key, &cached);
	assert_int_equal(mr_table_change(&table, key, PD, &region), 0);
	assert_false(is_kept(&cached, key));
	mr_cache(&table, key, &cached);
	mr_table_suspend(&table);
	assert_false(is_kept(&cached, key));
	mr_table_resume(&table);
	assert_false(is_kept(&cached, key)); /* it may be mapped elsewhere by now */
	mr_cache(&table, key, &cached);
	assert_true(is_kept(&cached, key));
	assert_int_equal(mr_table_remove(&table, key, PD), 0);
	assert_false(is_kept(&cached, key));
}

static void on_demand_and_null_regions_are_not_kept(void **state)
{
	uint32_t key = add(0x10000, 100, ALL | MR_ON_DEMAND);
	struct mr_cached cached;

	(void)state;
	mr_cache(&table, key, &cached);
	assert_false(is_kept(&cached, key));
	assert_int_equal(mr_table_add_null(&table, PD, 1, &key), 0);
	mr_cache(&table, key, &cached);
	assert_null(mr_cached_find(&cached, key, MR_LOCAL_READ, 0, 8));
}

static void suspended_keys_are_not_found_until_they_are_resumed(void **state)
{
	uint32_t key = add(0, REGION_BYTES, ALL);

	(void)state;
	mr_table_suspend(&table);
	assert_int_equal(resolve(key, 0, 1), MR_FAULT_KEY);
	mr_table_resume(&table);
	assert_int_equal(resolve(key, 0, 1), MR_OK);
	assert_int_equal(mr_table_remove(&table, key, PD), 0);
	mr_table_suspend(&table);
	mr_table_resume(&table);
	assert_int_equal(resolve(key, 0, 1), MR_FAULT_KEY);
}

static void overlap_is_of_bytes_not_of_neighbours(void **state)
{
	uint64_t start = (uintptr_t)memory;
	uint32_t key = add(0, REGION_BYTES, ALL);

	(void)state;
	assert_true(mr_table_overlaps(&table, start, 1));
	assert_true(mr_table_overlaps(&table, start - 1, 2));
	assert_true(mr_table_overlaps(&table, start + REGION_BYTES - 1, 1));
	assert_true(mr_table_overlaps(&table, 0, UINT64_MAX));
	assert_false(mr_table_overlaps(&table, start - 1, 1));
	assert_false(mr_table_overlaps(&table, start + REGION_BYTES, 1));
	assert_int_equal(mr_table_remove(&table, key, PD), 0);
	assert_false(mr_table_overlaps(&table, start, 1));
}

static void keys_meet_when_they_are_equal_or_one_is_of_a_window(void **state)
{
	uint32_t key = add(0, REGION_BYTES, ALL | MR_WINDOW_BIND);
	uint32_t other = add(0, REGION_BYTES, ALL);
	uint32_t window;

	(void)state;
	assert_int_equal(mw_add(&table, PD, MR_KIND_WINDOW_1, 3, &window), 0);
	struct mw_bind bind = {.key = window,
		.region_key = key,
		.user = {PD, 7},
		.access = MR_REMOTE_WRITE,
		.bytes = 10};
	assert_int_equal(mw_bind(&table, &bind), MR_OK);
	assert_true(mr_keys_may_meet(&table, key, key));
	assert_false(mr_keys_may_meet(&table, other, key));
	assert_true(mr_keys_may_meet(&table, window, key));
	assert_true(mr_keys_may_meet(&table, ~key, key));
	assert_ptr_equal(mr_region_of(&table, window), mr_region_of(&table, key));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(mr_range_inside_resolves_to_its_bytes),
		TEST(mr_range_outside_is_refused_without_overflow),
		TEST(mr_region_at_the_top_of_the_address_space_is_exact),
		TEST(mr_region_that_wraps_is_not_registered),
		TEST(mr_empty_region_grants_nothing),
		TEST(mr_remote_write_needs_local_write),
		TEST(mr_access_is_granted_right_by_right),
		TEST(mr_of_another_pd_is_refused_and_not_removed),
		TEST(mr_removed_key_never_matches_a_later_region),
		TEST(mr_keys_of_others_do_not_match),
		TEST(mr_table_when_full_refuses_and_recovers),
		TEST(mr_table_is_full_of_so_many_regions_and_windows_all_with_keys_of_their_own),
		TEST(mr_changed_region_has_its_key_and_nothing_else),
		TEST(mr_change_that_is_refused_changes_nothing),
		TEST(mr_on_demand_asks_for_its_pages_before_each_access),
		TEST(mr_null_region_gives_zeros_and_swallows),
		TEST(mr_whole_region_is_resolved_wherever_it_is),
		TEST(table_seen_from_outside_gives_the_same_answers),
		TEST(table_that_is_not_inside_of_the_memory_is_not_seen),
		TEST(key_is_withdrawn_before_its_region_changes_or_goes),
		TEST(extent_is_seen_from_outside_until_the_region_changes_or_goes),
		TEST(cached_lookup_grants_what_a_lookup_grants),
		TEST(cached_lookup_ends_with_whatever_happens_to_the_key),
		TEST(on_demand_and_null_regions_are_not_kept),
		TEST(suspended_keys_are_not_found_until_they_are_resumed),
		TEST(overlap_is_of_bytes_not_of_neighbours),
		TEST(keys_meet_when_they_are_equal_or_one_is_of_a_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
