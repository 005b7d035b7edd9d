/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>

#include "nvmf/common/rdma/rdma_completions.h"

/* After BATCHES_MAX polls of BATCH completions each, other queues of the loop have their turn. */
enum { BATCH = 16, BATCHES_MAX = 8 };

static struct rdma_completions *completions_of(struct loop_watch *watch)
{
	return container_of(watch, struct rdma_completions, watch);
}

/* Returns how many completions were polled. */
static unsigned poll_batches(struct rdma_completions *completions)
{
	struct ibv_wc wcs[BATCH];
	unsigned sum = 0;
	int count = BATCH;

	for (int i = 0; i < BATCHES_MAX && count == BATCH && !completions->is_stopped; i++) {
		count = ibv_poll_cq(completions->cq, BATCH, wcs);
		for (int j = 0; j < count && !completions->is_stopped; j++)
			completions->completed(completions, &wcs[j]);
		if (count > 0)
			sum += (unsigned)count;
	}
	return sum;
}

/*
 * Poll up to the limit. In the next step of the loop, poll again if the queue may have more
 * completions, else arm the queue.
 */
static void poll_again(struct loop_work *work)
{
	struct rdma_completions *completions = container_of(work, struct rdma_completions, again);

	if (poll_batches(completions) >= BATCH * BATCHES_MAX)
		loop_defer(completions->loop, work);
	else if (!completions->is_armed)
		loop_defer(completions->loop, &completions->arm);
}

/*
 * The callbacks of the last poll have deferred their SENDs to a work item of the loop, which has
 * run by now. So the poll below may also find the completions of those SENDs without an event.
 *
 * While the caller polls, the queue stays disarmed, because an event costs both ends system calls.
 * A step of the loop in which the caller has not polled arms the queue.
 */
static void arm_run(struct loop_work *work)
{
	struct rdma_completions *completions = container_of(work, struct rdma_completions, arm);

	if (completions->is_stopped)
		return;
	if (completions->was_polled) {
		completions->was_polled = false;
		loop_defer(completions->loop, work);
		return;
	}
	if (ibv_req_notify_cq(completions->cq, 0))
		return;
	completions->is_armed = true;
	/* Completions that came before the queue was armed cause no event: poll for them. */
	poll_again(&completions->again);
}

static void channel_ready(struct loop_watch *watch, uint32_t events)
{
	struct rdma_completions *completions = completions_of(watch);
	struct ibv_cq *cq;
	void *context;

	(void)events;
	while (ibv_get_cq_event(completions->channel, &cq, &context) == 0) {
		completions->unacknowledged++;
		completions->is_armed = false;
	}
	if (!completions->is_armed)
		poll_again(&completions->again);
}

int rdma_completions_init(struct rdma_completions *completions, struct loop *loop,
	struct ibv_context *verbs, unsigned entries,
	void (*completed)(struct rdma_completions *completions, const struct ibv_wc *wc))
{
	int flags;

	*completions = (struct rdma_completions){.loop = loop, .completed = completed};
	completions->watch.ready = channel_ready;
	loop_work_init(&completions->again, poll_again);
	loop_work_init(&completions->arm, arm_run);
	completions->channel = ibv_create_comp_channel(verbs);
	if (!completions->channel)
		goto fail;
	flags = fcntl(completions->channel->fd, F_GETFL);
	if (flags < 0 || fcntl(completions->channel->fd, F_SETFL, flags | O_NONBLOCK))
		goto fail;
	completions->cq = ibv_create_cq(verbs, (int)entries, NULL, completions->channel, 0);
	if (!completions->cq)
		goto fail;
	errno = ibv_req_notify_cq(completions->cq, 0);
	if (errno)
		goto fail;
	completions->is_armed = true;
	errno = -loop_watch(loop, &completions->watch, completions->channel->fd, EPOLLIN);
	if (errno == 0)
		return 0;

fail:;
	int error = errno ? -errno : -ENOMEM;

	rdma_completions_done(completions);
	return error;
}

void rdma_completions_done(struct rdma_completions *completions)
{
	if (completions->loop) {
		loop_defer_cancel(&completions->again);
		loop_defer_cancel(&completions->arm);
	}
	if (completions->channel && completions->watch.events)
		loop_unwatch(completions->loop, &completions->watch);
	if (completions->cq) {
		ibv_ack_cq_events(completions->cq, completions->unacknowledged);
		(void)ibv_destroy_cq(completions->cq);
	}
	if (completions->channel)
		(void)ibv_destroy_comp_channel(completions->channel);
	memset(completions, 0, sizeof(*completions));
}

unsigned rdma_completions_poll(struct rdma_completions *completions)
{
	completions->was_polled = true;
	return poll_batches(completions);
}

void rdma_completions_stop(struct rdma_completions *completions)
{
	completions->is_stopped = true;
}
