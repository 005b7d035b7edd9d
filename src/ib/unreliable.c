/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib/unreliable.h"

struct send_wqe *unreliable_next(
	struct qp *qp, const struct unreliable_steps *steps, uint64_t now_ns)
{
	struct send_wqe *wqe;

	while ((wqe = steps->next(qp, now_ns))) {
		enum fault fault = FAULT_NONE;

		switch (steps->execute(qp, wqe, now_ns, &fault)) {
		case SHORTCUT_PACKETS:
			return wqe;
		case SHORTCUT_LATER:
			return NULL;
		case SHORTCUT_DONE:
		case SHORTCUT_FAILED:
			break;
		}
		if (fault)
			qp_fail_send(qp, fault, now_ns);
		else
			qp_complete_send(qp, FAULT_NONE, now_ns);
	}
	return NULL;
}

void unreliable_posted(struct qp *qp, const struct unreliable_steps *steps, uint64_t now_ns)
{
	if (qp->state != QP_RTS)
		return;
	if (!qp->local || unreliable_next(qp, steps, now_ns))
		qp_schedule(qp, LANE_TX_DATA);
}

void unreliable_expire(struct qp *qp, uint64_t now_ns)
{
	qp_set_deadline(qp, DEADLINE_NEVER);
	qp->transport->posted(qp, now_ns);
}

/* FAILED completes like DONE: an unreliable request does not tell what became of its message. */
enum shortcut unreliable_execute(
	struct qp *qp, struct send_wqe *wqe, enum shortcut way, uint64_t at_ns, uint64_t now_ns)
{
	enum fault fault = FAULT_NONE;

	if (way == SHORTCUT_DONE)
		way = qp->local->ops->execute(qp, wqe, now_ns, &at_ns, &fault);
	if (way == SHORTCUT_PACKETS)
		wqe->goes_by_packets = true;
	qp_set_deadline(qp, at_ns);
	return way;
}
