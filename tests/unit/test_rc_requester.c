/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester, against a scripted peer.
 */
#include "ib/rc/rc.h"
#include "support/rc_script.h"
#include "wire/roce.h"

/*
 * --- generating requests ---
 */

static void requester_message_of_one_mtu_is_an_only_packet(void **state)
{
	const struct packet *packet;

	(void)state;
	script_post(&script, WR_SEND, SCRIPT_MTU_BYTES, SEND_SIGNALED);
	packet = script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	assert_int_equal(packet->payload_bytes, SCRIPT_MTU_BYTES);
	assert_memory_equal(packet->payload, script.memory, SCRIPT_MTU_BYTES);
	script_expect_silence(&script);
}

static void requester_longer_message_is_first_middle_last_across_the_psn_wrap(void **state)
{
	const struct packet *packet;

	(void)state;
	script_post(&script, WR_RDMA_WRITE_WITH_IMM, 3 * SCRIPT_MTU_BYTES + 1, SEND_SOLICITED);
	packet = script_expect(&script, OPCODE_RC_WRITE_FIRST, 0);
	assert_int_equal(packet->reth.va, 0x1000);
	assert_int_equal(packet->reth.rkey, 0x55667788);
	assert_int_equal(packet->reth.dma_bytes, 3 * SCRIPT_MTU_BYTES + 1);
	assert_false(packet->bth.is_solicited);
	script_expect(&script, OPCODE_RC_WRITE_MIDDLE, 1);
	packet = script_expect(&script, OPCODE_RC_WRITE_MIDDLE, 2);
	assert_int_equal(packet->bth.psn.value, 0);
	packet = script_expect(&script, OPCODE_RC_WRITE_LAST_IMM, 3);
	assert_int_equal(packet->payload_bytes, 1);
	assert_int_equal(packet->bth.pad_bytes, 3);
	assert_int_equal(packet->immdt.data, 0x11223344);
	assert_true(packet->bth.is_solicited);
	script_expect_silence(&script);
}

static void requester_empty_message_is_an_only_packet_without_payload(void **state)
{
	(void)state;
	script_post(&script, WR_SEND_WITH_IMM, 0, 0);
	assert_int_equal(script_expect(&script, OPCODE_RC_SEND_ONLY_IMM, 0)->payload_bytes, 0);
	script_post(&script, WR_RDMA_WRITE, 0, 0);
	assert_int_equal(script_expect(&script, OPCODE_RC_WRITE_ONLY, 1)->reth.dma_bytes, 0);
	script_post(&script, WR_RDMA_READ, 0, 0);
	assert_int_equal(script_expect(&script, OPCODE_RC_READ_REQUEST, 2)->reth.dma_bytes, 0);
}

static void requester_read_takes_the_psns_of_its_responses(void **state)
{
	(void)state;
	script_post(&script, WR_RDMA_READ, 5 * SCRIPT_MTU_BYTES, 0);
	script_post(&script, WR_SEND, 1, 0);
	assert_int_equal(script_expect(&script, OPCODE_RC_READ_REQUEST, 0)->reth.dma_bytes,
		5 * SCRIPT_MTU_BYTES);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 5);
}

static void requester_long_read_goes_as_chunks_within_the_rd_atomic_limit(void **state)
{
	const struct packet *packet;
	uint32_t chunk_bytes = RC_READ_CHUNK_PACKETS * SCRIPT_MTU_BYTES;

	(void)state;
	script_post(&script, WR_RDMA_READ, 3 * chunk_bytes + 100, SEND_SIGNALED);
	packet = script_expect(&script, OPCODE_RC_READ_REQUEST, 0);
	assert_int_equal(packet->reth.va, 0x1000);
	assert_int_equal(packet->reth.dma_bytes, chunk_bytes);
	packet = script_expect(&script, OPCODE_RC_READ_REQUEST, RC_READ_CHUNK_PACKETS);
	assert_int_equal(packet->reth.va, 0x1000 + chunk_bytes);
	/* The window of 64 packets is full of responses to come. */
	script_expect_silence(&script);
}

static void requester_atomics_beyond_max_rd_atomic_wait(void **state)
{
	const struct packet *packet;

	(void)state;
	for (uint32_t i = 0; i < 5; i++)
		script_post(&script, WR_ATOMIC_FETCH_AND_ADD, 8, SEND_SIGNALED);
	packet = script_expect(&script, OPCODE_RC_FETCH_ADD, 0);
	assert_int_equal(packet->atomiceth.swap_add, 5);
	for (uint32_t i = 1; i < 4; i++)
		script_expect(&script, OPCODE_RC_FETCH_ADD, i);
	script_expect_silence(&script);
	script_send_original(&script, 0, 42);
	script_expect(&script, OPCODE_RC_FETCH_ADD, 4);
	script_expect_completion(&script, 0, WC_SUCCESS);
	assert_int_equal(script.memory[0], 42);
}

static void requester_compare_swap_carries_both_operands(void **state)
{
	const struct packet *packet;

	(void)state;
	script_post(&script, WR_ATOMIC_CMP_AND_SWP, 8, 0);
	packet = script_expect(&script, OPCODE_RC_COMPARE_SWAP, 0);
	assert_int_equal(packet->atomiceth.compare, 5);
	assert_int_equal(packet->atomiceth.swap_add, 6);
}

static void requester_fenced_request_waits_for_reads_before_it(void **state)
{
	(void)state;
	script_post(&script, WR_RDMA_READ, 10, 0);
	script_post(&script, WR_SEND, 10, 0);
	script_post(&script, WR_SEND, 10, SEND_FENCE);
	script_expect(&script, OPCODE_RC_READ_REQUEST, 0);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 1);
	script_expect_silence(&script);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0, 10);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 2);
}

static void requester_without_rd_atomic_fails_a_read(void **state)
{
	(void)state;
	restart(&(struct script_options){.has_no_rd_atomic = true});
	script_post(&script, WR_RDMA_READ, 10, SEND_SIGNALED);
	script_expect_silence(&script);
	script_expect_completion(&script, 0, WC_LOC_QP_OP_ERR);
	assert_int_equal(script.qp->state, QP_ERR);
}

/* How many packets go out until a window counts as full: less than an eighth of it is free. */
static uint32_t packets_until_full(uint32_t window)
{
	return min_u32(window, window - window / 8 + 1);
}

/* Twice in a window, at the end, and not only once in a long row. */
static void requester_asks_for_an_ack_where_it_will_wait(void **state)
{
	(void)state;
	for (uint32_t window = 1; window <= RC_WINDOW_PACKETS_MAX; window++) {
		uint32_t packets = packets_until_full(window), since = 0;

		restart(NULL);
		rc_from_qp(script.qp)->requester.window_packets = window;
		script_post(&script, WR_SEND, (packets + 1) * SCRIPT_MTU_BYTES, 0);
		for (uint32_t i = 0; i < packets; i++) {
			bool asks = script_expect(
				&script, i == 0 ? OPCODE_RC_SEND_FIRST : OPCODE_RC_SEND_MIDDLE, i)
					    ->bth.ack_requested;

			since = asks ? 0 : since + 1;
			assert_true(since < max_u32(window / 2, 1));
			assert_true(since < RC_ACK_INTERVAL_PACKETS_MAX);
		}
		script_expect_silence(&script);
		script_send_ack(&script, packets - 1 - since, 0, SCRIPT_UNLIMITED);
		assert_true(
			script_expect(&script, OPCODE_RC_SEND_LAST, packets)->bth.ack_requested);
	}
}

static void requester_borrows_a_payload_for_the_first_time_only(void **state)
{
	const uint8_t *second;

	(void)state;
	script.lane.zerocopy_bytes_min = SCRIPT_MTU_BYTES;
	second = script.memory + SCRIPT_MTU_BYTES;
	script_post(&script, WR_RDMA_WRITE, 2 * SCRIPT_MTU_BYTES + 12, SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_WRITE_FIRST, 0);
	assert_ptr_equal(script.run.borrowed, script.memory);
	assert_int_equal(script.run.borrowed_bytes, SCRIPT_MTU_BYTES);
	script_expect(&script, OPCODE_RC_WRITE_MIDDLE, 1);
	assert_ptr_equal(script.run.borrowed, second);
	script_expect(&script, OPCODE_RC_WRITE_LAST, 2);
	assert_null(script.run.borrowed);
	script_send_nak(&script, 1, AETH_NAK_PSN_SEQUENCE);
	script_expect(&script, OPCODE_RC_WRITE_MIDDLE, 1);
	assert_null(script.run.borrowed);
	assert_memory_equal(script.packet.payload, second, SCRIPT_MTU_BYTES);
}

/*
 * Allow runs of packets (wire/packet_run.h), which end with the packet that reaches `run_bytes`.
 * script.wire has their headers.
 */
static void runs_allow(uint32_t run_bytes)
{
	script.lane.zerocopy_bytes_min = SCRIPT_MTU_BYTES;
	script.run.run_bytes = run_bytes;
}

/* `packets` from packet `index` on, of which the first may ask for an acknowledgement. */
static void expect_run(uint32_t index, uint32_t packets, bool asks)
{
	const struct packet *packet = script_expect(&script, OPCODE_RC_WRITE_MIDDLE, index);
	uint32_t qpn = packet->bth.dest_qpn.value;

	assert_int_equal(script.run.packets, packets);
	assert_ptr_equal(script.run.borrowed, script.memory + (size_t)index * SCRIPT_MTU_BYTES);
	assert_int_equal(script.run.borrowed_bytes, SCRIPT_MTU_BYTES);
	for (uint32_t i = 0; i < packets; i++) {
		struct bth bth;

		bth_decode(&bth, script.wire + (size_t)i * (BTH_BYTES + ROCE_ICRC_BYTES));
		assert_int_equal(bth.opcode, OPCODE_RC_WRITE_MIDDLE);
		assert_int_equal(bth.dest_qpn.value, qpn);
		assert_int_equal(bth.psn.value, script_sent_psn(index + i).value);
		assert_int_equal(bth.ack_requested, asks && i == 0);
		assert_int_equal(bth.pad_bytes, 0);
	}
}

static void requester_makes_runs_of_middle_packets(void **state)
{
	const uint32_t five_bytes = 5 * (SCRIPT_MTU_BYTES + BTH_BYTES);
	uint64_t before = counter_read(script.qp->counters, COUNTER_sent_pkts);

	(void)state;
	runs_allow(five_bytes);
	script_post(&script, WR_RDMA_WRITE, 14 * SCRIPT_MTU_BYTES, SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_WRITE_FIRST, 0);
	assert_int_equal(script.run.packets, 1);
	expect_run(1, 5, false);
	runs_allow(five_bytes + 1);
	expect_run(6, 6, false);
	expect_run(12, 1, false);
	assert_true(script_expect(&script, OPCODE_RC_WRITE_LAST, 13)->bth.ack_requested);
	script_expect_silence(&script);
	assert_int_equal(counter_read(script.qp->counters, COUNTER_sent_pkts) - before, 14);
	script_send_ack(&script, 13, 1, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 0, WC_SUCCESS);
}

static void run_ends_before_who_asks_and_at_the_window(void **state)
{
	const uint32_t interval = RC_WINDOW_PACKETS_START / 2;

	(void)state;
	runs_allow(UINT32_MAX);
	script_post(&script, WR_RDMA_WRITE, 100 * SCRIPT_MTU_BYTES, SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_WRITE_FIRST, 0);
	expect_run(1, interval - 2, false);
	expect_run(interval - 1, interval, true);
	script_expect_silence(&script);
}

static void run_ends_at_a_window_that_has_shrunk(void **state)
{
	const uint32_t sent = RC_WINDOW_PACKETS_START / 2 - 1, window = 40;

	(void)state;
	runs_allow(UINT32_MAX);
	script_post(&script, WR_RDMA_WRITE, 100 * SCRIPT_MTU_BYTES, SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_WRITE_FIRST, 0);
	expect_run(1, sent - 1, false);
	rc_from_qp(script.qp)->requester.window_packets = window;
	expect_run(sent, window - sent, true);
	script_expect_silence(&script);
}

static void run_is_never_sent_again_as_one(void **state)
{
	(void)state;
	runs_allow(UINT32_MAX);
	script_post(&script, WR_RDMA_WRITE, 6 * SCRIPT_MTU_BYTES, SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_WRITE_FIRST, 0);
	expect_run(1, 4, false);
	script_expect(&script, OPCODE_RC_WRITE_LAST, 5);
	script_send_nak(&script, 2, AETH_NAK_PSN_SEQUENCE);
	for (uint32_t i = 2; i < 5; i++) {
		script_expect(&script, OPCODE_RC_WRITE_MIDDLE, i);
		assert_int_equal(script.run.packets, 1);
		assert_null(script.run.borrowed);
		assert_memory_equal(script.packet.payload,
			script.memory + (size_t)i * SCRIPT_MTU_BYTES, SCRIPT_MTU_BYTES);
	}
}

static void requester_window_bounds_what_is_unacknowledged(void **state)
{
	uint32_t sent = packets_until_full(RC_WINDOW_PACKETS_START);

	(void)state;
	script_post(&script, WR_RDMA_WRITE, 300 * SCRIPT_MTU_BYTES, SEND_SIGNALED);
	assert_int_equal(script_drain(&script), sent);
	/* The window grows by the number of acknowledged packets. */
	script_send_ack(&script, sent - 1, 0, SCRIPT_UNLIMITED);
	assert_int_equal(script_drain(&script), packets_until_full(RC_WINDOW_PACKETS_START + sent));
	script_send_ack(&script, 2 * sent - 1, 0, SCRIPT_UNLIMITED);
	script_drain(&script);
	assert_int_equal(rc_in_flight(&rc_from_qp(script.qp)->requester),
		packets_until_full(RC_WINDOW_PACKETS_MAX));
}

static void requester_bad_lkey_completes_after_the_requests_before_it(void **state)
{
	(void)state;
	script_post(&script, WR_SEND, 10, SEND_SIGNALED);
	script.key ^= 1;
	script_post(&script, WR_SEND, 10, SEND_SIGNALED);
	script.key ^= 1;
	script_post(&script, WR_SEND, 10, SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	script_expect_silence(&script);
	script_expect_no_completion(&script);
	script_send_ack(&script, 0, 1, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 0, WC_SUCCESS);
	script_expect_completion(&script, 1, WC_LOC_PROT_ERR);
	script_expect_completion(&script, 2, WC_WR_FLUSH_ERR);
	script_expect_silence(&script);
}

/*
 * --- credits ---
 */

static void requester_without_credit_sends_one_message_at_a_time(void **state)
{
	(void)state;
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_drain(&script);
	script_send_ack(&script, 0, 1, 0);
	script_post(&script, WR_SEND, 1, 0);
	script_post(&script, WR_SEND, 1, 0);
	assert_true(script_expect(&script, OPCODE_RC_SEND_ONLY, 1)->bth.ack_requested);
	script_expect_silence(&script);
	assert_int_not_equal(script_counter(&script, COUNTER_credit_stalls), 0);
	script_send_ack(&script, 1, 2, 0);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 2);
}

static void requester_without_credit_still_writes_and_reads(void **state)
{
	(void)state;
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_drain(&script);
	script_send_ack(&script, 0, 1, 0);
	script_post(&script, WR_RDMA_WRITE, 1, 0);
	script_post(&script, WR_RDMA_READ, 1, 0);
	script_expect(&script, OPCODE_RC_WRITE_ONLY, 1);
	script_expect(&script, OPCODE_RC_READ_REQUEST, 2);
	script_post(&script, WR_RDMA_WRITE_WITH_IMM, 1, 0);
	script_expect_silence(&script); /* this one takes a receive request */
}

/* A program that only writes never posts a receive request at its peer. */
static void requester_without_credit_asks_no_more_often_for_writes(void **state)
{
	(void)state;
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_drain(&script);
	script_send_ack(&script, 0, 1, 0);
	script_post(&script, WR_RDMA_WRITE, 2 * SCRIPT_MTU_BYTES, 0);
	script_post(&script, WR_RDMA_WRITE, 2 * SCRIPT_MTU_BYTES, 0);
	assert_false(script_expect(&script, OPCODE_RC_WRITE_FIRST, 1)->bth.ack_requested);
	assert_false(script_expect(&script, OPCODE_RC_WRITE_LAST, 2)->bth.ack_requested);
	assert_false(script_expect(&script, OPCODE_RC_WRITE_FIRST, 3)->bth.ack_requested);
	assert_true(script_expect(&script, OPCODE_RC_WRITE_LAST, 4)->bth.ack_requested);
}

static void requester_unsolicited_ack_brings_credit(void **state)
{
	(void)state;
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_drain(&script);
	script_send_ack(&script, 0, 1, 0);
	script_send_ack(&script, 0, 1, 2);
	script_post(&script, WR_SEND, 1, 0);
	script_post(&script, WR_SEND, 1, 0);
	script_post(&script, WR_SEND, 1, 0);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 1);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 2);
	script_expect_silence(&script);
}

static void requester_stalls_only_after_a_packet_that_asked(void **state)
{
	(void)state;
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_drain(&script);
	script_send_ack(&script, 0, 1, 3); /* up to message 4 */
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_post(&script, WR_SEND, 1, 0);
	script_post(&script, WR_SEND, 1, 0);
	assert_true(script_expect(&script, OPCODE_RC_SEND_ONLY, 1)->bth.ack_requested);
	assert_false(script_expect(&script, OPCODE_RC_SEND_ONLY, 2)->bth.ack_requested);
	script_send_ack(&script, 1, 2, 0); /* the peer took back what it had promised */
	assert_true(script_expect(&script, OPCODE_RC_SEND_ONLY, 3)->bth.ack_requested);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(requester_message_of_one_mtu_is_an_only_packet),
		TEST(requester_longer_message_is_first_middle_last_across_the_psn_wrap),
		TEST(requester_empty_message_is_an_only_packet_without_payload),
		TEST(requester_read_takes_the_psns_of_its_responses),
		TEST(requester_long_read_goes_as_chunks_within_the_rd_atomic_limit),
		TEST(requester_atomics_beyond_max_rd_atomic_wait),
		TEST(requester_compare_swap_carries_both_operands),
		TEST(requester_fenced_request_waits_for_reads_before_it),
		TEST(requester_without_rd_atomic_fails_a_read),
		TEST(requester_asks_for_an_ack_where_it_will_wait),
		TEST(requester_borrows_a_payload_for_the_first_time_only),
		TEST(requester_makes_runs_of_middle_packets),
		TEST(run_ends_before_who_asks_and_at_the_window),
		TEST(run_ends_at_a_window_that_has_shrunk),
		TEST(run_is_never_sent_again_as_one),
		TEST(requester_window_bounds_what_is_unacknowledged),
		TEST(requester_bad_lkey_completes_after_the_requests_before_it),
		TEST(requester_without_credit_sends_one_message_at_a_time),
		TEST(requester_without_credit_still_writes_and_reads),
		TEST(requester_without_credit_asks_no_more_often_for_writes),
		TEST(requester_unsolicited_ack_brings_credit),
		TEST(requester_stalls_only_after_a_packet_that_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
