/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/roce_frame.h"

#include <assert.h>

#include "wire/bytes.h"

enum {
	TYPE_IPV4 = 0x0800,
	TYPE_IPV6 = 0x86dd,
	PROTOCOL_UDP = 17,

	IPV4_VERSION_AND_LENGTH = 0x45, /* no options */
	IPV4_DF = 0x4000,
	IPV4_FRAGMENT = 0x3fff, /* more fragments, offset */
};

/* The addresses and the rest of an IPv4 header. Returns the bytes that follow it, or -1. */
static int64_t decode_ipv4(struct roce_frame *frame, const uint8_t *ip, size_t count)
{
	uint32_t total_bytes;

	if (count < ROCE_IPV4_BYTES || ip[0] != IPV4_VERSION_AND_LENGTH)
		return -1;
	total_bytes = get_be16(ip + 2);
	if (total_bytes < ROCE_IPV4_BYTES || total_bytes > count ||
		(get_be16(ip + 6) & IPV4_FRAGMENT) || ip[9] != PROTOCOL_UDP)
		return -1;
	frame->tos = ip[1];
	frame->hop_limit = ip[8];
	frame->sgid = gid_from_ipv4(ip + 12);
	frame->dgid = gid_from_ipv4(ip + 16);
	return total_bytes - ROCE_IPV4_BYTES;
}

static int64_t decode_ipv6(struct roce_frame *frame, const uint8_t *ip, size_t count)
{
	uint32_t payload_bytes;

	if (count < ROCE_IPV6_BYTES || ip[0] >> 4 != 6)
		return -1;
	payload_bytes = get_be16(ip + 4);
	if (payload_bytes > count - ROCE_IPV6_BYTES || ip[6] != PROTOCOL_UDP)
		return -1;
	frame->tos = (uint8_t)(get_be16(ip) >> 4);
	frame->hop_limit = ip[7];
	memcpy(frame->sgid.raw, ip + 8, sizeof(frame->sgid.raw));
	memcpy(frame->dgid.raw, ip + 24, sizeof(frame->dgid.raw));
	/* An IPv4 address has no place in an IPv6 header, and would be taken for one without. */
	if (gid_is_ipv4(&frame->sgid) || gid_is_ipv4(&frame->dgid))
		return -1;
	return payload_bytes;
}

bool roce_frame_decode(struct roce_frame *ret_frame, const uint8_t *bytes, size_t count)
{
	struct roce_frame frame = {.source_port = 0};
	const uint8_t *ip = bytes + ROCE_ETHERNET_BYTES;
	const uint8_t *udp;
	int64_t left;

	if (count < ROCE_ETHERNET_BYTES)
		return false;
	switch (get_be16(bytes + ROCE_MACS_BYTES)) {
	case TYPE_IPV4:
		left = decode_ipv4(&frame, ip, count - ROCE_ETHERNET_BYTES);
		udp = ip + ROCE_IPV4_BYTES;
		break;
	case TYPE_IPV6:
		left = decode_ipv6(&frame, ip, count - ROCE_ETHERNET_BYTES);
		udp = ip + ROCE_IPV6_BYTES;
		break;
	default:
		return false;
	}
	if (left < ROCE_UDP_BYTES || get_be16(udp + 2) != ROCE_UDP_PORT)
		return false;
	uint32_t udp_bytes = get_be16(udp + 4);
	if (udp_bytes < ROCE_UDP_BYTES || udp_bytes > left)
		return false;
	frame.source_port = get_be16(udp);
	frame.data = udp + ROCE_UDP_BYTES;
	frame.data_bytes = udp_bytes - ROCE_UDP_BYTES;
	*ret_frame = frame;
	return true;
}

/* RFC 1071: a sum of 16-bit words, to be folded when it is complete. */
static uint32_t sum_add(uint32_t sum, const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i += 2)
		sum += get_be16(bytes + i);
	return sum;
}

static uint16_t sum_fold(uint32_t sum)
{
	sum = (sum >> 16) + (sum & 0xffff);
	return (uint16_t)(sum + (sum >> 16));
}

static uint32_t ipv4_init(uint8_t *ip, const struct gid *source, const struct gid *dest,
	uint8_t tos, uint8_t hop_limit)
{
	ip[0] = IPV4_VERSION_AND_LENGTH;
	ip[1] = tos;
	put_be16(ip + 6, IPV4_DF);
	ip[8] = hop_limit;
	ip[9] = PROTOCOL_UDP;
	memcpy(ip + 12, source->raw + 12, 4);
	memcpy(ip + 16, dest->raw + 12, 4);
	return sum_add(0, ip + 12, 8);
}

static uint32_t ipv6_init(uint8_t *ip, const struct gid *source, const struct gid *dest,
	uint8_t tos, uint8_t hop_limit, uint32_t flow_label)
{
	put_be32(ip, 6u << 28 | (uint32_t)tos << 20 | (flow_label & 0xfffff));
	ip[6] = PROTOCOL_UDP;
	ip[7] = hop_limit;
	memcpy(ip + 8, source->raw, 16);
	memcpy(ip + 24, dest->raw, 16);
	return sum_add(0, ip + 8, 32);
}

void roce_frame_headers_init(struct roce_frame_headers *headers, const struct gid *source,
	const struct gid *dest, uint16_t source_port, uint8_t tos, uint8_t hop_limit,
	uint32_t flow_label)
{
	bool is_ipv4 = gid_is_ipv4(source);
	uint8_t *ip = headers->bytes + ROCE_ETHERNET_BYTES;
	uint8_t *udp = ip + (is_ipv4 ? ROCE_IPV4_BYTES : ROCE_IPV6_BYTES);

	assert(is_ipv4 == gid_is_ipv4(dest));
	memset(headers, 0, sizeof(*headers));
	put_be16(headers->bytes + ROCE_MACS_BYTES, is_ipv4 ? TYPE_IPV4 : TYPE_IPV6);
	headers->udp_sum = PROTOCOL_UDP +
		(is_ipv4 ? ipv4_init(ip, source, dest, tos, hop_limit)
			 : ipv6_init(ip, source, dest, tos, hop_limit, flow_label));
	headers->ip_sum = is_ipv4 ? sum_add(0, ip, ROCE_IPV4_BYTES) : 0;
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
		put_be16(ip + 2, (uint16_t)(udp_bytes + ROCE_IPV4_BYTES));
		put_be16(to + ROCE_FRAME_IP_CHECKSUM,
			(uint16_t)~sum_fold(headers->ip_sum + udp_bytes + ROCE_IPV4_BYTES));
	} else {
		put_be16(ip + 4, (uint16_t)udp_bytes);
	}
	put_be16(udp + 4, (uint16_t)udp_bytes);
	put_be16(udp + ROCE_FRAME_UDP_CHECKSUM, sum_fold(headers->udp_sum + udp_bytes));
}
