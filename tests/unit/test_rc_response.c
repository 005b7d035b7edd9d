/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the responder owes, and in which order it says so, against a scripted peer.
 */
#include <string.h>

#include "ib/rc/rc.h"
#include "support/rc_script.h"
#include "wire/credit.h"

static void response_acks_are_coalesced(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 5; i++)
		script_send_write(&script, OPCODE_RC_WRITE_ONLY, i, 1, 1);
	script_expect_ack(&script, 4, 5);
	script_expect_silence(&script);
}

static void response_is_not_sent_where_none_was_asked_for(void **state)
{
	struct packet packet = script_packet(&script, OPCODE_RC_WRITE_ONLY, 0);

	(void)state;
	packet.bth.ack_requested = false;
	script_send(&script, &packet);
	script_expect_silence(&script);
}

static void response_ack_waits_behind_the_read_before_it(void **state)
{
	(void)state;
	script_send_read(&script, 0, 0, 2 * SCRIPT_MTU_BYTES);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 2, 1, 1);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_FIRST, 0);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_LAST, 1);
	script_expect_ack(&script, 2, 2);
	script_expect_silence(&script);
}

static void response_nak_waits_behind_the_read_before_it(void **state)
{
	(void)state;
	script_send_read(&script, 0, 0, 8);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 2, 1, 1);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0);
	script_expect_nak(&script, 1, AETH_NAK_PSN_SEQUENCE);
}

static void response_ack_carries_the_receive_requests_as_credits(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 6; i++)
		script_post_receive(&script, 10);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 1);
	script_expect_ack(&script, 0, 1);
	assert_int_equal(script.packet.aeth.value, credit_code(5));
}

static void response_fatal_nak_is_repeated_to_who_asks_again(void **state)
{
	(void)state;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 1, 1);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 1, 1, 2);
	script_expect_refusal(&script, 1, AETH_NAK_INVALID_REQUEST);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 1, 1, 2);
	script_expect_refusal(&script, 1, AETH_NAK_INVALID_REQUEST);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 2, 1, 1);
	script_expect_refusal(&script, 1, AETH_NAK_INVALID_REQUEST);
	/* The ACK before it may have been lost with it. */
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 1, 1);
	script_expect_ack(&script, 0, 1);
}

static void response_ack_that_is_owed_outlives_an_error_of_our_own(void **state)
{
	(void)state;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 1, 1);
	assert_int_equal(qp_modify(script.qp, QP_ERR, ATTR_STATE, &(struct qp_attr){0}, 1), 0);
	script_expect_ack(&script, 0, 1);
	script_expect_silence(&script);
}

static void response_ack_behind_a_read_that_is_not_answered_is_dropped(void **state)
{
	(void)state;
	script_send_read(&script, 0, 0, 1);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 1, 1, 1);
	assert_int_equal(qp_modify(script.qp, QP_ERR, ATTR_STATE, &(struct qp_attr){0}, 1), 0);
	script_expect_silence(&script);
}

static void response_nothing_is_said_in_an_error_state_of_our_own(void **state)
{
	(void)state;
	assert_int_equal(qp_modify(script.qp, QP_ERR, ATTR_STATE, &(struct qp_attr){0}, 1), 0);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 1, 1);
	script_expect_silence(&script);
	script_expect_untouched(&script);
	assert_int_equal(script_counter(&script, COUNTER_bad_state_drops), 1);
}

static void response_receive_that_overruns_its_queue_is_not_acknowledged(void **state)
{
	uint32_t bits = 0;

	(void)state;
	restart(&(struct script_options){.cq_entries = 1});
	script_post_receive(&script, 10);
	script_post_receive(&script, 10);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 1);
	script_expect_ack(&script, 0, 1);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 1, 1);
	script_expect_silence(&script);
	assert_int_equal(script.qp->state, QP_ERR);
	bits |= script_news(&script);
	bits |= script_news(&script);
	assert_int_equal(bits, SIGNAL_QP_FATAL | SIGNAL_CQ_OVERRUN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(response_acks_are_coalesced),
		TEST(response_is_not_sent_where_none_was_asked_for),
		TEST(response_ack_waits_behind_the_read_before_it),
		TEST(response_nak_waits_behind_the_read_before_it),
		TEST(response_ack_carries_the_receive_requests_as_credits),
		TEST(response_fatal_nak_is_repeated_to_who_asks_again),
		TEST(response_ack_that_is_owed_outlives_an_error_of_our_own),
		TEST(response_ack_behind_a_read_that_is_not_answered_is_dropped),
		TEST(response_nothing_is_said_in_an_error_state_of_our_own),
		TEST(response_receive_that_overruns_its_queue_is_not_acknowledged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
