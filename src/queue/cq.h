/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues.
 *
 * The ring and its indices are one block of plain data in NIC memory (struct cq_ring); struct cq is
 * the owner's handle on it. Lanes push, the application polls; a spin lock in the block orders
 * them. Entries leave in the order in which they came.
 *
 * Polling a completion of a send queue frees that work request's slot and those before it, as on
 * adapters: an application that does not poll meets "queue full" at the send queue, not an overrun
 * here.
 *
 * Arming (cq_arm) asks for one signal at the next completion, or the next solicited or failed one.
 * A completion that is already in the queue raises none (IBTA 11.4.2.2): arm first, then poll once
 * more, and no wake-up is lost.
 *
 * A push to a full queue is an overrun: the entry is lost, the queue is dead (every later push
 * fails too) and the signal says so (IBTA C11-39). Whoever pushed puts its queue pair into the
 * error state.
 */
#ifndef URNIC_QUEUE_CQ_H
#define URNIC_QUEUE_CQ_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/spin.h"
#include "queue/completion.h"
#include "queue/signal.h"

enum cq_arm {
	CQ_ARM_NONE,
	CQ_ARM_SOLICITED, /* the next completion of a solicited message, or with an error status */
	CQ_ARM_NEXT, /* the next completion */
};

struct cq_ring {
	struct spin lock;
	uint32_t capacity; /* a power of two */
	_Atomic uint32_t arm; /* enum cq_arm */
	uint32_t has_overrun;
	_Atomic uint32_t head; /* entries ever pushed */
	_Atomic uint32_t tail; /* entries ever polled */
	uint64_t reserved[5];
	struct cqe entry[];
};

struct cq {
	struct cq_ring *ring;
	uint64_t ring_offset;
	struct signal signal;
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
 * Push one completion. `is_solicited` is true for a receive of a message with the solicited-event
 * bit; errors count as such. Raises the signal in `signals` when the queue is armed for it. False
 * when the queue has overrun.
 */
bool cq_push(struct cq *cq, const struct cqe *cqe, bool is_solicited, struct signal_queue *signals);

/*
 * Take up to `count` completions. Returns how many were copied to `out`.
 */
uint32_t cq_poll(struct cq *cq, const struct arena *arena, uint32_t count, struct cqe *out);

/*
 * Ask for one signal. A wider request replaces a narrower one, not the other way round (IBTA
 * 11.4.2.2).
 */
void cq_arm(struct cq *cq, enum cq_arm arm);

/* Drop the completions of a queue pair that is being destroyed. */
void cq_forget_qp(struct cq *cq, uint32_t qpn);

/* Is anything there? A hint, without the lock. */
static inline bool cq_is_empty(const struct cq *cq)
{
	return atomic_load_explicit(&cq->ring->head, memory_order_acquire) ==
		atomic_load_explicit(&cq->ring->tail, memory_order_relaxed);
}

#endif
