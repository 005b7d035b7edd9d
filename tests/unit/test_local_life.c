/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections within one host: when an initiator may enter the channel, and what happens when an
 * end disconnects or dies.
 */
#include <sys/mman.h>

#include "support/local_ends.h"

/* --- who may enter --- */

static void channel_of_another_connection_is_not_entered(void **state)
{
	(void)state;
	channel_of(1)->rq_psn = PSN + 1;
	post(WR_RDMA_WRITE, 1);
	assert_true(has_packets(0));
	channel_of(1)->rq_psn = PSN;
	channel_of(1)->remote = gid_of(7);
	assert_false(local_attach(ends[0].qp));
	channel_of(1)->remote = gid_of(0);
	channel_of(1)->cq_offset = ARENA_BYTES;
	assert_false(local_attach(ends[0].qp));
	channel_of(1)->cq_offset = arena_offset(&ends[1].arena, ends[1].recv_cq.ring);
	assert_true(local_attach(ends[0].qp));
}

static void channel_that_was_closed_and_opened_is_another_one(void **state)
{
	struct request_channel *channel = channel_of(1);
	uint32_t generation = channel_generation(channel);
	struct channel_record record = {0};

	(void)state;
	assert_true(channel_enter(channel, generation, CHANNEL_PUBLISHES));
	assert_false(channel_enter(channel, generation, CHANNEL_PUBLISHES));
	channel_close(channel, ring_of(1));
	assert_false(channel_publish(channel, ring_of(1), generation, &record));
	channel_leave(channel);
	assert_false(channel_enter(channel, generation, CHANNEL_PUBLISHES));
	channel_open(channel, ring_of(1));
	assert_false(channel_enter(channel, generation, CHANNEL_PUBLISHES));
	assert_true(channel_enter(channel, generation + 2, CHANNEL_PUBLISHES));
	channel_leave(channel);
}

static void record_is_published_or_the_channel_is_closed_before_it(void **state)
{
	struct request_channel *channel = channel_of(1);
	uint32_t generation = channel_generation(channel);
	struct channel_record record = {.wr_id = 5};

	(void)state;
	assert_true(channel_enter(channel, generation, CHANNEL_PUBLISHES));
	assert_true(channel_publish(channel, ring_of(1), generation, &record));
	channel_close(channel, ring_of(1));
	assert_false(channel_publish(channel, ring_of(1), generation, &record));
	assert_int_equal(channel_next(channel, ring_of(1))->wr_id, 5);
	channel_collected(channel);
	assert_null(channel_next(channel, ring_of(1)));
	channel_leave(channel);
	channel_open(channel, ring_of(1));
	assert_null(channel_next(channel, ring_of(1)));
	assert_false(channel_publish(channel, ring_of(1), generation, &record));
	assert_true(channel_publish(channel, ring_of(1), generation + 2, &record));
	channel_close(channel, ring_of(1));
	assert_int_equal(channel_next(channel, ring_of(1))->wr_id, 5);
	channel_collected(channel);
}

static void channel_is_listed_once_however_often_it_is_rung(void **state)
{
	(void)state;
	doorbell_ring(doorbell_of(1), &channel_of(1)->ready, ends[1].channel_offset);
	doorbell_ring(doorbell_of(1), &channel_of(1)->ready, ends[1].channel_offset);
	assert_int_equal(doorbell_of(1)->first_offset, ends[1].channel_offset);
	assert_int_equal(channel_of(1)->ready.next_offset, 0);
	collect();
	assert_int_equal(doorbell_of(1)->first_offset, 0);
	doorbell_ring(doorbell_of(1), &channel_of(1)->ready, ends[1].channel_offset);
	assert_int_equal(doorbell_of(1)->first_offset, ends[1].channel_offset);
}

/* --- the end --- */

static void error_state_flushes_what_was_not_taken(void **state)
{
	(void)state;
	post_receive(1);
	post_receive(2);
	post(WR_SEND, 1);
	qp_set_state(ends[1].qp, QP_ERR, NOW_NS);
	struct cqe cqe = poll_received();
	assert_int_equal(cqe.wr_id, 1);
	assert_int_equal(cqe.status, WC_SUCCESS);
	cqe = poll_received();
	assert_int_equal(cqe.wr_id, 2);
	assert_int_equal(cqe.status, WC_WR_FLUSH_ERR);
	post(WR_RDMA_WRITE, 1);
	assert_true(has_packets(0));
}

static void close_waits_for_who_is_inside(void **state)
{
	(void)state;
	assert_true(
		channel_enter(channel_of(1), channel_generation(channel_of(1)), CHANNEL_PUBLISHES));
	leaves_in = 5;
	qp_set_state(ends[1].qp, QP_ERR, NOW_NS);
	assert_int_equal(wait_rounds, 5);
}

static void close_does_not_wait_for_the_dead(void **state)
{
	(void)state;
	assert_true(
		channel_enter(channel_of(1), channel_generation(channel_of(1)), CHANNEL_PUBLISHES));
	/* The process died before the channel was on the list */
	atomic_store(&channel_of(1)->ready.is_rung, 1);
	leaves_in = 0;
	qp_set_state(ends[1].qp, QP_ERR, NOW_NS);
	assert_int_equal(wait_rounds, 1);
	assert_true(local_disconnect(&ends[1].local, NOW_NS));
	assert_int_equal(channel_of(1)->ready.is_rung, 0);
}

static void counters_of_a_channel_stay_when_it_goes(void **state)
{
	const struct counters *counters = ends[1].qp->counters;

	(void)state;
	post(WR_RDMA_WRITE, 3000);
	assert_int_equal(counter_read(counters, COUNTER_local_bytes), 0);
	assert_true(local_disconnect(&ends[1].local, NOW_NS));
	assert_int_equal(counter_read(counters, COUNTER_rdma_writes), 1);
	assert_int_equal(counter_read(counters, COUNTER_rcvd_bytes), 3000);
	assert_int_equal(counter_read(counters, COUNTER_local_bytes), 3000);
}

static void channel_in_which_somebody_stands_still_is_not_used_again(void **state)
{
	(void)state;
	assert_true(
		channel_enter(channel_of(1), channel_generation(channel_of(1)), CHANNEL_PUBLISHES));
	leaves_in = UINT32_MAX;
	assert_false(local_disconnect(&ends[1].local, NOW_NS));
}

static void request_that_was_published_is_taken_though_the_initiator_died(void **state)
{
	struct recv_queue *rq = ends[1].qp->rq;

	(void)state;
	post_receive(1);
	post_receive(2);
	post(WR_SEND, 1);
	atomic_store(&rq_takers(rq)->taken, 0); /* as if it had not come so far */
	qp_set_state(ends[1].qp, QP_ERR, NOW_NS);
	assert_int_equal(poll_received().wr_id, 1);
	assert_int_equal(poll_received().wr_id, 2);
	assert_true(cq_is_empty(&ends[1].recv_cq));
}

static bool quiesce(uint32_t key)
{
	return channel_quiesce(channel_of(1), &ends[1].owner, &ends[1].mrs, key, 1);
}

static void deregistration_waits_for_who_uses_the_key_and_for_nobody_else(void **state)
{
	struct mr_region region = {PD, ACCESS, 0, 16, ends[1].memory};
	uint32_t generation, other;

	(void)state;
	assert_int_equal(mr_table_add(&ends[1].mrs, &region, 9, &other), 0);
	generation = channel_generation(channel_of(1));
	assert_true(channel_enter(channel_of(1), generation, CHANNEL_USES_KEY | other));
	leaves_in = 3;
	assert_true(quiesce(ends[1].key));
	assert_int_equal(wait_rounds, 0);
	assert_true(quiesce(other));
	assert_int_equal(wait_rounds, 3);
}

static void owner_out_of_budget_revokes_the_mark_once(void **state)
{
	struct request_channel *channel = channel_of(1);
	uint32_t key = ends[1].key, generation = channel_generation(channel);

	(void)state;
	ends[1].owner.now_ns = all_time;
	assert_true(channel_enter(channel, generation, CHANNEL_USES_KEY | key));
	assert_true(channel_mark_holds(channel));
	leaves_in = UINT32_MAX;
	assert_false(quiesce(key));
	assert_false(channel_mark_holds(channel));
	wait_rounds = 0;
	assert_false(quiesce(key));
	assert_int_equal(wait_rounds, 0);
	channel_leave(channel);
	assert_true(channel_enter(channel, generation, CHANNEL_USES_KEY | key));
	assert_true(channel_mark_holds(channel));
	channel_leave(channel);
}

static uint32_t waits;

/* Another mark each time, of an unknown key. */
static bool wait_and_mark(uint32_t who, uint32_t round)
{
	(void)who;
	atomic_store(&channel_of(1)->in_use, CHANNEL_USES_KEY | (0x1000 + round));
	return ++waits < 10000; /* else it would never end */
}

static void owner_out_of_budget_does_not_wait_for_marks_that_keep_changing(void **state)
{
	(void)state;
	waits = 0;
	ends[1].owner.wait = wait_and_mark;
	ends[1].owner.now_ns = all_time;
	wait_and_mark(1, 0);
	assert_false(quiesce(ends[1].key));
	assert_in_range(waits, 1, 1000);
	ends[1].owner.wait = wait;
}

/* How the initiator's peer is asked for memory; its owner runs out of budget right then. */
static void revoke(void)
{
	leaves_in = UINT32_MAX;
	ends[1].owner.now_ns = all_time;
	assert_false(quiesce(ends[1].key));
	leaves_in = 1;
}

static bool revoking_write(struct peer *peer, uint64_t to, const uint8_t *from, size_t bytes)
{
	revoke();
	return far_write(peer, to, from, bytes);
}

static bool revoking_read(struct peer *peer, uint8_t *to, uint64_t from, size_t bytes)
{
	revoke();
	return far_read(peer, to, from, bytes);
}

static uint8_t *revoking_map(
	struct peer *peer, const struct mr_slot *region, uint64_t address, uint64_t *bytes)
{
	revoke();
	return map_all(peer, region, address, bytes);
}

static const struct peer_ops revoking_ops = {revoking_write, revoking_read, NULL, kick, NULL, NULL};
static const struct peer_ops revoking_mapped_ops = {
	revoking_write, revoking_read, revoking_map, kick, NULL, NULL};

static void request_whose_mark_is_revoked_is_done_once_more(void **state)
{
	static const uint32_t opcodes[] = {WR_RDMA_WRITE, WR_RDMA_READ, WR_SEND, WR_ATOMIC_WRITE};
	const struct peer_ops *const ways[] = {&revoking_ops, &revoking_mapped_ops};

	(void)state;
	for (uint32_t i = 0; i < 8; i++) {
		uint32_t opcode = opcodes[i % 4];
		uint32_t bytes = opcode == WR_ATOMIC_WRITE ? 8 : 100;

		if (opcode == WR_SEND)
			post_receive(7);
		ends[0].peer.ops = ways[i / 4];
		ends[0].initiator.remote = (struct mr_cached){.key_word = NULL};
		ends[0].initiator.receive = (struct mr_cached){.key_word = NULL};
		post(opcode, bytes);
		/*
		 * Plain requests are tried once more with the cached key, because the owner does
		 * not revoke that mark.
		 */
		assert_int_equal(has_packets(0),
			ways[i / 4] == &revoking_ops ||
				(opcode != WR_RDMA_WRITE && opcode != WR_SEND));
		ends[0].peer.ops = &ops;
		exchange();
		assert_int_equal(poll_sent().status, WC_SUCCESS);
		assert_false(has_packets(0));
		collect();
		if (opcode == WR_SEND)
			assert_int_equal(poll_received().wr_id, 7);
		assert_memory_equal(ends[1].memory, ends[0].memory, bytes);
		ends[0].initiator.has_unmapped_atomics = false;
	}
	post(WR_RDMA_WRITE, 100);
	assert_false(has_packets(0));
}

static uint32_t asked;

static bool can_execute_noted(struct qp *qp, const struct send_wqe *wqe)
{
	asked++;
	return local_can_execute(qp, wqe);
}

static void plain_request_whose_mark_is_revoked_leaves_the_fast_path(void **state)
{
	static const uint32_t opcodes[] = {WR_RDMA_WRITE, WR_SEND};
	struct qp_local_ops noting = *ends[0].qp->local->ops;

	(void)state;
	noting.can_execute = can_execute_noted;
	ends[0].qp->local->ops = &noting;
	ends[0].peer.ops = &revoking_mapped_ops;
	for (uint32_t i = 0; i < 2; i++) {
		post_receive(7);
		post_receive(7);
		asked = 0;
		post(opcodes[i], 100);
		assert_int_equal(asked, 1);
		assert_int_equal(poll_sent().status, WC_SUCCESS);
		post(opcodes[i], 100);
		assert_int_equal(asked, 1);
		assert_int_equal(poll_sent().status, WC_SUCCESS);
	}
}

/* It may have been done to the word that was there, or to none. */
static void atomic_whose_mark_is_revoked_fails(void **state)
{
	(void)state;
	ends[0].peer.ops = &revoking_mapped_ops;
	post(WR_ATOMIC_FETCH_AND_ADD, 8);
	assert_int_equal(poll_sent().status, WC_REM_ACCESS_ERR);
}

static void last_message_is_collected_before_the_connection_ends(void **state)
{
	(void)state;
	post_receive(1);
	post(WR_SEND, 1);
	collects_in = 3;
	kicks = 0;
	qp_set_state(ends[0].qp, QP_ERR, NOW_NS);
	assert_int_equal(kicks, 1);
	assert_int_equal(poll_received().wr_id, 1);
}

static void peer_that_is_gone_is_not_touched(void **state)
{
	(void)state;
	post(WR_RDMA_WRITE, 8);
	assert_false(has_packets(0));
	local_forget_peer(&ends[0].local);
	post(WR_RDMA_WRITE, 8);
	assert_true(has_packets(0));
}

/* A write to that state would be a crash here. In production it would take a page of memory. */
static void end_without_requests_does_not_write_to_its_state_of_an_initiator(void **state)
{
	void *zeros = mmap(NULL, sizeof(struct local_initiator), PROT_READ,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(zeros != MAP_FAILED);
	ends[1].qp->initiator = zeros;
	post_receive(1);
	post(WR_SEND, 8);
	collect();
	assert_int_equal(poll_received().wr_id, 1);
	qp_set_state(ends[1].qp, QP_ERR, NOW_NS);
	assert_true(local_disconnect(&ends[1].local, NOW_NS));
	assert_null(ends[1].qp->initiator);
	munmap(zeros, sizeof(struct local_initiator));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(channel_of_another_connection_is_not_entered),
		TEST(channel_that_was_closed_and_opened_is_another_one),
		TEST(counters_of_a_channel_stay_when_it_goes),
		TEST(record_is_published_or_the_channel_is_closed_before_it),
		TEST(channel_is_listed_once_however_often_it_is_rung),
		TEST(error_state_flushes_what_was_not_taken),
		TEST(close_waits_for_who_is_inside),
		TEST(close_does_not_wait_for_the_dead),
		TEST(channel_in_which_somebody_stands_still_is_not_used_again),
		TEST(request_that_was_published_is_taken_though_the_initiator_died),
		TEST(owner_out_of_budget_revokes_the_mark_once),
		TEST(owner_out_of_budget_does_not_wait_for_marks_that_keep_changing),
		TEST(request_whose_mark_is_revoked_is_done_once_more),
		TEST(plain_request_whose_mark_is_revoked_leaves_the_fast_path),
		TEST(atomic_whose_mark_is_revoked_fails),
		TEST(deregistration_waits_for_who_uses_the_key_and_for_nobody_else),
		TEST(last_message_is_collected_before_the_connection_ends),
		TEST(peer_that_is_gone_is_not_touched),
		TEST(end_without_requests_does_not_write_to_its_state_of_an_initiator),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
