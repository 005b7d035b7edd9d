/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receiving half of an extended reliable connection (IBTA annex A14).
 *
 * That half has no receive queue, completion queue or protection domain of its own. Each request
 * names a shared receive queue of the half's XRC domain, and is executed with the protection domain
 * and completion queue of that shared receive queue.
 */
#include "ib/rc/rc.h"

/*
 * No shared receive queue of this number is known. Another process may have the queue, and its
 * memory may not be mapped yet. So the control thread looks for the queue, and the responder
 * answers with an RNR NAK. The responder executes the request when the peer repeats it.
 */
static enum refusal srq_lookup_begin(struct rc_qp *rc, uint32_t number)
{
	struct rc_responder *responder = &rc->responder;

	if (!rc->qp.is_xrcd_shared)
		return REFUSED_INVALID;
	if (responder->srq_lookup == RC_SRQ_LOOKUP_DONE && responder->lookup_srqn == number) {
		responder->srq_lookup = RC_SRQ_LOOKUP_NONE;
		return REFUSED_INVALID;
	}
	responder->srq_lookup = RC_SRQ_LOOKUP_PENDING;
	responder->lookup_srqn = number;
	signal_raise(&rc->qp.lane->signals, &rc->qp.signal, SIGNAL_QP_SRQ_LOOKUP);
	return REFUSED_NOT_READY;
}

enum refusal rc_xrc_select(struct rc_qp *rc, const struct packet *packet)
{
	struct qp *qp = &rc->qp;
	uint32_t number = packet->xrceth.srqn;
	bool has_begun = rc->responder.message.kind != MESSAGE_NONE;
	struct srq *srq = srq_table_find(qp->lane->srqs, number);

	if (!srq)
		srq = srq_table_find_borrowed(qp->lane->srqs, number, qp->xrcd);
	if (!srq)
		return has_begun ? REFUSED_INVALID : srq_lookup_begin(rc, number);
	if (!srq->xrcd || srq->xrcd != qp->xrcd)
		return REFUSED_INVALID;
	if (srq != qp->srq && has_begun)
		return REFUSED_INVALID;
	if (srq != qp->srq)
		qp_take_on(qp, srq);
	return ACCEPTED;
}

bool rc_xrc_lookup_pending(const struct rc_qp *rc, uint32_t *ret_number)
{
	*ret_number = rc->responder.lookup_srqn;
	return rc->responder.srq_lookup == RC_SRQ_LOOKUP_PENDING;
}

void rc_xrc_lookup_done(struct rc_qp *rc, uint32_t number)
{
	if (rc->responder.srq_lookup == RC_SRQ_LOOKUP_PENDING &&
		rc->responder.lookup_srqn == number)
		rc->responder.srq_lookup = RC_SRQ_LOOKUP_DONE;
}

void rc_xrc_forget(struct rc_qp *rc, const struct srq *srq)
{
	if (rc->qp.srq != srq)
		return;
	rc->responder.message = (struct message){0};
	rc->qp.srq = NULL;
	rc->qp.rq = NULL;
	rc->qp.recv_cq = NULL;
}
