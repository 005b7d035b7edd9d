/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/initiator/shared.h"

#include "base/once.h"
#include "queue/rq_taker.h"

/* --- the initiator --- */

/*
 * From now on the initiator's requests use the receive queue with number `srqn`. The caller has set
 * `target_rq`.
 */
static void queue_begin(
	struct local_initiator *local, const struct srq_public *public, uint32_t srqn)
{
	local->target_srqn = srqn;
	local->target_serial = atomic_load(&public->serial);
	local->target_pd = public->pd;
	local->target_recv_pd = public->pd;
	local->posted_seen = rq_taken(local->target_rq);
	local->taken_seen = local->posted_seen;
	local->remote = (struct mr_cached){.key_word = NULL};
	local->receive = (struct mr_cached){.key_word = NULL};
}

bool shared_select(struct local_initiator *local, uint32_t srqn)
{
	const struct peer *peer = local->peer;
	uint64_t offset = atomic_load(&local->target_srqs->offset[srqn % SRQ_TABLE_SIZE]);
	const struct srq_public *public = peer_at(peer, offset, sizeof(*public));

	if (!public || atomic_load(&public->number) != srqn ||
		public->xrcd != local->target->xrcd || !public->xrcd)
		return false;
	if (srqn == local->target_srqn && atomic_load(&public->serial) == local->target_serial)
		return true;
	local->target_rq = peer_at(peer, public->rq_offset, sizeof(struct recv_queue));
	local->target_cq = peer_at(peer, public->cq_offset, sizeof(struct cq_ring));
	if (!local->target_rq || !local->target_cq)
		return false;
	queue_begin(local, public, srqn);
	return true;
}

bool shared_peek(struct local_initiator *local, struct recv_wqe *receive)
{
	const struct peer *peer = local->peer;

	if (local->has_handed_over && channel_has_uncollected(local->target, local->generation))
		return false; /* the owner has yet to read the reservation of an earlier request */
	local->has_handed_over = false;
	if (rq_peek_borrowed(local->target_rq, peer->base, peer->bytes, &local->posted_seen,
		    receive, &local->peeked))
		return true;
	if (rq_taken(local->target_rq) != local->taken_seen) {
		local->taken_seen = rq_taken(local->target_rq);
		local->wait.is_waiting = false;
	}
	return false;
}

bool shared_take(struct local_initiator *local, const struct recv_wqe *receive)
{
	struct channel_reservation *held = &local->target->reservation;

	held->wr_id = receive->wr_id;
	held->srqn = local->target_srqn;
	if (!rq_take_peeked(local->target_rq, local->peeked))
		return false;
	atomic_store_explicit(&held->sequence,
		channel_sequence(local->generation, channel_count(local->target)),
		memory_order_release);
	return true;
}

void shared_hand_over(struct local_initiator *local)
{
	const struct channel_record record = {
		.opcode = CHANNEL_TAKEN, .number = local->target_srqn};
	struct request_channel *target = local->target;

	if (!channel_remark(target, local->generation, CHANNEL_PUBLISHES)) {
		local->is_inside = false;
		return; /* the channel was closed, so the owner calls shared_reclaim() */
	}
	local->is_inside = true;
	if (!channel_publish(target, local->target_ring, local->generation, &record))
		return;
	local->has_handed_over = true;
	doorbell_ring(local->target_doorbell, &target->ready, local->target_offset);
}

/* --- the owner --- */

uint64_t shared_rq_offset(const struct qp *qp)
{
	if (qp->type == QP_TYPE_XRC_RECV)
		return 0; /* each request names a receive queue */
	if (!qp->srq)
		return qp->rq_offset;
	return qp->srq->tags ? 0 : qp->srq->rq_offset;
}

struct srq *shared_srq_of(const struct qp *qp, uint32_t srqn)
{
	struct srq *srq = qp->srq;

	if (qp->type != QP_TYPE_XRC_RECV)
		return srq;
	srq = srq_table_find(qp->lane->srqs, srqn);
	return srq && srq->xrcd == qp->xrcd ? srq : NULL;
}

/*
 * Give the responder a receive request that an initiator has handed over or left behind. The
 * responder uses it for the next message. If the queue pair has failed, the request is flushed.
 */
static void request_reserve(struct qp *qp, const struct channel_reservation *held, uint64_t now_ns)
{
	struct srq *srq = shared_srq_of(qp, READ_ONCE(held->srqn));
	struct cqe cqe = {.opcode = WC_RECV};
	struct recv_wqe wqe;

	if (!srq || srq->tags || !rq_redeem(srq->rq, READ_ONCE(held->wr_id), &wqe)) {
		lane_count_unsound(qp->lane);
		return;
	}
	srq_note_taken(srq, &qp->lane->signals);
	if (qp->state != QP_ERR)
		qp->transport->reserved(qp, srq, &wqe);
	else if (qp->type == QP_TYPE_XRC_RECV)
		qp_complete_recv_of(qp, srq, wqe.wr_id, &cqe, FAULT_FLUSHED, false, now_ns);
	else
		qp_complete_recv(qp, wqe.wr_id, &cqe, FAULT_FLUSHED, false, now_ns);
}

void shared_collect(struct local_qp *local, uint64_t now_ns)
{
	request_reserve(local->qp, &local->channel->reservation, now_ns);
}

void shared_reclaim(struct local_qp *local, uint64_t now_ns)
{
	struct request_channel *channel = local->channel;
	const struct channel_private *private = channel_private(channel);
	/* The channel is closed, so the reservation is of the generation before the present one. */
	uint64_t held = channel_sequence(private->generation - 1, private->collected);
	bool is_shared = local->qp->srq || local->qp->type == QP_TYPE_XRC_RECV;

	if (is_shared && atomic_compare_exchange_strong(&channel->reservation.sequence, &held, 0))
		request_reserve(local->qp, &channel->reservation, now_ns);
}
