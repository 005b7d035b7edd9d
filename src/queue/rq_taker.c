/* SPDX-License-Identifier: BSD-2-Clause */
#include "queue/rq_taker.h"

#include "queue/rq_slots.h"

/*
 * The slot of request number `taken`; NULL when its address is misaligned, or when it does not lie
 * in the `bytes` bytes at `base`.
 */
static const struct recv_slot *slot_borrowed(
	const struct recv_queue *rq, const uint8_t *base, uint64_t bytes, uint32_t taken)
{
	const struct recv_slot *slot = rq_slot_at(rq, taken);
	uint64_t start = (uint64_t)((const uint8_t *)slot - base);

	return start % alignof(struct recv_slot) == 0 &&
			range_inside(
				start, sizeof(*slot) + SGE_COUNT_MAX * sizeof(struct sge), 0, bytes)
		? slot
		: NULL;
}

/*
 * Is there a request that was posted and not taken? `*seen` caches the queue's `posted` for the
 * taker.
 */
static bool has_posted(const struct recv_queue *rq, uint32_t taken, uint32_t *seen)
{
	if ((int32_t)(*seen - taken) <= 0)
		*seen = atomic_load_explicit(&rq->posted, memory_order_acquire);
	return (int32_t)(*seen - taken) > 0;
}

/* The slot of the oldest request that is not taken; NULL when there is none. */
static const struct recv_slot *slot_peek(
	const struct recv_queue *rq, const uint8_t *base, uint64_t bytes, uint32_t *posted_seen)
{
	uint32_t taken = rq_taken(rq);

	return has_posted(rq, taken, posted_seen) ? slot_borrowed(rq, base, bytes, taken) : NULL;
}

/*
 * Copy the slot. Reads sge_count once, because another process may change it. Returns false when
 * sge_count is impossible.
 */
static bool slot_copy_checked(struct recv_wqe *wqe, const struct recv_slot *slot)
{
	uint32_t sge_count = __atomic_load_n(&slot->sge_count, __ATOMIC_RELAXED);

	if (sge_count > SGE_COUNT_MAX)
		return false;
	rq_slot_copy(wqe, slot, sge_count);
	return true;
}

bool rq_peek(const struct recv_queue *rq, const uint8_t *base, uint64_t bytes,
	uint32_t *posted_seen, struct recv_wqe *wqe)
{
	const struct recv_slot *slot = slot_peek(rq, base, bytes, posted_seen);

	if (!slot || !slot_copy_checked(wqe, slot))
		return false;
	__builtin_prefetch(rq_slot_at(rq, rq_taken(rq) + 1));
	return true;
}

bool rq_peek_first(const struct recv_queue *rq, const uint8_t *base, uint64_t bytes,
	uint32_t *posted_seen, uint64_t *ret_wr_id, struct sge *ret_sge)
{
	const struct recv_slot *slot = slot_peek(rq, base, bytes, posted_seen);

	if (!slot || !slot->sge_count)
		return false;
	*ret_wr_id = slot->wr_id;
	/* Read each field once, because another process may change it. */
	ret_sge->address = __atomic_load_n(&slot->sge[0].address, __ATOMIC_RELAXED);
	ret_sge->bytes = __atomic_load_n(&slot->sge[0].bytes, __ATOMIC_RELAXED);
	ret_sge->lkey = __atomic_load_n(&slot->sge[0].lkey, __ATOMIC_RELAXED);
	__builtin_prefetch(rq_slot_at(rq, rq_taken(rq) + 1));
	return true;
}

bool rq_peek_borrowed(const struct recv_queue *rq, const uint8_t *base, uint64_t bytes,
	uint32_t *posted_seen, struct recv_wqe *wqe, uint64_t *ret_taken)
{
	uint64_t taken = atomic_load_explicit(&rq_takers(rq)->taken, memory_order_acquire);
	const struct recv_slot *slot;

	if ((taken >> 32) & 1) /* the owner moves the slots at this moment */
		return false;
	if (!has_posted(rq, (uint32_t)taken, posted_seen))
		return false;
	slot = slot_borrowed(rq, base, bytes, (uint32_t)taken);
	/* The slot may change until rq_take_peeked() has succeeded. */
	if (!slot || !slot_copy_checked(wqe, slot))
		return false;
	wqe->wr_id = (uint32_t)taken;
	*ret_taken = taken;
	return true;
}

/* When this returns false, the caller discards the request that it has copied. */
bool rq_take_peeked(const struct recv_queue *rq, uint64_t taken)
{
	return atomic_compare_exchange_strong(&rq_takers(rq)->taken, &taken, rq_taken_next(taken));
}

bool rq_take_borrowed(
	const struct recv_queue *rq, const uint8_t *base, uint64_t bytes, struct recv_wqe *wqe)
{
	uint32_t posted_seen = rq_taken(rq);
	uint64_t taken;

	for (uint32_t attempt = 0; attempt < RQ_FASTER_MAX; attempt++) {
		if (!rq_peek_borrowed(rq, base, bytes, &posted_seen, wqe, &taken))
			return false;
		if (rq_take_peeked(rq, taken))
			return true;
	}
	return false;
}
