/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/cm/mad.h"

#include <assert.h>
#include <string.h>

#include "wire/bytes.h"
#include "wire/packet.h"

static_assert(GSI_PACKET_BYTES == BTH_BYTES + DETH_BYTES + MAD_BYTES, "BTH, DETH, MAD");

/* All bits of a partition key except the bit of full membership. */
#define PKEY_NUMBER_MASK 0x7fff

void mad_header_decode(struct mad_header *header, const uint8_t from[MAD_HEADER_BYTES])
{
	*header = (struct mad_header){
		.base_version = from[0],
		.management_class = from[1],
		.class_version = from[2],
		.method = from[3],
		.status = get_be16(from + 4),
		.transaction_id = get_be64(from + 8),
		.attribute_id = get_be16(from + 16),
		.attribute_modifier = get_be32(from + 20),
	};
}

void mad_header_encode(const struct mad_header *header, uint8_t to[MAD_HEADER_BYTES])
{
	memset(to, 0, MAD_HEADER_BYTES);
	to[0] = header->base_version;
	to[1] = header->management_class;
	to[2] = header->class_version;
	to[3] = header->method;
	put_be16(to + 4, header->status);
	put_be64(to + 8, header->transaction_id);
	put_be16(to + 16, header->attribute_id);
	put_be32(to + 20, header->attribute_modifier);
}

const uint8_t *gsi_packet_mad(const uint8_t *packet, size_t length)
{
	struct packet decoded;

	if (length != GSI_PACKET_BYTES || packet_decode(&decoded, packet, length) != PACKET_OK)
		return NULL;
	if (decoded.bth.opcode != OPCODE_UD_SEND_ONLY || decoded.payload_bytes != MAD_BYTES ||
		decoded.bth.dest_qpn.value != GSI_QPN || decoded.deth.qkey != GSI_QKEY ||
		decoded.deth.source_qpn.value != GSI_QPN ||
		(decoded.bth.pkey & PKEY_NUMBER_MASK) != (BTH_PKEY_DEFAULT & PKEY_NUMBER_MASK))
		return NULL;
	return decoded.payload;
}

void gsi_packet_encode(uint32_t psn, uint8_t to[GSI_PACKET_BYTES])
{
	struct packet packet;

	packet_init(&packet, OPCODE_UD_SEND_ONLY);
	packet.bth.dest_qpn = (struct qpn){GSI_QPN};
	packet.bth.psn = (struct psn){psn & U24_MASK};
	packet.deth = (struct deth){.qkey = GSI_QKEY, .source_qpn = {GSI_QPN}};
	packet_encode_headers(&packet, to);
}
