/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP port over real sockets: packets of all lengths, alone and in super-packets, arrive whole
 * and in order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "support/netns.h"
#include "support/udp_ends.h"

static void exchange_single_and_bundle(uint32_t packet_bytes)
{
	uint32_t path = udp_path_to(&udp_a, &udp_b, 0, 0);

	udp_stage(&udp_a, path, UDP_BTH, 0);
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	udp_receive(1);
	for (uint32_t i = 1; i <= 40; i++)
		udp_stage(&udp_a, path, i < 40 ? packet_bytes : packet_bytes / 2, i);
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	udp_receive(41);
	udp_assert_in_order(41);
	assert_int_equal(udp_received.bytes[39], packet_bytes);
	assert_int_equal(udp_received.bytes[40], packet_bytes / 2);
	assert_int_equal(udp_received.tos, 2);
	assert_int_equal(udp_a.counters.tx_packets, 41);
	assert_true(udp_a.counters.tx_datagrams < 10);
	assert_int_equal(udp_b.counters.rx_packets, 41);
	assert_int_equal(udp_b.counters.rx_bytes, udp_a.counters.tx_bytes);
	assert_int_equal(udp_b.counters.rx_bad_icrc, 0);
	/* Super-packets cross both kinds of interface whole. */
	assert_true(udp_b.counters.rx_datagrams < 10);
}

static void ipv4_loopback_delivers_singles_and_bundles(void **state)
{
	(void)state;
	udp_ends_open("127.0.0.1", "127.0.0.2");
	exchange_single_and_bundle(4096 + 16);
}

static void ipv6_loopback_delivers_singles_and_bundles(void **state)
{
	(void)state;
	netns_run("ip addr add fd00::1/128 dev lo nodad");
	netns_await("fd00::1");
	udp_ends_open("::1", "fd00::1");
	exchange_single_and_bundle(4096 + 16);
}

static void ipv4_veth_delivers_singles_and_bundles(void **state)
{
	(void)state;
	udp_ends_open_veth("10.99.0.1", "10.99.0.2");
	exchange_single_and_bundle(1024 + 16);
}

static void ipv6_veth_delivers_singles_and_bundles(void **state)
{
	(void)state;
	udp_ends_open_veth("fd00:99::1", "fd00:99::2");
	exchange_single_and_bundle(1024 + 16);
}

static void paths_interleaved_keep_their_order(void **state)
{
	uint32_t first, second;

	(void)state;
	udp_ends_open("127.0.0.1", "127.0.0.2");
	first = udp_path_to(&udp_a, &udp_b, 0, 0);
	second = udp_path_to(&udp_a, &udp_b, 10, 0);
	assert_int_not_equal(first, second);
	for (uint32_t i = 0; i < 300; i++)
		udp_stage(&udp_a, i / 3 % 2 ? first : second, i % 5 ? 256 : 128, i);
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	udp_receive(300);
	udp_assert_in_order(300);
}

static uint8_t borrowed[40][UDP_BORROWED_BYTES_MAX];

static void borrowed_payloads_arrive(void **state)
{
	static const uint32_t headers[] = {28, 12, 120};
	uint32_t path;

	(void)state;
	udp_ends_open("127.0.0.1", "127.0.0.2");
	path = udp_path_to(&udp_a, &udp_b, 0, 0);
	for (uint32_t i = 0; i < 40; i++)
		if (i % 5 == 1)
			udp_stage(&udp_a, path, 2000, i);
		else
			udp_stage_borrowed(&udp_a, path, i % 7 ? 2000 : 300, headers[i % 3], i, 1,
				borrowed[i]);
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	memset(borrowed, 0, sizeof(borrowed));
	udp_receive(40);
	udp_assert_in_order(40);
	assert_int_equal(udp_b.counters.rx_bad_icrc, 0);
}

/* Runs of full packets, longer than a super-packet, one behind the other, and others between. */
static void runs_with_borrowed_payloads_arrive(void **state)
{
	uint32_t path, tag = 0;

	(void)state;
	udp_ends_open("127.0.0.1", "127.0.0.2");
	path = udp_path_to(&udp_a, &udp_b, 0, 0);
	for (uint32_t i = 0; i < 20; i++) {
		uint32_t packets = 1 + i * 2 % 7;

		udp_stage_borrowed(&udp_a, path, 1012, i % 6 ? 12 : 16, tag, packets, borrowed[i]);
		tag += packets;
		if (i % 3 == 1)
			udp_stage(&udp_a, path, i % 2 ? 1012 : 60, tag++);
	}
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	memset(borrowed, 0, sizeof(borrowed));
	udp_receive(tag);
	udp_assert_in_order(tag);
	assert_int_equal(udp_a.counters.tx_packets, tag);
	assert_int_equal(udp_b.counters.rx_bad_icrc, 0);
	assert_int_equal(udp_b.counters.rx_bytes, udp_a.counters.tx_bytes);
}

static void full_stage_offers_no_room(void **state)
{
	uint32_t capacity = 1;
	uint32_t path;
	uint32_t count = 0;

	(void)state;
	udp_ends_open("127.0.0.1", "127.0.0.2");
	path = udp_path_to(&udp_a, &udp_b, 0, 0);
	for (;;) {
		port_udp_buffer(udp_a.port, &capacity);
		if (capacity < UDP_BTH)
			break;
		udp_stage(&udp_a, path, capacity < 4112 ? capacity & ~3u : 4112, count++);
	}
	assert_true(count >= PORT_UDP_STAGE_BYTES / 4120);
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	port_udp_buffer(udp_a.port, &capacity);
	assert_true(capacity > 4112);
}

#define TEST(name) cmocka_unit_test_teardown(name, udp_ends_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ipv4_loopback_delivers_singles_and_bundles),
		TEST(ipv6_loopback_delivers_singles_and_bundles),
		TEST(ipv4_veth_delivers_singles_and_bundles),
		TEST(ipv6_veth_delivers_singles_and_bundles),
		TEST(paths_interleaved_keep_their_order),
		TEST(borrowed_payloads_arrive),
		TEST(runs_with_borrowed_payloads_arrive),
		TEST(full_stage_offers_no_room),
	};

	if (!udp_ends_enter())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
