/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_IWARP_IWARP_INTERNAL_H
#define URNIC_IWARP_IWARP_INTERNAL_H

/* Functions that the files of this room share. */

#include "base/tracepoint.h"
#include "iwarp/iwarp.h"
#include "memory/mr_borrowed.h"

/* --- fast_path.c --- */

/*
 * Receive the next FPDU, if it is complete and a plain SEND or WRITE without errors. Otherwise
 * returns false, with the FPDU still in the buffer.
 */
bool iwarp_receive_fast(struct iwarp_qp *iwarp, uint64_t now_ns);

/* Stage the next request, if it is a small SEND or WRITE. Otherwise returns false. */
bool iwarp_stage_fast(struct iwarp_qp *iwarp);

/* --- staging.c --- */

/* The most pieces of one FPDU: header, zero-copy payload and trailer. */
enum { FPDU_PIECES_MAX = 3 };

/* Is there room for another FPDU, and for a Terminate message behind it? */
static inline bool iwarp_has_room(const struct iwarp_transmit *tx)
{
	return tx->staged_bytes < IWARP_TX_ZEROCOPY_BYTES && tx->tail < IWARP_TX_BATCH_BYTES &&
		tx->piece_count + FPDU_PIECES_MAX < IWARP_PIECES_MAX;
}

/*
 * Make the DDP header of the segment at `offset` of the next message of `queue`. `is_last` is set;
 * the caller clears it if another segment of the message follows.
 */
struct ddp_segment iwarp_untagged(const struct iwarp_transmit *tx, enum rdmap_opcode opcode,
	enum ddp_queue queue, uint32_t offset);

/* Begin a FPDU. Returns the place of its payload, behind its header. */
uint8_t *iwarp_fpdu_begin(struct iwarp_transmit *tx, const struct ddp_segment *segment);

/* End the FPDU, whose payload of `bytes` bytes the caller has written. */
void iwarp_fpdu_end(struct iwarp_qp *iwarp, const struct ddp_segment *segment, uint32_t bytes);

/*
 * Stage `bytes` bytes that were written to bytes[] behind the staged ones. `kind` is IWARP_OWN for
 * a FPDU or the end of one, and IWARP_OWN_HEADER for the bytes before a zero-copy payload.
 */
void iwarp_own_add(struct iwarp_transmit *tx, int kind, uint32_t bytes);

/* iwarp_own_add() for a complete FPDU, when nothing else is staged. */
static inline void iwarp_own_begin(struct iwarp_transmit *tx, uint32_t bytes)
{
	tx->pieces[tx->first_piece] =
		(struct iwarp_piece){.kind = IWARP_OWN, .bytes = bytes, .at = tx->tail};
	tx->piece_count = 1;
	tx->staged_bytes = bytes;
	tx->position += bytes;
	tx->tail += bytes;
}

/*
 * Stage a complete FPDU of `bytes` bytes, `payload_bytes` of them payload, that was written to
 * bytes[].
 */
static inline void iwarp_fpdu_staged(struct iwarp_qp *iwarp, uint32_t bytes, uint32_t payload_bytes)
{
	if (iwarp->tx.piece_count)
		iwarp_own_add(&iwarp->tx, IWARP_OWN, bytes);
	else
		iwarp_own_begin(&iwarp->tx, bytes);
	trace_fpdu_sent(iwarp->qp.qpn, payload_bytes);
	qp_count(&iwarp->qp, COUNTER_sent_pkts, 1);
	qp_count(&iwarp->qp, COUNTER_sent_bytes, payload_bytes);
}

/* Stage a complete FPDU with a zero-copy payload, which *payload describes. */
void iwarp_fpdu_zerocopy(struct iwarp_qp *iwarp, const struct ddp_segment *segment,
	const struct iwarp_piece *payload);

/* May a payload of `bytes` bytes be sent without a copy? */
static inline bool iwarp_may_zerocopy(const struct iwarp_qp *iwarp, uint64_t bytes)
{
	return !iwarp->settings.has_crc && !iwarp->settings.sends_markers &&
		bytes >= IWARP_ZEROCOPY_BYTES_MIN &&
		!mr_is_borrowed(iwarp->qp.lane->mrs, iwarp->qp.pd);
}

/*
 * End all zero-copy payloads, so that the program may reuse its memory. If a FPDU with such a
 * payload is partly sent, the payload is copied; if its memory is no longer valid, the stream ends
 * (is_cut). The next FPDU with a zero-copy payload, and all FPDUs behind it, are removed from the
 * staged pieces.
 */
void iwarp_zerocopy_end(struct iwarp_qp *iwarp);

/*
 * Stage a Terminate message, for which there is always room. `ulpdu` is the segment that it quotes,
 * or NULL. The function first ends zero-copy payloads.
 */
void iwarp_stage_terminate(
	struct iwarp_qp *iwarp, enum rdmap_error error, const uint8_t *ulpdu, uint32_t ulpdu_bytes);

/* --- transmit.c --- */

/* Stage another FPDU. Returns false when there is none now. */
bool iwarp_stage_next(struct iwarp_qp *iwarp, uint64_t now_ns);

/*
 * Queue the answer to a request of the peer. Returns false when `ird` answers are pending already.
 */
bool iwarp_pending_add(struct iwarp_qp *iwarp, const struct iwarp_pending *request);

/* The request at tx->index is completely staged. */
static inline void iwarp_request_staged(struct iwarp_qp *iwarp, struct send_wqe *wqe)
{
	struct iwarp_transmit *tx = &iwarp->tx;

	wqe->stream.end_position = tx->position;
	wqe->stream.is_answered = false;
	tx->index++;
	tx->message_offset = 0;
	tx->is_in_message = false;
	tx->is_turn_of_answers = true;
}

/* Complete the requests at the head of the send queue that are done. */
void iwarp_complete(struct iwarp_qp *iwarp, uint64_t now_ns);

static inline bool iwarp_has_answer(const struct send_wqe *wqe)
{
	return wr_table[wqe->opcode].has_answer;
}

/* --- ddp_segment.c --- */

/*
 * Check the header of a received segment: is the segment allowed now, and is there memory for its
 * payload? A refused segment changes nothing, except that a receive request may have been taken.
 */
enum rdmap_error iwarp_segment_check(struct iwarp_qp *iwarp, const struct ddp_segment *segment);

/*
 * Take a receive request for a new message. Returns RDMAP_ERROR_UNTAGGED_NO_BUFFER when there is
 * none.
 */
enum rdmap_error iwarp_receive_begin(struct iwarp_qp *iwarp, enum rdmap_opcode opcode);

/* Place payload bytes [offset, offset + bytes) of a checked WRITE, SEND or READ response. */
enum rdmap_error iwarp_segment_place(struct iwarp_qp *iwarp, const struct ddp_segment *segment,
	uint32_t offset, const uint8_t *from, uint32_t bytes);

/*
 * The address where these payload bytes belong; NULL when the memory there is not contiguous, or
 * not writable any more.
 */
uint8_t *iwarp_segment_target(
	struct iwarp_qp *iwarp, const struct ddp_segment *segment, uint32_t offset, uint32_t bytes);

/*
 * The segment is completely placed: execute its effect. If the segment carries no data for memory,
 * segment->payload is its whole payload.
 */
enum rdmap_error iwarp_segment_finish(
	struct iwarp_qp *iwarp, const struct ddp_segment *segment, uint64_t now_ns);

/*
 * Does the segment carry data for memory, so that placing may begin before all of it has arrived?
 */
bool iwarp_segment_is_data(const struct ddp_segment *segment);

/* --- stream.c --- */

/* What an error of wire/iwarp/rdmap_error.def causes at this end. */
struct iwarp_error {
	/* The fault of the READ or atomic that a received Terminate message quotes */
	enum fault fault;
	uint32_t event; /* enum signal_event: the event at the end whose peer has made the error */
};

extern const struct iwarp_error iwarp_errors[RDMAP_ERROR_COUNT];

/* From now on the responder may send requests. */
void iwarp_hold_over(struct iwarp_qp *iwarp);

/* Set the deadline of an open stream: for a stalled message, or for the initiator's first FPDU. */
void iwarp_deadline_update(struct iwarp_qp *iwarp);

/*
 * The peer broke a rule: stage a Terminate message, and end the stream. `ulpdu` is the bad segment,
 * or NULL.
 */
void iwarp_refuse(struct iwarp_qp *iwarp, enum rdmap_error error, const uint8_t *ulpdu,
	uint32_t ulpdu_bytes, uint64_t now_ns);

#endif
