/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "front/verbs/select.h"

static void select_without_patterns_takes_every_interface(void **state)
{
	(void)state;
	assert_int_equal(select_place(NULL, "eth0"), 0);
	assert_int_equal(select_place("", "lo"), 0);
}

static void select_place_is_that_of_the_first_match(void **state)
{
	(void)state;
	assert_int_equal(select_place("lo,eth*", "lo"), 0);
	assert_int_equal(select_place("lo,eth*", "eth7"), 1);
	assert_int_equal(select_place(" lo , eth*\t,", "eth7"), 1);
	assert_int_equal(select_place("lo,eth*,eth1", "eth1"), 1);
	assert_int_equal(select_place("veth[ab]", "vetha"), 0);
}

static void select_interface_that_no_pattern_matches_is_left_out(void **state)
{
	(void)state;
	assert_int_equal(select_place("eth*", "lo"), -1);
	assert_int_equal(select_place("eth", "eth0"), -1);
	assert_int_equal(select_place(",", "eth0"), -1);
}

static void interface_is_named_by_a_pattern_for_it_or_a_name_of_its_own(void **state)
{
	(void)state;
	assert_true(select_is_named("eth0,lo", NULL, "lo"));
	assert_true(select_is_named("l*", "", "lo"));
	assert_true(select_is_named(NULL, "mlx5_0,lo=rxe0", "lo"));
	assert_false(select_is_named(NULL, NULL, "lo"));
	assert_false(select_is_named("", "lo", "lo"));
	assert_false(select_is_named("*,eth0,**", NULL, "lo"));
}

static void name_is(
	const char *names, const char *ifname, unsigned int *unnamed, const char *expected)
{
	char name[64];

	assert_true(select_name(names, "rocep", ifname, unnamed, name, sizeof(name)));
	assert_string_equal(name, expected);
}

static void name_without_items_is_made_of_the_interface(void **state)
{
	unsigned int unnamed = 0;

	(void)state;
	name_is(NULL, "eth0", &unnamed, "rocep_eth0");
	name_is("", "lo", &unnamed, "rocep_lo");
}

static void name_items_without_interface_are_used_in_order(void **state)
{
	unsigned int unnamed = 0;

	(void)state;
	name_is("mlx5_0, rxe0", "eth0", &unnamed, "mlx5_0");
	name_is("mlx5_0, rxe0", "eth1", &unnamed, "rxe0");
	name_is("mlx5_0, rxe0", "lo", &unnamed, "rocep_lo");
}

static void name_item_with_interface_goes_before_order(void **state)
{
	unsigned int unnamed = 0;

	(void)state;
	name_is("mlx5_0,eth1=rxe0,mlx5_1", "eth1", &unnamed, "rxe0");
	name_is("mlx5_0,eth1=rxe0,mlx5_1", "eth0", &unnamed, "mlx5_0");
	name_is("mlx5_0,eth1=rxe0,mlx5_1", "lo", &unnamed, "mlx5_1");
	/* "eth1" is not "eth", and an item without a name names nothing. */
	name_is("eth1=a,eth=", "eth", &unnamed, "rocep_eth");
}

static void name_that_no_device_can_have_is_refused(void **state)
{
	static const char *const wrong[] = {"..", ".a", "../etc", "a b", "a\tb", "eth0=a/b",
		"a\xc3", "0123456789012345678901234567890123456789"};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		unsigned int unnamed = 0;
		char name[40];

		assert_false(select_name(wrong[i], "rocep", "eth0", &unnamed, name, sizeof(name)));
		assert_string_equal(name, "rocep_eth0");
	}
}

static void items_of_a_list_are_counted(void **state)
{
	(void)state;
	assert_int_equal(select_count("roce"), 1);
	assert_int_equal(select_count("iwarp,roce,what"), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(items_of_a_list_are_counted),
		cmocka_unit_test(select_without_patterns_takes_every_interface),
		cmocka_unit_test(select_place_is_that_of_the_first_match),
		cmocka_unit_test(select_interface_that_no_pattern_matches_is_left_out),
		cmocka_unit_test(interface_is_named_by_a_pattern_for_it_or_a_name_of_its_own),
		cmocka_unit_test(name_without_items_is_made_of_the_interface),
		cmocka_unit_test(name_items_without_interface_are_used_in_order),
		cmocka_unit_test(name_item_with_interface_goes_before_order),
		cmocka_unit_test(name_that_no_device_can_have_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
