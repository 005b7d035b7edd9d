/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/version.h"

static void version_of_a_build_has_three_numbers(void **state)
{
	int major, minor, patch, end = -1;

	(void)state;
	assert_int_equal(sscanf(urnic_version(), "%d.%d.%d%n", &major, &minor, &patch, &end), 3);
	assert_int_equal(urnic_version()[end], '\0');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(version_of_a_build_has_three_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
