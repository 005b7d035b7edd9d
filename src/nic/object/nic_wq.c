/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive work queues. A work queue belongs to the process, and queue pairs of any lane may deliver
 * into it.
 */
#include <errno.h>
#include <stdlib.h>

#include "nic/object/nic_object.h"
#include "os/clock.h"

/* The NIC is locked. */
static int wq_add(struct nic_wq *wq, const struct nic_wq_init *init)
{
	int error = nic_worker_get(init->cq->home, &wq->worker);

	if (error)
		return error;
	if (nic.wq_count == NIC_WQ_COUNT_MAX)
		return -ENOMEM;
	error = wq_init(&wq->wq, &nic.arena, &init->cq->cq, init->depth, init->sge_count_max);
	if (error)
		return error;
	nic.wq_count++;
	do
		nic.last_wq_number = (nic.last_wq_number + 1) % NIC_WQ_NUMBERS;
	while (!nic.last_wq_number || nic.wq_by_number[nic.last_wq_number]);
	nic.wq_by_number[nic.last_wq_number] = true;
	wq->wq.number = nic.last_wq_number;
	wq->wq.pd = init->pd;
	return 0;
}

int nic_wq_create(const struct nic_wq_init *init, struct nic_wq **ret_wq)
{
	struct nic_wq *wq = calloc(1, sizeof(*wq));
	int error;

	if (!wq)
		return -ENOMEM;
	wq->cq = init->cq;
	wq->on_event = init->on_event;
	wq->user = init->user;
	wq->epoch = nic_epoch;
	nic_enter();
	error = init->cq->epoch == nic_epoch ? wq_add(wq, init) : -EINVAL;
	nic_leave();
	if (error)
		free(wq);
	else
		*ret_wq = wq;
	return error;
}

void nic_wq_destroy(struct nic_wq *wq)
{
	nic_enter();
	if (wq->epoch == nic_epoch) {
		/* Wait until the queue's signal is delivered */
		nic_for_each_worker(nic_worker_pass);
		nic.wq_by_number[wq->wq.number] = false;
		nic.wq_count--;
		wq_done(&wq->wq, &nic.arena);
	}
	nic_leave();
	free(wq);
}

uint32_t nic_wq_number(const struct nic_wq *wq)
{
	return wq->wq.number;
}

enum wq_state nic_wq_state(const struct nic_wq *wq)
{
	return (enum wq_state)atomic_load_explicit(&wq->wq.state, memory_order_relaxed);
}

static void queue_flush(struct nic_wq *wq)
{
	worker_lock(wq->worker);
	if (nic_wq_state(wq) == WQ_ERROR)
		wq_flush(&wq->wq, &wq->worker->lane, clock_now_ns());
	worker_unlock(wq->worker);
}

static bool is_allowed(enum wq_state from, enum wq_state to)
{
	return from == to || to == WQ_RESET || (from == WQ_RESET && to == WQ_READY) ||
		(from == WQ_READY && to == WQ_ERROR);
}

int nic_wq_modify(struct nic_wq *wq, enum wq_state to)
{
	int error = -EINVAL;

	nic_enter();
	if (wq->epoch != nic_epoch) {
		error = -EIO;
	} else if (is_allowed(nic_wq_state(wq), to)) {
		error = 0;
		atomic_store_explicit(&wq->wq.state, to, memory_order_relaxed);
		nic_for_each_worker(nic_worker_pass); /* wait for threads that saw the old state */
		if (to == WQ_ERROR)
			queue_flush(wq);
		if (to == WQ_RESET)
			wq_reset(&wq->wq);
	}
	nic_leave();
	return error;
}

int nic_wq_post_recv(
	struct nic_wq *wq, const struct recv_wr *wrs, uint32_t count, uint32_t *ret_posted)
{
	uint32_t posted = 0;
	int error = 0;

	*ret_posted = 0;
	if (wq->epoch != nic_epoch)
		return -EINVAL;
	while (posted < count && !error) {
		error = wq_post_recv(&wq->wq, &wrs[posted]);
		if (!error)
			posted++;
	}
	*ret_posted = posted;
	/*
	 * This thread posts before it reads the state. The thread that flushes sets the state
	 * before it looks for requests. So either that thread finds these requests, or this thread
	 * sees WQ_ERROR.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	if (nic_wq_state(wq) == WQ_ERROR)
		queue_flush(wq);
	return error;
}
