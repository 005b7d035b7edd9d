/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/icrc.h"

#include <assert.h>
#include <string.h>

#include "base/crc.h"
#include "base/gid.h"
#include "wire/bth.h"
#include "wire/bytes.h"

/* The CRC of eight bytes of ones: the LRH that RoCE does not have. */
#define CRC_OF_ONES 0x2144df1cu

/* A packet up to this long is copied behind its headers, so that one CRC call does it all. */
#define SHORT_PACKET_BYTES 80

enum {
	IPV4_HEADER_BYTES = ROCE_IPV4_BYTES + ROCE_UDP_BYTES,
	IPV6_HEADER_BYTES = ROCE_IPV6_BYTES + ROCE_UDP_BYTES,

	IPV4_TOTAL_LENGTH = 2, /* offsets of fields */
	IPV4_ID = 4,
	IPV4_FLAGS = 6,
	IPV6_PAYLOAD_LENGTH = 4,
	UDP_LENGTH = 4,
	BTH_RESV8A = 4,

	IP_PROTOCOL_UDP = 17,
};

static bool is_ipv4(const uint8_t address[16])
{
	struct gid gid;

	memcpy(gid.raw, address, sizeof(gid.raw));
	return gid_is_ipv4(&gid);
}

static void ipv4_header_init(uint8_t *to, const uint8_t source[16], const uint8_t dest[16])
{
	to[0] = 0x45; /* version 4, no options: nobody sends RoCE with them */
	to[1] = 0xff; /* ToS */
	put_be16(to + IPV4_FLAGS, ICRC_IPV4_DF);
	to[8] = 0xff; /* TTL */
	to[9] = IP_PROTOCOL_UDP;
	put_be16(to + 10, 0xffff); /* checksum */
	memcpy(to + 12, source + 12, 4);
	memcpy(to + 16, dest + 12, 4);
}

static void ipv6_header_init(uint8_t *to, const uint8_t source[16], const uint8_t dest[16])
{
	put_be32(to, 0x6fffffff); /* version 6, traffic class, flow label */
	to[6] = IP_PROTOCOL_UDP;
	to[7] = 0xff; /* hop limit */
	memcpy(to + 8, source, 16);
	memcpy(to + 24, dest, 16);
}

void icrc_flow_init(struct icrc_flow *flow, const uint8_t source[16], const uint8_t dest[16],
	uint16_t source_port, uint16_t dest_port)
{
	uint8_t *udp;

	assert(is_ipv4(source) == is_ipv4(dest));
	memset(flow, 0, sizeof(*flow));
	if (is_ipv4(source)) {
		flow->header_bytes = IPV4_HEADER_BYTES;
		ipv4_header_init(flow->header, source, dest);
	} else {
		flow->header_bytes = IPV6_HEADER_BYTES;
		ipv6_header_init(flow->header, source, dest);
	}
	udp = flow->header + flow->header_bytes - ROCE_UDP_BYTES;
	put_be16(udp, source_port);
	put_be16(udp + 2, dest_port);
	put_be16(udp + 6, 0xffff); /* checksum */
}

bool icrc_flow_is_ipv4(const struct icrc_flow *flow)
{
	return flow->header_bytes == IPV4_HEADER_BYTES;
}

/* Completes the headers of a packet of `length` bytes. */
static void headers_finish(const struct icrc_flow *flow, uint16_t ipv4_id, uint16_t ipv4_flags,
	size_t length, uint8_t *headers)
{
	uint16_t udp_bytes = (uint16_t)(ROCE_UDP_BYTES + length + ROCE_ICRC_BYTES);

	if (icrc_flow_is_ipv4(flow)) {
		put_be16(headers + IPV4_TOTAL_LENGTH, (uint16_t)(ROCE_IPV4_BYTES + udp_bytes));
		put_be16(headers + IPV4_ID, ipv4_id);
		put_be16(headers + IPV4_FLAGS, ipv4_flags);
	} else {
		put_be16(headers + IPV6_PAYLOAD_LENGTH, udp_bytes);
	}
	put_be16(headers + flow->header_bytes - ROCE_UDP_BYTES + UDP_LENGTH, udp_bytes);
}

/* Of a packet whose last `lent_bytes` lie at `lent`, if that is not NULL. */
static uint32_t compute(const struct icrc_flow *flow, uint16_t ipv4_id, uint16_t ipv4_flags,
	const uint8_t *packet, size_t length, const uint8_t *lent, size_t lent_bytes)
{
	uint8_t head[IPV6_HEADER_BYTES + SHORT_PACKET_BYTES];
	size_t here_bytes = length - lent_bytes;
	size_t copied_bytes = here_bytes <= SHORT_PACKET_BYTES ? here_bytes : BTH_BYTES;
	uint32_t crc;

	assert(length >= BTH_BYTES && length <= ICRC_PACKET_BYTES_MAX);
	memcpy(head, flow->header, sizeof(flow->header));
	headers_finish(flow, ipv4_id, ipv4_flags, length, head);
	memcpy(head + flow->header_bytes, packet, copied_bytes);
	head[flow->header_bytes + BTH_RESV8A] = 0xff;

	crc = crc32_update(CRC_OF_ONES, head, flow->header_bytes + copied_bytes);
	if (copied_bytes < here_bytes)
		crc = crc32_update(crc, packet + copied_bytes, here_bytes - copied_bytes);
	return lent ? crc32_update(crc, lent, lent_bytes) : crc;
}

uint32_t icrc_compute(const struct icrc_flow *flow, uint16_t ipv4_id, uint16_t ipv4_flags,
	const uint8_t *packet, size_t length)
{
	return compute(flow, ipv4_id, ipv4_flags, packet, length, NULL, 0);
}

void icrc_seal(const struct icrc_flow *flow, uint16_t ipv4_id, uint8_t *packet, size_t length)
{
	icrc_seal_lent(flow, ipv4_id, packet, length, NULL, 0);
}

void icrc_seal_lent(const struct icrc_flow *flow, uint16_t ipv4_id, uint8_t *packet, size_t length,
	const uint8_t *lent, size_t lent_bytes)
{
	put_le32(packet + length,
		compute(flow, ipv4_id, ICRC_IPV4_DF, packet, length, lent, lent_bytes));
}

static bool length_is_possible(size_t length)
{
	return length >= BTH_BYTES && length <= ICRC_PACKET_BYTES_MAX;
}

bool icrc_verify(const struct icrc_flow *flow, uint16_t ipv4_id, uint16_t ipv4_flags,
	const uint8_t *packet, size_t length)
{
	return length_is_possible(length) &&
		get_le32(packet + length) ==
		icrc_compute(flow, ipv4_id, ipv4_flags, packet, length);
}

/* What moves an error of an IPv4 packet of `length` bytes back to the identification. */
static uint32_t shift_factor(struct icrc_shifts *shifts, size_t length)
{
	struct icrc_shift *shift = &shifts->recent[length / 4 % ICRC_SHIFTS_COUNT];

	if (shift->length != length) {
		shift->length = (uint32_t)length;
		shift->factor = crc32_unshift(IPV4_HEADER_BYTES - IPV4_ID + length);
	}
	return shift->factor;
}

bool icrc_verify_any_id(const struct icrc_flow *flow, struct icrc_shifts *shifts, uint16_t hint,
	const uint8_t *packet, size_t length, uint16_t *ret_id)
{
	uint8_t word[4];
	uint32_t error;
	uint16_t flags;

	if (!length_is_possible(length))
		return false;
	error = icrc_compute(flow, hint, ICRC_IPV4_DF, packet, length) ^ get_le32(packet + length);
	if (error == 0) {
		*ret_id = icrc_flow_is_ipv4(flow) ? hint : 0;
		return true;
	}
	if (!icrc_flow_is_ipv4(flow))
		return false;

	/* The first byte sent has the highest powers of x, which are the lowest bits. */
	put_le32(word, crc32_multiply(error, shift_factor(shifts, length)));
	flags = get_be16(word + 2) ^ ICRC_IPV4_DF;
	if (flags != ICRC_IPV4_DF && flags != 0)
		return false;
	*ret_id = get_be16(word) ^ hint;
	return true;
}
