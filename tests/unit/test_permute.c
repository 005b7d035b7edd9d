/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/permute.h"
#include "support/permutation.h"

enum { NUMBERS = 1 << 24, HALVES = PERMUTATION_HALF_COUNT };

static void back_undoes_forward_for_every_number(void **state)
{
	const struct permutation *permutation = test_permutation(1);

	(void)state;
	for (uint32_t i = 0; i < NUMBERS; i++) {
		uint32_t number = permute_forward(permutation, i);

		assert_true(number < NUMBERS);
		if (permute_back(permutation, number) != i)
			fail_msg("%u comes back as another number", i);
	}
}

static void any_bytes_make_a_permutation(void **state)
{
	static struct permutation permutation;

	(void)state;
	memset(&permutation, 0xff, sizeof(permutation));
	for (uint32_t i = 0; i < NUMBERS; i += 4099) {
		assert_true(permute_forward(&permutation, i) < NUMBERS);
		assert_int_equal(permute_back(&permutation, permute_forward(&permutation, i)), i);
	}
}

static uint32_t ones(uint64_t bits)
{
	return (uint32_t)__builtin_popcountll(bits);
}

/* Of two numbers that differ in one bit, the images differ in about half of theirs. */
static void one_bit_changes_half_of_the_bits(void **state)
{
	const struct permutation *permutation = test_permutation(2);
	uint64_t changed = 0, count = 0;

	(void)state;
	for (uint32_t i = 0; i < NUMBERS; i += 257, count++)
		changed += ones(permute_forward(permutation, i) ^
			permute_forward(permutation, i ^ 1u << count % 24));
	assert_in_range(changed * 1000 / count, 11950, 12050);
}

/*
 * Patarin's attack on four rounds: keep the right half of the inputs constant. Pairs of inputs
 * whose left halves differ by the same as those of their outputs are then twice as frequent as by
 * chance.
 */
static void images_do_not_tell_the_rounds(void **state)
{
	static uint32_t left[HALVES];
	const struct permutation *permutation = test_permutation(3);
	const uint32_t rights = 32, expected = rights * (HALVES - 1) / 2;
	uint32_t count = 0;

	(void)state;
	for (uint32_t right = 0; right < rights; right++) {
		for (uint32_t i = 0; i < HALVES; i++)
			left[i] =
				permute_forward(permutation, i << PERMUTATION_HALF_BITS | right) >>
				PERMUTATION_HALF_BITS;
		for (uint32_t i = 0; i < HALVES; i++)
			for (uint32_t j = 0; j < i; j++)
				count += (left[i] ^ left[j]) == (i ^ j);
	}
	assert_in_range(count, expected - expected / 20, expected + expected / 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(back_undoes_forward_for_every_number),
		cmocka_unit_test(any_bytes_make_a_permutation),
		cmocka_unit_test(one_bit_changes_half_of_the_bits),
		cmocka_unit_test(images_do_not_tell_the_rounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
