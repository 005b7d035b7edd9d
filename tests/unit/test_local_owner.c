/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A borrower and its owner in one process: the receiving half of an extended reliable connection,
 * with a scripted peer, takes from a shared receive queue of the owner's, in the owner's memory.
 * (The other way round nothing happens.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ib/rc/rc.h"
#include "local/owner.h"
#include "support/arena_memory.h"
#include "support/permutation.h"
#include "support/script.h"

enum {
	ARENA_BYTES = 16 << 20,
	HOST_PD = 77,
	PD_HERE = 5, /* what it is called at the borrower's */
	HOST_SRQN = 0x09aaaa,
	HOST_LANE = 1,
	DEPTH = 300,
	BYTES = 4096,
	GUEST = 11, /* its name */
};

#define NOW_NS 1000000000ull

/* The owner. */
static struct arena arena;
static void *arena_memory;
static struct mr_table mrs;
static struct mr_public mrs_public;
static struct lane lane;
static struct cq cq;
static struct srq srq;
static struct srq_table *srqs;
static struct borrower_table *borrowers;
static struct local_lane local_lane;
static struct doorbell *doorbell;
static uint8_t memory[BYTES];
static uint32_t key;
static uint32_t kicks;
static uint32_t leaves_in; /* rounds until whoever marks a channel leaves; 0: it is dead */

/* The borrower. */
static struct script script;
static struct peer peer;
static struct owner_process owner;
static struct borrowed_srq far;
static struct borrowed_domain domain;
static bool is_mapped; /* the owner's memory */
static uint64_t marks_seen; /* while bytes were moved */
static bool is_other_alive;
static uint8_t *own_memory;

/* --- what both need of their surroundings --- */

static uint32_t waits;

static bool wait(uint32_t who, uint32_t round)
{
	waits++;
	for (uint32_t i = 0; i < borrowers->used_count; i++)
		if (leaves_in && round + 1 == leaves_in && borrowers->channel[i].initiator == who)
			channel_leave(&borrowers->channel[i]);
	return leaves_in != 0;
}

static bool is_alive(struct peer *of, uint32_t who)
{
	(void)of;
	return who == GUEST || is_other_alive;
}

static uint32_t pauses;
static uint32_t comes_in; /* pauses until the owner looks; 0: it does not */
static uint32_t resumes_in; /* pauses until the owner's keys are found again; 0: they are not */

static void pause_round(uint32_t round)
{
	(void)round;
	if (++pauses == comes_in)
		local_collect(&lane, &local_lane, NOW_NS);
	if (pauses == resumes_in)
		mr_table_resume(&mrs);
}

static uint64_t no_time(void)
{
	return 0;
}

static struct local_owner surroundings;

static uint64_t marks(void)
{
	uint64_t all = 0;

	for (uint32_t i = 0; i < borrowers->used_count; i++)
		all |= atomic_load(&borrowers->channel[i].in_use);
	return all;
}

static uint32_t
	revokes_in; /* copies until the owner revokes the mark: what is copied then is lost */

static bool is_revoked_now(void)
{
	bool is_now = revokes_in && --revokes_in == 0;

	for (uint32_t i = 0; is_now && i < borrowers->used_count; i++)
		atomic_fetch_or(&borrowers->channel[i].in_use, CHANNEL_IS_REVOKED);
	return is_now;
}

static bool far_write(struct peer *to_peer, uint64_t to, const uint8_t *from, size_t bytes)
{
	(void)to_peer;
	marks_seen = marks();
	if (is_revoked_now())
		return true;
	copy_place((uint8_t *)(uintptr_t)to, from, bytes);
	return true;
}

static bool far_read(struct peer *from_peer, uint8_t *to, uint64_t from, size_t bytes)
{
	(void)from_peer;
	marks_seen = marks();
	if (is_revoked_now())
		return true;
	memcpy(to, (const void *)(uintptr_t)from, bytes);
	return true;
}

static uint8_t *far_map(
	struct peer *of, const struct mr_slot *region, uint64_t address, uint64_t *bytes)
{
	(void)of;
	(void)region;
	(void)bytes;
	marks_seen = marks();
	return is_mapped ? (uint8_t *)(uintptr_t)address : NULL;
}

static void kick(struct peer *of, uint32_t index)
{
	(void)of;
	assert_int_equal(index, HOST_LANE);
	kicks++;
}

static const struct peer_ops ops = {far_write, far_read, far_map, kick, NULL, is_alive};

static enum mr_fault check(
	uint32_t of_key, struct mr_user user, uint32_t access, uint64_t iova, uint64_t bytes)
{
	assert_int_equal(user.pd, PD_HERE);
	return borrowed_check(&domain, of_key, user.qpn, access, iova, bytes);
}

static enum mr_fault put(uint32_t of_key, struct mr_user user, uint32_t access, uint64_t iova,
	size_t bytes, const uint8_t *from)
{
	assert_int_equal(user.pd, PD_HERE);
	return borrowed_put(&domain, of_key, user.qpn, access, iova, bytes, from);
}

static enum mr_fault get(uint32_t of_key, struct mr_user user, uint32_t access, uint64_t iova,
	size_t bytes, uint8_t *to)
{
	assert_int_equal(user.pd, PD_HERE);
	return borrowed_get(&domain, of_key, user.qpn, access, iova, bytes, to);
}

static enum mr_fault apply(uint32_t of_key, struct mr_user user, uint32_t access, uint64_t iova,
	const struct mr_word *word, uint64_t *ret_before)
{
	assert_int_equal(user.pd, PD_HERE);
	return borrowed_apply(&domain, of_key, user.qpn, access, iova, word, ret_before);
}

static const struct mr_borrowed borrowed = {check, put, get, apply};

/* --- making them --- */

static void host_make(void)
{
	struct srq_init init = {
		.number = HOST_SRQN,
		.pd = HOST_PD,
		.xrcd = 1,
		.cq = &cq,
		.depth = DEPTH,
		.sge_count_max = 2,
		.file = {1, 2},
		.lane = HOST_LANE,
		.serial = 4711,
	};
	struct mr_region region = {
		HOST_PD, MR_LOCAL_WRITE | MR_REMOTE_ANY, (uintptr_t)memory, BYTES, memory};

	arena_memory = arena_memory_new(ARENA_BYTES);
	arena_init(&arena, arena_memory, ARENA_BYTES);
	assert_int_equal(mr_table_init(&mrs, &arena, 16, test_permutation(1)), 0);
	mr_table_publish(&mrs, &arena, &mrs_public);
	assert_int_equal(engine_lane_init(&lane, &arena, &mrs, 9, HOST_LANE), 0);
	assert_int_equal(cq_init(&cq, &arena, 512), 0);
	assert_int_equal(srq_init(&srq, &arena, &init), 0);
	srqs = calloc(1, sizeof(*srqs));
	assert_non_null(srqs);
	srq_table_add(srqs, &srq);
	lane.srqs = srqs;
	assert_int_equal(mr_table_add(&mrs, &region, 0, &key), 0);
	borrowers = arena_peers_side(arena_at(&arena, arena_alloc(&arena, sizeof(*borrowers))));
	doorbell = arena_peers_side(arena_at(&arena, arena_alloc(&arena, sizeof(*doorbell))));
	surroundings = (struct local_owner){wait, pause_round, no_time, GUEST, borrowers, 0};
	local_lane = (struct local_lane){.doorbell = doorbell, .owner = &surroundings};
	memset(memory, 0, sizeof(memory));
}

static int setup(void **state)
{
	static const struct script_options options = {.type = QP_TYPE_XRC_RECV};

	(void)state;
	host_make();
	script_start(&script, &options);
	own_memory = script.memory;
	script.mrs.borrowed = &borrowed;
	peer = (struct peer){.base = arena.base, .bytes = ARENA_BYTES, .ops = &ops};
	assert_int_equal(mr_table_view(&peer.mrs, peer.base, peer.bytes, &mrs_public), 0);
	memset(&owner, 0, sizeof(owner));
	owner.peer = &peer;
	owner.borrowers = borrowers;
	owner.self = &surroundings;
	owner.doorbell_offset[HOST_LANE] = arena_offset(&arena, arena_owners_side(doorbell));
	domain = (struct borrowed_domain){&owner, HOST_PD};
	assert_true(borrowed_srq_init(&far, &owner, srq.public_offset, PD_HERE, SCRIPT_XRCD));
	atomic_store(&script.srqs->first_borrowed, &far.srq);
	script.srqn = HOST_SRQN;
	kicks = 0;
	is_mapped = false;
	is_other_alive = true;
	pauses = 0;
	comes_in = 0;
	resumes_in = 0;
	leaves_in = 0;
	marks_seen = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	owner_process_done(&owner);
	script.memory = own_memory;
	script_end(&script);
	engine_lane_done(&lane);
	mr_table_done(&mrs);
	free(srqs);
	arena_memory_free(arena_memory, ARENA_BYTES);
	return 0;
}

static void post(uint64_t wr_id, uint32_t bytes)
{
	struct sge sge = {(uintptr_t)memory, bytes, key};
	struct recv_wr wr = {wr_id, &sge, 1};

	assert_int_equal(srq_post(&srq, &wr), 0);
}

static uint32_t collect(void)
{
	return local_collect(&lane, &local_lane, NOW_NS);
}

static struct cqe completion(void)
{
	struct cqe cqe;

	assert_int_equal(cq_poll(&cq, &arena, 1, &cqe), 1);
	return cqe;
}

static void withdraw(void)
{
	srq_withdraw(srqs, &srq);
	srq_table_remove(srqs, &srq);
}

/* --- messages --- */

static void message_is_placed_and_completes_at_the_host(void **state)
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

static void host_that_waits_is_woken(void **state)
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

/* Somebody else's record, about the request of this number of the owner's queue. */
static void publish(struct request_channel *channel, uint64_t taken)
{
	const struct channel_record record = {
		.wr_id = taken, .opcode = WC_RECV, .number = HOST_SRQN, .qpn = 1};

	assert_true(borrower_channel_publish(&peer, channel, doorbell, &record));
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
	channel->record[0].byte_count = 101;
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

static void host_hears_of_its_limit(void **state)
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

static void request_that_the_host_has_not_is_not_ready(void **state)
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

static void message_that_is_cut_off_is_flushed_at_the_host(void **state)
{
	(void)state;
	post(1, 1000);
	script_send_data(&script, OPCODE_RC_SEND_FIRST, 0, SCRIPT_MTU_BYTES);
	qp_set_state(script.qp, QP_ERR, script.now_ns);
	assert_int_equal(collect(), 1);
	assert_int_equal(completion().status, WC_WR_FLUSH_ERR);
}

static void host_that_does_not_collect_is_not_overrun(void **state)
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

/* --- the owner's memory --- */

static void keys_are_the_host_s(void **state)
{
	(void)state;
	script.key = key;
	script.memory = memory;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 10, 10);
	script_expect_ack(&script, 0, 1);
	assert_int_equal(memory[9], (uint8_t)(SCRIPT_RQ_PSN + 9));
	script_send_read(&script, 1, 0, 10);
	assert_memory_equal(
		script_expect(&script, OPCODE_RC_READ_RESPONSE_ONLY, 1)->payload, memory, 10);
	assert_int_equal((uint32_t)marks_seen, key);
	is_mapped = true;
	memset(memory, 0, sizeof(memory));
	script_send_atomic(&script, OPCODE_RC_FETCH_ADD, 2, 64, 5, 0);
	script_send_atomic(&script, OPCODE_RC_COMPARE_SWAP, 3, 64, 9, 5);
	assert_int_equal(
		script_expect(&script, OPCODE_RC_ATOMIC_ACKNOWLEDGE, 2)->atomicacketh.original, 0);
	assert_int_equal(
		script_expect(&script, OPCODE_RC_ATOMIC_ACKNOWLEDGE, 3)->atomicacketh.original, 5);
	assert_int_equal(memory[64], 9);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY_IMM, 4, 10, 10);
	script_expect_rnr(&script, 4);
	assert_int_equal(memory[3], 0);
	post(3, 0);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY_IMM, 4, 10, 10);
	script_expect_ack(&script, 4, 5);
	assert_int_equal(memory[3], (uint8_t)(SCRIPT_RQ_PSN + 4 + 3));
	collect();
	assert_int_equal(completion().opcode, WC_RECV_RDMA_WITH_IMM);
}

/* While it moves its memory, say. */
static void key_that_the_host_suspends_is_waited_for(void **state)
{
	(void)state;
	script.key = key;
	script.memory = memory;
	mr_table_suspend(&mrs);
	resumes_in = 5;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 10, 10);
	script_expect_ack(&script, 0, 1);
	assert_int_equal(pauses, 5);
	assert_int_equal(memory[9], (uint8_t)(SCRIPT_RQ_PSN + 9));
	mr_table_suspend(&mrs);
	resumes_in = 10;
	script_send_read(&script, 1, 0, 10);
	assert_memory_equal(
		script_expect(&script, OPCODE_RC_READ_RESPONSE_ONLY, 1)->payload, memory, 10);
	mr_table_suspend(&mrs);
	resumes_in = 0;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 2, 10, 10);
	script_expect_refusal(&script, 2, AETH_NAK_REMOTE_ACCESS);
	assert_int_equal(marks(), 0);
	mr_table_resume(&mrs);
}

static void key_of_the_borrower_is_none_of_the_host_s(void **state)
{
	(void)state;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 10, 10);
	script_expect_refusal(&script, 0, AETH_NAK_REMOTE_ACCESS);
}

static void range_beyond_the_host_s_region_is_refused(void **state)
{
	(void)state;
	script.key = key;
	script.memory = memory + BYTES - 5;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 10, 10);
	script_expect_refusal(&script, 0, AETH_NAK_REMOTE_ACCESS);
	assert_int_equal(memory[BYTES - 1], 0);
}

static void other_domain_of_the_host_is_refused(void **state)
{
	(void)state;
	domain.pd++;
	script.key = key;
	script.memory = memory;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 10, 10);
	script_expect_refusal(&script, 0, AETH_NAK_REMOTE_ACCESS);
}

static void atomic_on_memory_that_is_not_mapped_is_the_host_s_to_do(void **state)
{
	uint64_t value = 7;

	(void)state;
	memcpy(memory + 64, &value, sizeof(value));
	script.key = key;
	script.memory = memory;
	comes_in = 3;
	script_send_atomic(&script, OPCODE_RC_FETCH_ADD, 0, 64, 5, 0);
	assert_int_equal(
		script_expect(&script, OPCODE_RC_ATOMIC_ACKNOWLEDGE, 0)->atomicacketh.original, 7);
	assert_int_equal(memory[64], 12);
	assert_int_equal(kicks, 1);
	pauses = 0;
	script_send_atomic(&script, OPCODE_RC_COMPARE_SWAP, 1, 64, 9, 12);
	assert_int_equal(
		script_expect(&script, OPCODE_RC_ATOMIC_ACKNOWLEDGE, 1)->atomicacketh.original, 12);
	assert_int_equal(memory[64], 9);
}

static void atomic_that_the_host_does_not_come_to_is_not_ready(void **state)
{
	(void)state;
	script.key = key;
	script.memory = memory;
	script_send_atomic(&script, OPCODE_RC_FETCH_ADD, 0, 64, 5, 0);
	script_expect_rnr(&script, 0);
	local_collect(&lane, &local_lane, NOW_NS); /* too late: it was taken back */
	assert_int_equal(memory[64], 0);
	pauses = 0;
	comes_in = 1;
	script_send_atomic(&script, OPCODE_RC_FETCH_ADD, 0, 64, 5, 0);
	script_expect(&script, OPCODE_RC_ATOMIC_ACKNOWLEDGE, 0);
	assert_int_equal(memory[64], 5);
}

static void atomic_is_checked_by_the_host_that_does_it(void **state)
{
	uint64_t before;
	struct mr_word word = {MR_WORD_FETCH_ADD, 0, 1};

	(void)state;
	comes_in = 1;
	assert_int_equal(borrowed_apply(&domain, key + 1, 0, MR_REMOTE_ATOMIC, (uintptr_t)memory,
				 &word, &before),
		MR_FAULT_KEY);
	assert_int_equal(borrowed_apply(&domain, key, 0, MR_REMOTE_ATOMIC,
				 (uintptr_t)memory + BYTES, &word, &before),
		MR_FAULT_BOUNDS);
	owner.doorbell_offset[HOST_LANE] = 0; /* it has nobody who could */
	assert_int_equal(borrowed_apply(&domain, key, 0, MR_REMOTE_ATOMIC, (uintptr_t)memory, &word,
				 &before),
		MR_FAULT_PAGE);
}

static void deregistration_waits_for_borrowers(void **state)
{
	struct request_channel *channel = borrower_channel_take(borrowers, &peer, GUEST);

	(void)state;
	assert_non_null(channel);
	borrower_channel_enter(channel, CHANNEL_USES_KEY | key);
	leaves_in = 3;
	assert_true(borrower_quiesce(&surroundings, &mrs, key, 1));
	assert_int_equal(atomic_load(&channel->in_use), CHANNEL_IS_FREE);
	borrower_channel_enter(channel, CHANNEL_USES_KEY | key);
	leaves_in = 0; /* it is dead: nobody is waited for */
	assert_true(borrower_quiesce(&surroundings, &mrs, key, 1));
}

static uint64_t all_time(void)
{
	return UINT64_MAX;
}

/* Another mark each time, of a key that nobody knows. */
static bool wait_and_mark(uint32_t who, uint32_t round)
{
	(void)who;
	borrower_channel_enter(&borrowers->channel[0], CHANNEL_USES_KEY | (0x1000 + round));
	return ++waits < 10000; /* else it would never end */
}

static void deregistration_does_not_wait_for_marks_that_keep_changing(void **state)
{
	(void)state;
	assert_non_null(borrower_channel_take(borrowers, &peer, GUEST));
	waits = 0;
	wait_and_mark(GUEST, 0);
	surroundings.wait = wait_and_mark;
	surroundings.now_ns = all_time;
	assert_false(borrower_quiesce(&surroundings, &mrs, key, 1));
	assert_in_range(waits, 1, 1000);
}

/* Whoever writes there can mark all channels. */
static void owner_waits_for_all_channels_at_once(void **state)
{
	(void)state;
	atomic_store(&borrowers->used_count, BORROWER_CHANNEL_COUNT);
	for (uint32_t i = 0; i < BORROWER_CHANNEL_COUNT; i++)
		borrower_channel_enter(&borrowers->channel[i], CHANNEL_PUBLISHES);
	leaves_in = UINT32_MAX;
	waits = 0;
	assert_false(borrower_wait(&surroundings));
	assert_in_range(waits, 1, 3000);
}

static void bytes_are_moved_again_when_the_mark_was_revoked(void **state)
{
	uint8_t bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8}, back[8] = {0};

	(void)state;
	is_mapped = false;
	revokes_in = 1;
	assert_int_equal(
		borrowed_put(&domain, key, 0, MR_REMOTE_WRITE, (uintptr_t)memory, 8, bytes), MR_OK);
	assert_memory_equal(memory, bytes, 8);
	revokes_in = 1;
	assert_int_equal(
		borrowed_get(&domain, key, 0, MR_REMOTE_READ, (uintptr_t)memory, 8, back), MR_OK);
	assert_memory_equal(back, bytes, 8);
	assert_int_equal(marks(), 0);
}

/* --- ends --- */

static void queue_that_went_is_not_taken_from(void **state)
{
	(void)state;
	post(1, 100);
	script_send_data(&script, OPCODE_RC_SEND_FIRST, 0, SCRIPT_MTU_BYTES / 4);
	withdraw();
	assert_false(far.srq.borrowed->is_there(&far.srq));
	assert_false(far.srq.borrowed->take(&far.srq, &script.lane, &(struct recv_wqe){0}));
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
	struct request_channel *channel = borrower_channel_take(borrowers, &peer, GUEST);

	(void)state;
	borrower_channel_enter(channel, CHANNEL_PUBLISHES);
	leaves_in = 1000000;
	assert_false(borrower_wait(&surroundings));
	leaves_in = 5;
	assert_true(borrower_wait(&surroundings));
}

static void host_that_ended_is_left_alone(void **state)
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
	assert_ptr_equal(borrower_channel_take(borrowers, &peer, GUEST), first);
	assert_int_equal(atomic_load(&first->in_use), CHANNEL_IS_FREE);
	borrower_channel_release(first);
	assert_ptr_equal(borrower_channel_take(borrowers, &peer, GUEST), first);
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
	assert_int_equal(number, HOST_SRQN);
	atomic_store(&script.srqs->first_borrowed, &far.srq);
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
	rc_xrc_lookup_done(rc_from_qp(script.qp), HOST_SRQN);
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
	srq.public->lane = HOST_LANE;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(message_is_placed_and_completes_at_the_host),
		TEST(host_that_waits_is_woken),
		TEST(borrowers_take_turns_and_each_keeps_its_order),
		TEST(record_of_a_request_that_was_not_posted_completes_nothing),
		TEST(record_of_more_bytes_than_fit_completes_nothing),
		TEST(record_that_is_not_the_next_is_not_collected),
		TEST(list_of_channels_that_cannot_be_loses_no_channel),
		TEST(host_hears_of_its_limit),
		TEST(request_that_the_host_has_not_is_not_ready),
		TEST(message_that_is_too_long_fails_both_ends),
		TEST(message_that_is_cut_off_is_flushed_at_the_host),
		TEST(host_that_does_not_collect_is_not_overrun),
		TEST(keys_are_the_host_s),
		TEST(key_that_the_host_suspends_is_waited_for),
		TEST(key_of_the_borrower_is_none_of_the_host_s),
		TEST(range_beyond_the_host_s_region_is_refused),
		TEST(other_domain_of_the_host_is_refused),
		TEST(atomic_on_memory_that_is_not_mapped_is_the_host_s_to_do),
		TEST(atomic_that_the_host_does_not_come_to_is_not_ready),
		TEST(atomic_is_checked_by_the_host_that_does_it),
		TEST(deregistration_waits_for_borrowers),
		TEST(deregistration_does_not_wait_for_marks_that_keep_changing),
		TEST(owner_waits_for_all_channels_at_once),
		TEST(bytes_are_moved_again_when_the_mark_was_revoked),
		TEST(queue_that_went_is_not_taken_from),
		TEST(record_for_a_queue_that_went_is_thrown_away),
		TEST(queue_is_not_given_back_while_a_borrower_stands_in_it),
		TEST(host_that_ended_is_left_alone),
		TEST(channel_of_a_dead_borrower_is_another_s),
		TEST(channels_are_no_more_than_there_are),
		TEST(queue_that_is_not_known_is_asked_for),
		TEST(queue_that_was_not_found_is_an_invalid_request),
		TEST(public_state_out_of_bounds_is_no_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
