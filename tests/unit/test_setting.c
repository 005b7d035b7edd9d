/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "os/setting.h"

#define NAME "URNIC_TEST_SETTING"

static void set(const char *text)
{
	assert_int_equal(text ? setenv(NAME, text, 1) : unsetenv(NAME), 0);
	settings_read();
}

static void setting_that_is_empty_counts_as_not_set(void **state)
{
	(void)state;
	set(NULL);
	assert_null(setting_text(NAME));
	assert_null(setting_path(NAME));
	set("");
	assert_null(setting_text(NAME));
	assert_null(setting_path(NAME));
	assert_int_equal(setting_number(NAME, 1, 16, 3), 3);
	assert_int_equal(setting_choice(NAME, "on", "off", NULL), 0);
}

static void setting_number_is_in_its_range_or_the_default(void **state)
{
	static const char *const wrong[] = {"0", "17", "-1", "+5", " 5", "5 ", "5x", "0x5", "x",
		"4294967301", "18446744073709551621", "99999999999999999999999999"};

	(void)state;
	set("1");
	assert_int_equal(setting_number(NAME, 1, 16, 3), 1);
	set("0016");
	assert_int_equal(setting_number(NAME, 1, 16, 3), 16);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		set(wrong[i]);
		assert_int_equal(setting_number(NAME, 1, 16, 3), 3);
	}
}

static void setting_choice_is_one_of_its_words_or_the_first(void **state)
{
	(void)state;
	set("a");
	assert_int_equal(setting_choice(NAME, "a", "b", "c", NULL), 0);
	set("b");
	assert_int_equal(setting_choice(NAME, "a", "b", "c", NULL), 1);
	assert_int_equal(setting_choice(NAME, "a", "b", NULL), 1);
	set("c");
	assert_int_equal(setting_choice(NAME, "a", "b", "c", NULL), 2);
	assert_int_equal(setting_choice(NAME, "a", "b", NULL), 0);
	assert_int_equal(setting_choice(NAME, "a", "b", "d", "c", NULL), 3);
	set("bb");
	assert_int_equal(setting_choice(NAME, "a", "b", "c", NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(setting_that_is_empty_counts_as_not_set),
		cmocka_unit_test(setting_number_is_in_its_range_or_the_default),
		cmocka_unit_test(setting_choice_is_one_of_its_words_or_the_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
