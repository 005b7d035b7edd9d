/* SPDX-License-Identifier: BSD-2-Clause */
/* A reliable connected queue pair: requester and responder behind struct qp_transport. */
#include "ib/rc/rc.h"

#include <assert.h>

/*
 * In the error state the responder only repeats its answers. A peer that repeats the refused packet
 * gets the NAK again, unless the responder is silent about that fault. A peer repeats an earlier
 * packet if the answer was lost, and gets that answer again. Without it, the peer would take the
 * earlier request for the failed one.
 */
static void receive_failed(struct rc_qp *rc, const struct packet *packet)
{
	struct rc_responder *responder = &rc->responder;
	bool is_request = packet->info->role == OPCODE_ROLE_REQUEST;

	if (!responder->is_failed || !is_request) {
		qp_count(&rc->qp, COUNTER_bad_state_drops, 1);
	} else if (psn_before(packet->bth.psn, responder->nak_psn)) {
		rc_responder_duplicate(rc, packet);
	} else if (responder->is_silent) {
		qp_count(&rc->qp, COUNTER_bad_state_drops, 1);
	} else {
		responder->is_nak_pending = true;
		qp_schedule(&rc->qp, LANE_TX_DATA);
	}
}

/*
 * Has the queue pair the half that handles the packet: a responder for requests, a requester for
 * responses?
 */
static bool has_half_for(const struct qp *qp, enum opcode_role role)
{
	return qp->type != (role == OPCODE_ROLE_REQUEST ? QP_TYPE_XRC_SEND : QP_TYPE_XRC_RECV);
}

static inline enum packet_verdict receive_by_role(
	struct rc_qp *rc, const struct packet *packet, bool is_guarded, uint64_t now_ns)
{
	if (packet->info->role == OPCODE_ROLE_REQUEST)
		return rc_responder_receive(rc, packet, now_ns);
	return rc_completer_receive(rc, packet, is_guarded, now_ns);
}

/*
 * The packet does not say that its sender knows selective NAKs. Either the peer does not know them,
 * or a stranger has sent the packet. So this packet gets the specification's answers. If the packet
 * is accepted, it is the peer's, and selective repeat stays off.
 */
static enum packet_verdict receive_plain(
	struct rc_qp *rc, const struct packet *packet, bool is_guarded, uint64_t now_ns)
{
	enum packet_verdict verdict;

	rc->is_selective = false;
	verdict = receive_by_role(rc, packet, is_guarded, now_ns);
	rc->is_selective = verdict != PACKET_TAKEN;
	return verdict;
}

static enum packet_verdict rc_receive(struct qp *qp, const struct packet *packet,
	const struct packet_origin *origin, uint64_t now_ns)
{
	struct rc_qp *rc = rc_from_qp(qp);

	if (!qp_is_from_peer(qp, packet, origin))
		return PACKET_DROPPED;
	if (qp->local)
		qp->local->ops->collect(qp, now_ns);
	if (opcode_class(packet->info) != rc_class(rc) || !has_half_for(qp, packet->info->role)) {
		qp_count(qp, COUNTER_bad_state_drops, 1);
		return PACKET_DROPPED;
	}
	if (qp->state == QP_ERR) {
		receive_failed(rc, packet);
		return PACKET_DROPPED;
	}
	bool is_guarded = qp_is_guarded(qp, GUARD_NUMBERS, origin, now_ns);

	/*
	 * Only a request establishes the connection. In RTR this queue pair has requested nothing,
	 * so a response belongs to another connection.
	 */
	if (qp->state == QP_RTR && !qp->is_comm_established &&
		packet->info->role == OPCODE_ROLE_REQUEST) {
		qp->is_comm_established = true;
		signal_raise(&qp->lane->signals, &qp->signal, SIGNAL_QP_ESTABLISHED);
	}
	if (rc->is_selective && !packet->bth.is_selective)
		return receive_plain(rc, packet, is_guarded, now_ns);
	return receive_by_role(rc, packet, is_guarded, now_ns);
}

static size_t request_next(struct rc_qp *rc, struct packet_run *run, uint64_t now_ns)
{
	bool may_send = rc->qp.state == QP_RTS || rc->qp.state == QP_SQD;

	return may_send ? rc_requester_next(rc, run, now_ns) : 0;
}

/*
 * Requests and responses alternate, so that a long queue of either kind does not starve the other.
 * An acknowledgement goes first, because the next request may be the program's reply to the
 * acknowledged message. The peer should complete its own request before it receives the reply.
 */
static size_t rc_next_packet(struct qp *qp, struct packet_run *run, uint64_t now_ns)
{
	struct rc_qp *rc = rc_from_qp(qp);
	size_t bytes;

	run->path = qp->attr.path.id;
	bytes = rc_response_ack(rc, run->buffer);
	if (bytes)
		return bytes;
	if (rc->turn_packets < RC_TURN_PACKETS) {
		bytes = request_next(rc, run, now_ns);
		rc->turn_packets = min_u32(rc->turn_packets + run->packets, RC_TURN_PACKETS);
		if (bytes)
			return bytes;
	}
	bytes = rc_response_next(rc, run, now_ns);
	if (bytes) {
		rc->turn_packets = rc->turn_packets >= 2 * RC_TURN_PACKETS
			? 0
			: rc->turn_packets + run->packets;
		return bytes;
	}
	rc->turn_packets = 0;
	return request_next(rc, run, now_ns);
}

/*
 * The queue pair waits for its rate: send an ACK or NAK, but no request. READ responses and atomic
 * acknowledgements are paced, too, and precede an ACK or NAK. So nothing is sent while one of them
 * is pending.
 */
static size_t rc_next_unpaced(struct qp *qp, struct packet_run *run, uint64_t now_ns)
{
	struct rc_qp *rc = rc_from_qp(qp);

	run->path = qp->attr.path.id;
	return rc->responder.pending_count ? 0 : rc_response_next(rc, run, now_ns);
}

static void rc_expire(struct qp *qp, uint64_t now_ns)
{
	rc_recovery_expire(rc_from_qp(qp), now_ns);
}

static void rc_posted(struct qp *qp, uint64_t now_ns)
{
	if (qp->state != QP_RTS)
		return;
	if (!qp->local || !rc_requester_execute_local(rc_from_qp(qp), now_ns))
		qp_schedule(qp, LANE_TX_DATA);
}

static void rc_reserved(struct qp *qp, struct srq *srq, const struct recv_wqe *wqe)
{
	if (message_reserve(&rc_from_qp(qp)->responder.message, qp, wqe) &&
		qp->type == QP_TYPE_XRC_RECV)
		qp_take_on(qp, srq);
}

static void rc_migrated(struct qp *qp)
{
	rc_recovery_begin(rc_from_qp(qp));
}

static void rc_state_changed(struct qp *qp, enum qp_state old, uint64_t now_ns)
{
	struct rc_qp *rc = rc_from_qp(qp);

	switch (qp->state) {
	case QP_RTR:
		rc_responder_start(rc);
		rc_selective_start(rc);
		break;
	case QP_RTS:
		if (old == QP_RTR)
			rc_requester_start(rc);
		else if (old == QP_SQD)
			rc_requester_resume(rc);
		break;
	case QP_SQD:
		rc_requester_drain(rc);
		break;
	case QP_ERR:
	case QP_RESET:
		rc_recovery_stop(rc);
		if (qp->state == QP_RESET)
			rc_responder_start(rc);
		if (qp->state == QP_ERR)
			message_abandon(&rc->responder.message, qp, FAULT_FLUSHED, now_ns);
		rc_selective_stop(rc);
		rc_response_stop(rc);
		break;
	case QP_INIT:
	case QP_SQE:
	case QP_STATE_COUNT:
		break;
	}
}

static void rc_done(struct qp *qp)
{
	rc_selective_stop(rc_from_qp(qp));
}

/* Assert the invariants of requester and responder. */
static void rc_check(const struct qp *qp)
{
	const struct rc_qp *rc = container_of(qp, struct rc_qp, qp);
	const struct rc_requester *requester = &rc->requester;
	const struct rc_responder *responder = &rc->responder;
	struct send_queue *sq = rc->qp.sq;
	uint32_t pending_count = 0;

	for (uint32_t i = 0; responder->has_resources && i < QP_RD_ATOMIC_MAX; i++)
		pending_count += rc_cold(rc)->resource[i].is_pending;
	assert(pending_count == responder->pending_count);
	selective_queue_check(&responder->early, responder->expected);
	assert(sq->posted - sq->completed <= (qp_has_tags(qp) ? sq->capacity : sq->depth));
	if (rc->qp.state != QP_RTS && rc->qp.state != QP_SQD)
		return;
	assert(!psn_before(requester->cursor, requester->una));
	assert(!psn_before(requester->next, requester->cursor));
	if (requester->selective.is_active)
		assert(psn_before(requester->cursor, requester->selective.end));
	assert(!selective_map_has(&requester->placed, 0));
	assert(requester->reads_outstanding <= QP_INIT_RD_ATOMIC_MAX);
	assert(requester->wqe_index - sq->completed <= sq->posted - sq->completed);
	assert(requester->window_packets >= 1 &&
		requester->window_packets <= RC_WINDOW_PACKETS_MAX);
	/* While packets are outstanding, a timer runs. */
	if (!psn_equal(requester->una, requester->next))
		assert(rc->qp.deadline.position != 0);
}

static_assert(offsetof(struct rc_qp, qp) == 0, "the engine frees it by its queue pair");
static_assert(offsetof(struct rc_cold, receive) == 0, "message_receive()");
static_assert(sizeof(struct rc_cold) <= 2048, "a block of that size");

const struct qp_transport rc_transport = {
	.object_bytes = sizeof(struct rc_qp),
	.cold_bytes = sizeof(struct rc_cold),
	.receive = rc_receive,
	.next_packet = rc_next_packet,
	.next_unpaced = rc_next_unpaced,
	.expire = rc_expire,
	.posted = rc_posted,
	.state_changed = rc_state_changed,
	.reserved = rc_reserved,
	.migrated = rc_migrated,
	.done = rc_done,
	.check = rc_check,
};
