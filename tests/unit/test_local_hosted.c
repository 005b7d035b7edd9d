/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections within one host to an XRC target whose requests name a shared receive queue of a third process. The target is a guest of
 * that process, as is the initiator.
 */
#include "support/hosted_ends.h"

/* --- requests --- */

static void messages_need_no_packets(void **state)
{
	(void)state;
	get_acquainted();
	host_post(7);
	host_post(8);
	send_hosted(WR_SEND_WITH_IMM, 100);
	send_hosted(WR_RDMA_WRITE_WITH_IMM, 50);
	assert_false(has_packets(0));
	assert_int_equal(poll_sent().status, WC_SUCCESS);
	assert_int_equal(poll_sent().status, WC_SUCCESS);
	assert_memory_equal(memory + 4096, ends[0].memory, 50);
	assert_memory_equal(memory, ends[0].memory, 50);
	assert_int_equal(marks_seen, INBOX_USES_KEY | key);
	assert_int_equal(marks(), 0);
	assert_int_equal(atomic_load(&inbox_of(1)->in_use), INBOX_IS_FREE);
	assert_int_equal(host_kicks, 0); /* nobody waits there */
	assert_int_equal(host_collect(), 2);
	struct cqe cqe = host_completion();
	assert_int_equal(cqe.wr_id, 7);
	assert_int_equal(cqe.status, WC_SUCCESS);
	assert_int_equal(cqe.opcode, WC_RECV);
	assert_int_equal(cqe.byte_count, 100);
	assert_int_equal(cqe.imm, 0xabcd);
	assert_int_equal(cqe.flags, WC_WITH_IMM);
	assert_int_equal(cqe.qpn, ends[1].qp->qpn);
	cqe = host_completion();
	assert_int_equal(cqe.wr_id, 8);
	assert_int_equal(cqe.opcode, WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(cqe.byte_count, 50);
	assert_int_equal(counted(0, COUNTER_local_requests), 2);
	assert_int_equal(inbox_of(1)->sends, 1);
	assert_int_equal(inbox_of(1)->bytes, 150);
}

static void memory_is_the_hosts(void **state)
{
	uint64_t word = 7, original;

	(void)state;
	initiator.peer.ops = &host_mapped_ops;
	get_acquainted();
	send_hosted(WR_RDMA_WRITE, 3000);
	assert_memory_equal(memory, ends[0].memory, 3000);
	memset(memory, 0x77, 3000);
	send_hosted(WR_RDMA_READ, 3000);
	assert_memory_equal(memory, ends[0].memory, 3000);
	memcpy(memory, &word, sizeof(word));
	send_hosted(WR_ATOMIC_FETCH_AND_ADD, sizeof(word));
	memcpy(&original, ends[0].memory, sizeof(original));
	assert_int_equal(original, 7);
	memcpy(&word, memory, sizeof(word));
	assert_int_equal(word, 12);
	assert_false(has_packets(0));
	assert_int_equal(counted(0, COUNTER_local_requests), 3);
	assert_int_equal(inbox_of(1)->atomics, 1);
}

static void key_of_the_target_is_none_of_the_hosts(void **state)
{
	(void)state;
	get_acquainted();
	key ^= 1;
	send_hosted(WR_RDMA_WRITE, 10);
	key ^= 1;
	assert_true(has_packets(0));
	exchange();
	assert_int_equal(poll_sent().status, WC_REM_ACCESS_ERR);
}

static void queues_of_target_and_host_take_turns(void **state)
{
	(void)state;
	get_acquainted();
	for (uint32_t i = 0; i < 3; i++) {
		host_post(i);
		post_receive(10 + i);
		send_hosted(WR_SEND, 10);
		post(WR_SEND, 20);
		assert_false(has_packets(0));
		assert_int_equal(collect(), 1);
		assert_int_equal(host_collect(), 1);
		assert_int_equal(poll_received().wr_id, 10 + i);
		assert_int_equal(host_completion().wr_id, i);
	}
	send_hosted(WR_RDMA_WRITE, 10);
	post(WR_RDMA_WRITE, 10);
	assert_memory_equal(memory, ends[0].memory, 10);
	assert_memory_equal(ends[1].memory, ends[0].memory, 10);
}

static void each_queue_is_asked_for(void **state)
{
	(void)state;
	get_acquainted();
	target_knows(1);
	host_post(1);
	host_post_to(1, 2, 100);
	ends[1].qp->is_xrcd_shared = false; /* it refuses what it does not know */
	send_to(OTHER_SRQN, WR_RDMA_WRITE, 0);
	assert_int_equal(asked, 2);
	answer(&hosted[1]);
	carry(0);
	assert_int_equal(ends[1].qp->state, QP_ERR);
	assert_int_equal(counted(0, COUNTER_local_declined), 2);
}

static void queue_that_cannot_be_reached_is_not_asked_for_again(void **state)
{
	(void)state;
	send_hosted(WR_RDMA_WRITE, 0);
	hosted_answer(ends[0].local_lane.asking, &hosted[0]);
	exchange();
	assert_int_equal(poll_sent().status, WC_SUCCESS);
	send_hosted(WR_RDMA_WRITE, 0);
	assert_true(has_packets(0));
	exchange();
	assert_int_equal(asked, 1);
}

static void queue_of_another_domain_is_not_asked_for(void **state)
{
	(void)state;
	atomic_store(&told->xrcd, XRCD + 1);
	send_hosted(WR_RDMA_WRITE, 0);
	exchange();
	assert_int_equal(asked, 0);
}

/* --- what waits, and what wakes --- */

static void message_without_a_request_waits_for_one(void **state)
{
	(void)state;
	get_acquainted();
	send_hosted(WR_SEND, 10);
	assert_false(has_packets(0));
	host_post(1);
	engine_expire(&ends[0].lane, NOW_NS + MS);
	carry(0);
	assert_int_equal(poll_sent().status, WC_SUCCESS);
	assert_int_equal(host_collect(), 1);
	assert_int_equal(host_completion().wr_id, 1);
}

static void host_that_waits_is_woken(void **state)
{
	(void)state;
	get_acquainted();
	host_post(1);
	cq_arm(&cq, CQ_ARM_NEXT);
	send_hosted(WR_SEND, 10);
	assert_int_equal(host_kicks, 1);
}

static void host_hears_of_its_limit(void **state)
{
	uint32_t news = 0;

	(void)state;
	get_acquainted();
	host_post(1);
	host_post(2);
	assert_false(rq_set_limit(srqs[0].rq, 2));
	send_hosted(WR_SEND, 10);
	assert_int_equal(host_kicks, 1);
	host_collect();
	assert_ptr_equal(signal_take(&lane.signals, &news), &srqs[0].signal);
	assert_int_equal(news, SIGNAL_SRQ_LIMIT);
}

static void host_that_does_not_collect_is_not_overrun(void **state)
{
	uint32_t sent = 0;

	(void)state;
	get_acquainted();
	for (uint32_t i = 0; i < DEPTH; i++)
		host_post(i);
	while (!host_kicks && sent < DEPTH) {
		send_hosted(WR_SEND, 10);
		sent += !host_kicks;
	}
	assert_int_equal(sent, GUEST_RECORD_COUNT - GUEST_ROOM_MIN);
	assert_false(has_packets(0));
	assert_int_equal(host_collect(), sent);
	engine_expire(&ends[0].lane, NOW_NS + MS);
	carry(0);
	assert_int_equal(host_collect(), 1);
}

static void first_request_is_told_to_the_target(void **state)
{
	(void)state;
	get_acquainted();
	atomic_store(&inbox_of(1)->wants_first, 1);
	host_post(1);
	send_hosted(WR_SEND, 10);
	assert_int_equal(kicks, 1);
	assert_int_not_equal(atomic_load(&bell_of(1)->first_offset), 0);
	collect();
	assert_int_equal(atomic_load(&inbox_of(1)->wants_first), 0);
}

/* --- what goes wrong --- */

static bool host_write_fails(struct peer *peer, uint64_t to, const uint8_t *from, size_t bytes)
{
	(void)peer;
	(void)to;
	(void)from;
	(void)bytes;
	return false;
}

static const struct peer_ops host_unreachable = {
	host_write_fails, host_read, NULL, host_kick, NULL};

static void request_that_could_not_be_filled_receives_the_message_by_packets(void **state)
{
	(void)state;
	get_acquainted();
	host_post(7);
	host_post(8);
	initiator.peer.ops = &host_unreachable;
	send_hosted(WR_SEND, 100);
	assert_true(has_packets(0));
	assert_int_equal(rq_count(srqs[0].rq), 1);
	exchange();
	assert_int_equal(poll_sent().status, WC_SUCCESS);
	assert_memory_equal(memory + 4096, ends[0].memory, 100);
	initiator.peer.ops = &host_ops;
	send_hosted(WR_SEND, 10);
	assert_false(has_packets(0));
	assert_int_equal(host_collect(), 2);
	assert_int_equal(host_completion().wr_id, 7);
	assert_int_equal(host_completion().wr_id, 8);
}

static void memory_that_is_not_there_is_an_error_at_both_ends(void **state)
{
	(void)state;
	get_acquainted();
	host_post(7);
	initiator.peer.ops = &host_unreachable;
	target.peer.ops = &host_unreachable;
	send_hosted(WR_SEND, 100);
	exchange();
	assert_int_equal(poll_sent().status, WC_REM_OP_ERR);
	assert_int_equal(ends[1].qp->state, QP_ERR);
	assert_int_equal(host_collect(), 1);
	assert_int_equal(host_completion().wr_id, 7);
}

static jmp_buf death;

static bool host_write_dies(struct peer *peer, uint64_t to, const uint8_t *from, size_t bytes)
{
	(void)peer;
	(void)to;
	(void)from;
	(void)bytes;
	longjmp(death, 1);
}

static void request_that_an_initiator_held_who_died_is_flushed_with_the_queue_pair(void **state)
{
	static const struct peer_ops deadly = {host_write_dies, host_read, NULL, host_kick, NULL};

	(void)state;
	get_acquainted();
	host_post(7);
	host_post(8);
	send_hosted(WR_SEND, 10);
	initiator.peer.ops = &deadly;
	if (!setjmp(death))
		send_hosted(WR_SEND, 10);
	leaves_in = 0;
	qp_set_state(ends[1].qp, QP_ERR, NOW_NS);
	assert_int_equal(host_collect(), 2);
	struct cqe cqe = host_completion();
	assert_int_equal(cqe.wr_id, 7);
	assert_int_equal(cqe.status, WC_SUCCESS);
	cqe = host_completion();
	assert_int_equal(cqe.wr_id, 8);
	assert_int_equal(cqe.status, WC_WR_FLUSH_ERR);
	ends[0].local.is_inside = false;
	guest_leave(hosted[0].seat);
	local_forget_peer(&ends[0].local);
}

static void request_whose_record_was_published_is_held_no_more(void **state)
{
	(void)state;
	get_acquainted();
	host_post(7);
	send_hosted(WR_SEND, 10);
	qp_set_state(ends[1].qp, QP_ERR, NOW_NS);
	assert_int_equal(host_collect(), 1);
	assert_int_equal(host_completion().status, WC_SUCCESS);
}

/* The target's queue pair has failed while bytes were moved. */
static bool host_write_fails_target(
	struct peer *peer, uint64_t to, const uint8_t *from, size_t bytes)
{
	inbox_close(inbox_of(1));
	return host_write(peer, to, from, bytes);
}

static void message_to_a_queue_pair_that_failed_meanwhile_does_not_complete(void **state)
{
	static const struct peer_ops failing = {
		host_write_fails_target, host_read, NULL, host_kick, NULL};

	(void)state;
	get_acquainted();
	host_post(7);
	initiator.peer.ops = &failing;
	send_hosted(WR_SEND, 10);
	assert_true(has_packets(0));
	assert_int_equal(host_collect(), 0);
	qp_set_state(ends[1].qp, QP_ERR, NOW_NS);
	assert_int_equal(host_collect(), 1);
	assert_int_equal(host_completion().status, WC_WR_FLUSH_ERR);
}

/* Who sends has seen that the inbox is open, and stands still from then on. */
static bool host_write_is_late(struct peer *peer, uint64_t to, const uint8_t *from, size_t bytes)
{
	leaves_in = UINT32_MAX;
	qp_set_state(ends[1].qp, QP_ERR, NOW_NS);
	leaves_in = 1;
	atomic_store(&inbox_of(1)->generation, ends[0].local.generation);
	return host_write(peer, to, from, bytes);
}

static void request_that_its_target_has_back_completes_once(void **state)
{
	static const struct peer_ops late = {host_write_is_late, host_read, NULL, host_kick, NULL};

	(void)state;
	get_acquainted();
	host_post(7);
	initiator.peer.ops = &late;
	send_hosted(WR_SEND, 10);
	assert_true(has_packets(0));
	assert_int_equal(host_collect(), 1);
	assert_int_equal(host_completion().status, WC_WR_FLUSH_ERR);
}

static void message_that_fits_no_request_takes_none(void **state)
{
	(void)state;
	get_acquainted();
	host_post_to(0, 7, 5);
	send_hosted(WR_SEND, 10);
	assert_true(has_packets(0));
	assert_int_equal(rq_count(srqs[0].rq), 1);
	exchange();
	assert_int_equal(poll_sent().status, WC_REM_INV_REQ_ERR);
	assert_int_equal(host_collect(), 1);
	assert_int_equal(host_completion().status, WC_LOC_LEN_ERR);
}

/* --- ends --- */

static void queue_that_went_is_an_invalid_request(void **state)
{
	(void)state;
	get_acquainted();
	host_post(7);
	srq_withdraw(srq_table, &srqs[0]);
	ends[1].qp->is_xrcd_shared = false;
	send_hosted(WR_SEND, 10);
	assert_true(has_packets(0));
	assert_int_equal(rq_count(srqs[0].rq), 1);
	exchange();
	assert_int_equal(poll_sent().status, WC_REM_INV_REQ_ERR);
}

static void queue_that_the_target_has_lost_is_left_to_it(void **state)
{
	(void)state;
	get_acquainted();
	host_post(7);
	srq_hosted_remove(told);
	send_hosted(WR_SEND, 10);
	assert_true(has_packets(0));
	assert_int_equal(rq_count(srqs[0].rq), 1);
	assert_int_equal(asked, 1);
	exchange();
}

static void host_that_ended_is_left_alone(void **state)
{
	(void)state;
	get_acquainted();
	host_post(7);
	atomic_store(&initiator.far.is_gone, true);
	send_hosted(WR_SEND, 10);
	assert_true(has_packets(0));
	assert_int_equal(rq_count(srqs[0].rq), 1);
	exchange();
}

static void queue_that_was_taken_back_is_asked_for_again(void **state)
{
	(void)state;
	get_acquainted();
	host_post(7);
	assert_ptr_equal(hosted_take(&ends[0].local, is_any, NULL), &hosted[0]);
	assert_null(hosted_take(&ends[0].local, is_any, NULL));
	get_acquainted();
	send_hosted(WR_SEND, 10);
	assert_false(has_packets(0));
}

static void queue_pair_that_ends_asks_no_more(void **state)
{
	(void)state;
	send_hosted(WR_RDMA_WRITE, 0);
	assert_non_null(ends[0].local_lane.asking);
	assert_true(local_disconnect(&ends[0].local, NOW_NS));
	assert_null(ends[0].local_lane.asking);
}

/* --- what the target tells --- */

static void place_is_used_again(void **state)
{
	struct srq_directory *directory = ends[1].srqs->directory;
	const struct srq_host host = host_of(1);
	struct srq_host seen;

	(void)state;
	srq_hosted_remove(told);
	assert_null(srq_hosted_find(directory, HOST_SRQN, XRCD));
	assert_ptr_equal(srq_hosted_add(directory, OTHER_SRQN, XRCD, &host), told);
	assert_false(srq_hosted_read(told, HOST_SRQN, &seen));
	assert_true(srq_hosted_read(told, OTHER_SRQN, &seen));
	assert_int_equal(seen.serial, host.serial);
	assert_int_equal(seen.offset, host.offset);
	for (uint32_t i = 1; i < SRQ_HOSTED_MAX; i++)
		assert_non_null(srq_hosted_add(directory, OTHER_SRQN + i, XRCD, &host));
	assert_null(srq_hosted_add(directory, 1, XRCD, &host));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOSTED_TEST(messages_need_no_packets),
		HOSTED_TEST(memory_is_the_hosts),
		HOSTED_TEST(key_of_the_target_is_none_of_the_hosts),
		HOSTED_TEST(queues_of_target_and_host_take_turns),
		HOSTED_TEST(each_queue_is_asked_for),
		HOSTED_TEST(queue_that_cannot_be_reached_is_not_asked_for_again),
		HOSTED_TEST(queue_of_another_domain_is_not_asked_for),
		HOSTED_TEST(message_without_a_request_waits_for_one),
		HOSTED_TEST(host_that_waits_is_woken),
		HOSTED_TEST(host_hears_of_its_limit),
		HOSTED_TEST(host_that_does_not_collect_is_not_overrun),
		HOSTED_TEST(first_request_is_told_to_the_target),
		HOSTED_TEST(request_that_could_not_be_filled_receives_the_message_by_packets),
		HOSTED_TEST(memory_that_is_not_there_is_an_error_at_both_ends),
		HOSTED_TEST(request_that_an_initiator_held_who_died_is_flushed_with_the_queue_pair),
		HOSTED_TEST(request_whose_record_was_published_is_held_no_more),
		HOSTED_TEST(message_to_a_queue_pair_that_failed_meanwhile_does_not_complete),
		HOSTED_TEST(request_that_its_target_has_back_completes_once),
		HOSTED_TEST(message_that_fits_no_request_takes_none),
		HOSTED_TEST(queue_that_went_is_an_invalid_request),
		HOSTED_TEST(queue_that_the_target_has_lost_is_left_to_it),
		HOSTED_TEST(host_that_ended_is_left_alone),
		HOSTED_TEST(queue_that_was_taken_back_is_asked_for_again),
		HOSTED_TEST(queue_pair_that_ends_asks_no_more),
		HOSTED_TEST(place_is_used_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
