/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_ETHER_WQ_H
#define URNIC_ETHER_WQ_H

/*
 * Receive work queues: a receive queue with a completion queue of its own, to be chosen from an
 * indirection table by what steers frames to it.
 *
 * Queue pairs of several lanes may deliver into one: the receive queue and the completion queue
 * have their own locks, the state is one word. The owner changes the state, and passes through
 * every lane's lock before it flushes or destroys.
 */

#include <stdatomic.h>
#include <stdint.h>

#include "lane/lane.h"
#include "queue/cq.h"
#include "queue/rq.h"

/* The values of enum ibv_wq_state. */
enum wq_state {
	WQ_RESET, /* takes no requests, gets no frames */
	WQ_READY,
	WQ_ERROR, /* requests are flushed */
};

struct wq {
	uint32_t number; /* below all queue pair numbers of programs: its top byte is 0 */
	uint32_t pd;
	_Atomic uint32_t state; /* enum wq_state */
	uint32_t sge_max;
	struct recv_queue *rq;
	uint64_t rq_offset;
	struct cq *cq;
	struct signal signal;
};

/* Returns 0 or -ENOMEM. */
int wq_init(struct wq *wq, struct arena *arena, struct cq *cq, uint32_t depth, uint32_t sge_max);
void wq_done(struct wq *wq, struct arena *arena);

/*
 * Post one receive request. Returns 0; -EINVAL for one that is too long a list, or in state RESET;
 * -ENOMEM when the queue is full. In state ERROR the caller flushes afterwards.
 */
int wq_post_recv(struct wq *wq, const struct recv_wr *wr);

/* The queue has failed: its completion queue, or the memory of a request. */
void wq_fail(struct wq *wq, struct lane *lane, uint64_t now_ns);

/* Forget requests and completions. */
void wq_reset(struct wq *wq);

/* Complete what is queued as flushed. `lane` is any one that the caller has locked. */
void wq_flush(struct wq *wq, struct lane *lane, uint64_t now_ns);

#endif
