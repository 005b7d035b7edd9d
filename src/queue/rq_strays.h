/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_QUEUE_RQ_STRAYS_H
#define URNIC_QUEUE_RQ_STRAYS_H

/*
 * Strays: taken requests of a shared queue whose slots were reused before the owner knew that they
 * were taken. When a taker claims such a request, the owner finds it here. The header is for the
 * files of this room. Only the owner calls these functions, with the queue locked.
 *
 * Requests become strays because a program may post before it has polled. The table has room for as
 * many strays as the queue has slots, and for RECV_STRAYS_MIN at least. Beyond that the oldest
 * stray is forgotten.
 */

#include "queue/rq_slots.h"

/*
 * The smallest table has room for as many strays as eight request channels have records
 * (local/channel/channel.h). A power of two.
 */
enum { RECV_STRAYS_MIN = 1024 };

struct recv_stray {
	uint32_t taken; /* the request's number, counted from 0 */
	uint32_t next; /* place of the next stray of its chain, counted from 1; 0: none */
	uint32_t is_out;
	uint32_t reserved;
	struct recv_slot slot; /* followed by sge_count_max entries */
};

struct recv_strays {
	uint32_t count; /* room for strays; a power of two */
	uint32_t turn; /* number of strays that were put into the table so far */
	/*
	 * The place of the first stray of each of the `count` chains, by the low bits of the
	 * requests' numbers; 0: none. The strays follow in memory.
	 */
	uint32_t first[];
};

static inline struct recv_strays *rq_strays(const struct recv_queue *rq)
{
	return rq->strays_distance ? (struct recv_strays *)((uintptr_t)rq + rq->strays_distance)
				   : NULL;
}

/*
 * Create the table for a queue with `capacity` slots. Returns its offset, or 0 when the arena is
 * full.
 */
uint64_t rq_strays_create(struct arena *arena, uint32_t capacity, uint32_t stride_bytes);

/* Keep request number `taken`, which is in `slot`, as a stray. */
void rq_stray_put(const struct recv_queue *rq, struct recv_strays *strays,
	const struct recv_slot *slot, uint32_t taken);

/*
 * Take request number `taken` out of the table. Returns false when the request is no stray, or was
 * taken out before.
 */
bool rq_stray_redeem(struct recv_queue *rq, uint32_t taken, struct recv_wqe *ret_wqe);

/* Move all strays to the larger table `to`. */
void rq_strays_move(struct recv_queue *rq, struct recv_strays *to);

/*
 * The slot of request number `taken` is about to be reused or freed. Keep the request as a stray,
 * unless the owner knows that it was taken.
 */
static inline void rq_slot_leave(
	struct recv_queue *rq, const struct recv_slot *slot, uint32_t taken)
{
	struct recv_strays *strays = rq_strays(rq);

	if (strays && slot->is_out)
		rq_stray_put(rq, strays, slot, taken);
}

#endif
