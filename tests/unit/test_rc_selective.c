/* SPDX-License-Identifier: BSD-2-Clause */
/* Selective repeat of a reliable connection, against a scripted peer. */
#include "base/arith.h"
#include "ib/rc/rc.h"
#include "support/rc_script.h"

static const struct script_options selective = {.is_selective = true};

static uint64_t counted(enum lane_selective which)
{
	return script.lane.selective_counts[which];
}

/* --- the responder --- */

static void early_packets_are_executed_in_their_turn(void **state)
{
	(void)state;
	restart(&selective);
	for (uint32_t i = 0; i < 4; i++)
		script_post_receive(&script, 4);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 2, 4);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 1, 3);
	script_expect_map(&script, 0, 0x6);
	script_expect_silence(&script);
	script_expect_no_completion(&script);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 2);
	for (uint32_t i = 0; i < 3; i++) {
		struct cqe cqe = script_completion(&script);

		assert_int_equal(cqe.wr_id, 1000 + i);
		assert_int_equal(cqe.byte_count, 2 + i);
	}
	script_expect_ack(&script, 2, 3);
	script_expect_silence(&script);
	assert_int_equal(counted(LANE_SELECTIVE_STORED), 2);
	/* The payload of each is its own. */
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 2, 4);
	script_expect_ack(&script, 2, 3);
	assert_int_equal(script_counter(&script, COUNTER_duplicate_request), 1);
}

static void early_packet_that_comes_twice_is_executed_once(void **state)
{
	(void)state;
	restart(&selective);
	script_post_receive(&script, 4);
	script_post_receive(&script, 4);
	for (uint32_t i = 0; i < 2; i++)
		script_send_data(&script, OPCODE_RC_SEND_ONLY, 1, 4);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 4);
	script_expect_completion(&script, 1000, WC_SUCCESS);
	script_expect_completion(&script, 1001, WC_SUCCESS);
	script_expect_no_completion(&script);
	script_expect_ack(&script, 1, 2);
	script_expect_silence(&script);
}

static void second_gap_is_reported_when_the_first_has_closed(void **state)
{
	(void)state;
	restart(&selective);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 1, 4, 4);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 3, 4, 4);
	script_expect_map(&script, 0, 0xa);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 4, 4);
	script_expect_ack(&script, 1, 2);
	script_expect_map(&script, 2, 0x2);
	/* A repeated packet is a sign that the NAK was lost. */
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 1, 4, 4);
	script_expect_ack(&script, 1, 2);
	script_expect_map(&script, 2, 0x2);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 2, 4, 4);
	script_expect_ack(&script, 3, 4);
	script_expect_silence(&script);
}

static void early_read_has_the_bits_of_all_its_responses(void **state)
{
	(void)state;
	restart(&selective);
	script_send_read(&script, 1, 0, 3 * SCRIPT_MTU_BYTES);
	script_send_read(&script, 4, 0, 0);
	script_expect_map(&script, 0, 0x1e);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 4, 4);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_FIRST, 1);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_MIDDLE, 2);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_LAST, 3);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_ONLY, 4);
	script_drain(&script);
	assert_int_equal(script_counter(&script, COUNTER_rdma_reads), 2);
}

static void early_packet_of_a_peer_that_says_nothing_is_dropped(void **state)
{
	(void)state;
	restart(&selective);
	script.is_selective = false;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 1, 4, 4);
	script_expect_nak(&script, 0, AETH_NAK_PSN_SEQUENCE);
	assert_false(packet_has_map(&script.packet));
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 4, 4);
	script_expect_ack(&script, 0, 1);
	assert_int_equal(counted(LANE_SELECTIVE_STORED), 0);
}

static void early_packet_is_dropped_where_selective_repeat_is_off(void **state)
{
	(void)state;
	script.is_selective = true;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 1, 4, 4);
	script_expect_nak(&script, 0, AETH_NAK_PSN_SEQUENCE);
	assert_false(packet_has_map(&script.packet));
	assert_false(script.packet.bth.is_selective);
	assert_int_equal(counted(LANE_SELECTIVE_STORED), 0);
}

static void early_packet_without_room_is_dropped(void **state)
{
	(void)state;
	restart(&selective);
	for (uint32_t i = 1; i <= SCRIPT_STORE_PACKETS + 2; i++)
		script_send_write(&script, OPCODE_RC_WRITE_ONLY, i, 4, 4);
	script_expect_map(&script, 0, (2u << SCRIPT_STORE_PACKETS) - 2);
	assert_int_equal(counted(LANE_SELECTIVE_UNSTORED), 2);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 4, 4);
	script_expect_ack(&script, SCRIPT_STORE_PACKETS, SCRIPT_STORE_PACKETS + 1);
	script_expect_silence(&script);
}

static void packet_beyond_the_map_is_dropped(void **state)
{
	(void)state;
	restart(&selective);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, SELECTIVE_PACKETS_MAX, 4, 4);
	script_expect_nak(&script, 0, AETH_NAK_PSN_SEQUENCE);
	assert_false(packet_has_map(&script.packet));
	assert_int_equal(counted(LANE_SELECTIVE_UNSTORED), 1);
}

static void early_packet_that_finds_no_receive_request_is_repeated(void **state)
{
	(void)state;
	restart(&selective);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 1, 4);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 2, 4, 4);
	script_drain(&script);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 4, 4);
	script_expect_rnr(&script, 1);
	/* The peer repeats all from there on, so nothing is stored meanwhile. */
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 3, 4, 4);
	script_expect_silence(&script);
	assert_int_equal(counted(LANE_SELECTIVE_STORED), 2);
	script_post_receive(&script, 4);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 1, 4);
	script_expect_completion(&script, 1000, WC_SUCCESS);
	script_expect_ack(&script, 2, 3);
	script_expect_silence(&script);
}

static void early_packet_that_is_wrong_is_refused_in_its_turn(void **state)
{
	struct packet packet;

	(void)state;
	restart(&selective);
	packet = script_packet(&script, OPCODE_RC_WRITE_ONLY, 1);
	packet.reth = (struct reth){(uintptr_t)script.memory, script.key ^ 1, 4};
	packet_set_payload(&packet, NULL, 4);
	script_send(&script, &packet);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 2, 4, 4);
	script_expect_map(&script, 0, 0x6);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 0, 0);
	script_expect_refusal(&script, 1, AETH_NAK_REMOTE_ACCESS);
	script_expect_untouched(&script);
	assert_int_equal(selective_store_count(script.lane.selective), 0);
}

static void reset_drops_early_packets(void **state)
{
	(void)state;
	restart(&selective);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 1, 4, 4);
	assert_int_equal(selective_store_count(script.lane.selective), 1);
	qp_set_state(script.qp, QP_RESET, script.now_ns);
	assert_int_equal(selective_store_count(script.lane.selective), 0);
}

/* Only a peer that misses some of the responses requests a part that stops early. */
static void part_of_a_read_is_answered_again(void **state)
{
	(void)state;
	restart(&selective);
	script_send_read(&script, 0, 0, 5 * SCRIPT_MTU_BYTES);
	assert_int_equal(script_drain(&script), 5);
	script_send_read(&script, 1, SCRIPT_MTU_BYTES, SCRIPT_MTU_BYTES);
	assert_int_equal(script_expect(&script, OPCODE_RC_READ_RESPONSE_ONLY, 1)->payload_bytes,
		SCRIPT_MTU_BYTES);
	script_expect_silence(&script);
	script_send_read(&script, 1, SCRIPT_MTU_BYTES, SCRIPT_MTU_BYTES - 4);
	script_expect_silence(&script);
	script.is_selective = false;
	script_send_read(&script, 1, SCRIPT_MTU_BYTES, SCRIPT_MTU_BYTES);
	script_expect_silence(&script);
}

static void second_part_of_a_read_does_not_replace_the_first(void **state)
{
	(void)state;
	restart(&selective);
	script_send_read(&script, 0, 0, 5 * SCRIPT_MTU_BYTES);
	assert_int_equal(script_drain(&script), 5);
	script_send_read(&script, 1, SCRIPT_MTU_BYTES, SCRIPT_MTU_BYTES);
	script_send_read(&script, 3, 3 * SCRIPT_MTU_BYTES, SCRIPT_MTU_BYTES);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_FIRST, 1);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_LAST, 3);
	script_expect_silence(&script);
}

static void parts_of_a_read_are_sent_once_and_nothing_between_them(void **state)
{
	static const uint32_t parts[][2] = {{9, 2}, {2, 3}, {4, 2}, {13, 1}};
	static const uint32_t sent[] = {2, 3, 4, 5, 9, 10, 13};

	(void)state;
	restart(&selective);
	script_send_read(&script, 0, 0, 16 * SCRIPT_MTU_BYTES);
	assert_int_equal(script_drain(&script), 16);
	for (uint32_t i = 0; i < ARRAY_COUNT(parts); i++)
		script_send_read(&script, parts[i][0], parts[i][0] * SCRIPT_MTU_BYTES,
			parts[i][1] * SCRIPT_MTU_BYTES);
	for (uint32_t i = 0; i < ARRAY_COUNT(sent); i++) {
		const struct packet *packet = script_expect(&script,
			i == 0                  ? OPCODE_RC_READ_RESPONSE_FIRST
				: sent[i] == 13 ? OPCODE_RC_READ_RESPONSE_LAST
						: OPCODE_RC_READ_RESPONSE_MIDDLE,
			sent[i]);

		assert_int_equal(packet->payload_bytes, SCRIPT_MTU_BYTES);
	}
	script_expect_silence(&script);
	/* A whole answer again leaves out nothing. */
	script_send_read(&script, 0, 0, 16 * SCRIPT_MTU_BYTES);
	assert_int_equal(script_drain(&script), 16);
}

/* --- the requester --- */

static void only_holes_are_sent_again(void **state)
{
	(void)state;
	restart(&selective);
	send_many(8);
	script_send_map(&script, 1, 0x16); /* of 1 to 5, 2, 3 and 5 have arrived */
	assert_true(script_expect(&script, OPCODE_RC_SEND_ONLY, 1)->bth.ack_requested);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 4);
	script_expect_silence(&script);
	/* The same again, and one more: the last two are late, or lost. */
	script_send_map(&script, 1, 0x16);
	script_expect_silence(&script);
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 8);
	script_expect_silence(&script);
	script_send_ack(&script, 8, 9, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 7, WC_SUCCESS);
	script_expect_completion(&script, 8, WC_SUCCESS);
	assert_int_equal(counted(LANE_SELECTIVE_RESENT), 2);
	assert_int_equal(script_counter(&script, COUNTER_retransmitted_pkts), 2);
}

static void hole_that_a_later_packet_has_overtaken_is_sent_once_more(void **state)
{
	(void)state;
	restart(&selective);
	send_many(4);
	script_send_map(&script, 0, 0x2);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 4);
	script_send_map(&script, 0, 0x0e);
	script_expect_silence(&script);
	script_send_map(&script, 0, 0x1e);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	script_expect_silence(&script);
}

static void acknowledgement_of_a_hole_ends_its_pass(void **state)
{
	(void)state;
	restart(&selective);
	send_many(8);
	script_send_map(&script, 0, 0x54); /* 0, 1, 3 and 5 are missing */
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	script_send_ack(&script, 4, 5, SCRIPT_UNLIMITED);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 5);
	script_expect_silence(&script);
	script_send_ack(&script, 7, 8, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 7, WC_SUCCESS);
}

static void lost_read_request_is_sent_again_and_counted_once(void **state)
{
	(void)state;
	restart(&(struct script_options){.is_selective = true, .max_rd_atomic = 2});
	script_post(&script, WR_RDMA_READ, 3 * SCRIPT_MTU_BYTES, 0);
	script_post(&script, WR_SEND, 1, 0);
	script_post(&script, WR_RDMA_READ, 1, 0);
	script_post(&script, WR_RDMA_READ, 1, SEND_SIGNALED);
	assert_int_equal(script_drain(&script), 3);
	script_send_map(&script, 0, 0x18); /* the SEND and the second READ have arrived */
	assert_int_equal(script_expect(&script, OPCODE_RC_READ_REQUEST, 0)->reth.dma_bytes,
		3 * SCRIPT_MTU_BYTES);
	script_expect_silence(&script);
	assert_int_equal(rc_from_qp(script.qp)->requester.reads_outstanding, 2);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_FIRST, 0, SCRIPT_MTU_BYTES);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_MIDDLE, 1, SCRIPT_MTU_BYTES);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_LAST, 2, SCRIPT_MTU_BYTES);
	script_expect(&script, OPCODE_RC_READ_REQUEST, 5);
}

/* A requester that has gone back counts only the READs that it has sent again. */
static void reads_are_counted_anew_after_going_back(void **state)
{
	(void)state;
	restart(&(struct script_options){.is_selective = true, .max_rd_atomic = 2});
	script_post(&script, WR_SEND, 1, 0);
	script_post(&script, WR_RDMA_READ, 1, 0);
	script_post(&script, WR_RDMA_READ, 1, 0);
	script_post(&script, WR_RDMA_READ, 1, SEND_SIGNALED);
	assert_int_equal(script_drain(&script), 3);
	script_pass(&script, RC_RETRY_NS_MIN);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	script_expect_silence(&script);
	script_send_map(&script, 0, 0x6);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	script_expect_silence(&script);
	assert_int_equal(rc_from_qp(script.qp)->requester.reads_outstanding, 2);
}

/* The payload of a response counts up from its PSN. */
static void expect_read_bytes(uint32_t packets)
{
	for (uint32_t i = 0; i < packets; i++)
		for (uint32_t j = 0; j < SCRIPT_MTU_BYTES; j++)
			assert_int_equal(script.memory[i * SCRIPT_MTU_BYTES + j],
				(uint8_t)(script_sent_psn(i).value + j));
}

static void expect_read_request(uint32_t index, uint32_t packets)
{
	const struct packet *packet = script_expect(&script, OPCODE_RC_READ_REQUEST, index);

	assert_int_equal(packet->reth.va, 0x1000 + index * SCRIPT_MTU_BYTES);
	assert_int_equal(packet->reth.dma_bytes, packets * SCRIPT_MTU_BYTES);
}

static void only_missing_read_responses_are_requested_again(void **state)
{
	(void)state;
	restart(&selective);
	script_post(&script, WR_RDMA_READ, 8 * SCRIPT_MTU_BYTES, SEND_SIGNALED);
	expect_read_request(0, 8);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_FIRST, 0, SCRIPT_MTU_BYTES);
	for (uint32_t i = 3; i < 7; i += 1 + (i == 4)) /* not 1, 2 and 5 */
		script_send_response(&script, OPCODE_RC_READ_RESPONSE_MIDDLE, i, SCRIPT_MTU_BYTES);
	expect_read_request(1, 2);
	expect_read_request(5, 1);
	script_expect_silence(&script);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_LAST, 7, SCRIPT_MTU_BYTES);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_LAST, 7, SCRIPT_MTU_BYTES);
	script_expect_silence(&script);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_FIRST, 1, SCRIPT_MTU_BYTES);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 5, SCRIPT_MTU_BYTES);
	script_expect_no_completion(&script);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_LAST, 2, SCRIPT_MTU_BYTES);
	script_expect_completion(&script, 0, WC_SUCCESS);
	expect_read_bytes(8);
	script_expect_silence(&script);
}

static void early_read_response_completes_in_its_turn(void **state)
{
	(void)state;
	restart(&selective);
	script_post(&script, WR_RDMA_READ, SCRIPT_MTU_BYTES, SEND_SIGNALED);
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_post(&script, WR_RDMA_READ, 1, SEND_SIGNALED);
	script_post(&script, WR_RDMA_READ, 1, SEND_SIGNALED);
	assert_int_equal(script_drain(&script), 4);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 2, 1);
	expect_read_request(0, 1);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 3, 1);
	script_expect_silence(&script);
	script_expect_no_completion(&script);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0, SCRIPT_MTU_BYTES);
	for (uint32_t i = 0; i < 4; i++)
		script_expect_completion(&script, i, WC_SUCCESS);
}

static void ack_behind_a_missing_read_response_requests_only_that(void **state)
{
	(void)state;
	restart(&selective);
	script_post(&script, WR_RDMA_READ, 2 * SCRIPT_MTU_BYTES, 0);
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	assert_int_equal(script_drain(&script), 2);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_FIRST, 0, SCRIPT_MTU_BYTES);
	for (uint32_t i = 0; i < 2; i++)
		script_send_ack(&script, 2, 2, SCRIPT_UNLIMITED);
	expect_read_request(1, 1);
	script_expect_silence(&script);
	assert_int_equal(script_counter(&script, COUNTER_implied_nak_seq_err), 1);
}

/* A response that is not placed comes again, too. */
static void early_atomic_acknowledgement_comes_again(void **state)
{
	(void)state;
	restart(&selective);
	script_post(&script, WR_RDMA_READ, SCRIPT_MTU_BYTES, 0);
	script_post(&script, WR_ATOMIC_FETCH_AND_ADD, 8, SEND_SIGNALED);
	assert_int_equal(script_drain(&script), 2);
	script_send_original(&script, 1, 0x1234);
	expect_read_request(0, 1);
	script_expect(&script, OPCODE_RC_FETCH_ADD, 1);
	script_expect_silence(&script);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0, SCRIPT_MTU_BYTES);
	script_send_original(&script, 1, 0x1234);
	script_expect_completion(&script, 1, WC_SUCCESS);
}

/* The first packet of a peer may be an early response. */
static void early_response_of_a_peer_that_says_nothing_is_an_implied_nak(void **state)
{
	(void)state;
	restart(&selective);
	script.is_selective = false;
	script_post(&script, WR_RDMA_READ, 4 * SCRIPT_MTU_BYTES, SEND_SIGNALED);
	assert_int_equal(script_drain(&script), 1);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_MIDDLE, 1, SCRIPT_MTU_BYTES);
	script_expect_untouched(&script);
	expect_read_request(0, 4);
	assert_false(script.packet.bth.is_selective);
}

static void early_read_response_to_an_atomic_is_not_placed(void **state)
{
	(void)state;
	restart(&selective);
	script_post(&script, WR_RDMA_READ, SCRIPT_MTU_BYTES, 0);
	script_post(&script, WR_ATOMIC_FETCH_AND_ADD, 8, SEND_SIGNALED);
	assert_int_equal(script_drain(&script), 2);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 1, 8);
	script_expect_untouched(&script);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0, SCRIPT_MTU_BYTES);
	script_expect_no_completion(&script);
}

static void early_read_response_of_another_length_is_not_placed(void **state)
{
	(void)state;
	restart(&selective);
	script_post(&script, WR_RDMA_READ, 3 * SCRIPT_MTU_BYTES, SEND_SIGNALED);
	assert_int_equal(script_drain(&script), 1);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_LAST, 1, SCRIPT_MTU_BYTES - 1);
	script_expect_untouched(&script);
	expect_read_request(0, 2);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_FIRST, 0, SCRIPT_MTU_BYTES);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_LAST, 1, SCRIPT_MTU_BYTES - 1);
	assert_int_equal(script_completion(&script).status, WC_BAD_RESP_ERR);
}

static void map_that_cannot_be_is_refused(void **state)
{
	static const struct {
		uint32_t index;
		uint64_t map;
	} rows[] = {{0, 0}, {0, 0x3}, {0, 0x10}, {2, 0x4}};

	(void)state;
	restart(&selective);
	send_many(4);
	for (uint32_t i = 0; i < 4; i++) {
		script_send_map(&script, rows[i].index, rows[i].map);
		script_expect_silence(&script);
		assert_int_equal(script_counter(&script, COUNTER_invalid_responses), i + 1);
	}
	assert_int_equal(rc_from_qp(script.qp)->requester.una.value, script_sent_psn(0).value);
	script_send_map(&script, 0, 0x8);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
}

static void map_is_refused_where_selective_repeat_is_off(void **state)
{
	(void)state;
	script.is_selective = true;
	send_many(4);
	script_send_map(&script, 0, 0x2);
	script_expect_silence(&script);
	assert_int_equal(script_counter(&script, COUNTER_invalid_responses), 1);
}

static void packets_say_that_selective_repeat_is_known_until_the_peer_does_not(void **state)
{
	(void)state;
	script_post(&script, WR_SEND, 1, 0);
	assert_false(script_expect(&script, OPCODE_RC_SEND_ONLY, 0)->bth.is_selective);
	restart(&selective);
	script_post(&script, WR_SEND, 1, 0);
	assert_true(script_expect(&script, OPCODE_RC_SEND_ONLY, 0)->bth.is_selective);
	script_send_ack(&script, 0, 1, SCRIPT_UNLIMITED);
	script_post(&script, WR_RDMA_READ, 1, 0);
	assert_true(script_expect(&script, OPCODE_RC_READ_REQUEST, 1)->bth.is_selective);
	script.is_selective = false;
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 1, 1);
	script_post(&script, WR_SEND, 1, 0);
	assert_false(script_expect(&script, OPCODE_RC_SEND_ONLY, 2)->bth.is_selective);
	/* A stranger's packet in the peer's name, which has no effect, changes nothing either. */
	restart(&selective);
	script.is_selective = false;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 1, 4, 4);
	script_drain(&script);
	script_post(&script, WR_SEND, 1, 0);
	assert_true(script_expect(&script, OPCODE_RC_SEND_ONLY, 0)->bth.is_selective);
}

static void few_losses_keep_the_window_and_many_shrink_it(void **state)
{
	(void)state;
	restart(&selective);
	send_many(RC_WINDOW_PACKETS_START * 7 / 8 + 1);
	assert_int_equal(window_packets(), RC_WINDOW_PACKETS_START);
	script_send_map(&script, 0, 1ull << 8); /* 8 of 64 */
	assert_int_equal(window_packets(), RC_WINDOW_PACKETS_START);
	script_send_map(&script, 0, 1ull << 8 | 1ull << 18); /* 9 more */
	assert_int_equal(window_packets(), RC_WINDOW_PACKETS_START / 2);
}

static void map_in_an_rnr_wait_sends_nothing(void **state)
{
	(void)state;
	restart(&selective);
	send_many(4);
	script_send_rnr(&script, 0, 12);
	script_send_map(&script, 0, 0x2);
	script_expect_silence(&script);
	script_pass(&script, SCRIPT_MS);
	assert_int_equal(script_drain(&script), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(early_packets_are_executed_in_their_turn),
		TEST(early_packet_that_comes_twice_is_executed_once),
		TEST(second_gap_is_reported_when_the_first_has_closed),
		TEST(early_read_has_the_bits_of_all_its_responses),
		TEST(early_packet_of_a_peer_that_says_nothing_is_dropped),
		TEST(early_packet_is_dropped_where_selective_repeat_is_off),
		TEST(early_packet_without_room_is_dropped),
		TEST(packet_beyond_the_map_is_dropped),
		TEST(early_packet_that_finds_no_receive_request_is_repeated),
		TEST(early_packet_that_is_wrong_is_refused_in_its_turn),
		TEST(reset_drops_early_packets),
		TEST(part_of_a_read_is_answered_again),
		TEST(second_part_of_a_read_does_not_replace_the_first),
		TEST(parts_of_a_read_are_sent_once_and_nothing_between_them),
		TEST(only_holes_are_sent_again),
		TEST(hole_that_a_later_packet_has_overtaken_is_sent_once_more),
		TEST(acknowledgement_of_a_hole_ends_its_pass),
		TEST(lost_read_request_is_sent_again_and_counted_once),
		TEST(reads_are_counted_anew_after_going_back),
		TEST(only_missing_read_responses_are_requested_again),
		TEST(early_read_response_completes_in_its_turn),
		TEST(ack_behind_a_missing_read_response_requests_only_that),
		TEST(early_atomic_acknowledgement_comes_again),
		TEST(early_response_of_a_peer_that_says_nothing_is_an_implied_nak),
		TEST(early_read_response_to_an_atomic_is_not_placed),
		TEST(early_read_response_of_another_length_is_not_placed),
		TEST(map_that_cannot_be_is_refused),
		TEST(map_is_refused_where_selective_repeat_is_off),
		TEST(packets_say_that_selective_repeat_is_known_until_the_peer_does_not),
		TEST(few_losses_keep_the_window_and_many_shrink_it),
		TEST(map_in_an_rnr_wait_sends_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
