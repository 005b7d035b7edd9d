/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/icrc.h"

#include <assert.h>
#include <string.h>

#include "base/crc.h"
#include "base/gid.h"
#include "wire/bth.h"
#include "wire/bytes.h"

/* The CRC of eight bytes of ones, which stand for the LRH that RoCE does not have. */
#define CRC_OF_ONES 0x2144df1cu

enum {
	IPV4_HEADER_BYTES = IPV4_BYTES + ROCE_UDP_BYTES,
	IPV6_HEADER_BYTES = IPV6_BYTES + ROCE_UDP_BYTES,

	UDP_LENGTH = 4, /* offsets of fields, in the UDP header and in the BTH */
	BTH_RESV8A = 4,
};

static bool is_ipv4(const uint8_t address[16])
{
	struct gid gid;

	memcpy(gid.raw, address, sizeof(gid.raw));
	return gid_is_ipv4(&gid);
}

static void ipv4_header_init(uint8_t *to, const uint8_t source[16], const uint8_t dest[16])
{
	to[0] = IPV4_VERSION_AND_WORDS;
	to[1] = 0xff; /* ToS */
	put_be16(to + IPV4_FLAGS, ICRC_IPV4_DF);
	to[IPV4_TTL] = 0xff;
	to[IPV4_PROTOCOL] = IP_PROTOCOL_UDP;
	put_be16(to + IPV4_CHECKSUM, 0xffff);
	memcpy(to + IPV4_ADDRESSES, source + 12, 4);
	memcpy(to + IPV4_ADDRESSES + 4, dest + 12, 4);
}

static void ipv6_header_init(uint8_t *to, const uint8_t source[16], const uint8_t dest[16])
{
	put_be32(to, 0x6fffffff); /* version 6, traffic class, flow label */
	to[IPV6_NEXT_HEADER] = IP_PROTOCOL_UDP;
	to[IPV6_HOP_LIMIT] = 0xff;
	memcpy(to + IPV6_ADDRESSES, source, 16);
	memcpy(to + IPV6_ADDRESSES + 16, dest, 16);
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
	flow->crc = crc32_update(CRC_OF_ONES, flow->header, flow->header_bytes);
}

bool icrc_flow_is_ipv4(const struct icrc_flow *flow)
{
	return flow->header_bytes == IPV4_HEADER_BYTES;
}

/*
 * Complete the flow's headers for a packet of `length` bytes: write the lengths, and the IPv4
 * identification and flags.
 */
static void headers_finish(const struct icrc_flow *flow, uint16_t ipv4_id, uint16_t ipv4_flags,
	size_t length, uint8_t *headers)
{
	uint16_t udp_bytes = (uint16_t)(ROCE_UDP_BYTES + length + ROCE_ICRC_BYTES);

	if (icrc_flow_is_ipv4(flow)) {
		put_be16(headers + IPV4_TOTAL_LENGTH, (uint16_t)(IPV4_BYTES + udp_bytes));
		put_be16(headers + IPV4_ID, ipv4_id);
		put_be16(headers + IPV4_FLAGS, ipv4_flags);
	} else {
		put_be16(headers + IPV6_PAYLOAD_LENGTH, udp_bytes);
	}
	put_be16(headers + flow->header_bytes - ROCE_UDP_BYTES + UDP_LENGTH, udp_bytes);
}

uint32_t icrc_prefix(const struct icrc_flow *flow, uint16_t ipv4_id, uint16_t ipv4_flags,
	const uint8_t *packet, size_t length, size_t prefix_bytes)
{
	uint8_t head[IPV6_HEADER_BYTES + BTH_BYTES];

	assert(prefix_bytes > BTH_RESV8A && prefix_bytes <= BTH_BYTES);
	assert(length >= BTH_BYTES && length <= ICRC_PACKET_BYTES_MAX);
	memcpy(head, flow->header, sizeof(flow->header));
	headers_finish(flow, ipv4_id, ipv4_flags, length, head);
	memcpy(head + flow->header_bytes, packet, prefix_bytes);
	head[flow->header_bytes + BTH_RESV8A] = 0xff;
	return crc32_update(CRC_OF_ONES, head, flow->header_bytes + prefix_bytes);
}

uint32_t icrc_compute(const struct icrc_flow *flow, uint16_t ipv4_id, uint16_t ipv4_flags,
	const uint8_t *packet, size_t length)
{
	uint32_t crc = icrc_prefix(flow, ipv4_id, ipv4_flags, packet, length, BTH_BYTES);

	return crc32_update(crc, packet + BTH_BYTES, length - BTH_BYTES);
}

/* --- the fast path --- */

/* The change of the CRC when the bytes at `bytes` replace zeros. */
static uint32_t change_of(const uint8_t *bytes, size_t count)
{
	static const uint8_t zeros[IPV6_HEADER_BYTES];

	assert(count <= sizeof(zeros));
	return crc32_update(0, bytes, count) ^ crc32_update(0, zeros, count);
}

static uint32_t length_change(size_t length, bool is_ipv4)
{
	const uint16_t udp_bytes = (uint16_t)(ROCE_UDP_BYTES + length + ROCE_ICRC_BYTES);
	const size_t header_bytes = is_ipv4 ? IPV4_HEADER_BYTES : IPV6_HEADER_BYTES;
	uint8_t header[IPV6_HEADER_BYTES] = {0};
	const uint8_t ones = 0xff;

	if (is_ipv4)
		put_be16(header + IPV4_TOTAL_LENGTH, (uint16_t)(IPV4_BYTES + udp_bytes));
	else
		put_be16(header + IPV6_PAYLOAD_LENGTH, udp_bytes);
	put_be16(header + header_bytes - ROCE_UDP_BYTES + UDP_LENGTH, udp_bytes);
	return crc32_multiply(change_of(header, header_bytes), crc32_shift(length)) ^
		crc32_multiply(change_of(&ones, 1), crc32_shift(length - BTH_RESV8A - 1));
}

/* The entry of `length`. If the cache does not have that entry, it is computed now. */
static struct icrc_length *length_find(struct icrc_lengths *lengths, size_t length)
{
	struct icrc_length *entry = &lengths->met[length / 4 % ICRC_LENGTHS_COUNT];

	if (entry->length != length)
		*entry = (struct icrc_length){
			.length = (uint32_t)length,
			.change_ipv4 = length_change(length, true),
			.change_ipv6 = length_change(length, false),
		};
	return entry;
}

/*
 * The change of the CRC at the end of the headers when `id` replaces an IPv4 identification of
 * zero.
 */
static uint32_t id_change(uint32_t id)
{
	/*
	 * The change by each bit of the identification. Behind the identification, the IPv4 and UDP
	 * headers have 22 more bytes.
	 */
	static const uint32_t bits[16] = {
		0x9b73ead4,
		0xed96d3e9,
		0x005ca193,
		0x00b94326,
		0x0172864c,
		0x02e50c98,
		0x05ca1930,
		0x0b943260,
		0x81256527,
		0xd93bcc0f,
		0x69069e5f,
		0xd20d3cbe,
		0x7f6b7f3d,
		0xfed6fe7a,
		0x26dcfab5,
		0x4db9f56a,
	};
	uint32_t change = 0;

	for (; id; id &= id - 1)
		change ^= bits[__builtin_ctz(id)];
	return change;
}

/*
 * The ICRC of a packet that is sent with DF. The packet's last `borrowed_bytes` bytes are at
 * `borrowed`; NULL: none.
 */
static uint32_t compute_quickly(const struct icrc_flow *flow, const struct icrc_length *entry,
	uint16_t ipv4_id, const uint8_t *packet, const uint8_t *borrowed, size_t borrowed_bytes)
{
	bool is_ipv4 = icrc_flow_is_ipv4(flow);
	uint32_t crc = is_ipv4 ? flow->crc ^ id_change(ipv4_id) : flow->crc;

	crc = crc32_update(crc, packet, entry->length - borrowed_bytes);
	if (borrowed)
		crc = crc32_update(crc, borrowed, borrowed_bytes);
	/* The masked byte of the BTH (FECN, BECN) is zero except in congestion notifications. */
	if (packet[BTH_RESV8A]) {
		crc ^= crc32_multiply(change_of(packet + BTH_RESV8A, 1),
			crc32_shift(entry->length - BTH_RESV8A - 1));
	}
	return crc ^ (is_ipv4 ? entry->change_ipv4 : entry->change_ipv6);
}

void icrc_seal(const struct icrc_flow *flow, uint16_t ipv4_id, uint8_t *packet, size_t length)
{
	put_le32(packet + length, icrc_compute(flow, ipv4_id, ICRC_IPV4_DF, packet, length));
}

void icrc_seal_borrowed(const struct icrc_flow *flow, struct icrc_lengths *lengths,
	uint16_t ipv4_id, uint8_t *packet, size_t length, const uint8_t *borrowed,
	size_t borrowed_bytes)
{
	assert(length >= BTH_BYTES && length <= ICRC_PACKET_BYTES_MAX);
	put_le32(packet + length - borrowed_bytes,
		compute_quickly(flow, length_find(lengths, length), ipv4_id, packet, borrowed,
			borrowed_bytes));
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

/*
 * The factor that moves the error in the CRC back to the identification, for IPv4 packets of the
 * entry's length.
 */
static uint32_t shift_factor(struct icrc_length *entry)
{
	if (!entry->factor)
		entry->factor = crc32_unshift(IPV4_HEADER_BYTES - IPV4_ID + entry->length);
	return entry->factor;
}

bool icrc_verify_any_id(const struct icrc_flow *flow, struct icrc_lengths *lengths, uint16_t hint,
	const uint8_t *packet, size_t length, uint16_t *ret_id)
{
	struct icrc_length *entry;
	uint8_t word[4];
	uint32_t error;
	uint16_t flags;

	if (!length_is_possible(length))
		return false;
	entry = length_find(lengths, length);
	error = compute_quickly(flow, entry, hint, packet, NULL, 0) ^ get_le32(packet + length);
	if (error == 0) {
		*ret_id = icrc_flow_is_ipv4(flow) ? hint : 0;
		return true;
	}
	if (!icrc_flow_is_ipv4(flow))
		return false;

	/* The first byte sent has the highest powers of x, which are the lowest bits of the CRC. */
	put_le32(word, crc32_multiply(error, shift_factor(entry)));
	flags = get_be16(word + 2) ^ ICRC_IPV4_DF;
	if (flags != ICRC_IPV4_DF && flags != 0)
		return false;
	*ret_id = get_be16(word) ^ hint;
	return true;
}
