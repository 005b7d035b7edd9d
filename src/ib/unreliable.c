/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib/unreliable.h"

struct send_wqe *unreliable_next(
	struct qp *qp, const struct unreliable_steps *steps, uint64_t now_ns)
{
	struct send_wqe *wqe;

	while ((wqe = steps->next(qp, now_ns))) {
		enum fault fault = FAULT_NONE;

		switch (steps->execute(qp, wqe, now_ns, &fault)) {
		case QP_LOCAL_PACKETS:
			return wqe;
		case QP_LOCAL_LATER:
			return NULL;
		case QP_LOCAL_DONE:
		case QP_LOCAL_FAILED:
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

/*
 * If the result is QP_LOCAL_FAILED, the caller completes the request like a successful one, because
 * an unreliable request does not report the fate of its message.
 */
enum qp_local_result unreliable_execute(struct qp *qp, struct send_wqe *wqe,
	enum qp_local_result result, uint64_t at_ns, uint64_t now_ns)
{
	enum fault fault = FAULT_NONE;

	if (result == QP_LOCAL_DONE)
		result = qp->local->ops->execute(qp, wqe, now_ns, &at_ns, &fault);
	if (result == QP_LOCAL_PACKETS)
		wqe->goes_by_packets = true;
	qp_set_deadline(qp, at_ns);
	return result;
}
