/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capture/pcapng.h"

/*
 * The written file, read as the draft defines it: blocks of (type, length, body, length), each a
 * multiple of four bytes.
 */
static char *written;
static size_t written_bytes, at;
static FILE *file;

static int setup(void **state)
{
	(void)state;
	written = NULL;
	at = 0;
	file = open_memstream(&written, &written_bytes);
	assert_non_null(file);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fclose(file);
	free(written);
	return 0;
}

static uint32_t word(size_t offset)
{
	uint32_t value;

	assert_true(offset + sizeof(value) <= written_bytes);
	memcpy(&value, written + offset, sizeof(value));
	return value;
}

static uint16_t half(size_t offset)
{
	uint16_t value;

	assert_true(offset + sizeof(value) <= written_bytes);
	memcpy(&value, written + offset, sizeof(value));
	return value;
}

/* The next block is of this type. Returns where its body is. */
static size_t block(uint32_t type, size_t *ret_end)
{
	size_t start = at;
	uint32_t bytes;

	fflush(file);
	assert_int_equal(word(start), type);
	bytes = word(start + 4);
	assert_int_equal(bytes % 4, 0);
	assert_int_equal(word(start + bytes - 4), bytes);
	at += bytes;
	*ret_end = start + bytes - 4;
	return start + 8;
}

static bool is_text(size_t offset, size_t bytes, const char *text)
{
	return strlen(text) == bytes && memcmp(written + offset, text, bytes) == 0;
}

/* An option of the list that begins there, or 0. The list ends where the block does. */
static size_t option(size_t list, size_t end, uint16_t code, uint16_t *ret_bytes)
{
	size_t found = 0;

	while (half(list) != 0) {
		if (half(list) == code) {
			found = list + 4;
			*ret_bytes = half(list + 2);
		}
		list += 4 + ((half(list + 2) + 3u) & ~3u);
	}
	assert_int_equal(half(list + 2), 0);
	assert_int_equal(list + 4, end);
	return found;
}

static void assert_option_is(size_t list, size_t end, uint16_t code, const char *text)
{
	uint16_t bytes;
	size_t found = option(list, end, code, &bytes);

	assert_true(found && is_text(found, bytes, text));
}

static void section_begins_with_its_byte_order_and_version(void **state)
{
	size_t end, body;

	(void)state;
	pcapng_begin(file, "urnic 1");
	body = block(0x0a0d0d0a, &end);
	assert_int_equal(word(body), 0x1a2b3c4d);
	assert_int_equal(half(body + 4), 1);
	assert_int_equal(half(body + 6), 0);
	assert_int_equal(word(body + 8), UINT32_MAX);
	assert_int_equal(word(body + 12), UINT32_MAX);
	assert_option_is(body + 16, end, 4, "urnic 1");
	assert_int_equal(at, written_bytes);
}

static void interface_has_a_name_and_nanoseconds(void **state)
{
	uint16_t bytes;
	size_t end, body, found;

	(void)state;
	pcapng_interface(file, PCAPNG_IP, "rocep_lo (local)", "said", 128);
	body = block(1, &end);
	assert_int_equal(half(body), 101);
	assert_int_equal(half(body + 2), 0);
	assert_int_equal(word(body + 4), 128);
	assert_option_is(body + 8, end, 2, "rocep_lo (local)");
	assert_option_is(body + 8, end, 3, "said");
	found = option(body + 8, end, 9, &bytes);
	assert_true(found && bytes == 1 && written[found] == 9);
}

static void packets_are_whole_words(void **state)
{
	uint8_t bytes[9];
	uint16_t option_bytes;

	(void)state;
	memset(bytes, 0x11, sizeof(bytes));
	for (uint32_t count = 0; count <= sizeof(bytes); count++) {
		const struct pcapng_packet packet = {
			.interface = 3,
			.time_ns = 0x1122334455667788,
			.bytes = bytes,
			.count = count,
			.whole = 1000,
			.is_outbound = count % 2,
			.dropped = count,
			.comment = "what it is",
		};
		size_t end, body, options, found;

		pcapng_packet(file, &packet);
		body = block(6, &end);
		options = body + 20 + ((count + 3) & ~3u);
		assert_int_equal(word(body), 3);
		assert_int_equal(word(body + 4), 0x11223344);
		assert_int_equal(word(body + 8), 0x55667788);
		assert_int_equal(word(body + 12), count);
		assert_int_equal(word(body + 16), 1000);
		assert_memory_equal(written + body + 20, bytes, count);
		for (size_t i = body + 20 + count; i < options; i++)
			assert_int_equal(written[i], 0);
		assert_option_is(options, end, 1, "what it is");
		found = option(options, end, 2, &option_bytes);
		assert_int_equal(word(found), count % 2 ? 2 : 1);
		found = option(options, end, 4, &option_bytes);
		assert_int_equal(found != 0, count != 0);
		assert_true(!found || (option_bytes == 8 && word(found) == count));
	}
}

static void statistics_say_what_was_lost(void **state)
{
	uint16_t bytes = 0;
	size_t end, body, found;

	(void)state;
	pcapng_statistics(file, 2, 5, 100, 7);
	body = block(5, &end);
	assert_int_equal(word(body), 2);
	assert_int_equal(word(body + 8), 5);
	found = option(body + 12, end, 4, &bytes);
	assert_true(bytes == 8 && word(found) == 100);
	found = option(body + 12, end, 5, &bytes);
	assert_true(bytes == 8 && word(found) == 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			section_begins_with_its_byte_order_and_version, setup, teardown),
		cmocka_unit_test_setup_teardown(
			interface_has_a_name_and_nanoseconds, setup, teardown),
		cmocka_unit_test_setup_teardown(packets_are_whole_words, setup, teardown),
		cmocka_unit_test_setup_teardown(statistics_say_what_was_lost, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
