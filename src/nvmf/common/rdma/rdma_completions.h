/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_RDMA_COMPLETIONS_H
#define URNIC_NVMF_COMMON_RDMA_COMPLETIONS_H

/*
 * A completion queue on an event loop: the loop waits for the completion channel, or the caller
 * polls the queue.
 *
 * `completed` is called for each work completion, on the loop's thread, by the loop or by
 * rdma_completions_poll().
 */

#include <stdbool.h>

#include <infiniband/verbs.h>

#include "nvmf/common/loop.h"

struct rdma_completions {
	struct loop *loop;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct loop_watch watch;
	struct loop_work again; /* polls again, after a poll that reached its limit */
	struct loop_work arm; /* arms the queue, after a poll that emptied it */
	bool is_armed; /* the next completion causes an event of the channel */
	bool was_polled; /* by the caller, since the last attempt to arm the queue */
	unsigned unacknowledged; /* events of the channel, acknowledged at the end */
	bool is_stopped;
	void (*completed)(struct rdma_completions *completions, const struct ibv_wc *wc);
};

/* The queue has room for `entries` completions. Returns 0; or -errno, with nothing allocated. */
int rdma_completions_init(struct rdma_completions *completions, struct loop *loop,
	struct ibv_context *verbs, unsigned entries,
	void (*completed)(struct rdma_completions *completions, const struct ibv_wc *wc));

/* The caller has destroyed the queue pairs before. `*completions` may be all zero. */
void rdma_completions_done(struct rdma_completions *completions);

/*
 * Poll up to 128 completions and call `completed` for each. Returns how many were polled. The
 * caller runs the loop afterwards: while it polls in each step, the channel is not used.
 */
unsigned rdma_completions_poll(struct rdma_completions *completions);

/*
 * Never call `completed` again, not even for completions that were polled already. A callback that
 * ends the connection calls this.
 */
void rdma_completions_stop(struct rdma_completions *completions);

#endif
