/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/infiniband/mad_frame.h"

#include <string.h>

#include "wire/opcode.h"

bool ib_frame_decode(struct ib_frame *frame, const uint8_t *bytes, uint32_t count)
{
	uint32_t offset = LRH_BYTES;

	memset(frame, 0, sizeof(*frame));
	if (count < LRH_BYTES || count % 4)
		return false;
	lrh_decode(&frame->lrh, bytes);
	if (frame->lrh.version != 0 || frame->lrh.words * 4u != count)
		return false;
	frame->has_grh = frame->lrh.next == LRH_GRH;
	frame->has_bth = frame->has_grh || frame->lrh.next == LRH_BTH;
	if (!frame->has_bth)
		return true;
	if (frame->has_grh) {
		if (count < offset + GRH_BYTES || !ipv6_header_decode(&frame->grh, bytes + offset))
			return false;
		offset += GRH_BYTES;
	}
	if (count < offset + BTH_BYTES + IB_ICRC_BYTES)
		return false;
	frame->bth_offset = offset;
	bth_decode(&frame->bth, bytes + offset);
	return true;
}

bool mad_frame_decode(struct mad_frame *frame, const struct ib_frame *decoded, const uint8_t *bytes,
	uint32_t count, const uint8_t **ret_mad)
{
	const struct bth *bth = &decoded->bth;
	const uint32_t mad_offset = decoded->bth_offset + BTH_BYTES + DETH_BYTES;
	struct deth deth;

	if (!decoded->has_bth || bth->dest_qpn.value > GSI_QPN || bth->tver != BTH_TVER ||
		bth->opcode != OPCODE_UD_SEND_ONLY || bth->pad_bytes ||
		count != mad_offset + MAD_BYTES + IB_ICRC_BYTES)
		return false;
	deth_decode(&deth, bytes + decoded->bth_offset + BTH_BYTES);
	*frame = (struct mad_frame){
		.dlid = decoded->lrh.dlid,
		.slid = decoded->lrh.slid,
		.sl = decoded->lrh.sl,
		.vl = decoded->lrh.vl,
		.pkey = bth->pkey,
		.dest_qpn = bth->dest_qpn.value,
		.source_qpn = deth.source_qpn.value,
		.qkey = deth.qkey,
		.psn = bth->psn.value,
		.has_grh = decoded->has_grh,
		.grh = decoded->grh,
	};
	*ret_mad = bytes + mad_offset;
	return true;
}

static void mad_grh_encode(const struct mad_frame *frame, uint8_t to[GRH_BYTES])
{
	struct ip_header grh = frame->grh;

	grh.payload_bytes = MAD_FRAME_BYTES - LRH_BYTES;
	grh.next_header = GRH_NEXT_HEADER_IB;
	grh_encode(&grh, to);
}

uint32_t mad_frame_encode(const struct mad_frame *frame, const uint8_t mad[MAD_BYTES],
	uint8_t to[MAD_FRAME_BYTES_MAX])
{
	const uint32_t bytes = frame->has_grh ? MAD_FRAME_BYTES_MAX : MAD_FRAME_BYTES;
	const struct lrh lrh = {
		.vl = frame->vl,
		.sl = frame->sl,
		.next = frame->has_grh ? LRH_GRH : LRH_BTH,
		.dlid = frame->dlid,
		.slid = frame->slid,
		.words = (uint16_t)(bytes / 4),
	};
	const struct bth bth = {
		.opcode = OPCODE_UD_SEND_ONLY,
		.is_migrated = true,
		.pkey = frame->pkey,
		.dest_qpn = {frame->dest_qpn},
		.psn = psn_from(frame->psn),
	};
	const struct deth deth = {.qkey = frame->qkey, .source_qpn = {frame->source_qpn}};
	uint8_t *at = to + LRH_BYTES;

	lrh_encode(&lrh, to);
	if (frame->has_grh) {
		mad_grh_encode(frame, at);
		at += GRH_BYTES;
	}
	bth_encode(&bth, at);
	deth_encode(&deth, at + BTH_BYTES);
	memcpy(at + BTH_BYTES + DETH_BYTES, mad, MAD_BYTES);
	ib_icrc_seal(to, bytes - IB_ICRC_BYTES);
	return bytes;
}
