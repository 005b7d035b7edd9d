/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text.h"

static void text_of_others_has_no_control_characters(void **state)
{
	char plain[] = "ib_write_bw (2) ~\\";
	char hostile[] = "a\033[31mb\r\nc\td\177e\233f\303\274";
	char every[256];

	(void)state;
	text_make_printable(plain);
	assert_string_equal(plain, "ib_write_bw (2) ~\\");
	text_make_printable(hostile);
	assert_string_equal(hostile, "a?[31mb??c?d?e?f??");
	for (int i = 0; i < 255; i++)
		every[i] = (char)(i + 1);
	every[255] = '\0';
	text_make_printable(every);
	for (int i = 0; i < 255; i++) {
		int is_printable = i + 1 >= ' ' && i + 1 <= '~';

		assert_int_equal(every[i], is_printable ? i + 1 : '?');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_of_others_has_no_control_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
