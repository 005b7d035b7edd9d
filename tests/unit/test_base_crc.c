/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/crc.h"
#include "support/crc_plain.h"

#define X_TO_0 0x80000000u
#define X_TO_1 0x40000000u
#define X_TO_8 0x00800000u

static void crc_of_the_check_string_is_the_published_one(void **state)
{
	(void)state;
	assert_int_equal(crc32_update(0, "123456789", 9), 0xcbf43926);
	assert_int_equal(crc32_plain(0, "123456789", 9), 0xcbf43926);
}

static void crc_of_any_length_and_alignment_equals_plain(void **state)
{
	uint8_t bytes[600];

	(void)state;
	srandom(1);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)random();
	for (size_t start = 0; start < 16; start++) {
		for (size_t length = 0; length < 520; length += 1 + start % 3) {
			uint32_t crc = (uint32_t)random();

			assert_int_equal(crc32_update(crc, bytes + start, length),
				crc32_plain(crc, bytes + start, length));
		}
	}
}

static void crc_of_two_parts_equals_the_whole(void **state)
{
	static const char text[] = "the quick brown fox jumps over the lazy dog, twice and again";

	(void)state;
	for (size_t cut = 0; cut <= sizeof(text); cut++) {
		uint32_t crc = crc32_update(0, text, cut);

		assert_int_equal(crc32_update(crc, text + cut, sizeof(text) - cut),
			crc32_update(0, text, sizeof(text)));
	}
}

static void multiply_by_one_changes_nothing(void **state)
{
	(void)state;
	assert_int_equal(crc32_multiply(X_TO_0, 0x12345678), 0x12345678);
	assert_int_equal(crc32_multiply(0x12345678, X_TO_0), 0x12345678);
	assert_int_equal(crc32_multiply(0, 0x12345678), 0);
	assert_int_equal(crc32_multiply(X_TO_1, X_TO_1), X_TO_1 >> 1);
}

static void multiply_is_commutative_and_distributive(void **state)
{
	(void)state;
	srandom(2);
	for (int i = 0; i < 1000; i++) {
		uint32_t a = (uint32_t)random() * 2654435761u;
		uint32_t b = (uint32_t)random() * 2654435761u;
		uint32_t c = (uint32_t)random() * 2654435761u;

		assert_int_equal(crc32_multiply(a, b), crc32_multiply(b, a));
		assert_int_equal(
			crc32_multiply(a, b ^ c), crc32_multiply(a, b) ^ crc32_multiply(a, c));
	}
}

static void shift_of_every_length_is_undone_by_unshift(void **state)
{
	uint32_t shift = X_TO_0;

	(void)state;
	for (size_t count = 0; count <= CRC32_UNSHIFT_BYTES_MAX; count++) {
		if (crc32_multiply(shift, crc32_unshift(count)) != X_TO_0)
			fail_msg("x^(8 * %zu) is not undone", count);
		if (crc32_shift(count) != shift)
			fail_msg("x^(8 * %zu) is not what was multiplied", count);
		shift = crc32_multiply(shift, X_TO_8);
	}
}

static void unshift_of_an_error_finds_the_bytes_that_differ(void **state)
{
	uint8_t a[100] = {0};
	uint8_t b[100] = {[60] = 0x12, [61] = 0x34, [62] = 0x56, [63] = 0x78};
	uint32_t error = crc32_update(0, a, sizeof(a)) ^ crc32_update(0, b, sizeof(b));

	(void)state;
	assert_int_equal(crc32_multiply(error, crc32_unshift(sizeof(a) - 60)), 0x78563412);
}

static void crc_by_tables_equals_the_other(void **state)
{
	static struct crc32_tables tables;
	uint8_t bytes[48];

	(void)state;
	crc32_tables_init(&tables);
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 29 + 3);
	for (uint32_t length = 0; length <= 40; length++)
		assert_int_equal(crc32_update_by(&tables, 12345, bytes + length % 8, length),
			crc32_update(12345, bytes + length % 8, length));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crc_of_the_check_string_is_the_published_one),
		cmocka_unit_test(crc_of_any_length_and_alignment_equals_plain),
		cmocka_unit_test(crc_of_two_parts_equals_the_whole),
		cmocka_unit_test(crc_by_tables_equals_the_other),
		cmocka_unit_test(multiply_by_one_changes_nothing),
		cmocka_unit_test(multiply_is_commutative_and_distributive),
		cmocka_unit_test(shift_of_every_length_is_undone_by_unshift),
		cmocka_unit_test(unshift_of_an_error_finds_the_bytes_that_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
