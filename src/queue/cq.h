/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues.
 *
 * A queue is two blocks of plain data in NIC memory. Its indices (struct cq_ring) stay in place;
 * its entries move when the queue is resized. struct cq is the owner's handle on both. Lanes push,
 * the application polls, and the spin lock in the first block orders them. Entries leave in FIFO
 * order.
 *
 * Polling the completion of a send request frees its slot in the send queue and the slots before
 * it, as on adapters. So the send queue of an application that does not poll is full before the
 * completion queue overruns.
 *
 * cq_arm() requests one signal: at the next completion, or at the next completion that is solicited
 * or failed. A completion that is already in the queue raises no signal (IBTA 11.4.2.2). So the
 * application first arms the queue, then polls it once more; thus it misses no completion.
 *
 * A moderated queue delays the signal until moderation_count completions for which it is armed have
 * come, or until moderation_ns have passed since the first of them. The engine has no clock. So the
 * push of the first one raises SIGNAL_CQ_MODERATED, and the NIC calls cq_release_moderated() after
 * moderation_ns.
 *
 * A push to a full queue is an overrun (IBTA C11-39). The entry is lost, SIGNAL_CQ_OVERRUN reports
 * the loss, and every later push fails. A queue pair whose push fails goes to the error state. A
 * queue that ignores overruns drops its oldest entry instead, and reports nothing.
 *
 * A thread that polls an empty queue may drive a lane meanwhile. Then that lane puts completions of
 * the queue straight into the thread's array (cq_hand_over), and not into the entries.
 */
#ifndef URNIC_QUEUE_CQ_H
#define URNIC_QUEUE_CQ_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/spin.h"
#include "lane/signal.h"
#include "queue/completion.h"

enum cq_arm {
	CQ_ARM_NONE,
	/* The next completion that is of a solicited message or has an error status */
	CQ_ARM_SOLICITED,
	CQ_ARM_NEXT, /* the next completion */
};

struct cq_ring {
	struct spin lock;
	/* In entries, a power of two; `lock` protects capacity and entries_offset */
	uint32_t capacity;
	_Atomic uint32_t has_overrun; /* written under the lock */
	_Atomic uint32_t head; /* number of entries pushed so far */
	_Atomic uint32_t tail; /* number of entries polled or dropped so far */
	uint64_t entries_offset;
	uint32_t ignores_overrun;
	uint32_t moderation_count; /* 0: no moderation */
	uint64_t moderation_ns;
	uint64_t held_until_ns;
	uint32_t held_count; /* completions for which the queue was armed, since its last signal */
	/*
	 * `arm` and `waiter` have a cache line of their own, because peers on this host read only
	 * these two fields.
	 */
	alignas(64) _Atomic uint32_t arm; /* enum cq_arm */
	/* The number of the waiter of the queue's completion channel (queue/waiter.h); 0: none. */
	_Atomic uint32_t waiter;
};

struct cq {
	struct cq_ring *ring;
	struct cqe *entries; /* protected by the ring's lock */
	uint64_t ring_offset;
	struct signal signal;
};

/* The poll of `cq` by the thread that drives a lane now (lane.taker). */
struct cq_taker {
	const struct cq *cq;
	struct cqe *out;
	uint32_t room; /* number of entries that `out` has room for */
	uint32_t taken; /* the number of entries that are filled */
};

/* The largest capacity that a caller may request. */
#define CQ_CAPACITY_MAX (1u << 22)

/*
 * Create a queue for at least `capacity` entries, 1 to CQ_CAPACITY_MAX. cq->ring->capacity then has
 * the actual number. Returns 0 or -ENOMEM.
 */
int cq_init(struct cq *cq, struct arena *arena, uint32_t capacity);
void cq_done(struct cq *cq, struct arena *arena);

/*
 * Resize the queue to at least `capacity` entries, 1 to CQ_CAPACITY_MAX. The queue keeps its
 * completions. Any thread may push and poll meanwhile. Returns 0; -EINVAL when more than `capacity`
 * completions are in the queue; -ENOMEM. Errors change nothing.
 */
int cq_resize(struct cq *cq, struct arena *arena, uint32_t capacity);

/* From now on a push to the full queue drops its oldest entry. Call this before the first push. */
void cq_ignore_overrun(struct cq *cq);

/*
 * Push a completion. `is_solicited` says that its message had the solicited-event bit; a failed
 * completion counts as solicited anyway. Raises the queue's signal in `signals` when the queue is
 * armed for this completion. Returns false when the queue has overrun.
 */
bool cq_push(struct cq *cq, const struct arena *arena, const struct cqe *cqe, bool is_solicited,
	struct signal_queue *signals);

/*
 * Put a completion straight into the array of the thread that polls `cq`. Returns false, with
 * nothing done, when no thread polls `cq` (`taker` is NULL, polls another queue or has no room),
 * when older completions are in the queue, or when the queue is armed or has overrun.
 */
bool cq_hand_over(struct cq_taker *taker, const struct cq *cq, const struct arena *arena,
	const struct cqe *cqe);

/*
 * cq_push() for a caller that builds the completion in place. Returns the entry, of which the
 * caller fills in all fields. The queue is locked until cq_push_end(). Returns NULL, with nothing
 * locked, when the queue has overrun.
 */
struct cqe *cq_push_begin(struct cq *cq, const struct arena *arena, struct signal_queue *signals);
void cq_push_end(
	struct cq *cq, const struct cqe *entry, bool is_solicited, struct signal_queue *signals);

/* Move up to `count` completions to `out`. Returns their number. */
uint32_t cq_poll(struct cq *cq, const struct arena *arena, uint32_t count, struct cqe *out);

/* What the queue is armed for. The answer is a hint, because the call does not take the lock. */
static inline enum cq_arm cq_arm_of(const struct cq *cq)
{
	return (enum cq_arm)atomic_load_explicit(&cq->ring->arm, memory_order_relaxed);
}

/* Is the queue armed? A hint, as above. */
static inline bool cq_is_armed(const struct cq *cq)
{
	return cq_arm_of(cq) != CQ_ARM_NONE;
}

/* Request one signal. CQ_ARM_NEXT replaces CQ_ARM_SOLICITED, not vice versa (IBTA 11.4.2.2). */
void cq_arm(struct cq *cq, enum cq_arm arm);

/*
 * From now on delay a signal until `count` completions have come or `period_ns` has passed. A
 * `count` of 0 or 1, or a `period_ns` of 0, turns the delay off.
 */
void cq_moderate(struct cq *cq, uint32_t count, uint64_t period_ns);

/*
 * Raise the delayed signal if its time has come. Returns the time at which to call again;
 * UINT64_MAX when no signal is delayed any more.
 */
uint64_t cq_release_moderated(struct cq *cq, uint64_t now_ns, struct signal_queue *signals);

void cq_forget_qp(struct cq *cq, uint32_t qpn);

/* Is the queue empty? The answer is a hint, because the call does not take the lock. */
static inline bool cq_is_empty(const struct cq *cq)
{
	return atomic_load_explicit(&cq->ring->head, memory_order_acquire) ==
		atomic_load_explicit(&cq->ring->tail, memory_order_relaxed);
}

/*
 * cq_hand_over() for a caller that builds the completion in place. Returns the entry, or NULL when
 * the completion has to go into the queue. The caller fills in all fields, increments taker->taken,
 * and releases the slots of the send queue.
 */
static inline struct cqe *cq_hand_over_begin(const struct cq_taker *taker, const struct cq *cq)
{
	if (!taker || taker->cq != cq || taker->taken == taker->room || !cq_is_empty(cq) ||
		cq_is_armed(cq) ||
		atomic_load_explicit(&cq->ring->has_overrun, memory_order_relaxed))
		return NULL;
	return &taker->out[taker->taken];
}

#endif
