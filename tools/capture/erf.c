/* SPDX-License-Identifier: BSD-2-Clause */
#include "capture/erf.h"

#include <assert.h>
#include <string.h>

#include "fabric/infiniband/infiniband.h"
#include "wire/bytes.h"
#include "wire/infiniband/crc.h"

enum {
	HEADER_BYTES = 16,
	TYPE_INFINIBAND = 21,
	TYPE_INFINIBAND_LINK = 25,
	VARYING_LENGTH = 4,
	NS_PER_S = 1000000000,
};

static_assert(ERF_MORE_BYTES == HEADER_BYTES + IB_VCRC_BYTES, "a packet's record");
static_assert(ERF_LINK_BYTES == HEADER_BYTES + IB_LINK_PACKET_BYTES + IB_DELIMITER_BYTES,
	"a link packet's record");

/* The VCRC of a packet, or the CRC of a link packet, behind its bytes: the lower byte is first. */
static uint32_t crc_append(uint8_t *packet, uint32_t bytes)
{
	uint16_t crc = ib_vcrc(packet, bytes);

	packet[bytes] = (uint8_t)crc;
	packet[bytes + 1] = (uint8_t)(crc >> 8);
	return bytes + IB_VCRC_BYTES;
}

/* Write the header of a record: time, type, flags, lengths. Returns the record's length. */
static uint32_t header_write(uint64_t time_ns, uint8_t type, uint32_t count, uint8_t *to)
{
	put_le32(to, (uint32_t)(((time_ns % NS_PER_S) << 32) / NS_PER_S));
	put_le32(to + 4, (uint32_t)(time_ns / NS_PER_S));
	to[8] = type;
	to[9] = VARYING_LENGTH;
	put_be16(to + 10, (uint16_t)(HEADER_BYTES + count));
	put_be16(to + 12, 0);
	put_be16(to + 14, (uint16_t)count);
	return HEADER_BYTES + count;
}

uint32_t erf_packet_write(uint64_t time_ns, const uint8_t *packet, uint32_t bytes, uint8_t *to)
{
	memcpy(to + HEADER_BYTES, packet, bytes);
	return header_write(time_ns, TYPE_INFINIBAND, crc_append(to + HEADER_BYTES, bytes), to);
}

/*
 * Write the operation, which is 0, and the credits. Two bytes for the symbols around the packet
 * follow, because Wireshark looks for an LRH, which has as many bytes.
 */
uint32_t erf_link_packet_write(
	uint64_t time_ns, uint8_t vl, uint16_t fctbs, uint16_t fccl, uint8_t *to)
{
	uint8_t *at = to + HEADER_BYTES;

	put_be16(at, fctbs);
	put_be16(at + 2, (uint16_t)(vl << 12 | (fccl & 0xfff)));
	crc_append(at, IB_LINK_PACKET_BYTES - IB_VCRC_BYTES);
	memset(at + IB_LINK_PACKET_BYTES, 0, IB_DELIMITER_BYTES);
	return header_write(
		time_ns, TYPE_INFINIBAND_LINK, IB_LINK_PACKET_BYTES + IB_DELIMITER_BYTES, to);
}
