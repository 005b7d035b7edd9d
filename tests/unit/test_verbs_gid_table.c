/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "front/verbs/gid_table.h"

static struct gid gid_number(uint8_t number)
{
	return gid_from_ipv4((const uint8_t[]){10, 0, 0, number});
}

static void entry_is(const struct gid_table *table, uint32_t index, uint8_t number)
{
	struct gid expected = gid_number(number);
	const struct gid *gid = gid_table_at(table, index);

	assert_non_null(gid);
	assert_true(gid_is_equal(gid, &expected));
}

static void table_first_filled_keeps_the_order(void **state)
{
	struct gid gids[] = {gid_number(3), gid_number(1), gid_number(2)};
	struct gid_table table = {0};

	(void)state;
	gid_table_update(&table, gids, 3);
	entry_is(&table, 0, 3);
	entry_is(&table, 1, 1);
	entry_is(&table, 2, 2);
	assert_null(gid_table_at(&table, 3));
}

static void table_has_no_empty_entries_when_addresses_come_and_go(void **state)
{
	struct gid before[] = {gid_number(1), gid_number(2), gid_number(3)};
	struct gid between[] = {gid_number(3), gid_number(1)};
	struct gid after[] = {gid_number(4), gid_number(5), gid_number(3), gid_number(1)};
	struct gid_table table = {0};

	(void)state;
	assert_true(gid_table_update(&table, before, 3));
	assert_false(gid_table_update(&table, before, 3));
	assert_true(gid_table_update(&table, between, 2));
	assert_int_equal(table.count, 2);
	entry_is(&table, 0, 1);
	entry_is(&table, 1, 3);
	assert_null(gid_table_at(&table, 2));
	assert_true(gid_table_update(&table, after, 4));
	assert_int_equal(table.count, 4);
	entry_is(&table, 0, 1);
	entry_is(&table, 1, 3);
	entry_is(&table, 2, 4);
	entry_is(&table, 3, 5);
	assert_true(gid_table_update(&table, NULL, 0));
	assert_int_equal(table.count, 0);
}

static void table_that_is_full_leaves_the_rest_out(void **state)
{
	struct gid gids[GID_TABLE_LENGTH + 1];
	struct gid_table table = {0};

	(void)state;
	for (uint8_t i = 0; i <= GID_TABLE_LENGTH; i++)
		gids[i] = gid_number(i);
	assert_true(gid_table_update(&table, gids, GID_TABLE_LENGTH + 1));
	assert_false(gid_table_update(&table, gids, GID_TABLE_LENGTH + 1));
	entry_is(&table, GID_TABLE_LENGTH - 1, GID_TABLE_LENGTH - 1);
	assert_null(gid_table_at(&table, GID_TABLE_LENGTH));
	assert_null(gid_table_at(&table, UINT32_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_first_filled_keeps_the_order),
		cmocka_unit_test(table_has_no_empty_entries_when_addresses_come_and_go),
		cmocka_unit_test(table_that_is_full_leaves_the_rest_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
