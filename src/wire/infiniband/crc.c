/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/infiniband/crc.h"

#include <assert.h>
#include <string.h>

#include "base/crc.h"
#include "wire/bth.h"
#include "wire/bytes.h"
#include "wire/grh.h"
#include "wire/infiniband/lrh.h"

enum {
	HEADERS_BYTES_MAX = LRH_BYTES + GRH_BYTES + BTH_BYTES,
	BTH_RESV8A = 4,
	GRH_HOP_LIMIT = 7,
	VCRC_POLYNOMIAL = 0xd008, /* 0x100b with the lowest power of x in the highest bit */
};

static uint32_t headers_bytes(const uint8_t *packet)
{
	return LRH_BYTES + ((packet[1] & 3) == LRH_GRH ? GRH_BYTES : 0) + BTH_BYTES;
}

uint32_t ib_icrc(const uint8_t *packet, uint32_t bytes)
{
	const uint32_t head_bytes = headers_bytes(packet);
	uint8_t head[HEADERS_BYTES_MAX];

	assert(bytes >= head_bytes);
	memcpy(head, packet, head_bytes);
	head[0] |= 0xf0;
	if (head_bytes == HEADERS_BYTES_MAX) {
		put_be32(head + LRH_BYTES, get_be32(head + LRH_BYTES) | 0x0fffffff);
		head[LRH_BYTES + GRH_HOP_LIMIT] = 0xff;
	}
	head[head_bytes - BTH_BYTES + BTH_RESV8A] = 0xff;
	return crc32_update(
		crc32_update(0, head, head_bytes), packet + head_bytes, bytes - head_bytes);
}

void ib_icrc_seal(uint8_t *packet, uint32_t bytes)
{
	put_le32(packet + bytes, ib_icrc(packet, bytes));
}

bool ib_icrc_verify(const uint8_t *packet, uint32_t bytes)
{
	if (bytes < LRH_BYTES || bytes < headers_bytes(packet) + IB_ICRC_BYTES)
		return false;
	bytes -= IB_ICRC_BYTES;
	return get_le32(packet + bytes) == ib_icrc(packet, bytes);
}

uint16_t ib_vcrc(const uint8_t *packet, uint32_t bytes)
{
	uint16_t crc = 0xffff;

	for (uint32_t i = 0; i < bytes; i++) {
		crc ^= packet[i];
		for (unsigned bit = 0; bit < 8; bit++)
			crc = (uint16_t)(crc >> 1 ^ (crc & 1 ? VCRC_POLYNOMIAL : 0));
	}
	return (uint16_t)~crc;
}
