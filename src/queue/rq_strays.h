/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_QUEUE_RQ_STRAYS_H
#define URNIC_QUEUE_RQ_STRAYS_H

/*
 * Strays: taken requests of a shared queue whose slots were reused before the owner knew of it. The
 * owner finds the request of a taker's claim here. For the files of this room; the queue is locked
 * for all calls, and its owner calls.
 *
 * A program may post before it has polled. So there is room for as many as the queue has slots, and
 * for RECV_STRAYS_MIN at least; beyond that the oldest is forgotten.
 */

#include "queue/rq_slots.h"

/* A power of two: the records of eight request channels (local/channel/channel.h). */
enum { RECV_STRAYS_MIN = 1024 };

struct recv_stray {
	uint32_t taken; /* its number */
	uint32_t next; /* next of its chain, counted from 1; 0: none */
	uint32_t is_out;
	uint32_t reserved;
	struct recv_slot slot; /* with room for all entries */
};

struct recv_strays {
	uint32_t count; /* a power of two */
	uint32_t turn; /* place of the next stray */
	/* A chain for each value of the low bits of the numbers, `count` in all. Strays follow. */
	uint32_t first[];
};

static inline struct recv_strays *rq_strays(const struct recv_queue *rq)
{
	return rq->strays_distance ? (struct recv_strays *)((uintptr_t)rq + rq->strays_distance)
				   : NULL;
}

/* Returns the offset of the strays of a queue of this capacity, or 0. */
uint64_t rq_strays_create(struct arena *arena, uint32_t capacity, uint32_t stride_bytes);

/* Keep the request `taken` of `slot`. */
void rq_stray_put(const struct recv_queue *rq, struct recv_strays *strays,
	const struct recv_slot *slot, uint32_t taken);

/* Take the request out. False: it is no stray, or was taken out before. */
bool rq_stray_redeem(struct recv_queue *rq, uint32_t taken, struct recv_wqe *ret_wqe);

/* Move the known strays to a larger table. */
void rq_strays_move(struct recv_queue *rq, struct recv_strays *to);

/*
 * The slot of request `taken` is about to be reused or freed: keep the request as a stray, unless
 * its completion is known.
 */
static inline void rq_slot_leave(
	struct recv_queue *rq, const struct recv_slot *slot, uint32_t taken)
{
	struct recv_strays *strays = rq_strays(rq);

	if (strays && slot->is_out)
		rq_stray_put(rq, strays, slot, taken);
}

#endif
