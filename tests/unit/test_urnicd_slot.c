/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#include "urnicd/lease/slot.h"

enum { ALICE = 1000, BOB = 1001 };

static struct slot_table table;

static int begin(void **state)
{
	(void)state;
	table = (struct slot_table){.returns = 0};
	return 0;
}

static int take(uid_t uid, uint64_t now_ms)
{
	return slot_take(&table, 0, uid, true, (uint32_t)random(), now_ms);
}

static void each_slot_is_leased_once_and_then_none(void **state)
{
	bool is_taken[AGENT_SLOTS] = {false};
	unsigned in_order = 0;
	int last = 0;

	(void)state;
	for (int i = 1; i < AGENT_SLOTS; i++) {
		int slot = take(ALICE, 0);

		assert_true(slot > 0 && slot < AGENT_SLOTS);
		assert_false(is_taken[slot]);
		is_taken[slot] = true;
		in_order += slot == last + 1;
		last = slot;
	}
	assert_int_equal(take(ALICE, 0), -ENOSPC);
	assert_int_equal(slot_count_of(&table, ALICE, 0), AGENT_SLOTS - 1);
	assert_int_equal(slot_count_free(&table, 0), 0);
	/* The slots are drawn at random. */
	assert_true(in_order < 20);
}

static void slots_given_back_just_now_are_leased_last(void **state)
{
	int first;

	(void)state;
	first = take(ALICE, 0);
	slot_return(&table, (uint8_t)first, 0);
	for (int i = 2; i < AGENT_SLOTS; i++)
		assert_int_not_equal(take(ALICE, 0), first);
	assert_int_equal(take(ALICE, 0), first);
}

static void slots_that_have_rested_are_drawn_again(void **state)
{
	int first, slot;
	unsigned draws = 0;

	(void)state;
	first = take(ALICE, 0);
	slot_return(&table, (uint8_t)first, 0);
	do {
		slot = take(ALICE, 0);
		slot_return(&table, (uint8_t)slot, 0);
		draws++;
	} while (slot != first && draws < 10000);
	assert_int_equal(slot, first);
	assert_true(draws > SLOT_RESTING_COUNT);
}

static void orphan_is_leased_only_when_nothing_is_free(void **state)
{
	(void)state;
	slot_orphan(&table, 1, ALICE, false, 0);
	for (int i = 2; i < AGENT_SLOTS; i++)
		assert_int_not_equal(take(ALICE, 0), 1);
	assert_int_equal(take(ALICE, 0), 1);
}

static void orphan_is_resumed_by_its_owner_alone(void **state)
{
	(void)state;
	assert_false(slot_resume(&table, 9, 4, ALICE));
	slot_orphan(&table, 9, ALICE, false, 0);
	assert_false(slot_resume(&table, 9, 5, BOB));
	assert_true(slot_resume(&table, 9, 4, ALICE));
	assert_int_equal(table.leases[9].state, SLOT_LEASED);
	assert_int_equal(table.leases[9].client, 4);
	/* A late return of the slot changes nothing, and no other process can lease it. */
	slot_orphan(&table, 9, BOB, false, 0);
	assert_int_equal(table.leases[9].state, SLOT_LEASED);
	assert_false(slot_resume(&table, 9, 5, ALICE));
	assert_false(slot_resume(&table, 0, 4, ALICE));
	/* A returned slot cannot be resumed either. */
	slot_return(&table, 9, 0);
	assert_false(slot_resume(&table, 9, 4, ALICE));
}

static void slot_of_one_user_becomes_anothers_after_a_minute(void **state)
{
	(void)state;
	for (int i = 1; i < AGENT_SLOTS; i++)
		take(ALICE, 0);
	slot_return(&table, 5, 1000);
	assert_int_equal(take(BOB, 1000 + SLOT_REST_MS - 1), -ENOSPC);
	assert_int_equal(take(ALICE, 1000), 5);
	slot_return(&table, 5, 2000);
	assert_int_equal(take(BOB, 2000 + SLOT_REST_MS), 5);
}

/* Slots stay a user's for a minute, so taking and giving back in turn does not get at more. */
static void user_with_its_share_takes_its_own_alone(void **state)
{
	int slots[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		slots[i] = take(BOB, 0);
	slot_return(&table, (uint8_t)slots[1], 0);
	assert_int_equal(slot_count_of(&table, BOB, 0), 3);
	assert_int_equal(slot_count_free(&table, 0), AGENT_SLOTS - 4);
	assert_int_equal(slot_take(&table, 0, BOB, false, 7, 1), slots[1]);
	assert_int_equal(slot_take(&table, 0, BOB, false, 7, 1), -ENOSPC);
	slot_return(&table, (uint8_t)slots[1], 1);
	assert_int_equal(slot_count_of(&table, BOB, 1 + SLOT_REST_MS), 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, begin)
	const struct CMUnitTest tests[] = {
		TEST(each_slot_is_leased_once_and_then_none),
		TEST(slots_given_back_just_now_are_leased_last),
		TEST(slots_that_have_rested_are_drawn_again),
		TEST(orphan_is_leased_only_when_nothing_is_free),
		TEST(orphan_is_resumed_by_its_owner_alone),
		TEST(slot_of_one_user_becomes_anothers_after_a_minute),
		TEST(user_with_its_share_takes_its_own_alone),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
