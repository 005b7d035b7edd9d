/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_ROUNDTRIP_H
#define URNIC_TESTS_SUPPORT_ROUNDTRIP_H

/*
 * A decoded value must encode to the same bytes, except for reserved bits. Unit tests and fuzzers
 * share this.
 */

#include <stdbool.h>
#include <string.h>

#include "wire/packet.h"

/* What a sender of the same headers must send in the reserved bits. */
static inline void reserved_bits_clear(uint8_t *bytes, const struct opcode_info *info)
{
	uint8_t *at = bytes + BTH_BYTES;

	bytes[4] &= 0xc0;
	bytes[8] &= 0xc0;
	if (info->headers & HEADER_XRCETH) {
		at[0] = 0;
		at += XRCETH_BYTES;
	}
	if (info->headers & HEADER_DETH) {
		at[4] = 0;
		at += DETH_BYTES;
	}
	if (info->headers & HEADER_FETH) {
		memset(at, 0, 3);
		at[3] &= 0x3f;
	}
	/* Five of the eight kinds of syndrome are one to us. */
	if (info->headers & HEADER_AETH && (at[0] & 0x80 || at[0] >> 5 == AETH_RESERVED))
		at[0] = (uint8_t)(AETH_RESERVED << 5 | (at[0] & AETH_VALUE_MASK));
}

/* False when `bytes` decode to what encodes to other bytes. What does not decode is fine. */
static inline bool roundtrip_holds(const uint8_t *bytes, size_t length)
{
	uint8_t expected[OPCODE_HEADER_BYTES_MAX];
	uint8_t encoded[OPCODE_HEADER_BYTES_MAX];
	struct packet packet;

	if (packet_decode(&packet, bytes, length) != PACKET_OK)
		return true;
	if (packet_bytes(&packet) != length || packet.payload != bytes + packet.info->header_bytes)
		return false;
	memcpy(expected, bytes, packet.info->header_bytes);
	reserved_bits_clear(expected, packet.info);
	return packet_encode_headers(&packet, encoded) == packet.info->header_bytes &&
		memcmp(expected, encoded, packet.info->header_bytes) == 0;
}

#endif
