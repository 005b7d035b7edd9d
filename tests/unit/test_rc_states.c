/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reliable connections in SQD, with path migration, and with a rate limit.
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

/* The signals of the queue pair since the last call. */
static uint32_t events(void)
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
	struct qp_attr attr = {.has_drain_event = true};

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
	assert_int_equal(events(), SIGNAL_QP_DRAINED);
	assert_false(script.qp->is_sq_draining);
}

static void sqd_without_notification_tells_nothing(void **state)
{
	struct qp_attr attr = {.has_drain_event = true};

	(void)state;
	assert_int_equal(modify(QP_SQD, 0, &attr), 0);
	assert_int_equal(events(), 0);
	resume();
	attr.has_drain_event = false;
	assert_int_equal(modify(QP_SQD, ATTR_SQD_NOTIFY, &attr), 0);
	assert_int_equal(events(), 0);
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
	assert_int_equal(events(), 0);
	script_send_ack(&script, 2, 1, SCRIPT_UNLIMITED);
	assert_int_equal(events() & SIGNAL_QP_DRAINED, SIGNAL_QP_DRAINED);
	assert_false(script.qp->is_sq_draining);
	script_expect_completion(&script, 0, WC_SUCCESS);

	script_post(&script, WR_SEND, 2, SEND_SIGNALED);
	script_expect_silence(&script);
	script_pass(&script, 1000 * SCRIPT_MS);
	script_expect_silence(&script);
	resume();
	script_expect(&script, OPCODE_RC_SEND_ONLY, 3);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 4);
	assert_int_equal(events() & SIGNAL_QP_DRAINED, 0);
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
	assert_int_equal(events() & SIGNAL_QP_DRAINED, SIGNAL_QP_DRAINED);
}

static void sqd_waits_for_the_data_of_a_read(void **state)
{
	(void)state;
	script_post(&script, WR_RDMA_READ, 2 * SCRIPT_MTU_BYTES, SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_READ_REQUEST, 0);
	drain();
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_FIRST, 0, SCRIPT_MTU_BYTES);
	assert_int_equal(events() & SIGNAL_QP_DRAINED, 0);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_LAST, 1, SCRIPT_MTU_BYTES);
	assert_int_equal(events() & SIGNAL_QP_DRAINED, SIGNAL_QP_DRAINED);
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
	assert_int_equal(events() & SIGNAL_QP_DRAINED, SIGNAL_QP_DRAINED);
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
	assert_int_equal(events() & SIGNAL_QP_DRAINED, 0);
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

/*
 * --- path migration ---
 */

enum { ALTERNATE = 10 };

static struct gid other_local(void)
{
	return gid_from_ipv4((const uint8_t[]){10, 1, 0, 1});
}

static struct gid other_remote(void)
{
	return gid_from_ipv4((const uint8_t[]){10, 1, 0, 2});
}

/* The peer's packets come on the alternate path from now on. */
static void peer_moves(void)
{
	script.local = other_local();
	script.remote = other_remote();
}

static void rearm(void)
{
	struct qp_attr attr = {
		.alt_path = {.id = ALTERNATE, .local = other_local(), .remote = other_remote()},
		.alt_port = 1,
		.alt_timeout = 15,
		.migration = QP_REARM,
	};

	assert_int_equal(modify(QP_RTS, ATTR_ALT_PATH | ATTR_PATH_MIG, &attr), 0);
}

static int migrate(enum qp_migration to)
{
	return modify(QP_RTS, ATTR_PATH_MIG, &(struct qp_attr){.migration = to});
}

/* One byte from the peer, which is armed, or has migrated. */
static void receive_one(uint32_t index, bool is_migrated)
{
	struct packet packet = script_packet(&script, OPCODE_RC_WRITE_ONLY, index);

	packet.bth.is_migrated = is_migrated;
	packet.reth = (struct reth){(uintptr_t)script.memory, script.key, 1};
	packet_set_payload(&packet, NULL, 1);
	script_send(&script, &packet);
}

static void arm(void)
{
	rearm();
	receive_one(0, false);
	assert_false(script_expect(&script, OPCODE_RC_ACKNOWLEDGE, 0)->bth.is_migrated);
	assert_int_equal(script.qp->attr.migration, QP_ARMED);
}

static void migration_state_is_said_in_every_packet(void **state)
{
	(void)state;
	script_post(&script, WR_SEND, 1, 0);
	assert_true(script_expect(&script, OPCODE_RC_SEND_ONLY, 0)->bth.is_migrated);
	rearm();
	script_post(&script, WR_RDMA_READ, 1, 0);
	assert_false(script_expect(&script, OPCODE_RC_READ_REQUEST, 1)->bth.is_migrated);
}

static void migration_is_armed_when_the_peer_is_too(void **state)
{
	(void)state;
	rearm();
	receive_one(0, true);
	assert_int_equal(script.qp->attr.migration, QP_REARM);
	receive_one(1, false);
	assert_int_equal(script.qp->attr.migration, QP_ARMED);
	assert_int_equal(events(), 0);
}

static void migration_needs_an_alternate_path(void **state)
{
	struct qp_attr attr = {.alt_port = 1, .alt_timeout = 32};

	(void)state;
	assert_int_equal(migrate(QP_REARM), -EINVAL);
	assert_int_equal(migrate(QP_ARMED), -EINVAL);
	assert_int_equal(migrate((enum qp_migration)3), -EINVAL);
	assert_int_equal(migrate(QP_MIGRATED), 0);
	assert_int_equal(modify(QP_RTS, ATTR_ALT_PATH, &attr), -EINVAL);
	attr = (struct qp_attr){.alt_port = 2};
	assert_int_equal(modify(QP_RTS, ATTR_ALT_PATH, &attr), -EINVAL);
	attr = (struct qp_attr){.alt_port = 1, .alt_pkey_index = 1};
	assert_int_equal(modify(QP_RTS, ATTR_ALT_PATH, &attr), -EINVAL);
	assert_false(script.qp->has_alt_path);
}

static void migration_on_request_changes_the_path_and_says_so(void **state)
{
	(void)state;
	arm();
	assert_int_equal(migrate(QP_MIGRATED), 0);
	assert_int_equal(events(), SIGNAL_QP_MIGRATED);
	assert_int_equal(script.qp->attr.timeout, 15);
	assert_int_equal(script.qp->attr.alt_timeout, 14);
	script.path = ALTERNATE;
	script_post(&script, WR_SEND, 1, 0);
	assert_true(script_expect(&script, OPCODE_RC_SEND_ONLY, 0)->bth.is_migrated);
	/* What was on its way on the old path still counts. */
	receive_one(1, false);
	script_expect_ack(&script, 1, 2);
	peer_moves();
	receive_one(2, true);
	script_expect_ack(&script, 2, 3);
}

static void migration_follows_the_peer(void **state)
{
	(void)state;
	arm();
	receive_one(1, true); /* sent before it was armed, and late */
	assert_int_equal(script.qp->attr.migration, QP_ARMED);
	script_expect_ack(&script, 1, 2);
	peer_moves();
	receive_one(2, true);
	assert_int_equal(events(), SIGNAL_QP_MIGRATED);
	script.path = ALTERNATE;
	script_expect_ack(&script, 2, 3);
	receive_one(3, true);
	assert_int_equal(events(), 0);
}

static void migration_comes_before_the_error_of_exhausted_retries(void **state)
{
	(void)state;
	arm();
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	while (!(events() & SIGNAL_QP_MIGRATED)) {
		script_drain(&script);
		script_pass(&script, SCRIPT_MS);
	}
	/* Eight retries, of 250 ms each for the timeout of 67 ms (RC_RETRY_NS_MIN). */
	assert_in_range(script.now_ns / SCRIPT_MS - 1000, 2000, 2014);
	script.path = ALTERNATE;
	assert_true(script_expect(&script, OPCODE_RC_SEND_ONLY, 0)->bth.is_migrated);
	assert_int_equal(script.qp->state, QP_RTS);
	peer_moves();
	script_send_ack(&script, 0, 1, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 0, WC_SUCCESS);
}

static void migration_is_not_repeated_when_the_alternate_fails_too(void **state)
{
	(void)state;
	arm();
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	while (script.qp->state == QP_RTS) {
		script.path = script.qp->attr.path.id;
		script_drain(&script);
		script_pass(&script, SCRIPT_MS);
	}
	assert_int_equal(script.path, ALTERNATE);
	script_expect_completion(&script, 0, WC_RETRY_EXC_ERR);
}

static void migration_to_another_path_is_refused_and_told_once(void **state)
{
	(void)state;
	arm();
	peer_moves();
	script.remote.raw[15] = 99;
	receive_one(1, true);
	assert_int_equal(events(), SIGNAL_QP_NOT_MIGRATED);
	receive_one(1, true);
	assert_int_equal(events(), 0);
	script_expect_silence(&script);
	assert_int_equal(script.qp->attr.migration, QP_ARMED);
	assert_int_equal(script_counter(&script, COUNTER_bad_address_drops), 2);
}

static void packets_on_the_alternate_path_are_the_peers(void **state)
{
	(void)state;
	peer_moves();
	receive_one(0, true);
	assert_int_equal(script_counter(&script, COUNTER_bad_address_drops), 1);
	rearm();
	assert_int_equal(migrate(QP_MIGRATED), 0);
	receive_one(0, true);
	script_expect_ack(&script, 0, 1);
	assert_int_equal(events(), 0);
}

static void reset_forgets_the_alternate_path(void **state)
{
	(void)state;
	arm();
	qp_set_state(script.qp, QP_RESET, script.now_ns);
	assert_false(script.qp->has_alt_path);
	assert_int_equal(script.qp->attr.migration, QP_MIGRATED);
}

/*
 * --- rates ---
 */

/* A packet of 256 bytes over IPv4 is 318 on the Ethernet: RETH and BTH, UDP, IP, ICRC, frame. */
enum { WRITE_BYTES = 256 + 12 + 16 + 4 + 8 + 20 + 18 };

static uint32_t sent_within(uint64_t ns)
{
	uint64_t end_ns = script.now_ns + ns;
	uint32_t count = 0;

	while (script.now_ns < end_ns) {
		count += script_drain(&script);
		script_pass(&script, 1000);
	}
	return count;
}

static void post_writes(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		script_post(&script, WR_RDMA_WRITE, SCRIPT_MTU_BYTES, 0);
}

static void rate_limit_spaces_packets(void **state)
{
	(void)state;
	/* 8 Mbit/s: a byte per microsecond; bursts of one packet. */
	assert_int_equal(qp_set_rate(script.qp, 8000, 1), 0);
	post_writes(4);
	script_expect(&script, OPCODE_RC_WRITE_ONLY, 0);
	script_expect_silence(&script);
	assert_int_equal(engine_deadline_ns(&script.lane), script.now_ns + WRITE_BYTES * 1000);
	script_pass(&script, WRITE_BYTES * 1000 - 1);
	script_expect_silence(&script);
	script_pass(&script, 1);
	script_expect(&script, OPCODE_RC_WRITE_ONLY, 1);
	script_expect_silence(&script);
	/* Late once is not made good for later: the burst is one packet. */
	script_pass(&script, 10 * WRITE_BYTES * 1000);
	assert_true(script_drain(&script) <= 2);
}

static void rate_limit_holds_over_time_with_bursts(void **state)
{
	(void)state;
	assert_int_equal(qp_set_rate(script.qp, 80000, 10 * WRITE_BYTES), 0);
	post_writes(60);
	/* Ten at once, and then one in 33 microseconds. */
	assert_int_equal(script_drain(&script), 10);
	assert_in_range(sent_within(20 * WRITE_BYTES * 100), 19, 21);
}

static void rate_limit_that_ends_lets_go_at_once(void **state)
{
	(void)state;
	assert_int_equal(qp_set_rate(script.qp, 8, 1), 0);
	post_writes(20);
	script_drain(&script);
	assert_int_equal(qp_set_rate(script.qp, 0, 0), 0);
	assert_int_equal(script_drain(&script), 19);
	assert_null(deadline_heap_first(&script.lane.pacing));
}

static void rate_limit_delays_no_acknowledgement(void **state)
{
	(void)state;
	assert_int_equal(qp_set_rate(script.qp, 8, 1), 0);
	post_writes(2);
	script_expect(&script, OPCODE_RC_WRITE_ONLY, 0);
	script_expect_silence(&script);
	receive_one(0, true);
	script_expect_ack(&script, 0, 1);
	script_expect_silence(&script);
	/* But a READ response waits, and what is behind it. */
	script_send_read(&script, 1, 0, 10);
	script_expect_silence(&script);
	script_pass(&script, 10000 * SCRIPT_MS);
	script_drain(&script);
	assert_int_equal(script.qp->state, QP_RTS);
}

static void rate_is_the_slower_of_limit_and_path(void **state)
{
	struct qp_attr attr = script.qp->attr;

	(void)state;
	drain();
	attr.path.rate_kbps = 8000;
	assert_int_equal(modify(QP_SQD, ATTR_AV, &attr), 0);
	resume();
	assert_int_equal(qp_set_rate(script.qp, 80000, 1), 0);
	post_writes(2);
	script_expect(&script, OPCODE_RC_WRITE_ONLY, 0);
	script_expect_silence(&script);
	assert_int_equal(engine_deadline_ns(&script.lane), script.now_ns + WRITE_BYTES * 1000);
	assert_int_equal(qp_set_rate(script.qp, 800, 1), 0);
	script_expect(&script, OPCODE_RC_WRITE_ONLY, 1);
	script_expect_silence(&script);
}

static void rate_limit_out_of_range_is_refused(void **state)
{
	(void)state;
	assert_int_equal(qp_set_rate(script.qp, PACE_RATE_KBPS_MAX + 1, 0), -EINVAL);
	assert_int_equal(qp_set_rate(script.qp, PACE_RATE_KBPS_MAX, 0), 0);
	assert_int_equal(qp_set_rate(script.qp, PACE_RATE_KBPS_MIN, UINT32_MAX), 0);
	drain();
	assert_int_equal(qp_set_rate(script.qp, 1000, 0), -EINVAL);
}

static void reset_ends_the_rate(void **state)
{
	(void)state;
	assert_int_equal(qp_set_rate(script.qp, 8, 1), 0);
	post_writes(2);
	script_drain(&script);
	qp_set_state(script.qp, QP_RESET, script.now_ns);
	script_expect_silence(&script);
	assert_true(engine_deadline_ns(&script.lane) == DEADLINE_NEVER);
	assert_int_equal(script.qp->attr.rate_limit_kbps, 0);
}

static void only_a_request_establishes_communication(void **state)
{
	(void)state;
	qp_set_state(script.qp, QP_RTR, script.now_ns);
	events();
	script_send_ack(&script, 0, 0, SCRIPT_UNLIMITED); /* of an earlier connection */
	assert_int_equal(events(), 0);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 8, 8);
	assert_int_equal(events(), SIGNAL_QP_ESTABLISHED);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 1, 8, 8);
	assert_int_equal(events(), 0);
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
		TEST(migration_state_is_said_in_every_packet),
		TEST(migration_is_armed_when_the_peer_is_too),
		TEST(migration_needs_an_alternate_path),
		TEST(migration_on_request_changes_the_path_and_says_so),
		TEST(migration_follows_the_peer),
		TEST(migration_comes_before_the_error_of_exhausted_retries),
		TEST(migration_is_not_repeated_when_the_alternate_fails_too),
		TEST(migration_to_another_path_is_refused_and_told_once),
		TEST(packets_on_the_alternate_path_are_the_peers),
		TEST(reset_forgets_the_alternate_path),
		TEST(rate_limit_spaces_packets),
		TEST(rate_limit_holds_over_time_with_bursts),
		TEST(rate_limit_that_ends_lets_go_at_once),
		TEST(rate_limit_delays_no_acknowledgement),
		TEST(rate_is_the_slower_of_limit_and_path),
		TEST(rate_limit_out_of_range_is_refused),
		TEST(reset_ends_the_rate),
		TEST(only_a_request_establishes_communication),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
