/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each kind of request on a connection within one host: executed locally, or left to packets.
 */
#include "memory/mw.h"
#include "support/local_ends.h"

/* Bind a window of type 2 to the target's first bytes. */
static uint32_t window_bind(void)
{
	struct mw_bind bind = {
		.region_key = ends[1].key,
		.user = {PD, ends[1].qp->qpn},
		.access = MR_REMOTE_WRITE,
		.iova = (uintptr_t)ends[1].memory,
		.bytes = 100,
	};

	assert_int_equal(mw_add(&ends[1].mrs, PD, MR_KIND_WINDOW_2, 0, &bind.key), 0);
	assert_int_equal(mw_bind(&ends[1].mrs, &bind), MR_OK);
	return bind.key;
}

static void post_invalidation(uint32_t key)
{
	struct sge sge = {(uintptr_t)ends[0].memory, 10, ends[0].key};
	struct send_wr wr = {
		.opcode = WR_SEND_WITH_INV,
		.flags = SEND_SIGNALED,
		.imm = key,
		.sge = &sge,
		.sge_count = 1,
	};
	uint32_t posted;

	assert_int_equal(engine_post_send(ends[0].qp, &wr, 1, &posted, NOW_NS), 0);
}

static void invalidated_key_is_gone_before_its_message_completes(void **state)
{
	uint32_t key = window_bind();

	(void)state;
	post_receive(50);
	post_at(WR_RDMA_WRITE, 100, key, NOW_NS);
	assert_int_equal(poll_sent().status, WC_SUCCESS);
	post_invalidation(key);
	assert_int_equal(poll_sent().status, WC_SUCCESS);
	assert_false(has_packets(0));
	assert_int_equal(collect(), 1);
	struct cqe cqe = poll_received();
	assert_int_equal(cqe.flags, WC_WITH_INV);
	assert_int_equal(cqe.imm, key);
	assert_int_equal(
		mw_check(&ends[1].mrs, key, (struct mr_user){PD, ends[1].qp->qpn}), MR_FAULT_KEY);
	post(WR_RDMA_WRITE, 100); /* by the region's key */
	assert_false(has_packets(0));
}

/* A process that moves its memory finds no key meanwhile. */
static void messages_to_memory_that_is_moved_keep_their_order(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		post_receive(50 + i);
	post(WR_SEND, 10);
	mr_table_suspend(&ends[1].mrs);
	post(WR_SEND, 11);
	post(WR_SEND, 12);
	assert_true(has_packets(0));
	assert_int_equal(rq_count(ends[1].qp->rq), 3);
	mr_table_resume(&ends[1].mrs);
	exchange(); /* nobody has collected the first one */
	post(WR_SEND, 13);
	assert_false(has_packets(0));
	collect();
	for (uint32_t i = 0; i < 4; i++) {
		struct cqe cqe = poll_received();

		assert_int_equal(cqe.wr_id, 50 + i);
		assert_int_equal(cqe.byte_count, 10 + i);
		assert_int_equal(poll_sent().status, WC_SUCCESS);
	}
}

static void request_after_an_invalidation_that_is_not_collected_goes_by_packets(void **state)
{
	uint32_t key = window_bind();

	(void)state;
	post_receive(50);
	post_invalidation(key);
	assert_false(has_packets(0));
	post_at(WR_RDMA_WRITE, 100, key, NOW_NS);
	assert_true(has_packets(0));
	assert_int_equal(ends[1].memory[0], 0);
}

static void key_that_may_not_be_invalidated_goes_by_packets(void **state)
{
	(void)state;
	post_receive(50);
	post_invalidation(ends[1].key); /* a region's */
	assert_true(has_packets(0));
	assert_int_equal(rq_count(ends[1].qp->rq), 1);
}

static void post_flush(uint32_t bytes, uint8_t placement)
{
	struct send_wr wr = {
		.opcode = WR_FLUSH,
		.flags = SEND_SIGNALED,
		.rkey = ends[1].key,
		.remote_address = (uintptr_t)ends[1].memory,
		.flush = {bytes, placement, FETH_SELECT_RANGE},
	};
	uint32_t posted;

	assert_int_equal(engine_post_send(ends[0].qp, &wr, 1, &posted, NOW_NS), 0);
}

static void flush_of_what_it_may_flush_is_done_at_once(void **state)
{
	(void)state;
	post_flush(MEMORY_BYTES, FETH_PLACEMENT_GLOBAL);
	assert_int_equal(poll_sent().opcode, WC_FLUSH);
	assert_false(has_packets(0));
	assert_int_equal(channel_of(1)->flushes, 1);
}

static void flush_beyond_the_region_goes_by_packets(void **state)
{
	(void)state;
	post_flush(MEMORY_BYTES + 1, FETH_PLACEMENT_GLOBAL);
	assert_true(has_packets(0));
}

static void flush_to_persistence_goes_by_packets(void **state)
{
	(void)state;
	post_flush(1, FETH_PLACEMENT_PERSISTENT);
	assert_true(has_packets(0));
}

static void atomic_write_is_one_store_where_memory_is_mapped(void **state)
{
	(void)state;
	ends[0].peer.ops = &mapped_ops;
	post(WR_ATOMIC_WRITE, 8);
	assert_int_equal(poll_sent().opcode, WC_ATOMIC_WRITE);
	assert_memory_equal(ends[1].memory, ends[0].memory, 8);
	assert_int_equal(channel_of(1)->atomic_writes, 1);
	post(WR_ATOMIC_WRITE, 16); /* which is refused there */
	assert_true(has_packets(0));
	assert_int_equal(channel_of(1)->atomic_writes, 1);
}

static void atomic_write_elsewhere_goes_by_packets(void **state)
{
	(void)state;
	post(WR_ATOMIC_WRITE, 8);
	assert_true(has_packets(0));
	assert_int_equal(ends[1].memory[0], 0);
}

static void write_is_there_when_posting_returns(void **state)
{
	(void)state;
	post(WR_RDMA_WRITE, 3000);
	assert_memory_equal(ends[1].memory, ends[0].memory, 3000);
	assert_int_equal(poll_sent().status, WC_SUCCESS);
	assert_false(has_packets(0));
	assert_int_equal(channel_of(1)->writes, 1);
}

static void message_completes_at_the_target_when_it_collects(void **state)
{
	(void)state;
	post_receive(50);
	post(WR_SEND_WITH_IMM, 100);
	assert_int_equal(poll_sent().status, WC_SUCCESS);
	assert_true(cq_is_empty(&ends[1].recv_cq));
	assert_int_equal(collect(), 1);
	struct cqe cqe = poll_received();
	assert_int_equal(cqe.wr_id, 50);
	assert_int_equal(cqe.byte_count, 100);
	assert_int_equal(cqe.imm, 0xabcd);
	assert_int_equal(cqe.flags, WC_WITH_IMM);
	assert_memory_equal(ends[1].memory + 4096, ends[0].memory, 100);
	assert_int_equal(collect(), 0);
}

static void refused_request_goes_by_packets_and_changes_nothing(void **state)
{
	(void)state;
	post_at(WR_RDMA_WRITE, 100, ends[1].key ^ 1, NOW_NS);
	assert_true(has_packets(0));
	assert_int_equal(ends[1].memory[0], 0);
	assert_true(cq_is_empty(&ends[0].send_cq));
}

static void message_longer_than_its_receive_goes_by_packets_and_takes_none(void **state)
{
	(void)state;
	post_receive(50);
	post(WR_SEND, 5000);
	assert_true(has_packets(0));
	assert_int_equal(rq_count(ends[1].qp->rq), 1);
	assert_int_equal(ends[1].memory[4096], 0);
}

static void message_without_a_receive_waits_a_while_then_goes_by_packets(void **state)
{
	uint64_t at_ns;

	(void)state;
	post(WR_SEND, 10);
	assert_false(has_packets(0));
	at_ns = engine_deadline_ns(&ends[0].lane);
	assert_in_range(at_ns, NOW_NS + 1, NOW_NS + MS);
	engine_expire(&ends[0].lane, at_ns);
	uint8_t buffer[ENGINE_PACKET_BYTES_MAX];
	struct packet_run run = {.buffer = buffer};
	assert_int_equal(engine_next_packet(&ends[0].lane, true, &run, at_ns), 0);
	engine_expire(&ends[0].lane, at_ns + 20 * MS);
	assert_true(engine_next_packet(&ends[0].lane, true, &run, at_ns + 20 * MS) > 0);
}

static void message_whose_receive_comes_in_time_needs_no_packet(void **state)
{
	uint8_t buffer[ENGINE_PACKET_BYTES_MAX];
	struct packet_run run = {.buffer = buffer};

	(void)state;
	post(WR_SEND, 10);
	post_receive(50);
	engine_expire(&ends[0].lane, NOW_NS + MS);
	assert_int_equal(engine_next_packet(&ends[0].lane, true, &run, NOW_NS + MS), 0);
	assert_int_equal(poll_sent().status, WC_SUCCESS);
	assert_int_equal(collect(), 1);
}

static void messages_stop_when_nobody_collects(void **state)
{
	(void)state;
	for (uint32_t i = 0; i <= CHANNEL_RECORD_COUNT; i++)
		post_receive(i);
	for (uint32_t i = 0; i <= CHANNEL_RECORD_COUNT; i++)
		post(WR_SEND, 1);
	assert_int_equal(rq_count(ends[1].qp->rq), 1);
	assert_int_equal(kicks > 0, 1);
	assert_int_equal(collect(), CHANNEL_RECORD_COUNT);
	for (uint32_t i = 0; i < CHANNEL_RECORD_COUNT; i++)
		assert_int_equal(poll_received().wr_id, i);
}

static void sleeping_target_is_kicked_when_its_queue_is_armed(void **state)
{
	(void)state;
	ready_to_send(1, PSN); /* it wants to hear of no first request any more */
	post_receive(1);
	post_receive(2);
	post(WR_SEND, 1);
	assert_int_equal(kicks, 0);
	cq_arm(&ends[1].recv_cq, CQ_ARM_NEXT);
	post(WR_SEND, 1);
	assert_int_equal(kicks, 1);
}

static void waiter_of_an_armed_queue_is_left_alone_or_woken(void **state)
{
	struct waiter_table *table = arena_memory_new(ARENA_BYTES);
	struct waiter *waiter = &table->waiter[1];

	(void)state;
	ready_to_send(1, PSN);
	ends[0].peer.waiters = table;
	ends[1].recv_cq.ring->waiter = 1;
	cq_arm(&ends[1].recv_cq, CQ_ARM_NEXT);
	for (uint32_t i = 0; i < 4; i++)
		post_receive(i);
	waiter->state = WAITER_POLLS;
	post(WR_SEND, 1);
	assert_int_equal(kicks + wakes + *waiter_wakes(waiter), 0);
	waiter->state = WAITER_SLEEPS;
	post(WR_SEND, 1);
	assert_int_equal(wakes, 1);
	assert_int_equal(*waiter_wakes(waiter), 1);
	waiter->state = WAITER_NONE;
	post(WR_SEND, 1);
	assert_int_equal(kicks, 1);
	ends[1].recv_cq.ring->waiter = WAITER_COUNT; /* a peer may say anything */
	post(WR_SEND, 1);
	assert_int_equal(kicks, 2);
	arena_memory_free(table, ARENA_BYTES);
}

static void program_that_watches_its_descriptor_is_woken_there_or_by_its_lane(void **state)
{
	struct waiter_table *table = arena_memory_new(ARENA_BYTES);

	(void)state;
	ready_to_send(1, PSN);
	ends[0].peer.waiters = table;
	ends[1].recv_cq.ring->waiter = 1;
	cq_arm(&ends[1].recv_cq, CQ_ARM_NEXT);
	post_receive(1);
	post_receive(2);
	table->waiter[1].state = WAITER_WATCHES;
	post(WR_SEND, 1);
	assert_int_equal(wakes, 1);
	assert_int_equal(kicks, 0);
	is_unwakeable = true;
	post(WR_SEND, 1);
	assert_int_equal(kicks, 1);
	is_unwakeable = false;
	arena_memory_free(table, ARENA_BYTES);
}

/* The first message rings; from then on the channel is watched. */
static void watched(void)
{
	ready_to_send(1, PSN);
	post_receive(1);
	post(WR_SEND, 1);
	assert_int_equal(collect(), 1);
	poll_received();
	poll_sent();
	assert_true(channel_of(1)->is_watched);
}

static void channel_that_is_watched_needs_no_doorbell(void **state)
{
	(void)state;
	watched();
	for (uint32_t i = 2; i < 2 + 2 * CHANNEL_RECORD_COUNT; i++) {
		assert_false(local_has_work(&ends[1].local_lane));
		post_receive(i);
		post(WR_SEND, 1);
		assert_int_equal(doorbell_of(1)->first_offset, 0);
		assert_true(local_has_work(&ends[1].local_lane));
		assert_int_equal(collect(), 1);
		assert_int_equal(poll_received().wr_id, i);
		poll_sent();
	}
}

static void receive_request_is_free_when_its_record_was_collected(void **state)
{
	struct recv_wr wr = {9, NULL, 0};
	struct recv_queue *rq = ends[1].qp->rq;

	(void)state;
	for (uint32_t i = 0; i < DEPTH; i++)
		post_receive(i);
	post(WR_SEND, 1);
	atomic_store(&rq_takers(rq)->taken, 0); /* the initiator is not that far yet */
	assert_int_not_equal(qp_post_recv(ends[1].qp, &wr), 0);
	assert_int_equal(collect(), 1);
	assert_int_equal(qp_post_recv(ends[1].qp, &wr), 0);
	assert_int_not_equal(qp_post_recv(ends[1].qp, &wr), 0);
	atomic_store(&rq_takers(rq)->taken, 1);
}

/* --- what an initiator leaves may be anything --- */

static void record_that_names_another_request_ends_the_connection(void **state)
{
	struct cqe cqe;

	(void)state;
	post_receive(1);
	post_receive(2);
	post(WR_SEND, 1);
	ring_of(1)->record[0].taken = 1; /* there is one, but it is not its turn */
	collect();
	assert_int_equal(cq_poll(&ends[1].recv_cq, &ends[1].arena, 1, &cqe), 1);
	assert_int_equal(cqe.wr_id, 1);
	assert_int_equal(cqe.fault, FAULT_PEER_MEMORY);
	assert_int_equal(ends[1].qp->state, QP_ERR);
	assert_int_equal(counter_read(ends[1].qp->counters, COUNTER_local_unsound), 1);
}

static void record_with_more_bytes_than_fit_ends_the_connection(void **state)
{
	(void)state;
	post_receive(1);
	post(WR_SEND, 1);
	ring_of(1)->record[0].byte_count = UINT32_MAX;
	collect();
	assert_int_equal(ends[1].qp->state, QP_ERR);
}

static void wr_id_is_the_one_that_was_posted_whatever_the_record_says(void **state)
{
	(void)state;
	post_receive(1);
	post(WR_SEND, 1);
	ring_of(1)->record[0].wr_id = 0xdead;
	assert_int_equal(collect(), 1);
	assert_int_equal(poll_received().wr_id, 1);
}

static void list_of_channels_that_is_a_circle_ends(void **state)
{
	(void)state;
	post_receive(1);
	post(WR_SEND, 1);
	channel_of(1)->ready.next_offset = ends[1].channel_offset;
	assert_int_equal(collect(), 1);
	assert_int_equal(poll_received().wr_id, 1);
	doorbell_of(1)->first_offset = 0x123456789abcdef;
	assert_int_equal(collect(), 0);
	assert_int_equal(atomic_load(ends[1].lane.unsound), 2);
}

static void first_request_tells_that_the_connection_is_established(void **state)
{
	uint32_t events = 0;

	(void)state;
	post(WR_RDMA_WRITE, 1);
	assert_int_equal(kicks, 1);
	collect();
	assert_ptr_equal(signal_take(&ends[1].lane.signals, &events), &ends[1].qp->signal);
	assert_int_equal(events, SIGNAL_QP_ESTABLISHED);
	post(WR_RDMA_WRITE, 1);
	assert_int_equal(kicks, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(write_is_there_when_posting_returns),
		TEST(invalidated_key_is_gone_before_its_message_completes),
		TEST(messages_to_memory_that_is_moved_keep_their_order),
		TEST(request_after_an_invalidation_that_is_not_collected_goes_by_packets),
		TEST(key_that_may_not_be_invalidated_goes_by_packets),
		TEST(flush_of_what_it_may_flush_is_done_at_once),
		TEST(flush_beyond_the_region_goes_by_packets),
		TEST(flush_to_persistence_goes_by_packets),
		TEST(atomic_write_is_one_store_where_memory_is_mapped),
		TEST(atomic_write_elsewhere_goes_by_packets),
		TEST(message_completes_at_the_target_when_it_collects),
		TEST(refused_request_goes_by_packets_and_changes_nothing),
		TEST(message_longer_than_its_receive_goes_by_packets_and_takes_none),
		TEST(message_without_a_receive_waits_a_while_then_goes_by_packets),
		TEST(message_whose_receive_comes_in_time_needs_no_packet),
		TEST(messages_stop_when_nobody_collects),
		TEST(sleeping_target_is_kicked_when_its_queue_is_armed),
		TEST(waiter_of_an_armed_queue_is_left_alone_or_woken),
		TEST(program_that_watches_its_descriptor_is_woken_there_or_by_its_lane),
		TEST(channel_that_is_watched_needs_no_doorbell),
		TEST(receive_request_is_free_when_its_record_was_collected),
		TEST(record_that_names_another_request_ends_the_connection),
		TEST(record_with_more_bytes_than_fit_ends_the_connection),
		TEST(wr_id_is_the_one_that_was_posted_whatever_the_record_says),
		TEST(list_of_channels_that_is_a_circle_ends),
		TEST(first_request_tells_that_the_connection_is_established),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
