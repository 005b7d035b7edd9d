/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "wire/opcode.h"

#define ROWS 65

static void opcode_that_is_unknown_has_no_info(void **state)
{
	static const uint8_t unknown[] = {0x15, 0x18, 0x1b, 0x1e, 0x1f, 0x2c, 0x37, 0x40, 0x44,
		0x63, 0x66, 0x80, 0x82, 0xb5, 0xc0, 0xff};
	int known_count = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(unknown); i++)
		assert_null(opcode_info(unknown[i]));
	for (int value = 0; value < 256; value++)
		known_count += opcode_info((uint8_t)value) != NULL;
	assert_int_equal(known_count, ROWS);
}

/* Header lengths added up by hand from the formats of IBTA 9.2 and 9.3, not from the table. */
static void opcode_header_bytes_are_those_of_the_specification(void **state)
{
	static const struct {
		uint8_t opcode;
		uint8_t bytes;
	} rows[] = {
		{0x00, 12},
		{0x03, 16},
		{0x06, 28},
		{0x0b, 32},
		{0x0c, 28},
		{0x0d, 16},
		{0x0e, 12},
		{0x11, 16},
		{0x12, 24},
		{0x13, 40},
		{0x14, 40},
		{0x17, 16},
		{0x1c, 32},
		{0x1d, 28},
		{0x24, 12},
		{0x2b, 32},
		{0x64, 20},
		{0x65, 24},
		{0x81, 12},
		{0xa0, 16},
		{0xab, 36},
		{0xb1, 16},
		{0xb3, 44},
		{0xb7, 20},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(opcode_info(rows[i].opcode)->header_bytes, rows[i].bytes);
}

static void opcode_of_another_class_is_the_same_operation(void **state)
{
	(void)state;
	for (int low = 0; low < 32; low++) {
		const struct opcode_info *rc = opcode_info((uint8_t)(OPCODE_CLASS_RC | low));
		const struct opcode_info *uc = opcode_info((uint8_t)(OPCODE_CLASS_UC | low));
		const struct opcode_info *xrc = opcode_info((uint8_t)(OPCODE_CLASS_XRC | low));
		bool is_request = rc && rc->role == OPCODE_ROLE_REQUEST;

		assert_int_equal(rc != NULL, xrc != NULL);
		if (uc) {
			assert_string_equal(uc->name + 3, rc->name + 3);
			assert_int_equal(uc->headers, rc->headers);
		}
		if (!rc)
			continue;
		assert_string_equal(xrc->name + 4, rc->name + 3);
		assert_int_equal(xrc->headers, rc->headers | (is_request ? HEADER_XRCETH : 0));
		assert_int_equal(xrc->operation, rc->operation);
		assert_int_equal(xrc->position, rc->position);
		assert_int_equal(xrc->payload, rc->payload);
	}
}

static void opcode_predicates_follow_the_row(void **state)
{
	const struct opcode_info *last_imm = opcode_info(OPCODE_RC_WRITE_LAST_IMM);
	const struct opcode_info *only_inv = opcode_info(OPCODE_RC_SEND_ONLY_INV);

	(void)state;
	assert_true(opcode_has_immediate(last_imm));
	assert_false(opcode_has_invalidate(last_imm));
	assert_false(opcode_begins_message(last_imm));
	assert_true(opcode_ends_message(last_imm));
	assert_true(opcode_has_invalidate(only_inv));
	assert_true(opcode_begins_message(only_inv));
	assert_true(opcode_ends_message(only_inv));
	assert_false(opcode_ends_message(opcode_info(OPCODE_RC_SEND_MIDDLE)));
	assert_int_equal(opcode_class(opcode_info(OPCODE_XRC_ACKNOWLEDGE)), OPCODE_CLASS_XRC);
	assert_int_equal(opcode_class(opcode_info(OPCODE_UD_SEND_ONLY)), OPCODE_CLASS_UD);
	assert_string_equal(opcode_info(0x0d)->name, "RC_READ_RESPONSE_FIRST");
}

static void payload_at_each_bound_fits_as_the_position_says(void **state)
{
	static const struct {
		uint8_t opcode;
		uint32_t bytes;
		bool fits;
	} rows[] = {
		{OPCODE_RC_SEND_FIRST, 1024, true},
		{OPCODE_RC_SEND_FIRST, 1023, false},
		{OPCODE_RC_SEND_FIRST, 1025, false},
		{OPCODE_RC_WRITE_MIDDLE, 1024, true},
		{OPCODE_RC_WRITE_MIDDLE, 0, false},
		{OPCODE_RC_SEND_LAST, 0, false},
		{OPCODE_RC_SEND_LAST, 1, true},
		{OPCODE_RC_SEND_LAST, 1024, true},
		{OPCODE_RC_SEND_LAST, 1025, false},
		{OPCODE_RC_SEND_ONLY, 0, true},
		{OPCODE_RC_SEND_ONLY, 1024, true},
		{OPCODE_RC_SEND_ONLY, 1025, false},
		{OPCODE_RC_READ_REQUEST, 0, true},
		{OPCODE_RC_READ_REQUEST, 4, false},
		{OPCODE_RC_ATOMIC_WRITE, 8, true},
		{OPCODE_RC_ATOMIC_WRITE, 4, false},
		{OPCODE_CNP_NOTIFICATION, 16, true},
		{OPCODE_CNP_NOTIFICATION, 0, false},
		{OPCODE_RC_ACKNOWLEDGE, 0, true},
		{OPCODE_RC_ACKNOWLEDGE, 1, false},
		{OPCODE_RC_ACKNOWLEDGE, 16, true},
		{OPCODE_RC_ACKNOWLEDGE, 17, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct opcode_info *info = opcode_info(rows[i].opcode);

		if (opcode_payload_fits(info, rows[i].bytes, 1024) != rows[i].fits)
			fail_msg("%s with %u bytes", info->name, rows[i].bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opcode_that_is_unknown_has_no_info),
		cmocka_unit_test(opcode_header_bytes_are_those_of_the_specification),
		cmocka_unit_test(opcode_of_another_class_is_the_same_operation),
		cmocka_unit_test(opcode_predicates_follow_the_row),
		cmocka_unit_test(payload_at_each_bound_fits_as_the_position_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
