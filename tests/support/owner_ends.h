/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_OWNER_ENDS_H
#define URNIC_TESTS_SUPPORT_OWNER_ENDS_H

/*
 * A borrower and its owner in one process: the receiving half of an extended reliable connection,
 * with a scripted peer, takes from a shared receive queue of the owner's, in the owner's memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ib/rc/rc.h"
#include "local/channel/owner.h"
#include "support/arena_memory.h"
#include "support/permutation.h"
#include "support/script.h"

enum {
	ARENA_BYTES = 16 << 20,
	OWNER_PD = 77,
	PD_HERE = 5, /* its number at the borrower */
	OWNER_SRQN = 0x09aaaa,
	OWNER_LANE = 1,
	DEPTH = 300,
	BYTES = 4096,
	BORROWER = 11, /* its name */
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
static uint32_t leaves_in; /* rounds until the borrower clears its mark; 0: it is dead */

/* The borrower. */
static struct script script;
static struct peer peer;
static struct owner_process owner;
static struct borrowed_srq borrowed_queue;
static struct borrowed_domain domain;
static bool is_mapped; /* the owner's memory */
static uint64_t marks_seen; /* while bytes were moved */
static bool is_other_alive;
static uint8_t *own_memory;

/* --- what both need of their surroundings --- */

static uint32_t waits;

static inline bool wait(uint32_t who, uint32_t round)
{
	waits++;
	for (uint32_t i = 0; i < borrowers->used_count; i++)
		if (leaves_in && round + 1 == leaves_in && borrowers->channel[i].initiator == who)
			channel_leave(&borrowers->channel[i]);
	return leaves_in != 0;
}

static inline bool is_alive(struct peer *of, uint32_t who)
{
	(void)of;
	return who == BORROWER || is_other_alive;
}

static uint32_t pauses;
static uint32_t comes_in; /* pauses until the owner looks; 0: it does not */
static uint32_t resumes_in; /* pauses until the owner's keys are found again; 0: they are not */

static inline void pause_round(uint32_t round)
{
	(void)round;
	if (++pauses == comes_in)
		local_collect(&lane, &local_lane, NOW_NS);
	if (pauses == resumes_in)
		mr_table_resume(&mrs);
}

static inline uint64_t no_time(void)
{
	return 0;
}

static struct local_owner surroundings;

static inline uint64_t marks(void)
{
	uint64_t all = 0;

	for (uint32_t i = 0; i < borrowers->used_count; i++)
		all |= atomic_load(&borrowers->channel[i].in_use);
	return all;
}

static uint32_t
	revokes_in; /* copies until the owner revokes the mark: what is copied then is lost */

static inline bool is_revoked_now(void)
{
	bool is_now = revokes_in && --revokes_in == 0;

	for (uint32_t i = 0; is_now && i < borrowers->used_count; i++)
		atomic_fetch_or(&borrowers->channel[i].in_use, CHANNEL_IS_REVOKED);
	return is_now;
}

static inline bool memory_write(
	struct peer *to_peer, uint64_t to, const uint8_t *from, size_t bytes)
{
	(void)to_peer;
	marks_seen = marks();
	if (is_revoked_now())
		return true;
	copy_place((uint8_t *)(uintptr_t)to, from, bytes);
	return true;
}

static inline bool memory_read(struct peer *from_peer, uint8_t *to, uint64_t from, size_t bytes)
{
	(void)from_peer;
	marks_seen = marks();
	if (is_revoked_now())
		return true;
	memcpy(to, (const void *)(uintptr_t)from, bytes);
	return true;
}

static uint8_t *memory_map(
	struct peer *of, const struct mr_slot *region, uint64_t address, uint64_t *bytes)
{
	(void)of;
	(void)region;
	(void)bytes;
	marks_seen = marks();
	return is_mapped ? (uint8_t *)(uintptr_t)address : NULL;
}

static inline void kick(struct peer *of, uint32_t index)
{
	(void)of;
	assert_int_equal(index, OWNER_LANE);
	kicks++;
}

static const struct peer_ops ops = {memory_write, memory_read, memory_map, kick, NULL, is_alive};

static inline enum mr_fault check(
	uint32_t of_key, struct mr_user user, uint32_t access, uint64_t iova, uint64_t bytes)
{
	assert_int_equal(user.pd, PD_HERE);
	return borrowed_check(&domain, of_key, user.qpn, access, iova, bytes);
}

static inline enum mr_fault put(uint32_t of_key, struct mr_user user, uint32_t access,
	uint64_t iova, size_t bytes, const uint8_t *from)
{
	assert_int_equal(user.pd, PD_HERE);
	return borrowed_put(&domain, of_key, user.qpn, access, iova, bytes, from);
}

static inline enum mr_fault get(uint32_t of_key, struct mr_user user, uint32_t access,
	uint64_t iova, size_t bytes, uint8_t *to)
{
	assert_int_equal(user.pd, PD_HERE);
	return borrowed_get(&domain, of_key, user.qpn, access, iova, bytes, to);
}

static inline enum mr_fault apply(uint32_t of_key, struct mr_user user, uint32_t access,
	uint64_t iova, const struct mr_word *word, uint64_t *ret_before)
{
	assert_int_equal(user.pd, PD_HERE);
	return borrowed_apply(&domain, of_key, user.qpn, access, iova, word, ret_before);
}

static const struct mr_borrowed borrowed = {check, put, get, apply};

/* --- making them --- */

static inline void owner_make(void)
{
	struct srq_init init = {
		.number = OWNER_SRQN,
		.pd = OWNER_PD,
		.xrcd = 1,
		.cq = &cq,
		.depth = DEPTH,
		.sge_count_max = 2,
		.file = {1, 2},
		.lane = OWNER_LANE,
		.serial = 4711,
	};
	struct mr_region region = {
		OWNER_PD, MR_LOCAL_WRITE | MR_REMOTE_ANY, (uintptr_t)memory, BYTES, memory};

	arena_memory = arena_memory_new(ARENA_BYTES);
	arena_init(&arena, arena_memory, ARENA_BYTES);
	assert_int_equal(mr_table_init(&mrs, &arena, 16, test_permutation(1)), 0);
	mr_table_publish(&mrs, &arena, &mrs_public);
	assert_int_equal(engine_lane_init(&lane, &arena, &mrs, 9, OWNER_LANE), 0);
	assert_int_equal(cq_init(&cq, &arena, 512), 0);
	assert_int_equal(srq_init(&srq, &arena, &init), 0);
	srqs = calloc(1, sizeof(*srqs));
	assert_non_null(srqs);
	srq_table_add(srqs, &srq);
	lane.srqs = srqs;
	assert_int_equal(mr_table_add(&mrs, &region, 0, &key), 0);
	borrowers = arena_peers_side(arena_at(&arena, arena_alloc(&arena, sizeof(*borrowers))));
	doorbell = arena_peers_side(arena_at(&arena, arena_alloc(&arena, sizeof(*doorbell))));
	surroundings = (struct local_owner){wait, pause_round, no_time, BORROWER, borrowers, 0};
	local_lane = (struct local_lane){.doorbell = doorbell, .owner = &surroundings};
	memset(memory, 0, sizeof(memory));
}

static inline int setup(void **state)
{
	static const struct script_options options = {.type = QP_TYPE_XRC_RECV};

	(void)state;
	owner_make();
	script_start(&script, &options);
	own_memory = script.memory;
	script.mrs.borrowed = &borrowed;
	peer = (struct peer){.base = arena.base, .bytes = ARENA_BYTES, .ops = &ops};
	assert_int_equal(mr_table_view(&peer.mrs, peer.base, peer.bytes, &mrs_public), 0);
	memset(&owner, 0, sizeof(owner));
	owner.peer = &peer;
	owner.borrowers = borrowers;
	owner.self = &surroundings;
	owner.doorbell_offset[OWNER_LANE] = arena_offset(&arena, arena_owners_side(doorbell));
	domain = (struct borrowed_domain){&owner, OWNER_PD};
	assert_true(borrowed_srq_init(
		&borrowed_queue, &owner, srq.public_offset, PD_HERE, SCRIPT_XRCD));
	atomic_store(&script.srqs->first_borrowed, &borrowed_queue.srq);
	script.srqn = OWNER_SRQN;
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

static inline int teardown(void **state)
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

static inline void post(uint64_t wr_id, uint32_t bytes)
{
	struct sge sge = {(uintptr_t)memory, bytes, key};
	struct recv_wr wr = {wr_id, &sge, 1};

	assert_int_equal(srq_post(&srq, &wr), 0);
}

static inline uint32_t collect(void)
{
	return local_collect(&lane, &local_lane, NOW_NS);
}

static inline struct cqe completion(void)
{
	struct cqe cqe;

	assert_int_equal(cq_poll(&cq, &arena, 1, &cqe), 1);
	return cqe;
}

static inline void withdraw(void)
{
	srq_withdraw(srqs, &srq);
	srq_table_remove(srqs, &srq);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
