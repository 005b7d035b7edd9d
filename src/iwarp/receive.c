/* SPDX-License-Identifier: BSD-2-Clause */
/* The receiving half: FPDUs from a stream that arrives in any pieces (RFC 5044 section 5). */
#include <assert.h>
#include <string.h>

#include "base/arith.h"
#include "iwarp/iwarp_internal.h"

/*
 * Room behind a payload that is received at its destination: for its last bytes, its trailer, and
 * the head of the next segment.
 */
enum { AFTER_DIRECT_BYTES = IWARP_TAIL_BYTES + 64 };

static uint32_t waiting_bytes(const struct iwarp_receive *rx)
{
	return rx->end - rx->start;
}

/* --- offering --- */

static void buffer_compact(struct iwarp_receive *rx)
{
	if (rx->start == 0 ||
		(rx->start != rx->end && IWARP_RX_BYTES - rx->start >= FPDU_MARKED_BYTES_MAX))
		return;
	memmove(rx->bytes, rx->bytes + rx->start, waiting_bytes(rx));
	rx->end -= rx->start;
	rx->start = 0;
}

/*
 * The span for the rest of a long payload, except its tail, if the payload can be received at its
 * destination. Otherwise an empty span.
 */
static struct iwarp_span direct_span(struct iwarp_qp *iwarp)
{
	const struct iwarp_receive *rx = &iwarp->rx;
	struct iwarp_span span = {NULL, 0};
	uint32_t left_bytes = rx->segment.payload_bytes - rx->placed_bytes;

	if (!rx->has_segment || waiting_bytes(rx) ||
		left_bytes < IWARP_DIRECT_BYTES_MIN + IWARP_TAIL_BYTES)
		return span;
	span.at = iwarp_segment_target(
		iwarp, &rx->segment, rx->placed_bytes, left_bytes - IWARP_TAIL_BYTES);
	span.bytes = span.at ? left_bytes - IWARP_TAIL_BYTES : 0;
	return span;
}

unsigned iwarp_offer(struct iwarp_qp *iwarp, struct iwarp_span spans[IWARP_SPANS_MAX])
{
	struct iwarp_receive *rx = &iwarp->rx;
	unsigned count = 0;

	rx->direct_bytes = 0;
	if (iwarp->is_peer_ended || iwarp->stream == IWARP_STREAM_NONE ||
		iwarp->stream == IWARP_STREAM_OVER || iwarp_is_stalled(iwarp))
		return 0;
	buffer_compact(rx);
	if (iwarp->stream == IWARP_STREAM_OPEN) {
		spans[0] = direct_span(iwarp);
		rx->direct_bytes = spans[0].bytes;
		count = spans[0].bytes ? 1 : 0;
	}
	spans[count].at = rx->bytes + rx->end;
	spans[count].bytes = count ? AFTER_DIRECT_BYTES : IWARP_RX_BYTES - rx->end;
	return count + 1;
}

/* --- receiving --- */

/* Does the stream process a FPDU only when it is complete? */
static bool is_collecting(const struct iwarp_qp *iwarp)
{
	return iwarp->settings.has_crc || iwarp->settings.receives_markers;
}

/* May the payload be placed before the whole segment has arrived? Only a long payload may. */
static bool may_begin_early(const struct iwarp_qp *iwarp, const struct ddp_segment *segment)
{
	return !is_collecting(iwarp) && iwarp_segment_is_data(segment) &&
		segment->payload_bytes >= IWARP_DIRECT_BYTES_MIN + IWARP_TAIL_BYTES;
}

/*
 * A message needs a receive request, and none is posted. Returns true when the message may begin to
 * wait, or may go on waiting.
 */
static bool stall_begin(struct iwarp_qp *iwarp, uint64_t now_ns)
{
	struct iwarp_receive *rx = &iwarp->rx;

	if (iwarp->qp.lane->is_strict || (rx->stall_end_ns && now_ns >= rx->stall_end_ns))
		return false;
	if (!rx->stall_end_ns) {
		if (iwarp->tx.hold_end_ns)
			iwarp_hold_over(iwarp); /* the stalled FPDU is the initiator's first */
		rx->stall_end_ns = now_ns + IWARP_STALL_NS;
		qp_count(&iwarp->qp, COUNTER_receive_stalls, 1);
	}
	rx->stall_look_ns = now_ns + IWARP_STALL_LOOK_NS;
	iwarp_deadline_update(iwarp);
	return true;
}

static void stall_over(struct iwarp_qp *iwarp)
{
	if (!iwarp->rx.stall_end_ns)
		return;
	iwarp->rx.stall_end_ns = 0;
	iwarp_deadline_update(iwarp);
}

/*
 * Remove the markers of the FPDU of `bytes` bytes at `start`. Returns false when the FPDU was
 * refused.
 */
static bool markers_take(struct iwarp_qp *iwarp, uint32_t bytes, uint64_t now_ns)
{
	struct iwarp_receive *rx = &iwarp->rx;
	int gone_bytes = fpdu_unmark(rx->bytes + rx->start, bytes, rx->position);

	if (gone_bytes < 0) {
		iwarp_refuse(iwarp, RDMAP_ERROR_MPA_MARKER, NULL, 0, now_ns);
		return false;
	}
	rx->start += (uint32_t)gone_bytes;
	rx->position += bytes;
	return true;
}

/*
 * Is the next FPDU complete, with a good CRC and good markers? Returns false when bytes are still
 * missing, or when the FPDU was refused.
 */
static bool fpdu_collect(struct iwarp_qp *iwarp, uint64_t now_ns)
{
	struct iwarp_receive *rx = &iwarp->rx;
	const uint8_t *fpdu = rx->bytes + rx->start;
	bool has_markers = iwarp->settings.receives_markers;
	uint32_t at = has_markers && fpdu_begins_with_marker(rx->position) ? MPA_MARKER_BYTES : 0;
	uint32_t ulpdu_bytes, bytes;

	if (rx->is_checked)
		return true;
	if (waiting_bytes(rx) < at + FPDU_LENGTH_BYTES)
		return false;
	ulpdu_bytes = fpdu_ulpdu_bytes(fpdu + at);
	bytes = has_markers ? fpdu_marked_bytes(rx->position, ulpdu_bytes)
			    : fpdu_bytes(ulpdu_bytes);
	if (waiting_bytes(rx) < bytes)
		return false;
	if (iwarp->settings.has_crc && !fpdu_crc_is_good(fpdu, bytes)) {
		iwarp_refuse(iwarp, RDMAP_ERROR_MPA_CRC, NULL, 0, now_ns);
		return false;
	}
	rx->is_checked = !has_markers || markers_take(iwarp, bytes, now_ns);
	return rx->is_checked;
}

/*
 * A FPDU begins. Check it, and remove its header from the buffer. Returns false when more of the
 * FPDU has to arrive first, or when the FPDU was refused.
 */
static bool segment_begin(struct iwarp_qp *iwarp, uint64_t now_ns)
{
	struct iwarp_receive *rx = &iwarp->rx;
	const uint8_t *ulpdu;
	uint32_t there_bytes, ulpdu_bytes, header_bytes;
	enum rdmap_error error;
	bool is_whole;

	if (is_collecting(iwarp) && !fpdu_collect(iwarp, now_ns))
		return false;
	there_bytes = waiting_bytes(rx);
	if (there_bytes < FPDU_LENGTH_BYTES)
		return false;
	ulpdu = rx->bytes + rx->start + FPDU_LENGTH_BYTES;
	ulpdu_bytes = fpdu_ulpdu_bytes(rx->bytes + rx->start);
	is_whole = there_bytes >= fpdu_bytes(ulpdu_bytes);
	if (!is_whole &&
		(there_bytes < FPDU_LENGTH_BYTES + DDP_UNTAGGED_BYTES ||
			ulpdu_bytes < DDP_UNTAGGED_BYTES))
		return false;
	error = ddp_decode(&rx->segment, ulpdu, ulpdu_bytes);
	if (error) {
		iwarp_refuse(iwarp, error, is_whole ? ulpdu : NULL, ulpdu_bytes, now_ns);
		return false;
	}
	if (!is_whole && !may_begin_early(iwarp, &rx->segment))
		return false;
	error = iwarp_segment_check(iwarp, &rx->segment);
	if (error == RDMAP_ERROR_UNTAGGED_NO_BUFFER && stall_begin(iwarp, now_ns))
		return false;
	stall_over(iwarp);
	if (error) {
		iwarp_refuse(iwarp, error, ulpdu, ulpdu_bytes, now_ns);
		return false;
	}
	header_bytes = ulpdu_bytes - rx->segment.payload_bytes;
	rx->trailer_bytes = fpdu_bytes(ulpdu_bytes) - FPDU_LENGTH_BYTES - ulpdu_bytes;
	rx->start += FPDU_LENGTH_BYTES + header_bytes;
	rx->placed_bytes = 0;
	rx->is_checked = false;
	rx->has_segment = true;
	return true;
}

/* Place the next bytes of the payload. */
static bool payload_take(struct iwarp_qp *iwarp, uint32_t bytes, uint64_t now_ns)
{
	struct iwarp_receive *rx = &iwarp->rx;
	enum rdmap_error error = iwarp_segment_place(
		iwarp, &rx->segment, rx->placed_bytes, rx->bytes + rx->start, bytes);

	if (error) {
		uint8_t header[DDP_UNTAGGED_BYTES];
		uint32_t header_bytes = ddp_encode(&rx->segment, header);

		iwarp_refuse(
			iwarp, error, header, header_bytes + rx->segment.payload_bytes, now_ns);
		return false;
	}
	rx->placed_bytes += bytes;
	rx->start += bytes;
	return true;
}

/* The segment's FPDU is complete. */
static void segment_end(struct iwarp_qp *iwarp, uint64_t now_ns)
{
	struct iwarp_receive *rx = &iwarp->rx;
	struct ddp_segment segment = rx->segment;
	const uint8_t *ulpdu;
	enum rdmap_error error;

	if (iwarp_segment_is_data(&segment)) {
		if (!payload_take(iwarp, segment.payload_bytes - rx->placed_bytes, now_ns))
			return;
	} else {
		segment.payload = rx->bytes + rx->start;
		rx->start += segment.payload_bytes;
	}
	rx->start += rx->trailer_bytes;
	rx->has_segment = false;
	trace_fpdu_received(iwarp->qp.qpn, segment.payload_bytes);
	qp_count(&iwarp->qp, COUNTER_rcvd_pkts, 1);
	qp_count(&iwarp->qp, COUNTER_rcvd_bytes, segment.payload_bytes);
	error = iwarp_segment_finish(iwarp, &segment, now_ns);
	if (error) {
		ulpdu = segment.payload - ddp_header_bytes(rdmap_is_tagged(segment.opcode));
		iwarp_refuse(iwarp, error, ulpdu,
			(uint32_t)(segment.payload - ulpdu) + segment.payload_bytes, now_ns);
		return;
	}
	if (rx->is_ready_awaited) {
		rx->is_ready_awaited = false;
		iwarp_hold_over(iwarp);
	}
}

/* Process the next FPDU, or a part of it. Returns false when that needs more bytes. */
static bool fpdu_take(struct iwarp_qp *iwarp, uint64_t now_ns)
{
	struct iwarp_receive *rx = &iwarp->rx;
	uint32_t left_bytes, there_bytes;

	if (!rx->has_segment)
		return segment_begin(iwarp, now_ns);
	left_bytes = rx->segment.payload_bytes - rx->placed_bytes;
	there_bytes = waiting_bytes(rx);
	if (there_bytes >= left_bytes + rx->trailer_bytes) {
		segment_end(iwarp, now_ns);
		return true;
	}
	if (there_bytes && left_bytes > IWARP_TAIL_BYTES)
		return payload_take(
			iwarp, min_u32(there_bytes, left_bytes - IWARP_TAIL_BYTES), now_ns);
	return false;
}

void iwarp_resume(struct iwarp_qp *iwarp, uint64_t now_ns)
{
	while (iwarp->stream == IWARP_STREAM_OPEN && iwarp->rx.start != iwarp->rx.end &&
		(iwarp_receive_fast(iwarp, now_ns) || fpdu_take(iwarp, now_ns)))
		;
}

void iwarp_received(struct iwarp_qp *iwarp, uint32_t bytes, uint64_t now_ns)
{
	struct iwarp_receive *rx = &iwarp->rx;
	uint32_t direct_bytes = min_u32(bytes, rx->direct_bytes);

	if (iwarp->stream != IWARP_STREAM_OPEN)
		return; /* an ending stream discards received bytes */
	rx->placed_bytes += direct_bytes;
	rx->end += bytes - direct_bytes;
	assert(rx->end <= IWARP_RX_BYTES);
	iwarp_resume(iwarp, now_ns);
}
