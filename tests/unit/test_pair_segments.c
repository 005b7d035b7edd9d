/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arith.h"
#include "pair/pair_segments.h"
#include "wire/bth.h"
#include "wire/bytes.h"
#include "wire/icrc.h"
#include "wire/roce_frame.h"

enum { PACKETS = 3, PACKET_BYTES = 40, LAST_BYTES = 24, PORT = 0xc123 };

static const uint8_t macs[ROCE_MACS_BYTES] = {2, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2};
static struct icrc_flow flow;
static uint8_t frame[512];

/*
 * Make a super-packet of three packets, the last of which is shorter, as the port makes it. Returns
 * its length.
 */
static uint32_t frame_make(bool is_ipv4)
{
	const uint32_t data_bytes =
		2 * PACKET_BYTES + LAST_BYTES + PACKETS * (uint32_t)ROCE_ICRC_BYTES;
	const struct gid here = is_ipv4 ? gid_from_ipv4((const uint8_t[]){10, 99, 0, 1})
					: (struct gid){{0xfd, [15] = 1}};
	const struct gid there = is_ipv4 ? gid_from_ipv4((const uint8_t[]){10, 99, 0, 2})
					 : (struct gid){{0xfd, [15] = 2}};
	struct roce_frame_headers headers;
	uint8_t *to;

	roce_frame_headers_init(&headers, &here, &there, PORT, 2, 64, 0);
	roce_frame_headers_write(&headers, macs, data_bytes, frame);
	icrc_flow_init(&flow, here.raw, there.raw, PORT, ROCE_UDP_PORT);
	to = frame + headers.count;
	for (uint32_t i = 0; i < PACKETS; i++) {
		uint32_t bytes = i == PACKETS - 1 ? LAST_BYTES : PACKET_BYTES;

		memset(to, (int)(i + 1), bytes);
		icrc_seal(&flow, (uint16_t)i, to, bytes);
		to += bytes + ROCE_ICRC_BYTES;
	}
	return headers.count + data_bytes;
}

/* The sum of a UDP datagram and its pseudo-header, which is all ones. */
static uint16_t udp_sum(const uint8_t *ip, bool is_ipv4)
{
	uint32_t header_bytes = is_ipv4 ? IPV4_BYTES : IPV6_BYTES;
	uint16_t udp_bytes = get_be16(ip + header_bytes + 4);
	uint32_t sum = ip_sum_add(IP_PROTOCOL_UDP + udp_bytes,
		ip + (is_ipv4 ? IPV4_ADDRESSES : IPV6_ADDRESSES), is_ipv4 ? 8 : 32);

	return ip_sum_fold(ip_sum_add(sum, ip + header_bytes, udp_bytes));
}

static void super_packet_is_cut_into_its_packets(void **state)
{
	uint8_t packet[PAIR_SEGMENT_BYTES_MAX];

	(void)state;
	for (uint32_t is_ipv4 = 0; is_ipv4 < 2; is_ipv4++) {
		uint32_t bytes = frame_make(is_ipv4), count;
		struct pair_segments segments;
		struct roce_frame decoded;

		assert_true(pair_segments_begin(
			&segments, frame, bytes, PACKET_BYTES + ROCE_ICRC_BYTES));
		for (uint32_t i = 0; i < PACKETS; i++) {
			uint32_t length = i == PACKETS - 1 ? LAST_BYTES : PACKET_BYTES;

			count = pair_segments_next(&segments, packet);
			assert_true(roce_frame_decode(&decoded, packet, count));
			assert_memory_equal(packet, macs, sizeof(macs));
			assert_int_equal(decoded.source_port, PORT);
			assert_int_equal(decoded.data_bytes, length + ROCE_ICRC_BYTES);
			assert_ptr_equal(decoded.data + decoded.data_bytes, packet + count);
			assert_int_equal(decoded.data[0], i + 1);
			assert_true(icrc_verify(
				&flow, (uint16_t)i, ICRC_IPV4_DF, decoded.data, length));
			assert_int_equal(udp_sum(packet + ROCE_ETHERNET_BYTES, is_ipv4), 0xffff);
			if (!is_ipv4)
				continue;
			assert_int_equal(get_be16(packet + ROCE_ETHERNET_BYTES + IPV4_ID), i);
			assert_int_equal(ip_sum_fold(ip_sum_add(
						 0, packet + ROCE_ETHERNET_BYTES, IPV4_BYTES)),
				0xffff);
		}
		assert_int_equal(pair_segments_next(&segments, packet), 0);
	}
}

static void frame_of_another_kind_is_not_cut(void **state)
{
	uint32_t bytes = frame_make(true);
	struct pair_segments segments;

	(void)state;
	assert_false(pair_segments_begin(&segments, frame, bytes, 0));
	assert_false(pair_segments_begin(&segments, frame, bytes - 1, PACKET_BYTES));
	assert_false(pair_segments_begin(&segments, frame, 20, PACKET_BYTES));
	frame[ROCE_ETHERNET_BYTES + IPV4_PROTOCOL] = IP_PROTOCOL_TCP;
	assert_false(pair_segments_begin(&segments, frame, bytes, PACKET_BYTES));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(super_packet_is_cut_into_its_packets),
		cmocka_unit_test(frame_of_another_kind_is_not_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
