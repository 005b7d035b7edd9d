/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_RDMA_COMPLETIONS_H
#define URNIC_NVMF_COMMON_RDMA_COMPLETIONS_H

/*
 * A completion queue on a loop: it sleeps on the completion channel, or is polled.
 *
 * Work completions go to `completed`, one after the other, on the loop's thread, from the loop or
 * from rdma_completions_poll().
 */

#include <stdbool.h>

#include <infiniband/verbs.h>

#include "nvmf/common/loop.h"

struct rdma_completions {
	struct loop *loop;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct loop_watch watch;
	struct loop_work again; /* after a batch that was not the last */
	struct loop_work arm; /* after the last batch of an event */
	bool is_armed; /* the next completion is an event */
	unsigned unacknowledged; /* events of the channel */
	bool is_stopped;
	void (*completed)(struct rdma_completions *completions, const struct ibv_wc *wc);
};

/* `entries` completions at once at most. 0 or -errno, with nothing left behind. */
int rdma_completions_init(struct rdma_completions *completions, struct loop *loop,
	struct ibv_context *verbs, unsigned entries,
	void (*completed)(struct rdma_completions *completions, const struct ibv_wc *wc));

/* Its queue pairs have been destroyed. Fine for one that is all zero. */
void rdma_completions_done(struct rdma_completions *completions);

/* Poll, up to a limit, and call `completed` for each completion. Returns how many came. */
unsigned rdma_completions_poll(struct rdma_completions *completions);

/* Call `completed` no more, also for those that were polled already: for callbacks that give up. */
void rdma_completions_stop(struct rdma_completions *completions);

#endif
