/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions of the objects that the NIC calls: for events, and as hooks of nic/nic_part.h. */
#include "nic/nic_control.h"
#include "nic/nic_part.h"
#include "nic/object/nic_object.h"

static void signal_deliver(struct worker *worker, struct signal *signal, uint32_t events)
{
	switch (signal->kind) {
	case SIGNAL_KIND_CQ: {
		struct nic_cq *cq = container_of(signal, struct nic_cq, cq.signal);

		if (events & SIGNAL_CQ_MODERATED)
			nic_cq_hold(cq, worker);
		if (events & ~(uint32_t)SIGNAL_CQ_MODERATED)
			cq->on_event(cq->user, events & ~(uint32_t)SIGNAL_CQ_MODERATED);
		break;
	}
	case SIGNAL_KIND_QP: {
		struct nic_qp *qp = container_of(signal, struct qp, signal)->user;

		if (events & SIGNAL_QP_DISCONNECTED)
			nic_stream_over(qp);
		if (events & SIGNAL_QP_SRQ_LOOKUP)
			nic_control_wake();
		events &= ~(uint32_t)(SIGNAL_QP_DISCONNECTED | SIGNAL_QP_SRQ_LOOKUP);
		if (events)
			qp->on_event(qp->user, events);
		if (events)
			NIC_PARTS_CALL(qp_events, qp, events);
		break;
	}
	case SIGNAL_KIND_SRQ: {
		struct nic_srq *srq = container_of(signal, struct nic_srq, srq.signal);

		srq->on_event(srq->user, events);
		break;
	}
	case SIGNAL_KIND_WQ: {
		struct nic_wq *wq = container_of(signal, struct nic_wq, wq.signal);

		wq->on_event(wq->user, events);
		break;
	}
	}
}

const struct worker_hooks nic_worker_hooks = {
	.forward = nic_control_forward,
	.signal = signal_deliver,
	.alarm = nic_cq_alarm,
};

static void objects_start(void)
{
	nic.mrs.touch = nic_memory_touch;
}

static void lane_lost(struct worker *worker)
{
	nic_worker_fail(worker, 0);
}

static void objects_forget(void)
{
	nic_flows_forget();
	nic_channel_forget();
}

extern const struct nic_part nic_object_part;
const struct nic_part nic_object_part = {
	.start = objects_start,
	.lane_lost = lane_lost,
	.forget = objects_forget,
};
