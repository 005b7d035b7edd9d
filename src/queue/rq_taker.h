/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_QUEUE_RQ_TAKER_H
#define URNIC_QUEUE_RQ_TAKER_H

/*
 * Takers of a receive queue in other processes (queue/rq.h has the model).
 *
 * A taker first peeks at the oldest request, then takes it or leaves it. The queue lies in the
 * `bytes` bytes at `base`; its contents may be anything. `*posted_seen` caches the queue's `posted`
 * for the taker. The taker keeps it between calls, and sets it to rq_taken() before its first call.
 */

#include "queue/rq.h"

/*
 * Copy the oldest request without taking it. For the only taker of a queue, which is in another
 * process (local/channel/channel.h). Returns false when there is no request.
 */
bool rq_peek(const struct recv_queue *rq, const uint8_t *base, uint64_t bytes,
	uint32_t *posted_seen, struct recv_wqe *wqe);

/*
 * rq_peek() for a taker that needs only the first scatter/gather entry. Returns false also when the
 * list is empty.
 */
bool rq_peek_first(const struct recv_queue *rq, const uint8_t *base, uint64_t bytes,
	uint32_t *posted_seen, uint64_t *ret_wr_id, struct sge *ret_sge);

/*
 * Peek and take for one of several takers, in any process. rq_peek_borrowed() sets wqe->wr_id to
 * the request's number, because the owner does not trust a wr_id that a taker reports. By the
 * number the owner finds the request (rq_redeem, rq_look_back).
 *
 * rq_take_peeked() with *ret_taken as `taken` makes the request the caller's. It returns false when
 * another taker has taken the request, or the slots have moved. Neither function checks the queue's
 * limit.
 */
bool rq_peek_borrowed(const struct recv_queue *rq, const uint8_t *base, uint64_t bytes,
	uint32_t *posted_seen, struct recv_wqe *wqe, uint64_t *ret_taken);
bool rq_take_peeked(const struct recv_queue *rq, uint64_t taken);

/* Peek and take in one call. Returns true when the oldest request is now the caller's. */
bool rq_take_borrowed(
	const struct recv_queue *rq, const uint8_t *base, uint64_t bytes, struct recv_wqe *wqe);

/*
 * Count request number `taken` as taken, unless it is counted already. The queue's only taker calls
 * this after it has published its record. If the taker was killed before that, the owner calls it.
 */
static inline void rq_count_taken(const struct recv_queue *rq, uint32_t taken)
{
	struct recv_queue_takers *takers = rq_takers(rq);
	uint64_t expected = atomic_load_explicit(&takers->taken, memory_order_relaxed);

	if ((uint32_t)expected == taken)
		atomic_compare_exchange_strong(&takers->taken, &expected, rq_taken_next(expected));
}

/*
 * For takers in other processes: is the limit on, and do fewer requests than the limit remain?
 * Returns true to only one taker, which then has to wake the owner. The owner then raises the limit
 * event, even if requests were posted meanwhile.
 */
static inline bool rq_note_low(const struct recv_queue *rq)
{
	/*
	 * Read limit_generation before the limit, because the limit is 0 while the owner changes
	 * both.
	 */
	uint32_t turn = atomic_load(&rq->limit_generation);
	uint32_t limit = atomic_load(&rq->limit);
	uint32_t told =
		atomic_load_explicit(&rq_takers(rq)->reported_generation, memory_order_relaxed);

	if (!limit || told == turn)
		return false;
	if (atomic_load_explicit(&rq->posted, memory_order_acquire) - rq_taken(rq) >= limit)
		return false;
	/*
	 * If the owner has set another limit meanwhile, the owner itself has compared the new limit
	 * with the count of requests.
	 */
	return atomic_compare_exchange_strong(&rq_takers(rq)->reported_generation, &told, turn);
}

#endif
