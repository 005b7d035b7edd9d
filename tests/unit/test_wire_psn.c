/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "wire/psn.h"

static void psn_add_past_the_top_wraps_to_zero(void **state)
{
	(void)state;
	assert_int_equal(psn_add((struct psn){0xffffff}, 1).value, 0);
	assert_int_equal(psn_add((struct psn){0xfffffe}, 0x10).value, 0xe);
	assert_int_equal(psn_add((struct psn){0}, -1u).value, 0xffffff);
	assert_int_equal(msn_add((struct msn){0xffffff}, 1).value, 0);
}

static void psn_diff_is_signed_over_24_bits(void **state)
{
	(void)state;
	assert_int_equal(psn_diff((struct psn){5}, (struct psn){5}), 0);
	assert_int_equal(psn_diff((struct psn){6}, (struct psn){5}), 1);
	assert_int_equal(psn_diff((struct psn){5}, (struct psn){6}), -1);
	assert_int_equal(psn_diff((struct psn){0}, (struct psn){0xffffff}), 1);
	assert_int_equal(psn_diff((struct psn){0xffffff}, (struct psn){0}), -1);
	assert_int_equal(psn_diff((struct psn){0x7fffff}, (struct psn){0}), 0x7fffff);
	assert_int_equal(psn_diff((struct psn){0x800000}, (struct psn){0}), -0x800000);
	assert_int_equal(msn_diff((struct msn){1}, (struct msn){0xffffff}), 2);
}

static void psn_before_holds_across_the_wrap(void **state)
{
	(void)state;
	assert_true(psn_before((struct psn){0xffffff}, (struct psn){0}));
	assert_false(psn_before((struct psn){0}, (struct psn){0xffffff}));
	assert_false(psn_before((struct psn){7}, (struct psn){7}));
	assert_true(psn_equal(psn_from(0x1000007), (struct psn){7}));
}

static void psn_diff_undoes_psn_add(void **state)
{
	(void)state;
	for (uint32_t from = 0; from < 1u << 24; from += 65521) {
		for (uint32_t count = 0; count < 1u << 23; count += 99991) {
			struct psn psn = {from};

			assert_int_equal(psn_diff(psn_add(psn, count), psn), count);
			assert_int_equal(psn_diff(psn, psn_add(psn, count)), -(int32_t)count);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(psn_add_past_the_top_wraps_to_zero),
		cmocka_unit_test(psn_diff_is_signed_over_24_bits),
		cmocka_unit_test(psn_before_holds_across_the_wrap),
		cmocka_unit_test(psn_diff_undoes_psn_add),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
