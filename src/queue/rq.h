/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive queues.
 *
 * A ring of receive requests in NIC memory. The application posts at one end, responders take from
 * the other. A spin lock in the block orders both, so a shared receive queue (queue/srq.h) is the
 * same ring with several takers. A taken request is copied out, which frees its slot at once.
 *
 * Header and slots are two blocks, so a resized queue keeps its place. The header has the distance
 * to the slots, so a process can find them wherever it maps NIC memory.
 *
 * Other processes may take from a shared queue as well (queue/rq_taker.h). They hold no lock,
 * because a process may be stopped or killed at any moment. The process whose compare-and-swap
 * increments the count has the request. The count also has the number of moves and resets of the
 * slots, so a taker cannot take a request that it read before a move.
 *
 * The taker may be another process on another processor (local/channel/channel.h). It has a cache
 * line of its own, on the peers' side of NIC memory (base/arena.h). It reads the owner's line only
 * when the queue seems to be empty.
 *
 * The owner writes header and slots, so it trusts them; the takers' line may say anything. The
 * owner of a queue with one taking queue pair has its own count in `known`, and does not read that
 * line. The owner of a shared queue corrects a count that is not between `known` and `posted`.
 * Requests may be lost by that, or be filled by two takers; each completes once at most.
 */
#ifndef URNIC_QUEUE_RQ_H
#define URNIC_QUEUE_RQ_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/spin.h"
#include "memory/copy.h"

/* The most scatter/gather entries that any queue is created for. */
#define SGE_COUNT_MAX 32

struct recv_wr {
	uint64_t wr_id;
	const struct sge *sge;
	uint32_t sge_count;
};

/* A receive request that a responder has taken. */
struct recv_wqe {
	uint64_t wr_id;
	uint64_t total_bytes;
	uint32_t sge_count;
	struct sge sge[SGE_COUNT_MAX];
};

struct recv_slot {
	uint64_t wr_id;
	uint32_t sge_count;
	/* Of a shared queue: the owner does not know yet that the request was taken. */
	uint32_t is_out;
	struct sge sge[];
};

struct recv_queue {
	/* Changes seldom or never. */
	uint32_t capacity; /* slots: a power of two */
	uint32_t depth; /* requests that the user requested room for */
	uint32_t stride_bytes;
	uint32_t sge_count_max;
	uint32_t is_shared; /* several processes take from it, each by a compare-and-swap */
	uint32_t keeps_slots; /* of taken requests, until rq_know_taken() */
	_Atomic uint32_t limit; /* a take that leaves fewer requests signals, once; 0: off */
	_Atomic uint32_t limit_turn; /* how often the limit was set */
	uint64_t slots_distance; /* from this header to the first slot, modulo 2^64 */
	uint64_t strays_distance; /* to the struct recv_strays; 0: there are none */
	/* The owner's. */
	alignas(64) struct spin lock;
	_Atomic uint32_t posted;
	/* Taken requests that the owner knows of, whose slots are free for posting. */
	_Atomic uint32_t known;
	uint32_t moves; /* the high half of `taken` */
};

/*
 * On the peers' side, at the header's place. `taken` must not have the low address bits of capacity
 * and distance, which takers read next: a processor would mistake the store for those for a moment.
 */
struct recv_queue_takers {
	uint64_t reserved[8];
	_Atomic uint64_t taken; /* the low half counts; the high half is odd while slots move */
	/* The limit_turn of the limit that was last found to be passed. */
	_Atomic uint32_t low_turn;
};

static inline struct recv_queue_takers *rq_takers(const struct recv_queue *rq)
{
	return (struct recv_queue_takers *)arena_peers_side(rq);
}

/* `depth` is 0 to 2^20. Returns the offset of the queue, or 0 when the arena is full. */
uint64_t rq_create(struct arena *arena, uint32_t depth, uint32_t sge_count_max);

/* rq_create() for a queue that queue pairs of this process and others share. */
uint64_t rq_create_shared(struct arena *arena, uint32_t depth, uint32_t sge_count_max);
void rq_destroy(struct arena *arena, uint64_t offset);

/* Post a request whose sge_count was checked. Returns 0, or -ENOMEM when the queue is full. */
int rq_post(struct recv_queue *rq, const struct recv_wr *wr);

/* Take the oldest request into *wqe. False when there is none. */
bool rq_take(struct recv_queue *rq, struct recv_wqe *wqe);

/*
 * rq_take() for a queue that has a limit. *ret_is_below becomes true when fewer requests than the
 * limit remain; the limit is then off (IBTA 10.2.9).
 */
bool rq_take_limited(struct recv_queue *rq, struct recv_wqe *wqe, bool *ret_is_below);

/* Is the limit passed, because another process took requests? The limit is then off. */
bool rq_is_below_limit(struct recv_queue *rq);

/*
 * Set the limit, 1 to depth, or 0 to turn it off. True when fewer requests are pending already; the
 * limit is then off again.
 */
bool rq_set_limit(struct recv_queue *rq, uint32_t limit);

/* The limit; 0 when it is off. */
uint32_t rq_limit(struct recv_queue *rq);

/*
 * Change the room to `depth` requests, 1 to 2^20; pending requests stay, in their order. Any thread
 * may post and take meanwhile. Returns 0; -EINVAL when more than `depth` are pending; -ENOMEM.
 */
int rq_resize(struct arena *arena, struct recv_queue *rq, uint32_t depth);

/* How many requests were taken so far. */
static inline uint32_t rq_taken(const struct recv_queue *rq)
{
	return (uint32_t)atomic_load_explicit(&rq_takers(rq)->taken, memory_order_relaxed);
}

/* `taken` with one more request: the low half does not carry into the high one. */
static inline uint64_t rq_taken_next(uint64_t taken)
{
	return (taken & ~(uint64_t)UINT32_MAX) | (uint32_t)(taken + 1);
}

/*
 * The owner has learnt that another process took request number `taken`, counted from 0. The lane
 * is locked.
 */
void rq_know_taken(struct recv_queue *rq, uint32_t taken);

/* How many taken requests the owner knows of. */
static inline uint32_t rq_known(const struct recv_queue *rq)
{
	return atomic_load_explicit(&rq->known, memory_order_relaxed);
}

/* For the owner: is `taken` a possible count of taken requests? */
static inline bool rq_may_be_taken(const struct recv_queue *rq, uint32_t taken)
{
	return taken - rq_known(rq) <=
		atomic_load_explicit(&rq->posted, memory_order_acquire) - rq_known(rq);
}

/* For the owner: correct an impossible count of taken requests. */
void rq_mend(struct recv_queue *rq);

/*
 * For the owner of a queue that is not shared: is the request after the first `taken` the next one
 * that rq_know_taken() has to report?
 */
static inline bool rq_is_next(const struct recv_queue *rq, uint32_t taken)
{
	return taken == rq_known(rq);
}

/*
 * Get the wr_id, and the bytes of the list, of the request that was taken after the first `taken`
 * ones. For the owner of a queue that keeps its slots, or is not shared; `taken` may have any
 * value. False when that request was not posted, or its slot was reused.
 */
bool rq_look_back(
	const struct recv_queue *rq, uint32_t taken, uint64_t *ret_wr_id, uint64_t *ret_bytes);

/*
 * From now on other processes take from the queue of a queue pair, too. The queue then keeps the
 * slots of taken requests until the owner knows of them, in the order of the requests. (A shared
 * receive queue does not keep them, because its requests complete in any order.)
 */
static inline void rq_share(struct recv_queue *rq)
{
	rq->is_shared = 1;
	rq->keeps_slots = 1;
}

/*
 * For the owner of a queue from which others take. A taker claims the request of number `ticket`,
 * which may have any value (rq_peek_borrowed). Returns true, and the request, for the first
 * plausible claim of it.
 */
bool rq_redeem(struct recv_queue *rq, uint64_t ticket, struct recv_wqe *ret_wqe);

void rq_reset(struct recv_queue *rq);

/* Pending requests. */
static inline uint32_t rq_count(const struct recv_queue *rq)
{
	return atomic_load_explicit(&rq->posted, memory_order_acquire) - rq_taken(rq);
}

#endif
