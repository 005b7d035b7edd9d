/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_QUEUE_RQ_SLOTS_H
#define URNIC_QUEUE_RQ_SLOTS_H

/*
 * The slots of a receive queue, for the files of this room. rq.c is the owner's code, rq_taker.c
 * that of takers in other processes. rq_strays.c keeps taken requests whose slots were reused.
 */

#include "base/arith.h"
#include "queue/rq.h"

/*
 * A slot fills whole cache lines. So a store to one slot does not evict the next slot from the
 * cache of the processor that reads that slot.
 */
enum { RQ_LINE_BYTES = 64 };

static inline uint64_t rq_slots_bytes(uint32_t capacity, uint32_t stride_bytes)
{
	return (uint64_t)capacity * stride_bytes;
}

static inline uint8_t *rq_slots(const struct recv_queue *rq)
{
	return (uint8_t *)((uintptr_t)rq + rq->slots_distance);
}

/* `slots` and `capacity` are those of the queue, or those that it will have after a resize. */
static inline struct recv_slot *rq_slot_in(
	const struct recv_queue *rq, uint8_t *slots, uint32_t capacity, uint32_t index)
{
	return (struct recv_slot *)(void *)(slots +
		(uint64_t)(index & (capacity - 1)) * rq->stride_bytes);
}

static inline struct recv_slot *rq_slot_at(const struct recv_queue *rq, uint32_t index)
{
	return rq_slot_in(rq, rq_slots(rq), rq->capacity, index);
}

static inline void rq_slot_copy(
	struct recv_wqe *wqe, const struct recv_slot *slot, uint32_t sge_count)
{
	wqe->wr_id = slot->wr_id;
	wqe->sge_count = sge_count;
	for (uint32_t i = 0; i < sge_count; i++)
		wqe->sge[i] = slot->sge[i];
	wqe->total_bytes = sge_total_bytes(wqe->sge, sge_count);
}

/*
 * How many compare-and-swaps in a row may fail because takers in other processes have changed the
 * count first. After that the queue counts as empty, because a taker that misbehaves must not cause
 * an endless loop.
 */
enum { RQ_FASTER_MAX = 1000 };

#endif
