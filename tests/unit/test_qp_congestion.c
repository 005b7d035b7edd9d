/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion control of a queue pair: marks are answered by congestion notifications (CNPs), and
 * CNPs slow the queue pair down.
 */
#include <string.h>

#include "congestion/cc_flow.h"
#include "ib/rc/rc.h"
#include "support/rc_script.h"

enum {
	CE = 3,
	MTU = SCRIPT_MTU_BYTES,
	/* BTH, RETH, ICRC, UDP, IPv4, Ethernet with FCS. */
	FIRST_BYTES = MTU + 12 + 16 + 4 + 8 + 20 + 18,
	LATER_BYTES = FIRST_BYTES - 16,
};

#define US 1000u

static struct cc_params params;

static void start_as(enum qp_type type, enum cc_algorithm algorithm)
{
	const struct script_options options = {.type = type, .cc = &params};

	cc_params_init(&params, algorithm, CC_PRESET_SIGCOMM15);
	script_start(&script, &options);
}

static int setup_rc(void **state)
{
	(void)state;
	start_as(QP_TYPE_RC, CC_DCQCN);
	return 0;
}

static int setup_uc(void **state)
{
	(void)state;
	start_as(QP_TYPE_UC, CC_DCQCN);
	return 0;
}

static int setup_off(void **state)
{
	(void)state;
	script_start(&script, NULL);
	return 0;
}

static int setup_swift(void **state)
{
	(void)state;
	start_as(QP_TYPE_RC, CC_SWIFT);
	return 0;
}

static void send_marked(uint32_t index)
{
	script.traffic_class = CE;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, index, 4, 4);
	script.traffic_class = 0;
}

static void send_cnp(void)
{
	struct packet packet = script_packet(&script, OPCODE_CNP_NOTIFICATION, 0);

	packet.bth.is_migrated = false;
	packet.bth.ack_requested = false;
	packet.bth.becn = true;
	packet.bth.psn = psn_from(0);
	packet_set_payload(&packet, NULL, 16);
	script_send(&script, &packet);
}

/* --- the notification point --- */

static void marked_packet_is_answered_by_a_cnp_before_the_acknowledgement(void **state)
{
	(void)state;
	send_marked(0);
	script_expect_cnp(&script);
	script_expect_ack(&script, 0, 1);
	script_expect_silence(&script);
	assert_int_equal(script_counter(&script, COUNTER_np_ecn_marked_roce_packets), 1);
	assert_int_equal(script_counter(&script, COUNTER_np_cnp_sent), 1);
}

static void packet_without_mark_is_not_answered_by_a_cnp(void **state)
{
	uint32_t index = 0;

	(void)state;
	for (uint8_t traffic_class = 0; traffic_class < 255; traffic_class++) {
		if ((traffic_class & 3) == CE)
			continue;
		script.traffic_class = traffic_class;
		script_send_write(&script, OPCODE_RC_WRITE_ONLY, index, 4, 4);
		script_expect_ack(&script, index, index + 1);
		index++;
	}
	script_expect_silence(&script);
	assert_int_equal(script_counter(&script, COUNTER_np_cnp_sent), 0);
}

static void marks_of_a_queue_pair_cause_one_cnp_in_its_time(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 100; i++) {
		send_marked(i);
		script_drain(&script);
		script_pass(&script, 10 * US);
	}
	assert_int_equal(script_counter(&script, COUNTER_np_ecn_marked_roce_packets), 100);
	assert_int_equal(script_counter(&script, COUNTER_np_cnp_sent), 20);
}

static void marked_acknowledgement_is_answered_too(void **state)
{
	(void)state;
	script_post(&script, WR_RDMA_WRITE, 4, SEND_SIGNALED);
	script_drain(&script);
	script.traffic_class = CE;
	script_send_ack(&script, 0, 1, SCRIPT_UNLIMITED);
	script_expect_cnp(&script);
	script_expect_silence(&script);
}

/* Any host can send a marked packet; only the peer's are answered. */
static void marked_packet_of_a_stranger_is_not_answered(void **state)
{
	(void)state;
	script.remote.raw[15] ^= 1;
	send_marked(0);
	script_expect_silence(&script);
	assert_int_equal(script_counter(&script, COUNTER_np_ecn_marked_roce_packets), 0);
}

static void marked_cnp_is_obeyed_and_not_answered(void **state)
{
	(void)state;
	script.traffic_class = CE;
	send_cnp();
	script_expect_silence(&script);
	assert_int_equal(script_counter(&script, COUNTER_rp_cnp_handled), 1);
}

static void pending_cnp_ends_with_the_connection(void **state)
{
	struct qp_attr attr = {.port = 0};

	(void)state;
	send_marked(0);
	assert_int_equal(qp_modify(script.qp, QP_ERR, ATTR_STATE, &attr, script.now_ns), 0);
	script_drain(&script);
	assert_int_equal(script_counter(&script, COUNTER_np_cnp_sent), 0);
}

/* --- the reaction point --- */

/* The time in which a message has left. Over RC the peer acknowledges each packet at once. */
static uint64_t sending_ns(uint32_t packets)
{
	uint64_t start_ns = script.now_ns;
	uint32_t sent;

	script_post(&script, WR_RDMA_WRITE, packets * MTU, SEND_SIGNALED);
	sent = script_drain(&script);
	while (sent < packets) {
		if (sent && script.qp->type == QP_TYPE_RC)
			script_send_ack(&script, sent - 1, 0, SCRIPT_UNLIMITED);
		script_pass(&script, US);
		sent += script_drain(&script);
		assert_true(script.now_ns < start_ns + 1000 * SCRIPT_MS);
	}
	assert_int_equal(sent, packets);
	return script.now_ns - start_ns;
}

static void queue_pair_without_cnp_is_not_paced(void **state)
{
	(void)state;
	assert_null(script.qp->pace);
	assert_int_equal(sending_ns(32), 0);
	assert_ptr_equal(script.qp->transport, &rc_transport);
}

/* The first burst, a millisecond, may leave at once; then the rate holds. */
static void cnps_pace_the_queue_pair(void **state)
{
	uint64_t expected_ns;

	(void)state;
	params.rp_time_reset = 10000000; /* the rate does not rise meanwhile */
	params.rp_min_rate = 10;
	for (uint32_t i = 0; i < 30; i++)
		send_cnp();
	/* 10 Mbit/s are 10 bits in a microsecond. */
	expected_ns = (FIRST_BYTES + 31 * LATER_BYTES) * 8ull * 100 - 1000000;
	assert_in_range(sending_ns(32), expected_ns - 300 * US, expected_ns);
	assert_int_equal(script_counter(&script, COUNTER_rp_cnp_handled), 30);
	assert_int_equal(script_counter(&script, COUNTER_rp_cnp_ignored), 0);
}

static void paced_unreliable_connection_obeys_too(void **state)
{
	(void)state;
	params.rp_time_reset = 10000000;
	params.rp_min_rate = 10;
	for (uint32_t i = 0; i < 30; i++)
		send_cnp();
	assert_true(sending_ns(32) > 5000 * US);
}

/* Acknowledgements do not wait: the peer would repeat its requests. */
static void paced_queue_pair_acknowledges_at_once(void **state)
{
	(void)state;
	params.rp_time_reset = 10000000;
	for (uint32_t i = 0; i < 30; i++)
		send_cnp();
	script_post(&script, WR_RDMA_WRITE, 32 * MTU, SEND_SIGNALED);
	script_drain(&script);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 4, 4);
	script_expect_ack(&script, 0, 1);
}

/*
 * At 10 Mbit/s a packet takes 0.3 ms. If only each 32nd packet requested an acknowledgement, the
 * requester would take the silence of 10 ms for a loss.
 */
static void slow_queue_pair_requests_acknowledgements_often(void **state)
{
	(void)state;
	params.rp_time_reset = 10000000;
	params.rp_min_rate = 10;
	for (uint32_t i = 0; i < 30; i++)
		send_cnp();
	script_post(&script, WR_RDMA_WRITE, 64 * MTU, SEND_SIGNALED);
	for (uint32_t sent = 0; sent < 32; sent++) {
		script_expect(&script, sent ? OPCODE_RC_WRITE_MIDDLE : OPCODE_RC_WRITE_FIRST, sent);
		assert_true(script.packet.bth.ack_requested);
		script_send_ack(&script, sent, 0, SCRIPT_UNLIMITED);
		script_pass(&script, SCRIPT_MS / 2);
	}
	assert_int_equal(script_counter(&script, COUNTER_retransmitted_pkts), 0);
}

static void rate_recovers_and_pacing_ends(void **state)
{
	(void)state;
	send_cnp();
	assert_non_null(script.qp->pace);
	assert_ptr_not_equal(script.qp->transport, &rc_transport);
	script_pass(&script, 100 * SCRIPT_MS);
	assert_int_equal(sending_ns(4), 0);
	assert_ptr_equal(script.qp->transport, &rc_transport);
}

/* A rate that the program has set stays in force below and after that of congestion control. */
static void lower_rate_holds(void **state)
{
	(void)state;
	params.rp_time_reset = 10000000;
	assert_int_equal(qp_set_rate(script.qp, 1000, 0), 0);
	send_cnp();
	script_post(&script, WR_RDMA_WRITE, 32 * MTU, SEND_SIGNALED);
	script_drain(&script);
	assert_true(pace_is_waiting(script.qp));
	assert_int_equal(qp_set_rate(script.qp, 0, 0), 0);
	assert_ptr_not_equal(script.qp->transport, &rc_transport);
	script_pass(&script, SCRIPT_MS);
	script_drain(&script);
	assert_false(pace_is_waiting(script.qp));
}

static void forged_cnp_is_dropped_and_counted(void **state)
{
	(void)state;
	script.remote.raw[15] ^= 1;
	send_cnp();
	assert_null(script.qp->pace);
	assert_int_equal(script_counter(&script, COUNTER_rp_cnp_handled), 0);
	assert_int_equal(script_counter(&script, COUNTER_bad_address_drops), 1);
}

/* A CNP is sent without MigReq, but says nothing about the path. */
static void cnp_does_not_arm_a_migration(void **state)
{
	(void)state;
	script.qp->attr.migration = QP_REARM;
	send_cnp();
	assert_int_equal(script.qp->attr.migration, QP_REARM);
}

static void connection_after_reset_has_no_limit(void **state)
{
	struct qp_attr attr = {.port = 0};

	(void)state;
	send_cnp();
	assert_int_equal(qp_modify(script.qp, QP_RESET, ATTR_STATE, &attr, script.now_ns), 0);
	assert_ptr_equal(script.qp->transport, &rc_transport);
	assert_int_equal(cc_flow_rate_kbps(script.qp->cc, script.now_ns), 0);
}

static void without_congestion_control_marks_and_cnps_are_counted_only(void **state)
{
	(void)state;
	send_marked(0);
	script_expect_ack(&script, 0, 1);
	send_cnp();
	script_expect_silence(&script);
	assert_null(script.qp->cc);
	assert_int_equal(script_counter(&script, COUNTER_np_ecn_marked_roce_packets), 1);
	assert_int_equal(script_counter(&script, COUNTER_rp_cnp_ignored), 1);
	assert_int_equal(script_counter(&script, COUNTER_rp_cnp_handled), 0);
}

/* --- Swift --- */

static void swift_ignores_cnps_and_answers_marks(void **state)
{
	(void)state;
	send_cnp();
	assert_null(script.qp->pace);
	assert_int_equal(script_counter(&script, COUNTER_rp_cnp_ignored), 1);
	send_marked(0);
	script_expect_cnp(&script);
}

/* A packet, which requests an acknowledgement, and its acknowledgement after `rtt_ns`. */
static void round_trip(uint32_t index, uint64_t rtt_ns)
{
	script_post(&script, WR_RDMA_WRITE, MTU, SEND_SIGNALED);
	while (!script_drain(&script))
		script_pass(&script, US);
	script_pass(&script, rtt_ns);
	script_send_ack(&script, index, index + 1, SCRIPT_UNLIMITED);
	script_expect_completion(&script, index, WC_SUCCESS);
}

static void swift_paces_by_delays_and_recovers(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 20; i++)
		round_trip(i, 200 * US);
	assert_null(script.qp->pace);
	for (uint32_t i = 20; i < 200; i++)
		round_trip(i, 900 * US);
	assert_non_null(script.qp->pace);
	assert_in_range(cc_flow_rate_kbps(script.qp->cc, script.now_ns), 1, 100000);
	for (uint32_t i = 200; i < 280; i++)
		round_trip(i, 200 * US);
	assert_true(cc_flow_rate_kbps(script.qp->cc, script.now_ns) > 100000);
	assert_int_equal(script_counter(&script, COUNTER_retransmitted_pkts), 0);
}

/* The peer delays its acknowledgement until it is asked for one. */
static void swift_does_not_time_packets_that_ask_for_nothing(void **state)
{
	(void)state;
	script_post(&script, WR_RDMA_WRITE, MTU, 0);
	script_post(&script, WR_RDMA_WRITE, MTU, SEND_SIGNALED);
	assert_false(script_expect(&script, OPCODE_RC_WRITE_ONLY, 0)->bth.ack_requested);
	script_pass(&script, 500 * US);
	assert_true(script_expect(&script, OPCODE_RC_WRITE_ONLY, 1)->bth.ack_requested);
	script_pass(&script, 100 * US);
	script_send_ack(&script, 1, 2, SCRIPT_UNLIMITED);
	assert_int_equal(script.qp->cc->swift.rtt_ns, 100 * US);
}

#define TEST_AS(name, setup_as) cmocka_unit_test_setup_teardown(name, setup_as, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_AS(marked_packet_is_answered_by_a_cnp_before_the_acknowledgement, setup_rc),
		TEST_AS(packet_without_mark_is_not_answered_by_a_cnp, setup_rc),
		TEST_AS(marks_of_a_queue_pair_cause_one_cnp_in_its_time, setup_rc),
		TEST_AS(marked_acknowledgement_is_answered_too, setup_rc),
		TEST_AS(marked_packet_of_a_stranger_is_not_answered, setup_rc),
		TEST_AS(marked_cnp_is_obeyed_and_not_answered, setup_rc),
		TEST_AS(pending_cnp_ends_with_the_connection, setup_rc),
		TEST_AS(queue_pair_without_cnp_is_not_paced, setup_rc),
		TEST_AS(cnps_pace_the_queue_pair, setup_rc),
		TEST_AS(paced_unreliable_connection_obeys_too, setup_uc),
		TEST_AS(paced_queue_pair_acknowledges_at_once, setup_rc),
		TEST_AS(slow_queue_pair_requests_acknowledgements_often, setup_rc),
		TEST_AS(rate_recovers_and_pacing_ends, setup_rc),
		TEST_AS(lower_rate_holds, setup_rc),
		TEST_AS(forged_cnp_is_dropped_and_counted, setup_rc),
		TEST_AS(cnp_does_not_arm_a_migration, setup_rc),
		TEST_AS(connection_after_reset_has_no_limit, setup_rc),
		TEST_AS(without_congestion_control_marks_and_cnps_are_counted_only, setup_off),
		TEST_AS(swift_ignores_cnps_and_answers_marks, setup_swift),
		TEST_AS(swift_paces_by_delays_and_recovers, setup_swift),
		TEST_AS(swift_does_not_time_packets_that_ask_for_nothing, setup_swift),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
