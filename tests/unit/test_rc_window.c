/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows on a reliable connection: bound and invalidated in the order of the send queue,
 * used and invalidated by the peer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory/mw.h"
#include "support/script.h"

enum { WINDOW_OFFSET = 512, WINDOW_BYTES = 64 };

static struct script script;
static uint32_t window; /* its key before it is bound */

static int setup(void **state)
{
	(void)state;
	script_start(&script, NULL);
	return mw_add(&script.mrs, SCRIPT_PD, MR_KIND_WINDOW_2, 0x10, &window);
}

static int teardown(void **state)
{
	(void)state;
	script_end(&script);
	return 0;
}

static void post(const struct send_wr *wr)
{
	uint32_t posted;

	assert_int_equal(engine_post_send(script.qp, wr, 1, &posted, script.now_ns), 0);
	engine_check(&script.lane);
}

static uint64_t window_address(void)
{
	return (uintptr_t)script.memory + WINDOW_OFFSET;
}

/* Let the peer write and read the window under this key. */
static void post_bind(uint32_t key, uint32_t flags)
{
	struct send_wr wr = {
		.wr_id = script.qp->sq->posted,
		.opcode = WR_BIND_MW,
		.flags = flags,
		.rkey = key,
		.remote_address = window_address(),
		.bind = {WINDOW_BYTES, script.key, MR_REMOTE_WRITE | MR_REMOTE_READ},
	};

	post(&wr);
}

static void post_invalidate(uint32_t key, uint32_t flags)
{
	struct send_wr wr = {
		.wr_id = script.qp->sq->posted,
		.opcode = WR_LOCAL_INV,
		.flags = flags,
		.imm = key,
		.sge_count = 77, /* what it does not use may be anything */
	};

	post(&wr);
}

static void peer_writes(uint32_t index, uint32_t key, uint64_t address)
{
	struct packet packet = script_packet(&script, OPCODE_RC_WRITE_ONLY, index);

	packet_set_payload(&packet, NULL, 8);
	packet.reth = (struct reth){address, key, 8};
	script_send(&script, &packet);
}

static void peer_sends_invalidate(uint32_t index, uint32_t key)
{
	struct packet packet = script_packet(&script, OPCODE_RC_SEND_ONLY_INV, index);

	packet_set_payload(&packet, NULL, 5);
	packet.ieth.rkey = key;
	script_send(&script, &packet);
}

static void expect_refusal(uint32_t index)
{
	script_expect_nak(&script, index, AETH_NAK_REMOTE_ACCESS);
	assert_int_equal(script.qp->state, QP_ERR);
}

/*
 * --- in the send queue ---
 */

static void window_bind_sends_nothing_and_completes(void **state)
{
	(void)state;
	post_bind(window, SEND_SIGNALED);
	script_expect_silence(&script);
	struct cqe cqe = script_completion(&script);
	assert_int_equal(cqe.status, WC_SUCCESS);
	assert_int_equal(cqe.opcode, WC_BIND_MW);
	peer_writes(0, window, window_address());
	script_expect_ack(&script, 0, 1);
}

static void window_is_no_more_than_what_was_bound(void **state)
{
	(void)state;
	post_bind(window, 0);
	script_expect_silence(&script);
	peer_writes(0, window, window_address() + WINDOW_BYTES - 8);
	script_expect_ack(&script, 0, 1);
	peer_writes(1, window, window_address() + WINDOW_BYTES - 7);
	expect_refusal(1);
}

static void window_of_another_queue_pair_is_refused(void **state)
{
	struct mw_bind bind = {window, script.key, {SCRIPT_PD, script.qp->qpn + 1}, MR_REMOTE_WRITE,
		window_address(), WINDOW_BYTES};

	(void)state;
	assert_int_equal(mw_bind(&script.mrs, &bind), MR_OK);
	peer_writes(0, window, window_address());
	expect_refusal(0);
}

static void window_invalidated_is_refused(void **state)
{
	(void)state;
	post_bind(window, 0);
	post_invalidate(window, SEND_SIGNALED);
	script_expect_silence(&script);
	struct cqe cqe = script_completion(&script);
	assert_int_equal(cqe.status, WC_SUCCESS);
	assert_int_equal(cqe.opcode, WC_LOCAL_INV);
	peer_writes(0, window, window_address());
	expect_refusal(0);
}

static void window_request_completes_after_those_before_it(void **state)
{
	(void)state;
	script_post(&script, WR_SEND, 10, 0);
	post_bind(window, SEND_SIGNALED);
	script_post(&script, WR_SEND, 10, SEND_SIGNALED);
	/* What the bind's completion waits for was asked for. */
	assert_true(script_expect(&script, OPCODE_RC_SEND_ONLY, 0)->bth.ack_requested);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 1);
	script_expect_silence(&script);
	script_expect_no_completion(&script);
	peer_writes(0, window, window_address());
	script_expect_ack(&script, 0, 1);
	script_send_ack(&script, 0, 1, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 1, WC_SUCCESS);
	script_expect_no_completion(&script);
	script_send_ack(&script, 1, 2, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 2, WC_SUCCESS);
}

static void window_request_is_executed_once_though_packets_go_again(void **state)
{
	(void)state;
	script_post(&script, WR_SEND, 10, 0);
	post_bind(window, SEND_SIGNALED);
	script_post(&script, WR_SEND, 10, SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 1);
	script_send_nak(&script, 0, AETH_NAK_PSN_SEQUENCE);
	/* A second bind of it would fail. */
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 1);
	script_send_ack(&script, 0, 1, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 1, WC_SUCCESS);
	script_send_ack(&script, 1, 2, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 2, WC_SUCCESS);
	assert_int_equal(script.qp->state, QP_RTS);
}

static void window_request_at_the_end_completes_with_the_read_before_it(void **state)
{
	(void)state;
	script_post(&script, WR_RDMA_READ, 10, SEND_SIGNALED);
	post_bind(window, SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_READ_REQUEST, 0);
	script_expect_silence(&script);
	script_expect_no_completion(&script);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0, 10);
	script_expect_completion(&script, 0, WC_SUCCESS);
	script_expect_completion(&script, 1, WC_SUCCESS);
}

static void window_fenced_request_waits_for_reads_before_it(void **state)
{
	(void)state;
	script_post(&script, WR_RDMA_READ, 10, 0);
	post_bind(window, SEND_SIGNALED | SEND_FENCE);
	script_expect(&script, OPCODE_RC_READ_REQUEST, 0);
	script_expect_silence(&script);
	assert_int_equal(mw_check(&script.mrs, window, qp_mr_user(script.qp)), MR_FAULT_KEY);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0, 10);
	script_expect_silence(&script);
	assert_int_equal(mw_check(&script.mrs, window, qp_mr_user(script.qp)), MR_OK);
	script_expect_completion(&script, 1, WC_SUCCESS);
}

static void window_bind_that_is_refused_completes_after_those_before_it(void **state)
{
	(void)state;
	post_bind(window, 0);
	script_post(&script, WR_SEND, 10, SEND_SIGNALED);
	post_bind(window + 1, 0);
	script_post(&script, WR_SEND, 10, SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	script_expect_silence(&script);
	script_expect_no_completion(&script);
	script_send_ack(&script, 0, 1, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 1, WC_SUCCESS);
	struct cqe cqe = script_completion(&script);
	assert_int_equal(cqe.status, WC_MW_BIND_ERR);
	assert_int_equal(cqe.fault, FAULT_BIND_STATE);
	script_expect_completion(&script, 3, WC_WR_FLUSH_ERR);
	assert_int_equal(script.qp->state, QP_ERR);
}

static void window_refused_requests_say_why(void **state)
{
	uint32_t foreign_key;
	struct mr_region foreign = {
		SCRIPT_PD + 1, MR_LOCAL_WRITE | MR_WINDOW_BIND, 0, 100, &script};
	struct mr_region closed = {SCRIPT_PD, MR_LOCAL_WRITE, 0, 100, &script};
	const enum fault expected[] = {FAULT_BIND_KEY, FAULT_BIND_PD, FAULT_BIND_ACCESS,
		FAULT_BIND_BOUNDS, FAULT_INVALIDATE_KEY, FAULT_INVALIDATE_KEY};

	for (uint32_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		struct send_wr wr = {
			.opcode = i < 4 ? WR_BIND_MW : WR_LOCAL_INV,
			.rkey = window,
			.bind = {WINDOW_BYTES, script.key, 0},
			.imm = i == 4 ? window : script.key,
		};

		teardown(state);
		assert_int_equal(setup(state), 0);
		mr_table_add(&script.mrs, i == 1 ? &foreign : &closed, 0, &foreign_key);
		if (i == 1 || i == 2)
			wr.bind.region_key = foreign_key;
		if (i == 0)
			wr.bind.region_key ^= 1;
		post(&wr);
		script_expect_silence(&script);
		assert_int_equal(script_completion(&script).fault, expected[i]);
		assert_int_equal(fault_status(expected[i]), WC_MW_BIND_ERR);
	}
}

static void window_is_gone_when_the_queue_pair_was_reset(void **state)
{
	(void)state;
	post_bind(window, 0);
	script_expect_silence(&script);
	assert_int_equal(mw_check(&script.mrs, window, qp_mr_user(script.qp)), MR_OK);
	assert_int_equal(qp_modify(script.qp, QP_RESET, ATTR_STATE, NULL, script.now_ns), 0);
	assert_int_equal(mw_check(&script.mrs, window, qp_mr_user(script.qp)), MR_FAULT_KEY);
}

/*
 * --- SEND with invalidate ---
 */

static void send_with_invalidate_carries_the_key_in_its_last_packet(void **state)
{
	struct sge sge = {(uintptr_t)script.memory, SCRIPT_MTU_BYTES + 1, script.key};
	struct send_wr wr = {
		.opcode = WR_SEND_WITH_INV,
		.flags = SEND_SIGNALED,
		.imm = 0x12345678,
		.sge = &sge,
		.sge_count = 1,
	};

	(void)state;
	post(&wr);
	script_expect(&script, OPCODE_RC_SEND_FIRST, 0);
	assert_int_equal(script_expect(&script, OPCODE_RC_SEND_LAST_INV, 1)->ieth.rkey, 0x12345678);
	sge.bytes = 0;
	post(&wr);
	assert_int_equal(script_expect(&script, OPCODE_RC_SEND_ONLY_INV, 2)->ieth.rkey, 0x12345678);
	script_send_ack(&script, 2, 2, SCRIPT_UNLIMITED);
	assert_int_equal(script_completion(&script).opcode, WC_SEND);
}

static void send_with_invalidate_fills_a_receive_and_revokes_the_window(void **state)
{
	(void)state;
	post_bind(window, 0);
	script_expect_silence(&script);
	script_post_receive(&script, 100);
	peer_sends_invalidate(0, window);
	script_expect_ack(&script, 0, 1);
	struct cqe cqe = script_completion(&script);
	assert_int_equal(cqe.status, WC_SUCCESS);
	assert_int_equal(cqe.byte_count, 5);
	assert_int_equal(cqe.flags, WC_WITH_INV);
	assert_int_equal(cqe.imm, window);
	peer_writes(1, window, window_address());
	expect_refusal(1);
}

static void send_with_invalidate_again_is_a_duplicate(void **state)
{
	(void)state;
	post_bind(window, 0);
	script_expect_silence(&script);
	script_post_receive(&script, 100);
	peer_sends_invalidate(0, window);
	script_expect_ack(&script, 0, 1);
	peer_sends_invalidate(0, window);
	script_expect_ack(&script, 0, 1);
	assert_int_equal(script.qp->state, QP_RTS);
}

static void read_asked_for_again_after_its_window_was_revoked_is_dropped(void **state)
{
	struct packet read = script_packet(&script, OPCODE_RC_READ_REQUEST, 0);

	(void)state;
	post_bind(window, 0);
	script_expect_silence(&script);
	script_post_receive(&script, 100);
	read.reth = (struct reth){window_address(), window, 8};
	script_send(&script, &read);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0);
	/* A copy, and behind it what the answer made possible. */
	script_send(&script, &read);
	peer_sends_invalidate(1, window);
	script_expect_ack(&script, 1, 2);
	script_send(&script, &read);
	script_expect_silence(&script);
	assert_int_equal(script.qp->state, QP_RTS);
}

static void send_with_invalidate_waits_for_a_receive_request(void **state)
{
	(void)state;
	post_bind(window, 0);
	script_expect_silence(&script);
	peer_sends_invalidate(0, window);
	script_expect_rnr(&script, 0);
	assert_int_equal(mw_check(&script.mrs, window, qp_mr_user(script.qp)), MR_OK);
}

static void send_with_invalidate_that_fails_acknowledges_what_was_before_it(void **state)
{
	(void)state;
	script_post_receive(&script, 100);
	peer_writes(0, script.key, window_address());
	peer_sends_invalidate(1, script.key);
	script_expect_ack(&script, 0, 1);
	script_expect_silence(&script);
	script_expect_completion(&script, 1000, WC_REM_INV_REQ_ERR);
	/*
	 * The peer repeats its request, as if the acknowledgement was lost. The responder answers
	 * only the requests before it.
	 */
	peer_sends_invalidate(1, script.key);
	script_expect_silence(&script);
	peer_writes(0, script.key, window_address());
	script_expect_ack(&script, 0, 1);
	script_expect_silence(&script);
}

/* Packet 2 came early. The NAK that it caused would ask for the SEND that failed. */
static void send_with_invalidate_that_fails_withdraws_the_pending_nak(void **state)
{
	(void)state;
	script_post_receive(&script, 100);
	peer_writes(0, script.key, window_address());
	peer_writes(2, script.key, window_address());
	peer_sends_invalidate(1, script.key);
	script_expect_ack(&script, 0, 1);
	script_expect_silence(&script);
}

static void send_with_invalidate_of_what_it_may_not_is_refused(void **state)
{
	uint32_t type_1;

	for (uint32_t i = 0; i < 4; i++) {
		teardown(state);
		assert_int_equal(setup(state), 0);
		struct mw_bind bind = {0, 0, {SCRIPT_PD, 0}, MR_REMOTE_READ, 0, 8};

		assert_int_equal(mw_add(&script.mrs, SCRIPT_PD, MR_KIND_WINDOW_1, 0, &type_1), 0);
		bind.key = i == 3 ? window : type_1;
		bind.region_key = script.key;
		bind.iova = window_address();
		bind.user.qpn = script.qp->qpn + 1;
		assert_int_equal(mw_bind(&script.mrs, &bind), MR_OK);
		script_post_receive(&script, 100);
		/* Not bound; a region; a window of type 1; one of another queue pair. */
		peer_sends_invalidate(0,
			i == 0           ? window ^ 1
				: i == 1 ? script.key
				: i == 2 ? type_1
					 : window);
		script_expect_silence(&script);
		assert_int_equal(script.qp->state, QP_ERR);
		script_expect_completion(&script, 1000, WC_REM_INV_REQ_ERR);
		for (uint32_t j = 0; j < 5; j++)
			assert_int_equal(script.memory[j], j);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(window_bind_sends_nothing_and_completes),
		TEST(window_is_no_more_than_what_was_bound),
		TEST(window_of_another_queue_pair_is_refused),
		TEST(window_invalidated_is_refused),
		TEST(window_request_completes_after_those_before_it),
		TEST(window_request_is_executed_once_though_packets_go_again),
		TEST(window_request_at_the_end_completes_with_the_read_before_it),
		TEST(window_fenced_request_waits_for_reads_before_it),
		TEST(window_bind_that_is_refused_completes_after_those_before_it),
		TEST(window_refused_requests_say_why),
		TEST(window_is_gone_when_the_queue_pair_was_reset),
		TEST(send_with_invalidate_carries_the_key_in_its_last_packet),
		TEST(send_with_invalidate_fills_a_receive_and_revokes_the_window),
		TEST(send_with_invalidate_again_is_a_duplicate),
		TEST(read_asked_for_again_after_its_window_was_revoked_is_dropped),
		TEST(send_with_invalidate_waits_for_a_receive_request),
		TEST(send_with_invalidate_of_what_it_may_not_is_refused),
		TEST(send_with_invalidate_that_fails_acknowledges_what_was_before_it),
		TEST(send_with_invalidate_that_fails_withdraws_the_pending_nak),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
