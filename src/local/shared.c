/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/shared.h"

#include <string.h>

/* --- the initiator --- */

bool shared_peek(struct local_qp *local, struct recv_wqe *receive)
{
	const struct peer *peer = local->peer;

	if (local->has_handed_over && inbox_has_news(local->target, local->generation))
		return false; /* the copy is still wanted */
	local->has_handed_over = false;
	if (rq_peek_afar(local->target_rq, peer->base, peer->bytes, &local->posted_seen, receive,
		    &local->peeked))
		return true;
	if (rq_taken(local->target_rq) != local->taken_seen) {
		local->taken_seen = rq_taken(local->target_rq);
		local->is_waiting = false;
	}
	return false;
}

bool shared_take(struct local_qp *local, const struct recv_wqe *receive)
{
	struct inbox_held *held = &local->target->held;

	held->wr_id = receive->wr_id;
	held->sge_count = receive->sge_count;
	memcpy(held->sge, receive->sge, receive->sge_count * sizeof(struct sge));
	if (!rq_take_peeked(local->target_rq, local->peeked))
		return false;
	atomic_store_explicit(&held->sequence,
		inbox_sequence(local->generation, inbox_count(local->target)),
		memory_order_release);
	return true;
}

void shared_hand_over(struct local_qp *local)
{
	const struct inbox_record record = {.opcode = INBOX_TAKEN};
	struct inbox *target = local->target;

	if (!inbox_remark(target, local->generation, INBOX_PUBLISHES)) {
		local->is_inside = false;
		return; /* it was closed: the target has the request back */
	}
	local->is_inside = true;
	if (!inbox_publish(target, local->generation, &record))
		return;
	local->has_handed_over = true;
	inbox_ring(target, local->target_bell, local->target_offset);
}

/* --- the owner --- */

uint64_t shared_rq_offset(const struct qp *qp)
{
	if (!qp->srq)
		return qp->rq_offset;
	return qp->srq->tags ? 0 : qp->srq->rq_offset;
}

/* A request that was taken for a message that was not received: it waits for it, or is flushed with the queue pair. */
static void hold(struct qp *qp, const struct inbox_held *held, uint64_t now_ns)
{
	struct recv_wqe wqe = {.wr_id = held->wr_id, .sge_count = held->sge_count};
	struct cqe cqe = {.opcode = WC_RECV};

	if (wqe.sge_count > SGE_COUNT_MAX)
		return;
	memcpy(wqe.sge, held->sge, wqe.sge_count * sizeof(struct sge));
	wqe.total_bytes = sge_total_bytes(wqe.sge, wqe.sge_count);
	if (qp->state == QP_ERR)
		qp_complete_recv(qp, wqe.wr_id, &cqe, FAULT_FLUSHED, false, now_ns);
	else if (qp_is_receiving(qp))
		qp->transport->hold(qp, &wqe);
}

void shared_collect(struct local_qp *local, uint64_t now_ns)
{
	hold(local->qp, &local->inbox->held, now_ns);
}

void shared_reclaim(struct local_qp *local, uint64_t now_ns)
{
	const struct inbox *inbox = local->inbox;
	uint32_t collected = atomic_load_explicit(&inbox->collected, memory_order_relaxed);
	uint64_t held = atomic_load_explicit(&inbox->held.sequence, memory_order_acquire);

	/* The generation it was open in is the one before. */
	if (inbox->is_rq_shared && held == inbox_sequence(inbox_generation(inbox) - 1, collected))
		hold(local->qp, &inbox->held, now_ns);
}
