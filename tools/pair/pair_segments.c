/* SPDX-License-Identifier: BSD-2-Clause */
#include "pair/pair_segments.h"

#include <string.h>

#include "base/arith.h"
#include "wire/bytes.h"
#include "wire/roce_frame.h"

bool pair_segments_begin(struct pair_segments *segments, const uint8_t *frame, uint32_t bytes,
	uint32_t segment_bytes)
{
	struct roce_frame decoded;

	if (!segment_bytes || bytes > PAIR_SEGMENT_BYTES_MAX ||
		!roce_frame_decode(&decoded, frame, bytes))
		return false;
	*segments = (struct pair_segments){
		.frame = frame,
		.bytes = (uint32_t)(decoded.data - frame) + decoded.data_bytes,
		.header_bytes = (uint32_t)(decoded.data - frame),
		.segment_bytes = segment_bytes,
	};
	return true;
}

/* The sum of the UDP pseudo-header's addresses and protocol. */
static uint32_t pseudo_sum(const uint8_t *ip, bool is_ipv4)
{
	return ip_sum_add(IP_PROTOCOL_UDP, ip + (is_ipv4 ? IPV4_ADDRESSES : IPV6_ADDRESSES),
		is_ipv4 ? 8 : 32);
}

/* Write lengths, identification and checksums of a packet with `data_bytes` behind its headers. */
static void headers_finish(
	const struct pair_segments *segments, uint8_t *packet, uint32_t data_bytes)
{
	uint8_t *ip = packet + ROCE_ETHERNET_BYTES;
	uint8_t *udp = packet + segments->header_bytes - ROCE_UDP_BYTES;
	uint8_t *checksum = udp + ROCE_FRAME_UDP_CHECKSUM;
	uint32_t udp_bytes = ROCE_UDP_BYTES + data_bytes;
	bool is_ipv4 = udp - ip == IPV4_BYTES;
	uint16_t sum;

	if (is_ipv4) {
		put_be16(ip + IPV4_TOTAL_LENGTH, (uint16_t)(IPV4_BYTES + udp_bytes));
		put_be16(ip + IPV4_ID, (uint16_t)(get_be16(ip + IPV4_ID) + segments->count));
		put_be16(ip + IPV4_CHECKSUM, 0);
		put_be16(ip + IPV4_CHECKSUM, (uint16_t)~ip_sum_fold(ip_sum_add(0, ip, IPV4_BYTES)));
	} else {
		put_be16(ip + IPV6_PAYLOAD_LENGTH, (uint16_t)udp_bytes);
	}
	put_be16(udp + 4, (uint16_t)udp_bytes);
	put_be16(checksum, 0);
	sum = (uint16_t)~ip_sum_fold(
		ip_sum_add(pseudo_sum(ip, is_ipv4) + udp_bytes, udp, udp_bytes));
	put_be16(checksum, sum ? sum : 0xffff);
}

uint32_t pair_segments_next(struct pair_segments *segments, uint8_t to[PAIR_SEGMENT_BYTES_MAX])
{
	uint32_t start = segments->header_bytes + segments->done;
	uint32_t count = min_u32(segments->segment_bytes, segments->bytes - start);

	if (!count)
		return 0;
	memcpy(to, segments->frame, segments->header_bytes);
	memcpy(to + segments->header_bytes, segments->frame + start, count);
	headers_finish(segments, to, count);
	segments->done += count;
	segments->count++;
	return segments->header_bytes + count;
}
