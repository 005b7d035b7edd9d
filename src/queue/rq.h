/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive queues.
 *
 * A ring of receive requests in NIC memory. The application posts at one end, responders take from
 * the other; a spin lock in the block orders both, so that a shared receive queue (queue/srq.h) is
 * the same thing with several takers. A taken request is copied out: its slot is free at once.
 *
 * Header and slots are two blocks, so that a queue that is resized keeps its place. The header says
 * how far away the slots are; whoever maps NIC memory, wherever, can follow.
 *
 * Other processes may take from a shared one as well (rq_take_borrowed). They hold no lock, because
 * they may be stopped or killed at any moment: who counts a request as taken, by one
 * compare-and-swap, has it. The count is told apart by how often the slots have moved, or the queue
 * was reset, so that nobody takes what he has read while they did.
 *
 * Who takes may be another process, on another processor (local/channel.h). It has a cache line of
 * its own, on the peers' side of NIC memory (base/arena.h), and looks at the owner's only when the
 * queue seems to be empty.
 *
 * Header and slots are the owner's, so what they say is true for the owner. The takers' line may
 * say anything. The owner of a queue that no other queue pair takes from has its own count in
 * `known`, and does not read that line. For a shared one, a count that is not between `known` and
 * `posted` is put right. By that, requests may be lost, or be filled by two takers; each completes
 * once at most.
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
	uint32_t is_out; /* of a shared queue: the owner has not heard that the request was taken */
	struct sge sge[];
};

/*
 * Requests of a shared queue that were taken, and whose slots have been used again before the owner
 * heard of it: as many as the queue has slots, and RECV_STRAYS_MIN at least, as a program may post
 * before it has polled. Then the oldest is forgotten. Found by number: `first` has a chain for each
 * value of its low bits.
 */
enum { RECV_STRAYS_MIN = 1024 }; /* a power of two: what eight peers may be ahead of the owner */

struct recv_stray {
	uint32_t taken; /* its number */
	uint32_t next; /* the next one of its chain, counted from 1; 0: none */
	uint32_t is_out;
	uint32_t reserved;
	struct recv_slot slot; /* with room for a whole one */
};

struct recv_strays {
	uint32_t count; /* a power of two */
	uint32_t turn; /* the place of the next one */
	uint32_t first[]; /* `count` of them; behind them the strays */
};

struct recv_queue {
	/* What seldom changes, or never. */
	uint32_t capacity; /* slots: a power of two */
	uint32_t depth; /* requests it holds: what the user asked for */
	uint32_t stride_bytes;
	uint32_t sge_count_max;
	uint32_t is_shared; /* several take from it, each by a compare-and-swap */
	uint32_t keeps_slots; /* of what was taken, until the owner hears of it (rq_know_taken) */
	_Atomic uint32_t limit; /* a take that leaves fewer requests tells, once; 0: none tells */
	_Atomic uint32_t limit_turn; /* how often the limit was set */
	uint64_t slots_distance; /* from this header to the first slot, modulo 2^64 */
	uint64_t strays_distance; /* and to the struct recv_strays; 0: there are none */
	/* The owner's. */
	alignas(64) struct spin lock;
	_Atomic uint32_t posted;
	/*
	 * Of those taken, what the owner knows of: a slot is free for posting when its taking is
	 * known.
	 */
	_Atomic uint32_t known;
	uint32_t moves; /* the high half of `taken` */
};

/*
 * On the peers' side, at the header's place. What takers write has not the low address bits of what
 * they read next, capacity and distance: a processor would take the one for the other for a moment.
 */
struct recv_queue_takers {
	uint64_t reserved[8];
	_Atomic uint64_t taken; /* the low half counts; the high one is odd while slots move */
	_Atomic uint32_t
		low_turn; /* the limit_turn of the limit that was last found to be passed */
};

static inline struct recv_queue_takers *rq_takers(const struct recv_queue *rq)
{
	return (struct recv_queue_takers *)arena_peers_side(rq);
}

/* Create a queue in `arena`. `depth` 0 to 2^20; returns its offset, or 0 when the arena is full. */
uint64_t rq_create(struct arena *arena, uint32_t depth, uint32_t sge_count_max);

/* The same for one that queue pairs share, of this process and others. */
uint64_t rq_create_shared(struct arena *arena, uint32_t depth, uint32_t sge_count_max);
void rq_destroy(struct arena *arena, uint64_t offset);

/* Post one request whose sge_count was checked. Returns 0, or -ENOMEM when the queue is full. */
int rq_post(struct recv_queue *rq, const struct recv_wr *wr);

/* Take the oldest request into *wqe. False when there is none. */
bool rq_take(struct recv_queue *rq, struct recv_wqe *wqe);

/*
 * The same for a queue that has a limit. *ret_is_below becomes true when this take has left fewer
 * requests than the limit: it is off then (IBTA 10.2.9).
 */
bool rq_take_limited(struct recv_queue *rq, struct recv_wqe *wqe, bool *ret_is_below);

/*
 * Has the queue fewer requests than its limit, since another process took some? Then the limit is
 * off.
 */
bool rq_is_below_limit(struct recv_queue *rq);

/*
 * Set the limit, 0 to depth, or 0 to turn it off. True when fewer requests wait even now: the limit
 * is off again.
 */
bool rq_set_limit(struct recv_queue *rq, uint32_t limit);

/* The limit; 0 when it is off. */
uint32_t rq_limit(struct recv_queue *rq);

/*
 * Make room for `depth` requests, 1 to 2^20; those that wait stay, in their order. Any thread may
 * post and take meanwhile. Returns 0; -EINVAL when more than `depth` wait; -ENOMEM.
 */
int rq_resize(struct arena *arena, struct recv_queue *rq, uint32_t depth);

/*
 * For a taker in another process, when it is the only one (local/channel.h): copy the oldest
 * request, which is not taken by that. The queue lies in the `bytes` at `base`, but what it says of
 * itself may be anything. `*posted_seen` is the taker's, and begins as rq_taken(). False when there
 * is none.
 */
bool rq_peek(const struct recv_queue *rq, const uint8_t *base, uint64_t bytes,
	uint32_t *posted_seen, struct recv_wqe *wqe);

/* The same for who needs the first entry of its list only. False, too, when it has none. */
bool rq_peek_first(const struct recv_queue *rq, const uint8_t *base, uint64_t bytes,
	uint32_t *posted_seen, uint64_t *ret_wr_id, struct sge *ret_sge);

/*
 * The same for one taker of many, in any process. wqe->wr_id is the request's number, which its
 * owner knows it by (rq_redeem, rq_look_back): what a taker says of the program's own word is not
 * believed. *ret_taken is what rq_take_peeked() needs to make this request the caller's; that says
 * false when somebody else was faster, or the slots have moved. No limit is looked at.
 */
bool rq_peek_borrowed(const struct recv_queue *rq, const uint8_t *base, uint64_t bytes,
	uint32_t *posted_seen, struct recv_wqe *wqe, uint64_t *ret_taken);
bool rq_take_peeked(const struct recv_queue *rq, uint64_t taken);

/* Both at once: the oldest request is the caller's when this returns true. */
bool rq_take_borrowed(
	const struct recv_queue *rq, const uint8_t *base, uint64_t bytes, struct recv_wqe *wqe);

/* How many were ever taken; and to say that this one was, which nobody else has taken. */
static inline uint32_t rq_taken(const struct recv_queue *rq)
{
	return (uint32_t)atomic_load_explicit(&rq_takers(rq)->taken, memory_order_relaxed);
}

/* The same with one more: the count does not carry. */
static inline uint64_t rq_taken_next(uint64_t taken)
{
	return (taken & ~(uint64_t)UINT32_MAX) | (uint32_t)(taken + 1);
}

static inline void rq_count_taken(const struct recv_queue *rq, uint32_t taken)
{
	struct recv_queue_takers *takers = rq_takers(rq);
	uint64_t expected = atomic_load_explicit(&takers->taken, memory_order_relaxed);

	if ((uint32_t)expected == taken)
		atomic_compare_exchange_strong(&takers->taken, &expected, rq_taken_next(expected));
}

/*
 * The owner hears that the request after the first `taken` was taken, by another process. The lane
 * is locked.
 */
void rq_know_taken(struct recv_queue *rq, uint32_t taken);

/* Of those taken, what the owner knows of. */
static inline uint32_t rq_known(const struct recv_queue *rq)
{
	return atomic_load_explicit(&rq->known, memory_order_relaxed);
}

/* For the owner: can it be that so many were taken? */
static inline bool rq_may_be_taken(const struct recv_queue *rq, uint32_t taken)
{
	return taken - rq_known(rq) <=
		atomic_load_explicit(&rq->posted, memory_order_acquire) - rq_known(rq);
}

/* For the owner: put the count of those taken right, if it cannot be. */
void rq_mend(struct recv_queue *rq);

/*
 * For the owner of a queue that is not shared: is the request after the first `taken` the next one
 * whose taking it has to hear of?
 */
static inline bool rq_is_next(const struct recv_queue *rq, uint32_t taken)
{
	return taken == rq_known(rq);
}

/*
 * For the owner of a queue that keeps its slots, or is not shared. What was the request after the
 * first `taken`, any number: *ret_wr_id, and *ret_bytes that its list holds. False when it was not
 * posted, or its slot was used again.
 */
bool rq_look_back(
	const struct recv_queue *rq, uint32_t taken, uint64_t *ret_wr_id, uint64_t *ret_bytes);

/*
 * From here on others take from the queue of a queue pair, too. It keeps the slots of what was
 * taken until the owner hears of it, which it does in the order of the requests. (A shared queue
 * does not: its requests complete in any order.)
 */
static inline void rq_lend(struct recv_queue *rq)
{
	rq->is_shared = 1;
	rq->keeps_slots = 1;
}

/*
 * For the owner of a queue that others take from: somebody says that he has taken the request of
 * this number, which may be any (rq_peek_borrowed). Said once, and true as far as can be known,
 * that gives the request.
 */
bool rq_redeem(struct recv_queue *rq, uint64_t ticket, struct recv_wqe *ret_wqe);

/*
 * Are there fewer requests than the limit, which is on? For takers in other processes: true once,
 * to whom has to wake the owner, who hears of it whatever is posted meanwhile.
 */
static inline bool rq_note_low(const struct recv_queue *rq)
{
	uint32_t turn =
		atomic_load(&rq->limit_turn); /* before the limit, which is 0 while this changes */
	uint32_t limit = atomic_load(&rq->limit);
	uint32_t told = atomic_load_explicit(&rq_takers(rq)->low_turn, memory_order_relaxed);

	if (!limit || told == turn)
		return false;
	if (atomic_load_explicit(&rq->posted, memory_order_acquire) - rq_taken(rq) >= limit)
		return false;
	/* If its owner has set another meanwhile, he has counted the requests then. */
	return atomic_compare_exchange_strong(&rq_takers(rq)->low_turn, &told, turn);
}

/* Forget all requests (reset). */
void rq_reset(struct recv_queue *rq);

/* The requests that wait. */
static inline uint32_t rq_count(const struct recv_queue *rq)
{
	return atomic_load_explicit(&rq->posted, memory_order_acquire) - rq_taken(rq);
}

#endif
