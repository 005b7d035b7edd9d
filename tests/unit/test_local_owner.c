/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages to shared receive queues of another process, and how owners and borrowers end. */
#include "support/owner_ends.h"

/* --- messages --- */

static void message_is_placed_and_completes_at_the_owner(void **state)
{
	struct cqe cqe;

	(void)state;
	post(7, 1000);
	script_send_data(&script, OPCODE_RC_SEND_FIRST, 0, SCRIPT_MTU_BYTES);
	script_send_data(&script, OPCODE_RC_SEND_LAST_IMM, 1, 10);
	script_expect_ack(&script, 1, 1);
	for (uint32_t i = 0; i < SCRIPT_MTU_BYTES; i++)
		assert_int_equal(memory[i], (uint8_t)(SCRIPT_RQ_PSN + i));
	assert_true(marks_seen & CHANNEL_USES_KEY);
	assert_int_equal((uint32_t)marks_seen, key);
	assert_int_equal(marks(), 0);
	script_expect_no_completion(&script);
	assert_true(cq_is_empty(&cq)); /* the owner's own threads do that */
	assert_int_equal(collect(), 1);
	cqe = completion();
	assert_int_equal(cqe.wr_id, 7);
	assert_int_equal(cqe.status, WC_SUCCESS);
	assert_int_equal(cqe.opcode, WC_RECV);
	assert_int_equal(cqe.byte_count, SCRIPT_MTU_BYTES + 10);
	assert_int_equal(cqe.flags, WC_WITH_IMM);
	assert_int_equal(cqe.qpn, script.qp->qpn);
	assert_int_equal(cqe.made_ns, NOW_NS);
	assert_int_equal(kicks, 0); /* nobody waits there */
}

static void owner_that_waits_is_woken(void **state)
{
	uint32_t events = 0;

	(void)state;
	post(1, 100);
	cq_arm(&cq, CQ_ARM_NEXT);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 10);
	assert_int_equal(kicks, 1);
	assert_int_equal(collect(), 1);
	assert_ptr_equal(signal_take(&lane.signals, &events), &cq.signal);
	assert_int_equal(events, SIGNAL_COMPLETION);
}

/* A record of another borrower, for the request of this number of the owner's queue. */
static void publish(struct request_channel *channel, uint64_t taken)
{
	const struct channel_record record = {
		.wr_id = taken, .opcode = WC_RECV, .number = OWNER_SRQN, .qpn = 1};

	assert_true(borrower_channel_publish(&peer, borrowers, channel, doorbell, &record));
}

/* The request of number i has wr_id 100 + i. */
static void post_many(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		post(100 + i, 100);
}

static void borrowers_take_turns_and_each_keeps_its_order(void **state)
{
	struct request_channel *one = borrower_channel_take(borrowers, &peer, 1);
	struct request_channel *other = borrower_channel_take(borrowers, &peer, 2);
	uint64_t seen[5], last[2] = {0, 0};

	(void)state;
	post_many(5);
	publish(one, 0);
	publish(other, 1);
	publish(other, 3);
	publish(one, 2);
	publish(other, 4);
	assert_int_equal(collect(), 5);
	assert_false(doorbell_is_rung(doorbell));
	for (uint32_t i = 0; i < 5; i++) {
		uint32_t of_one;

		seen[i] = completion().wr_id - 100;
		of_one = seen[i] == 0 || seen[i] == 2;
		assert_true(last[of_one] <= seen[i]);
		last[of_one] = seen[i];
	}
	assert_true((seen[0] == 0 || seen[0] == 2) != (seen[1] == 0 || seen[1] == 2));
	assert_true((seen[2] == 0 || seen[2] == 2) != (seen[3] == 0 || seen[3] == 2));
}

/* --- what a borrower may write, and cannot be true --- */

static void expect_unsound(uint64_t count)
{
	struct cqe cqe;

	assert_int_equal(cq_poll(&cq, &arena, 1, &cqe), 0);
	assert_int_equal(atomic_load(lane.unsound), count);
}

static void record_of_a_request_that_was_not_posted_completes_nothing(void **state)
{
	struct request_channel *channel = borrower_channel_take(borrowers, &peer, 1);

	(void)state;
	post_many(2);
	publish(channel, 2);
	publish(channel, UINT64_MAX);
	assert_int_equal(collect(), 2);
	expect_unsound(2);
	/* One that was posted, twice. */
	publish(channel, 1);
	publish(channel, 1);
	assert_int_equal(collect(), 2);
	assert_int_equal(completion().wr_id, 101);
	expect_unsound(3);
}

static void record_of_more_bytes_than_fit_completes_nothing(void **state)
{
	struct request_channel *channel = borrower_channel_take(borrowers, &peer, 1);

	(void)state;
	post_many(1);
	publish(channel, 0);
	borrower_ring(borrowers, channel)->record[0].byte_count = 101;
	assert_int_equal(collect(), 1);
	expect_unsound(1);
}

static void record_that_is_not_the_next_is_not_collected(void **state)
{
	struct request_channel *channel = borrower_channel_take(borrowers, &peer, 1);

	(void)state;
	post_many(2);
	publish(channel, 0);
	assert_int_equal(collect(), 1);
	assert_int_equal(completion().wr_id, 100);
	atomic_fetch_add(&channel->count, CHANNEL_RECORD_COUNT);
	atomic_store(&channel->collected, CHANNEL_RECORD_COUNT);
	publish(channel, 1);
	assert_int_equal(collect(), 0);
	expect_unsound(0);
	atomic_store(&channel->count, 1);
	publish(channel, 1);
	assert_int_equal(collect(), 1);
	assert_int_equal(completion().wr_id, 101);
}

/* The list leads elsewhere, or round in a circle: all channels are looked at. */
static void list_of_channels_that_cannot_be_loses_no_channel(void **state)
{
	struct request_channel *channel = borrower_channel_take(borrowers, &peer, 1);
	uint64_t offset = peer_offset(&peer, channel);
	const uint64_t wrong[] = {offset, offset + 1, offset - sizeof(*channel),
		offset + BORROWER_CHANNEL_COUNT * sizeof(*channel), UINT64_MAX};
	struct request_channel *beyond = channel + BORROWER_CHANNEL_COUNT;

	(void)state;
	post_many(ARRAY_COUNT(wrong));
	for (uint32_t i = 0; i < ARRAY_COUNT(wrong); i++) {
		publish(channel, i);
		if (i == 0)
			channel->ready.next_offset = wrong[i];
		else
			doorbell->first_offset = wrong[i];
		atomic_store(&beyond->ready.is_rung, 1);
		assert_int_equal(collect(), 1);
		assert_int_equal(completion().wr_id, 100 + i);
		expect_unsound(1 + i);
	}
}

static void owner_hears_of_its_limit(void **state)
{
	uint32_t events = 0;

	(void)state;
	post(1, 100);
	post(2, 100);
	assert_false(rq_set_limit(srq.rq, 2));
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 10);
	assert_int_equal(kicks, 1);
	post(3, 100);
	post(4, 100); /* it was passed all the same */
	collect();
	assert_ptr_equal(signal_take(&lane.signals, &events), &srq.signal);
	assert_int_equal(events, SIGNAL_SRQ_LIMIT);
}

static void request_that_the_owner_has_not_is_not_ready(void **state)
{
	(void)state;
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 10);
	script_expect_rnr(&script, 0);
	post(1, 100);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 10);
	script_expect_ack(&script, 0, 1);
	assert_int_equal(collect(), 1);
}

static void message_that_is_too_long_fails_both_ends(void **state)
{
	struct cqe cqe;

	(void)state;
	post(1, 5);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 10);
	script_expect_refusal(&script, 0, AETH_NAK_INVALID_REQUEST);
	assert_int_equal(collect(), 1);
	cqe = completion();
	assert_int_equal(cqe.status, WC_LOC_LEN_ERR);
	assert_int_equal(memory[0], 0);
}

static void message_that_is_cut_off_is_flushed_at_the_owner(void **state)
{
	(void)state;
	post(1, 1000);
	script_send_data(&script, OPCODE_RC_SEND_FIRST, 0, SCRIPT_MTU_BYTES);
	qp_set_state(script.qp, QP_ERR, script.now_ns);
	assert_int_equal(collect(), 1);
	assert_int_equal(completion().status, WC_WR_FLUSH_ERR);
}

static void owner_that_does_not_collect_is_not_overrun(void **state)
{
	uint32_t sent = 0;

	(void)state;
	for (uint32_t i = 0; i < DEPTH; i++)
		post(i, 100);
	while (sent < DEPTH && !kicks) {
		script_send_data(&script, OPCODE_RC_SEND_ONLY, sent++, 10);
		script_drain(&script);
	}
	sent--; /* the last one was not ready */
	assert_int_equal(sent, CHANNEL_RECORD_COUNT - BORROWER_ROOM_MIN);
	assert_int_equal(rq_count(srq.rq), DEPTH - sent);
	assert_int_equal(collect(), sent);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, sent, 10);
	assert_int_equal(collect(), 1);
}

/* --- ends --- */

static void queue_that_went_is_not_taken_from(void **state)
{
	(void)state;
	post(1, 100);
	script_send_data(&script, OPCODE_RC_SEND_FIRST, 0, SCRIPT_MTU_BYTES / 4);
	withdraw();
	assert_false(borrowed_queue.srq.borrowed->is_there(&borrowed_queue.srq));
	assert_false(borrowed_queue.srq.borrowed->take(
		&borrowed_queue.srq, &script.lane, &(struct recv_wqe){0}));
	script.qp->is_xrcd_shared = false;
	script_drain(&script);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 10);
	script_expect_refusal(&script, 0, AETH_NAK_INVALID_REQUEST);
}

static void record_for_a_queue_that_went_is_thrown_away(void **state)
{
	(void)state;
	post(1, 100);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 10);
	withdraw();
	assert_int_equal(collect(), 1);
	assert_true(cq_is_empty(&cq));
}

static void queue_is_not_given_back_while_a_borrower_stands_in_it(void **state)
{
	struct request_channel *channel = borrower_channel_take(borrowers, &peer, BORROWER);

	(void)state;
	borrower_channel_enter(channel, CHANNEL_PUBLISHES);
	leaves_in = 1000000;
	assert_false(borrower_wait(&surroundings));
	leaves_in = 5;
	assert_true(borrower_wait(&surroundings));
}

static void owner_that_ended_is_left_alone(void **state)
{
	(void)state;
	post(1, 100);
	atomic_store(&owner.is_gone, true);
	assert_int_equal(
		borrowed_check(&domain, key, 0, MR_LOCAL_READ, (uintptr_t)memory, 1), MR_FAULT_KEY);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 10);
	script_expect_refusal(&script, 0, AETH_NAK_INVALID_REQUEST);
	assert_int_equal(rq_count(srq.rq), 1);
}

static void channel_of_a_dead_borrower_is_another_s(void **state)
{
	struct request_channel *first = borrower_channel_take(borrowers, &peer, 1);
	struct request_channel *second;

	(void)state;
	borrower_channel_enter(first, CHANNEL_PUBLISHES);
	second = borrower_channel_take(borrowers, &peer, 2);
	assert_ptr_not_equal(first, second);
	is_other_alive = false;
	assert_ptr_equal(borrower_channel_take(borrowers, &peer, BORROWER), first);
	assert_int_equal(atomic_load(&first->in_use), CHANNEL_IS_FREE);
	borrower_channel_release(first);
	assert_ptr_equal(borrower_channel_take(borrowers, &peer, BORROWER), first);
}

static void channels_are_no_more_than_there_are(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < BORROWER_CHANNEL_COUNT; i++)
		assert_non_null(borrower_channel_take(borrowers, &peer, 1));
	assert_null(borrower_channel_take(borrowers, &peer, 2));
	post(1, 100);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 10);
	script_expect_rnr(&script, 0);
	assert_int_equal(rq_count(srq.rq), 1);
}

/* --- srq_lookup for a queue that is not known --- */

static void queue_that_is_not_known_is_asked_for(void **state)
{
	uint32_t number;

	(void)state;
	post(1, 100);
	atomic_store(&script.srqs->first_borrowed, NULL);
	script.qp->is_xrcd_shared = true;
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 10);
	script_expect_rnr(&script, 0);
	assert_int_equal(script_events(&script), SIGNAL_QP_SRQ_LOOKUP);
	assert_ptr_equal(engine_qp_in_lookup(&script.lane, &number), script.qp);
	assert_int_equal(number, OWNER_SRQN);
	atomic_store(&script.srqs->first_borrowed, &borrowed_queue.srq);
	rc_xrc_lookup_done(rc_from_qp(script.qp), number);
	assert_null(engine_qp_in_lookup(&script.lane, &number));
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 10);
	script_expect_ack(&script, 0, 1);
}

static void queue_that_was_not_found_is_an_invalid_request(void **state)
{
	(void)state;
	atomic_store(&script.srqs->first_borrowed, NULL);
	script.qp->is_xrcd_shared = true;
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 10);
	script_expect_rnr(&script, 0);
	script_events(&script);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 10); /* too soon */
	script_expect_rnr(&script, 0);
	script_events(&script);
	rc_xrc_lookup_done(rc_from_qp(script.qp), OWNER_SRQN);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 10);
	script_expect_refusal(&script, 0, AETH_NAK_INVALID_REQUEST);
}

static void public_state_out_of_bounds_is_no_queue(void **state)
{
	struct borrowed_srq other;

	(void)state;
	assert_false(borrowed_srq_init(&other, &owner, ARENA_BYTES - 64, PD_HERE, SCRIPT_XRCD));
	assert_false(borrowed_srq_init(&other, &owner, 3, PD_HERE, SCRIPT_XRCD));
	srq.public->rq_offset = ARENA_BYTES;
	assert_false(borrowed_srq_init(&other, &owner, srq.public_offset, PD_HERE, SCRIPT_XRCD));
	srq.public->rq_offset = srq.rq_offset;
	srq.public->lane = OWNER_LANES_MAX;
	assert_false(borrowed_srq_init(&other, &owner, srq.public_offset, PD_HERE, SCRIPT_XRCD));
	srq.public->lane = OWNER_LANE;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(message_is_placed_and_completes_at_the_owner),
		TEST(owner_that_waits_is_woken),
		TEST(borrowers_take_turns_and_each_keeps_its_order),
		TEST(record_of_a_request_that_was_not_posted_completes_nothing),
		TEST(record_of_more_bytes_than_fit_completes_nothing),
		TEST(record_that_is_not_the_next_is_not_collected),
		TEST(list_of_channels_that_cannot_be_loses_no_channel),
		TEST(owner_hears_of_its_limit),
		TEST(request_that_the_owner_has_not_is_not_ready),
		TEST(message_that_is_too_long_fails_both_ends),
		TEST(message_that_is_cut_off_is_flushed_at_the_owner),
		TEST(owner_that_does_not_collect_is_not_overrun),
		TEST(queue_that_went_is_not_taken_from),
		TEST(record_for_a_queue_that_went_is_thrown_away),
		TEST(queue_is_not_given_back_while_a_borrower_stands_in_it),
		TEST(owner_that_ended_is_left_alone),
		TEST(channel_of_a_dead_borrower_is_another_s),
		TEST(channels_are_no_more_than_there_are),
		TEST(queue_that_is_not_known_is_asked_for),
		TEST(queue_that_was_not_found_is_an_invalid_request),
		TEST(public_state_out_of_bounds_is_no_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
