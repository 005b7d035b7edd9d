/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Staged bytes are FPDUs, which are made one by one. A FPDU is one or more pieces of the stream
 * until the carrier has taken its last byte.
 *
 * Copied FPDUs lie one behind the other in tx.bytes and make a single piece. A FPDU with a
 * zero-copy payload makes three pieces: header, payload, and trailer. Copied FPDUs behind it extend
 * the trailer's piece. The memory of a zero-copy payload is checked each time that the payload is
 * offered for sending.
 */
#include <assert.h>
#include <string.h>

#include "base/arith.h"
#include "iwarp/iwarp_internal.h"
#include "wire/bytes.h"

enum {
	TERMINATE_BYTES_MAX = 256, /* the longest FPDU of a Terminate message, with markers */
};

static_assert(2 * (DDP_UNTAGGED_BYTES + RDMAP_TERMINATE_BYTES_MAX) < TERMINATE_BYTES_MAX,
	"a Terminate message fits");
static_assert((int)IWARP_ZEROCOPY_BYTES_MAX + (int)DDP_UNTAGGED_BYTES <= (int)MPA_MULPDU_BYTES_MAX,
	"a zero-copy payload fits a FPDU");

static struct iwarp_piece *piece_at(struct iwarp_transmit *tx, uint32_t index)
{
	return &tx->pieces[(tx->first_piece + index) % IWARP_PIECES_MAX];
}

static bool is_zerocopy(const struct iwarp_piece *piece)
{
	return piece->kind == IWARP_ZEROCOPY || piece->kind == IWARP_ZEROCOPY_READ;
}

static struct iwarp_piece *piece_add(struct iwarp_transmit *tx, uint32_t bytes)
{
	assert(tx->piece_count < IWARP_PIECES_MAX);
	tx->staged_bytes += bytes;
	tx->position += bytes;
	return piece_at(tx, tx->piece_count++);
}

/* Bytes that follow a piece of kind IWARP_OWN in tx.bytes extend that piece. */
void iwarp_own_add(struct iwarp_transmit *tx, int kind, uint32_t bytes)
{
	struct iwarp_piece *last = piece_at(tx, tx->piece_count - 1), *piece;

	if (kind == IWARP_OWN && tx->piece_count && last->kind == IWARP_OWN &&
		last->at + last->bytes == tx->tail) {
		last->bytes += bytes;
		tx->staged_bytes += bytes;
		tx->position += bytes;
	} else {
		piece = piece_add(tx, bytes);
		piece->kind = kind;
		piece->bytes = bytes;
		piece->at = tx->tail;
	}
	tx->tail += bytes;
	assert(tx->tail <= IWARP_TX_BYTES);
}

/* --- making FPDUs --- */

struct ddp_segment iwarp_untagged(const struct iwarp_transmit *tx, enum rdmap_opcode opcode,
	enum ddp_queue queue, uint32_t offset)
{
	return (struct ddp_segment){
		.opcode = opcode,
		.is_last = true,
		.untagged = {.queue = queue, .msn = tx->msn[queue], .offset = offset},
	};
}

uint8_t *iwarp_fpdu_begin(struct iwarp_transmit *tx, const struct ddp_segment *segment)
{
	uint8_t *ulpdu = tx->bytes + tx->tail + FPDU_LENGTH_BYTES;

	return ulpdu + ddp_encode(segment, ulpdu);
}

void iwarp_fpdu_end(struct iwarp_qp *iwarp, const struct ddp_segment *segment, uint32_t bytes)
{
	struct iwarp_transmit *tx = &iwarp->tx;
	const struct iwarp_settings *settings = &iwarp->settings;
	uint8_t *fpdu = tx->bytes + tx->tail;
	uint32_t ulpdu_bytes = ddp_header_bytes(rdmap_is_tagged(segment->opcode)) + bytes;

	iwarp_fpdu_staged(iwarp,
		settings->sends_markers
			? fpdu_seal_marked(fpdu, ulpdu_bytes, settings->has_crc, tx->position)
			: fpdu_seal(fpdu, ulpdu_bytes, settings->has_crc),
		bytes);
}

void iwarp_fpdu_zerocopy(struct iwarp_qp *iwarp, const struct ddp_segment *segment,
	const struct iwarp_piece *payload)
{
	struct iwarp_transmit *tx = &iwarp->tx;
	uint8_t *fpdu = tx->bytes + tx->tail, *behind = iwarp_fpdu_begin(tx, segment);
	uint32_t header_bytes = (uint32_t)(behind - fpdu);
	uint32_t ulpdu_bytes = header_bytes - FPDU_LENGTH_BYTES + payload->bytes;
	uint32_t trailer_bytes = fpdu_bytes(ulpdu_bytes) - header_bytes - payload->bytes;

	put_be16(fpdu, (uint16_t)ulpdu_bytes);
	iwarp_own_add(tx, IWARP_OWN_HEADER, header_bytes);
	*piece_add(tx, payload->bytes) = *payload;
	memset(behind, 0, trailer_bytes);
	iwarp_own_add(tx, IWARP_OWN, trailer_bytes);
	trace_fpdu_sent(iwarp->qp.qpn, payload->bytes);
	qp_count(&iwarp->qp, COUNTER_sent_pkts, 1);
	qp_count(&iwarp->qp, COUNTER_sent_bytes, payload->bytes);
}

void iwarp_stage_terminate(
	struct iwarp_qp *iwarp, enum rdmap_error error, const uint8_t *ulpdu, uint32_t ulpdu_bytes)
{
	struct iwarp_transmit *tx = &iwarp->tx;
	struct ddp_segment segment = iwarp_untagged(tx, RDMAP_TERMINATE, DDP_QUEUE_TERMINATE, 0);
	uint8_t *payload;

	iwarp_zerocopy_end(iwarp);
	if (tx->is_cut)
		return;
	payload = iwarp_fpdu_begin(tx, &segment);
	iwarp_fpdu_end(iwarp, &segment, rdmap_terminate_encode(error, ulpdu, ulpdu_bytes, payload));
}

/* --- zero-copy payloads --- */

static const uint8_t *zerocopy_resolve(
	const struct iwarp_qp *iwarp, const struct iwarp_piece *piece)
{
	const struct qp *qp = &iwarp->qp;
	enum mr_fault fault;
	uint8_t *at;

	fault = piece->kind == IWARP_ZEROCOPY
		? mr_resolve(qp->lane->mrs, piece->key, qp->pd, MR_LOCAL_READ | MR_TOUCH, piece->at,
			  piece->bytes, &at)
		: mr_resolve_for(qp->lane->mrs, piece->key, qp_mr_user(qp),
			  MR_REMOTE_READ | MR_TOUCH, piece->at, piece->bytes, &at);
	return fault ? NULL : at;
}

/* The bytes of a piece; NULL when the memory of a zero-copy payload is no longer valid. */
static inline const uint8_t *piece_resolve(
	const struct iwarp_qp *iwarp, const struct iwarp_piece *piece)
{
	return is_zerocopy(piece) ? zerocopy_resolve(iwarp, piece) : iwarp->tx.bytes + piece->at;
}

/* Copy the payload behind the staged bytes. Returns false when its memory is no longer valid. */
static bool zerocopy_copy(struct iwarp_qp *iwarp, struct iwarp_piece *piece)
{
	struct iwarp_transmit *tx = &iwarp->tx;
	const uint8_t *from = piece_resolve(iwarp, piece);

	if (!from)
		return false;
	memcpy(tx->bytes + tx->tail, from, piece->bytes);
	*piece = (struct iwarp_piece){.kind = IWARP_OWN, .bytes = piece->bytes, .at = tx->tail};
	tx->tail += piece->bytes;
	return true;
}

static void pieces_drop(struct iwarp_transmit *tx, uint32_t from)
{
	for (; tx->piece_count > from; tx->piece_count--) {
		uint32_t bytes = piece_at(tx, tx->piece_count - 1)->bytes;

		tx->staged_bytes -= bytes;
		tx->position -= bytes;
	}
}

/*
 * Only the first FPDU can be partly sent. Either the carrier has taken some of its header
 * (is_begun), or all of its header, and then its payload is the first piece.
 */
void iwarp_zerocopy_end(struct iwarp_qp *iwarp)
{
	struct iwarp_transmit *tx = &iwarp->tx;

	for (uint32_t i = 0; i < tx->piece_count; i++) {
		struct iwarp_piece *piece = piece_at(tx, i);
		bool is_begun = i == 0 && tx->is_first_begun;

		if (piece->kind == IWARP_OWN_HEADER && !is_begun) {
			pieces_drop(tx, i);
		} else if (is_zerocopy(piece) && !zerocopy_copy(iwarp, piece)) {
			pieces_drop(tx, 0);
			tx->is_cut = true;
		}
	}
}

/* --- sending --- */

/* May there be something to stage? */
static bool has_more(const struct iwarp_qp *iwarp)
{
	const struct iwarp_transmit *tx = &iwarp->tx;

	return tx->index != iwarp->qp.sq->posted || tx->pending_count || tx->is_ready_pending;
}

unsigned iwarp_output(
	struct iwarp_qp *iwarp, struct iwarp_part parts[IWARP_PIECES_MAX], uint64_t now_ns)
{
	struct iwarp_transmit *tx = &iwarp->tx;

	while (has_more(iwarp) && (iwarp_stage_fast(iwarp) || iwarp_stage_next(iwarp, now_ns)))
		;
	for (uint32_t i = 0; i < tx->piece_count; i++) {
		const struct iwarp_piece *piece = piece_at(tx, i);

		parts[i] = (struct iwarp_part){piece_resolve(iwarp, piece), piece->bytes};
		/* The memory is no longer valid, so the rest of the FPDU cannot be sent */
		if (!parts[i].at) {
			iwarp_ended(iwarp, true, now_ns);
			return 0;
		}
	}
	return tx->piece_count;
}

static void pieces_take(struct iwarp_transmit *tx, uint32_t bytes)
{
	tx->staged_bytes -= bytes;
	while (bytes) {
		struct iwarp_piece *piece = piece_at(tx, 0);
		uint32_t step = min_u32(bytes, piece->bytes);

		bytes -= step;
		piece->at += step;
		piece->bytes -= step;
		tx->is_first_begun = piece->bytes != 0;
		if (piece->bytes)
			return;
		tx->first_piece = (tx->first_piece + 1) % IWARP_PIECES_MAX;
		tx->piece_count--;
	}
	if (!tx->piece_count)
		tx->tail = 0;
}

void iwarp_sent(struct iwarp_qp *iwarp, uint32_t bytes, uint64_t now_ns)
{
	assert(bytes && bytes <= iwarp->tx.staged_bytes);
	pieces_take(&iwarp->tx, bytes);
	iwarp_complete(iwarp, now_ns);
}
