/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of a stream, and the transport that the engine calls. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/arith.h"
#include "iwarp/iwarp_internal.h"
#include "qp/qp_report.h"

/* --- the list of queue pairs with something to send --- */

void iwarp_schedule(struct iwarp_qp *iwarp)
{
	struct qp *qp = &iwarp->qp;

	if (qp->tx_list != LANE_TX_NONE || iwarp->stream == IWARP_STREAM_NONE ||
		iwarp->stream == IWARP_STREAM_OVER)
		return;
	list_append(&qp->lane->tx_streams, &qp->tx_link);
	qp->tx_list = LANE_TX_STREAMS;
}

void iwarp_unschedule(struct iwarp_qp *iwarp)
{
	list_remove(&iwarp->qp.tx_link);
	iwarp->qp.tx_list = LANE_TX_NONE;
}

void iwarp_deadline_update(struct iwarp_qp *iwarp)
{
	uint64_t at_ns = DEADLINE_NEVER;

	if (iwarp_is_stalled(iwarp))
		at_ns = iwarp->rx.stall_look_ns;
	if (iwarp->tx.hold_end_ns)
		at_ns = min_u64(at_ns, iwarp->tx.hold_end_ns);
	qp_set_deadline(&iwarp->qp, at_ns);
}

/* --- opening --- */

int iwarp_open(struct iwarp_qp *iwarp, const struct iwarp_settings *settings, uint64_t now_ns)
{
	struct qp *qp = &iwarp->qp;

	if (qp->state != QP_INIT || iwarp->stream != IWARP_STREAM_NONE)
		return -EINVAL;
	assert(settings->ird <= QP_RD_ATOMIC_MAX);
	iwarp->settings = *settings;
	iwarp->stream = IWARP_STREAM_OPEN;
	iwarp->tx.is_ready_pending = settings->is_initiator && settings->ready;
	iwarp->tx.is_held = !settings->is_initiator;
	if (iwarp->tx.is_held && !settings->ready) {
		iwarp->tx.hold_end_ns = now_ns + IWARP_HOLD_NS;
		iwarp_deadline_update(iwarp);
	}
	iwarp->rx.is_ready_awaited = iwarp->tx.is_held;
	for (unsigned i = 0; i < DDP_QUEUE_COUNT; i++) {
		iwarp->tx.msn[i] = 1;
		iwarp->rx.msn[i] = 1;
	}
	qp->attr.max_dest_rd_atomic = settings->ird;
	qp->attr.max_rd_atomic = settings->ord;
	qp_set_state(qp, QP_RTS, now_ns);
	return 0;
}

void iwarp_hold_over(struct iwarp_qp *iwarp)
{
	iwarp->tx.is_held = false;
	if (iwarp->tx.hold_end_ns) {
		iwarp->tx.hold_end_ns = 0;
		iwarp_deadline_update(iwarp);
	}
	iwarp_schedule(iwarp);
}

/* --- ending --- */

static void stream_over(struct iwarp_qp *iwarp)
{
	iwarp->stream = IWARP_STREAM_OVER;
	qp_set_deadline(&iwarp->qp, DEADLINE_NEVER);
	iwarp_unschedule(iwarp);
	signal_raise(&iwarp->qp.lane->signals, &iwarp->qp.signal, SIGNAL_QP_DISCONNECTED);
}

/* The queue pair is in error: send the staged bytes, then end. */
static void end_begin(struct iwarp_qp *iwarp, uint64_t now_ns)
{
	iwarp_zerocopy_end(iwarp);
	iwarp->stream = IWARP_STREAM_ENDING;
	iwarp->rx.start = 0;
	iwarp->rx.end = 0;
	iwarp->rx.has_segment = false;
	iwarp->rx.stall_end_ns = 0;
	iwarp->tx.hold_end_ns = 0;
	iwarp->tx.pending_count = 0;
	qp_set_deadline(&iwarp->qp, now_ns + IWARP_CLOSE_NS);
	iwarp_schedule(iwarp);
}

enum iwarp_wish iwarp_wish(const struct iwarp_qp *iwarp)
{
	switch (iwarp->stream) {
	case IWARP_STREAM_NONE:
	case IWARP_STREAM_OPEN:
	case IWARP_STREAM_ENDED:
		return IWARP_KEEP;
	case IWARP_STREAM_ENDING:
		return iwarp->tx.piece_count == 0 ? IWARP_END : IWARP_KEEP;
	case IWARP_STREAM_OVER:
		break;
	}
	return IWARP_CLOSE;
}

void iwarp_half_closed(struct iwarp_qp *iwarp, uint64_t now_ns)
{
	assert(iwarp->stream == IWARP_STREAM_ENDING);
	iwarp->stream = IWARP_STREAM_ENDED;
	qp_set_deadline(&iwarp->qp, now_ns + IWARP_CLOSE_NS);
	iwarp_unschedule(iwarp);
	if (iwarp->is_peer_ended)
		stream_over(iwarp);
}

void iwarp_ended(struct iwarp_qp *iwarp, bool is_lost, uint64_t now_ns)
{
	if (iwarp->stream == IWARP_STREAM_NONE || iwarp->stream == IWARP_STREAM_OVER)
		return;
	iwarp->is_peer_ended = true;
	if (iwarp->qp.state != QP_ERR)
		qp_set_state(&iwarp->qp, QP_ERR, now_ns);
	if (is_lost || iwarp->stream == IWARP_STREAM_ENDED)
		stream_over(iwarp);
}

const struct iwarp_error iwarp_errors[RDMAP_ERROR_COUNT] = {
	[RDMAP_OK] = {FAULT_REMOTE_OPERATIONAL, 0}, /* for a code that no RFC defines */
#define RDMAP_ERROR(name, layer, type, code, fault, signal, sentence) \
	[RDMAP_ERROR_##name] = {FAULT_##fault, SIGNAL_QP_##signal},
#include "wire/iwarp/rdmap_error.def"
#undef RDMAP_ERROR
};

void iwarp_refuse(struct iwarp_qp *iwarp, enum rdmap_error error, const uint8_t *ulpdu,
	uint32_t ulpdu_bytes, uint64_t now_ns)
{
	struct qp *qp = &iwarp->qp;
	uint32_t events = iwarp_errors[error].event;

	if (iwarp->stream != IWARP_STREAM_OPEN)
		return;
	qp_count(qp,
		events == SIGNAL_QP_ACCESS ? COUNTER_resp_remote_access_errors
					   : COUNTER_resp_invalid_request,
		1);
	signal_raise(&qp->lane->signals, &qp->signal, events);
	iwarp_stage_terminate(iwarp, error, ulpdu, ulpdu_bytes);
	lane_fact(qp->lane, FACT_terminate, error);
	qp_report(qp, REASON_TERMINATE_SENT, false, now_ns);
	qp_set_state(qp, QP_ERR, now_ns);
}

/* --- the transport --- */

/*
 * A deadline of the stream has passed. The stream was in one of four waits: for the initiator's
 * first FPDU, for a receive request, for the peer to receive the last bytes, or for the peer to end
 * its half.
 */
static void stream_expire(struct qp *qp, uint64_t now_ns)
{
	struct iwarp_qp *iwarp = iwarp_from_qp(qp);

	if (iwarp->stream != IWARP_STREAM_OPEN) {
		stream_over(iwarp);
		return;
	}
	if (iwarp->tx.hold_end_ns && now_ns >= iwarp->tx.hold_end_ns)
		iwarp_hold_over(iwarp);
	if (iwarp_is_stalled(iwarp) && now_ns >= iwarp->rx.stall_look_ns)
		iwarp_resume(iwarp, now_ns);
	if (iwarp->stream == IWARP_STREAM_OPEN)
		iwarp_deadline_update(iwarp);
}

/* Send requests were posted. Posting receive requests calls no transport (iwarp_is_stalled()). */
static void stream_posted(struct qp *qp, uint64_t now_ns)
{
	(void)now_ns;
	iwarp_schedule(iwarp_from_qp(qp));
}

/* Complete a receive request that a message of the peer had begun to fill. */
static void receive_abandon(struct iwarp_qp *iwarp, uint64_t now_ns)
{
	struct cqe cqe = {.opcode = WC_RECV};

	if (!iwarp->rx.has_receive)
		return;
	iwarp->rx.has_receive = false;
	qp_complete_recv(
		&iwarp->qp, iwarp->rx.receive.wr_id, &cqe, iwarp->rx.receive_fault, false, now_ns);
}

static void stream_forget(struct iwarp_qp *iwarp)
{
	if (iwarp->stream != IWARP_STREAM_NONE && iwarp->stream != IWARP_STREAM_OVER)
		stream_over(iwarp);
	iwarp->stream = IWARP_STREAM_NONE;
	iwarp->is_peer_ended = false;
	memset(&iwarp->tx, 0, offsetof(struct iwarp_transmit, bytes));
	memset(&iwarp->rx, 0, offsetof(struct iwarp_receive, bytes));
}

static void state_changed(struct qp *qp, enum qp_state old, uint64_t now_ns)
{
	struct iwarp_qp *iwarp = iwarp_from_qp(qp);

	if (qp->state == QP_RESET) {
		stream_forget(iwarp);
	} else if (qp->state == QP_ERR && old != QP_ERR) {
		receive_abandon(iwarp, now_ns);
		if (iwarp->stream == IWARP_STREAM_OPEN)
			end_begin(iwarp, now_ns);
	} else if (qp->state == QP_RTS) {
		iwarp_schedule(iwarp);
	} else if (qp->state == QP_SQD) {
		iwarp_complete(iwarp, now_ns);
	}
}

static void stream_check(const struct qp *qp)
{
	const struct iwarp_qp *iwarp = container_of(qp, struct iwarp_qp, qp);
	const struct iwarp_transmit *tx = &iwarp->tx;
	const struct iwarp_receive *rx = &iwarp->rx;

	assert(tx->piece_count <= IWARP_PIECES_MAX && tx->tail <= IWARP_TX_BYTES);
	assert(!tx->piece_count == !tx->staged_bytes);
	assert(rx->start <= rx->end && rx->end <= IWARP_RX_BYTES);
	assert(tx->pending_count <= iwarp->settings.ird);
	assert(!rx->has_segment || rx->placed_bytes <= rx->segment.payload_bytes);
	assert(qp->tx_list == LANE_TX_NONE || qp->tx_list == LANE_TX_STREAMS);
	if (iwarp->stream == IWARP_STREAM_OPEN) {
		assert(qp->state != QP_ERR && qp->state != QP_RESET);
		assert(tx->index - qp->sq->completed <= qp->sq->posted - qp->sq->completed);
		assert(tx->answers_out <= iwarp->settings.ord);
		assert(!(rx->stall_end_ns || tx->hold_end_ns) || qp->deadline.position);
		assert(!tx->hold_end_ns || tx->is_held);
	}
}

static_assert(offsetof(struct iwarp_qp, qp) == 0, "the engine frees it by its queue pair");
static_assert((int)IWARP_RX_BYTES >= (int)FPDU_BYTES_MAX, "a FPDU with a CRC is collected");

const struct qp_transport iwarp_transport = {
	.object_bytes = sizeof(struct iwarp_qp),
	.receive = qp_refuse_packet,
	.next_packet = qp_has_no_packets,
	.expire = stream_expire,
	.posted = stream_posted,
	.state_changed = state_changed,
	.check = stream_check,
};
