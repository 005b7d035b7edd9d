/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receiving half of an extended reliable connection (IBTA annex A14).
 *
 * It has no queues, no completion queue and no protection domain of its own: each request names a
 * shared receive queue of its XRC domain, whose domain and completion queue it is executed with.
 */
#include "ib/rc/rc.h"

/*
 * No queue of this number is known. Another process may have it, whose memory is not mapped yet:
 * somebody else is asked to look, and the request comes again.
 */
static enum refusal ask(struct rc_qp *rc, uint32_t number)
{
	struct rc_responder *responder = &rc->responder;

	if (!rc->qp.is_xrcd_shared)
		return REFUSED_INVALID;
	if (responder->asking == RC_ASKING_ANSWERED && responder->asked_srqn == number) {
		responder->asking = RC_ASKING_NOTHING;
		return REFUSED_INVALID;
	}
	responder->asking = RC_ASKING;
	responder->asked_srqn = number;
	signal_raise(&rc->qp.lane->signals, &rc->qp.signal, SIGNAL_QP_ASKS);
	return REFUSED_NOT_READY;
}

enum refusal rc_xrc_select(struct rc_qp *rc, const struct packet *packet)
{
	struct qp *qp = &rc->qp;
	uint32_t number = packet->xrceth.srqn;
	bool has_begun = rc->responder.message.kind != MESSAGE_NONE;
	struct srq *srq = srq_table_find(qp->lane->srqs, number);

	if (!srq)
		srq = srq_table_find_afar(qp->lane->srqs, number, qp->xrcd);
	if (!srq)
		return has_begun ? REFUSED_INVALID : ask(rc, number);
	if (!srq->xrcd || srq->xrcd != qp->xrcd)
		return REFUSED_INVALID;
	if (srq != qp->srq && has_begun)
		return REFUSED_INVALID;
	if (srq != qp->srq)
		qp_take_on(qp, srq);
	rc->responder.srqn = number;
	atomic_store_explicit(&rc->responder.is_executing, true, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	return ACCEPTED;
}

bool rc_xrc_asks(const struct rc_qp *rc, uint32_t *ret_number)
{
	*ret_number = rc->responder.asked_srqn;
	return rc->responder.asking == RC_ASKING;
}

void rc_xrc_answer(struct rc_qp *rc, uint32_t number)
{
	if (rc->responder.asking == RC_ASKING && rc->responder.asked_srqn == number)
		rc->responder.asking = RC_ASKING_ANSWERED;
}

static bool is_used(const struct rc_resource *resource)
{
	return !psn_equal(resource->first, resource->end);
}

uint32_t rc_xrc_needs(const struct rc_responder *from, uint32_t ret_numbers[QP_RD_ATOMIC_MAX + 1])
{
	uint32_t count = 0;

	ret_numbers[count++] = from->srqn;
	for (uint32_t i = 0; i < QP_RD_ATOMIC_MAX; i++)
		if (is_used(&from->resource[i]) && from->resource[i].srqn != from->srqn)
			ret_numbers[count++] = from->resource[i].srqn;
	return count;
}

static struct srq *find(const struct qp *qp, uint32_t number)
{
	struct srq *srq = srq_table_find(qp->lane->srqs, number);

	if (!srq)
		srq = srq_table_find_afar(qp->lane->srqs, number, qp->xrcd);
	return srq && srq->xrcd && srq->xrcd == qp->xrcd ? srq : NULL;
}

/* READs are answered in a domain, which has another number here. */
static void resource_inherit(struct rc_qp *rc, struct rc_resource *resource)
{
	const struct srq *srq = find(&rc->qp, resource->srqn);

	if (!is_used(resource))
		return;
	if (srq)
		resource->pd = srq->pd;
	else if (resource->operation == OPERATION_READ) {
		rc_response_settle(rc, resource);
		*resource = (struct rc_resource){.operation = OPERATION_READ};
	}
}

/* Who wrote it may have died of anything. */
static bool is_sound(const struct rc_responder *from)
{
	uint32_t owed_count = 0;

	for (uint32_t i = 0; i < QP_RD_ATOMIC_MAX; i++)
		owed_count += from->resource[i].is_owed;
	return from->resource_head < QP_RD_ATOMIC_MAX && from->owed_count == owed_count &&
		from->message.kind <= MESSAGE_WRITE &&
		from->message.receive.sge_count <= SGE_COUNT_MAX;
}

bool rc_xrc_inherit(struct rc_qp *rc, const struct rc_responder *from, uint64_t now_ns)
{
	struct rc_responder *responder = &rc->responder;
	struct srq *srq = find(&rc->qp, from->srqn);
	bool has_message = from->message.kind != MESSAGE_NONE;
	bool is_lost = from->is_executing || (has_message && !srq) || !is_sound(from);

	if (!qp_is_receiving(&rc->qp))
		return false;
	is_lost = is_lost && rc->qp.state != QP_ERR;
	if (is_sound(from))
		*responder = *from;
	responder->is_executing = false;
	responder->asking = RC_ASKING_NOTHING;
	if (srq)
		qp_take_on(&rc->qp, srq);
	if (rc->qp.state == QP_ERR || is_lost || !srq)
		responder->message = (struct message){0};
	for (uint32_t i = 0; i < QP_RD_ATOMIC_MAX; i++)
		resource_inherit(rc, &responder->resource[i]);
	if (is_lost)
		qp_set_state(&rc->qp, QP_ERR, now_ns);
	else
		qp_schedule(&rc->qp, LANE_TX_DATA);
	return is_lost;
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
