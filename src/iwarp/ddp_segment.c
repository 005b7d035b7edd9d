/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Received segments: their checks, the place of their payload, and their effect (RFC 5041 section
 * 5, RFC 5040 section 5).
 *
 * Untagged messages arrive in the order of their numbers, and their segments in the order of their
 * offsets. TCP keeps the order, so any other order is an error. A READ response is valid for the
 * oldest READ only, and goes to the scatter list of that request. The key in the response is
 * compared with the request's, and never looked up.
 */
#include <stdatomic.h>

#include "ib/message.h"
#include "iwarp/iwarp_internal.h"
#include "memory/mw.h"
#include "qp/qp_report.h"
#include "wire/bytes.h"

bool iwarp_segment_is_data(const struct ddp_segment *segment)
{
	switch (segment->opcode) {
	case RDMAP_WRITE:
	case RDMAP_READ_RESPONSE:
	case RDMAP_SEND:
	case RDMAP_SEND_INVALIDATE:
	case RDMAP_SEND_SOLICITED:
	case RDMAP_SEND_SOLICITED_INVALIDATE:
		return true;
	case RDMAP_READ_REQUEST:
	case RDMAP_TERMINATE:
	case RDMAP_IMMEDIATE:
	case RDMAP_IMMEDIATE_SOLICITED:
	case RDMAP_ATOMIC_REQUEST:
	case RDMAP_ATOMIC_RESPONSE:
	case RDMAP_OPCODE_COUNT:
		break;
	}
	return false;
}

/* --- checks --- */

/*
 * The Terminate codes for a refused memory access: `tagged` when data is placed, `read` for a READ
 * or atomic.
 */
static const struct {
	enum rdmap_error tagged, read;
} memory_errors[] = {
#define MR_FAULT(name, local, bind, tagged, read, error, sentence) \
	[MR_FAULT_##name] = {RDMAP_ERROR_##tagged, RDMAP_ERROR_##read},
#include "memory/mr_fault.def"
#undef MR_FAULT
};

static bool range_wraps(uint64_t offset, uint32_t bytes)
{
	return bytes && offset > UINT64_MAX - (bytes - 1);
}

/* An empty WRITE names no memory (RFC 5040 section 5.3). */
static enum rdmap_error write_check(struct iwarp_qp *iwarp, const struct ddp_segment *segment)
{
	enum mr_fault fault;

	if (!segment->payload_bytes)
		return RDMAP_OK;
	if (range_wraps(segment->tagged.offset, segment->payload_bytes))
		return RDMAP_ERROR_TAGGED_WRAP;
	if (!(iwarp->qp.attr.access & MR_REMOTE_WRITE))
		return RDMAP_ERROR_READ_ACCESS;
	fault = mr_check(iwarp->qp.lane->mrs, segment->tagged.stag, qp_mr_user(&iwarp->qp),
		MR_REMOTE_WRITE, segment->tagged.offset, segment->payload_bytes);
	return memory_errors[fault].tagged;
}

/* The oldest READ or atomic without an answer, or NULL. */
static struct send_wqe *wqe_awaited(struct iwarp_qp *iwarp)
{
	return iwarp->tx.answers_out ? sq_at(iwarp->qp.sq, iwarp->rx.answer_index) : NULL;
}

static enum rdmap_error read_response_check(
	struct iwarp_qp *iwarp, const struct ddp_segment *segment)
{
	const struct iwarp_receive *rx = &iwarp->rx;
	const struct send_wqe *wqe = wqe_awaited(iwarp);

	if (rx->is_ready_answer_awaited)
		return segment->payload_bytes || !segment->is_last ? RDMAP_ERROR_TAGGED_BOUNDS
								   : RDMAP_OK;
	if (!wqe || wqe->opcode != WR_RDMA_READ)
		return RDMAP_ERROR_UNEXPECTED_OPCODE;
	if (segment->tagged.stag != rx->answer_index && wqe->total_bytes)
		return RDMAP_ERROR_TAGGED_STAG;
	if (wqe->total_bytes && segment->tagged.offset != rx->answer_bytes)
		return RDMAP_ERROR_TAGGED_BOUNDS;
	if (segment->payload_bytes > wqe->total_bytes - rx->answer_bytes ||
		segment->is_last != (segment->payload_bytes == wqe->total_bytes - rx->answer_bytes))
		return RDMAP_ERROR_TAGGED_BOUNDS;
	return RDMAP_OK;
}

enum rdmap_error iwarp_receive_begin(struct iwarp_qp *iwarp, enum rdmap_opcode opcode)
{
	struct iwarp_receive *rx = &iwarp->rx;

	rx->has_receive = qp_take_recv(&iwarp->qp, &rx->receive);
	rx->send_opcode = opcode;
	rx->send_bytes = 0;
	rx->receive_fault = FAULT_FLUSHED;
	return rx->has_receive ? RDMAP_OK : RDMAP_ERROR_UNTAGGED_NO_BUFFER;
}

static enum rdmap_error send_check(struct iwarp_qp *iwarp, const struct ddp_segment *segment)
{
	struct iwarp_receive *rx = &iwarp->rx;
	enum rdmap_error error = RDMAP_OK;

	if (segment->untagged.offset != (rx->has_receive ? rx->send_bytes : 0))
		return RDMAP_ERROR_UNTAGGED_OFFSET;
	if (rx->has_receive && segment->opcode != rx->send_opcode)
		return RDMAP_ERROR_UNEXPECTED_OPCODE;
	/*
	 * A SEND as the initiator's ready message (enum mpa_ready) is empty, and takes no receive
	 * request.
	 */
	if (rx->is_ready_awaited && (iwarp->settings.ready & MPA_READY_SEND))
		return segment->payload_bytes || !segment->is_last ? RDMAP_ERROR_UNTAGGED_TOO_LONG
								   : RDMAP_OK;
	if (!rx->has_receive)
		error = iwarp_receive_begin(iwarp, segment->opcode);
	if (!error && segment->payload_bytes > rx->receive.total_bytes - rx->send_bytes) {
		rx->receive_fault = FAULT_RECEIVE_TOO_SHORT;
		error = RDMAP_ERROR_UNTAGGED_TOO_LONG;
	}
	if (!error && segment->is_last && rdmap_has_invalidate(segment->opcode) &&
		mw_check(iwarp->qp.lane->mrs, segment->untagged.invalidate_stag,
			qp_mr_user(&iwarp->qp))) {
		rx->receive_fault = FAULT_REMOTE_INVALIDATE;
		error = RDMAP_ERROR_INVALIDATE;
	}
	return error;
}

/* Check a message that has to fit a single segment. */
static enum rdmap_error whole_check(const struct ddp_segment *segment)
{
	if (segment->untagged.offset)
		return RDMAP_ERROR_UNTAGGED_OFFSET;
	return segment->is_last ? RDMAP_OK : RDMAP_ERROR_UNTAGGED_TOO_LONG;
}

static enum rdmap_error untagged_check(struct iwarp_qp *iwarp, const struct ddp_segment *segment)
{
	struct iwarp_receive *rx = &iwarp->rx;
	enum rdmap_error error;

	if (segment->untagged.msn != rx->msn[segment->untagged.queue])
		return RDMAP_ERROR_UNTAGGED_MSN;
	if (iwarp_segment_is_data(segment))
		return send_check(iwarp, segment);
	if (segment->untagged.queue == DDP_QUEUE_SEND && rx->has_receive)
		return RDMAP_ERROR_UNEXPECTED_OPCODE;
	error = whole_check(segment);
	if (!error && segment->untagged.queue == DDP_QUEUE_SEND)
		error = iwarp_receive_begin(iwarp, segment->opcode);
	return error;
}

enum rdmap_error iwarp_segment_check(struct iwarp_qp *iwarp, const struct ddp_segment *segment)
{
	if (segment->opcode == RDMAP_WRITE)
		return write_check(iwarp, segment);
	if (segment->opcode == RDMAP_READ_RESPONSE)
		return read_response_check(iwarp, segment);
	return untagged_check(iwarp, segment);
}

/* --- placing --- */

enum rdmap_error iwarp_segment_place(struct iwarp_qp *iwarp, const struct ddp_segment *segment,
	uint32_t offset, const uint8_t *from, uint32_t bytes)
{
	const struct qp *qp = &iwarp->qp;
	struct iwarp_receive *rx = &iwarp->rx;
	const struct send_wqe *wqe;
	enum mr_fault fault;

	if (!bytes)
		return RDMAP_OK;
	if (segment->opcode == RDMAP_WRITE) {
		fault = mr_put(qp->lane->mrs, segment->tagged.stag, qp_mr_user(qp), MR_REMOTE_WRITE,
			segment->tagged.offset + offset, bytes, from);
		return memory_errors[fault].tagged;
	}
	if (segment->opcode == RDMAP_READ_RESPONSE) {
		wqe = wqe_awaited(iwarp);
		fault = sge_scatter(qp->lane->mrs, qp->pd, wqe->sge, wqe->sge_count,
			rx->answer_bytes + offset, bytes, from);
	} else {
		fault = sge_scatter(qp->lane->mrs, qp->recv_pd, rx->receive.sge,
			rx->receive.sge_count, rx->send_bytes + offset, bytes, from);
		if (fault)
			rx->receive_fault = message_local_fault(fault);
	}
	return fault ? RDMAP_ERROR_STREAM_CATASTROPHIC : RDMAP_OK;
}

static uint8_t *list_target(const struct iwarp_qp *iwarp, uint32_t pd, const struct sge *list,
	uint32_t count, uint64_t offset, uint32_t bytes)
{
	uint8_t *to;

	for (; count; list++, count--) {
		if (offset >= list->bytes) {
			offset -= list->bytes;
			continue;
		}
		if (bytes > list->bytes - offset ||
			mr_resolve(iwarp->qp.lane->mrs, list->lkey, pd, MR_LOCAL_WRITE | MR_TOUCH,
				list->address + offset, bytes, &to))
			return NULL;
		return to;
	}
	return NULL;
}

uint8_t *iwarp_segment_target(
	struct iwarp_qp *iwarp, const struct ddp_segment *segment, uint32_t offset, uint32_t bytes)
{
	const struct qp *qp = &iwarp->qp;
	const struct iwarp_receive *rx = &iwarp->rx;
	const struct send_wqe *wqe;
	uint8_t *to;

	if (segment->opcode == RDMAP_WRITE)
		return mr_resolve_for(qp->lane->mrs, segment->tagged.stag, qp_mr_user(qp),
			       MR_REMOTE_WRITE | MR_TOUCH, segment->tagged.offset + offset, bytes,
			       &to)
			? NULL
			: to;
	if (segment->opcode == RDMAP_READ_RESPONSE) {
		wqe = wqe_awaited(iwarp);
		return list_target(
			iwarp, qp->pd, wqe->sge, wqe->sge_count, rx->answer_bytes + offset, bytes);
	}
	return list_target(iwarp, qp->recv_pd, rx->receive.sge, rx->receive.sge_count,
		rx->send_bytes + offset, bytes);
}

/* --- effects --- */

/* A message of `cqe->byte_count` bytes is complete. */
static void receive_end(
	struct iwarp_qp *iwarp, struct cqe *cqe, enum rdmap_opcode opcode, uint64_t now_ns)
{
	iwarp->rx.has_receive = false;
	qp_complete_recv(&iwarp->qp, iwarp->rx.receive.wr_id, cqe, FAULT_NONE,
		rdmap_is_solicited(opcode), now_ns);
}

static void send_finish(struct iwarp_qp *iwarp, const struct ddp_segment *segment, uint64_t now_ns)
{
	struct iwarp_receive *rx = &iwarp->rx;
	struct cqe cqe = {.opcode = WC_RECV};

	if (rx->has_receive)
		rx->send_bytes += segment->payload_bytes;
	if (!segment->is_last)
		return;
	rx->msn[DDP_QUEUE_SEND]++;
	if (!rx->has_receive)
		return;
	cqe.byte_count = rx->send_bytes;
	if (rdmap_has_invalidate(segment->opcode)) {
		cqe.flags = WC_WITH_INV;
		cqe.imm = segment->untagged.invalidate_stag;
		mw_invalidate(iwarp->qp.lane->mrs, cqe.imm, qp_mr_user(&iwarp->qp));
	}
	qp_count(&iwarp->qp, COUNTER_rdma_sends, 1);
	receive_end(iwarp, &cqe, segment->opcode, now_ns);
}

/* Immediate data completes the WRITE before it, whose length is the sum of its segments. */
static void immediate_finish(
	struct iwarp_qp *iwarp, const struct ddp_segment *segment, uint64_t now_ns)
{
	struct cqe cqe = {
		.opcode = WC_RECV_RDMA_WITH_IMM,
		.flags = WC_WITH_IMM,
		.imm = get_be32(segment->payload),
		.byte_count = iwarp->rx.write_bytes,
	};

	iwarp->rx.msn[DDP_QUEUE_SEND]++;
	iwarp->rx.write_bytes = 0;
	receive_end(iwarp, &cqe, segment->opcode, now_ns);
}

static enum rdmap_error read_request_finish(
	struct iwarp_qp *iwarp, const struct ddp_segment *segment)
{
	const struct qp *qp = &iwarp->qp;
	struct iwarp_pending request = {.opcode = RDMAP_READ_REQUEST};
	enum mr_fault fault = MR_OK;

	rdmap_read_request_decode(&request.read, segment->payload);
	if (range_wraps(request.read.source_offset, request.read.bytes))
		return RDMAP_ERROR_READ_WRAP;
	if (request.read.bytes && !(qp->attr.access & MR_REMOTE_READ))
		return RDMAP_ERROR_READ_ACCESS;
	if (request.read.bytes)
		fault = mr_check(qp->lane->mrs, request.read.source_stag, qp_mr_user(qp),
			MR_REMOTE_READ, request.read.source_offset, request.read.bytes);
	if (fault)
		return memory_errors[fault].read;
	if (!iwarp_pending_add(iwarp, &request))
		return RDMAP_ERROR_UNTAGGED_NO_BUFFER;
	iwarp->rx.msn[DDP_QUEUE_READ_REQUEST]++;
	qp_count(&iwarp->qp, COUNTER_rdma_reads, 1);
	return RDMAP_OK;
}

/*
 * Add two words field by field: each set bit of `ends` is the top bit of a field, and no carry
 * leaves its field.
 */
static uint64_t fields_add(uint64_t a, uint64_t b, uint64_t ends)
{
	return ((a & ~ends) + (b & ~ends)) ^ ((a ^ b) & ends);
}

/* Compute what an atomic writes. Returns false when it writes nothing. */
static bool atomic_result(
	const struct rdmap_atomic_request *request, uint64_t original, uint64_t *ret_value)
{
	if (request->operation == RDMAP_FETCH_ADD) {
		*ret_value = fields_add(original, request->operand, request->operand_mask);
		return true;
	}
	*ret_value =
		(original & ~request->operand_mask) | (request->operand & request->operand_mask);
	return ((original ^ request->compare) & request->compare_mask) == 0;
}

/* Execute an atomic operation. It is atomic for this machine's CPUs, too. */
static uint64_t atomic_apply(const struct rdmap_atomic_request *request, void *target)
{
	_Atomic uint64_t *value = target;
	uint64_t original = atomic_load(value), changed;

	while (atomic_result(request, original, &changed) &&
		!atomic_compare_exchange_weak(value, &original, changed))
		;
	return original;
}

static enum rdmap_error atomic_request_finish(
	struct iwarp_qp *iwarp, const struct ddp_segment *segment)
{
	struct qp *qp = &iwarp->qp;
	struct iwarp_pending pending = {.opcode = RDMAP_ATOMIC_REQUEST};
	struct rdmap_atomic_request request;
	enum mr_fault fault;
	uint8_t *target;

	rdmap_atomic_request_decode(&request, segment->payload);
	request.operation &= RDMAP_ATOMIC_MASK;
	if (request.operation != RDMAP_FETCH_ADD && request.operation != RDMAP_COMPARE_SWAP)
		return RDMAP_ERROR_UNEXPECTED_OPCODE;
	if (!(qp->attr.access & MR_REMOTE_ATOMIC))
		return RDMAP_ERROR_READ_ACCESS;
	fault = mr_resolve_for(qp->lane->mrs, request.stag, qp_mr_user(qp),
		MR_REMOTE_ATOMIC | MR_TOUCH, request.offset, sizeof(uint64_t), &target);
	if (fault)
		return memory_errors[fault].read;
	if ((uintptr_t)target % sizeof(uint64_t)) /* RFC 7306 section 8.2 */
		return RDMAP_ERROR_STREAM_CATASTROPHIC;
	if (iwarp->tx.pending_count >= iwarp->settings.ird)
		return RDMAP_ERROR_UNTAGGED_NO_BUFFER;
	pending.atomic.id = request.id;
	pending.atomic.original = atomic_apply(&request, target);
	iwarp_pending_add(iwarp, &pending);
	iwarp->rx.msn[DDP_QUEUE_READ_REQUEST]++;
	qp_count(qp, COUNTER_rdma_atomics, 1);
	return RDMAP_OK;
}

/* The oldest READ or atomic has its answer. Find the next one that waits for an answer. */
static void answer_finish(struct iwarp_qp *iwarp, uint64_t now_ns)
{
	struct iwarp_receive *rx = &iwarp->rx;

	sq_at(iwarp->qp.sq, rx->answer_index)->stream.is_answered = true;
	rx->answer_bytes = 0;
	iwarp->tx.answers_out--;
	while (iwarp->tx.answers_out &&
		(!iwarp_has_answer(sq_at(iwarp->qp.sq, rx->answer_index)) ||
			sq_at(iwarp->qp.sq, rx->answer_index)->stream.is_answered))
		rx->answer_index++;
	iwarp_schedule(iwarp);
	iwarp_complete(iwarp, now_ns);
}

static void read_response_finish(
	struct iwarp_qp *iwarp, const struct ddp_segment *segment, uint64_t now_ns)
{
	struct iwarp_receive *rx = &iwarp->rx;

	if (rx->is_ready_answer_awaited) {
		rx->is_ready_answer_awaited = false;
		iwarp_schedule(iwarp); /* a request may have waited for this response */
		return;
	}
	rx->answer_bytes += segment->payload_bytes;
	if (segment->is_last)
		answer_finish(iwarp, now_ns);
}

static enum rdmap_error atomic_response_finish(
	struct iwarp_qp *iwarp, const struct ddp_segment *segment, uint64_t now_ns)
{
	const struct qp *qp = &iwarp->qp;
	const struct send_wqe *wqe = wqe_awaited(iwarp);
	struct rdmap_atomic_response response;
	uint8_t bytes[sizeof(response.original)];

	rdmap_atomic_response_decode(&response, segment->payload);
	if (!wqe || wqe->opcode == WR_RDMA_READ || response.id != iwarp->rx.answer_index)
		return RDMAP_ERROR_UNEXPECTED_OPCODE;
	memcpy(bytes, &response.original, sizeof(bytes));
	if (sge_scatter(qp->lane->mrs, qp->pd, wqe->sge, wqe->sge_count, 0, sizeof(bytes), bytes))
		return RDMAP_ERROR_STREAM_CATASTROPHIC;
	iwarp->rx.msn[DDP_QUEUE_ATOMIC_RESPONSE]++;
	answer_finish(iwarp, now_ns);
	return RDMAP_OK;
}

/*
 * The peer terminates the connection. Requests that need no response are usually complete by now,
 * so the oldest incomplete request is a READ or atomic. It fails with the code of the Terminate
 * message if that message quotes a READ or atomic.
 */
static void terminate_finish(
	struct iwarp_qp *iwarp, const struct ddp_segment *segment, uint64_t now_ns)
{
	struct qp *qp = &iwarp->qp;
	struct rdmap_terminate terminate;

	rdmap_terminate_decode(&terminate, segment->payload, segment->payload_bytes);
	signal_raise(&qp->lane->signals, &qp->signal, SIGNAL_QP_FATAL);
	qp_count(qp, COUNTER_terminates_rcvd, 1);
	lane_fact(qp->lane, FACT_terminate, terminate.error);
	qp_report(qp, REASON_TERMINATE_RECEIVED, false, now_ns);
	if (terminate.is_about_read && wqe_awaited(iwarp) &&
		qp->sq->completed == iwarp->rx.answer_index)
		qp_complete_send(qp, iwarp_errors[terminate.error].fault, now_ns);
	iwarp_ended(iwarp, false, now_ns);
}

enum rdmap_error iwarp_segment_finish(
	struct iwarp_qp *iwarp, const struct ddp_segment *segment, uint64_t now_ns)
{
	switch (segment->opcode) {
	case RDMAP_WRITE:
		iwarp->rx.write_bytes += segment->payload_bytes;
		if (segment->is_last)
			qp_count(&iwarp->qp, COUNTER_rdma_writes, 1);
		break;
	case RDMAP_READ_RESPONSE:
		read_response_finish(iwarp, segment, now_ns);
		break;
	case RDMAP_SEND:
	case RDMAP_SEND_INVALIDATE:
	case RDMAP_SEND_SOLICITED:
	case RDMAP_SEND_SOLICITED_INVALIDATE:
		send_finish(iwarp, segment, now_ns);
		break;
	case RDMAP_READ_REQUEST:
		return read_request_finish(iwarp, segment);
	case RDMAP_TERMINATE:
		terminate_finish(iwarp, segment, now_ns);
		break;
	case RDMAP_IMMEDIATE:
	case RDMAP_IMMEDIATE_SOLICITED:
		immediate_finish(iwarp, segment, now_ns);
		break;
	case RDMAP_ATOMIC_REQUEST:
		return atomic_request_finish(iwarp, segment);
	case RDMAP_ATOMIC_RESPONSE:
		return atomic_response_finish(iwarp, segment, now_ns);
	case RDMAP_OPCODE_COUNT:
		break;
	}
	return RDMAP_OK;
}
