/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_ETHER_WQ_H
#define URNIC_ETHER_WQ_H

/*
 * Receive work queues: a receive queue with a completion queue of its own, which an indirection
 * table selects for a frame.
 *
 * Queue pairs of several lanes may deliver into the same work queue. The receive queue and the
 * completion queue have their own locks; the state is one word. The NIC changes the state, and
 * takes and releases every lane's lock before it flushes or destroys the work queue, so that no
 * lane is still delivering. A lane itself only changes READY to ERROR (wq_fail()).
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
	WQ_ERROR, /* posted requests complete as flushed */
};

struct wq {
	uint32_t number; /* with top byte 0, which no queue pair number has */
	uint32_t pd;
	_Atomic uint32_t state; /* enum wq_state */
	uint32_t sge_max;
	struct recv_queue *rq;
	uint64_t rq_offset;
	struct cq *cq;
	struct signal signal;
};

/* Make an empty work queue in state RESET. Returns 0 or -ENOMEM. */
int wq_init(struct wq *wq, struct arena *arena, struct cq *cq, uint32_t depth, uint32_t sge_max);
void wq_done(struct wq *wq, struct arena *arena);

/*
 * Post a receive request. Returns 0; -EINVAL when the scatter list is too long, or in state RESET;
 * -ENOMEM when the queue is full. In state ERROR the caller flushes afterwards.
 */
int wq_post_recv(struct wq *wq, const struct recv_wr *wr);

/* Move the queue to ERROR, because its completion queue is full, or a request's memory is wrong. */
void wq_fail(struct wq *wq, struct lane *lane, uint64_t now_ns);

/* Discard the queue's requests and completions. */
void wq_reset(struct wq *wq);

/* Complete all queued requests as flushed. The caller has locked `lane`, which may be any lane. */
void wq_flush(struct wq *wq, struct lane *lane, uint64_t now_ns);

#endif
