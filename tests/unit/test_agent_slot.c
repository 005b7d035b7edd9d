/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "agent/slot.h"

static void fresh_table_leases_from_one_up_and_ends_with_enospc(void **state)
{
	static struct slot_table table;

	(void)state;
	for (int slot = 1; slot < AGENT_SLOTS; slot++)
		assert_int_equal(slot_take(&table, 0, 1000), slot);
	assert_int_equal(slot_take(&table, 0, 1000), -ENOSPC);
}

static void returned_slots_are_leased_again_oldest_first_after_the_unused(void **state)
{
	static struct slot_table table;

	(void)state;
	for (int slot = 1; slot <= 200; slot++)
		slot_take(&table, 0, 1000);
	slot_return(&table, 7);
	slot_return(&table, 3);
	for (int slot = 201; slot < AGENT_SLOTS; slot++)
		assert_int_equal(slot_take(&table, 0, 1000), slot);
	assert_int_equal(slot_take(&table, 0, 1000), 7);
	assert_int_equal(slot_take(&table, 0, 1000), 3);
}

static void orphan_is_leased_only_when_nothing_is_free(void **state)
{
	static struct slot_table table;

	(void)state;
	slot_orphan(&table, 1);
	for (int slot = 2; slot < AGENT_SLOTS; slot++)
		assert_int_equal(slot_take(&table, 0, 1000), slot);
	assert_int_equal(slot_take(&table, 0, 1000), 1);
}

static void orphan_is_claimed_by_its_owner(void **state)
{
	static struct slot_table table;

	(void)state;
	slot_orphan(&table, 9);
	assert_true(slot_claim(&table, 9, 4, 1000));
	assert_int_equal(table.leases[9].state, SLOT_LEASED);
	assert_int_equal(table.leases[9].client, 4);
	/* A late word about it changes nothing, and nobody else can have it. */
	slot_orphan(&table, 9);
	assert_int_equal(table.leases[9].state, SLOT_LEASED);
	assert_false(slot_claim(&table, 9, 5, 1000));
	assert_false(slot_claim(&table, 0, 4, 1000));
}

static void slot_of_one_user_never_becomes_another_users(void **state)
{
	static struct slot_table table;

	(void)state;
	for (int slot = 1; slot < AGENT_SLOTS; slot++)
		slot_take(&table, 0, 1000);
	slot_return(&table, 5);
	assert_int_equal(slot_take(&table, 1, 1001), -ENOSPC);
	assert_false(slot_claim(&table, 5, 1, 1001));
	assert_int_equal(slot_take(&table, 1, 1000), 5);
}

static void first_word_on_whose_a_slot_is_counts(void **state)
{
	static struct slot_table table;

	(void)state;
	slot_assign_user(&table, 2, 1000);
	slot_assign_user(&table, 2, 1001);
	assert_false(slot_claim(&table, 2, 0, 1001));
	assert_true(slot_claim(&table, 2, 0, 1000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fresh_table_leases_from_one_up_and_ends_with_enospc),
		cmocka_unit_test(returned_slots_are_leased_again_oldest_first_after_the_unused),
		cmocka_unit_test(orphan_is_leased_only_when_nothing_is_free),
		cmocka_unit_test(orphan_is_claimed_by_its_owner),
		cmocka_unit_test(slot_of_one_user_never_becomes_another_users),
		cmocka_unit_test(first_word_on_whose_a_slot_is_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
