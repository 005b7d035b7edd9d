/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of endpoints, and the order in which what is left at them completes. */
#include "queue/rq_taker.h"
#include "support/datagram_ends.h"
#include "wire/grh.h"

/* --- life --- */

static void endpoint_is_closed_in_error_and_what_came_before_completes_first(void **state)
{
	(void)state;
	post_receive(1, 100);
	post_receive(2, 100);
	post(10);
	modify(ends[1].qp, QP_ERR, 0, &(struct qp_attr){0});
	assert_int_equal(poll_received().status, WC_SUCCESS);
	assert_int_equal(poll_received().status, WC_WR_FLUSH_ERR);
	post(10);
	assert_true(has_packets());
}

static void endpoint_opens_anew_after_reset(void **state)
{
	struct cqe cqe;

	(void)state;
	post_receive(1, 100);
	post(10);
	modify(ends[1].qp, QP_RESET, 0, &(struct qp_attr){0});
	collect();
	assert_int_equal(cq_poll(&ends[1].recv_cq, &ends[1].arena, 1, &cqe), 0);
	make_ready(ends[1].qp);
	post_receive(2, 100);
	post(10);
	assert_false(has_packets());
	assert_int_equal(collect(), 1);
	assert_int_equal(poll_received().wr_id, 2);
}

static void record_for_an_earlier_queue_pair_is_thrown_away(void **state)
{
	const struct channel_record record = {.opcode = WC_RECV,
		.number = ends[1].qp->qpn,
		.serial = ends[1].local.serial + 1,
		.byte_count = GRH_BYTES};
	struct cqe cqe;

	(void)state;
	borrower_channel_publish(
		&peer, ends[1].borrowers, route.process.channel, ends[1].doorbell, &record);
	collect();
	assert_int_equal(cq_poll(&ends[1].recv_cq, &ends[1].arena, 1, &cqe), 0);
}

static void closing_waits_for_whoever_is_inside(void **state)
{
	(void)state;
	post_receive(1, 100);
	post(10);
	borrower_channel_enter(route.process.channel, CHANNEL_PUBLISHES);
	leaves_in = 3;
	modify(ends[1].qp, QP_ERR, 0, &(struct qp_attr){0});
	assert_int_equal(atomic_load(&route.process.channel->in_use), CHANNEL_IS_FREE);
	assert_false(ends[1].local.is_in_use);
}

static void whoever_stands_still_inside_keeps_the_receive_queue(void **state)
{
	(void)state;
	post_receive(1, 100);
	post(10);
	borrower_channel_enter(route.process.channel, CHANNEL_PUBLISHES);
	leaves_in = UINT32_MAX;
	modify(ends[1].qp, QP_ERR, 0, &(struct qp_attr){0});
	assert_true(ends[1].local.is_in_use);
}

static void reset_takes_away_what_was_only_looked_at(void **state)
{
	struct recv_wqe wqe;
	uint32_t posted_seen = rq_taken(ends[1].qp->rq);
	uint64_t taken;

	(void)state;
	post_receive(1, 100);
	assert_true(rq_peek_borrowed(
		ends[1].qp->rq, peer.base, peer.bytes, &posted_seen, &wqe, &taken));
	modify(ends[1].qp, QP_RESET, 0, &(struct qp_attr){0});
	make_ready(ends[1].qp);
	for (uint64_t i = 0; i < 3; i++)
		post_receive(i, 100);
	while (rq_taken(ends[1].qp->rq) != (uint32_t)taken)
		assert_true(rq_take(ends[1].qp->rq, &wqe));
	assert_false(rq_take_peeked(ends[1].qp->rq, taken));
}

static void process_that_has_ended_is_reached_by_packets(void **state)
{
	(void)state;
	post_receive(1, 100);
	atomic_store(&owner_process.is_gone, true);
	post(10);
	assert_true(has_packets());
}

/* --- work --- */

static bool has_work_within;

static bool look(void *address, uint64_t bytes, bool is_written)
{
	(void)address;
	(void)bytes;
	(void)is_written;
	has_work_within = local_has_work(&ends[1].local_lane);
	return true;
}

/* A poll that finds the lane locked waits for what the lock's holder is about to complete. */
static void work_is_there_until_it_is_done(void **state)
{
	const struct mr_region region = {.pd = PD,
		.access = MR_LOCAL_WRITE | MR_REMOTE_ATOMIC | MR_ON_DEMAND,
		.iova = (uintptr_t)ends[1].memory,
		.bytes = MEMORY_BYTES,
		.address = ends[1].memory};
	struct request_channel *channel;
	struct borrower_word *word;

	(void)state;
	post_receive(1, 100);
	post(10);
	collect();
	assert_int_equal(mr_table_change(&ends[1].mrs, ends[1].key, PD, &region), 0);
	ends[1].mrs.touch = look;
	channel = route.process.channel;
	word = borrower_word_of(ends[1].borrowers, channel);
	word->key = ends[1].key;
	word->pd = PD;
	word->access = MR_REMOTE_ATOMIC;
	word->operation = MR_WORD_FETCH_ADD;
	word->iova = (uintptr_t)ends[1].memory;
	word->value = 1;
	atomic_store(&word->state, BORROWER_WORD_REQUESTED);
	doorbell_ring(ends[1].doorbell, &channel->ready, peer_offset(&peer, channel));
	assert_int_equal(collect(), 1);
	assert_int_equal(word->fault, MR_OK);
	assert_true(has_work_within);
	assert_false(local_has_work(&ends[1].local_lane));
}

/* --- order --- */

/* Another sender: its channel, and the request that it has taken there. */
struct other {
	struct request_channel *channel;
	struct channel_record record;
};

static struct other other;

static void other_takes(void)
{
	struct recv_queue *rq = ends[1].qp->rq;
	uint32_t posted_seen = rq_taken(rq);
	struct recv_wqe wqe;
	uint64_t taken;

	other.channel = owner_channel(&owner_process, 0, 1);
	assert_non_null(other.channel);
	borrower_channel_enter(other.channel, CHANNEL_PUBLISHES);
	assert_true(rq_peek_borrowed(rq, peer.base, peer.bytes, &posted_seen, &wqe, &taken));
	assert_true(rq_take_peeked(rq, taken));
	other.record = (struct channel_record){
		.wr_id = wqe.wr_id,
		.opcode = WC_RECV,
		.number = ends[1].qp->qpn,
		.serial = ends[1].local.serial,
		.byte_count = GRH_BYTES,
		.taken = (uint32_t)taken,
	};
}

static void other_publishes(void)
{
	borrower_channel_publish(
		&peer, ends[1].borrowers, other.channel, ends[1].doorbell, &other.record);
}

/* One for which there is no other way. */
static void packet_comes_with(uint32_t bytes)
{
	atomic_store(&owner_process.is_gone, true);
	post(bytes);
	assert_int_equal(carry(false), 1);
	atomic_store(&owner_process.is_gone, false);
}

static void packet_comes(void)
{
	packet_comes_with(10);
}

static void expect_received(uint64_t wr_id)
{
	assert_int_equal(poll_received().wr_id, wr_id);
}

static void expect_nothing(void)
{
	struct cqe cqe;

	assert_int_equal(cq_poll(&ends[1].recv_cq, &ends[1].arena, 1, &cqe), 0);
}

/* What a sender writes into its record, and what cannot be true. */
static void record_that_cannot_be_completes_nothing(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= 4; i++)
		post_receive(i, 100);
	other_takes();
	other.record.byte_count = 101;
	other_publishes();
	other_takes();
	other.record.byte_count = GRH_BYTES - 1;
	other_publishes();
	other_takes();
	other.record.taken += 2; /* of a request that was not taken, and then not posted */
	other_publishes();
	other.record.taken += 4;
	other_publishes();
	collect();
	expect_nothing();
	assert_int_equal(atomic_load(ends[1].lane.unsound), 4);
}

/* --- queue pairs that fail by what a borrower leaves while others fail --- */

enum { FAILING_COUNT = 500, STACK_BYTES_MAX = 256 << 10 };

static struct {
	struct ud_endpoint_qp local[FAILING_COUNT];
	struct local_owner owner;
	struct local_lane lane;
	uint32_t count; /* those for which a record was left */
	uintptr_t lowest; /* stack address of a wait */
} failing;

/* A record by which the next queue pair fails. */
static void failure_publish(void)
{
	const struct ud_endpoint_qp *local = &failing.local[failing.count++];
	const struct channel_record record = {
		.opcode = WC_RECV,
		.number = local->qp->qpn,
		.serial = local->serial,
		.byte_count = GRH_BYTES,
		.fault = FAULT_LOCAL_KEY,
	};

	assert_true(borrower_channel_publish(
		&peer, ends[1].borrowers, other.channel, ends[1].doorbell, &record));
}

/* A endpoint is being closed: the borrower leaves one more record meanwhile. */
static bool failing_wait(uint32_t who, uint32_t round)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	(void)who;
	(void)round;
	if (here < failing.lowest)
		failing.lowest = here;
	if (failing.count < FAILING_COUNT)
		failure_publish();
	return false;
}

static void failing_add(struct ud_endpoint_qp *local)
{
	const struct qp_init init = {
		.type = QP_TYPE_UD,
		.mtu_bytes = 4096,
		.pd = PD,
		.send_cq = &ends[1].send_cq,
		.recv_cq = &ends[1].recv_cq,
		.caps = {1, 1, 1, 1, 0},
	};
	struct ud_endpoint_place place = {.lane = &failing.lane, .table = ends[1].table};
	struct sge sge = {(uintptr_t)ends[1].memory, 100, ends[1].key};
	struct recv_wr wr = {1, &sge, 1};
	struct qp *qp;

	assert_int_equal(
		engine_qp_create(&ends[1].lane, &init, 10 + (uint32_t)(local - failing.local), &qp),
		0);
	place.endpoint = object(&ends[1].arena, sizeof(*place.endpoint), &place.offset);
	ud_endpoint_add(local, qp, &place, &ends[1].datagrams);
	make_ready(qp);
	assert_int_equal(qp_post_recv(qp, &wr), 0);
}

static void queue_pairs_that_fail_by_one_another_do_not_exhaust_the_stack(void **state)
{
	(void)state;
	memset(&failing, 0, sizeof(failing));
	failing.owner = (struct local_owner){.wait = failing_wait, .borrowers = ends[1].borrowers};
	failing.lane = (struct local_lane){.doorbell = ends[1].doorbell, .owner = &failing.owner};
	failing.lowest = UINTPTR_MAX;
	for (uint32_t i = 0; i < FAILING_COUNT; i++)
		failing_add(&failing.local[i]);
	other.channel = owner_channel(&owner_process, 0, 1);
	assert_non_null(other.channel);
	borrower_channel_enter(other.channel, CHANNEL_PUBLISHES);
	failure_publish();
	while (collect())
		;
	for (uint32_t i = 0; i < FAILING_COUNT; i++) {
		assert_int_equal(failing.local[i].qp->state, QP_ERR);
		assert_int_equal(poll_received().status, WC_LOC_PROT_ERR);
	}
	for (uint32_t i = 0; i < FAILING_COUNT; i++) {
		struct qp *qp = failing.local[i].qp;

		assert_true(ud_endpoint_remove(&failing.local[i], now_ns));
		engine_qp_destroy(qp);
	}
	assert_in_range((uintptr_t)__builtin_frame_address(0) - failing.lowest, 0, STACK_BYTES_MAX);
}

static void requests_of_two_senders_complete_in_the_order_in_which_they_were_posted(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= 4; i++)
		post_receive(i, 100);
	other_takes();
	post(10);
	post(10);
	other_publishes();
	channel_leave(other.channel);
	post(10);
	assert_int_equal(collect(), 4);
	for (uint64_t i = 1; i <= 4; i++)
		expect_received(i);
}

static void request_that_was_taken_before_is_waited_for(void **state)
{
	(void)state;
	post_receive(1, 100);
	post_receive(2, 100);
	other_takes();
	post(10);
	leaves_in = 3;
	before_leaving = other_publishes;
	assert_int_equal(collect(), 2);
	expect_received(1);
	expect_received(2);
}

static void request_that_was_taken_by_a_dead_process_is_given_up(void **state)
{
	(void)state;
	post_receive(1, 100);
	post_receive(2, 100);
	post_receive(3, 100);
	other_takes();
	post(10);
	leaves_in = 0;
	assert_int_equal(collect(), 1);
	expect_received(2);
	post(10);
	assert_int_equal(collect(), 1);
	expect_received(3);
}

static void request_that_was_taken_by_a_stopped_process_comes_late(void **state)
{
	(void)state;
	post_receive(1, 100);
	post_receive(2, 100);
	other_takes();
	post(10);
	leaves_in = UINT32_MAX;
	assert_int_equal(collect(), 1);
	expect_received(2);
	other_publishes();
	channel_leave(other.channel);
	assert_int_equal(collect(), 1);
	expect_received(1);
}

static void packet_completes_after_what_came_before_without(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= 3; i++)
		post_receive(i, 100);
	other_takes();
	post(10);
	leaves_in = 3;
	before_leaving = other_publishes;
	packet_comes();
	for (uint64_t i = 1; i <= 3; i++)
		expect_received(i);
	post_receive(4, 100);
	post_receive(5, 100);
	post(10);
	packet_comes();
	expect_received(4);
	expect_received(5);
	expect_nothing();
}

static void packet_does_not_wait_for_ever_for_its_turn(void **state)
{
	(void)state;
	post_receive(1, 100);
	post_receive(2, 100);
	other_takes();
	leaves_in = UINT32_MAX;
	packet_comes();
	expect_received(2);
}

static void packet_that_is_too_long_leaves_the_receive_request_where_it_is(void **state)
{
	(void)state;
	post_receive(1, 60);
	packet_comes_with(30);
	assert_int_equal(dropped(COUNTER_resp_local_length_error), 1);
	post(10);
	assert_false(has_packets());
	assert_int_equal(collect(), 1);
	expect_received(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(endpoint_is_closed_in_error_and_what_came_before_completes_first),
		TEST(endpoint_opens_anew_after_reset),
		TEST(record_for_an_earlier_queue_pair_is_thrown_away),
		TEST(closing_waits_for_whoever_is_inside),
		TEST(record_that_cannot_be_completes_nothing),
		TEST(queue_pairs_that_fail_by_one_another_do_not_exhaust_the_stack),
		TEST(whoever_stands_still_inside_keeps_the_receive_queue),
		TEST(reset_takes_away_what_was_only_looked_at),
		TEST(process_that_has_ended_is_reached_by_packets),
		TEST(work_is_there_until_it_is_done),
		TEST(requests_of_two_senders_complete_in_the_order_in_which_they_were_posted),
		TEST(request_that_was_taken_before_is_waited_for),
		TEST(request_that_was_taken_by_a_dead_process_is_given_up),
		TEST(request_that_was_taken_by_a_stopped_process_comes_late),
		TEST(packet_completes_after_what_came_before_without),
		TEST(packet_does_not_wait_for_ever_for_its_turn),
		TEST(packet_that_is_too_long_leaves_the_receive_request_where_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
