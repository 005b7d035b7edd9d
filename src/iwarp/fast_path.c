/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fast path: it receives a SEND or WRITE of one complete FPDU, and stages a small SEND or
 * WRITE. System calls evict this code from L1, so keep this path small.
 *
 * Everything else, errors included, is left to receive.c and transmit.c. A key is looked up once
 * and then cached.
 */
#include <string.h>

#include "iwarp/iwarp_internal.h"
#include "memory/copy.h"

/* The bytes that a request or a header names. */
struct extent {
	uint64_t iova;
	uint32_t key;
	uint32_t bytes;
};

static __attribute__((cold)) uint8_t *extent_look_up(const struct iwarp_qp *iwarp,
	struct mr_cached *cached, const struct extent *extent, struct mr_user user, uint32_t access)
{
	const struct mr_table *mrs = iwarp->qp.lane->mrs;
	uint8_t *at;

	if (mr_resolve_for(mrs, extent->key, user, access, extent->iova, extent->bytes, &at))
		return NULL;
	mr_cache(mrs, extent->key, cached);
	return mr_cached_find(cached, extent->key, access, extent->iova, extent->bytes);
}

/*
 * The address of the bytes, if they are contiguous in a region that grants the access. Otherwise
 * NULL; then the fast path cannot handle the FPDU.
 */
static inline uint8_t *extent_find(const struct iwarp_qp *iwarp, struct mr_cached *cached,
	const struct extent *extent, struct mr_user user, uint32_t access)
{
	uint8_t *at =
		mr_cached_find(cached, extent->key, access | MR_TOUCH, extent->iova, extent->bytes);

	return at ? at : extent_look_up(iwarp, cached, extent, user, access | MR_TOUCH);
}

/* --- receiving --- */

static bool write_take(struct iwarp_qp *iwarp, const uint8_t *ulpdu, uint32_t ulpdu_bytes)
{
	struct iwarp_receive *rx = &iwarp->rx;
	uint32_t bytes = ulpdu_bytes - DDP_TAGGED_BYTES;
	struct ddp_segment segment;
	uint8_t *to;

	ddp_tagged_decode(&segment, ulpdu);
	if (!bytes || !(iwarp->qp.attr.access & MR_REMOTE_WRITE))
		return false;
	to = extent_find(iwarp, &rx->remote,
		&(struct extent){segment.tagged.offset, segment.tagged.stag, bytes},
		qp_mr_user(&iwarp->qp), MR_REMOTE_WRITE);
	if (!to)
		return false;
	place_payload(to, ulpdu + DDP_TAGGED_BYTES, bytes);
	rx->write_bytes += bytes;
	qp_count(&iwarp->qp, COUNTER_rdma_writes, 1);
	qp_count(&iwarp->qp, COUNTER_rcvd_bytes, bytes);
	return true;
}

/*
 * May return false after iwarp_receive_begin() has taken a receive request. Then receive.c finds
 * that request, taken for a message that has no bytes so far.
 */
static bool send_take(struct iwarp_qp *iwarp, const uint8_t *ulpdu, uint32_t ulpdu_bytes)
{
	struct iwarp_receive *rx = &iwarp->rx;
	const struct sge *sge = rx->receive.sge;
	uint32_t bytes = ulpdu_bytes - DDP_UNTAGGED_BYTES;
	struct ddp_segment segment;
	uint8_t *to;

	ddp_untagged_decode(&segment, ulpdu);
	if (rx->has_receive || segment.untagged.queue != DDP_QUEUE_SEND ||
		segment.untagged.offset || segment.untagged.msn != rx->msn[DDP_QUEUE_SEND] ||
		iwarp_receive_begin(iwarp, RDMAP_SEND))
		return false;
	if (bytes) {
		if (!rx->receive.sge_count || bytes > sge->bytes)
			return false;
		to = extent_find(iwarp, &rx->local,
			&(struct extent){sge->address, sge->lkey, bytes},
			(struct mr_user){iwarp->qp.recv_pd, 0}, MR_LOCAL_WRITE);
		if (!to)
			return false;
		copy_place(to, ulpdu + DDP_UNTAGGED_BYTES, bytes);
	}
	rx->msn[DDP_QUEUE_SEND]++;
	qp_count(&iwarp->qp, COUNTER_rdma_sends, 1);
	qp_count(&iwarp->qp, COUNTER_rcvd_bytes, bytes);
	return true;
}

/* Is a segment incomplete, or does the stream need receive.c for each FPDU? */
static bool is_receive_busy(const struct iwarp_qp *iwarp)
{
	const struct iwarp_receive *rx = &iwarp->rx;

	return rx->has_segment | rx->is_checked | rx->is_ready_awaited |
		iwarp->settings.receives_markers | (rx->stall_end_ns != 0);
}

bool iwarp_receive_fast(struct iwarp_qp *iwarp, uint64_t now_ns)
{
	struct iwarp_receive *rx = &iwarp->rx;
	const uint8_t *fpdu = rx->bytes + rx->start, *ulpdu = fpdu + FPDU_LENGTH_BYTES;
	uint32_t there_bytes = rx->end - rx->start, ulpdu_bytes, bytes;
	bool is_write, is_send;

	if (there_bytes < fpdu_bytes(DDP_TAGGED_BYTES) || is_receive_busy(iwarp))
		return false;
	ulpdu_bytes = fpdu_ulpdu_bytes(fpdu);
	bytes = fpdu_bytes(ulpdu_bytes);
	if (there_bytes < bytes)
		return false;
	is_write = get_be16(ulpdu) == ddp_control(RDMAP_WRITE, true, true);
	is_send = get_be16(ulpdu) == ddp_control(RDMAP_SEND, false, true);
	if (!(is_write && ulpdu_bytes > DDP_TAGGED_BYTES) &&
		!(is_send && ulpdu_bytes >= DDP_UNTAGGED_BYTES))
		return false;
	if (iwarp->settings.has_crc && !fpdu_crc_is_good(fpdu, bytes))
		return false;
	if (is_write ? !write_take(iwarp, ulpdu, ulpdu_bytes)
		     : !send_take(iwarp, ulpdu, ulpdu_bytes))
		return false;
	rx->start += bytes;
	trace_fpdu_received(
		iwarp->qp.qpn, ulpdu_bytes - (is_send ? DDP_UNTAGGED_BYTES : DDP_TAGGED_BYTES));
	qp_count(&iwarp->qp, COUNTER_rcvd_pkts, 1);
	if (is_send) {
		rx->has_receive = false;
		qp_complete_message(
			&iwarp->qp, rx->receive.wr_id, ulpdu_bytes - DDP_UNTAGGED_BYTES, now_ns);
	}
	return true;
}

/* --- sending --- */

static bool is_fast_path_open(const struct iwarp_qp *iwarp)
{
	const struct iwarp_transmit *tx = &iwarp->tx;
	const struct qp *qp = &iwarp->qp;

	if (tx->is_in_message | tx->is_held | tx->is_ready_pending | iwarp->settings.sends_markers |
		(tx->fault != FAULT_NONE) | (tx->pending_count != 0))
		return false;
	return iwarp->stream == IWARP_STREAM_OPEN && qp->state == QP_RTS &&
		tx->index != qp->sq->posted && iwarp_has_room(tx);
}

/* The address of a request's payload, if it is short and contiguous; else NULL. */
static const uint8_t *payload_find(struct iwarp_qp *iwarp, const struct send_wqe *wqe)
{
	const struct sge *sge = wqe->sge;

	if (wqe->total_bytes >= IWARP_ZEROCOPY_BYTES_MIN || (wqe->flags & SEND_FENCE))
		return NULL;
	if (wqe->flags & SEND_INLINE)
		return wqe->inline_bytes;
	if (wqe->sge_count != 1 || !sge->bytes)
		return NULL;
	return extent_find(iwarp, &iwarp->tx.own,
		&(struct extent){sge->address, sge->lkey, sge->bytes},
		(struct mr_user){iwarp->qp.pd, 0}, MR_LOCAL_READ);
}

/*
 * Write the FPDU's length and, behind it, the headers of a whole message. The function writes
 * words, because the CRC reads words next. A load of a word stalls if smaller stores have just
 * written that word.
 */
static void header_make(struct iwarp_transmit *tx, const struct send_wqe *wqe, uint32_t ulpdu_bytes,
	bool is_write, uint8_t *fpdu)
{
	uint64_t length = (uint64_t)ulpdu_bytes << 48;

	if (is_write) {
		put_be64(fpdu,
			length | (uint64_t)ddp_control(RDMAP_WRITE, true, true) << 32 | wqe->rkey);
		put_be64(fpdu + 8, wqe->remote_address);
	} else {
		put_be64(fpdu, length | (uint64_t)ddp_control(RDMAP_SEND, false, true) << 32);
		put_be64(fpdu + 8, (uint64_t)DDP_QUEUE_SEND << 32 | tx->msn[DDP_QUEUE_SEND]++);
		put_be32(fpdu + 16, 0);
	}
}

/*
 * Stage the next request. Returns false, and changes nothing, if the fast path cannot stage that
 * request.
 */
static inline bool request_stage(struct iwarp_qp *iwarp)
{
	struct iwarp_transmit *tx = &iwarp->tx;
	uint8_t *fpdu = tx->bytes + tx->tail;
	struct send_wqe *wqe;
	const uint8_t *from;
	uint32_t header_bytes, bytes;
	bool is_write;

	wqe = sq_at(iwarp->qp.sq, tx->index);
	is_write = wqe->opcode == WR_RDMA_WRITE;
	if (!is_write && (wqe->opcode != WR_SEND || (wqe->flags & SEND_SOLICITED)))
		return false;
	from = payload_find(iwarp, wqe);
	if (!from)
		return false;
	bytes = wqe->total_bytes;
	header_bytes = is_write ? DDP_TAGGED_BYTES : DDP_UNTAGGED_BYTES;
	header_make(tx, wqe, header_bytes + bytes, is_write, fpdu);
	memcpy(fpdu + FPDU_LENGTH_BYTES + header_bytes, from, bytes);
	iwarp_fpdu_staged(
		iwarp, fpdu_seal_end(fpdu, header_bytes + bytes, iwarp->settings.has_crc), bytes);
	iwarp_request_staged(iwarp, wqe);
	return true;
}

bool iwarp_stage_fast(struct iwarp_qp *iwarp)
{
	return is_fast_path_open(iwarp) && request_stage(iwarp);
}

const uint8_t *iwarp_output_fast(struct iwarp_qp *iwarp, uint32_t *ret_bytes)
{
	struct iwarp_transmit *tx = &iwarp->tx;

	if (tx->piece_count || tx->index + 1 != iwarp->qp.sq->posted || !is_fast_path_open(iwarp) ||
		!request_stage(iwarp))
		return NULL;
	*ret_bytes = tx->staged_bytes;
	return tx->bytes;
}
