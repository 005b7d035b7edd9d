/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive queues.
 *
 * A receive queue is a ring of receive requests in NIC memory. The application posts at one end,
 * and responders take at the other. A spin lock in the header orders both, so a shared receive
 * queue (queue/srq.h) is the same ring with several takers. A taker copies the request out, which
 * frees its slot at once.
 *
 * The header and the slots are two blocks, so the header stays in place when the queue is resized.
 * The header has the distance to the slots, so a process finds them wherever it maps NIC memory.
 *
 * Other processes may take from a shared queue as well (queue/rq_taker.h). They hold no lock,
 * because a process may be suspended or killed at any time. Instead each process tries to increment
 * the count of taken requests by a compare-and-swap. The process that succeeds has the request. The
 * word with that count also counts moves and resets of the slots, so a taker cannot take a request
 * that it read before a move.
 *
 * A taker may run in another process on another processor (local/channel/channel.h). So the words
 * that takers write have a cache line of their own, on the peers' side of NIC memory
 * (base/arena.h). A taker reads the owner's line only when the queue seems to be empty.
 *
 * Only the owner writes the header and the slots, so the owner trusts them. The takers' line may
 * have any value. If only one queue pair takes from the queue, the owner counts in `known`, and
 * does not read the takers' line. The owner of a shared queue reads the line, and corrects a count
 * that is not between `known` and `posted`. After a correction, some requests may never complete,
 * and two takers may fill the same request. No request completes more than once.
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
	/* Set from the post on, until the owner knows that the request was taken */
	uint32_t is_out;
	struct sge sge[];
};

struct recv_queue {
	/* These fields change seldom or never. */
	uint32_t capacity; /* number of slots, a power of two */
	uint32_t depth; /* the most pending requests, as the program requested */
	uint32_t stride_bytes;
	uint32_t sge_count_max;
	uint32_t is_shared; /* several processes may take from the queue, by compare-and-swap */
	uint32_t keeps_slots; /* slots of taken requests stay in use until rq_know_taken() */
	/* The first take that leaves fewer requests than this raises the signal; 0: off */
	_Atomic uint32_t limit;
	_Atomic uint32_t limit_generation; /* number of times that the limit was set */
	uint64_t slots_distance; /* from this header to the first slot, modulo 2^64 */
	/* From this header to the struct recv_strays; 0: the queue has none */
	uint64_t strays_distance;
	/* The owner writes `posted` and `known` often. */
	alignas(64) struct spin lock;
	_Atomic uint32_t posted;
	/*
	 * The number of taken requests that the owner knows of. Their slots are free for posting.
	 */
	_Atomic uint32_t known;
	uint32_t moves; /* the owner's copy of the high half of `taken` */
};

/*
 * The takers' line: the header's twin on the peers' side. `reserved` keeps the low 12 address bits
 * of `taken` different from those of the header's `capacity` and `slots_distance`. A processor
 * first compares only these bits of the addresses of a load and of the stores before it. If they
 * were equal, a taker's store to `taken` would delay its next loads of those fields.
 */
struct recv_queue_takers {
	uint64_t reserved[8];
	/* Low half: number of requests taken; high half: moves, odd during a move */
	_Atomic uint64_t taken;
	/* The limit_generation of the last limit below which a taker has found the queue. */
	_Atomic uint32_t reported_generation;
};

static inline struct recv_queue_takers *rq_takers(const struct recv_queue *rq)
{
	return (struct recv_queue_takers *)arena_peers_side(rq);
}

/* `depth` is 0 to 2^20. Returns the offset of the queue, or 0 when the arena is full. */
uint64_t rq_create(struct arena *arena, uint32_t depth, uint32_t sge_count_max);

/* rq_create() for a queue that queue pairs of this process and of other processes share. */
uint64_t rq_create_shared(struct arena *arena, uint32_t depth, uint32_t sge_count_max);
void rq_destroy(struct arena *arena, uint64_t offset);

/*
 * Post a request. The caller has checked its sge_count. Returns 0, or -ENOMEM when the queue is
 * full.
 */
int rq_post(struct recv_queue *rq, const struct recv_wr *wr);

/* Take the oldest request into *wqe. Returns false when there is no request. */
bool rq_take(struct recv_queue *rq, struct recv_wqe *wqe);

/*
 * rq_take() for a queue that has a limit. *ret_is_below becomes true when fewer requests than the
 * limit remain, and the limit is turned off (IBTA 10.2.9).
 */
bool rq_take_limited(struct recv_queue *rq, struct recv_wqe *wqe, bool *ret_is_below);

/*
 * Has the queue fallen below its limit, because another process took requests? If so, turns the
 * limit off.
 */
bool rq_is_below_limit(struct recv_queue *rq);

/*
 * Set the limit to 1 to `depth`, or to 0 to turn it off. Returns true when fewer requests than
 * `limit` are pending already; the limit is then off again.
 */
bool rq_set_limit(struct recv_queue *rq, uint32_t limit);

/* The limit; 0 when it is off. */
uint32_t rq_limit(struct recv_queue *rq);

/*
 * Resize the queue to `depth` requests, 1 to 2^20. Pending requests stay, in their order. Any
 * thread may post and take meanwhile. Returns 0; -EINVAL when more than `depth` requests are
 * pending; -ENOMEM.
 */
int rq_resize(struct arena *arena, struct recv_queue *rq, uint32_t depth);

/* The number of requests that were taken so far, modulo 2^32, as the takers' line says. */
static inline uint32_t rq_taken(const struct recv_queue *rq)
{
	return (uint32_t)atomic_load_explicit(&rq_takers(rq)->taken, memory_order_relaxed);
}

/*
 * The word `taken` with one more request counted. The low half does not carry into the high half.
 */
static inline uint64_t rq_taken_next(uint64_t taken)
{
	return (taken & ~(uint64_t)UINT32_MAX) | (uint32_t)(taken + 1);
}

/*
 * The owner has learnt that request number `taken`, counted from 0, was taken. The caller has
 * locked the lane or the queue.
 */
void rq_know_taken(struct recv_queue *rq, uint32_t taken);

/* The number of taken requests that the owner knows of. */
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
 * Is request number `taken`, counted from 0, the next one that rq_know_taken() has to report? For
 * the owner of a queue from which only one queue pair takes.
 */
static inline bool rq_is_next(const struct recv_queue *rq, uint32_t taken)
{
	return taken == rq_known(rq);
}

/*
 * Get the wr_id of request number `taken`, counted from 0, and the total bytes of its
 * scatter/gather list. `taken` may have any value. For the owner of a queue that keeps its slots,
 * or is not shared. Returns false when no such request was posted, or its slot was reused.
 */
bool rq_look_back(
	const struct recv_queue *rq, uint32_t taken, uint64_t *ret_wr_id, uint64_t *ret_bytes);

/*
 * From now on other processes, too, take from the receive queue of a queue pair. The queue then
 * keeps the slot of a taken request until the owner knows, in the order of the requests, that it
 * was taken. (A shared receive queue does not keep the slots, because its requests complete in any
 * order.)
 */
static inline void rq_share(struct recv_queue *rq)
{
	rq->is_shared = 1;
	rq->keeps_slots = 1;
}

/*
 * For the owner of a queue from which other processes take. A taker claims request number `ticket`,
 * which may have any value (rq_peek_borrowed). If the request can have been taken, and this is its
 * first claim, the function returns true and the request.
 */
bool rq_redeem(struct recv_queue *rq, uint64_t ticket, struct recv_wqe *ret_wqe);

void rq_reset(struct recv_queue *rq);

/* The number of pending requests. */
static inline uint32_t rq_count(const struct recv_queue *rq)
{
	return atomic_load_explicit(&rq->posted, memory_order_acquire) - rq_taken(rq);
}

#endif
