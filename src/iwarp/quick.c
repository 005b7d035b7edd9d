/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The short way for most of what is small: a SEND or WRITE of one FPDU that is there as a whole, and its like in the other direction.
 * Between two system calls the processor has forgotten what it knew of us, so that what counts is how little code there is.
 *
 * Whatever is not so, or not as it should be, takes the long way, which says what is wrong with it. Keys are looked up once, and then known.
 */
#include <string.h>

#include "iwarp/internal.h"
#include "memory/copy.h"

/* Where the bytes lie, when they do so in a region, and all of them may be used; NULL: take the long way. */
static uint8_t *find(const struct iwarp_qp *iwarp, struct mr_cached *cached, uint32_t key,
	struct mr_user user, uint32_t access, uint64_t iova, uint32_t bytes)
{
	const struct mr_table *mrs = iwarp->qp.lane->mrs;
	uint8_t *at = mr_cached_find(cached, key, access | MR_TOUCH, iova, bytes);

	if (__builtin_expect(at != NULL, true))
		return at;
	if (mr_resolve_for(mrs, key, user, access | MR_TOUCH, iova, bytes, &at))
		return NULL;
	mr_cache(mrs, key, cached);
	return mr_cached_find(cached, key, access | MR_TOUCH, iova, bytes);
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
	to = find(iwarp, &rx->remote, segment.tagged.stag, qp_mr_user(&iwarp->qp), MR_REMOTE_WRITE,
		segment.tagged.offset, bytes);
	if (!to)
		return false;
	copy_place(to, ulpdu + DDP_TAGGED_BYTES, bytes);
	rx->write_bytes += bytes;
	qp_count(&iwarp->qp, COUNTER_rdma_writes, 1);
	qp_count(&iwarp->qp, COUNTER_rcvd_bytes, bytes);
	return true;
}

/* A receive request that was taken for it is, on the long way, one that its message has begun to fill. */
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
		to = find(iwarp, &rx->local, sge->lkey, (struct mr_user){iwarp->qp.recv_pd, 0},
			MR_LOCAL_WRITE, sge->address, bytes);
		if (!to)
			return false;
		copy_place(to, ulpdu + DDP_UNTAGGED_BYTES, bytes);
	}
	rx->msn[DDP_QUEUE_SEND]++;
	qp_count(&iwarp->qp, COUNTER_rdma_sends, 1);
	qp_count(&iwarp->qp, COUNTER_rcvd_bytes, bytes);
	return true;
}

static void send_complete(struct iwarp_qp *iwarp, uint32_t bytes, uint64_t now_ns)
{
	struct cqe cqe = {.opcode = WC_RECV, .byte_count = bytes};

	iwarp_receive_end(iwarp, &cqe, RDMAP_SEND, now_ns);
}

/* In the middle of something, or of a kind for the long way only. */
static bool is_busy(const struct iwarp_qp *iwarp)
{
	const struct iwarp_receive *rx = &iwarp->rx;

	return rx->has_segment | rx->is_checked | rx->is_ready_awaited |
		iwarp->settings.receives_markers | (rx->stall_end_ns != 0);
}

bool iwarp_take_quickly(struct iwarp_qp *iwarp, uint64_t now_ns)
{
	struct iwarp_receive *rx = &iwarp->rx;
	const uint8_t *fpdu = rx->bytes + rx->start, *ulpdu = fpdu + FPDU_LENGTH_BYTES;
	uint32_t there_bytes = rx->end - rx->start, ulpdu_bytes, bytes;
	bool is_write, is_send;

	if (there_bytes < fpdu_bytes(DDP_TAGGED_BYTES) || is_busy(iwarp))
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
	qp_count(&iwarp->qp, COUNTER_rcvd_pkts, 1);
	if (is_send)
		send_complete(iwarp, ulpdu_bytes - DDP_UNTAGGED_BYTES, now_ns);
	return true;
}

/* --- sending --- */

static bool may_stage(const struct iwarp_qp *iwarp)
{
	const struct iwarp_transmit *tx = &iwarp->tx;
	const struct qp *qp = &iwarp->qp;

	if (tx->is_in_message | tx->is_held | tx->is_ready_owed | iwarp->settings.sends_markers |
		(tx->fault != FAULT_NONE) | (tx->owed_count != 0))
		return false;
	return iwarp->stream == IWARP_STREAM_OPEN && qp->state == QP_RTS &&
		tx->index != qp->sq->posted && iwarp_has_room(tx);
}

/* Where its bytes are, at most as many as are never lent; NULL: take the long way. */
static const uint8_t *source(struct iwarp_qp *iwarp, const struct send_wqe *wqe)
{
	const struct sge *sge = wqe->sge;

	if (wqe->total_bytes >= IWARP_LOAN_BYTES_MIN || (wqe->flags & SEND_FENCE))
		return NULL;
	if (wqe->flags & SEND_INLINE)
		return wqe->inline_bytes;
	if (wqe->sge_count != 1 || !sge->bytes)
		return NULL;
	return find(iwarp, &iwarp->tx.own, sge->lkey, (struct mr_user){iwarp->qp.pd, 0},
		MR_LOCAL_READ, sge->address, sge->bytes);
}

/* The header of a whole message. Returns its length. */
static uint32_t header_make(
	struct iwarp_transmit *tx, const struct send_wqe *wqe, bool is_write, uint8_t *ulpdu)
{
	struct ddp_segment segment;

	if (is_write) {
		segment.tagged.stag = wqe->rkey;
		segment.tagged.offset = wqe->remote_address;
		put_be16(ulpdu, ddp_control(RDMAP_WRITE, true, true));
		ddp_tagged_encode(&segment, ulpdu);
		return DDP_TAGGED_BYTES;
	}
	segment.untagged.invalidate_stag = 0;
	segment.untagged.queue = DDP_QUEUE_SEND;
	segment.untagged.msn = tx->msn[DDP_QUEUE_SEND]++;
	segment.untagged.offset = 0;
	put_be16(ulpdu, ddp_control(RDMAP_SEND, false, true));
	ddp_untagged_encode(&segment, ulpdu);
	return DDP_UNTAGGED_BYTES;
}

bool iwarp_stage_quickly(struct iwarp_qp *iwarp)
{
	struct iwarp_transmit *tx = &iwarp->tx;
	uint8_t *ulpdu = tx->bytes + tx->tail + FPDU_LENGTH_BYTES;
	struct send_wqe *wqe;
	const uint8_t *from;
	uint32_t header_bytes;
	bool is_write;

	if (!may_stage(iwarp))
		return false;
	wqe = sq_at(iwarp->qp.sq, tx->index);
	is_write = wqe->opcode == WR_RDMA_WRITE;
	if (!is_write && (wqe->opcode != WR_SEND || (wqe->flags & SEND_SOLICITED)))
		return false;
	from = source(iwarp, wqe);
	if (!from)
		return false;
	header_bytes = header_make(tx, wqe, is_write, ulpdu);
	memcpy(ulpdu + header_bytes, from, wqe->total_bytes);
	iwarp_fpdu_stage(iwarp, header_bytes + wqe->total_bytes, wqe->total_bytes);
	iwarp_request_staged(iwarp, wqe);
	return true;
}
