/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections within one host to an XRC target whose requests name a shared receive queue of a third process. The target is a guest of
 * that process, as is the initiator.
 */
#include "local/hosted.h"
#include "support/local_ends.h"

enum {
	HOST_SRQN = 0x09aaaa,
	OTHER_SRQN = 0x09aaab,
	HOST_PD = 77,
	PD_HERE = 5, /* what it is called at the target's */
	HOST_LANE = 1,
	HOST_BYTES = 8192,
	HOST_ARENA_BYTES = 16 << 20,
};

/* A process and its queues. */
static struct arena arena;
static void *arena_memory;
static struct mr_table mrs;
static struct mr_public mrs_public;
static struct lane lane;
static struct cq cq;
static struct srq srqs[2]; /* HOST_SRQN, OTHER_SRQN */
static struct srq_table *srq_table;
static struct guest_table *guests;
static struct guest_bell *bell;
static uint8_t memory[HOST_BYTES];
static uint32_t key;
static uint32_t host_kicks;
static uint64_t marks_seen; /* while bytes were moved */

/* How a guest sees it. */
struct guest {
	struct peer peer;
	struct far_host far;
	struct far_owner owner;
};

static struct guest target, initiator;
static struct far_srq target_srq; /* HOST_SRQN */
static struct far_domain target_domain;
static struct srq_hosted *told;
static struct hosted_srq hosted[2];

static uint64_t marks(void)
{
	uint64_t all = 0;

	for (uint32_t i = 0; i < guests->used_count; i++)
		all |= atomic_load(&guests->seat[i].in_use);
	return all;
}

static bool host_write(struct peer *peer, uint64_t to, const uint8_t *from, size_t bytes)
{
	marks_seen = marks();
	return far_write(peer, to, from, bytes);
}

static bool host_read(struct peer *peer, uint8_t *to, uint64_t from, size_t bytes)
{
	marks_seen = marks();
	return far_read(peer, to, from, bytes);
}

static void host_kick(struct peer *peer, uint32_t index)
{
	(void)peer;
	assert_int_equal(index, HOST_LANE);
	host_kicks++;
}

static const struct peer_ops host_ops = {host_write, host_read, NULL, host_kick, NULL};
static const struct peer_ops host_mapped_ops = {host_write, host_read, map_all, host_kick, NULL};

static bool is_alive(void *context, uint32_t who)
{
	(void)context;
	(void)who;
	return true;
}

static void host_pause(uint32_t round)
{
	(void)round;
}

static enum mr_fault check(
	uint32_t of_key, struct mr_user user, uint32_t access, uint64_t iova, uint64_t bytes)
{
	return far_check(&target_domain, of_key, user.qpn, access, iova, bytes);
}

static enum mr_fault put(uint32_t of_key, struct mr_user user, uint32_t access, uint64_t iova,
	size_t bytes, const uint8_t *from)
{
	return far_put(&target_domain, of_key, user.qpn, access, iova, bytes, from);
}

static enum mr_fault get(uint32_t of_key, struct mr_user user, uint32_t access, uint64_t iova,
	size_t bytes, uint8_t *to)
{
	return far_get(&target_domain, of_key, user.qpn, access, iova, bytes, to);
}

static enum mr_fault apply(uint32_t of_key, struct mr_user user, uint32_t access, uint64_t iova,
	const struct mr_word *word, uint64_t *ret_before)
{
	return far_apply(&target_domain, of_key, user.qpn, access, iova, word, ret_before);
}

static const struct mr_abroad abroad = {check, put, get, apply};

/* --- making them --- */

static void host_make(void)
{
	struct srq_init init = {
		.pd = HOST_PD,
		.xrcd = 1,
		.cq = &cq,
		.depth = DEPTH,
		.sge_count_max = 2,
		.file = {1, 2},
		.lane = HOST_LANE,
	};
	struct mr_region region = {
		HOST_PD, MR_LOCAL_WRITE | MR_REMOTE_ANY, (uintptr_t)memory, HOST_BYTES, memory};

	arena_memory = calloc(1, HOST_ARENA_BYTES + 64);
	assert_non_null(arena_memory);
	arena_init(&arena, (void *)(uintptr_t)align_up_u64((uintptr_t)arena_memory, 64),
		HOST_ARENA_BYTES);
	assert_int_equal(mr_table_init(&mrs, &arena, 16, 5, 6), 0);
	mr_table_publish(&mrs, &arena, &mrs_public);
	assert_int_equal(engine_lane_init(&lane, &arena, &mrs, 9, HOST_LANE), 0);
	assert_int_equal(cq_init(&cq, &arena, 512), 0);
	srq_table = calloc(1, sizeof(*srq_table));
	assert_non_null(srq_table);
	for (uint32_t i = 0; i < 2; i++) {
		init.number = HOST_SRQN + i;
		init.serial = 4711 + i;
		assert_int_equal(srq_init(&srqs[i], &arena, &init), 0);
		srq_table_add(srq_table, &srqs[i]);
	}
	lane.srqs = srq_table;
	assert_int_equal(mr_table_add(&mrs, &region, 0, &key), 0);
	guests = arena_at(&arena, arena_alloc(&arena, sizeof(*guests)));
	bell = arena_at(&arena, arena_alloc(&arena, sizeof(*bell)));
	memset(memory, 0, sizeof(memory));
}

static void guest_make(struct guest *guest, uint32_t who)
{
	memset(guest, 0, sizeof(*guest));
	guest->owner = (struct far_owner){who, is_alive, host_pause};
	guest->peer =
		(struct peer){.base = arena.base, .bytes = HOST_ARENA_BYTES, .ops = &host_ops};
	assert_int_equal(
		mr_table_view(&guest->peer.mrs, guest->peer.base, guest->peer.bytes, &mrs_public),
		0);
	guest->far.peer = &guest->peer;
	guest->far.guests = guests;
	guest->far.owner = &guest->owner;
	guest->far.bell_offset[HOST_LANE] = arena_offset(&arena, bell);
}

static struct srq_host host_of(uint32_t index)
{
	return (struct srq_host){
		atomic_load(&srqs[index].public->serial), srqs[index].public_offset, 1000, 7};
}

/* The target has met the queue. */
static void target_knows(uint32_t index)
{
	const struct srq_host host = host_of(index);

	told = srq_hosted_add(ends[1].srqs->directory, HOST_SRQN + index, XRCD, &host);
	assert_non_null(told);
}

/* Who may make system calls answers the queue pair that asks. */
static void answer(struct hosted_srq *srq)
{
	struct local_qp *local = ends[0].local_lane.asking;

	assert_ptr_equal(local, &ends[0].local);
	*srq = (struct hosted_srq){.is_reached = true};
	assert_true(far_srq_init(&srq->far, &initiator.far, local->asked_host.offset, 0, 0));
	srq->seat = far_seat(&initiator.far, 0, srq->far.lane);
	assert_non_null(srq->seat);
	hosted_answer(local, srq);
}

static int setup_hosted(void **state)
{
	types[0] = QP_TYPE_XRC_SEND;
	types[1] = QP_TYPE_XRC_RECV;
	setup(state);
	host_make();
	guest_make(&target, 1);
	guest_make(&initiator, 2);
	assert_true(far_srq_init(&target_srq, &target.far, srqs[0].public_offset, PD_HERE, XRCD));
	target_domain = (struct far_domain){&target.far, HOST_PD};
	ends[1].mrs.abroad = &abroad;
	atomic_store(&ends[1].srqs->first_afar, &target_srq.srq);
	ends[1].qp->is_xrcd_shared = true;
	memset(hosted, 0, sizeof(hosted));
	host_kicks = 0;
	marks_seen = 0;
	target_knows(0);
	return 0;
}

static bool is_any(const struct hosted_srq *srq, const void *context)
{
	(void)srq;
	(void)context;
	return true;
}

static int teardown_hosted(void **state)
{
	teardown(state);
	assert_null(ends[0].local_lane.asking);
	while (hosted_take(&ends[0].local, is_any, NULL))
		;
	assert_int_equal(marks(), 0);
	far_host_done(&target.far);
	far_host_done(&initiator.far);
	engine_lane_done(&lane);
	mr_table_done(&mrs);
	free(srq_table);
	free(arena_memory);
	return 0;
}

/* --- what tests do --- */

static void host_post_to(uint32_t index, uint64_t wr_id, uint32_t bytes)
{
	struct sge sge = {(uintptr_t)memory + 4096, bytes, key};
	struct recv_wr wr = {wr_id, &sge, 1};

	assert_int_equal(srq_post(&srqs[index], &wr), 0);
}

static void host_post(uint64_t wr_id)
{
	host_post_to(0, wr_id, 4096);
}

static void send_to(uint32_t srqn, uint32_t opcode, uint32_t bytes)
{
	struct sge sge = {(uintptr_t)ends[0].memory, bytes, ends[0].key};
	struct send_wr wr = {
		.wr_id = 40,
		.opcode = opcode,
		.flags = SEND_SIGNALED,
		.imm = 0xabcd,
		.rkey = key,
		.remote_address = (uintptr_t)memory,
		.compare_add = 5,
		.sge = &sge,
		.sge_count = 1,
		.srqn = srqn,
	};
	uint32_t posted;

	assert_int_equal(engine_post_send(ends[0].qp, &wr, 1, &posted, NOW_NS), 0);
}

static void send_hosted(uint32_t opcode, uint32_t bytes)
{
	memset(ends[0].memory, 0x5a, bytes);
	send_to(HOST_SRQN, opcode, bytes);
}

/* The first request goes by packets, and asks. */
static void get_acquainted(void)
{
	uint32_t before = asked;

	send_hosted(WR_RDMA_WRITE, 0);
	assert_int_equal(asked, before + 1);
	assert_true(has_packets(0));
	exchange();
	assert_int_equal(poll_sent().status, WC_SUCCESS);
	answer(&hosted[0]);
}

static uint32_t host_collect(void)
{
	return guest_collect(&lane, bell, NOW_NS);
}

static struct cqe host_completion(void)
{
	struct cqe cqe;

	assert_int_equal(cq_poll(&cq, &arena, 1, &cqe), 1);
	return cqe;
}

static uint64_t counted(uint32_t number, enum counter counter)
{
	return counter_read(&ends[number].qp->public->counters, counter);
}

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

#define HOSTED_TEST(name) cmocka_unit_test_setup_teardown(name, setup_hosted, teardown_hosted)

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
