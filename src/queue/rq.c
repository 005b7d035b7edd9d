/* SPDX-License-Identifier: BSD-2-Clause */
#include "queue/rq.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/arith.h"
#include "base/prefetch.h"
#include "queue/rq_slots.h"
#include "queue/rq_strays.h"
#include "queue/rq_taker.h"

static_assert(sizeof(struct recv_queue) == 128, "a cache line for what changes");

static uint64_t slots_offset(const struct arena *arena, const struct recv_queue *rq)
{
	return arena_offset(arena, rq) + rq->slots_distance;
}

uint64_t rq_create(struct arena *arena, uint32_t depth, uint32_t sge_count_max)
{
	uint32_t capacity = pow2_ceil_u32(max_u32(depth, 1));
	uint32_t stride_bytes = (uint32_t)align_up_u64(
		sizeof(struct recv_slot) + sge_count_max * sizeof(struct sge), RQ_LINE_BYTES);
	uint64_t offset, slots;

	assert(sge_count_max <= SGE_COUNT_MAX);
	offset = arena_alloc_both(arena, sizeof(struct recv_queue));
	if (!offset)
		return 0;
	slots = arena_alloc(arena, rq_slots_bytes(capacity, stride_bytes));
	if (!slots) {
		arena_free(arena, offset);
		return 0;
	}
	struct recv_queue *rq = arena_at(arena, offset);
	rq->capacity = capacity;
	rq->depth = depth;
	rq->stride_bytes = stride_bytes;
	rq->sge_count_max = sge_count_max;
	rq->slots_distance = slots - offset;
	return offset;
}

uint64_t rq_create_shared(struct arena *arena, uint32_t depth, uint32_t sge_count_max)
{
	uint64_t offset = rq_create(arena, depth, sge_count_max);
	struct recv_queue *rq;
	uint64_t strays;

	if (!offset)
		return 0;
	rq = arena_at(arena, offset);
	strays = rq_strays_create(arena, rq->capacity, rq->stride_bytes);
	if (!strays) {
		rq_destroy(arena, offset);
		return 0;
	}
	rq->is_shared = 1;
	rq->strays_distance = strays - offset;
	return offset;
}

void rq_destroy(struct arena *arena, uint64_t offset)
{
	if (offset) {
		const struct recv_queue *rq = arena_at(arena, offset);

		if (rq->strays_distance)
			arena_free(arena, offset + rq->strays_distance);
		arena_free(arena, slots_offset(arena, rq));
		arena_free(arena, offset);
	}
}

static uint64_t taken_of(uint32_t moves, uint32_t count)
{
	return (uint64_t)moves << 32 | count;
}

/*
 * Returns the word `taken`: in the low half the number of taken requests, in the high half the
 * number of moves of the slots. For a shared queue the word in the takers' line is valid if its
 * value is possible. Otherwise the function returns the owner's own numbers, and stores them in
 * that line. The queue is locked.
 */
static uint64_t taken_checked(struct recv_queue *rq)
{
	uint64_t taken = atomic_load_explicit(&rq_takers(rq)->taken, memory_order_acquire);
	uint32_t known = rq_known(rq);

	if (rq->is_shared && taken >> 32 == rq->moves && rq_may_be_taken(rq, (uint32_t)taken))
		return taken;
	if (taken != taken_of(rq->moves, known)) {
		taken = taken_of(rq->moves, known);
		atomic_store_explicit(&rq_takers(rq)->taken, taken, memory_order_release);
	}
	return taken;
}

void rq_mend(struct recv_queue *rq)
{
	spin_lock(&rq->lock);
	(void)taken_checked(rq);
	spin_unlock(&rq->lock);
}

/*
 * Has the queue room? The owner reads the takers' line of a shared queue only when the queue seems
 * full, because the read takes that cache line from the takers' processors. The queue is locked.
 */
static bool has_room(struct recv_queue *rq, uint32_t posted)
{
	uint32_t known = atomic_load_explicit(&rq->known, memory_order_acquire);

	if (posted - known < rq->depth)
		return true;
	if (!rq->is_shared || rq->keeps_slots)
		return false;
	known = (uint32_t)taken_checked(rq);
	atomic_store_explicit(&rq->known, known, memory_order_relaxed);
	return posted - known < rq->depth;
}

/* rq_redeem() for a caller that has locked the queue. */
static bool slot_redeem(struct recv_queue *rq, uint32_t taken, struct recv_wqe *ret_wqe)
{
	uint32_t posted = atomic_load_explicit(&rq->posted, memory_order_relaxed);
	struct recv_slot *slot = rq_slot_at(rq, taken);

	if (posted - taken - 1 >= rq->capacity || !slot->is_out)
		return rq_stray_redeem(rq, taken, ret_wqe);
	slot->is_out = 0;
	rq_slot_copy(ret_wqe, slot, slot->sge_count);
	return true;
}

bool rq_redeem(struct recv_queue *rq, uint64_t ticket, struct recv_wqe *ret_wqe)
{
	bool is_sound;

	if (ticket > UINT32_MAX)
		return false;
	spin_lock(&rq->lock);
	is_sound = slot_redeem(rq, (uint32_t)ticket, ret_wqe);
	spin_unlock(&rq->lock);
	return is_sound;
}

int rq_post(struct recv_queue *rq, const struct recv_wr *wr)
{
	int error = 0;

	spin_lock(&rq->lock);
	uint32_t posted = atomic_load_explicit(&rq->posted, memory_order_relaxed);
	if (!has_room(rq, posted)) {
		error = -ENOMEM;
	} else {
		struct recv_slot *slot = rq_slot_at(rq, posted);

		rq_slot_leave(rq, slot, posted - rq->capacity);
		slot->is_out = 1;
		slot->wr_id = wr->wr_id;
		slot->sge_count = wr->sge_count;
		for (uint32_t i = 0; i < wr->sge_count; i++)
			slot->sge[i] = wr->sge[i];
		atomic_store_explicit(&rq->posted, posted + 1, memory_order_release);
	}
	spin_unlock(&rq->lock);
	return error;
}

/*
 * Prefetch the slot, which a later post will write. The last processor to read the slot was a
 * taker's, so the transfer of the cache line takes long.
 */
void rq_know_taken(struct recv_queue *rq, uint32_t taken)
{
	atomic_store_explicit(&rq->known, taken + 1, memory_order_release);
	prefetch_to_write(rq_slot_at(rq, taken));
}

bool rq_look_back(
	const struct recv_queue *rq, uint32_t taken, uint64_t *ret_wr_id, uint64_t *ret_bytes)
{
	const struct recv_slot *slot = rq_slot_at(rq, taken);
	uint32_t ago = atomic_load_explicit(&rq->posted, memory_order_acquire) - taken;

	if (ago == 0 || ago > rq->capacity)
		return false;
	*ret_wr_id = slot->wr_id;
	*ret_bytes = sge_total_bytes(slot->sge, slot->sge_count);
	return true;
}

/*
 * Take the oldest request. The queue is locked, so only takers in other processes can take that
 * request first. If a taker sets the count back, requests that have completed seem to be pending
 * again; this function skips them.
 */
static bool slot_take(struct recv_queue *rq, struct recv_wqe *wqe)
{
	for (uint32_t attempt = 0; attempt < RQ_FASTER_MAX; attempt++) {
		uint64_t taken = taken_checked(rq);
		struct recv_slot *slot = rq_slot_at(rq, (uint32_t)taken);

		if (atomic_load_explicit(&rq->posted, memory_order_acquire) == (uint32_t)taken)
			return false;
		rq_slot_copy(wqe, slot, slot->sge_count);
		if (rq_take_peeked(rq, taken)) {
			bool is_out = slot->is_out;

			slot->is_out = 0;
			rq_know_taken(rq, (uint32_t)taken);
			if (is_out)
				return true;
		}
	}
	return false;
}

bool rq_take(struct recv_queue *rq, struct recv_wqe *wqe)
{
	bool has_one;

	spin_lock(&rq->lock);
	has_one = slot_take(rq, wqe);
	spin_unlock(&rq->lock);
	return has_one;
}

/* Has a taker in another process found that fewer requests than the limit remain? */
static bool limit_is_passed(const struct recv_queue *rq)
{
	return atomic_load_explicit(&rq_takers(rq)->reported_generation, memory_order_relaxed) ==
		atomic_load_explicit(&rq->limit_generation, memory_order_relaxed);
}

/* Do fewer requests than the limit remain? If so, turns the limit off. The queue is locked. */
static bool is_below(struct recv_queue *rq)
{
	uint32_t limit = atomic_load_explicit(&rq->limit, memory_order_relaxed);

	if (!limit || (rq_count(rq) >= limit && !limit_is_passed(rq)))
		return false;
	atomic_store_explicit(&rq->limit, 0, memory_order_relaxed);
	return true;
}

bool rq_take_limited(struct recv_queue *rq, struct recv_wqe *wqe, bool *ret_is_below)
{
	bool has_one;

	spin_lock(&rq->lock);
	has_one = slot_take(rq, wqe);
	*ret_is_below = has_one && is_below(rq);
	spin_unlock(&rq->lock);
	return has_one;
}

bool rq_is_below_limit(struct recv_queue *rq)
{
	bool is_below_now;

	spin_lock(&rq->lock);
	is_below_now = is_below(rq);
	spin_unlock(&rq->lock);
	return is_below_now;
}

bool rq_set_limit(struct recv_queue *rq, uint32_t limit)
{
	bool is_below_now;

	spin_lock(&rq->lock);
	atomic_store(&rq->limit, 0);
	atomic_fetch_add(&rq->limit_generation, 1);
	/* Set before is_below() counts the requests: see rq_note_low() */
	atomic_store(&rq->limit, limit);
	is_below_now = is_below(rq);
	spin_unlock(&rq->lock);
	return is_below_now;
}

uint32_t rq_limit(struct recv_queue *rq)
{
	uint32_t limit;

	spin_lock(&rq->lock);
	limit = limit_is_passed(rq) ? 0 : atomic_load_explicit(&rq->limit, memory_order_relaxed);
	spin_unlock(&rq->lock);
	return limit;
}

/*
 * Increment `moves`, so that no process can take a request that it read before. While `moves` is
 * odd, no process takes any request. The queue is locked.
 */
static void moves_count(struct recv_queue *rq)
{
	rq->moves++;
	atomic_fetch_add(&rq_takers(rq)->taken, 1ull << 32);
}

/*
 * Move the requests from number `taken` on to the `capacity` slots at `slots`, which have room for
 * them. No process takes a request meanwhile. The queue is locked.
 */
static void slots_move(struct recv_queue *rq, uint8_t *slots, uint32_t capacity, uint32_t taken)
{
	uint32_t posted = atomic_load_explicit(&rq->posted, memory_order_relaxed);

	for (uint32_t i = posted - rq->capacity; i != taken; i++)
		rq_slot_leave(rq, rq_slot_at(rq, i), i);
	for (uint32_t i = taken; i != posted; i++)
		memcpy(rq_slot_in(rq, slots, capacity, i), rq_slot_at(rq, i), rq->stride_bytes);
	rq->slots_distance = (uintptr_t)slots - (uintptr_t)rq;
	rq->capacity = capacity;
}

/*
 * Change the depth, and move the requests to the slots at `slots` unless that is NULL. Returns 0,
 * or -EINVAL when more than `depth` requests are pending. The function reads the takers' line once,
 * and the count there becomes `known`. So no later value of that line makes more requests pending
 * than there are slots. The queue is locked.
 */
static int shape_change(struct recv_queue *rq, uint8_t *slots, uint32_t capacity, uint32_t depth)
{
	uint32_t posted = atomic_load_explicit(&rq->posted, memory_order_relaxed);
	uint32_t taken;
	int error = 0;

	moves_count(rq); /* no process takes a request from here on */
	taken = (uint32_t)taken_checked(rq);
	if (posted - taken > depth) {
		error = -EINVAL;
	} else {
		atomic_store_explicit(&rq->known, taken, memory_order_relaxed);
		if (slots)
			slots_move(rq, slots, capacity, taken);
		rq->depth = depth;
	}
	moves_count(rq);
	return error;
}

int rq_resize(struct arena *arena, struct recv_queue *rq, uint32_t depth)
{
	uint32_t old_capacity = rq->capacity;
	uint32_t capacity = pow2_ceil_u32(depth);
	uint64_t old_slots = slots_offset(arena, rq);
	uint64_t slots = old_slots;
	struct recv_strays *old_strays = rq_strays(rq);
	uint64_t strays = 0;
	int error;

	if (old_strays && old_strays->count < capacity) {
		strays = rq_strays_create(arena, capacity, rq->stride_bytes);
		if (!strays)
			return -ENOMEM;
	}
	if (capacity != old_capacity) {
		slots = arena_alloc(arena, rq_slots_bytes(capacity, rq->stride_bytes));
		if (!slots) {
			arena_free(arena, strays);
			return -ENOMEM;
		}
		/*
		 * Write to the new pages before the lock is taken, so that no page fault happens
		 * under it.
		 */
		memset(arena_at(arena, slots), 0, rq_slots_bytes(capacity, rq->stride_bytes));
	}
	spin_lock(&rq->lock);
	error = shape_change(
		rq, slots != old_slots ? arena_at(arena, slots) : NULL, capacity, depth);
	if (strays)
		rq_strays_move(rq, arena_at(arena, strays));
	spin_unlock(&rq->lock);
	if (strays)
		arena_free(arena, arena_offset(arena, old_strays));
	if (slots != old_slots)
		arena_free(arena, error ? slots : old_slots);
	return error;
}

/*
 * A taker cannot take a request that it read before the reset, because `moves` changes
 * (rq_take_peeked).
 */
void rq_reset(struct recv_queue *rq)
{
	spin_lock(&rq->lock);
	rq->moves += 2;
	atomic_store_explicit(&rq->posted, 0, memory_order_relaxed);
	atomic_store_explicit(&rq_takers(rq)->taken, taken_of(rq->moves, 0), memory_order_relaxed);
	atomic_store_explicit(&rq->known, 0, memory_order_relaxed);
	spin_unlock(&rq->lock);
}
