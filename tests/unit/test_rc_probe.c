/* SPDX-License-Identifier: BSD-2-Clause */
/* Probes of a requester that repeats selectively, against a scripted peer. */
#include "ib/rc/rc.h"
#include "support/rc_script.h"

static const struct script_options selective = {.is_selective = true};

/* Let the next probe be due. Nothing of a round trip is known, so the backoff decides. */
static void pass_to_probe(void)
{
	uint64_t probes = script_counter(&script, COUNTER_early_probes);

	script_pass(&script, RC_PROBE_NS_MIN << rc_from_qp(script.qp)->requester.probe_backoff);
	assert_int_equal(script_counter(&script, COUNTER_early_probes), probes + 1);
}

static void expect_read_request(uint32_t index, uint32_t packets)
{
	const struct packet *packet = script_expect(&script, OPCODE_RC_READ_REQUEST, index);

	assert_int_equal(packet->reth.va, 0x1000 + index * SCRIPT_MTU_BYTES);
	assert_int_equal(packet->reth.dma_bytes, packets * SCRIPT_MTU_BYTES);
}

static void late_peer_costs_one_packet_and_no_window(void **state)
{
	(void)state;
	restart(&selective);
	send_many(8);
	pass_to_probe();
	assert_true(script_expect(&script, OPCODE_RC_SEND_ONLY, 7)->bth.ack_requested);
	script_expect_silence(&script);
	assert_int_equal(window_packets(), RC_WINDOW_PACKETS_START);
	script_send_ack(&script, 3, 4, SCRIPT_UNLIMITED);
	script_expect_silence(&script);
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 8);
	script_send_ack(&script, 8, 9, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 7, WC_SUCCESS);
	script_expect_completion(&script, 8, WC_SUCCESS);
	script_expect_silence(&script);
	assert_int_equal(script_counter(&script, COUNTER_retransmitted_pkts), 1);
}

static void answer_to_a_probe_shows_what_is_lost(void **state)
{
	(void)state;
	restart(&selective);
	send_many(8);
	pass_to_probe();
	script_expect(&script, OPCODE_RC_SEND_ONLY, 7);
	script_send_map(&script, 0, 0xb6); /* of 0 to 7, 0, 3 and 6 are missing */
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 3);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 6);
	script_expect_silence(&script);
	script_send_ack(&script, 7, 8, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 7, WC_SUCCESS);
}

static void answer_before_the_probe_is_sent_replaces_it(void **state)
{
	(void)state;
	restart(&selective);
	send_many(8);
	pass_to_probe();
	script_send_map(&script, 0, 0x04);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 1);
	script_expect_silence(&script);
}

static void acknowledgement_before_the_probe_is_sent_cancels_it(void **state)
{
	(void)state;
	restart(&selective);
	send_many(8);
	pass_to_probe();
	script_send_ack(&script, 7, 8, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 7, WC_SUCCESS);
	script_expect_silence(&script);
}

/* Holes that were sent again are perhaps lost again: the next map counts. */
static void probe_ends_the_round(void **state)
{
	(void)state;
	restart(&selective);
	send_many(4);
	script_send_map(&script, 0, 0x4);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 1);
	pass_to_probe();
	script_expect(&script, OPCODE_RC_SEND_ONLY, 3);
	script_send_map(&script, 1, 0x6);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 1);
	script_expect_silence(&script);
}

/* A peer without a receive request ignores all packets but the oldest one. */
static void further_probes_repeat_the_oldest_packet(void **state)
{
	(void)state;
	restart(&selective);
	send_many(8);
	pass_to_probe();
	script_expect(&script, OPCODE_RC_SEND_ONLY, 7);
	for (uint32_t i = 0; i < 3; i++) {
		pass_to_probe();
		script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
		script_expect_silence(&script);
	}
	assert_int_equal(window_packets(), RC_WINDOW_PACKETS_START);
	script_send_ack(&script, 0, 1, SCRIPT_UNLIMITED);
	script_expect_silence(&script);
	pass_to_probe();
	script_expect(&script, OPCODE_RC_SEND_ONLY, 7);
	script_expect_silence(&script);
}

static void timeout_goes_back_and_closes_the_window(void **state)
{
	(void)state;
	restart(&selective);
	send_many(8);
	script_pass(&script, RC_RETRY_NS_MIN);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	script_expect_silence(&script);
	assert_int_equal(window_packets(), 1);
	/* The packets behind wait to be sent again, so a probe goes back, too. */
	pass_to_probe();
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	script_expect_silence(&script);
	script_send_ack(&script, 0, 1, SCRIPT_UNLIMITED);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 1);
}

/* The peer has no room for early packets: it says only what it expects. */
static void answer_without_a_map_goes_back(void **state)
{
	(void)state;
	restart(&selective);
	send_many(3);
	script_send_nak(&script, 0, AETH_NAK_PSN_SEQUENCE);
	assert_int_equal(script_drain(&script), 3);
	pass_to_probe();
	script_expect(&script, OPCODE_RC_SEND_ONLY, 2);
	script_send_nak(&script, 0, AETH_NAK_PSN_SEQUENCE);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	assert_int_equal(script_drain(&script), 2);
}

static void rnr_nak_that_answers_a_probe_is_obeyed(void **state)
{
	(void)state;
	restart(&selective);
	send_many(4);
	pass_to_probe();
	script_expect(&script, OPCODE_RC_SEND_ONLY, 3);
	pass_to_probe();
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	script_send_rnr(&script, 0, 12);
	script_expect_silence(&script);
	script_pass(&script, SCRIPT_MS);
	assert_int_equal(script_drain(&script), 4);
}

/* A response could answer either copy (Karn's rule). */
static void probe_is_not_timed(void **state)
{
	const struct rc_requester *requester;

	(void)state;
	restart(&selective);
	requester = &rc_from_qp(script.qp)->requester;
	send_many(2);
	pass_to_probe();
	script_expect(&script, OPCODE_RC_SEND_ONLY, 1);
	script_send_map(&script, 0, 0x2);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	script_send_ack(&script, 1, 2, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 1, WC_SUCCESS);
	assert_int_equal(requester->rtt_smooth_ns, 0);
	assert_int_equal(requester->probe_backoff, 1);
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_drain(&script);
	script_pass(&script, 1000);
	script_send_ack(&script, 2, 3, SCRIPT_UNLIMITED);
	assert_int_equal(requester->rtt_smooth_ns, 1000);
	assert_int_equal(requester->probe_backoff, 0);
}

/* --- READs --- */

static void probe_of_a_read_repeats_the_newest_request(void **state)
{
	(void)state;
	restart(&selective);
	script_post(&script, WR_RDMA_READ, 40 * SCRIPT_MTU_BYTES, SEND_SIGNALED);
	expect_read_request(0, 32);
	expect_read_request(32, 8);
	assert_false(script.packet.bth.ack_requested);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_FIRST, 0, SCRIPT_MTU_BYTES);
	pass_to_probe();
	expect_read_request(32, 8);
	assert_true(script.packet.bth.ack_requested);
	script_expect_silence(&script);
	assert_int_equal(window_packets(), RC_WINDOW_PACKETS_START + 1);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 39, SCRIPT_MTU_BYTES);
	expect_read_request(1, 31);
	assert_false(script.packet.bth.ack_requested);
	expect_read_request(32, 7);
	script_expect_silence(&script);
	assert_int_equal(rc_from_qp(script.qp)->requester.reads_outstanding, 2);
}

static void further_probes_repeat_the_rest_of_the_oldest_read(void **state)
{
	(void)state;
	restart(&selective);
	script_post(&script, WR_RDMA_READ, 40 * SCRIPT_MTU_BYTES, SEND_SIGNALED);
	assert_int_equal(script_drain(&script), 2);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_FIRST, 0, SCRIPT_MTU_BYTES);
	pass_to_probe();
	expect_read_request(32, 8);
	for (uint32_t i = 0; i < 2; i++) {
		pass_to_probe();
		expect_read_request(1, 31);
		script_expect_silence(&script);
	}
}

/* The last response shows that what was requested again is missing once more. */
static void response_that_is_placed_answers_a_probe(void **state)
{
	(void)state;
	restart(&selective);
	script_post(&script, WR_RDMA_READ, 4 * SCRIPT_MTU_BYTES, SEND_SIGNALED);
	expect_read_request(0, 4);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_MIDDLE, 2, SCRIPT_MTU_BYTES);
	expect_read_request(0, 2);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_LAST, 3, SCRIPT_MTU_BYTES);
	pass_to_probe();
	expect_read_request(0, 4);
	script_expect_silence(&script);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 3, SCRIPT_MTU_BYTES);
	expect_read_request(0, 2);
	script_expect_silence(&script);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_FIRST, 0, SCRIPT_MTU_BYTES);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_LAST, 1, SCRIPT_MTU_BYTES);
	script_expect_completion(&script, 0, WC_SUCCESS);
}

static void send_read_probe(uint32_t index, uint32_t packets)
{
	struct packet packet = script_packet(&script, OPCODE_RC_READ_REQUEST, index);

	packet.reth = (struct reth){(uintptr_t)script.memory + index * SCRIPT_MTU_BYTES, script.key,
		packets * SCRIPT_MTU_BYTES};
	packet.bth.ack_requested = true;
	script_send(&script, &packet);
}

static void responder_answers_a_probed_read_by_its_last_response(void **state)
{
	(void)state;
	restart(&selective);
	script_send_read(&script, 0, 0, 5 * SCRIPT_MTU_BYTES);
	assert_int_equal(script_drain(&script), 5);
	for (uint32_t i = 0; i < 2; i++) {
		send_read_probe(i, 5 - i);
		script_expect(&script, OPCODE_RC_READ_RESPONSE_ONLY, 4);
		script_expect_silence(&script);
	}
	/* Responses that are yet to be sent are sent once. */
	script_send_read(&script, 5, 0, 5 * SCRIPT_MTU_BYTES);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_FIRST, 5);
	send_read_probe(5, 5);
	assert_int_equal(script_drain(&script), 4);
	/* To a peer that lacks the request, a probe is that request. */
	send_read_probe(10, 3);
	assert_int_equal(script_drain(&script), 3);
}

static void probe_behind_a_read_repeats_the_newest_request(void **state)
{
	(void)state;
	restart(&selective);
	script_post(&script, WR_RDMA_READ, 2 * SCRIPT_MTU_BYTES, 0);
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	assert_int_equal(script_drain(&script), 2);
	pass_to_probe();
	script_expect(&script, OPCODE_RC_SEND_ONLY, 2);
	script_send_ack(&script, 2, 2, SCRIPT_UNLIMITED);
	expect_read_request(0, 2);
	script_expect_silence(&script);
}

static void probe_of_an_atomic_repeats_it(void **state)
{
	(void)state;
	restart(&selective);
	script_post(&script, WR_RDMA_READ, SCRIPT_MTU_BYTES, 0);
	script_post(&script, WR_ATOMIC_FETCH_AND_ADD, 8, SEND_SIGNALED);
	assert_int_equal(script_drain(&script), 2);
	pass_to_probe();
	script_expect(&script, OPCODE_RC_FETCH_ADD, 1);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0, SCRIPT_MTU_BYTES);
	script_send_original(&script, 1, 0x1234);
	script_expect_completion(&script, 1, WC_SUCCESS);
	assert_int_equal(rc_from_qp(script.qp)->requester.reads_outstanding, 0);
}

/* The request behind the probed packet has failed, and waits for the ones before it. */
static void probe_keeps_a_fault_that_waits(void **state)
{
	(void)state;
	restart(&(struct script_options){.is_selective = true, .has_no_rd_atomic = true});
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_post(&script, WR_RDMA_READ, 1, SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	script_expect_silence(&script);
	pass_to_probe();
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	script_expect_silence(&script);
	script_send_ack(&script, 0, 1, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 0, WC_SUCCESS);
	assert_int_not_equal(script_completion(&script).status, WC_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(late_peer_costs_one_packet_and_no_window),
		TEST(answer_to_a_probe_shows_what_is_lost),
		TEST(answer_before_the_probe_is_sent_replaces_it),
		TEST(acknowledgement_before_the_probe_is_sent_cancels_it),
		TEST(probe_ends_the_round),
		TEST(further_probes_repeat_the_oldest_packet),
		TEST(timeout_goes_back_and_closes_the_window),
		TEST(answer_without_a_map_goes_back),
		TEST(rnr_nak_that_answers_a_probe_is_obeyed),
		TEST(probe_is_not_timed),
		TEST(probe_of_a_read_repeats_the_newest_request),
		TEST(further_probes_repeat_the_rest_of_the_oldest_read),
		TEST(response_that_is_placed_answers_a_probe),
		TEST(responder_answers_a_probed_read_by_its_last_response),
		TEST(probe_behind_a_read_repeats_the_newest_request),
		TEST(probe_of_an_atomic_repeats_it),
		TEST(probe_keeps_a_fault_that_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
