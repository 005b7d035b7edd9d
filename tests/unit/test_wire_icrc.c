/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc.h"
#include "support/crc_plain.h"
#include "support/pcap.h"
#include "wire/bytes.h"
#include "wire/icrc.h"

#define IPV4(a, b, c, d)                                                                 \
	{                                                                                \
		[10] = 0xff, [11] = 0xff, [12] = (a), [13] = (b), [14] = (c), [15] = (d) \
	}

static const uint8_t here_ipv4[16] = IPV4(192, 0, 2, 1);
static const uint8_t there_ipv4[16] = IPV4(192, 0, 2, 2);
static const uint8_t here_ipv6[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1};
static const uint8_t there_ipv6[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 2};

/* The naive twin: the masked packet written out in full, and the CRC one bit at a time. */
static uint32_t icrc_plain(
	const struct icrc_flow *flow, uint16_t id, const uint8_t *packet, size_t length)
{
	uint8_t *all = malloc(8 + sizeof(flow->header) + length);
	uint8_t *ip = all + 8;
	uint8_t *udp = ip + flow->header_bytes - 8;
	uint32_t icrc;

	assert_non_null(all);
	memset(all, 0xff, 8);
	memcpy(ip, flow->header, flow->header_bytes);
	if (icrc_flow_is_ipv4(flow)) {
		put_be16(ip + 2, (uint16_t)(20 + 8 + length + 4));
		put_be16(ip + 4, id);
	} else {
		put_be16(ip + 4, (uint16_t)(8 + length + 4));
	}
	put_be16(udp + 4, (uint16_t)(8 + length + 4));
	memcpy(udp + 8, packet, length);
	udp[8 + 4] = 0xff;
	icrc = crc32_plain(0, all, 8u + flow->header_bytes + length);
	free(all);
	return icrc;
}

/* From the test suite of scapy, which computes the ICRC by itself. */
static void icrc_of_the_scapy_vector_is_scapys(void **state)
{
	static const uint8_t address[16] = IPV4(192, 168, 0, 7);
	static const uint8_t packet[] = {0x24, 0x60, 0xff, 0xff, 0x00, 0x00, 0x00, 0xd3, 0x00, 0xcf,
		0x17, 0x10, 0x46, 0x30, 0x81, 0x8b, 0xe2, 0x89, 0x35, 0xd9, 0x0e, 0x9a, 0x95, 0x50,
		0x54, 0x01, 0xbe, 0x88, 0x5e, 0x50, 0x00, 0x00, 0x78, 0xf3, 0x53, 0xf3};
	struct icrc_flow flow;

	(void)state;
	icrc_flow_init(&flow, address, address, 49152, ROCE_UDP_PORT);
	assert_true(icrc_verify(&flow, 1144, ICRC_IPV4_DF, packet, sizeof(packet) - 4));
	assert_false(icrc_verify(&flow, 1144, 0, packet, sizeof(packet) - 4));
	assert_false(icrc_verify(&flow, 1145, ICRC_IPV4_DF, packet, sizeof(packet) - 4));
}

/* A CNP as a ConnectX-4 Lx sent it: source port 0, and an id of its own. */
static void icrc_of_an_adapters_cnp_verifies(void **state)
{
	static const uint8_t source[16] = IPV4(10, 0, 17, 1);
	static const uint8_t dest[16] = IPV4(10, 0, 18, 1);
	static const uint8_t packet[] = {
		0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18, [28] = 0x82, 0xfd, 0x00, 0x2a};
	static struct icrc_lengths lengths;
	struct icrc_flow flow;
	uint16_t id;

	(void)state;
	icrc_flow_init(&flow, source, dest, 0, ROCE_UDP_PORT);
	assert_true(icrc_verify(&flow, 0x718c, ICRC_IPV4_DF, packet, sizeof(packet) - 4));
	assert_true(icrc_verify_any_id(&flow, &lengths, 0, packet, sizeof(packet) - 4, &id));
	assert_int_equal(id, 0x718c);
}

static void icrc_of_every_captured_packet_verifies(void **state)
{
	static struct icrc_lengths lengths;
	int packets_ipv4 = 0;
	int packets_ipv6 = 0;

	(void)state;
	for (const char *const *name = pcap_roce_names; *name; name++) {
		struct pcap pcap;
		struct pcap_roce roce;

		pcap_load(&pcap, *name);
		while (pcap_next_roce(&pcap, &roce)) {
			uint16_t id = 0xffff;

			assert_true(icrc_verify(&roce.flow, roce.ipv4_id, roce.ipv4_flags,
				roce.packet, roce.length));
			assert_true(icrc_verify_any_id(
				&roce.flow, &lengths, 0, roce.packet, roce.length, &id));
			assert_int_equal(id, roce.ipv4_id);
			if (roce.is_ipv4)
				packets_ipv4++;
			else
				packets_ipv6++;
		}
		pcap_done(&pcap);
	}
	assert_true(packets_ipv4 > 100);
	assert_true(packets_ipv6 > 20);
}

static void random_fill(uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)random();
}

static void icrc_of_any_length_equals_the_plain_one(void **state)
{
	uint8_t packet[4200];
	struct icrc_flow flows[2];

	(void)state;
	srandom(4);
	icrc_flow_init(&flows[0], here_ipv4, there_ipv4, 0xc001, ROCE_UDP_PORT);
	icrc_flow_init(&flows[1], here_ipv6, there_ipv6, 0xc002, ROCE_UDP_PORT);
	random_fill(packet, sizeof(packet));
	for (size_t length = 12; length < sizeof(packet); length += length < 200 ? 1 : 97) {
		uint16_t id = (uint16_t)random();

		for (int i = 0; i < 2; i++)
			assert_int_equal(icrc_compute(&flows[i], id, ICRC_IPV4_DF, packet, length),
				icrc_plain(&flows[i], id, packet, length));
	}
}

/* With a memory of lengths, the payload here or elsewhere, the masked byte in use or not. */
static void icrc_of_a_length_met_before_equals_the_plain_one(void **state)
{
	static struct icrc_lengths lengths;
	uint8_t packet[4200 + 4], borrowed[4200];
	struct icrc_flow flows[2];

	(void)state;
	srandom(5);
	icrc_flow_init(&flows[0], here_ipv4, there_ipv4, 0xc001, ROCE_UDP_PORT);
	icrc_flow_init(&flows[1], here_ipv6, there_ipv6, 0xc002, ROCE_UDP_PORT);
	for (size_t i = 0; i < 4000; i++) {
		const struct icrc_flow *flow = &flows[i % 2];
		size_t length = 12 + (size_t)random() % (i % 3 ? 100 : 4189);
		size_t borrowed_bytes = i % 5 ? 0 : (length - 12) / 2;
		uint16_t id = (uint16_t)random(), found;
		uint32_t expected;

		random_fill(packet, length);
		if (i % 7)
			packet[4] = 0;
		expected = icrc_plain(flow, id, packet, length);
		memcpy(borrowed, packet + length - borrowed_bytes, borrowed_bytes);
		icrc_seal_borrowed(flow, &lengths, id, packet, length,
			borrowed_bytes ? borrowed : NULL, borrowed_bytes);
		assert_int_equal(get_le32(packet + length - borrowed_bytes), expected);
		memcpy(packet + length - borrowed_bytes, borrowed, borrowed_bytes);
		put_le32(packet + length, expected);
		assert_true(icrc_verify_any_id(flow, &lengths, id, packet, length, &found));
		assert_int_equal(found, flow == &flows[0] ? id : 0);
		packet[length - 1] ^= 1;
		assert_false(icrc_verify_any_id(flow, &lengths, id, packet, length, &found));
	}
}

static void icrc_seal_with_any_id_is_found_by_a_receiver_who_does_not_know_it(void **state)
{
	static struct icrc_lengths lengths;
	struct icrc_flow flow;
	uint8_t packet[64 + 4];
	uint16_t found;

	(void)state;
	srandom(5);
	random_fill(packet, sizeof(packet));
	icrc_flow_init(&flow, here_ipv4, there_ipv4, 0xc001, ROCE_UDP_PORT);
	for (uint32_t id = 0; id <= 0xffff; id++) {
		icrc_seal(&flow, (uint16_t)id, packet, 64);
		assert_true(icrc_verify_any_id(
			&flow, &lengths, (uint16_t)(id / 2), packet, 64, &found));
		assert_int_equal(found, id);
	}
}

static void icrc_of_a_sender_without_df_verifies(void **state)
{
	static struct icrc_lengths lengths;
	struct icrc_flow flow;
	uint8_t packet[100 + 4] = {0};
	uint16_t found;

	(void)state;
	icrc_flow_init(&flow, here_ipv4, there_ipv4, 0xc001, ROCE_UDP_PORT);
	put_le32(packet + 100, icrc_compute(&flow, 777, 0, packet, 100));
	assert_true(icrc_verify_any_id(&flow, &lengths, 5, packet, 100, &found));
	assert_int_equal(found, 777);
	/* More fragments: never a whole datagram. */
	put_le32(packet + 100, icrc_compute(&flow, 777, 0x2000, packet, 100));
	assert_false(icrc_verify_any_id(&flow, &lengths, 5, packet, 100, &found));
}

/*
 * With a known id every single-bit error is detected. With an unknown id an error passes if it
 * looks like the difference of two ids: for instance that of bit 1387 of a packet of that length.
 */
static void icrc_with_any_one_bit_flipped_is_refused_but_for_the_known_exceptions(void **state)
{
	enum { LENGTH = 256 };
	static struct icrc_lengths lengths;
	struct icrc_flow flows[2];
	uint8_t packet[LENGTH + 4];

	(void)state;
	srandom(6);
	random_fill(packet, sizeof(packet));
	icrc_flow_init(&flows[0], here_ipv4, there_ipv4, 0xc001, ROCE_UDP_PORT);
	icrc_flow_init(&flows[1], here_ipv6, there_ipv6, 0xc001, ROCE_UDP_PORT);
	for (int i = 0; i < 2; i++) {
		icrc_seal(&flows[i], 3, packet, LENGTH);
		for (size_t bit = 0; bit < sizeof(packet) * 8; bit++) {
			uint16_t id;

			if (bit / 8 == 4)
				continue; /* masked */
			packet[bit / 8] ^= (uint8_t)(1u << bit % 8);
			assert_false(icrc_verify(&flows[i], 3, ICRC_IPV4_DF, packet, LENGTH));
			if (icrc_verify_any_id(&flows[i], &lengths, 3, packet, LENGTH, &id)) {
				assert_int_equal(i, 0);
				assert_int_equal(bit, 1387);
			}
			packet[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
	}
}

/* An unknown id weakens the check to one random error in 2^15: the figure that icrc.h promises. */
static void icrc_with_random_errors_passes_as_rarely_as_promised(void **state)
{
	enum { ERRORS = 1 << 20, EXPECTED = ERRORS >> 15 };
	static struct icrc_lengths lengths;
	struct icrc_flow flow;
	uint8_t packet[100 + 4];
	int passed = 0;

	(void)state;
	srandom(7);
	random_fill(packet, sizeof(packet));
	icrc_flow_init(&flow, here_ipv4, there_ipv4, 0xc001, ROCE_UDP_PORT);
	for (int i = 0; i < ERRORS; i++) {
		uint16_t id;

		put_le32(packet + 100, (uint32_t)random() << 1 ^ (uint32_t)random());
		passed += icrc_verify_any_id(&flow, &lengths, 0, packet, 100, &id);
	}
	assert_in_range(passed, EXPECTED / 2, EXPECTED * 2);
}

static void icrc_ignores_what_routers_may_change(void **state)
{
	struct icrc_flow flow;
	uint8_t packet[32 + 4] = {0};

	(void)state;
	icrc_flow_init(&flow, here_ipv4, there_ipv4, 0xc001, ROCE_UDP_PORT);
	icrc_seal(&flow, 0, packet, 32);
	packet[4] = 0xc0;
	assert_true(icrc_verify(&flow, 0, ICRC_IPV4_DF, packet, 32));
}

static void icrc_of_an_impossible_length_is_refused(void **state)
{
	static struct icrc_lengths lengths;
	struct icrc_flow flow;
	uint8_t packet[16] = {0};
	uint16_t id;

	(void)state;
	icrc_flow_init(&flow, here_ipv4, there_ipv4, 0xc001, ROCE_UDP_PORT);
	for (size_t length = 0; length < 12; length++) {
		assert_false(icrc_verify(&flow, 0, ICRC_IPV4_DF, packet, length));
		assert_false(icrc_verify_any_id(&flow, &lengths, 0, packet, length, &id));
	}
	assert_false(icrc_verify(&flow, 0, ICRC_IPV4_DF, packet, ICRC_PACKET_BYTES_MAX + 1));
}

static void icrc_flow_knows_its_kind(void **state)
{
	struct icrc_flow flow;

	(void)state;
	icrc_flow_init(&flow, here_ipv4, there_ipv4, 1, 2);
	assert_true(icrc_flow_is_ipv4(&flow));
	icrc_flow_init(&flow, here_ipv6, there_ipv6, 1, 2);
	assert_false(icrc_flow_is_ipv4(&flow));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(icrc_of_the_scapy_vector_is_scapys),
		cmocka_unit_test(icrc_of_an_adapters_cnp_verifies),
		cmocka_unit_test(icrc_of_every_captured_packet_verifies),
		cmocka_unit_test(icrc_of_any_length_equals_the_plain_one),
		cmocka_unit_test(icrc_of_a_length_met_before_equals_the_plain_one),
		cmocka_unit_test(icrc_seal_with_any_id_is_found_by_a_receiver_who_does_not_know_it),
		cmocka_unit_test(icrc_of_a_sender_without_df_verifies),
		cmocka_unit_test(
			icrc_with_any_one_bit_flipped_is_refused_but_for_the_known_exceptions),
		cmocka_unit_test(icrc_with_random_errors_passes_as_rarely_as_promised),
		cmocka_unit_test(icrc_ignores_what_routers_may_change),
		cmocka_unit_test(icrc_of_an_impossible_length_is_refused),
		cmocka_unit_test(icrc_flow_knows_its_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
