/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The matching list, also against a naive twin: an array that is searched from the front.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "queue/tags.h"
#include "support/sim_random.h"

enum { COUNT = 8, STEPS = 50000 };

static struct tags *tags;
static uint32_t plain_count; /* ordinary requests */

static int setup(void **state)
{
	(void)state;
	tags = tags_create(COUNT);
	plain_count = 0;
	return tags ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	tags_check(tags);
	tags_destroy(tags);
	return 0;
}

static bool take_plain(void *context, struct recv_wqe *wqe)
{
	(void)context;
	if (!plain_count)
		return false;
	plain_count--;
	wqe->wr_id = 999;
	return true;
}

static enum tag_match take(uint64_t tag, struct recv_wqe *wqe)
{
	enum tag_match match = tags_take(tags, tag, true, take_plain, NULL, wqe);

	tags_check(tags);
	return match;
}

static int add(uint64_t wr_id, uint64_t tag, uint64_t mask, uint32_t *ret_handle)
{
	struct sge sge[2] = {{wr_id, 10, 1}, {wr_id + 1, 20, 2}};
	struct tag_wr wr = {.operation = TAG_ADD,
		.recv_wr_id = wr_id,
		.tag = tag,
		.mask = mask,
		.sge = sge,
		.sge_count = 2};
	struct cqe cqe;
	int error = tags_execute(tags, &wr, &cqe);

	tags_check(tags);
	if (!error) {
		assert_int_equal(cqe.opcode, WC_TM_ADD);
		if (ret_handle)
			*ret_handle = wr.handle;
	}
	return error;
}

static int drop(uint32_t handle, struct cqe *cqe)
{
	struct tag_wr wr = {.operation = TAG_REMOVE, .handle = handle, .wr_id = 5};
	int error = tags_execute(tags, &wr, cqe);

	tags_check(tags);
	return error;
}

static uint32_t sync_flags(uint32_t handled_count)
{
	struct tag_wr wr = {.operation = TAG_SYNC, .unexpected_count = handled_count};
	struct cqe cqe;

	assert_int_equal(tags_execute(tags, &wr, &cqe), 0);
	assert_int_equal(cqe.opcode, WC_TM_SYNC);
	tags_check(tags);
	return cqe.flags;
}

static void tags_message_takes_the_oldest_buffer_that_fits(void **state)
{
	struct recv_wqe wqe;

	(void)state;
	add(1, 0x10, 0xff, NULL);
	add(2, 0x20, 0xff, NULL);
	add(3, 0x20, 0xf0, NULL);
	assert_int_equal(take(0x1120, &wqe), TAG_MATCHED);
	assert_int_equal(wqe.wr_id, 2);
	assert_int_equal(wqe.sge_count, 2);
	assert_int_equal(wqe.total_bytes, 30);
	assert_int_equal(wqe.sge[1].address, 3);
	assert_int_equal(take(0x20, &wqe), TAG_MATCHED);
	assert_int_equal(wqe.wr_id, 3);
	assert_int_equal(take(0x20, &wqe), TAG_NOT_READY);
	plain_count = 1;
	assert_int_equal(take(0x20, &wqe), TAG_UNEXPECTED);
	assert_int_equal(wqe.wr_id, 999);
}

static void tags_message_that_may_not_match_takes_nothing(void **state)
{
	struct recv_wqe wqe;

	(void)state;
	plain_count = 1;
	add(1, 0x10, ~0ull, NULL);
	assert_int_equal(tags_take(tags, 0x10, false, take_plain, NULL, &wqe), TAG_NOT_READY);
	assert_int_equal(plain_count, 1);
	assert_int_equal(take(0x10, &wqe), TAG_MATCHED);
}

static void tags_added_after_an_unexpected_message_wait_for_the_program(void **state)
{
	struct recv_wqe wqe;

	(void)state;
	add(1, 1, ~0ull, NULL);
	plain_count = 3;
	assert_int_equal(take(7, &wqe), TAG_UNEXPECTED);
	add(2, 7, ~0ull, NULL);
	assert_int_equal(take(7, &wqe), TAG_UNEXPECTED);
	assert_int_equal(take(1, &wqe), TAG_MATCHED); /* it was there before */
	assert_int_equal(sync_flags(1), WC_TM_SYNC_REQ);
	assert_int_equal(take(7, &wqe), TAG_UNEXPECTED);
	assert_int_equal(sync_flags(3), 0);
	assert_int_equal(take(7, &wqe), TAG_MATCHED);
	assert_int_equal(wqe.wr_id, 2);
}

/* A program adds a buffer while a message takes a request. */
static bool adds_and_takes(void *context, struct recv_wqe *wqe)
{
	struct tag_wr wr = {.operation = TAG_ADD, .tag = 7, .mask = UINT64_MAX, .recv_wr_id = 70};
	struct cqe cqe;
	const bool *has_request = context;

	assert_int_equal(tags_execute(tags, &wr, &cqe), 0);
	wqe->wr_id = 1;
	return *has_request;
}

static void tags_buffer_added_while_a_request_is_taken_is_for_later_messages(void **state)
{
	struct recv_wqe wqe;
	bool has_request = true;

	(void)state;
	assert_int_equal(
		tags_take(tags, 7, true, adds_and_takes, &has_request, &wqe), TAG_UNEXPECTED);
	/* The program has not yet handled the first message, which may match the buffer. */
	has_request = false;
	assert_int_equal(
		tags_take(tags, 7, true, adds_and_takes, &has_request, &wqe), TAG_NOT_READY);
	tags_check(tags);
}

static void tags_buffer_added_while_no_request_is_there_is_found(void **state)
{
	struct recv_wqe wqe;
	bool has_request = false;

	(void)state;
	assert_int_equal(
		tags_take(tags, 7, true, adds_and_takes, &has_request, &wqe), TAG_NOT_READY);
	tags_check(tags);
	assert_int_equal(tags_take(tags, 7, true, adds_and_takes, &has_request, &wqe), TAG_MATCHED);
	assert_int_equal(wqe.wr_id, 70);
}

static void tags_full_list_takes_no_more(void **state)
{
	struct recv_wqe wqe;

	(void)state;
	for (uint64_t i = 0; i < COUNT; i++)
		assert_int_equal(add(i, i, ~0ull, NULL), 0);
	assert_int_equal(add(9, 9, ~0ull, NULL), -ENOMEM);
	assert_int_equal(take(3, &wqe), TAG_MATCHED);
	assert_int_equal(add(9, 9, ~0ull, NULL), 0);
}

static void tags_handle_of_a_buffer_that_is_gone_is_an_error_in_the_completion(void **state)
{
	struct recv_wqe wqe;
	uint32_t handle = 0;
	struct cqe cqe;

	(void)state;
	assert_int_equal(drop(0, &cqe), -EINVAL);
	assert_int_equal(drop(COUNT, &cqe), -EINVAL);
	add(1, 1, ~0ull, &handle);
	assert_int_equal(drop(handle, &cqe), 0);
	assert_int_equal(cqe.status, WC_SUCCESS);
	assert_int_equal(cqe.opcode, WC_TM_DEL);
	assert_int_equal(cqe.wr_id, 5);
	assert_int_equal(drop(handle, &cqe), 0);
	assert_int_equal(cqe.status, WC_TM_ERR);
	add(2, 2, ~0ull, &handle);
	assert_int_equal(take(2, &wqe), TAG_MATCHED);
	assert_int_equal(drop(handle, &cqe), 0);
	assert_int_equal(cqe.fault, FAULT_TAG_GONE);
}

static void tags_operation_that_is_none_is_refused(void **state)
{
	struct tag_wr wr = {.operation = 3};
	struct cqe cqe;

	(void)state;
	assert_int_equal(tags_execute(tags, &wr, &cqe), -EINVAL);
	wr.operation = TAG_ADD;
	wr.sge_count = SGE_COUNT_MAX + 1;
	assert_int_equal(tags_execute(tags, &wr, &cqe), -EINVAL);
}

/* --- the twin --- */

struct twin_entry {
	uint64_t wr_id, tag, mask;
	uint32_t handle;
	bool is_active;
};

static struct twin_entry twin[COUNT];
static uint32_t twin_count, twin_unexpected, twin_handled;

static void twin_erase(uint32_t index)
{
	twin_count--;
	memmove(&twin[index], &twin[index + 1], (twin_count - index) * sizeof(twin[0]));
}

static void twin_take(uint64_t tag)
{
	struct recv_wqe wqe;

	plain_count = 1;
	enum tag_match match = take(tag, &wqe);
	for (uint32_t i = 0; i < twin_count; i++) {
		if (!twin[i].is_active || (tag & twin[i].mask) != twin[i].tag)
			continue;
		assert_int_equal(match, TAG_MATCHED);
		assert_int_equal(wqe.wr_id, twin[i].wr_id);
		twin_erase(i);
		return;
	}
	assert_int_equal(match, TAG_UNEXPECTED);
	twin_unexpected++;
}

static void twin_sync(uint32_t handled)
{
	twin_handled = handled;
	assert_int_equal(sync_flags(handled), handled == twin_unexpected ? 0 : WC_TM_SYNC_REQ);
	for (uint32_t i = 0; i < twin_count; i++)
		twin[i].is_active |= handled == twin_unexpected;
}

static void tags_agree_with_a_naive_list(void **state)
{
	struct sim_random random = {7};
	uint64_t wr_id = 0;

	(void)state;
	twin_count = twin_unexpected = twin_handled = 0;
	for (uint32_t step = 0; step < STEPS; step++) {
		uint64_t mask = sim_random_below(&random, 4) ? 7 : 3;
		uint64_t tag = sim_random_below(&random, 8);
		uint32_t handle, index = (uint32_t)sim_random_below(&random, COUNT);
		struct cqe cqe;

		switch (sim_random_below(&random, 5)) {
		case 0:
		case 1:
			if (add(++wr_id, tag & mask, mask, &handle)) {
				assert_int_equal(twin_count, COUNT);
				break;
			}
			twin[twin_count++] = (struct twin_entry){
				wr_id, tag & mask, mask, handle, twin_unexpected == twin_handled};
			break;
		case 2:
		case 3:
			twin_take(tag);
			break;
		default:
			if (index < twin_count && sim_random_below(&random, 3) == 0) {
				assert_int_equal(drop(twin[index].handle, &cqe), 0);
				assert_int_equal(cqe.status, WC_SUCCESS);
				twin_erase(index);
			} else {
				twin_sync(twin_unexpected -
					(uint32_t)(sim_random_below(&random, 4) == 0));
			}
		}
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(tags_message_takes_the_oldest_buffer_that_fits),
		TEST(tags_message_that_may_not_match_takes_nothing),
		TEST(tags_added_after_an_unexpected_message_wait_for_the_program),
		TEST(tags_buffer_added_while_a_request_is_taken_is_for_later_messages),
		TEST(tags_buffer_added_while_no_request_is_there_is_found),
		TEST(tags_full_list_takes_no_more),
		TEST(tags_handle_of_a_buffer_that_is_gone_is_an_error_in_the_completion),
		TEST(tags_operation_that_is_none_is_refused),
		TEST(tags_agree_with_a_naive_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
