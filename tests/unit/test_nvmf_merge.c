/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes of parts of blocks at once. The device keeps its requests until the test serves them, the
 * newest first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "nvmf/host/block/block_merge.h"

enum { BLOCK_BYTES = 65536, BLOCKS = 8, PAGE_BYTES = 4096, WRITES = 16 };

struct write {
	struct block_change change;
	bool is_done;
	int error;
	uint8_t data[2 * BLOCK_BYTES];
	uint8_t blocks[3 * BLOCK_BYTES];
};

static struct block_device device;
static struct block_merger merger;
static struct write writes[WRITES];
static struct block_request *kept[WRITES];
static unsigned kept_count; /* requests that the device has */
static int device_error;
static uint8_t contents[BLOCK_BYTES * BLOCKS];

static void device_submit(struct block_device *self, struct block_request *request)
{
	(void)self;
	assert_in_range(kept_count, 0, WRITES - 1);
	kept[kept_count++] = request;
}

static const struct block_device_ops device_ops = {.submit = device_submit};

static int device_begin(void **state)
{
	(void)state;
	device = (struct block_device){.ops = &device_ops,
		.size_bytes = sizeof(contents),
		.block_bytes = BLOCK_BYTES,
		.has_write_zeroes = true};
	device_error = 0;
	memset(contents, 0, sizeof(contents));
	block_merger_init(&merger, &device);
	return 0;
}

static void request_serve(struct block_request *request)
{
	uint8_t *place = contents + request->offset_bytes;

	if (request->op == BLOCK_READ)
		memcpy(request->data, place, request->length_bytes);
	else if (request->op == BLOCK_WRITE)
		memcpy(place, request->data, request->length_bytes);
	else
		memset(place, 0, request->length_bytes);
	request->done(request, device_error);
}

/* Serve all requests that the device has, then those that follow from them. */
static void device_serve(void)
{
	struct block_request *present[WRITES];

	while (kept_count) {
		unsigned count = kept_count;

		memcpy(present, kept, sizeof(kept));
		kept_count = 0;
		while (count)
			request_serve(present[--count]);
	}
}

static void write_done(struct block_change *change, int error)
{
	struct write *write = container_of(change, struct write, change);

	assert_false(write->is_done);
	write->is_done = true;
	write->error = error;
}

static void change_start(
	struct write *write, enum block_op op, uint64_t offset, uint64_t bytes, uint8_t value)
{
	memset(write->data, value, sizeof(write->data));
	assert_in_range(block_merge_bytes(&device, offset, bytes), 0, sizeof(write->blocks));
	write->is_done = false;
	write->change = (struct block_change){.op = op,
		.offset_bytes = offset,
		.length_bytes = bytes,
		.data = write->data,
		.blocks = write->blocks,
		.done = write_done};
	block_merge(&merger, &write->change);
}

static void expect_bytes(uint64_t offset, uint64_t bytes, uint8_t value)
{
	for (uint64_t i = offset; i < offset + bytes; i++)
		if (contents[i] != value)
			fail_msg("byte %llu is %02x, not %02x", (unsigned long long)i, contents[i],
				value);
}

/* The kernel writes dirty pages of a mapping so. */
static void writes_of_the_pages_of_a_block_are_all_kept(void **state)
{
	(void)state;
	for (unsigned i = 0; i < WRITES; i++)
		change_start(&writes[i], BLOCK_WRITE, BLOCK_BYTES + i * PAGE_BYTES, PAGE_BYTES,
			(uint8_t)(i + 1));
	device_serve();
	for (unsigned i = 0; i < WRITES; i++) {
		assert_true(writes[i].is_done);
		assert_int_equal(writes[i].error, 0);
		expect_bytes(BLOCK_BYTES + i * PAGE_BYTES, PAGE_BYTES, (uint8_t)(i + 1));
	}
	expect_bytes(0, BLOCK_BYTES, 0);
	expect_bytes(2 * BLOCK_BYTES, BLOCK_BYTES, 0);
}

static void change_of_whole_blocks_waits_for_a_part_of_them(void **state)
{
	(void)state;
	change_start(&writes[0], BLOCK_WRITE, PAGE_BYTES, PAGE_BYTES, 1);
	change_start(&writes[1], BLOCK_WRITE, 0, 2 * BLOCK_BYTES, 2);
	change_start(&writes[2], BLOCK_WRITE, BLOCK_BYTES + 1, 1, 3);
	device_serve();
	expect_bytes(0, BLOCK_BYTES + 1, 2);
	expect_bytes(BLOCK_BYTES + 1, 1, 3);
	expect_bytes(BLOCK_BYTES + 2, BLOCK_BYTES - 2, 2);
	change_start(&writes[0], BLOCK_WRITE, BLOCK_BYTES - 1, 2, 4);
	change_start(&writes[1], BLOCK_WRITE_ZEROES, BLOCK_BYTES, BLOCK_BYTES, 0);
	device_serve();
	expect_bytes(BLOCK_BYTES - 1, 1, 4);
	expect_bytes(BLOCK_BYTES, BLOCK_BYTES, 0);
}

/* The device serves the newest request first, so each of them has begun. */
static void changes_of_other_or_of_whole_blocks_do_not_wait(void **state)
{
	(void)state;
	change_start(&writes[0], BLOCK_WRITE, 0, BLOCK_BYTES, 1);
	change_start(&writes[1], BLOCK_WRITE, 0, BLOCK_BYTES, 2);
	change_start(&writes[2], BLOCK_WRITE, BLOCK_BYTES + 1, 1, 3);
	change_start(&writes[3], BLOCK_WRITE, 3 * BLOCK_BYTES + 1, 1, 4);
	for (int i = 0; i < 4; i++)
		assert_true(writes[i].change.has_begun);
	device_serve();
	expect_bytes(0, BLOCK_BYTES, 1);
	expect_bytes(BLOCK_BYTES + 1, 1, 3);
	expect_bytes(3 * BLOCK_BYTES + 1, 1, 4);
}

static void error_ends_one_change_and_the_next_one_begins(void **state)
{
	(void)state;
	change_start(&writes[0], BLOCK_WRITE, 1, 1, 1);
	change_start(&writes[1], BLOCK_WRITE, 2, 1, 2);
	change_start(&writes[2], BLOCK_WRITE, sizeof(contents) - 1, 2, 3);
	assert_true(writes[2].is_done);
	assert_int_equal(writes[2].error, -EINVAL);
	device_error = -EIO;
	device_serve();
	for (int i = 0; i < 2; i++) {
		assert_true(writes[i].is_done);
		assert_int_equal(writes[i].error, -EIO);
	}
	device_error = 0;
	change_start(&writes[0], BLOCK_WRITE, 1, 1, 1);
	device_serve();
	assert_int_equal(writes[0].error, 0);
	expect_bytes(1, 1, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, device_begin)
	const struct CMUnitTest tests[] = {
		TEST(writes_of_the_pages_of_a_block_are_all_kept),
		TEST(change_of_whole_blocks_waits_for_a_part_of_them),
		TEST(changes_of_other_or_of_whole_blocks_do_not_wait),
		TEST(error_ends_one_change_and_the_next_one_begins),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
