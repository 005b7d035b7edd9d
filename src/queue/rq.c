/* SPDX-License-Identifier: BSD-2-Clause */
#include "queue/rq.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/arith.h"
#include "base/prefetch.h"

static_assert(sizeof(struct recv_queue) == 192, "a cache line for each side");

/* Slots are cache lines: whoever writes one does not take away the next one from who reads it on another processor. */
enum { LINE_BYTES = 64 };

static uint64_t slots_bytes(uint32_t capacity, uint32_t stride_bytes)
{
	return (uint64_t)capacity * stride_bytes;
}

static uint8_t *slots_of(const struct recv_queue *rq)
{
	return (uint8_t *)((uintptr_t)rq + rq->slots_distance);
}

/* `slots` and `capacity` are those of the queue, or those that it is about to get. */
static struct recv_slot *slot_in(
	const struct recv_queue *rq, uint8_t *slots, uint32_t capacity, uint32_t index)
{
	return (struct recv_slot *)(void *)(slots +
		(uint64_t)(index & (capacity - 1)) * rq->stride_bytes);
}

static struct recv_slot *slot_at(const struct recv_queue *rq, uint32_t index)
{
	return slot_in(rq, slots_of(rq), rq->capacity, index);
}

static uint64_t slots_offset(const struct arena *arena, const struct recv_queue *rq)
{
	return arena_offset(arena, rq) + rq->slots_distance;
}

uint64_t rq_create(struct arena *arena, uint32_t depth, uint32_t sge_count_max)
{
	uint32_t capacity = pow2_ceil_u32(max_u32(depth, 1));
	uint32_t stride_bytes = (uint32_t)align_up_u64(
		sizeof(struct recv_slot) + sge_count_max * sizeof(struct sge), LINE_BYTES);
	uint64_t offset, slots;

	assert(sge_count_max <= SGE_COUNT_MAX);
	offset = arena_alloc(arena, sizeof(struct recv_queue));
	if (!offset)
		return 0;
	slots = arena_alloc(arena, slots_bytes(capacity, stride_bytes));
	if (!slots) {
		arena_free(arena, offset, sizeof(struct recv_queue));
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

void rq_destroy(struct arena *arena, uint64_t offset)
{
	if (offset) {
		const struct recv_queue *rq = arena_at(arena, offset);

		arena_free(arena, slots_offset(arena, rq),
			slots_bytes(rq->capacity, rq->stride_bytes));
		arena_free(arena, offset, sizeof(struct recv_queue));
	}
}

/*
 * The queue is locked. Has it room? What other processes have taken is looked at when it seems full: their
 * line is not ours.
 */
static bool has_room(struct recv_queue *rq, uint32_t posted)
{
	uint32_t known = atomic_load_explicit(&rq->known, memory_order_acquire);

	if (posted - known < rq->depth)
		return true;
	known = (uint32_t)atomic_load_explicit(&rq->taken, memory_order_acquire);
	atomic_store_explicit(&rq->known, known, memory_order_relaxed);
	return posted - known < rq->depth;
}

int rq_post(struct recv_queue *rq, const struct recv_wr *wr)
{
	int error = 0;

	spin_lock(&rq->lock);
	uint32_t posted = atomic_load_explicit(&rq->posted, memory_order_relaxed);
	if (!has_room(rq, posted)) {
		error = -ENOMEM;
	} else {
		struct recv_slot *slot = slot_at(rq, posted);

		slot->wr_id = wr->wr_id;
		slot->sge_count = wr->sge_count;
		for (uint32_t i = 0; i < wr->sge_count; i++)
			slot->sge[i] = wr->sge[i];
		atomic_store_explicit(&rq->posted, posted + 1, memory_order_release);
	}
	spin_unlock(&rq->lock);
	return error;
}

/* A slot that a taker on another processor has read is long in coming back: it is sent for now, not when it is posted to. */
void rq_know_taken(struct recv_queue *rq, uint32_t taken)
{
	atomic_store_explicit(&rq->known, taken + 1, memory_order_release);
	prefetch_to_write(slot_at(rq, taken));
}

static void slot_copy(struct recv_wqe *wqe, const struct recv_slot *slot, uint32_t sge_count)
{
	wqe->wr_id = slot->wr_id;
	wqe->sge_count = sge_count;
	for (uint32_t i = 0; i < sge_count; i++)
		wqe->sge[i] = slot->sge[i];
	wqe->total_bytes = sge_total_bytes(wqe->sge, sge_count);
}

/* The queue is locked: only takers in other processes may be faster. */
static bool take(struct recv_queue *rq, struct recv_wqe *wqe)
{
	uint64_t taken = atomic_load_explicit(&rq->taken, memory_order_relaxed);
	const struct recv_slot *slot;

	do {
		if (atomic_load_explicit(&rq->posted, memory_order_acquire) == (uint32_t)taken)
			return false;
		slot = slot_at(rq, (uint32_t)taken);
		slot_copy(wqe, slot, slot->sge_count);
	} while (!atomic_compare_exchange_weak_explicit(&rq->taken, &taken, rq_taken_next(taken),
		memory_order_acq_rel, memory_order_relaxed));
	rq_know_taken(rq, (uint32_t)taken);
	return true;
}

/* The slot at `taken`, if it is one of these bytes. */
static const struct recv_slot *slot_afar(
	const struct recv_queue *rq, const uint8_t *base, uint64_t bytes, uint32_t taken)
{
	const struct recv_slot *slot = slot_at(rq, taken);
	uint64_t start = (uint64_t)((const uint8_t *)slot - base);

	return range_inside(start, sizeof(*slot) + SGE_COUNT_MAX * sizeof(struct sge), 0, bytes)
		? slot
		: NULL;
}

/* Has one been posted that was not taken? `*seen` is what the taker knows of those posted. */
static bool has_posted(const struct recv_queue *rq, uint32_t taken, uint32_t *seen)
{
	if ((int32_t)(*seen - taken) <= 0)
		*seen = atomic_load_explicit(&rq->posted, memory_order_acquire);
	return (int32_t)(*seen - taken) > 0;
}

/* The oldest request, which is the caller's to take; NULL when there is none. */
static const struct recv_slot *slot_peek(
	const struct recv_queue *rq, const uint8_t *base, uint64_t bytes, uint32_t *posted_seen)
{
	uint32_t taken = rq_taken(rq);

	return has_posted(rq, taken, posted_seen) ? slot_afar(rq, base, bytes, taken) : NULL;
}

bool rq_peek(const struct recv_queue *rq, const uint8_t *base, uint64_t bytes,
	uint32_t *posted_seen, struct recv_wqe *wqe)
{
	const struct recv_slot *slot = slot_peek(rq, base, bytes, posted_seen);
	uint32_t sge_count;

	if (!slot)
		return false;
	sge_count = __atomic_load_n(&slot->sge_count, __ATOMIC_RELAXED);
	if (sge_count > SGE_COUNT_MAX)
		return false;
	slot_copy(wqe, slot, sge_count);
	__builtin_prefetch(slot_at(rq, rq_taken(rq) + 1));
	return true;
}

bool rq_peek_first(const struct recv_queue *rq, const uint8_t *base, uint64_t bytes,
	uint32_t *posted_seen, uint64_t *ret_wr_id, struct sge *ret_sge)
{
	const struct recv_slot *slot = slot_peek(rq, base, bytes, posted_seen);

	if (!slot || !slot->sge_count)
		return false;
	*ret_wr_id = slot->wr_id;
	/* Read once: it may change. */
	ret_sge->address = __atomic_load_n(&slot->sge[0].address, __ATOMIC_RELAXED);
	ret_sge->bytes = __atomic_load_n(&slot->sge[0].bytes, __ATOMIC_RELAXED);
	ret_sge->lkey = __atomic_load_n(&slot->sge[0].lkey, __ATOMIC_RELAXED);
	__builtin_prefetch(slot_at(rq, rq_taken(rq) + 1));
	return true;
}

bool rq_peek_afar(const struct recv_queue *rq, const uint8_t *base, uint64_t bytes,
	uint32_t *posted_seen, struct recv_wqe *wqe, uint64_t *ret_taken)
{
	uint64_t taken = atomic_load_explicit(&rq->taken, memory_order_acquire);
	const struct recv_slot *slot;
	uint32_t sge_count;

	if ((taken >> 32) & 1) /* its owner has stopped, or is about to be done */
		return false;
	if (!has_posted(rq, (uint32_t)taken, posted_seen))
		return false;
	slot = slot_afar(rq, base, bytes, (uint32_t)taken);
	if (!slot)
		return false;
	/* Read once: it may change until it is known that nobody else had the slot. */
	sge_count = __atomic_load_n(&slot->sge_count, __ATOMIC_RELAXED);
	if (sge_count > SGE_COUNT_MAX)
		return false;
	slot_copy(wqe, slot, sge_count);
	*ret_taken = taken;
	return true;
}

/* Whatever was read is forgotten if this fails. */
bool rq_take_peeked(struct recv_queue *rq, uint64_t taken)
{
	return atomic_compare_exchange_strong(&rq->taken, &taken, rq_taken_next(taken));
}

bool rq_take_afar(struct recv_queue *rq, const uint8_t *base, uint64_t bytes, struct recv_wqe *wqe)
{
	uint32_t posted_seen = rq_taken(rq);
	uint64_t taken;

	while (rq_peek_afar(rq, base, bytes, &posted_seen, wqe, &taken))
		if (rq_take_peeked(rq, taken))
			return true;
	return false;
}

bool rq_take(struct recv_queue *rq, struct recv_wqe *wqe)
{
	bool has_one;

	spin_lock(&rq->lock);
	has_one = take(rq, wqe);
	spin_unlock(&rq->lock);
	return has_one;
}

/* The queue is locked. Turns the limit off when the queue is below it. */
static bool is_below(struct recv_queue *rq)
{
	if (rq_count(rq) >= atomic_load_explicit(&rq->limit, memory_order_relaxed))
		return false;
	atomic_store_explicit(&rq->limit, 0, memory_order_relaxed);
	return true;
}

bool rq_take_limited(struct recv_queue *rq, struct recv_wqe *wqe, bool *ret_is_below)
{
	bool has_one;

	spin_lock(&rq->lock);
	has_one = take(rq, wqe);
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
	atomic_store(&rq->limit, limit); /* before the requests are counted: see rq_note_low() */
	is_below_now = is_below(rq);
	spin_unlock(&rq->lock);
	return is_below_now;
}

uint32_t rq_limit(struct recv_queue *rq)
{
	uint32_t limit;

	spin_lock(&rq->lock);
	limit = atomic_load_explicit(&rq->limit, memory_order_relaxed);
	spin_unlock(&rq->lock);
	return limit & RQ_LIMIT_PASSED ? 0 : limit;
}

/*
 * The queue is locked. Moves the requests that wait to other slots. Meanwhile, and with what he has read before, nobody
 * takes any.
 */
static void slots_move(struct recv_queue *rq, uint8_t *slots, uint32_t capacity)
{
	uint32_t posted = atomic_load_explicit(&rq->posted, memory_order_relaxed);

	atomic_fetch_add(&rq->taken, 1ull << 32);
	for (uint32_t i = rq_taken(rq); i != posted; i++)
		memcpy(slot_in(rq, slots, capacity, i), slot_at(rq, i), rq->stride_bytes);
	rq->slots_distance = (uintptr_t)slots - (uintptr_t)rq;
	rq->capacity = capacity;
	atomic_fetch_add(&rq->taken, 1ull << 32);
}

int rq_resize(struct arena *arena, struct recv_queue *rq, uint32_t depth)
{
	uint32_t old_capacity = rq->capacity;
	uint32_t capacity = pow2_ceil_u32(depth);
	uint64_t old_slots = slots_offset(arena, rq);
	uint64_t slots = old_slots;
	int error = 0;

	if (capacity != old_capacity) {
		slots = arena_alloc(arena, slots_bytes(capacity, rq->stride_bytes));
		if (!slots)
			return -ENOMEM;
		/* Fresh pages come now, not to somebody who holds the lock. */
		memset(arena_at(arena, slots), 0, slots_bytes(capacity, rq->stride_bytes));
	}
	spin_lock(&rq->lock);
	if (rq_count(rq) > depth) {
		error = -EINVAL;
	} else {
		if (slots != old_slots)
			slots_move(rq, arena_at(arena, slots), capacity);
		rq->depth = depth;
	}
	spin_unlock(&rq->lock);
	if (slots != old_slots)
		arena_free(arena, error ? slots : old_slots,
			slots_bytes(error ? capacity : old_capacity, rq->stride_bytes));
	return error;
}

/* What others have read before is not theirs to take (rq_take_peeked). */
void rq_reset(struct recv_queue *rq)
{
	uint64_t moves;

	spin_lock(&rq->lock);
	moves = atomic_load_explicit(&rq->taken, memory_order_relaxed) >> 32;
	atomic_store_explicit(&rq->posted, 0, memory_order_relaxed);
	atomic_store_explicit(&rq->taken, (moves + 2) << 32, memory_order_relaxed);
	atomic_store_explicit(&rq->known, 0, memory_order_relaxed);
	spin_unlock(&rq->lock);
}
