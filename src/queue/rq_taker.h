/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_QUEUE_RQ_TAKER_H
#define URNIC_QUEUE_RQ_TAKER_H

/*
 * Takers of a receive queue in other processes (queue/rq.h has the model).
 *
 * A taker first looks at the oldest request, then takes it or leaves it. The queue lies in the
 * `bytes` at `base`; its contents may be anything. `*posted_seen` belongs to the taker, and begins
 * as rq_taken().
 */

#include "queue/rq.h"

/*
 * For a queue's only taker, which is in another process (local/channel/channel.h): copy the oldest
 * request without taking it. False when there is no request.
 */
bool rq_peek(const struct recv_queue *rq, const uint8_t *base, uint64_t bytes,
	uint32_t *posted_seen, struct recv_wqe *wqe);

/* rq_peek() for a taker that needs only the first entry. False also when the list is empty. */
bool rq_peek_first(const struct recv_queue *rq, const uint8_t *base, uint64_t bytes,
	uint32_t *posted_seen, uint64_t *ret_wr_id, struct sge *ret_sge);

/*
 * Peek and take for one of several takers, in any process. wqe->wr_id is the request's number, by
 * which its owner finds it (rq_redeem, rq_look_back), because the owner does not trust a program's
 * wr_id from a taker. rq_take_peeked() with *ret_taken makes the request the caller's. It returns
 * false when another taker was faster, or the slots have moved. Neither checks the limit.
 */
bool rq_peek_borrowed(const struct recv_queue *rq, const uint8_t *base, uint64_t bytes,
	uint32_t *posted_seen, struct recv_wqe *wqe, uint64_t *ret_taken);
bool rq_take_peeked(const struct recv_queue *rq, uint64_t taken);

/* Both at once. True: the oldest request is the caller's. */
bool rq_take_borrowed(
	const struct recv_queue *rq, const uint8_t *base, uint64_t bytes, struct recv_wqe *wqe);

/*
 * Count the request after the first `taken` as taken, unless that was done. The only taker calls
 * this after it has published its record; the owner calls it for a taker that was killed before.
 */
static inline void rq_count_taken(const struct recv_queue *rq, uint32_t taken)
{
	struct recv_queue_takers *takers = rq_takers(rq);
	uint64_t expected = atomic_load_explicit(&takers->taken, memory_order_relaxed);

	if ((uint32_t)expected == taken)
		atomic_compare_exchange_strong(&takers->taken, &expected, rq_taken_next(expected));
}

/*
 * For takers in other processes: are fewer requests left than a limit that is on? True for one
 * taker, which has to wake the owner. The owner then raises the limit event, even if requests were
 * posted meanwhile.
 */
static inline bool rq_note_low(const struct recv_queue *rq)
{
	/* The turn is read before the limit, which is 0 while both change. */
	uint32_t turn = atomic_load(&rq->limit_turn);
	uint32_t limit = atomic_load(&rq->limit);
	uint32_t told = atomic_load_explicit(&rq_takers(rq)->low_turn, memory_order_relaxed);

	if (!limit || told == turn)
		return false;
	if (atomic_load_explicit(&rq->posted, memory_order_acquire) - rq_taken(rq) >= limit)
		return false;
	/*
	 * If the owner has set another limit meanwhile, it has compared that with the count itself.
	 */
	return atomic_compare_exchange_strong(&rq_takers(rq)->low_turn, &told, turn);
}

#endif
