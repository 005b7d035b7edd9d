/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "wire/credit.h"
#include "wire/timer.h"

static void rnr_timer_code_is_the_specified_wait(void **state)
{
	(void)state;
	assert_int_equal(rnr_timer_ns(0), 655360000);
	assert_int_equal(rnr_timer_ns(1), 10000);
	assert_int_equal(rnr_timer_ns(26), 81920000);
	assert_int_equal(rnr_timer_ns(31), 491520000);
}

static void rnr_timer_waits_grow_with_the_code_except_code_zero(void **state)
{
	(void)state;
	for (uint8_t code = 2; code <= TIMER_CODE_MAX; code++)
		assert_true(rnr_timer_ns(code) > rnr_timer_ns((uint8_t)(code - 1)));
	assert_true(rnr_timer_ns(0) > rnr_timer_ns(TIMER_CODE_MAX));
}

static void ack_timeout_doubles_with_each_code_and_zero_is_infinite(void **state)
{
	(void)state;
	assert_true(ack_timeout_ns(0) == TIMER_INFINITE_NS);
	assert_int_equal(ack_timeout_ns(1), 8192);
	assert_int_equal(ack_timeout_ns(14), 67108864);
	assert_int_equal(ack_timeout_ns(31), 4096ull << 31);
}

static void credit_code_of_a_count_never_promises_more(void **state)
{
	(void)state;
	for (uint32_t count = 0; count < 40000; count++) {
		uint8_t code = credit_code(count);

		assert_true(credit_count(code) <= count);
		if (code + 1 < CREDIT_CODE_UNLIMITED)
			assert_true(credit_count((uint8_t)(code + 1)) > count);
	}
	assert_int_equal(credit_code(UINT32_MAX), CREDIT_CODE_UNLIMITED - 1);
}

static void credit_count_of_a_code_is_the_specified_one(void **state)
{
	(void)state;
	assert_int_equal(credit_count(0), 0);
	assert_int_equal(credit_count(5), 6);
	assert_int_equal(credit_count(30), 32768);
	assert_int_equal(credit_count(CREDIT_CODE_UNLIMITED), CREDIT_COUNT_UNLIMITED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rnr_timer_code_is_the_specified_wait),
		cmocka_unit_test(rnr_timer_waits_grow_with_the_code_except_code_zero),
		cmocka_unit_test(ack_timeout_doubles_with_each_code_and_zero_is_infinite),
		cmocka_unit_test(credit_code_of_a_count_never_promises_more),
		cmocka_unit_test(credit_count_of_a_code_is_the_specified_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
