/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/bth.h"
#include "wire/bytes.h"
#include "wire/captured.h"
#include "wire/roce_frame.h"

enum { BYTES = 120 };

static struct captured_frame frame;
static uint8_t packet[BYTES + ROCE_ICRC_BYTES];

static struct captured between(bool is_ipv4)
{
	const struct gid here = {{0x20, 0x01, 0x0d, 0xb8, [15] = 1}};
	const struct gid there = {{0x20, 0x01, 0x0d, 0xb8, [15] = 2}};

	for (uint32_t i = 0; i < BYTES; i++)
		packet[i] = (uint8_t)(3 * i);
	return (struct captured){
		.source = is_ipv4 ? gid_from_ipv4((const uint8_t[]){192, 0, 2, 1}) : here,
		.destination = is_ipv4 ? gid_from_ipv4((const uint8_t[]){192, 0, 2, 2}) : there,
		.packet_bytes = BYTES,
		.captured_bytes = BYTES,
		.source_port = 0xc001,
		.traffic_class = 0x22,
		.hop_limit = 9,
		.flow_label = 0x54321,
	};
}

static struct icrc_flow flow_of(const struct captured *captured)
{
	struct icrc_flow flow;

	icrc_flow_init(&flow, captured->source.raw, captured->destination.raw,
		captured->source_port, ROCE_UDP_PORT);
	return flow;
}

/* RFC 1071, one word after the other. */
static uint32_t sum(const uint8_t *bytes, size_t count, uint32_t before)
{
	for (size_t i = 0; i < count; i += 2)
		before += get_be16(bytes + i);
	return before % 0xffff;
}

static uint32_t header_bytes(const struct captured *captured)
{
	return (gid_is_ipv4(&captured->source) ? IPV4_BYTES : IPV6_BYTES) + ROCE_UDP_BYTES;
}

/*
 * Check a captured frame as a reader does: its headers have the captured values, and its checksums
 * and ICRC are right.
 */
static void assert_frame_is_of(const struct captured *captured, uint16_t id, uint16_t flags)
{
	bool is_ipv4 = gid_is_ipv4(&captured->source);
	const struct icrc_flow flow = flow_of(captured);
	uint8_t with_macs[ROCE_ETHERNET_BYTES + CAPTURED_FRAME_BYTES_MAX] = {0};
	const uint8_t *udp = frame.bytes + header_bytes(captured) - ROCE_UDP_BYTES;
	struct roce_frame decoded;
	uint32_t udp_bytes = frame.count - header_bytes(captured) + ROCE_UDP_BYTES;

	put_be16(with_macs + ROCE_MACS_BYTES, is_ipv4 ? 0x0800 : 0x86dd);
	memcpy(with_macs + ROCE_ETHERNET_BYTES, frame.bytes, frame.count);
	assert_true(roce_frame_decode(&decoded, with_macs, ROCE_ETHERNET_BYTES + frame.count));
	assert_true(gid_is_equal(&decoded.sgid, &captured->source));
	assert_true(gid_is_equal(&decoded.dgid, &captured->destination));
	assert_int_equal(decoded.source_port, captured->source_port);
	assert_int_equal(decoded.tos, captured->traffic_class);
	assert_int_equal(decoded.hop_limit, captured->hop_limit);
	assert_int_equal(decoded.data_bytes, BYTES + ROCE_ICRC_BYTES);
	assert_memory_equal(decoded.data, packet, BYTES);
	assert_true(icrc_verify(&flow, id, flags, decoded.data, BYTES));
	assert_int_equal(frame.count, frame.whole);
	if (is_ipv4) {
		assert_int_equal(get_be16(frame.bytes + 4), id);
		assert_int_equal(get_be16(frame.bytes + 6), flags);
		assert_int_equal(sum(frame.bytes, IPV4_BYTES, 0), 0);
	}
	assert_int_equal(
		sum(udp, udp_bytes,
			sum(frame.bytes + (is_ipv4 ? 12 : 8), is_ipv4 ? 8 : 32, 17 + udp_bytes)),
		0);
}

static void what_never_was_on_a_wire_gets_an_icrc(void **state)
{
	(void)state;
	for (int is_ipv4 = 0; is_ipv4 < 2; is_ipv4++) {
		struct captured captured = between(is_ipv4);

		assert_true(captured_frame_make(&captured, packet, &frame));
		assert_frame_is_of(&captured, 0, ICRC_IPV4_DF);
	}
}

static void what_was_cut_off_says_how_long_it_was(void **state)
{
	struct captured captured = between(true);

	(void)state;
	captured.captured_bytes = 40;
	assert_true(captured_frame_make(&captured, packet, &frame));
	assert_int_equal(frame.count, header_bytes(&captured) + 40);
	assert_int_equal(frame.whole, header_bytes(&captured) + BYTES + ROCE_ICRC_BYTES);
	assert_memory_equal(frame.bytes + header_bytes(&captured), packet, 40);
}

static void what_makes_no_sense_is_refused(void **state)
{
	const struct captured good = between(true);
	struct captured bad[] = {good, good, good, good};

	(void)state;
	bad[0].packet_bytes = BTH_BYTES - 1;
	bad[1].packet_bytes = CAPTURED_BYTES_MAX + 1;
	bad[2].captured_bytes = BYTES + 1;
	bad[3].source.raw[10] = 0;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(captured_frame_make(&bad[i], packet, &frame));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_never_was_on_a_wire_gets_an_icrc),
		cmocka_unit_test(what_was_cut_off_says_how_long_it_was),
		cmocka_unit_test(what_makes_no_sense_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
