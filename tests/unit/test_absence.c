/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "peer/absence.h"

enum { SLOT = 7 };
#define NOW_NS 5000000000ull

static struct gid gid_make(uint8_t last)
{
	struct gid gid;

	memset(gid.raw, 0, sizeof(gid.raw));
	gid.raw[15] = last;
	return gid;
}

static void absence_is_known_until_its_time_is_over(void **state)
{
	struct gid gid = gid_make(1);

	(void)state;
	assert_false(absence_is_known(&gid, SLOT, NOW_NS));
	absence_note(&gid, SLOT, NOW_NS);
	assert_true(absence_is_known(&gid, SLOT, NOW_NS));
	assert_true(absence_is_known(&gid, SLOT, NOW_NS + ABSENCE_NS - 1));
	assert_false(absence_is_known(&gid, SLOT, NOW_NS + ABSENCE_NS));
}

static void absence_of_one_slot_says_nothing_of_others(void **state)
{
	struct gid gid = gid_make(2);

	(void)state;
	absence_note(&gid, SLOT, NOW_NS);
	for (unsigned other = 0; other < 256; other++) {
		struct gid other_gid = gid_make((uint8_t)(3 + other % 200));

		if (other != SLOT)
			assert_false(absence_is_known(&gid, (uint8_t)other, NOW_NS));
		assert_false(absence_is_known(&other_gid, SLOT, NOW_NS));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(absence_is_known_until_its_time_is_over),
		cmocka_unit_test(absence_of_one_slot_says_nothing_of_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
