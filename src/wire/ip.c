/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/ip.h"

#include <assert.h>
#include <string.h>

#include "wire/bytes.h"

/* A word of 32 bits has the same sum as its two halves, because 2^16 is 1 modulo 2^16 - 1. */
uint32_t ip_sum_add(uint32_t sum, const uint8_t *bytes, size_t count)
{
	uint64_t wide = sum;

	for (; count >= sizeof(uint32_t); count -= sizeof(uint32_t), bytes += sizeof(uint32_t))
		wide += get_be32(bytes);
	if (count >= sizeof(uint16_t))
		wide += get_be16(bytes);
	if (count % 2)
		wide += (uint32_t)bytes[count - 1] << 8;
	wide = (wide >> 32) + (uint32_t)wide;
	return (uint32_t)(wide >> 16) + (uint16_t)wide;
}

uint16_t ip_sum_fold(uint32_t sum)
{
	sum = (sum >> 16) + (sum & 0xffff);
	return (uint16_t)(sum + (sum >> 16));
}

static void ipv4_encode(const struct ip_header *header, uint8_t to[IPV4_BYTES])
{
	to[0] = IPV4_VERSION_AND_WORDS;
	to[1] = header->traffic_class;
	put_be16(to + IPV4_TOTAL_LENGTH, (uint16_t)(IPV4_BYTES + header->payload_bytes));
	put_be16(to + IPV4_ID, 0);
	put_be16(to + IPV4_FLAGS, IPV4_DF);
	to[IPV4_TTL] = header->hop_limit;
	to[IPV4_PROTOCOL] = header->next_header;
	put_be16(to + IPV4_CHECKSUM, 0);
	memcpy(to + IPV4_ADDRESSES, header->sgid.raw + 12, 4);
	memcpy(to + IPV4_ADDRESSES + 4, header->dgid.raw + 12, 4);
	put_be16(to + IPV4_CHECKSUM, (uint16_t)~ip_sum_fold(ip_sum_add(0, to, IPV4_BYTES)));
}

static void ipv6_encode(const struct ip_header *header, uint8_t to[IPV6_BYTES])
{
	put_be32(to,
		(uint32_t)IPV6_VERSION << 28 | (uint32_t)header->traffic_class << 20 |
			(header->flow_label & IPV6_FLOW_LABEL_MASK));
	put_be16(to + IPV6_PAYLOAD_LENGTH, header->payload_bytes);
	to[IPV6_NEXT_HEADER] = header->next_header;
	to[IPV6_HOP_LIMIT] = header->hop_limit;
	memcpy(to + IPV6_ADDRESSES, header->sgid.raw, 16);
	memcpy(to + IPV6_ADDRESSES + 16, header->dgid.raw, 16);
}

void ip_header_encode(const struct ip_header *header, uint8_t *to)
{
	assert(gid_is_ipv4(&header->sgid) == gid_is_ipv4(&header->dgid));
	if (gid_is_ipv4(&header->sgid))
		ipv4_encode(header, to);
	else
		ipv6_encode(header, to);
}

bool ipv4_header_decode(struct ip_header *header, const uint8_t from[IPV4_BYTES])
{
	uint16_t total_bytes = get_be16(from + IPV4_TOTAL_LENGTH);

	if (from[0] != IPV4_VERSION_AND_WORDS || total_bytes < IPV4_BYTES)
		return false;
	*header = (struct ip_header){
		.traffic_class = from[1],
		.payload_bytes = (uint16_t)(total_bytes - IPV4_BYTES),
		.next_header = from[IPV4_PROTOCOL],
		.hop_limit = from[IPV4_TTL],
		.sgid = gid_from_ipv4(from + IPV4_ADDRESSES),
		.dgid = gid_from_ipv4(from + IPV4_ADDRESSES + 4),
	};
	return true;
}

bool ipv6_header_decode(struct ip_header *header, const uint8_t from[IPV6_BYTES])
{
	uint32_t first_word = get_be32(from);

	if (first_word >> 28 != IPV6_VERSION)
		return false;
	*header = (struct ip_header){
		.traffic_class = (uint8_t)(first_word >> 20),
		.flow_label = first_word & IPV6_FLOW_LABEL_MASK,
		.payload_bytes = get_be16(from + IPV6_PAYLOAD_LENGTH),
		.next_header = from[IPV6_NEXT_HEADER],
		.hop_limit = from[IPV6_HOP_LIMIT],
	};
	memcpy(header->sgid.raw, from + IPV6_ADDRESSES, 16);
	memcpy(header->dgid.raw, from + IPV6_ADDRESSES + 16, 16);
	return true;
}
