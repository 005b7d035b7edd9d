/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receiving half of an extended reliable connection (IBTA annex A14).
 *
 * It has no queues, no completion queue and no protection domain of its own: each request names a
 * shared receive queue of its XRC domain, whose domain and completion queue it is executed with.
 */
#include "ib/rc/rc.h"

enum refusal rc_xrc_select(struct rc_qp *rc, const struct packet *packet)
{
	struct srq *srq = srq_table_find(rc->qp.lane->srqs, packet->xrceth.srqn);

	if (!srq || !srq->xrcd || srq->xrcd != rc->qp.xrcd)
		return REFUSED_INVALID;
	if (srq == rc->qp.srq)
		return ACCEPTED;
	if (rc->responder.message.kind != MESSAGE_NONE)
		return REFUSED_INVALID;
	rc->qp.srq = srq;
	rc->qp.rq = srq->rq;
	rc->qp.recv_cq = srq->cq;
	rc->qp.pd = srq->pd;
	rc->qp.recv_pd = srq->pd;
	return ACCEPTED;
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
