/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues: the resizing and the limit of the ring, and the differences of a queue
 * pair that takes from one.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ib/rc/rc.h"
#include "support/script.h"
#include "wire/credit.h"

enum { OTHER_PD = SCRIPT_PD + 1 };

static struct script script;

static int setup(void **state)
{
	static const struct script_options options = {.srq_pd = SCRIPT_PD};

	(void)state;
	script_start(&script, &options);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	script_end(&script);
	return 0;
}

static void post(uint64_t wr_id)
{
	struct sge sge = {(uintptr_t)script.memory, 10, script.key};
	struct recv_wr wr = {wr_id, &sge, 1};

	assert_int_equal(srq_post(&script.srq, &wr), 0);
}

static uint64_t take(void)
{
	struct recv_wqe wqe;

	assert_true(srq_take(&script.srq, &wqe, &script.lane.signals));
	assert_int_equal(wqe.total_bytes, 10);
	return wqe.wr_id;
}

/* The events of the one signal that waits, or 0. */
static uint32_t events_of(const struct signal *signal)
{
	uint32_t events = 0;
	const struct signal *raised = signal_take(&script.lane.signals, &events);

	assert_true(!raised || raised == signal);
	return events;
}

static bool is_limit_reached(void)
{
	return events_of(&script.srq.signal) == SIGNAL_SRQ_LIMIT;
}

/*
 * --- the limit ---
 */

static void srq_below_its_limit_tells_once(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 5; i++)
		post(i);
	assert_false(rq_set_limit(script.srq.rq, 4));
	take();
	assert_false(is_limit_reached());
	take();
	assert_true(is_limit_reached());
	assert_int_equal(rq_limit(script.srq.rq), 0);
	take();
	assert_false(is_limit_reached());
}

static void srq_limit_is_armed_again_by_setting_it(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		post(i);
	assert_false(rq_set_limit(script.srq.rq, 4));
	take();
	assert_true(is_limit_reached());
	post(9);
	assert_false(rq_set_limit(script.srq.rq, 4));
	assert_int_equal(rq_limit(script.srq.rq), 4);
	take();
	assert_true(is_limit_reached());
}

static void srq_limit_that_is_not_met_now_tells_now(void **state)
{
	(void)state;
	post(1);
	assert_true(rq_set_limit(script.srq.rq, 2));
	assert_int_equal(rq_limit(script.srq.rq), 0);
	take();
	assert_false(is_limit_reached());
	assert_false(rq_set_limit(script.srq.rq, 0));
}

/*
 * --- resizing ---
 */

static void srq_resized_keeps_what_waits_in_order(void **state)
{
	static const uint32_t depths[] = {64, 65, 1024, 100, 128, 16, 33};
	uint64_t posted = 0;
	uint64_t taken = 0;

	(void)state;
	for (uint32_t round = 0; round < 200; round++) {
		uint32_t depth = depths[round % (sizeof(depths) / sizeof(depths[0]))];
		int expected = posted - taken > depth ? -EINVAL : 0;
		uint32_t old_depth = script.srq.rq->depth;

		assert_int_equal(rq_resize(&script.arena, script.srq.rq, depth), expected);
		if (expected)
			depth = old_depth;
		assert_int_equal(script.srq.rq->depth, depth);
		/* Fill it now and then, and empty it. */
		while (posted - taken < (round % 3 ? depth / 2 : depth))
			post(posted++);
		for (uint32_t i = 0; i < round % 40 && taken < posted; i++)
			assert_int_equal(take(), taken++);
	}
	while (taken < posted)
		assert_int_equal(take(), taken++);
}

static void srq_resized_holds_exactly_its_new_depth(void **state)
{
	struct recv_wr wr = {0};

	(void)state;
	assert_int_equal(rq_resize(&script.arena, script.srq.rq, 5), 0);
	for (uint64_t i = 0; i < 5; i++)
		post(i);
	assert_int_equal(srq_post(&script.srq, &wr), -ENOMEM);
	assert_int_equal(rq_resize(&script.arena, script.srq.rq, 4), -EINVAL);
	assert_int_equal(rq_resize(&script.arena, script.srq.rq, 6), 0);
	post(5);
	assert_int_equal(srq_post(&script.srq, &wr), -ENOMEM);
}

static void srq_resized_without_memory_stays_as_it_was(void **state)
{
	uint64_t live_bytes = script.arena.live_bytes;

	(void)state;
	post(7);
	assert_int_equal(rq_resize(&script.arena, script.srq.rq, 1u << 20), -ENOMEM);
	assert_int_equal(script.arena.live_bytes, live_bytes);
	assert_int_equal(script.srq.rq->depth, SCRIPT_QUEUE_DEPTH);
	assert_int_equal(take(), 7);
	assert_int_equal(rq_resize(&script.arena, script.srq.rq, 2 * SCRIPT_QUEUE_DEPTH), 0);
	assert_int_equal(rq_resize(&script.arena, script.srq.rq, SCRIPT_QUEUE_DEPTH), 0);
	assert_int_equal(script.arena.live_bytes, live_bytes);
}

/*
 * --- numbers ---
 */

static void srq_numbers_name_one_queue_each(void **state)
{
	struct srq_table *table = calloc(1, sizeof(*table));
	struct srq srq[3] = {0};

	(void)state;
	assert_non_null(table);
	for (uint32_t i = 0; i < 3; i++) {
		srq[i].number = srq_table_number(table, 3, 0xffff);
		srq_table_add(table, &srq[i]);
	}
	assert_int_equal(srq[0].number, 0x03ffff);
	assert_int_equal(srq[2].number, 0x030001);
	assert_ptr_equal(srq_table_find(table, srq[1].number), &srq[1]);
	assert_null(srq_table_find(table, srq[1].number ^ 0x010000));
	assert_null(srq_table_find(table, UINT32_MAX));
	srq_table_remove(table, &srq[1]);
	assert_null(srq_table_find(table, srq[1].number));
	assert_ptr_equal(srq_table_find(table, srq[2].number), &srq[2]);
	free(table);
}

/*
 * --- a queue pair that takes from it ---
 */

static void shared_requests_are_taken_by_whose_message_comes(void **state)
{
	struct qp_init init = {
		.type = QP_TYPE_RC,
		.pd = SCRIPT_PD,
		.send_cq = &script.cq,
		.recv_cq = &script.cq,
		.srq = &script.srq,
	};
	struct qp *other;

	(void)state;
	assert_int_equal(engine_qp_create(&script.lane, &init, 99, &other), 0);
	post(1);
	post(2);
	struct recv_wqe wqe;
	assert_true(qp_take_recv(other, &wqe));
	assert_int_equal(wqe.wr_id, 1);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	struct cqe cqe = script_completion(&script);
	assert_int_equal(cqe.wr_id, 2);
	assert_int_equal(cqe.status, WC_SUCCESS);
	assert_int_equal(cqe.qpn, script.qp->qpn);
	engine_qp_destroy(other);
}

static void shared_requests_are_scattered_in_the_domain_of_their_queue(void **state)
{
	static const struct script_options options = {.srq_pd = OTHER_PD};
	uint32_t key;

	(void)state;
	script_end(&script);
	script_start(&script, &options);
	struct mr_region region = {OTHER_PD, MR_LOCAL_WRITE, (uintptr_t)script.memory,
		SCRIPT_MEMORY_BYTES, script.memory};
	key = script.key;
	assert_int_equal(mr_table_add(&script.mrs, &region, 0, &script.key), 0);
	post(1);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	script_expect_completion(&script, 1, WC_SUCCESS);
	script_expect_ack(&script, 0, 1);
	/* The queue pair's own domain does not help. */
	script.key = key;
	post(2);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 1, 5);
	script_expect_completion(&script, 2, WC_LOC_PROT_ERR);
	script_expect_nak(&script, 1, AETH_NAK_REMOTE_OPERATIONAL);
}

static void shared_queue_gives_no_credits(void **state)
{
	(void)state;
	post(1);
	post(2);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	const struct packet *ack = script_expect(&script, OPCODE_RC_ACKNOWLEDGE, 0);
	assert_int_equal(ack->aeth.value, CREDIT_CODE_UNLIMITED);
}

static void shared_queue_that_is_empty_is_not_ready(void **state)
{
	(void)state;
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	script_expect_rnr(&script, 0);
	post(1);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	script_expect_completion(&script, 1, WC_SUCCESS);
}

static void shared_queue_limit_is_told_by_the_lane_that_took(void **state)
{
	(void)state;
	post(1);
	post(2);
	assert_false(rq_set_limit(script.srq.rq, 2));
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	assert_true(is_limit_reached());
}

static void failed_queue_pair_leaves_the_shared_requests(void **state)
{
	(void)state;
	post(1);
	post(2);
	script_send_data(&script, OPCODE_RC_SEND_FIRST, 0, SCRIPT_MTU_BYTES);
	/* The message was too long for the first request, which fails; the second one stays. */
	script_expect_completion(&script, 1, WC_LOC_LEN_ERR);
	assert_int_equal(script.qp->state, QP_ERR);
	assert_int_equal(events_of(&script.qp->signal), SIGNAL_QP_LAST_WQE);
	script_expect_no_completion(&script);
	assert_int_equal(take(), 2);
	script_drain(&script);
}

static void modified_to_error_returns_the_message_in_progress_only(void **state)
{
	struct sge sge = {(uintptr_t)script.memory, 1000, script.key};
	struct recv_wr wr = {1, &sge, 1};

	(void)state;
	assert_int_equal(srq_post(&script.srq, &wr), 0);
	post(2);
	script_send_data(&script, OPCODE_RC_SEND_FIRST, 0, SCRIPT_MTU_BYTES);
	assert_int_equal(qp_modify(script.qp, QP_ERR, ATTR_STATE, NULL, script.now_ns), 0);
	script_expect_completion(&script, 1, WC_WR_FLUSH_ERR);
	script_expect_no_completion(&script);
	assert_int_equal(events_of(&script.qp->signal), SIGNAL_QP_LAST_WQE);
	assert_int_equal(qp_modify(script.qp, QP_ERR, ATTR_STATE, NULL, script.now_ns), 0);
	assert_int_equal(events_of(&script.qp->signal), 0);
	assert_int_equal(qp_modify(script.qp, QP_RESET, ATTR_STATE, NULL, script.now_ns), 0);
	assert_int_equal(take(), 2);
}

static void queue_pair_with_a_shared_queue_has_none_of_its_own(void **state)
{
	struct recv_wr wr = {0};

	(void)state;
	assert_int_equal(qp_post_recv(script.qp, &wr), -EINVAL);
	assert_int_equal(script.qp->rq_offset, 0);
	wr.sge_count = 5;
	assert_int_equal(srq_post(&script.srq, &wr), -EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(srq_below_its_limit_tells_once),
		TEST(srq_limit_is_armed_again_by_setting_it),
		TEST(srq_limit_that_is_not_met_now_tells_now),
		TEST(srq_resized_keeps_what_waits_in_order),
		TEST(srq_resized_holds_exactly_its_new_depth),
		TEST(srq_resized_without_memory_stays_as_it_was),
		TEST(srq_numbers_name_one_queue_each),
		TEST(shared_requests_are_taken_by_whose_message_comes),
		TEST(shared_requests_are_scattered_in_the_domain_of_their_queue),
		TEST(shared_queue_gives_no_credits),
		TEST(shared_queue_that_is_empty_is_not_ready),
		TEST(shared_queue_limit_is_told_by_the_lane_that_took),
		TEST(failed_queue_pair_leaves_the_shared_requests),
		TEST(modified_to_error_returns_the_message_in_progress_only),
		TEST(queue_pair_with_a_shared_queue_has_none_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
