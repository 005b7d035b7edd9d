/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The completer, against a scripted peer.
 */
#include <string.h>

#include "ib/rc/rc.h"
#include "support/rc_script.h"
#include "wire/timer.h"

static void completer_one_ack_completes_all_before_it(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		script_post(&script, WR_SEND, 1, i % 2 ? SEND_SIGNALED : 0);
	script_drain(&script);
	script_send_ack(&script, 3, 4, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 1, WC_SUCCESS);
	script_expect_completion(&script, 3, WC_SUCCESS);
	script_expect_no_completion(&script);
	script_expect_silence(&script);
	assert_true(engine_deadline_ns(&script.lane) == DEADLINE_NEVER);
}

static void completer_ack_inside_a_message_completes_nothing(void **state)
{
	(void)state;
	script_post(&script, WR_SEND, 3 * SCRIPT_MTU_BYTES, SEND_SIGNALED);
	script_drain(&script);
	script_send_ack(&script, 1, 0, SCRIPT_UNLIMITED);
	script_expect_no_completion(&script);
	script_send_ack(&script, 2, 1, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 0, WC_SUCCESS);
}

static void completer_ghost_ack_of_an_old_packet_is_ignored(void **state)
{
	(void)state;
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_drain(&script);
	script_send_ack(&script, 0, 1, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 0, WC_SUCCESS);
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_drain(&script);
	script_send_nak(&script, 0, AETH_NAK_REMOTE_ACCESS);
	script_send_rnr(&script, 0, 1);
	script_expect_no_completion(&script);
	assert_int_equal(script.qp->state, QP_RTS);
	assert_int_equal(script_counter(&script, COUNTER_stale_responses), 2);
	script_send_ack(&script, 1, 2, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 1, WC_SUCCESS);
}

static void completer_ack_of_a_packet_never_sent_is_ignored(void **state)
{
	(void)state;
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_send_ack(&script, 0, 1, SCRIPT_UNLIMITED); /* posted, but not sent yet */
	script_drain(&script);
	script_send_ack(&script, 1, 2, SCRIPT_UNLIMITED);
	script_send_nak(&script, 7, AETH_NAK_INVALID_REQUEST);
	script_expect_no_completion(&script);
	assert_int_equal(script.qp->state, QP_RTS);
	assert_int_equal(script_counter(&script, COUNTER_invalid_responses), 3);
}

static void completer_reserved_nak_code_is_ignored(void **state)
{
	(void)state;
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_drain(&script);
	script_send_nak(&script, 0, (enum aeth_nak)9);
	script_expect_no_completion(&script);
	script_send_ack(&script, 0, 1, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 0, WC_SUCCESS);
}

static void completer_sequence_nak_acknowledges_and_goes_back(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_drain(&script);
	script_send_nak(&script, 2, AETH_NAK_PSN_SEQUENCE);
	script_expect_completion(&script, 0, WC_SUCCESS);
	script_expect_completion(&script, 1, WC_SUCCESS);
	script_expect_no_completion(&script);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 2);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 3);
	script_expect_silence(&script);
	assert_int_equal(script_counter(&script, COUNTER_retransmitted_pkts), 2);
}

static void completer_second_nak_for_the_same_packet_says_nothing_new(void **state)
{
	(void)state;
	script_post(&script, WR_SEND, 1, 0);
	script_post(&script, WR_SEND, 1, 0);
	script_drain(&script);
	script_send_nak(&script, 0, AETH_NAK_PSN_SEQUENCE);
	assert_int_equal(script_drain(&script), 2);
	script_send_nak(&script, 0, AETH_NAK_PSN_SEQUENCE);
	script_expect_silence(&script);
}

static void nak_is_fatal(enum aeth_nak code, enum wc_status status)
{
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_post(&script, WR_RDMA_WRITE, 1, 0); /* even unsignaled, a failure is told */
	script_post(&script, WR_SEND, 1, 0);
	script_drain(&script);
	script_send_nak(&script, 1, code);
	script_expect_completion(&script, 0, WC_SUCCESS);
	script_expect_completion(&script, 1, status);
	script_expect_completion(&script, 2, WC_WR_FLUSH_ERR);
	assert_int_equal(script.qp->state, QP_ERR);
	script_expect_silence(&script);
	assert_true(engine_deadline_ns(&script.lane) == DEADLINE_NEVER);
}

static void completer_invalid_request_nak_fails_the_request(void **state)
{
	(void)state;
	nak_is_fatal(AETH_NAK_INVALID_REQUEST, WC_REM_INV_REQ_ERR);
}

static void completer_remote_access_nak_fails_the_request(void **state)
{
	(void)state;
	nak_is_fatal(AETH_NAK_REMOTE_ACCESS, WC_REM_ACCESS_ERR);
}

static void completer_remote_operational_nak_fails_the_request(void **state)
{
	(void)state;
	nak_is_fatal(AETH_NAK_REMOTE_OPERATIONAL, WC_REM_OP_ERR);
}

/*
 * --- RNR ---
 */

static void completer_rnr_nak_waits_for_the_peers_timer(void **state)
{
	(void)state;
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_drain(&script);
	script_send_rnr(&script, 0, 14);
	script_expect_silence(&script);
	script_pass(&script, rnr_timer_ns(14) - 1);
	script_expect_silence(&script);
	script_pass(&script, 1);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	script_expect_no_completion(&script);
}

static void completer_rnr_retries_run_out(void **state)
{
	(void)state;
	restart(&(struct script_options){.rnr_retry = 2});
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	for (uint32_t i = 0; i < 2; i++) {
		script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
		script_send_rnr(&script, 0, 1);
		script_expect_no_completion(&script);
		script_pass(&script, rnr_timer_ns(1));
	}
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	script_send_rnr(&script, 0, 1);
	script_expect_completion(&script, 0, WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(script.qp->state, QP_ERR);
}

static void completer_copied_rnr_nak_uses_up_no_retry(void **state)
{
	(void)state;
	restart(&(struct script_options){.rnr_retry = 1});
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_drain(&script);
	script_send_rnr(&script, 0, 1);
	script_send_rnr(&script, 0, 1);
	script_expect_no_completion(&script);
	script_pass(&script, rnr_timer_ns(1));
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
}

/*
 * --- READ responses and atomics ---
 */

static void completer_read_response_places_its_bytes(void **state)
{
	(void)state;
	script_post(&script, WR_RDMA_READ, 2 * SCRIPT_MTU_BYTES + 7, SEND_SIGNALED);
	script_drain(&script);
	memset(script.memory, 0xee, 3ul * SCRIPT_MTU_BYTES);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_FIRST, 0, SCRIPT_MTU_BYTES);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_MIDDLE, 1, SCRIPT_MTU_BYTES);
	script_expect_no_completion(&script);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_LAST, 2, 7);
	struct cqe cqe = script_completion(&script);
	assert_int_equal(cqe.status, WC_SUCCESS);
	assert_int_equal(cqe.byte_count, 2 * SCRIPT_MTU_BYTES + 7);
	for (uint32_t i = 0; i < 2 * SCRIPT_MTU_BYTES + 7; i++)
		assert_int_equal(script.memory[i],
			(uint8_t)(script_sent_psn(i / SCRIPT_MTU_BYTES).value +
				i % SCRIPT_MTU_BYTES));
	assert_int_equal(script.memory[2 * SCRIPT_MTU_BYTES + 7], 0xee);
}

static void completer_read_response_acknowledges_what_is_before_it(void **state)
{
	(void)state;
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_post(&script, WR_RDMA_READ, 1, SEND_SIGNALED);
	script_drain(&script);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 1, 1);
	script_expect_completion(&script, 0, WC_SUCCESS);
	script_expect_completion(&script, 1, WC_SUCCESS);
}

static void completer_missing_read_response_is_an_implied_nak(void **state)
{
	const struct packet *packet;

	(void)state;
	script_post(&script, WR_RDMA_READ, 4 * SCRIPT_MTU_BYTES, SEND_SIGNALED);
	script_drain(&script);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_FIRST, 0, SCRIPT_MTU_BYTES);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_MIDDLE, 2, SCRIPT_MTU_BYTES);
	/* Only the rest is asked for again. */
	packet = script_expect(&script, OPCODE_RC_READ_REQUEST, 1);
	assert_int_equal(packet->reth.va, 0x1000 + SCRIPT_MTU_BYTES);
	assert_int_equal(packet->reth.dma_bytes, 3 * SCRIPT_MTU_BYTES);
	assert_int_equal(script_counter(&script, COUNTER_implied_nak_seq_err), 1);
}

static void completer_ack_behind_an_unanswered_read_is_an_implied_nak(void **state)
{
	(void)state;
	script_post(&script, WR_RDMA_READ, 1, SEND_SIGNALED);
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_drain(&script);
	script_send_ack(&script, 1, 2, SCRIPT_UNLIMITED);
	script_expect_no_completion(&script);
	script_expect(&script, OPCODE_RC_READ_REQUEST, 0);
}

static void completer_read_response_of_wrong_length_fails_the_read(void **state)
{
	(void)state;
	script_post(&script, WR_RDMA_READ, 10, SEND_SIGNALED);
	script_drain(&script);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0, 11);
	script_expect_completion(&script, 0, WC_BAD_RESP_ERR);
	assert_int_equal(script.qp->state, QP_ERR);
}

static void completer_response_of_another_kind_is_ignored(void **state)
{
	(void)state;
	script_post(&script, WR_RDMA_READ, 8, SEND_SIGNALED);
	script_drain(&script);
	script_send_original(&script, 0, 1);
	script_expect_no_completion(&script);
	assert_int_equal(script_counter(&script, COUNTER_invalid_responses), 1);
}

static void completer_read_into_a_region_that_went_away_fails(void **state)
{
	(void)state;
	script_post(&script, WR_RDMA_READ, 8, SEND_SIGNALED);
	script_drain(&script);
	assert_int_equal(mr_table_remove(&script.mrs, script.key, SCRIPT_PD), 0);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0, 8);
	script_expect_completion(&script, 0, WC_LOC_PROT_ERR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(completer_one_ack_completes_all_before_it),
		TEST(completer_ack_inside_a_message_completes_nothing),
		TEST(completer_ghost_ack_of_an_old_packet_is_ignored),
		TEST(completer_ack_of_a_packet_never_sent_is_ignored),
		TEST(completer_reserved_nak_code_is_ignored),
		TEST(completer_sequence_nak_acknowledges_and_goes_back),
		TEST(completer_second_nak_for_the_same_packet_says_nothing_new),
		TEST(completer_invalid_request_nak_fails_the_request),
		TEST(completer_remote_access_nak_fails_the_request),
		TEST(completer_remote_operational_nak_fails_the_request),
		TEST(completer_rnr_nak_waits_for_the_peers_timer),
		TEST(completer_rnr_retries_run_out),
		TEST(completer_copied_rnr_nak_uses_up_no_retry),
		TEST(completer_read_response_places_its_bytes),
		TEST(completer_read_response_acknowledges_what_is_before_it),
		TEST(completer_missing_read_response_is_an_implied_nak),
		TEST(completer_ack_behind_an_unanswered_read_is_an_implied_nak),
		TEST(completer_read_response_of_wrong_length_fails_the_read),
		TEST(completer_response_of_another_kind_is_ignored),
		TEST(completer_read_into_a_region_that_went_away_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
