/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/cm/gsi_packet.h"

#include <assert.h>

#include "wire/packet.h"

static_assert(GSI_PACKET_BYTES == BTH_BYTES + DETH_BYTES + MAD_BYTES, "BTH, DETH, MAD");

/* All bits of a partition key except the bit of full membership. */
#define PKEY_NUMBER_MASK 0x7fff

const uint8_t *gsi_partition_mad(const uint8_t *packet, size_t length, uint16_t pkey)
{
	struct packet decoded;

	if (length != GSI_PACKET_BYTES || packet_decode(&decoded, packet, length) != PACKET_OK)
		return NULL;
	if (decoded.bth.opcode != OPCODE_UD_SEND_ONLY || decoded.payload_bytes != MAD_BYTES ||
		decoded.bth.dest_qpn.value != GSI_QPN || decoded.deth.qkey != GSI_QKEY ||
		decoded.deth.source_qpn.value != GSI_QPN ||
		((decoded.bth.pkey ^ pkey) & PKEY_NUMBER_MASK) != 0)
		return NULL;
	return decoded.payload;
}

const uint8_t *gsi_packet_mad(const uint8_t *packet, size_t length)
{
	return gsi_partition_mad(packet, length, BTH_PKEY_DEFAULT);
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
