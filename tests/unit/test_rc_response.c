/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder's pending responses and their order, against a scripted peer.
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

/* The second packet may be of an earlier connection, and the peer ignores a NAK for packet 1. */
static void response_sequence_nak_follows_the_pending_ack(void **state)
{
	(void)state;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 1, 1);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 7, 1, 1);
	script_expect_ack(&script, 0, 1);
	script_expect_nak(&script, 1, AETH_NAK_PSN_SEQUENCE);
	script_expect_silence(&script);
}

static void response_ack_and_sequence_nak_wait_behind_the_read_before_them(void **state)
{
	(void)state;
	script_send_read(&script, 0, 0, 8);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 1, 1, 1);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 7, 1, 1);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0);
	script_expect_ack(&script, 1, 2);
	script_expect_nak(&script, 2, AETH_NAK_PSN_SEQUENCE);
	script_expect_silence(&script);
}

/* A queue pair in error drops the NAK, but not the acknowledgement. */
static void response_ack_outlives_the_sequence_nak_behind_it(void **state)
{
	(void)state;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 1, 1);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 7, 1, 1);
	assert_int_equal(qp_modify(script.qp, QP_ERR, ATTR_STATE, &(struct qp_attr){0}, 1), 0);
	script_expect_ack(&script, 0, 1);
	script_expect_silence(&script);
}

static void response_nak_of_a_request_replaces_the_pending_ack(void **state)
{
	(void)state;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 1, 1);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 1, 1);
	script_expect_rnr(&script, 1);
	script_expect_silence(&script);
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

static void response_pending_ack_outlives_an_error_of_our_own(void **state)
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
	bits |= script_events(&script);
	bits |= script_events(&script);
	assert_int_equal(bits, SIGNAL_QP_FATAL | SIGNAL_CQ_OVERRUN);
}

/* Responses come in runs, which end with the one that reaches `run_bytes`. */
static void runs_allow(uint32_t run_bytes)
{
	script.lane.zerocopy_bytes_min = SCRIPT_MTU_BYTES;
	script.run.run_bytes = run_bytes;
}

/* `packets` of the middle at once, from packet `index` of a READ of all memory on. */
static void expect_read_run(uint32_t index, uint32_t packets)
{
	const uint32_t bytes = BTH_BYTES + SCRIPT_MTU_BYTES;
	struct bth first = script_expect(&script, OPCODE_RC_READ_RESPONSE_MIDDLE, index)->bth;

	assert_int_equal(script.run.packets, packets);
	assert_null(script.run.borrowed);
	for (uint32_t i = 0; i < packets; i++) {
		const uint8_t *packet = script.wire + (size_t)i * (bytes + ROCE_ICRC_BYTES);
		struct bth bth;

		bth_decode(&bth, packet);
		assert_int_equal(bth.opcode, OPCODE_RC_READ_RESPONSE_MIDDLE);
		assert_int_equal(bth.dest_qpn.value, first.dest_qpn.value);
		assert_int_equal(bth.psn.value, psn_add(first.psn, i).value);
		assert_memory_equal(packet + BTH_BYTES,
			script.memory + (size_t)(index + i) * SCRIPT_MTU_BYTES, SCRIPT_MTU_BYTES);
	}
}

static void response_read_comes_in_runs_of_its_middle(void **state)
{
	const uint32_t five_bytes = 5 * (BTH_BYTES + SCRIPT_MTU_BYTES);
	uint64_t before = script_counter(&script, COUNTER_sent_bytes);

	(void)state;
	runs_allow(five_bytes);
	script_send_read(&script, 0, 0, 14 * SCRIPT_MTU_BYTES - 1);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_FIRST, 0);
	assert_int_equal(script.run.packets, 1);
	expect_read_run(1, 5);
	runs_allow(five_bytes + 1);
	expect_read_run(6, 6);
	expect_read_run(12, 1);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_LAST, 13);
	script_expect_silence(&script);
	assert_int_equal(
		script_counter(&script, COUNTER_sent_bytes) - before, 14 * SCRIPT_MTU_BYTES - 1);
	/* Again, from the middle on. */
	script_send_read(&script, 3, 3 * SCRIPT_MTU_BYTES, 11 * SCRIPT_MTU_BYTES - 1);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_FIRST, 3);
	expect_read_run(4, 6);
	expect_read_run(10, 3);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_LAST, 13);
}

static void response_packets_are_single_where_no_runs_are_wanted(void **state)
{
	(void)state;
	runs_allow(0);
	script_send_read(&script, 0, 0, 4 * SCRIPT_MTU_BYTES);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_FIRST, 0);
	expect_read_run(1, 1);
	runs_allow(UINT32_MAX);
	script.lane.zerocopy_bytes_min = SCRIPT_MTU_BYTES + 1;
	expect_read_run(2, 1);
}

static const uint8_t *missing; /* from here on, memory cannot be touched */

static bool is_there(void *address, uint64_t bytes, bool is_written)
{
	(void)is_written;
	return (uint8_t *)address + bytes <= missing;
}

static void response_run_ends_where_memory_is_missing(void **state)
{
	const struct mr_region region = {.pd = SCRIPT_PD,
		.access = MR_LOCAL_WRITE | MR_REMOTE_READ | MR_ON_DEMAND,
		.iova = (uintptr_t)script.memory,
		.bytes = SCRIPT_MEMORY_BYTES,
		.address = script.memory};

	(void)state;
	assert_int_equal(mr_table_change(&script.mrs, script.key, SCRIPT_PD, &region), 0);
	script.mrs.touch = is_there;
	missing = script.memory + 4 * SCRIPT_MTU_BYTES;
	runs_allow(UINT32_MAX);
	script_send_read(&script, 0, 0, 9 * SCRIPT_MTU_BYTES);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_FIRST, 0);
	expect_read_run(1, 3);
	script_expect_nak(&script, 4, AETH_NAK_REMOTE_ACCESS);
	assert_int_equal(script.qp->state, QP_ERR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(response_acks_are_coalesced),
		TEST(response_is_not_sent_where_none_was_asked_for),
		TEST(response_ack_waits_behind_the_read_before_it),
		TEST(response_nak_waits_behind_the_read_before_it),
		TEST(response_sequence_nak_follows_the_pending_ack),
		TEST(response_ack_and_sequence_nak_wait_behind_the_read_before_them),
		TEST(response_ack_outlives_the_sequence_nak_behind_it),
		TEST(response_nak_of_a_request_replaces_the_pending_ack),
		TEST(response_ack_carries_the_receive_requests_as_credits),
		TEST(response_fatal_nak_is_repeated_to_who_asks_again),
		TEST(response_pending_ack_outlives_an_error_of_our_own),
		TEST(response_ack_behind_a_read_that_is_not_answered_is_dropped),
		TEST(response_nothing_is_said_in_an_error_state_of_our_own),
		TEST(response_receive_that_overruns_its_queue_is_not_acknowledged),
		TEST(response_read_comes_in_runs_of_its_middle),
		TEST(response_packets_are_single_where_no_runs_are_wanted),
		TEST(response_run_ends_where_memory_is_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
