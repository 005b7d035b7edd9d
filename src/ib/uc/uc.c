/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib/uc/uc.h"

#include <assert.h>

#include "base/arith.h"
#include "ib/memory_window.h"
#include "ib/message_report.h"
#include "ib/unreliable.h"
#include "qp/qp_report.h"

static struct uc_qp *uc_from_qp(struct qp *qp)
{
	return container_of(qp, struct uc_qp, qp);
}

/* --- requester --- */

static enum fault wqe_start(struct uc_qp *uc, struct send_wqe *wqe)
{
	enum fault fault = message_check(&uc->qp, wqe);

	if (!fault) {
		wqe->packet_count = message_packet_count(&uc->qp, wqe->total_bytes);
		wqe->is_started = true;
		uc->sent_packets = 0;
	}
	return fault;
}

/* The oldest request that may be sent, or NULL. In SQD only a started request may be sent. */
static struct send_wqe *wqe_oldest(struct qp *qp, uint64_t now_ns)
{
	struct send_wqe *wqe = sq_at(qp->sq, qp->sq->completed);

	(void)now_ns;
	if (qp->sq->completed == qp->sq->posted)
		return NULL;
	return qp->state == QP_RTS || (qp->state == QP_SQD && wqe->is_started) ? wqe : NULL;
}

/*
 * UC has no acknowledgements, so only the peer's memory says which packets have arrived. Returns
 * QP_LOCAL_DONE when all have arrived; then a request may be executed without packets. Until then
 * the requester sends packets, or waits for a limited time.
 */
static enum qp_local_result peer_arrival(struct uc_qp *uc, uint64_t now_ns, uint64_t *ret_at_ns)
{
	if (uc->qp.local->ops->has_arrived(&uc->qp, uc->next)) {
		uc->fallbacks = 0;
		uc->waiting_since_ns = 0;
		return QP_LOCAL_DONE;
	}
	if (uc->fallbacks < UC_FALLBACKS_MAX) {
		uc->fallbacks++;
		return QP_LOCAL_PACKETS;
	}
	if (!uc->waiting_since_ns)
		uc->waiting_since_ns = now_ns;
	if (now_ns - uc->waiting_since_ns < UC_ARRIVAL_NS) {
		*ret_at_ns = now_ns + UC_ARRIVAL_LOOK_NS;
		return QP_LOCAL_LATER;
	}
	uc->waiting_since_ns = 0; /* packets were lost; the next packet resynchronizes the peer */
	uc->fallbacks = 0;
	return QP_LOCAL_PACKETS;
}

static enum qp_local_result wqe_execute(
	struct qp *qp, struct send_wqe *wqe, uint64_t now_ns, enum fault *ret_fault)
{
	uint64_t at_ns = DEADLINE_NEVER;
	enum qp_local_result result;

	if (wr_table[wqe->opcode].is_local) {
		*ret_fault = window_execute(qp, wqe);
		return QP_LOCAL_DONE;
	}
	if (!unreliable_is_local(qp, wqe))
		return QP_LOCAL_PACKETS;
	result = peer_arrival(uc_from_qp(qp), now_ns, &at_ns);
	return unreliable_execute(qp, wqe, result, at_ns, now_ns);
}

static const struct unreliable_steps uc_steps = {.next = wqe_oldest, .execute = wqe_execute};

static size_t uc_next_packet(struct qp *qp, struct packet_run *run, uint64_t now_ns)
{
	struct uc_qp *uc = uc_from_qp(qp);
	enum fault fault = FAULT_NONE;
	struct send_wqe *wqe = unreliable_next(qp, &uc_steps, now_ns);
	struct packet packet;
	size_t bytes = 0;

	if (!wqe)
		return 0;
	if (!wqe->is_started)
		fault = wqe_start(uc, wqe);
	if (!fault) {
		message_packet_init(&packet, qp, OPCODE_CLASS_UC, wqe, uc->sent_packets);
		packet.bth.psn = uc->next;
		bytes = message_packet_write(
			qp, &packet, wqe, uc->sent_packets, run->buffer, &fault);
	}
	if (fault) {
		qp_fail_send(qp, fault, now_ns);
		return 0;
	}
	run->path = qp->attr.path.id;
	uc->next = psn_add(uc->next, 1);
	if (++uc->sent_packets == wqe->packet_count) {
		qp_complete_send(qp, FAULT_NONE, now_ns);
		if (qp->state == QP_SQD)
			qp_sq_drained(qp);
	}
	return bytes;
}

static void uc_posted(struct qp *qp, uint64_t now_ns)
{
	unreliable_posted(qp, &uc_steps, now_ns);
}

/* --- responder --- */

/*
 * Tell a peer on this host which of its packets have arrived. The peer waits for their arrival
 * before it executes a request without packets.
 */
static void tell_arrived(struct uc_qp *uc)
{
	if (uc->qp.local)
		uc->qp.local->ops->arrived(&uc->qp, uc->expected, uc->message.has_receive);
}

static void uc_reserved(struct qp *qp, struct srq *srq, const struct recv_wqe *wqe)
{
	(void)srq;
	if (message_reserve(&uc_from_qp(qp)->message, qp, wqe))
		tell_arrived(uc_from_qp(qp));
}

/* Give up the message in progress, because its rest will not come, or is refused. */
static void message_drop(struct uc_qp *uc)
{
	if (uc->message.kind != MESSAGE_NONE)
		qp_count(&uc->qp, COUNTER_dropped_messages, 1);
	uc->message.kind = MESSAGE_NONE;
}

static void drop_report(struct uc_qp *uc, enum reason reason, uint64_t now_ns)
{
	const struct qp_attr *attr = &uc->qp.attr;

	qp_report_drop(&uc->qp, reason, attr->dest_qpn, &attr->path.remote, now_ns);
}

/* Report why the request is refused, before message_drop() gives the message up. */
static void refusal_report(
	struct uc_qp *uc, const struct packet *packet, enum refusal refusal, uint64_t now_ns)
{
	struct qp *qp = &uc->qp;

	if (!qp_has_reports(qp))
		return;
	switch (refusal) {
	case REFUSED_NOT_READY:
		qp_fact_receives(qp);
		drop_report(uc, REASON_DROPPED_NO_RECEIVE, now_ns);
		break;
	case REFUSED_TOO_LONG:
		lane_fact(qp->lane, FACT_bytes, uc->message.placed_bytes + packet->payload_bytes);
		lane_fact(qp->lane, FACT_room, message_receive(qp)->total_bytes);
		drop_report(uc, REASON_DROPPED_TOO_LONG, now_ns);
		break;
	case REFUSED_INVALID:
	case REFUSED_ACCESS:
		message_report_refusal(qp, &uc->message, packet, refusal, true, now_ns);
		break;
	case REFUSED_OPERATIONAL: /* the receive request completes with an error */
	case REFUSED_INVALIDATE:
	case ACCEPTED:
		break;
	}
}

static void request_refuse(struct uc_qp *uc, const struct packet *packet, enum refusal refusal,
	enum fault fault, uint64_t now_ns)
{
	struct qp *qp = &uc->qp;

	refusal_report(uc, packet, refusal, now_ns);
	/* A message that is refused at its first packet also counts as dropped. */
	if (uc->message.kind == MESSAGE_NONE)
		qp_count(qp, COUNTER_dropped_messages, 1);
	message_drop(uc);
	qp_count(qp, refusal_effects[refusal].uc_counter, 1);
	if (refusal == REFUSED_OPERATIONAL) {
		message_abandon(&uc->message, qp, fault, now_ns);
		if (qp->state != QP_ERR)
			qp_set_state(qp, QP_ERR, now_ns);
	}
}

static bool key_is_proven(const struct uc_qp *uc, uint32_t key)
{
	for (uint32_t i = 0; i < min_u32(uc->proven_count, UC_PROVEN_KEYS); i++)
		if (uc->proven[i] == key)
			return true;
	return false;
}

/* Remember the key of an executed WRITE. Usually the previous WRITE had the same key. */
static void key_prove(struct uc_qp *uc, uint32_t key)
{
	uint32_t last = (uc->proven_count - 1) % UC_PROVEN_KEYS;

	if ((uc->proven_count && uc->proven[last] == key) || key_is_proven(uc, key))
		return;
	uc->proven[uc->proven_count % UC_PROVEN_KEYS] = key;
	uc->proven_count = uc->proven_count == UINT32_MAX ? UC_PROVEN_KEYS : uc->proven_count + 1;
}

/* Does the packet name a key? A WRITE without bytes has a key that is never looked up. */
static bool names_key(const struct packet *packet)
{
	return (packet->info->headers & HEADER_RETH) && packet->reth.dma_bytes;
}

/* While the guard of keys is up, an unproven key is not looked up. */
static bool key_may_be_tried(const struct uc_qp *uc, const struct packet *packet,
	const struct packet_origin *origin, uint64_t now_ns)
{
	return !names_key(packet) || !qp_is_guarded(&uc->qp, GUARD_KEYS, origin, now_ns) ||
		key_is_proven(uc, packet->reth.rkey);
}

/* A WRITE was refused for its key. The packet counts as a try if it has the peer's port. */
static enum packet_verdict key_refused(
	struct uc_qp *uc, const struct packet_origin *origin, uint64_t now_ns)
{
	struct qp *qp = &uc->qp;

	if (!qp->peer_port || origin->source_port == qp->peer_port)
		guard_note(qp->lane, qp, GUARD_KEYS, origin, now_ns);
	return PACKET_GUESSED;
}

static enum packet_verdict request_execute(struct uc_qp *uc, const struct packet *packet,
	const struct packet_origin *origin, uint64_t now_ns)
{
	struct message *message = &uc->message;
	enum refusal refusal = REFUSED_INVALID;
	enum fault fault = FAULT_NONE;

	if (!message_is_in_sequence(message, &uc->qp, packet))
		refusal = REFUSED_INVALID;
	else if (packet->info->operation == OPERATION_SEND)
		refusal = message_send_execute(message, &uc->qp, packet, &fault, now_ns);
	else
		refusal = message_write_execute(message, &uc->qp, packet, now_ns);
	if (refusal) {
		request_refuse(uc, packet, refusal, fault, now_ns);
		return refusal == REFUSED_ACCESS ? key_refused(uc, origin, now_ns) : PACKET_DROPPED;
	}
	if (names_key(packet))
		key_prove(uc, packet->reth.rkey);
	qp_count(&uc->qp, COUNTER_rcvd_bytes, packet->payload_bytes);
	return PACKET_TAKEN;
}

/* Does the packet come late, or for the second time? */
static bool is_late(const struct uc_qp *uc, int32_t ahead)
{
	return uc->is_synchronized && ahead < 0 && ahead >= -UC_LATE_PACKETS;
}

static void gap_report(struct uc_qp *uc, const struct packet *packet, uint64_t now_ns)
{
	if (!qp_has_reports(&uc->qp))
		return;
	lane_fact(uc->qp.lane, FACT_psn, packet->bth.psn.value);
	lane_fact(uc->qp.lane, FACT_expected_psn, uc->expected.value);
	drop_report(uc, REASON_DROPPED_SEQUENCE, now_ns);
}

static enum packet_verdict request_receive(struct uc_qp *uc, const struct packet *packet,
	const struct packet_origin *origin, uint64_t now_ns)
{
	int32_t ahead = psn_diff(packet->bth.psn, uc->expected);

	if (is_late(uc, ahead)) {
		qp_count(&uc->qp, COUNTER_duplicate_request, 1);
		return PACKET_DROPPED;
	}
	if (!key_may_be_tried(uc, packet, origin, now_ns)) {
		qp_count(&uc->qp, COUNTER_guarded_keys, 1);
		return PACKET_DROPPED;
	}
	if (ahead != 0) {
		qp_count(&uc->qp, COUNTER_out_of_seq_request, 1);
		gap_report(uc, packet, now_ns);
		message_drop(uc);
	}
	if (opcode_begins_message(packet->info))
		message_drop(uc); /* the peer has given up the previous message */
	else if (uc->message.kind == MESSAGE_NONE && ahead != 0)
		/* Keep `expected`, because earlier packets may still arrive. */
		return PACKET_DROPPED;
	uc->is_synchronized = true;
	uc->expected = psn_add(packet->bth.psn, 1);
	if (opcode_begins_message(packet->info) || uc->message.kind != MESSAGE_NONE)
		return request_execute(uc, packet, origin, now_ns);
	return PACKET_DROPPED;
}

static enum packet_verdict uc_receive(struct qp *qp, const struct packet *packet,
	const struct packet_origin *origin, uint64_t now_ns)
{
	enum packet_verdict verdict;

	if (!qp_is_from_peer(qp, packet, origin))
		return PACKET_DROPPED;
	if (qp->local)
		qp->local->ops->collect(qp, now_ns);
	if (opcode_class(packet->info) != OPCODE_CLASS_UC || qp->state == QP_ERR) {
		qp_count(qp, COUNTER_bad_state_drops, 1);
		return PACKET_DROPPED;
	}
	if (qp->state == QP_RTR && !qp->is_comm_established) {
		qp->is_comm_established = true;
		signal_raise(&qp->lane->signals, &qp->signal, SIGNAL_QP_ESTABLISHED);
	}
	verdict = request_receive(uc_from_qp(qp), packet, origin, now_ns);
	tell_arrived(uc_from_qp(qp));
	return verdict;
}

/* --- life --- */

static void uc_state_changed(struct qp *qp, enum qp_state old, uint64_t now_ns)
{
	struct uc_qp *uc = uc_from_qp(qp);

	qp_set_deadline(qp, DEADLINE_NEVER);
	switch (qp->state) {
	case QP_RTR:
		uc->expected = psn_from(qp->attr.rq_psn);
		uc->is_synchronized = false;
		break;
	case QP_RTS:
		if (old == QP_RTR) {
			uc->next = psn_from(qp->attr.sq_psn);
			uc->fallbacks = 0;
			uc->waiting_since_ns = 0;
		}
		uc_posted(qp, now_ns); /* send the requests that were posted in SQD */
		break;
	case QP_SQD:
		if (!wqe_oldest(qp, now_ns))
			qp_sq_drained(qp);
		break;
	case QP_ERR:
		message_abandon(&uc->message, qp, FAULT_FLUSHED, now_ns);
		break;
	case QP_RESET:
		uc->message = (struct message){.kind = MESSAGE_NONE};
		uc->proven_count = 0;
		break;
	case QP_INIT:
	case QP_SQE:
	case QP_STATE_COUNT:
		break;
	}
}

static void uc_check(const struct qp *qp)
{
	const struct uc_qp *uc = container_of(qp, struct uc_qp, qp);

	assert(qp->sq->posted - qp->sq->completed <= qp->sq->depth);
	assert(uc->message.kind != MESSAGE_SEND || uc->message.has_receive);
	assert(qp->state == QP_RTS || qp->state == QP_SQD || qp->sq->completed == qp->sq->posted);
	assert(qp->deadline.position == 0 || (qp->local && qp->state == QP_RTS));
}

static_assert(offsetof(struct uc_qp, qp) == 0, "the engine frees it by its queue pair");

const struct qp_transport uc_transport = {
	.object_bytes = sizeof(struct uc_qp),
	.cold_bytes = sizeof(struct recv_wqe), /* the receive request of message_receive() */
	.receive = uc_receive,
	.next_packet = uc_next_packet,
	.expire = unreliable_expire,
	.posted = uc_posted,
	.reserved = uc_reserved,
	.state_changed = uc_state_changed,
	.check = uc_check,
};
