/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the states of a reliable connection beyond sending and receiving do: SQD.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/script.h"

static struct script script;

static int setup(void **state)
{
	(void)state;
	script_start(&script, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	script_end(&script);
	return 0;
}

/* What has the queue pair told the outside since the last time? */
static uint32_t news(void)
{
	uint32_t all = 0;
	uint32_t one;

	while (signal_take(&script.lane.signals, &one))
		all |= one;
	return all;
}

static int modify(enum qp_state to, uint32_t mask, const struct qp_attr *attr)
{
	return qp_modify(script.qp, to, ATTR_STATE | mask, attr, script.now_ns);
}

static void drain(void)
{
	struct qp_attr attr = {.is_drain_told = true};

	assert_int_equal(modify(QP_SQD, ATTR_SQD_NOTIFY, &attr), 0);
}

static void resume(void)
{
	assert_int_equal(modify(QP_RTS, 0, &(struct qp_attr){0}), 0);
}

static void sqd_with_nothing_under_way_is_drained_at_once(void **state)
{
	(void)state;
	drain();
	assert_int_equal(news(), SIGNAL_QP_DRAINED);
	assert_false(script.qp->is_sq_draining);
}

static void sqd_without_notification_tells_nothing(void **state)
{
	struct qp_attr attr = {.is_drain_told = true};

	(void)state;
	assert_int_equal(modify(QP_SQD, 0, &attr), 0);
	assert_int_equal(news(), 0);
	resume();
	attr.is_drain_told = false;
	assert_int_equal(modify(QP_SQD, ATTR_SQD_NOTIFY, &attr), 0);
	assert_int_equal(news(), 0);
}

static void sqd_ends_what_was_started_and_starts_nothing(void **state)
{
	(void)state;
	script_post(&script, WR_RDMA_WRITE, 3 * SCRIPT_MTU_BYTES, SEND_SIGNALED);
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_WRITE_FIRST, 0);
	drain();
	script_expect(&script, OPCODE_RC_WRITE_MIDDLE, 1);
	assert_true(script_expect(&script, OPCODE_RC_WRITE_LAST, 2)->bth.ack_requested);
	script_expect_silence(&script);
	assert_true(script.qp->is_sq_draining);
	script_send_ack(&script, 1, 0, SCRIPT_UNLIMITED);
	assert_true(script.qp->is_sq_draining);
	assert_int_equal(news(), 0);
	script_send_ack(&script, 2, 1, SCRIPT_UNLIMITED);
	assert_int_equal(news() & SIGNAL_QP_DRAINED, SIGNAL_QP_DRAINED);
	assert_false(script.qp->is_sq_draining);
	script_expect_completion(&script, 0, WC_SUCCESS);

	script_post(&script, WR_SEND, 2, SEND_SIGNALED);
	script_expect_silence(&script);
	script_pass(&script, 1000 * SCRIPT_MS);
	script_expect_silence(&script);
	resume();
	script_expect(&script, OPCODE_RC_SEND_ONLY, 3);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 4);
	assert_int_equal(news() & SIGNAL_QP_DRAINED, 0);
}

static void sqd_unsignaled_message_that_asked_for_nothing_still_drains(void **state)
{
	(void)state;
	script_post(&script, WR_SEND, 1, 0);
	script_post(&script, WR_SEND, 1, 0);
	assert_true(script_expect(&script, OPCODE_RC_SEND_ONLY, 0) != NULL);
	drain();
	script_expect_silence(&script);
	script_pass(&script, 100 * SCRIPT_MS);
	assert_true(script_expect(&script, OPCODE_RC_SEND_ONLY, 0)->bth.ack_requested);
	script_send_ack(&script, 0, 1, SCRIPT_UNLIMITED);
	assert_int_equal(news() & SIGNAL_QP_DRAINED, SIGNAL_QP_DRAINED);
}

static void sqd_waits_for_the_data_of_a_read(void **state)
{
	(void)state;
	script_post(&script, WR_RDMA_READ, 2 * SCRIPT_MTU_BYTES, SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_READ_REQUEST, 0);
	drain();
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_FIRST, 0, SCRIPT_MTU_BYTES);
	assert_int_equal(news() & SIGNAL_QP_DRAINED, 0);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_LAST, 1, SCRIPT_MTU_BYTES);
	assert_int_equal(news() & SIGNAL_QP_DRAINED, SIGNAL_QP_DRAINED);
}

static void sqd_sends_again_what_was_lost(void **state)
{
	(void)state;
	script_post(&script, WR_RDMA_WRITE, 3 * SCRIPT_MTU_BYTES, SEND_SIGNALED);
	assert_int_equal(script_drain(&script), 3);
	drain();
	script_send_nak(&script, 1, AETH_NAK_PSN_SEQUENCE);
	script_expect(&script, OPCODE_RC_WRITE_MIDDLE, 1);
	script_expect(&script, OPCODE_RC_WRITE_LAST, 2);
	script_send_ack(&script, 2, 1, SCRIPT_UNLIMITED);
	assert_int_equal(news() & SIGNAL_QP_DRAINED, SIGNAL_QP_DRAINED);
}

static void sqd_still_answers_the_peer(void **state)
{
	(void)state;
	drain();
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 10, 10);
	script_expect_ack(&script, 0, 1);
	script_send_read(&script, 1, 0, 10);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_ONLY, 1);
}

static void sqd_that_drains_allows_only_reset_and_error(void **state)
{
	struct qp_attr attr = {.timeout = 15};

	(void)state;
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	drain();
	assert_int_equal(modify(QP_RTS, 0, &attr), -EINVAL);
	assert_int_equal(modify(QP_SQD, ATTR_TIMEOUT, &attr), -EINVAL);
	assert_int_equal(modify(QP_ERR, 0, &attr), 0);
	script_expect_completion(&script, 0, WC_WR_FLUSH_ERR);
	assert_int_equal(news() & SIGNAL_QP_DRAINED, 0);
	assert_false(script.qp->is_sq_draining);
}

/* Retries that were used up before do not count after: the path may be another one. */
static void sqd_attributes_hold_from_the_next_request_on(void **state)
{
	struct qp_attr attr = {.timeout = 16, .retry_cnt = 1};

	(void)state;
	drain();
	assert_int_equal(modify(QP_SQD, ATTR_TIMEOUT | ATTR_RETRY_CNT, &attr), 0);
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	resume();
	script_drain(&script);
	while (script_counter(&script, COUNTER_retry_exceeded_err) == 0) {
		script_pass(&script, SCRIPT_MS);
		script_drain(&script);
	}
	/* Twice 268 ms. */
	assert_int_equal(script_counter(&script, COUNTER_local_ack_timeout_err), 2);
	assert_in_range(script.now_ns / SCRIPT_MS - 1000, 536, 545);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sqd_with_nothing_under_way_is_drained_at_once),
		TEST(sqd_without_notification_tells_nothing),
		TEST(sqd_ends_what_was_started_and_starts_nothing),
		TEST(sqd_unsignaled_message_that_asked_for_nothing_still_drains),
		TEST(sqd_waits_for_the_data_of_a_read),
		TEST(sqd_sends_again_what_was_lost),
		TEST(sqd_still_answers_the_peer),
		TEST(sqd_that_drains_allows_only_reset_and_error),
		TEST(sqd_attributes_hold_from_the_next_request_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
