/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder against a scripted peer. test_rc_response.c tests the pending responses.
 */
#include <string.h>

#include "ib/rc/rc.h"
#include "support/rc_script.h"

/*
 * --- SEND ---
 */

static void responder_send_fills_a_receive_request(void **state)
{
	(void)state;
	script_post_receive(&script, 2 * SCRIPT_MTU_BYTES);
	script_send_data(&script, OPCODE_RC_SEND_FIRST, 0, SCRIPT_MTU_BYTES);
	script_expect_no_completion(&script);
	script_send_data(&script, OPCODE_RC_SEND_LAST_IMM, 1, 5);
	struct cqe cqe = script_completion(&script);
	assert_int_equal(cqe.wr_id, 1000);
	assert_int_equal(cqe.status, WC_SUCCESS);
	assert_int_equal(cqe.opcode, WC_RECV);
	assert_int_equal(cqe.byte_count, SCRIPT_MTU_BYTES + 5);
	assert_int_equal(cqe.flags, WC_WITH_IMM);
	assert_int_equal(cqe.imm, 0xabcdef01);
	assert_int_equal(script.memory[SCRIPT_MTU_BYTES], (uint8_t)(SCRIPT_RQ_PSN + 1));
	assert_int_equal(script.memory[SCRIPT_MTU_BYTES + 5], (SCRIPT_MTU_BYTES + 5) % 251);
	script_expect_ack(&script, 1, 1);
	script_expect_silence(&script);
}

static void responder_send_that_just_fits_is_taken(void **state)
{
	(void)state;
	script_post_receive(&script, SCRIPT_MTU_BYTES + 5);
	script_send_data(&script, OPCODE_RC_SEND_FIRST, 0, SCRIPT_MTU_BYTES);
	script_send_data(&script, OPCODE_RC_SEND_LAST, 1, 5);
	script_expect_completion(&script, 1000, WC_SUCCESS);
}

static void responder_send_longer_than_its_receive_is_an_invalid_request(void **state)
{
	(void)state;
	script_post_receive(&script, SCRIPT_MTU_BYTES + 4);
	script_post_receive(&script, SCRIPT_MTU_BYTES);
	script_send_data(&script, OPCODE_RC_SEND_FIRST, 0, SCRIPT_MTU_BYTES);
	script_send_data(&script, OPCODE_RC_SEND_LAST, 1, 5);
	script_expect_completion(&script, 1000, WC_LOC_LEN_ERR);
	script_expect_completion(&script, 1001, WC_WR_FLUSH_ERR);
	assert_int_equal(script.memory[SCRIPT_MTU_BYTES], SCRIPT_MTU_BYTES % 251);
	script_expect_refusal(&script, 1, AETH_NAK_INVALID_REQUEST);
}

static void responder_receive_with_a_bad_key_is_an_operational_error(void **state)
{
	(void)state;
	script.key ^= 1;
	script_post_receive(&script, 100);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	script_expect_completion(&script, 1000, WC_LOC_PROT_ERR);
	script_expect_refusal(&script, 0, AETH_NAK_REMOTE_OPERATIONAL);
	script_expect_untouched(&script);
}

static void responder_solicited_send_wakes_a_solicited_waiter(void **state)
{
	struct packet packet;

	(void)state;
	script_post_receive(&script, 100);
	script_post_receive(&script, 100);
	cq_arm(&script.cq, CQ_ARM_SOLICITED);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	assert_int_equal(script_events(&script), 0);
	packet = script_packet(&script, OPCODE_RC_SEND_ONLY, 1);
	packet.bth.is_solicited = true;
	script_send(&script, &packet);
	assert_int_equal(script_events(&script), SIGNAL_COMPLETION);
}

/*
 * --- RNR ---
 */

static void responder_without_receive_sends_one_rnr_nak(void **state)
{
	(void)state;
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	script_expect_rnr(&script, 0);
	/* What follows is dropped in silence until the peer comes back. */
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 1, 5);
	script_expect_silence(&script);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	script_expect_rnr(&script, 0);
	script_post_receive(&script, 100);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	script_expect_completion(&script, 1000, WC_SUCCESS);
	script_expect_ack(&script, 0, 1);
	assert_int_equal(script_counter(&script, COUNTER_rnr_nak_sent), 2);
}

static void responder_write_with_imm_without_receive_writes_nothing(void **state)
{
	(void)state;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY_IMM, 0, 5, 5);
	script_expect_rnr(&script, 0);
	script_expect_untouched(&script);
	script_post_receive(&script, 0);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY_IMM, 0, 5, 5);
	struct cqe cqe = script_completion(&script);
	assert_int_equal(cqe.opcode, WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(cqe.byte_count, 5);
	assert_int_equal(cqe.imm, 0xabcdef01);
	assert_int_equal(script.memory[0], (uint8_t)SCRIPT_RQ_PSN);
}

static void responder_write_with_imm_of_one_packet_and_a_bad_key_fails_its_receive(void **state)
{
	struct packet packet = script_packet(&script, OPCODE_RC_WRITE_ONLY_IMM, 0);

	(void)state;
	script_post_receive(&script, 0);
	script_post_receive(&script, 0);
	packet_set_payload(&packet, NULL, 5);
	packet.reth = (struct reth){(uintptr_t)script.memory, script.key ^ 1, 5};
	script_send(&script, &packet);
	script_expect_nak(&script, 0, AETH_NAK_REMOTE_ACCESS);
	script_expect_completion(&script, 1000, WC_LOC_ACCESS_ERR);
	script_expect_completion(&script, 1001, WC_WR_FLUSH_ERR);
	script_expect_untouched(&script);
}

static void responder_rnr_at_the_last_packet_resumes_there(void **state)
{
	(void)state;
	script_send_write(
		&script, OPCODE_RC_WRITE_FIRST, 0, SCRIPT_MTU_BYTES, SCRIPT_MTU_BYTES + 5);
	script_expect_ack(&script, 0, 0);
	script_send_data(&script, OPCODE_RC_WRITE_LAST_IMM, 1, 5);
	script_expect_rnr(&script, 1);
	script_post_receive(&script, 0);
	script_send_data(&script, OPCODE_RC_WRITE_LAST_IMM, 1, 5);
	assert_int_equal(script_completion(&script).byte_count, SCRIPT_MTU_BYTES + 5);
	script_expect_ack(&script, 1, 1);
}

/*
 * --- sequence ---
 */

static void responder_gap_is_one_sequence_nak(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		script_post_receive(&script, 100);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 2, 5);
	script_expect_ack(&script, 0, 1);
	script_expect_nak(&script, 1, AETH_NAK_PSN_SEQUENCE);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 3, 5);
	script_expect_silence(&script);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 1, 5);
	script_expect_ack(&script, 1, 2);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 3, 5);
	script_expect_nak(&script, 2, AETH_NAK_PSN_SEQUENCE);
	assert_int_equal(script_counter(&script, COUNTER_out_of_seq_request), 3);
	assert_int_equal(script.qp->state, QP_RTS);
}

static void responder_gap_that_closes_before_its_nak_is_sent_is_acknowledged(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		script_post_receive(&script, 100);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 1, 5);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 1, 5);
	script_expect_ack(&script, 1, 2);
	script_expect_silence(&script);
}

static void responder_nak_that_waits_names_what_is_missing_when_it_is_sent(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		script_post_receive(&script, 100);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 2, 5);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	script_expect_ack(&script, 0, 1);
	script_expect_nak(&script, 1, AETH_NAK_PSN_SEQUENCE);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 2, 5);
	script_expect_silence(&script);
}

static void responder_duplicate_send_is_acknowledged_not_executed(void **state)
{
	(void)state;
	script_post_receive(&script, 100);
	script_post_receive(&script, 100);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	script_expect_ack(&script, 0, 1);
	script_expect_completion(&script, 1000, WC_SUCCESS);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	script_expect_ack(&script, 0, 1);
	script_expect_no_completion(&script);
	assert_int_equal(rq_count(script.qp->rq), 1);
	assert_int_equal(script_counter(&script, COUNTER_duplicate_request), 1);
}

static void responder_duplicate_write_is_acknowledged_not_executed(void **state)
{
	(void)state;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 5, 5);
	script_expect_ack(&script, 0, 1);
	script.memory[0] = 99;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 5, 5);
	script_expect_ack(&script, 0, 1);
	assert_int_equal(script.memory[0], 99);
}

static void responder_duplicate_gets_the_newest_ack(void **state)
{
	(void)state;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 5, 5);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 1, 5, 5);
	script_drain(&script);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 5, 5);
	script_expect_ack(&script, 1, 2);
}

static void opcode_is_out_of_place(enum opcode opcode)
{
	script_send_write(&script, opcode, 1, SCRIPT_MTU_BYTES, SCRIPT_MTU_BYTES);
	script_expect_refusal(&script, 1, AETH_NAK_INVALID_REQUEST);
	assert_int_equal(script_events(&script), SIGNAL_QP_REQUEST);
	restart(NULL);
}

static void responder_opcode_out_of_place_is_an_invalid_request(void **state)
{
	static const enum opcode in_send[] = {OPCODE_RC_SEND_FIRST, OPCODE_RC_SEND_ONLY,
		OPCODE_RC_WRITE_MIDDLE, OPCODE_RC_WRITE_LAST, OPCODE_RC_WRITE_ONLY};
	static const enum opcode in_write[] = {OPCODE_RC_WRITE_FIRST, OPCODE_RC_WRITE_ONLY,
		OPCODE_RC_SEND_MIDDLE, OPCODE_RC_SEND_LAST, OPCODE_RC_SEND_ONLY};
	static const enum opcode between[] = {OPCODE_RC_SEND_MIDDLE, OPCODE_RC_SEND_LAST,
		OPCODE_RC_WRITE_MIDDLE, OPCODE_RC_WRITE_LAST, OPCODE_RC_WRITE_LAST_IMM};

	(void)state;
	for (uint32_t i = 0; i < 5; i++) {
		script_post_receive(&script, 1000);
		script_send_data(&script, OPCODE_RC_SEND_FIRST, 0, SCRIPT_MTU_BYTES);
		script_drain(&script);
		opcode_is_out_of_place(in_send[i]);
		script_send_write(
			&script, OPCODE_RC_WRITE_FIRST, 0, SCRIPT_MTU_BYTES, 3 * SCRIPT_MTU_BYTES);
		script_drain(&script);
		opcode_is_out_of_place(in_write[i]);
		script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 1, 1);
		script_drain(&script);
		opcode_is_out_of_place(between[i]);
	}
}

static void responder_read_within_a_message_is_an_invalid_request(void **state)
{
	(void)state;
	script_send_write(
		&script, OPCODE_RC_WRITE_FIRST, 0, SCRIPT_MTU_BYTES, 3 * SCRIPT_MTU_BYTES);
	script_drain(&script);
	script_send_read(&script, 1, 0, 8);
	script_expect_refusal(&script, 1, AETH_NAK_INVALID_REQUEST);
}

static void responder_message_cut_by_an_error_fails_its_receive(void **state)
{
	(void)state;
	script_post_receive(&script, 1000);
	script_send_data(&script, OPCODE_RC_SEND_FIRST, 0, SCRIPT_MTU_BYTES);
	script_drain(&script);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 1, 1, 1);
	script_expect_completion(&script, 1000, WC_REM_ABORT_ERR);
	script_expect_refusal(&script, 1, AETH_NAK_INVALID_REQUEST);
}

static void responder_first_packet_shorter_than_the_mtu_is_an_invalid_request(void **state)
{
	(void)state;
	script_post_receive(&script, 1000);
	script_send_data(&script, OPCODE_RC_SEND_FIRST, 0, SCRIPT_MTU_BYTES - 4);
	script_expect_refusal(&script, 0, AETH_NAK_INVALID_REQUEST);
}

static void responder_last_packet_without_payload_is_an_invalid_request(void **state)
{
	(void)state;
	script_post_receive(&script, 4 * SCRIPT_MTU_BYTES);
	script_send_data(&script, OPCODE_RC_SEND_FIRST, 0, SCRIPT_MTU_BYTES);
	script_send_data(&script, OPCODE_RC_SEND_LAST, 1, 0);
	script_expect_refusal(&script, 1, AETH_NAK_INVALID_REQUEST);
}

static void responder_read_request_with_a_payload_is_an_invalid_request(void **state)
{
	(void)state;
	script_send_data(&script, OPCODE_RC_READ_REQUEST, 0, 8);
	script_expect_refusal(&script, 0, AETH_NAK_INVALID_REQUEST);
}

static void responder_packet_longer_than_the_mtu_is_an_invalid_request(void **state)
{
	(void)state;
	script_post_receive(&script, 1000);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, SCRIPT_MTU_BYTES + 4);
	script_expect_refusal(&script, 0, AETH_NAK_INVALID_REQUEST);
	script_expect_untouched(&script);
}

/*
 * --- WRITE ---
 */

static void responder_write_of_another_length_than_announced_is_an_invalid_request(void **state)
{
	static const uint32_t whole[] = {0, 4, 6, 300};

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 5, whole[i]);
		script_expect_refusal(&script, 0, AETH_NAK_INVALID_REQUEST);
		script_expect_untouched(&script);
		restart(NULL);
	}
}

static void responder_write_with_more_packets_than_announced_is_an_invalid_request(void **state)
{
	(void)state;
	script_send_write(
		&script, OPCODE_RC_WRITE_FIRST, 0, SCRIPT_MTU_BYTES, SCRIPT_MTU_BYTES + 8);
	script_drain(&script);
	script_send_data(&script, OPCODE_RC_WRITE_MIDDLE, 1, SCRIPT_MTU_BYTES);
	script_expect_refusal(&script, 1, AETH_NAK_INVALID_REQUEST);
	assert_int_equal(script.memory[SCRIPT_MTU_BYTES], SCRIPT_MTU_BYTES % 251);
}

static void responder_write_beyond_its_region_writes_nothing(void **state)
{
	struct packet packet = script_packet(&script, OPCODE_RC_WRITE_FIRST, 0);

	(void)state;
	/* The first packet alone would fit. */
	packet_set_payload(&packet, NULL, SCRIPT_MTU_BYTES);
	packet.reth = (struct reth){
		(uintptr_t)script.memory + SCRIPT_MEMORY_BYTES - SCRIPT_MTU_BYTES, script.key, 512};
	script_send(&script, &packet);
	script_expect_refusal(&script, 0, AETH_NAK_REMOTE_ACCESS);
	assert_int_equal(script_events(&script), SIGNAL_QP_ACCESS);
	script_expect_untouched(&script);
}

static void responder_empty_write_needs_no_key(void **state)
{
	(void)state;
	script.key ^= 1;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 0, 0);
	script_expect_ack(&script, 0, 1);
}

static void responder_write_is_not_granted_by_the_queue_pair(void **state)
{
	(void)state;
	restart(&(struct script_options){.access = MR_REMOTE_READ | MR_REMOTE_ATOMIC});
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 5, 5);
	script_expect_refusal(&script, 0, AETH_NAK_INVALID_REQUEST);
	script_expect_untouched(&script);
}

static void responder_region_that_goes_away_ends_the_write(void **state)
{
	(void)state;
	script_send_write(
		&script, OPCODE_RC_WRITE_FIRST, 0, SCRIPT_MTU_BYTES, SCRIPT_MTU_BYTES + 5);
	script_drain(&script);
	assert_int_equal(mr_table_remove(&script.mrs, script.key, SCRIPT_PD), 0);
	script_send_data(&script, OPCODE_RC_WRITE_LAST, 1, 5);
	script_expect_refusal(&script, 1, AETH_NAK_REMOTE_ACCESS);
	assert_int_equal(script.memory[SCRIPT_MTU_BYTES], SCRIPT_MTU_BYTES % 251);
}

/*
 * --- READ ---
 */

static void responder_read_is_answered_in_packets_of_the_mtu(void **state)
{
	const struct packet *packet;

	(void)state;
	script_send_read(&script, 0, 100, 2 * SCRIPT_MTU_BYTES + 3);
	packet = script_expect(&script, OPCODE_RC_READ_RESPONSE_FIRST, 0);
	assert_memory_equal(packet->payload, script.memory + 100, SCRIPT_MTU_BYTES);
	assert_int_equal(packet->aeth.msn.value, 1);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_MIDDLE, 1);
	packet = script_expect(&script, OPCODE_RC_READ_RESPONSE_LAST, 2);
	assert_int_equal(packet->payload_bytes, 3);
	assert_memory_equal(packet->payload, script.memory + 100 + 2ul * SCRIPT_MTU_BYTES, 3);
	script_expect_silence(&script);
	/* The next request comes after the PSNs of the responses. */
	script_send_read(&script, 3, 0, 0);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_ONLY, 3);
}

static void responder_duplicate_read_of_a_part_is_answered_from_there(void **state)
{
	const struct packet *packet;

	(void)state;
	script_send_read(&script, 0, 0, 4 * SCRIPT_MTU_BYTES);
	script_drain(&script);
	script_send_read(&script, 2, 2ul * SCRIPT_MTU_BYTES, 2 * SCRIPT_MTU_BYTES);
	packet = script_expect(&script, OPCODE_RC_READ_RESPONSE_FIRST, 2);
	assert_memory_equal(
		packet->payload, script.memory + 2ul * SCRIPT_MTU_BYTES, SCRIPT_MTU_BYTES);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_LAST, 3);
	script_expect_silence(&script);
}

static void responder_duplicate_read_of_another_range_is_dropped(void **state)
{
	(void)state;
	script_send_read(&script, 0, 0, 4 * SCRIPT_MTU_BYTES);
	script_drain(&script);
	script_send_read(&script, 2, 0, 2 * SCRIPT_MTU_BYTES);
	script_send_read(&script, 0, 8, 4 * SCRIPT_MTU_BYTES);
	script_send_read(&script, 0, 0, 5 * SCRIPT_MTU_BYTES);
	script.key ^= 1;
	script_send_read(&script, 0, 0, 4 * SCRIPT_MTU_BYTES);
	script_expect_silence(&script);
	assert_int_equal(script.qp->state, QP_RTS);
}

static void responder_more_reads_than_it_offers_is_an_invalid_request(void **state)
{
	(void)state;
	restart(&(struct script_options){.max_dest_rd_atomic = 2});
	script_send_read(&script, 0, 0, 8);
	script_send_read(&script, 1, 0, 8);
	script_send_read(&script, 2, 0, 8);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_ONLY, 1);
	script_expect_refusal(&script, 2, AETH_NAK_INVALID_REQUEST);
}

static void responder_pending_duplicate_does_not_count_against_the_read_limit(void **state)
{
	(void)state;
	restart(&(struct script_options){.max_dest_rd_atomic = 1});
	script_send_read(&script, 0, 0, 8);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0);
	script_send_read(&script, 0, 0, 8); /* the network's copy */
	script_send_read(&script, 1, 0, 8);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_ONLY, 1);
	script_expect_silence(&script);
}

static void responder_without_rd_atomic_refuses_reads(void **state)
{
	(void)state;
	restart(&(struct script_options){.has_no_rd_atomic = true});
	script_send_read(&script, 0, 0, 8);
	script_expect_refusal(&script, 0, AETH_NAK_INVALID_REQUEST);
}

static void responder_read_longer_than_any_message_is_an_invalid_request(void **state)
{
	(void)state;
	script_send_read(&script, 0, 0, (1u << 31) + 1);
	script_expect_refusal(&script, 0, AETH_NAK_INVALID_REQUEST);
}

static void responder_region_that_goes_away_ends_the_read(void **state)
{
	(void)state;
	script_send_read(&script, 0, 0, 3 * SCRIPT_MTU_BYTES);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_FIRST, 0);
	assert_int_equal(mr_table_remove(&script.mrs, script.key, SCRIPT_PD), 0);
	script_expect_refusal(&script, 1, AETH_NAK_REMOTE_ACCESS);
	assert_int_equal(script_events(&script), SIGNAL_QP_ACCESS);
}

/*
 * --- atomics ---
 */

static uint64_t word_at(uint64_t offset)
{
	uint64_t word;

	memcpy(&word, script.memory + offset, sizeof(word));
	return word;
}

static void responder_fetch_add_returns_what_was_there(void **state)
{
	uint64_t before = word_at(16);

	(void)state;
	script_send_atomic(&script, OPCODE_RC_FETCH_ADD, 0, 16, UINT64_MAX, 0);
	assert_int_equal(
		script_expect(&script, OPCODE_RC_ATOMIC_ACKNOWLEDGE, 0)->atomicacketh.original,
		before);
	assert_int_equal(word_at(16), before - 1); /* wraps */
}

static void responder_compare_swap_swaps_only_on_a_match(void **state)
{
	uint64_t before = word_at(8);

	(void)state;
	script_send_atomic(&script, OPCODE_RC_COMPARE_SWAP, 0, 8, 77, before + 1);
	script_send_atomic(&script, OPCODE_RC_COMPARE_SWAP, 1, 8, 78, before);
	script_send_atomic(&script, OPCODE_RC_COMPARE_SWAP, 2, 8, 79, before);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(script_expect(&script, OPCODE_RC_ATOMIC_ACKNOWLEDGE, i)
					 ->atomicacketh.original,
			i < 2 ? before : 78);
	assert_int_equal(word_at(8), 78);
}

static void responder_duplicate_atomic_is_answered_from_memory_not_executed(void **state)
{
	uint64_t before = word_at(16);

	(void)state;
	script_send_atomic(&script, OPCODE_RC_FETCH_ADD, 0, 16, 5, 0);
	script_drain(&script);
	script_send_atomic(&script, OPCODE_RC_FETCH_ADD, 0, 16, 5, 0);
	assert_int_equal(
		script_expect(&script, OPCODE_RC_ATOMIC_ACKNOWLEDGE, 0)->atomicacketh.original,
		before);
	assert_int_equal(word_at(16), before + 5);
}

static void responder_duplicate_atomic_too_old_to_remember_is_dropped(void **state)
{
	(void)state;
	restart(&(struct script_options){.max_dest_rd_atomic = 1});
	script_send_atomic(&script, OPCODE_RC_FETCH_ADD, 0, 16, 5, 0);
	script_drain(&script);
	script_send_atomic(&script, OPCODE_RC_FETCH_ADD, 1, 16, 5, 0);
	script_drain(&script);
	script_send_atomic(&script, OPCODE_RC_FETCH_ADD, 0, 16, 5, 0);
	script_expect_silence(&script);
}

static void responder_misaligned_atomic_is_an_invalid_request(void **state)
{
	(void)state;
	script_send_atomic(&script, OPCODE_RC_FETCH_ADD, 0, 4, 5, 0);
	script_expect_refusal(&script, 0, AETH_NAK_INVALID_REQUEST);
	script_expect_untouched(&script);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(responder_send_fills_a_receive_request),
		TEST(responder_send_that_just_fits_is_taken),
		TEST(responder_send_longer_than_its_receive_is_an_invalid_request),
		TEST(responder_receive_with_a_bad_key_is_an_operational_error),
		TEST(responder_solicited_send_wakes_a_solicited_waiter),
		TEST(responder_without_receive_sends_one_rnr_nak),
		TEST(responder_write_with_imm_without_receive_writes_nothing),
		TEST(responder_write_with_imm_of_one_packet_and_a_bad_key_fails_its_receive),
		TEST(responder_rnr_at_the_last_packet_resumes_there),
		TEST(responder_gap_is_one_sequence_nak),
		TEST(responder_gap_that_closes_before_its_nak_is_sent_is_acknowledged),
		TEST(responder_nak_that_waits_names_what_is_missing_when_it_is_sent),
		TEST(responder_duplicate_send_is_acknowledged_not_executed),
		TEST(responder_duplicate_write_is_acknowledged_not_executed),
		TEST(responder_duplicate_gets_the_newest_ack),
		TEST(responder_opcode_out_of_place_is_an_invalid_request),
		TEST(responder_read_within_a_message_is_an_invalid_request),
		TEST(responder_message_cut_by_an_error_fails_its_receive),
		TEST(responder_first_packet_shorter_than_the_mtu_is_an_invalid_request),
		TEST(responder_last_packet_without_payload_is_an_invalid_request),
		TEST(responder_read_request_with_a_payload_is_an_invalid_request),
		TEST(responder_packet_longer_than_the_mtu_is_an_invalid_request),
		TEST(responder_write_of_another_length_than_announced_is_an_invalid_request),
		TEST(responder_write_with_more_packets_than_announced_is_an_invalid_request),
		TEST(responder_write_beyond_its_region_writes_nothing),
		TEST(responder_empty_write_needs_no_key),
		TEST(responder_write_is_not_granted_by_the_queue_pair),
		TEST(responder_region_that_goes_away_ends_the_write),
		TEST(responder_read_is_answered_in_packets_of_the_mtu),
		TEST(responder_duplicate_read_of_a_part_is_answered_from_there),
		TEST(responder_duplicate_read_of_another_range_is_dropped),
		TEST(responder_more_reads_than_it_offers_is_an_invalid_request),
		TEST(responder_pending_duplicate_does_not_count_against_the_read_limit),
		TEST(responder_without_rd_atomic_refuses_reads),
		TEST(responder_read_longer_than_any_message_is_an_invalid_request),
		TEST(responder_region_that_goes_away_ends_the_read),
		TEST(responder_fetch_add_returns_what_was_there),
		TEST(responder_compare_swap_swaps_only_on_a_match),
		TEST(responder_duplicate_atomic_is_answered_from_memory_not_executed),
		TEST(responder_duplicate_atomic_too_old_to_remember_is_dropped),
		TEST(responder_misaligned_atomic_is_an_invalid_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
