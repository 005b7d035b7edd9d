/* SPDX-License-Identifier: BSD-2-Clause */
#include "ether/wq.h"

#include <errno.h>

int wq_init(struct wq *wq, struct arena *arena, struct cq *cq, uint32_t depth, uint32_t sge_max)
{
	uint64_t offset = rq_create(arena, depth, sge_max);

	if (!offset)
		return -ENOMEM;
	wq->rq_offset = offset;
	wq->rq = arena_at(arena, offset);
	wq->sge_max = sge_max;
	wq->cq = cq;
	wq->state = WQ_RESET;
	wq->signal.kind = SIGNAL_KIND_WQ;
	return 0;
}

void wq_done(struct wq *wq, struct arena *arena)
{
	cq_forget_qp(wq->cq, wq->number);
	rq_destroy(arena, wq->rq_offset);
}

int wq_post_recv(struct wq *wq, const struct recv_wr *wr)
{
	if (atomic_load_explicit(&wq->state, memory_order_relaxed) == WQ_RESET ||
		wr->sge_count > wq->sge_max)
		return -EINVAL;
	return rq_post(wq->rq, wr);
}

void wq_reset(struct wq *wq)
{
	cq_forget_qp(wq->cq, wq->number);
	rq_reset(wq->rq);
}

void wq_fail(struct wq *wq, struct lane *lane, uint64_t now_ns)
{
	uint32_t ready = WQ_READY;

	if (!atomic_compare_exchange_strong(&wq->state, &ready, WQ_ERROR))
		return;
	signal_raise(&lane->signals, &wq->signal, SIGNAL_WQ_FATAL);
	wq_flush(wq, lane, now_ns);
}

void wq_flush(struct wq *wq, struct lane *lane, uint64_t now_ns)
{
	struct recv_wqe wqe;

	while (rq_take(wq->rq, &wqe)) {
		struct cqe cqe = {
			.wr_id = wqe.wr_id,
			.opcode = WC_RECV,
			.status = fault_status(FAULT_FLUSHED),
			.fault = FAULT_FLUSHED,
			.qpn = wq->number,
			.made_ns = now_ns,
		};

		cq_push(wq->cq, lane->arena, &cqe, false, &lane->signals);
	}
}
