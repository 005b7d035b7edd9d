/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sending half: requests of the send queue and answers to the peer become FPDUs.
 *
 * A message is staged completely before the next one begins. Answers and requests alternate.
 */
#include <string.h>

#include "base/arith.h"
#include "ib/memory_window.h"
#include "ib/message.h"
#include "iwarp/iwarp_internal.h"
#include "wire/bytes.h"

/* --- getting ready (RFC 6581 section 6) --- */

static void stage_ready(struct iwarp_qp *iwarp)
{
	struct iwarp_transmit *tx = &iwarp->tx;
	struct ddp_segment segment = {.opcode = RDMAP_WRITE, .is_last = true};
	const struct rdmap_read_request nothing = {0};
	uint32_t bytes = 0;

	if (iwarp->settings.ready & MPA_READY_SEND)
		segment = iwarp_untagged(tx, RDMAP_SEND, DDP_QUEUE_SEND, 0);
	else if (iwarp->settings.ready & MPA_READY_READ)
		segment = iwarp_untagged(tx, RDMAP_READ_REQUEST, DDP_QUEUE_READ_REQUEST, 0);
	uint8_t *payload = iwarp_fpdu_begin(tx, &segment);
	if (segment.opcode == RDMAP_READ_REQUEST) {
		rdmap_read_request_encode(&nothing, payload);
		bytes = RDMAP_READ_REQUEST_BYTES;
		iwarp->rx.is_ready_answer_awaited = true;
	}
	if (segment.opcode != RDMAP_WRITE)
		tx->msn[segment.untagged.queue]++;
	iwarp_fpdu_end(iwarp, &segment, bytes);
	tx->is_ready_pending = false;
}

/* --- answers --- */

bool iwarp_pending_add(struct iwarp_qp *iwarp, const struct iwarp_pending *request)
{
	struct iwarp_transmit *tx = &iwarp->tx;

	if (tx->pending_count >= iwarp->settings.ird)
		return false;
	tx->pending[(tx->pending_first + tx->pending_count) % QP_RD_ATOMIC_MAX] = *request;
	tx->pending_count++;
	iwarp_schedule(iwarp);
	return true;
}

static void pending_next(struct iwarp_transmit *tx)
{
	tx->pending_first = (tx->pending_first + 1) % QP_RD_ATOMIC_MAX;
	tx->pending_count--;
	tx->pending_offset = 0;
	tx->is_turn_of_answers = false;
}

static void stage_atomic_response(
	struct iwarp_qp *iwarp, const struct rdmap_atomic_response *response)
{
	struct iwarp_transmit *tx = &iwarp->tx;
	struct ddp_segment segment =
		iwarp_untagged(tx, RDMAP_ATOMIC_RESPONSE, DDP_QUEUE_ATOMIC_RESPONSE, 0);

	rdmap_atomic_response_encode(response, iwarp_fpdu_begin(tx, &segment));
	tx->msn[DDP_QUEUE_ATOMIC_RESPONSE]++;
	iwarp_fpdu_end(iwarp, &segment, RDMAP_ATOMIC_RESPONSE_BYTES);
	pending_next(tx);
}

/*
 * Refuse a READ; the response may be partly sent. The Terminate message quotes the rest of the
 * request (RFC 5040 section 4.8).
 */
static void read_refuse(struct iwarp_qp *iwarp, const struct rdmap_read_request *read,
	enum rdmap_error error, uint64_t now_ns)
{
	const struct iwarp_transmit *tx = &iwarp->tx;
	const struct ddp_segment segment = {
		.opcode = RDMAP_READ_REQUEST,
		.is_last = true,
		.untagged = {.queue = DDP_QUEUE_READ_REQUEST,
			.msn = iwarp->rx.msn[DDP_QUEUE_READ_REQUEST] - tx->pending_count},
	};
	struct rdmap_read_request left = *read;
	uint8_t ulpdu[DDP_UNTAGGED_BYTES + RDMAP_READ_REQUEST_BYTES];

	left.sink_offset += tx->pending_offset;
	left.source_offset += tx->pending_offset;
	left.bytes -= tx->pending_offset;
	rdmap_read_request_encode(&left, ulpdu + ddp_encode(&segment, ulpdu));
	iwarp_refuse(iwarp, error, ulpdu, sizeof(ulpdu), now_ns);
}

/*
 * Stage the response to a READ. The region may have been deregistered since the request was
 * checked.
 */
static void stage_read_response(
	struct iwarp_qp *iwarp, const struct rdmap_read_request *read, uint64_t now_ns)
{
	struct iwarp_transmit *tx = &iwarp->tx;
	const struct mr_table *mrs = iwarp->qp.lane->mrs;
	struct mr_user user = qp_mr_user(&iwarp->qp);
	uint32_t left_bytes = read->bytes - tx->pending_offset;
	bool is_borrowed = iwarp_may_zerocopy(iwarp, left_bytes);
	const struct iwarp_piece payload = {.kind = IWARP_ZEROCOPY_READ,
		.bytes = min_u32(left_bytes,
			is_borrowed ? IWARP_ZEROCOPY_BYTES_MAX : IWARP_PAYLOAD_BYTES_MAX),
		.key = read->source_stag,
		.at = read->source_offset + tx->pending_offset};
	struct ddp_segment segment = {
		.opcode = RDMAP_READ_RESPONSE,
		.is_last = tx->pending_offset + payload.bytes == read->bytes,
		.tagged = {.stag = read->sink_stag,
			.offset = read->sink_offset + tx->pending_offset},
	};
	uint8_t *to = iwarp_fpdu_begin(tx, &segment);
	enum mr_fault fault = MR_OK;

	if (is_borrowed)
		fault = mr_check(mrs, payload.key, user, MR_REMOTE_READ, payload.at, payload.bytes);
	else if (payload.bytes)
		fault = mr_get(
			mrs, payload.key, user, MR_REMOTE_READ, payload.at, payload.bytes, to);
	if (fault) {
		read_refuse(iwarp, read, RDMAP_ERROR_READ_STAG, now_ns);
		return;
	}
	if (is_borrowed)
		iwarp_fpdu_zerocopy(iwarp, &segment, &payload);
	else
		iwarp_fpdu_end(iwarp, &segment, payload.bytes);
	tx->pending_offset += payload.bytes;
	if (segment.is_last)
		pending_next(tx);
}

static void stage_answer(struct iwarp_qp *iwarp, uint64_t now_ns)
{
	const struct iwarp_pending *request = &iwarp->tx.pending[iwarp->tx.pending_first];

	if (request->opcode == RDMAP_READ_REQUEST)
		stage_read_response(iwarp, &request->read, now_ns);
	else
		stage_atomic_response(iwarp, &request->atomic);
}

/* --- requests --- */

static uint64_t sent_position(const struct iwarp_transmit *tx)
{
	return tx->position - tx->staged_bytes;
}

/*
 * The payload of the next segment of a SEND or WRITE, if it is zero-copy. Otherwise a piece of kind
 * IWARP_OWN, in which only `bytes` is set: the number of bytes to copy.
 */
static struct iwarp_piece payload_choose(const struct iwarp_qp *iwarp, const struct send_wqe *wqe)
{
	const struct iwarp_transmit *tx = &iwarp->tx;
	uint32_t left_bytes = wqe->total_bytes - tx->message_offset;
	struct sge slice;

	if (iwarp_may_zerocopy(iwarp, left_bytes) && !(wqe->flags & SEND_INLINE)) {
		slice = sge_slice(wqe->sge, wqe->sge_count, tx->message_offset,
			min_u32(left_bytes, IWARP_ZEROCOPY_BYTES_MAX));
		if (iwarp_may_zerocopy(iwarp, slice.bytes))
			return (struct iwarp_piece){
				IWARP_ZEROCOPY, slice.bytes, slice.lkey, slice.address};
	}
	return (struct iwarp_piece){
		.kind = IWARP_OWN, .bytes = min_u32(left_bytes, IWARP_PAYLOAD_BYTES_MAX)};
}

/* Copy the payload. Returns false when its memory is refused. */
static bool payload_gather(
	struct iwarp_qp *iwarp, const struct send_wqe *wqe, uint32_t bytes, uint8_t *to)
{
	struct qp *qp = &iwarp->qp;

	if (wqe->flags & SEND_INLINE)
		memcpy(to, wqe->inline_bytes + iwarp->tx.message_offset, bytes);
	else
		iwarp->tx.fault = message_local_fault(sge_gather(qp->lane->mrs, qp->pd, wqe->sge,
			wqe->sge_count, iwarp->tx.message_offset, bytes, to));
	return iwarp->tx.fault == FAULT_NONE;
}

/* Stage a segment with `payload`. Returns false when its memory is refused. */
static bool stage_payload(struct iwarp_qp *iwarp, const struct send_wqe *wqe,
	const struct ddp_segment *segment, const struct iwarp_piece *payload)
{
	struct iwarp_transmit *tx = &iwarp->tx;

	if (payload->kind == IWARP_ZEROCOPY) {
		iwarp_fpdu_zerocopy(iwarp, segment, payload);
	} else {
		if (!payload_gather(iwarp, wqe, payload->bytes, iwarp_fpdu_begin(tx, segment)))
			return false;
		iwarp_fpdu_end(iwarp, segment, payload->bytes);
	}
	tx->message_offset += payload->bytes;
	tx->is_in_message = true;
	return true;
}

static enum rdmap_opcode send_opcode(const struct send_wqe *wqe)
{
	bool is_solicited = wqe->flags & SEND_SOLICITED;

	if (wr_table[wqe->opcode].has_invalidate)
		return is_solicited ? RDMAP_SEND_SOLICITED_INVALIDATE : RDMAP_SEND_INVALIDATE;
	return is_solicited ? RDMAP_SEND_SOLICITED : RDMAP_SEND;
}

static void stage_send(struct iwarp_qp *iwarp, struct send_wqe *wqe)
{
	struct iwarp_transmit *tx = &iwarp->tx;
	const struct iwarp_piece payload = payload_choose(iwarp, wqe);
	struct ddp_segment segment =
		iwarp_untagged(tx, send_opcode(wqe), DDP_QUEUE_SEND, tx->message_offset);

	segment.is_last = tx->message_offset + payload.bytes == wqe->total_bytes;
	segment.untagged.invalidate_stag = rdmap_has_invalidate(segment.opcode) ? wqe->imm : 0;
	if (stage_payload(iwarp, wqe, &segment, &payload) && segment.is_last) {
		tx->msn[DDP_QUEUE_SEND]++;
		iwarp_request_staged(iwarp, wqe);
	}
}

/* Immediate data is a message of its own, behind its WRITE (RFC 7306 section 5). */
static void stage_immediate(struct iwarp_qp *iwarp, struct send_wqe *wqe)
{
	struct iwarp_transmit *tx = &iwarp->tx;
	struct ddp_segment segment = iwarp_untagged(tx,
		wqe->flags & SEND_SOLICITED ? RDMAP_IMMEDIATE_SOLICITED : RDMAP_IMMEDIATE,
		DDP_QUEUE_SEND, 0);
	uint8_t *payload = iwarp_fpdu_begin(tx, &segment);

	put_be32(payload, wqe->imm);
	put_be32(payload + 4, 0);
	tx->msn[DDP_QUEUE_SEND]++;
	iwarp_fpdu_end(iwarp, &segment, RDMAP_IMMEDIATE_BYTES);
	tx->is_imm_due = false;
	iwarp_request_staged(iwarp, wqe);
}

static void stage_write(struct iwarp_qp *iwarp, struct send_wqe *wqe)
{
	struct iwarp_transmit *tx = &iwarp->tx;
	const struct iwarp_piece payload = payload_choose(iwarp, wqe);
	struct ddp_segment segment = {
		.opcode = RDMAP_WRITE,
		.is_last = tx->message_offset + payload.bytes == wqe->total_bytes,
		.tagged = {.stag = wqe->rkey, .offset = wqe->remote_address + tx->message_offset},
	};

	if (tx->is_imm_due) {
		stage_immediate(iwarp, wqe);
		return;
	}
	if (!stage_payload(iwarp, wqe, &segment, &payload))
		return;
	if (segment.is_last && wr_table[wqe->opcode].has_imm)
		tx->is_imm_due = true;
	else if (segment.is_last)
		iwarp_request_staged(iwarp, wqe);
}

static void answer_awaited(struct iwarp_qp *iwarp, struct send_wqe *wqe)
{
	struct iwarp_transmit *tx = &iwarp->tx;

	tx->msn[DDP_QUEUE_READ_REQUEST]++;
	if (tx->answers_out++ == 0)
		iwarp->rx.answer_index = tx->index;
	iwarp_request_staged(iwarp, wqe);
}

static void stage_read_request(struct iwarp_qp *iwarp, struct send_wqe *wqe)
{
	struct iwarp_transmit *tx = &iwarp->tx;
	struct ddp_segment segment =
		iwarp_untagged(tx, RDMAP_READ_REQUEST, DDP_QUEUE_READ_REQUEST, 0);
	const struct rdmap_read_request request = {
		.sink_stag = tx->index,
		.bytes = wqe->total_bytes,
		.source_stag = wqe->rkey,
		.source_offset = wqe->remote_address,
	};

	rdmap_read_request_encode(&request, iwarp_fpdu_begin(tx, &segment));
	iwarp_fpdu_end(iwarp, &segment, RDMAP_READ_REQUEST_BYTES);
	answer_awaited(iwarp, wqe);
}

static void stage_atomic_request(struct iwarp_qp *iwarp, struct send_wqe *wqe)
{
	struct iwarp_transmit *tx = &iwarp->tx;
	struct ddp_segment segment =
		iwarp_untagged(tx, RDMAP_ATOMIC_REQUEST, DDP_QUEUE_READ_REQUEST, 0);
	bool is_add = wqe->opcode == WR_ATOMIC_FETCH_AND_ADD;
	const struct rdmap_atomic_request request = {
		.operation = is_add ? RDMAP_FETCH_ADD : RDMAP_COMPARE_SWAP,
		.id = tx->index,
		.stag = wqe->rkey,
		.offset = wqe->remote_address,
		.operand = is_add ? wqe->compare_add : wqe->swap,
		.operand_mask = is_add ? 0 : UINT64_MAX,
		.compare = is_add ? 0 : wqe->compare_add,
		.compare_mask = is_add ? 0 : UINT64_MAX,
	};

	rdmap_atomic_request_encode(&request, iwarp_fpdu_begin(tx, &segment));
	iwarp_fpdu_end(iwarp, &segment, RDMAP_ATOMIC_REQUEST_BYTES);
	answer_awaited(iwarp, wqe);
}

/* Check all memory of a request before its first segment is staged. */
static enum fault request_check(const struct iwarp_qp *iwarp, const struct send_wqe *wqe)
{
	const struct qp *qp = &iwarp->qp;

	if (wr_table[wqe->opcode].is_local)
		return FAULT_NONE;
	if (!iwarp_has_answer(wqe))
		return message_check(qp, wqe);
	if (!iwarp->settings.ord)
		return FAULT_NO_RD_ATOMIC;
	if (wqe->opcode != WR_RDMA_READ && wqe->total_bytes != sizeof(uint64_t))
		return FAULT_ATOMIC_LENGTH;
	return message_local_fault(
		sge_check(qp->lane->mrs, qp->pd, MR_LOCAL_WRITE, wqe->sge, wqe->sge_count));
}

/* May the request at tx->index, or its next segment, be staged now? */
static bool request_is_ready(const struct iwarp_qp *iwarp)
{
	const struct iwarp_transmit *tx = &iwarp->tx;
	const struct qp *qp = &iwarp->qp;
	const struct send_wqe *wqe;

	if (tx->fault)
		return false;
	if (tx->is_in_message)
		return true;
	if (qp->state != QP_RTS || tx->index == qp->sq->posted)
		return false;
	wqe = sq_at(qp->sq, tx->index);
	if ((wqe->flags & SEND_FENCE) && tx->answers_out)
		return false;
	if (wr_table[wqe->opcode].is_local)
		return tx->index == qp->sq->completed;
	if (tx->is_held)
		return false;
	return !iwarp_has_answer(wqe) || !iwarp->settings.ord ||
		tx->answers_out + iwarp->rx.is_ready_answer_awaited < iwarp->settings.ord;
}

/* Execute a BIND_MW or LOCAL_INV, which sends nothing. */
static void execute_local(struct iwarp_qp *iwarp, struct send_wqe *wqe, uint64_t now_ns)
{
	iwarp->tx.fault = window_execute(&iwarp->qp, wqe);
	if (iwarp->tx.fault)
		return;
	iwarp_request_staged(iwarp, wqe);
	wqe->stream.end_position = sent_position(&iwarp->tx);
	iwarp_complete(iwarp, now_ns);
}

static void stage_request(struct iwarp_qp *iwarp, uint64_t now_ns)
{
	struct iwarp_transmit *tx = &iwarp->tx;
	struct send_wqe *wqe = sq_at(iwarp->qp.sq, tx->index);

	if (!tx->is_in_message) {
		tx->fault = request_check(iwarp, wqe);
		if (tx->fault)
			return;
	}
	if (wr_table[wqe->opcode].is_local)
		execute_local(iwarp, wqe, now_ns);
	else if (wqe->opcode == WR_RDMA_READ)
		stage_read_request(iwarp, wqe);
	else if (iwarp_has_answer(wqe))
		stage_atomic_request(iwarp, wqe);
	else if (wr_table[wqe->opcode].operation == OPERATION_SEND)
		stage_send(iwarp, wqe);
	else
		stage_write(iwarp, wqe);
}

/* --- completing --- */

/* Is a completely staged request done? */
static bool is_done(const struct iwarp_transmit *tx, const struct send_wqe *wqe)
{
	return iwarp_has_answer(wqe) ? wqe->stream.is_answered
				     : sent_position(tx) >= wqe->stream.end_position;
}

/*
 * A request of this queue pair that cannot be executed ends the stream, once the requests before it
 * are done.
 */
static void request_fail(struct iwarp_qp *iwarp, uint64_t now_ns)
{
	enum fault fault = iwarp->tx.fault;

	iwarp->tx.fault = FAULT_NONE;
	iwarp->tx.is_in_message = false;
	iwarp_stage_terminate(iwarp, RDMAP_ERROR_STREAM_CATASTROPHIC, NULL, 0);
	qp_complete_send(&iwarp->qp, fault, now_ns);
	if (iwarp->qp.state != QP_ERR)
		qp_set_state(&iwarp->qp, QP_ERR, now_ns);
}

void iwarp_complete(struct iwarp_qp *iwarp, uint64_t now_ns)
{
	struct qp *qp = &iwarp->qp;

	while (iwarp->stream == IWARP_STREAM_OPEN && qp->sq->completed != iwarp->tx.index &&
		is_done(&iwarp->tx, sq_at(qp->sq, qp->sq->completed)))
		qp_complete_send(qp, FAULT_NONE, now_ns);
	if (iwarp->stream != IWARP_STREAM_OPEN)
		return;
	if (iwarp->tx.fault && qp->sq->completed == iwarp->tx.index)
		request_fail(iwarp, now_ns);
	else if (qp->state == QP_SQD && qp->sq->completed == iwarp->tx.index &&
		!iwarp->tx.is_in_message)
		qp_sq_drained(qp);
}

/* --- output --- */

bool iwarp_stage_next(struct iwarp_qp *iwarp, uint64_t now_ns)
{
	struct iwarp_transmit *tx = &iwarp->tx;
	bool is_ready;

	if (iwarp->stream != IWARP_STREAM_OPEN || !iwarp_has_room(tx))
		return false;
	if (tx->is_ready_pending) {
		stage_ready(iwarp);
		return true;
	}
	is_ready = request_is_ready(iwarp);
	if (tx->pending_count && !tx->is_in_message &&
		(tx->pending_offset || tx->is_turn_of_answers || !is_ready))
		stage_answer(iwarp, now_ns);
	else if (is_ready)
		stage_request(iwarp, now_ns);
	else
		return false;
	if (tx->fault)
		iwarp_complete(iwarp, now_ns);
	return true;
}
