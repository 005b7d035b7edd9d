/* SPDX-License-Identifier: BSD-2-Clause */
#include "queue/cq.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/arith.h"
#include "queue/sq.h"

static_assert(sizeof(struct cq_ring) == 128, "cache lines of its own");
static_assert(sizeof(struct cqe) == 64, "a cache line each");

static uint64_t entries_bytes(uint32_t capacity)
{
	return (uint64_t)capacity * sizeof(struct cqe);
}

/* The ring is locked. */
static struct cqe *entry_at(const struct cq *cq, uint32_t index)
{
	return &cq->entries[index & (cq->ring->capacity - 1)];
}

int cq_init(struct cq *cq, struct arena *arena, uint32_t capacity)
{
	assert(capacity > 0 && capacity <= CQ_CAPACITY_MAX);
	memset(cq, 0, sizeof(*cq));
	capacity = pow2_ceil_u32(capacity);
	cq->ring_offset = arena_alloc(arena, sizeof(struct cq_ring));
	if (!cq->ring_offset)
		return -ENOMEM;
	cq->ring = arena_at(arena, cq->ring_offset);
	cq->ring->entries_offset = arena_alloc(arena, entries_bytes(capacity));
	if (!cq->ring->entries_offset) {
		arena_free(arena, cq->ring_offset);
		return -ENOMEM;
	}
	cq->ring->capacity = capacity;
	cq->entries = arena_at(arena, cq->ring->entries_offset);
	cq->signal.kind = SIGNAL_KIND_CQ;
	return 0;
}

void cq_done(struct cq *cq, struct arena *arena)
{
	arena_free(arena, cq->ring->entries_offset);
	arena_free(arena, cq->ring_offset);
	memset(cq, 0, sizeof(*cq));
}

void cq_ignore_overrun(struct cq *cq)
{
	cq->ring->ignores_overrun = 1;
}

/* Move the unpolled entries to the `capacity` entries at `offset`. The ring is locked. */
static void move_entries(
	struct cq *cq, const struct arena *arena, uint64_t offset, uint32_t capacity)
{
	struct cq_ring *ring = cq->ring;
	struct cqe *entries = arena_at(arena, offset);
	uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

	for (uint32_t index = atomic_load_explicit(&ring->tail, memory_order_relaxed);
		index != head; index++)
		entries[index & (capacity - 1)] = *entry_at(cq, index);
	ring->entries_offset = offset;
	ring->capacity = capacity;
	cq->entries = entries;
}

int cq_resize(struct cq *cq, struct arena *arena, uint32_t capacity)
{
	struct cq_ring *ring = cq->ring;
	uint32_t new_capacity = pow2_ceil_u32(capacity);
	uint64_t new_offset = arena_alloc(arena, entries_bytes(new_capacity));
	uint64_t old_offset;
	uint32_t waiting;

	assert(capacity > 0 && capacity <= CQ_CAPACITY_MAX);
	if (!new_offset)
		return -ENOMEM;
	spin_lock(&ring->lock);
	waiting = atomic_load_explicit(&ring->head, memory_order_relaxed) -
		atomic_load_explicit(&ring->tail, memory_order_relaxed);
	old_offset = ring->entries_offset;
	if (waiting <= capacity)
		move_entries(cq, arena, new_offset, new_capacity);
	spin_unlock(&ring->lock);

	if (waiting > capacity) {
		arena_free(arena, new_offset);
		return -EINVAL;
	}
	arena_free(arena, old_offset);
	return 0;
}

/* Is the queue armed for this completion? The ring is locked. */
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

/*
 * An entry leaves the queue. Free the slot of its work request in the send queue, and the slots
 * before it.
 */
static void release_slots(const struct arena *arena, const struct cqe *cqe)
{
	if (cqe->queue_offset)
		sq_release(arena_at(arena, cqe->queue_offset), cqe->queue_index);
}

/* The ring is locked, and it is full. */
static void drop_oldest(const struct cq *cq, const struct arena *arena)
{
	uint32_t tail = atomic_load_explicit(&cq->ring->tail, memory_order_relaxed);

	release_slots(arena, entry_at(cq, tail));
	atomic_store_explicit(&cq->ring->tail, tail + 1, memory_order_release);
}

/*
 * A completion has come for which the queue is armed. Returns the event to raise now, or 0 while
 * moderation delays the signal. The ring is locked.
 */
static uint32_t raise_or_moderate(struct cq_ring *ring, uint64_t now_ns)
{
	if (ring->moderation_count > 1 && ring->moderation_ns &&
		++ring->held_count < ring->moderation_count) {
		if (ring->held_count > 1)
			return 0;
		ring->held_until_ns = now_ns + ring->moderation_ns;
		return SIGNAL_CQ_MODERATED;
	}
	ring->held_count = 0;
	atomic_store_explicit(&ring->arm, CQ_ARM_NONE, memory_order_relaxed);
	return SIGNAL_COMPLETION;
}

/* The queue is full, or has overrun before. Unlocks the ring, and reports the first overrun. */
static void queue_overrun(struct cq *cq, struct signal_queue *signals)
{
	struct cq_ring *ring = cq->ring;
	bool was_dead = atomic_load_explicit(&ring->has_overrun, memory_order_relaxed);

	atomic_store_explicit(&ring->has_overrun, 1, memory_order_relaxed);
	spin_unlock(&ring->lock);
	if (!was_dead)
		signal_raise(signals, &cq->signal, SIGNAL_CQ_OVERRUN);
}

struct cqe *cq_push_begin(struct cq *cq, const struct arena *arena, struct signal_queue *signals)
{
	struct cq_ring *ring = cq->ring;

	spin_lock(&ring->lock);
	uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
	bool is_full = head - tail == ring->capacity;

	if (atomic_load_explicit(&ring->has_overrun, memory_order_relaxed) ||
		(is_full && !ring->ignores_overrun)) {
		queue_overrun(cq, signals);
		return NULL;
	}
	if (is_full)
		drop_oldest(cq, arena);
	return entry_at(cq, head);
}

void cq_push_end(
	struct cq *cq, const struct cqe *entry, bool is_solicited, struct signal_queue *signals)
{
	struct cq_ring *ring = cq->ring;
	uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	uint32_t events = 0;

	atomic_store_explicit(&ring->head, head + 1, memory_order_release);
	if (is_armed_for(ring, entry, is_solicited))
		events = raise_or_moderate(ring, entry->made_ns);
	spin_unlock(&ring->lock);
	if (events)
		signal_raise(signals, &cq->signal, events);
}

bool cq_push(struct cq *cq, const struct arena *arena, const struct cqe *cqe, bool is_solicited,
	struct signal_queue *signals)
{
	struct cqe *entry = cq_push_begin(cq, arena, signals);

	if (!entry)
		return false;
	*entry = *cqe;
	cq_push_end(cq, entry, is_solicited, signals);
	return true;
}

bool cq_hand_over(struct cq_taker *taker, const struct cq *cq, const struct arena *arena,
	const struct cqe *cqe)
{
	struct cqe *place = cq_hand_over_begin(taker, cq);

	if (!place)
		return false;
	*place = *cqe;
	taker->taken++;
	release_slots(arena, cqe);
	return true;
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
		const struct cqe *cqe = entry_at(cq, tail + taken);

		out[taken] = *cqe;
		release_slots(arena, cqe);
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

void cq_moderate(struct cq *cq, uint32_t count, uint64_t period_ns)
{
	spin_lock(&cq->ring->lock);
	cq->ring->moderation_count = count;
	cq->ring->moderation_ns = period_ns;
	spin_unlock(&cq->ring->lock);
}

uint64_t cq_release_moderated(struct cq *cq, uint64_t now_ns, struct signal_queue *signals)
{
	struct cq_ring *ring = cq->ring;
	uint64_t at_ns = UINT64_MAX;
	bool is_due = false;

	spin_lock(&ring->lock);
	if (ring->held_count) {
		is_due = ring->held_until_ns <= now_ns;
		if (!is_due)
			at_ns = ring->held_until_ns;
	}
	if (is_due) {
		ring->held_count = 0;
		atomic_store_explicit(&ring->arm, CQ_ARM_NONE, memory_order_relaxed);
	}
	spin_unlock(&ring->lock);
	if (is_due)
		signal_raise(signals, &cq->signal, SIGNAL_COMPLETION);
	return at_ns;
}

void cq_forget_qp(struct cq *cq, uint32_t qpn)
{
	struct cq_ring *ring = cq->ring;

	spin_lock(&ring->lock);
	uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
	uint32_t kept = tail;

	for (uint32_t index = tail; index != head; index++) {
		const struct cqe *cqe = entry_at(cq, index);

		if (cqe->qpn != qpn)
			*entry_at(cq, kept++) = *cqe;
	}
	atomic_store_explicit(&ring->head, kept, memory_order_release);
	spin_unlock(&ring->lock);
}
