/* SPDX-License-Identifier: BSD-2-Clause */
#include "queue/rq.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/arith.h"

static_assert(sizeof(struct recv_queue) == 64, "slots start on a cache line");

static uint64_t queue_bytes(uint32_t capacity, uint32_t stride_bytes)
{
	return sizeof(struct recv_queue) + (uint64_t)capacity * stride_bytes;
}

static struct recv_slot *slot_at(struct recv_queue *rq, uint32_t index)
{
	uint8_t *slots = (uint8_t *)(rq + 1);

	return (struct recv_slot *)(void *)(slots +
		(uint64_t)(index & (rq->capacity - 1)) * rq->stride_bytes);
}

uint64_t rq_create(struct arena *arena, uint32_t depth, uint32_t sge_count_max)
{
	uint32_t capacity = pow2_ceil_u32(max_u32(depth, 1));
	uint32_t stride_bytes =
		(uint32_t)(sizeof(struct recv_slot) + sge_count_max * sizeof(struct sge));
	uint64_t offset;

	assert(sge_count_max <= SGE_COUNT_MAX);
	offset = arena_alloc(arena, queue_bytes(capacity, stride_bytes));
	if (offset) {
		struct recv_queue *rq = arena_at(arena, offset);

		rq->capacity = capacity;
		rq->depth = depth;
		rq->stride_bytes = stride_bytes;
		rq->sge_count_max = sge_count_max;
	}
	return offset;
}

void rq_destroy(struct arena *arena, uint64_t offset)
{
	if (offset) {
		const struct recv_queue *rq = arena_at(arena, offset);

		arena_free(arena, offset, queue_bytes(rq->capacity, rq->stride_bytes));
	}
}

int rq_post(struct recv_queue *rq, const struct recv_wr *wr)
{
	int error = 0;

	spin_lock(&rq->lock);
	uint32_t posted = atomic_load_explicit(&rq->posted, memory_order_relaxed);
	if (rq_count(rq) >= rq->depth) {
		error = -ENOMEM;
	} else {
		struct recv_slot *slot = slot_at(rq, posted);

		slot->wr_id = wr->wr_id;
		slot->sge_count = wr->sge_count;
		if (wr->sge_count)
			memcpy(slot->sge, wr->sge, wr->sge_count * sizeof(struct sge));
		atomic_store_explicit(&rq->posted, posted + 1, memory_order_release);
	}
	spin_unlock(&rq->lock);
	return error;
}

bool rq_take(struct recv_queue *rq, struct recv_wqe *wqe)
{
	bool has_one;

	spin_lock(&rq->lock);
	has_one = rq_count(rq) > 0;
	if (has_one) {
		uint32_t taken = atomic_load_explicit(&rq->taken, memory_order_relaxed);
		const struct recv_slot *slot = slot_at(rq, taken);

		wqe->wr_id = slot->wr_id;
		wqe->sge_count = slot->sge_count;
		memcpy(wqe->sge, slot->sge, slot->sge_count * sizeof(struct sge));
		wqe->total_bytes = sge_total_bytes(wqe->sge, wqe->sge_count);
		atomic_store_explicit(&rq->taken, taken + 1, memory_order_release);
	}
	spin_unlock(&rq->lock);
	return has_one;
}

void rq_reset(struct recv_queue *rq)
{
	spin_lock(&rq->lock);
	atomic_store_explicit(&rq->posted, 0, memory_order_relaxed);
	atomic_store_explicit(&rq->taken, 0, memory_order_relaxed);
	spin_unlock(&rq->lock);
}
