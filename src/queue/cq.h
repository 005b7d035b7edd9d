/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues.
 *
 * A queue is two blocks of plain data in NIC memory: its indices (struct cq_ring), which stay where
 * they are, and its entries, which move when it is resized; struct cq is the owner's handle on
 * both. Lanes push, the application polls; a spin lock in the first block orders them. Entries
 * leave in the order in which they came.
 *
 * Polling a completion of a send queue frees that work request's slot and those before it, as on
 * adapters: an application that does not poll meets "queue full" at the send queue, not an overrun
 * here.
 *
 * Arming (cq_arm) asks for one signal at the next completion, or the next solicited or failed one.
 * A completion that is already in the queue raises none (IBTA 11.4.2.2): arm first, then poll once
 * more, and no wake-up is lost.
 *
 * A queue that is moderated holds the signal back until a number of such completions have come, or
 * time has passed since the first of them. The engine has no clock: SIGNAL_CQ_HELD asks the outside
 * to call cq_release_held() when that time has passed.
 *
 * A push to a full queue is an overrun: the entry is lost, the queue is dead (every later push
 * fails too) and the signal says so (IBTA C11-39). Whoever pushed puts its queue pair into the
 * error state. A queue that ignores overruns loses its oldest entry instead, and nothing is said.
 *
 * Who polls an empty queue and drives a lane for it is on the way to fetch what completes
 * meanwhile: that may be handed to him (cq_hand_over), and does not go by way of the entries.
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
	uint32_t capacity; /* entries: a power of two; under the lock, as entries_offset */
	_Atomic uint32_t has_overrun; /* written under the lock */
	_Atomic uint32_t head; /* entries ever pushed */
	_Atomic uint32_t tail; /* entries ever polled */
	uint64_t entries_offset;
	uint32_t ignores_overrun;
	uint32_t moderation_count; /* 0: no moderation */
	uint64_t moderation_ns;
	uint64_t held_until_ns;
	uint32_t held_count; /* completions that it was armed for and has not signaled yet */
	/* A line of its own: peers on this host look here, and nowhere else. */
	alignas(64) _Atomic uint32_t arm; /* enum cq_arm */
	_Atomic uint32_t
		attention; /* the number of that of its channel (queue/attention.h); 0: none */
};

struct cq {
	struct cq_ring *ring;
	struct cqe *entries; /* under the ring's lock */
	uint64_t ring_offset;
	struct signal signal;
};

/* Who polls `cq`, while he drives a lane (lane.taker). */
struct cq_taker {
	const struct cq *cq;
	struct cqe *out;
	uint32_t room; /* entries of `out` */
	uint32_t taken; /* of them */
};

/* Entries a queue may be asked for. */
#define CQ_CAPACITY_MAX (1u << 22)

/*
 * Create a queue for at least `capacity` entries, 1 to CQ_CAPACITY_MAX. cq->ring->capacity is what
 * it got. Returns 0 or -ENOMEM.
 */
int cq_init(struct cq *cq, struct arena *arena, uint32_t capacity);
void cq_done(struct cq *cq, struct arena *arena);

/*
 * Make room for at least `capacity` entries, 1 to CQ_CAPACITY_MAX, or give some of it back; what is
 * in the queue stays in it. Any thread may push and poll meanwhile. Returns 0; -EINVAL when more
 * than `capacity` entries wait; -ENOMEM (then nothing has changed).
 */
int cq_resize(struct cq *cq, struct arena *arena, uint32_t capacity);

/* From now on the queue loses its oldest entry when it is full. Before its first use. */
void cq_ignore_overrun(struct cq *cq);

/*
 * Push one completion. `is_solicited` is true for a receive of a message with the solicited-event
 * bit; errors count as such. Raises the signal in `signals` when the queue is armed for it. False
 * when the queue has overrun.
 */
bool cq_push(struct cq *cq, const struct arena *arena, const struct cqe *cqe, bool is_solicited,
	struct signal_queue *signals);

/*
 * The same for who is on the way to fetch it. False, with nothing done, when that is not so: nobody
 * polls (`taker` is NULL), it is another queue that he polls, others come before this one, or
 * somebody is to be told of it.
 */
bool cq_hand_over(struct cq_taker *taker, const struct cq *cq, const struct arena *arena,
	const struct cqe *cqe);

/*
 * The same as cq_push() for who makes the completion in its place. Returns the entry, all of which
 * is to be written, with the queue locked until cq_push_end(); NULL when the queue has overrun:
 * then that is all.
 */
struct cqe *cq_push_begin(struct cq *cq, const struct arena *arena, struct signal_queue *signals);
void cq_push_end(
	struct cq *cq, const struct cqe *entry, bool is_solicited, struct signal_queue *signals);

/*
 * Take up to `count` completions. Returns how many were copied to `out`.
 */
uint32_t cq_poll(struct cq *cq, const struct arena *arena, uint32_t count, struct cqe *out);

/* Has it been asked for? A hint, without the lock. */
static inline bool cq_is_armed(const struct cq *cq)
{
	return atomic_load_explicit(&cq->ring->arm, memory_order_relaxed) != CQ_ARM_NONE;
}

/*
 * Ask for one signal. A wider request replaces a narrower one, not the other way round (IBTA
 * 11.4.2.2).
 */
void cq_arm(struct cq *cq, enum cq_arm arm);

/*
 * From now on hold signals back for up to `count` completions and up to `period_ns`. A count of 0
 * or 1 and a period of 0 hold nothing back.
 */
void cq_moderate(struct cq *cq, uint32_t count, uint64_t period_ns);

/*
 * Raise the signal that is held back, if there is one and its time has come. Returns when to call
 * again; UINT64_MAX when nothing is held back.
 */
uint64_t cq_release_held(struct cq *cq, uint64_t now_ns, struct signal_queue *signals);

/* Drop the completions of a queue pair that is being destroyed. */
void cq_forget_qp(struct cq *cq, uint32_t qpn);

/* Is anything there? A hint, without the lock. */
static inline bool cq_is_empty(const struct cq *cq)
{
	return atomic_load_explicit(&cq->ring->head, memory_order_acquire) ==
		atomic_load_explicit(&cq->ring->tail, memory_order_relaxed);
}

/*
 * cq_hand_over() for who makes the completion where it goes. Returns the place, all of which is to
 * be written, until taker->taken is counted up; NULL when it may not be handed over. A send queue's
 * slots are the caller's to release.
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
