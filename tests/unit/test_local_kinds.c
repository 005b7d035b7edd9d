/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections within one host that are not RC with the usual limits: unreliable ones, XRC, and
 * those of which the target answers no READs or atomics.
 */
#include "ib/uc/uc.h"
#include "support/local_ends.h"

static int setup_unreliable(void **state)
{
	types[0] = types[1] = QP_TYPE_UC;
	return setup(state);
}

static int setup_xrc(void **state)
{
	types[0] = QP_TYPE_XRC_SEND;
	types[1] = QP_TYPE_XRC_RECV;
	return setup(state);
}

static int setup_without_answers(void **state)
{
	rd_atomic_max = 0;
	return setup(state);
}

static int teardown_without_answers(void **state)
{
	rd_atomic_max = 4;
	return teardown(state);
}

/* The next request goes by packets: no region has its key. */
static void post_refused(void)
{
	post_at(WR_RDMA_WRITE, 10, ends[1].key ^ 1, NOW_NS);
}

/* The lane sends one packet, which the network loses. */
static void packet_drop(void)
{
	uint8_t buffer[ENGINE_PACKET_BYTES_MAX];
	struct packet_run run = {.buffer = buffer};

	assert_true(engine_next_packet(&ends[0].lane, true, &run, NOW_NS) > 0);
	assert_int_equal(engine_next_packet(&ends[0].lane, true, &run, NOW_NS), 0);
}

/* --- a target with max_dest_rd_atomic 0 --- */

static void request_that_the_target_may_not_answer_goes_by_packets(void **state)
{
	static const uint32_t opcodes[] = {
		WR_RDMA_READ, WR_ATOMIC_FETCH_AND_ADD, WR_ATOMIC_WRITE, WR_FLUSH};

	(void)state;
	ends[0].peer.ops = &mapped_ops;
	post(WR_RDMA_WRITE, 8);
	assert_false(has_packets(0));
	for (uint32_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		teardown(state);
		setup(state);
		ends[0].peer.ops = &mapped_ops;
		ends[1].memory[0] = 0x77;
		post(opcodes[i], 8);
		assert_true(has_packets(0));
		assert_int_equal(ends[1].memory[0], 0x77);
	}
}

/* --- unreliable connections --- */

static void unreliable_requests_need_no_packets(void **state)
{
	(void)state;
	post_receive(50);
	post_receive(51);
	post(WR_RDMA_WRITE, 3000);
	post(WR_SEND_WITH_IMM, 100);
	post(WR_RDMA_WRITE_WITH_IMM, 10);
	assert_false(has_packets(0));
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(poll_sent().status, WC_SUCCESS);
	assert_int_equal(collect(), 2);
	assert_int_equal(poll_received().imm, 0xabcd);
	assert_int_equal(poll_received().opcode, WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(ends[1].qp->state, QP_RTR);
}

static void unreliable_request_that_is_refused_is_dropped_by_the_responder(void **state)
{
	(void)state;
	post_refused();
	carry(0);
	assert_int_equal(poll_sent().status, WC_SUCCESS);
	assert_int_equal(counter_read(ends[1].qp->counters, COUNTER_resp_remote_access_errors), 1);
	post(WR_RDMA_WRITE, 10);
	assert_false(has_packets(0));
}

static void unreliable_request_follows_packets_by_packets(void **state)
{
	(void)state;
	post_refused();
	post(WR_RDMA_WRITE, 10);
	assert_true(has_packets(0));
	assert_int_equal(ends[1].memory[0], 0);
	carry(0);
	assert_int_equal(ends[1].memory[0], 0x5a);
	post(WR_RDMA_WRITE, 10);
	assert_false(has_packets(0));
}

static void unreliable_request_does_not_wait_for_ever_for_packets_that_were_lost(void **state)
{
	uint32_t waits = 0;
	uint64_t now_ns = NOW_NS;

	(void)state;
	post_refused();
	packet_drop();
	for (uint32_t i = 0; i < UC_FALLBACKS_MAX; i++) {
		post(WR_RDMA_WRITE, 10);
		packet_drop();
	}
	post(WR_RDMA_WRITE, 10);
	assert_false(has_packets(0));
	while (!has_packets(0)) {
		now_ns = engine_deadline_ns(&ends[0].lane);
		assert_true(now_ns < NOW_NS + 20 * MS);
		engine_expire(&ends[0].lane, now_ns);
		waits++;
	}
	assert_true(waits > 1);
	carry(0);
	assert_int_equal(ends[1].memory[0], 0x5a);
	post(WR_RDMA_WRITE, 10);
	assert_false(has_packets(0));
}

static void unreliable_message_to_who_does_not_receive_yet_is_dropped_at_once(void **state)
{
	(void)state;
	post(WR_SEND, 10);
	carry(0);
	assert_int_equal(poll_sent().status, WC_SUCCESS);
	assert_int_equal(counter_read(ends[1].qp->counters, COUNTER_no_receive_drops), 1);
	post_receive(50);
	post(WR_SEND, 10);
	assert_false(has_packets(0));
}

static void unreliable_message_without_a_receive_is_waited_for_once(void **state)
{
	uint8_t buffer[ENGINE_PACKET_BYTES_MAX];
	struct packet_run run = {.buffer = buffer};
	uint64_t now_ns = NOW_NS;

	(void)state;
	post_receive(50);
	post(WR_SEND, 10);
	post(WR_SEND, 10);
	assert_false(has_packets(0));
	while (!has_packets(0)) {
		now_ns = engine_deadline_ns(&ends[0].lane);
		engine_expire(&ends[0].lane, now_ns);
	}
	carry(0);
	assert_int_equal(counter_read(ends[1].qp->counters, COUNTER_no_receive_drops), 1);
	post(WR_SEND, 10);
	assert_true(has_packets(0));
	assert_true(engine_next_packet(&ends[0].lane, true, &run, now_ns) > 0);
}

/* --- XRC --- */

static void xrc_requests_need_no_packets(void **state)
{
	(void)state;
	post_receive(50);
	post(WR_RDMA_WRITE, 3000);
	post(WR_SEND_WITH_IMM, 100);
	assert_false(has_packets(0));
	assert_memory_equal(ends[1].memory, ends[0].memory, 3000);
	assert_int_equal(collect(), 1);
	struct cqe cqe = poll_received();
	assert_int_equal(cqe.wr_id, 50);
	assert_int_equal(cqe.qpn, ends[1].qp->qpn);
	assert_int_equal(cqe.imm, 0xabcd);
}

/* Such WRITEs are not executed in a row. */
static void xrc_writes_name_their_queue_each(void **state)
{
	(void)state;
	ends[0].peer.ops = &mapped_ops;
	for (uint32_t i = 0; i < 3; i++)
		post(WR_RDMA_WRITE, 10);
	assert_false(has_packets(0));
	srq_withdraw(ends[1].srqs, &ends[1].srq);
	memset(ends[1].memory, 0, 10);
	post(WR_RDMA_WRITE, 10);
	assert_true(has_packets(0));
	assert_int_equal(ends[1].memory[0], 0);
}

static void xrc_queue_of_another_domain_is_not_found(void **state)
{
	(void)state;
	post_receive(50);
	ends[1].srq.public->xrcd = XRCD + 1;
	post(WR_SEND, 10);
	assert_true(has_packets(0));
	assert_int_equal(rq_count(ends[1].srq.rq), 1);
}

static void xrc_queue_that_was_withdrawn_is_not_found(void **state)
{
	(void)state;
	post_receive(50);
	post(WR_SEND, 10);
	assert_false(has_packets(0));
	srq_withdraw(ends[1].srqs, &ends[1].srq);
	post(WR_RDMA_WRITE, 10);
	assert_true(has_packets(0));
}

static void xrc_record_of_a_queue_that_is_gone_completes_nothing(void **state)
{
	(void)state;
	post_receive(50);
	post(WR_SEND, 10);
	srq_withdraw(ends[1].srqs, &ends[1].srq);
	srq_table_remove(ends[1].srqs, &ends[1].srq);
	assert_int_equal(collect(), 1);
	assert_true(cq_is_empty(&ends[1].recv_cq));
}

static void xrc_queue_is_given_up_when_nobody_is_in_the_channel(void **state)
{
	(void)state;
	assert_true(
		channel_enter(channel_of(1), channel_generation(channel_of(1)), CHANNEL_PUBLISHES));
	leaves_in = 4;
	assert_true(local_wait(&ends[1].local));
	assert_int_equal(wait_rounds, 4);
}

#define UC_TEST(name)  cmocka_unit_test_setup_teardown(name, setup_unreliable, teardown)
#define XRC_TEST(name) cmocka_unit_test_setup_teardown(name, setup_xrc, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			request_that_the_target_may_not_answer_goes_by_packets,
			setup_without_answers, teardown_without_answers),
		UC_TEST(unreliable_requests_need_no_packets),
		UC_TEST(unreliable_request_that_is_refused_is_dropped_by_the_responder),
		UC_TEST(unreliable_request_follows_packets_by_packets),
		UC_TEST(unreliable_request_does_not_wait_for_ever_for_packets_that_were_lost),
		UC_TEST(unreliable_message_to_who_does_not_receive_yet_is_dropped_at_once),
		UC_TEST(unreliable_message_without_a_receive_is_waited_for_once),
		XRC_TEST(xrc_requests_need_no_packets),
		XRC_TEST(xrc_writes_name_their_queue_each),
		XRC_TEST(xrc_queue_of_another_domain_is_not_found),
		XRC_TEST(xrc_queue_that_was_withdrawn_is_not_found),
		XRC_TEST(xrc_record_of_a_queue_that_is_gone_completes_nothing),
		XRC_TEST(xrc_queue_is_given_up_when_nobody_is_in_the_channel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
