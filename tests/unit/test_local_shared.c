/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections within one host whose target receives from a shared receive queue.
 */
#include "support/local_ends.h"

static int setup_shared(void **state)
{
	are_shared = true;
	return setup(state);
}

/* The target's memory cannot be written to. */
static bool write_fails(struct peer *peer, uint64_t to, const uint8_t *from, size_t bytes)
{
	(void)peer;
	(void)to;
	(void)from;
	(void)bytes;
	return false;
}

static const struct peer_ops unreachable = {write_fails, far_read, NULL, kick, NULL, NULL};

static uint32_t waiting(void)
{
	return rq_count(ends[1].srq.rq);
}

/* Another taker has the oldest request. */
static void take_one(void)
{
	struct recv_wqe wqe;

	assert_true(srq_take(&ends[1].srq, &wqe, &ends[1].lane.signals));
}

static void message_takes_the_oldest_request_that_others_have_left(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		post_receive(50 + i);
	take_one();
	post(WR_SEND, 100);
	take_one();
	post(WR_RDMA_WRITE_WITH_IMM, 100);
	assert_false(has_packets(0));
	assert_int_equal(waiting(), 0);
	assert_int_equal(collect(), 2);
	assert_int_equal(poll_received().wr_id, 51);
	struct cqe cqe = poll_received();
	assert_int_equal(cqe.wr_id, 53);
	assert_int_equal(cqe.opcode, WC_RECV_RDMA_WITH_IMM);
	assert_memory_equal(ends[1].memory, ends[0].memory, 100);
	assert_memory_equal(ends[1].memory + 4096, ends[0].memory, 100);
}

static void message_that_fits_no_request_takes_none(void **state)
{
	(void)state;
	post_receive(50);
	post(WR_SEND, 5000);
	assert_true(has_packets(0));
	assert_int_equal(waiting(), 1);
}

static void limit_is_told_by_the_owner_who_is_woken_for_it(void **state)
{
	uint32_t events = 0;

	(void)state;
	ready_to_send(1, PSN); /* it wants to hear of no first request any more */
	for (uint64_t i = 0; i < 3; i++)
		post_receive(i);
	assert_false(rq_set_limit(ends[1].srq.rq, 2));
	post(WR_SEND, 1);
	assert_int_equal(kicks, 0);
	post(WR_SEND, 1);
	assert_int_equal(kicks, 1);
	assert_int_equal(collect(), 2);
	assert_ptr_equal(signal_take(&ends[1].lane.signals, &events), &ends[1].srq.signal);
	assert_int_equal(events, SIGNAL_SRQ_LIMIT);
	post_receive(4);
	post(WR_SEND, 1);
	assert_int_equal(kicks, 1);
}

static void limit_that_was_passed_is_told_though_there_are_requests_again(void **state)
{
	uint32_t events = 0;

	(void)state;
	ready_to_send(1, PSN);
	post_receive(0);
	post_receive(1);
	assert_false(rq_set_limit(ends[1].srq.rq, 2));
	post(WR_SEND, 1);
	assert_int_equal(kicks, 1);
	post_receive(2);
	post_receive(3);
	assert_int_equal(rq_limit(ends[1].srq.rq), 0);
	assert_int_equal(collect(), 1);
	assert_ptr_equal(signal_take(&ends[1].lane.signals, &events), &ends[1].srq.signal);
	assert_int_equal(events, SIGNAL_SRQ_LIMIT);
	assert_false(rq_set_limit(ends[1].srq.rq, 1));
	assert_int_equal(rq_limit(ends[1].srq.rq), 1);
}

static void request_that_could_not_be_filled_receives_the_message_by_packets(void **state)
{
	(void)state;
	post_receive(50);
	post_receive(51);
	ends[0].peer.ops = &unreachable;
	post(WR_SEND, 100);
	assert_true(has_packets(0));
	assert_int_equal(waiting(), 1);
	exchange();
	assert_int_equal(poll_sent().status, WC_SUCCESS);
	struct cqe cqe = poll_received();
	assert_int_equal(cqe.wr_id, 50);
	assert_int_equal(cqe.byte_count, 100);
	assert_memory_equal(ends[1].memory + 4096, ends[0].memory, 100);
	ends[0].peer.ops = &ops;
	post(WR_SEND, 10);
	assert_false(has_packets(0));
	collect();
	assert_int_equal(poll_received().wr_id, 51);
}

static void request_that_was_handed_over_is_flushed_with_its_queue_pair(void **state)
{
	(void)state;
	post_receive(50);
	post_receive(51);
	ends[0].peer.ops = &unreachable;
	post(WR_SEND, 100);
	qp_set_state(ends[1].qp, QP_ERR, NOW_NS);
	struct cqe cqe = poll_received();
	assert_int_equal(cqe.wr_id, 50);
	assert_int_equal(cqe.status, WC_WR_FLUSH_ERR);
	assert_true(cq_is_empty(&ends[1].recv_cq));
	assert_int_equal(waiting(), 1);
}

static jmp_buf death;

static bool write_dies(struct peer *peer, uint64_t to, const uint8_t *from, size_t bytes)
{
	(void)peer;
	(void)to;
	(void)from;
	(void)bytes;
	longjmp(death, 1);
}

static void request_that_an_initiator_held_who_died_is_flushed_with_the_queue_pair(void **state)
{
	static const struct peer_ops deadly = {write_dies, far_read, NULL, kick, NULL, NULL};

	(void)state;
	post_receive(50);
	post_receive(51);
	post(WR_SEND, 10);
	ends[0].peer.ops = &deadly;
	if (!setjmp(death))
		post(WR_SEND, 10);
	assert_int_equal(waiting(), 0);
	leaves_in = 0;
	qp_set_state(ends[1].qp, QP_ERR, NOW_NS);
	struct cqe cqe = poll_received();
	assert_int_equal(cqe.wr_id, 50);
	assert_int_equal(cqe.status, WC_SUCCESS);
	cqe = poll_received();
	assert_int_equal(cqe.wr_id, 51);
	assert_int_equal(cqe.status, WC_WR_FLUSH_ERR);
	ends[0].initiator.is_inside = false;
	local_forget_peer(&ends[0].local);
}

static void held_request_that_was_not_posted_is_none(void **state)
{
	static const struct peer_ops deadly = {write_dies, far_read, NULL, kick, NULL, NULL};

	(void)state;
	post_receive(50);
	ends[0].peer.ops = &deadly;
	if (!setjmp(death))
		post(WR_SEND, 10);
	channel_of(1)->reservation.wr_id = 1;
	leaves_in = 0;
	qp_set_state(ends[1].qp, QP_ERR, NOW_NS);
	assert_true(cq_is_empty(&ends[1].recv_cq));
	assert_int_equal(atomic_load(ends[1].lane.unsound), 1);
	ends[0].initiator.is_inside = false;
	local_forget_peer(&ends[0].local);
}

static void request_whose_record_was_published_is_held_no_more(void **state)
{
	(void)state;
	post_receive(50);
	post(WR_SEND, 10);
	qp_set_state(ends[1].qp, QP_ERR, NOW_NS);
	assert_int_equal(poll_received().status, WC_SUCCESS);
	assert_true(cq_is_empty(&ends[1].recv_cq));
}

static void what_was_held_is_not_found_by_the_next_connection(void **state)
{
	(void)state;
	post_receive(50);
	ends[0].peer.ops = &unreachable;
	post(WR_SEND, 100);
	assert_true(local_disconnect(&ends[1].local, NOW_NS));
	channel_open(channel_of(1), ring_of(1));
	ends[1].qp->local = &ends[1].local.base;
	ends[1].qp->initiator = &ends[1].initiator;
	qp_set_state(ends[1].qp, QP_ERR, NOW_NS);
	assert_int_equal(poll_received().wr_id, 50); /* the responder had it */
	assert_true(cq_is_empty(&ends[1].recv_cq));
}

static void queue_in_which_somebody_stands_still_is_not_used_again(void **state)
{
	(void)state;
	assert_true(
		channel_enter(channel_of(1), channel_generation(channel_of(1)), CHANNEL_PUBLISHES));
	leaves_in = UINT32_MAX;
	assert_false(local_disconnect(&ends[1].local, NOW_NS));
	assert_true(ends[1].srq.is_in_use);
}

static void message_without_a_request_waits_for_one(void **state)
{
	(void)state;
	post(WR_SEND, 10);
	assert_false(has_packets(0));
	post_receive(50);
	take_one();
	engine_expire(&ends[0].lane, NOW_NS + MS);
	post_receive(51);
	engine_expire(&ends[0].lane, NOW_NS + 2 * MS);
	carry(0);
	assert_int_equal(poll_sent().status, WC_SUCCESS);
	assert_int_equal(collect(), 1);
	assert_int_equal(poll_received().wr_id, 51);
}

#define SHARED_TEST(name) cmocka_unit_test_setup_teardown(name, setup_shared, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SHARED_TEST(message_takes_the_oldest_request_that_others_have_left),
		SHARED_TEST(message_that_fits_no_request_takes_none),
		SHARED_TEST(limit_is_told_by_the_owner_who_is_woken_for_it),
		SHARED_TEST(limit_that_was_passed_is_told_though_there_are_requests_again),
		SHARED_TEST(request_that_could_not_be_filled_receives_the_message_by_packets),
		SHARED_TEST(request_that_was_handed_over_is_flushed_with_its_queue_pair),
		SHARED_TEST(request_that_an_initiator_held_who_died_is_flushed_with_the_queue_pair),
		SHARED_TEST(held_request_that_was_not_posted_is_none),
		SHARED_TEST(request_whose_record_was_published_is_held_no_more),
		SHARED_TEST(what_was_held_is_not_found_by_the_next_connection),
		SHARED_TEST(queue_in_which_somebody_stands_still_is_not_used_again),
		SHARED_TEST(message_without_a_request_waits_for_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
