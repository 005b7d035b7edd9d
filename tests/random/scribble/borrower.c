/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Borrowers and their owner: memory of an imported protection domain, and an XRC shared receive
 * queue of another process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arith.h"
#include "engine/engine.h"
#include "local/channel/owner.h"
#include "scenes.h"
#include "support/arena_memory.h"
#include "support/permutation.h"

enum {
	ARENA_BYTES = 8 << 20,
	OPERATIONS = 80,
	MEMORY_BYTES = 16384,
	GUARD_BYTES = 2048, /* at either end: no region names it */
	GUARD_BYTE = 0xa5,
	REGION_BYTES = MEMORY_BYTES - 2 * GUARD_BYTES,
	BYTES_MAX = 2000, /* of an access */
	PD = 77,
	PD_HERE = 5, /* what the borrower calls it */
	XRCD = 3,
	SRQN = 0x9aaaa,
	LANE = 1,
	DEPTH = 200,
	QPN = 0x1234,
	BORROWER = 11, /* its name */
	REQUESTS_MAX = 1024, /* receive requests of a round */
	FIRST_RECEIVE = 1000,
};

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
static uint8_t memory[MEMORY_BYTES];
static uint32_t key;
static bool has_memory;
static uint32_t received;
static bool is_receiving[REQUESTS_MAX];
static bool is_withdrawn;

/* The borrower. */
static struct peer peer;
static struct owner_process owner_process;
static struct borrowed_srq far;
static struct borrowed_domain domain;
static struct lane borrower_lane;
static uint8_t own[BYTES_MAX];

static bool is_hostile(void)
{
	return scene.kind == ROUND_HOSTILE_OWNER;
}

/* --- what both need of their surroundings --- */

/* The attacker has it look as if borrowers came and went. */
static bool wait_for_borrower(uint32_t who, uint32_t round)
{
	(void)who;
	(void)round;
	for (uint32_t i = 0; scene.is_restless && i < 4; i++)
		atomic_store(&borrowers->channel[i].in_use,
			CHANNEL_USES_KEY | (uint32_t)words_value(&scene.words, 0));
	if (draw_once_in(8))
		atomic_store(&borrowers->used_count, draw(BORROWER_CHANNEL_COUNT + 2));
	scene_pause();
	return !scene.is_dead;
}

static bool borrower_is_alive(struct peer *of, uint32_t who)
{
	(void)of;
	return who == BORROWER || draw(2);
}

/* The owner comes now and then. */
static void borrower_pause(uint32_t round)
{
	(void)round;
	scene_pause();
	if (draw_once_in(64) && !is_hostile())
		local_collect(&lane, &local_lane, scene.now_ns);
}

static uint64_t now(void)
{
	return scene.now_ns;
}

static struct local_owner surroundings;

static bool is_in_region(uint64_t address, uint64_t bytes)
{
	return range_inside(address, bytes, (uintptr_t)memory + GUARD_BYTES, REGION_BYTES);
}

static bool is_allowed(uint64_t address, uint64_t bytes)
{
	bool is_inside = is_in_region(address, bytes);

	words_scribble(&scene.words, draw_attack(2));
	if (!is_inside && !is_hostile())
		scene_fail("%llu bytes at a distance of %lld from the region",
			(unsigned long long)bytes, (long long)(address - (uintptr_t)memory));
	return is_inside;
}

static bool borrower_write(struct peer *of, uint64_t to, const uint8_t *from, size_t bytes)
{
	bool is_there = is_allowed(to, bytes);

	(void)of;
	if (is_there)
		memcpy((uint8_t *)(uintptr_t)to, from, bytes);
	return is_there;
}

static bool borrower_read(struct peer *of, uint8_t *to, uint64_t from, size_t bytes)
{
	bool is_there = is_allowed(from, bytes);

	(void)of;
	if (is_there)
		memcpy(to, (const uint8_t *)(uintptr_t)from, bytes);
	return is_there;
}

static uint8_t *borrower_map(
	struct peer *of, const struct mr_slot *region, uint64_t address, uint64_t *bytes)
{
	(void)of;
	(void)region;
	if (!is_in_region(address, 1)) {
		(void)is_allowed(address, 1);
		return NULL;
	}
	*bytes = min_u64(*bytes, (uintptr_t)memory + GUARD_BYTES + REGION_BYTES - address);
	words_scribble(&scene.words, draw_attack(2));
	return (uint8_t *)(uintptr_t)address;
}

static void borrower_kick(struct peer *of, uint32_t index)
{
	(void)of;
	(void)index;
	words_scribble(&scene.words, draw_attack(2));
	if (draw_once_in(4) && !is_hostile())
		local_collect(&lane, &local_lane, scene.now_ns);
}

static const struct peer_ops copied = {
	borrower_write, borrower_read, NULL, borrower_kick, NULL, borrower_is_alive};
static const struct peer_ops mapped = {
	borrower_write, borrower_read, borrower_map, borrower_kick, NULL, borrower_is_alive};

/* --- the scene --- */

static bool key_quiesce(uint32_t of_key)
{
	return borrower_quiesce(&surroundings, &mrs, of_key, scene.now_ns + 100000000);
}

static void region_add(void)
{
	uint8_t *start = memory + GUARD_BYTES;
	const struct mr_region region = {
		PD, MR_LOCAL_WRITE | MR_REMOTE_ANY, (uintptr_t)start, REGION_BYTES, start};

	has_memory = mr_table_add(&mrs, &region, 0, &key) == 0;
}

static void host_make(void)
{
	const struct srq_init init = {
		.number = SRQN,
		.pd = PD,
		.xrcd = 1,
		.cq = &cq,
		.depth = DEPTH,
		.sge_count_max = 2,
		.file = {1, 2},
		.lane = LANE,
		.serial = 4711,
	};

	arena_memory = arena_memory_new(ARENA_BYTES);
	arena_init(&arena, arena_memory, ARENA_BYTES);
	assert_int_equal(mr_table_init(&mrs, &arena, 16, test_permutation(1)), 0);
	mr_table_publish(&mrs, &arena, &mrs_public);
	assert_int_equal(engine_lane_init(&lane, &arena, &mrs, 9, LANE), 0);
	assert_int_equal(engine_lane_init(&borrower_lane, &arena, &mrs, 10, 0), 0);
	assert_int_equal(cq_init(&cq, &arena, 512), 0);
	assert_int_equal(srq_init(&srq, &arena, &init), 0);
	srqs = calloc(1, sizeof(*srqs));
	assert_non_null(srqs);
	srq_table_add(srqs, &srq);
	lane.srqs = srqs;
	borrowers = arena_peers_side(arena_at(&arena, arena_alloc(&arena, sizeof(*borrowers))));
	doorbell = arena_peers_side(arena_at(&arena, arena_alloc(&arena, sizeof(*doorbell))));
	surroundings = (struct local_owner){
		wait_for_borrower, borrower_pause, now, BORROWER, borrowers, 0};
	local_lane = (struct local_lane){.doorbell = doorbell, .owner = &surroundings};
	memset(memory, GUARD_BYTE, sizeof(memory));
	mrs.quiesce = key_quiesce;
	region_add();
	received = 0;
	is_withdrawn = false;
}

static void borrower_make(void)
{
	peer = (struct peer){
		.base = arena.base, .bytes = ARENA_BYTES, .ops = draw(2) ? &mapped : &copied};
	assert_int_equal(mr_table_view(&peer.mrs, peer.base, peer.bytes, &mrs_public), 0);
	memset(&owner_process, 0, sizeof(owner_process));
	owner_process.peer = &peer;
	owner_process.borrowers = borrowers;
	owner_process.self = &surroundings;
	owner_process.doorbell_offset[LANE] = arena_offset(&arena, arena_owners_side(doorbell));
	domain = (struct borrowed_domain){&owner_process, PD};
	assert_true(borrowed_srq_init(&far, &owner_process, srq.public_offset, PD_HERE, XRCD));
}

static void places_add(void)
{
	words_add(&scene.words, borrowers, sizeof(*borrowers));
	for (uint32_t i = 0; i < 4; i++)
		words_add(&scene.words, &borrowers->channel[i], sizeof(struct request_channel));
	words_add(&scene.words, borrowers, 128);
	words_add(&scene.words, doorbell, sizeof(*doorbell));
	words_add(&scene.words, arena_peers_side(srq.rq), sizeof(*srq.rq));
	for (uint32_t i = 0; i < 3; i++)
		words_add_value(&scene.words, peer_offset(&peer, &borrowers->channel[i]));
	words_add_value(&scene.words, key);
	words_add_value(&scene.words, SRQN);
	words_add_value(&scene.words, PD);
	words_add_value(&scene.words, (uintptr_t)memory + GUARD_BYTES);
}

static void hostile_places_add(void)
{
	scene.words.is_undone = true;
	words_add(&scene.words, mrs.slots, 2 * sizeof(struct mr_slot));
	words_add(&scene.words, mrs.places, 2 * sizeof(struct mr_place));
	words_add(&scene.words, srq.rq, sizeof(*srq.rq));
	words_add(&scene.words, (uint8_t *)srq.rq + srq.rq->slots_distance, 4096);
	words_add(&scene.words, srq.public, sizeof(*srq.public));
	words_add(&scene.words, cq.ring, sizeof(*cq.ring));
	words_add_value(&scene.words, arena.bytes);
	words_add_value(&scene.words, srq.rq_offset);
}

/* --- what the borrower does --- */

static uint64_t address_draw(void)
{
	return (uintptr_t)memory + GUARD_BYTES + draw(8) * 1000 + draw(4);
}

static void word_ask(void)
{
	const struct mr_word word = {(enum mr_word_operation)draw(MR_WORD_STORE + 1), 1, 2};
	uint64_t before, address = (uintptr_t)memory + GUARD_BYTES + draw(1000) * 8;

	borrowed_apply(&domain, key, QPN, MR_REMOTE_ATOMIC, address, &word, &before);
}

static void message_take(void)
{
	struct recv_wqe wqe;
	struct cqe cqe = {.opcode = WC_RECV, .byte_count = draw(100), .qpn = QPN};

	if (!far.srq.borrowed->take(&far.srq, &borrower_lane, &wqe))
		return;
	if (wqe.sge_count > SGE_COUNT_MAX)
		scene_fail("a receive request of %u entries", wqe.sge_count);
	for (uint32_t i = 0; i < wqe.sge_count; i++)
		borrowed_put(&domain, wqe.sge[i].lkey, QPN, MR_LOCAL_WRITE, wqe.sge[i].address,
			min_u32(wqe.sge[i].bytes, sizeof(own)), own);
	cqe.wr_id = wqe.wr_id;
	far.srq.borrowed->complete(&far.srq, &borrower_lane, &cqe, draw(2));
}

static void borrower_do(void)
{
	uint32_t bytes = draw(BYTES_MAX);

	switch (draw(8)) {
	case 0:
		borrowed_check(&domain, key, QPN, MR_REMOTE_WRITE, address_draw(), bytes);
		break;
	case 1:
		borrowed_put(&domain, key, QPN, MR_REMOTE_WRITE, address_draw(), bytes, own);
		break;
	case 2:
		borrowed_get(&domain, key, QPN, MR_REMOTE_READ, address_draw(), bytes, own);
		break;
	case 3:
		word_ask();
		break;
	default:
		message_take();
		break;
	}
}

/* --- what the owner does --- */

static void receive_post(void)
{
	struct sge sge[2];
	struct recv_wr wr = {FIRST_RECEIVE + received, sge, draw(3)};

	if (received == REQUESTS_MAX)
		return;
	for (uint32_t i = 0; i < 2; i++)
		sge[i] = (struct sge){address_draw(), draw(1000), key};
	if (!srq_post(&srq, &wr))
		is_receiving[received++] = true;
}

static void memory_change(void)
{
	if (has_memory) {
		has_memory = false;
		mr_table_remove(&mrs, key, PD);
	} else {
		region_add();
	}
}

static void srq_take_away(void)
{
	if (!is_withdrawn) {
		srq_withdraw(srqs, &srq);
		borrower_wait(&surroundings);
		srq_table_remove(srqs, &srq);
	}
	is_withdrawn = true;
}

static void poll_all(void)
{
	struct cqe cqe;

	while (!is_hostile() && cq_poll(&cq, &arena, 1, &cqe))
		if (cqe.wr_id - FIRST_RECEIVE >= received)
			scene_fail("wr_id %llu completes", (unsigned long long)cqe.wr_id);
	if (!is_hostile() && draw_once_in(2))
		cq_arm(&cq, CQ_ARM_NEXT);
}

static void host_do(void)
{
	uint32_t events;

	switch (draw(12)) {
	case 0:
		memory_change();
		break;
	case 1:
		while (signal_take(&lane.signals, &events))
			;
		break;
	case 2:
		rq_resize(&arena, srq.rq, 1 + draw(2 * DEPTH));
		break;
	case 3:
		rq_set_limit(srq.rq, draw(10));
		break;
	case 4:
		if (draw_once_in(16))
			srq_take_away();
		break;
	case 5:
	case 6:
	case 7:
		local_collect(&lane, &local_lane, scene.now_ns);
		break;
	default:
		receive_post();
		break;
	}
}

/* --- what the attacker does --- */

static void word_forge(const struct request_channel *channel)
{
	struct borrower_word *word = borrower_word_of(borrowers, channel);
	struct words *words = &scene.words;

	word->key = draw(4) ? key : (uint32_t)words_value(words, key);
	word->pd = draw(4) ? PD : (uint32_t)words_value(words, PD);
	word->access = (uint32_t)words_value(words, MR_REMOTE_ATOMIC);
	word->operation = (uint32_t)words_value(words, 1);
	word->iova = draw(2) ? (uintptr_t)memory + GUARD_BYTES + draw(2000) * 8
			     : words_value(words, word->iova);
	atomic_store(&word->state, BORROWER_WORD_REQUESTED);
}

/* A record that looks right, in one of the first channels. */
static void record_forge(void)
{
	struct request_channel *channel = &borrowers->channel[draw(3)];
	struct words *words = &scene.words;
	uint32_t number = channel_private(channel)->collected + (draw_once_in(8) ? draw(200) : 0);
	struct channel_record record = {
		.wr_id = draw(4) ? rq_known(srq.rq) + draw(16) : words_value(words, 0),
		.opcode = draw(4) ? WC_RECV : (uint32_t)words_value(words, 0),
		.flags = (uint32_t)words_value(words, 0),
		.byte_count = draw(4) ? draw(1000) : (uint32_t)words_value(words, 0),
		.imm = 7,
		.qpn = QPN,
		.number = draw(8) ? SRQN : (uint32_t)words_value(words, 0),
		.fault = draw_once_in(4) ? (uint32_t)words_value(words, 0) : 0,
		.serial = draw(16) ? 0 : words_value(words, 0),
	};

	if (is_hostile())
		return;
	if (draw_once_in(8))
		atomic_store(&channel->in_use, CHANNEL_USES_KEY | words_value(words, key));
	if (draw_once_in(4))
		word_forge(channel);
	if (draw(2))
		atomic_store(&rq_takers(srq.rq)->taken,
			(uint64_t)srq.rq->moves << 32 | (rq_known(srq.rq) + draw(8)));
	record.sequence = channel_sequence(UINT32_MAX, number);
	*channel_record_at(borrower_ring(borrowers, channel), number) = record;
	atomic_store(&channel->has_published, draw(8) != 0);
	atomic_store(&channel->count, number + 1);
	atomic_store(&channel->ready.is_rung, 1);
	channel->ready.next_offset =
		draw(2) ? atomic_load(&doorbell->first_offset) : words_value(words, 0);
	atomic_store(&doorbell->first_offset, peer_offset(&peer, channel));
}

static void guard_check(const uint8_t *guard)
{
	for (uint32_t i = 0; i < GUARD_BYTES; i++)
		if (guard[i] != GUARD_BYTE)
			scene_fail("a byte beside the region has changed");
}

void borrower_round(void)
{
	host_make();
	borrower_make();
	for (uint32_t i = draw(8); i; i--) {
		receive_post();
		message_take();
		local_collect(&lane, &local_lane, scene.now_ns);
		poll_all();
	}
	places_add();
	if (is_hostile())
		hostile_places_add();
	if (scene.kind == ROUND_THREAD)
		words_thread_begin(&scene.words, sim_random_next(&scene.random));
	for (uint32_t i = 0; i < OPERATIONS; i++) {
		if (draw_attack(2))
			record_forge();
		operation_begin();
		if (is_hostile() || draw(2))
			borrower_do();
		else
			host_do();
		poll_all();
		operation_end();
	}
	operation_begin();
	owner_process_done(&owner_process);
	if (!is_hostile())
		srq_take_away();
	operation_end();
	if (scene.kind == ROUND_THREAD)
		scene.words.written += words_thread_end();
	words_undo(&scene.words);
	scene.words.place_count = 0;
	poll_all();
	guard_check(memory);
	guard_check(memory + GUARD_BYTES + REGION_BYTES);
	mrs.quiesce = NULL;
	if (!is_withdrawn)
		srq_table_remove(srqs, &srq);
	srq_done(&srq, &arena);
	engine_lane_done(&borrower_lane);
	engine_lane_done(&lane);
	mr_table_done(&mrs);
	free(srqs);
	arena_memory_free(arena_memory, ARENA_BYTES);
}
