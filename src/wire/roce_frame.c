/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/roce_frame.h"

#include "wire/bytes.h"

/* Decode the IP header. Returns its length, or 0 for a header that urnic does not accept. */
static size_t ip_decode(
	struct ip_header *header, uint16_t ether_type, const uint8_t *ip, size_t count)
{
	size_t bytes = ether_type == ETHER_TYPE_IPV4 ? IPV4_BYTES : IPV6_BYTES;

	if (count < bytes)
		return 0;
	switch (ether_type) {
	case ETHER_TYPE_IPV4:
		if (!ipv4_header_decode(header, ip) || (get_be16(ip + IPV4_FLAGS) & IPV4_FRAGMENT))
			return 0;
		break;
	case ETHER_TYPE_IPV6:
		/*
		 * Refuse an IPv6 header with IPv4-mapped addresses, because later code would treat
		 * the packet as IPv4.
		 */
		if (!ipv6_header_decode(header, ip) || gid_is_ipv4(&header->sgid) ||
			gid_is_ipv4(&header->dgid))
			return 0;
		break;
	default:
		return 0;
	}
	return header->next_header == IP_PROTOCOL_UDP && header->payload_bytes <= count - bytes
		? bytes
		: 0;
}

bool roce_frame_decode(struct roce_frame *ret_frame, const uint8_t *bytes, size_t count)
{
	const uint8_t *ip = bytes + ROCE_ETHERNET_BYTES;
	struct ip_header header;
	const uint8_t *udp;
	size_t ip_bytes;
	uint32_t udp_bytes;

	if (count < ROCE_ETHERNET_BYTES)
		return false;
	ip_bytes = ip_decode(
		&header, get_be16(bytes + ROCE_MACS_BYTES), ip, count - ROCE_ETHERNET_BYTES);
	udp = ip + ip_bytes;
	if (!ip_bytes || header.payload_bytes < ROCE_UDP_BYTES ||
		get_be16(udp + 2) != ROCE_UDP_PORT)
		return false;
	udp_bytes = get_be16(udp + 4);
	if (udp_bytes < ROCE_UDP_BYTES || udp_bytes > header.payload_bytes)
		return false;
	*ret_frame = (struct roce_frame){
		.sgid = header.sgid,
		.dgid = header.dgid,
		.source_port = get_be16(udp),
		.tos = header.traffic_class,
		.hop_limit = header.hop_limit,
		.data = udp + ROCE_UDP_BYTES,
		.data_bytes = udp_bytes - ROCE_UDP_BYTES,
	};
	return true;
}

/* The sum of the source and destination addresses, which are part of the UDP pseudo-header. */
static uint32_t addresses_sum(const uint8_t *ip, bool is_ipv4)
{
	return is_ipv4 ? ip_sum_add(0, ip + IPV4_ADDRESSES, 8)
		       : ip_sum_add(0, ip + IPV6_ADDRESSES, 32);
}

void roce_frame_headers_init(struct roce_frame_headers *headers, const struct gid *source,
	const struct gid *dest, uint16_t source_port, uint8_t tos, uint8_t hop_limit,
	uint32_t flow_label)
{
	const struct ip_header header = {
		.traffic_class = tos,
		.flow_label = flow_label,
		.next_header = IP_PROTOCOL_UDP,
		.hop_limit = hop_limit,
		.sgid = *source,
		.dgid = *dest,
	};
	bool is_ipv4 = gid_is_ipv4(source);
	uint8_t *ip = headers->bytes + ROCE_ETHERNET_BYTES;
	uint8_t *udp = ip + ip_header_bytes(source);

	memset(headers, 0, sizeof(*headers));
	put_be16(headers->bytes + ROCE_MACS_BYTES, is_ipv4 ? ETHER_TYPE_IPV4 : ETHER_TYPE_IPV6);
	ip_header_encode(&header, ip);
	headers->udp_sum = IP_PROTOCOL_UDP + addresses_sum(ip, is_ipv4);
	if (is_ipv4) {
		put_be16(ip + IPV4_TOTAL_LENGTH, 0);
		put_be16(ip + IPV4_CHECKSUM, 0);
		headers->ip_sum = ip_sum_add(0, ip, IPV4_BYTES);
	}
	put_be16(udp, source_port);
	put_be16(udp + 2, ROCE_UDP_PORT);
	headers->count = (uint8_t)(udp + ROCE_UDP_BYTES - headers->bytes);
}

void roce_frame_headers_write(const struct roce_frame_headers *headers,
	const uint8_t macs[ROCE_MACS_BYTES], uint32_t data_bytes, uint8_t *to)
{
	uint32_t udp_bytes = data_bytes + ROCE_UDP_BYTES;
	uint8_t *ip = to + ROCE_ETHERNET_BYTES;
	uint8_t *udp = to + headers->count - ROCE_UDP_BYTES;

	memcpy(to, headers->bytes, headers->count);
	memcpy(to, macs, ROCE_MACS_BYTES);
	if (headers->ip_sum) {
		put_be16(ip + IPV4_TOTAL_LENGTH, (uint16_t)(udp_bytes + IPV4_BYTES));
		put_be16(ip + IPV4_CHECKSUM,
			(uint16_t)~ip_sum_fold(headers->ip_sum + udp_bytes + IPV4_BYTES));
	} else {
		put_be16(ip + IPV6_PAYLOAD_LENGTH, (uint16_t)udp_bytes);
	}
	put_be16(udp + 4, (uint16_t)udp_bytes);
	put_be16(udp + ROCE_FRAME_UDP_CHECKSUM, ip_sum_fold(headers->udp_sum + udp_bytes));
}

void roce_frame_complete(const struct roce_frame_headers *headers, uint16_t ipv4_id,
	uint32_t data_bytes, uint8_t *frame)
{
	uint32_t udp_bytes = data_bytes + ROCE_UDP_BYTES;
	uint8_t *ip = frame + ROCE_ETHERNET_BYTES;
	uint8_t *udp = frame + headers->count - ROCE_UDP_BYTES;
	uint16_t sum;

	if (headers->ip_sum) {
		put_be16(ip + IPV4_ID, ipv4_id);
		put_be16(ip + IPV4_CHECKSUM,
			(uint16_t)~ip_sum_fold(headers->ip_sum + udp_bytes + IPV4_BYTES + ipv4_id));
	}
	/*
	 * The checksum field holds the sum of the pseudo-header. A checksum of 0 would mean "no
	 * checksum".
	 */
	sum = (uint16_t)~ip_sum_fold(ip_sum_add(0, udp, udp_bytes));
	put_be16(udp + ROCE_FRAME_UDP_CHECKSUM, sum ? sum : UINT16_MAX);
}
