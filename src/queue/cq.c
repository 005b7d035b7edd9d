/* SPDX-License-Identifier: BSD-2-Clause */
#include "queue/cq.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/arith.h"
#include "queue/sq.h"

static_assert(sizeof(struct cq_ring) == 64, "entries start on a cache line");

static uint64_t ring_bytes(uint32_t capacity)
{
	return sizeof(struct cq_ring) + (uint64_t)capacity * sizeof(struct cqe);
}

int cq_init(struct cq *cq, struct arena *arena, uint32_t capacity)
{
	assert(capacity > 0 && capacity <= CQ_CAPACITY_MAX);
	memset(cq, 0, sizeof(*cq));
	capacity = pow2_ceil_u32(capacity);
	cq->ring_offset = arena_alloc(arena, ring_bytes(capacity));
	if (!cq->ring_offset)
		return -ENOMEM;
	cq->ring = arena_at(arena, cq->ring_offset);
	cq->ring->capacity = capacity;
	cq->signal.kind = SIGNAL_KIND_CQ;
	return 0;
}

void cq_done(struct cq *cq, struct arena *arena)
{
	arena_free(arena, cq->ring_offset, ring_bytes(cq->ring->capacity));
	memset(cq, 0, sizeof(*cq));
}

/* The ring is locked. Does this completion end the waiting that the queue was armed for? */
static bool is_armed_for(const struct cq_ring *ring, const struct cqe *cqe, bool is_solicited)
{
	switch ((enum cq_arm)atomic_load_explicit(&ring->arm, memory_order_relaxed)) {
	case CQ_ARM_NONE:
		return false;
	case CQ_ARM_SOLICITED:
		return is_solicited || cqe->status != WC_SUCCESS;
	case CQ_ARM_NEXT:
		return true;
	}
	return false;
}

bool cq_push(struct cq *cq, const struct cqe *cqe, bool is_solicited, struct signal_queue *signals)
{
	struct cq_ring *ring = cq->ring;
	uint32_t news = 0;

	spin_lock(&ring->lock);
	uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
	bool was_dead = ring->has_overrun;
	bool has_room = !was_dead && head - tail < ring->capacity;

	if (has_room) {
		ring->entry[head & (ring->capacity - 1)] = *cqe;
		atomic_store_explicit(&ring->head, head + 1, memory_order_release);
		if (is_armed_for(ring, cqe, is_solicited)) {
			atomic_store_explicit(&ring->arm, CQ_ARM_NONE, memory_order_relaxed);
			news = SIGNAL_COMPLETION;
		}
	} else if (!was_dead) {
		ring->has_overrun = 1;
		news = SIGNAL_CQ_OVERRUN;
	}
	spin_unlock(&ring->lock);

	if (news)
		signal_raise(signals, &cq->signal, news);
	return has_room;
}

uint32_t cq_poll(struct cq *cq, const struct arena *arena, uint32_t count, struct cqe *out)
{
	struct cq_ring *ring = cq->ring;
	uint32_t taken = 0;

	if (cq_is_empty(cq))
		return 0;
	spin_lock(&ring->lock);
	uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
	uint32_t waiting = atomic_load_explicit(&ring->head, memory_order_relaxed) - tail;

	count = min_u32(count, waiting);
	for (; taken < count; taken++) {
		const struct cqe *cqe = &ring->entry[(tail + taken) & (ring->capacity - 1)];

		out[taken] = *cqe;
		if (cqe->queue_offset)
			sq_release(arena_at(arena, cqe->queue_offset), cqe->queue_index);
	}
	atomic_store_explicit(&ring->tail, tail + taken, memory_order_release);
	spin_unlock(&ring->lock);
	return taken;
}

void cq_arm(struct cq *cq, enum cq_arm arm)
{
	spin_lock(&cq->ring->lock);
	if (atomic_load_explicit(&cq->ring->arm, memory_order_relaxed) < arm)
		atomic_store_explicit(&cq->ring->arm, arm, memory_order_relaxed);
	spin_unlock(&cq->ring->lock);
}

void cq_forget_qp(struct cq *cq, uint32_t qpn)
{
	struct cq_ring *ring = cq->ring;

	spin_lock(&ring->lock);
	uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
	uint32_t kept = tail;

	for (uint32_t index = tail; index != head; index++) {
		const struct cqe *cqe = &ring->entry[index & (ring->capacity - 1)];

		if (cqe->qpn != qpn)
			ring->entry[kept++ & (ring->capacity - 1)] = *cqe;
	}
	atomic_store_explicit(&ring->head, kept, memory_order_release);
	spin_unlock(&ring->lock);
}
