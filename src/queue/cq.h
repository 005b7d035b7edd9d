/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues.
 *
 * A queue is two blocks of plain data in NIC memory. Its indices (struct cq_ring) stay in place;
 * its entries move when the queue is resized. struct cq is the owner's handle on both. Lanes push,
 * the application polls, and the spin lock in the first block orders them. Entries leave in FIFO
 * order.
 *
 * Polling a completion of a send queue frees that work request's slot and those before it, as on
 * adapters. So an application that does not poll meets a full send queue rather than an overrun
 * here.
 *
 * cq_arm() requests one signal at the next completion, or at the next solicited or failed one. A
 * completion that is already in the queue raises none (IBTA 11.4.2.2). So the application arms,
 * then polls once more, and loses no wake-up.
 *
 * A moderated queue delays the signal until a number of such completions have come, or a time has
 * passed since the first. The engine has no clock, so it raises SIGNAL_CQ_MODERATED, and its caller
 * calls cq_release_moderated() after that time.
 *
 * A push to a full queue is an overrun (IBTA C11-39). The entry is lost, the signal reports it, and
 * every later push fails. The pushing queue pair goes to the error state. A queue that ignores
 * overruns silently loses its oldest entry instead.
 *
 * While the poller of an empty queue drives a lane, completions go straight into its array
 * (cq_hand_over), and not into the entries.
 */
#ifndef URNIC_QUEUE_CQ_H
#define URNIC_QUEUE_CQ_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/spin.h"
#include "lane/signal.h"
#include "queue/completion.h"

enum cq_arm {
	CQ_ARM_NONE,
	CQ_ARM_SOLICITED, /* the next completion of a solicited message, or with an error status */
	CQ_ARM_NEXT, /* the next completion */
};

struct cq_ring {
	struct spin lock;
	uint32_t capacity; /* entries: a power of two; under the lock, as is entries_offset */
	_Atomic uint32_t has_overrun; /* written under the lock */
	_Atomic uint32_t head; /* entries pushed so far */
	_Atomic uint32_t tail; /* entries polled so far */
	uint64_t entries_offset;
	uint32_t ignores_overrun;
	uint32_t moderation_count; /* 0: no moderation */
	uint64_t moderation_ns;
	uint64_t held_until_ns;
	uint32_t held_count; /* armed-for completions since the last signal */
	/* A separate cache line, because peers on this host read it and nothing else. */
	alignas(64) _Atomic uint32_t arm; /* enum cq_arm */
	/* Number of its channel's waiter (queue/waiter.h); 0: none. */
	_Atomic uint32_t waiter;
};

struct cq {
	struct cq_ring *ring;
	struct cqe *entries; /* under the ring's lock */
	uint64_t ring_offset;
	struct signal signal;
};

/* The thread that polls `cq` while it drives a lane (lane.taker). */
struct cq_taker {
	const struct cq *cq;
	struct cqe *out;
	uint32_t room; /* entries of `out` */
	uint32_t taken; /* entries of `out` that are filled */
};

/* The largest capacity that a caller may request. */
#define CQ_CAPACITY_MAX (1u << 22)

/*
 * Create a queue for at least `capacity` entries, 1 to CQ_CAPACITY_MAX. cq->ring->capacity says how
 * many it has. Returns 0 or -ENOMEM.
 */
int cq_init(struct cq *cq, struct arena *arena, uint32_t capacity);
void cq_done(struct cq *cq, struct arena *arena);

/*
 * Change the room to at least `capacity` entries, 1 to CQ_CAPACITY_MAX. The queue keeps its
 * completions. Any thread may push and poll meanwhile. Returns 0; -EINVAL when the queue has more
 * than `capacity` completions; -ENOMEM. Errors change nothing.
 */
int cq_resize(struct cq *cq, struct arena *arena, uint32_t capacity);

/* From now on a full queue loses its oldest entry. Call before the first push. */
void cq_ignore_overrun(struct cq *cq);

/*
 * Push a completion. `is_solicited`: it is of a message with the solicited-event bit; errors count
 * as solicited. Raises the signal in `signals` when the queue is armed for it. Returns false when
 * the queue has overrun.
 */
bool cq_push(struct cq *cq, const struct arena *arena, const struct cqe *cqe, bool is_solicited,
	struct signal_queue *signals);

/*
 * Put a completion straight into the array of the thread that polls `cq`. Returns false, with
 * nothing done, when there is no such poller (`taker` is NULL, polls another queue or has no room),
 * when older completions are in the queue, or when the queue is armed.
 */
bool cq_hand_over(struct cq_taker *taker, const struct cq *cq, const struct arena *arena,
	const struct cqe *cqe);

/*
 * cq_push() for a caller that builds the completion in place. Returns the entry, which the caller
 * fills in completely; the queue is locked until cq_push_end(). Returns NULL, with nothing locked,
 * when the queue has overrun.
 */
struct cqe *cq_push_begin(struct cq *cq, const struct arena *arena, struct signal_queue *signals);
void cq_push_end(
	struct cq *cq, const struct cqe *entry, bool is_solicited, struct signal_queue *signals);

/* Take up to `count` completions. Returns how many were copied to `out`. */
uint32_t cq_poll(struct cq *cq, const struct arena *arena, uint32_t count, struct cqe *out);

/* A hint, without the lock. */
static inline bool cq_is_armed(const struct cq *cq)
{
	return atomic_load_explicit(&cq->ring->arm, memory_order_relaxed) != CQ_ARM_NONE;
}

/* Request one signal. A wider request replaces a narrower one, not vice versa (IBTA 11.4.2.2). */
void cq_arm(struct cq *cq, enum cq_arm arm);

/*
 * From now on delay signals for up to `count` completions and up to `period_ns`. A count of 0 or 1,
 * or a period of 0, delays nothing.
 */
void cq_moderate(struct cq *cq, uint32_t count, uint64_t period_ns);

/*
 * Raise the delayed signal if its time has come. Returns when to call again; UINT64_MAX when no
 * signal is delayed.
 */
uint64_t cq_release_moderated(struct cq *cq, uint64_t now_ns, struct signal_queue *signals);

void cq_forget_qp(struct cq *cq, uint32_t qpn);

/* A hint, without the lock. */
static inline bool cq_is_empty(const struct cq *cq)
{
	return atomic_load_explicit(&cq->ring->head, memory_order_acquire) ==
		atomic_load_explicit(&cq->ring->tail, memory_order_relaxed);
}

/*
 * cq_hand_over() for a caller that builds the completion in place. Returns the entry, which the
 * caller fills in completely before it increments taker->taken; NULL when the completion has to go
 * into the queue. The caller releases the send queue's slots.
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
