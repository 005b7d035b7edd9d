/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that no urnic has sent: bad ones, those of other implementations, and too many.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/arith.h"
#include "port/address.h"
#include "support/netns.h"
#include "support/udp_ends.h"
#include "wire/icrc.h"
#include "wire/roce.h"

static void ipv6_packet_without_a_udp_checksum_is_taken(void **state)
{
	const int on = 1;
	uint8_t data[64 + ROCE_ICRC_BYTES];
	union socket_address to;
	struct icrc_flow flow;
	socklen_t to_bytes;
	int fd;

	(void)state;
	udp_ends_open_veth("fd00:99::1", "fd00:99::2");
	netns_switch(udp_a.netns);
	fd = udp_bound_socket(&udp_a.gid, 0xc123);
	assert_int_equal(setsockopt(fd, SOL_UDP, UDP_NO_CHECK6_TX, &on, sizeof(on)), 0);
	udp_fill(data, 64, 0);
	icrc_flow_init(&flow, udp_a.gid.raw, udp_b.gid.raw, 0xc123, ROCE_UDP_PORT);
	icrc_seal(&flow, 0, data, 64);
	to_bytes = socket_address_make(&to, &udp_b.gid, 0, ROCE_UDP_PORT);
	assert_int_equal(sendto(fd, data, sizeof(data), 0, &to.base, to_bytes), sizeof(data));
	udp_receive(1);
	close(fd);
}

/* Send bytes to `b` as they are. */
static void send_raw(const uint8_t *data, size_t bytes)
{
	int fd = udp_bound_socket(&udp_a.gid, 0xc123);
	const int discover = IP_PMTUDISC_DO;
	union socket_address to;
	socklen_t to_bytes = socket_address_make(&to, &udp_b.gid, 0, ROCE_UDP_PORT);

	assert_int_equal(
		setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover)), 0);
	assert_int_equal(sendto(fd, data, bytes, 0, &to.base, to_bytes), bytes);
	close(fd);
}

static void drain(void)
{
	struct pollfd fds[PORT_UDP_FDS_MAX];

	assert_int_equal(poll(fds, port_udp_fds(udp_b.port, fds), UDP_WAIT_MS), 1);
	assert_int_equal(udp_receive_some(), 1);
	assert_int_equal(udp_receive_some(), 0);
}

static void bad_packets_are_dropped_and_counted(void **state)
{
	struct icrc_flow flow;
	uint8_t data[256];

	(void)state;
	udp_ends_open("127.0.0.1", "127.0.0.2");
	icrc_flow_init(&flow, udp_a.gid.raw, udp_b.gid.raw, 0xc123, ROCE_UDP_PORT);
	udp_fill(data, 100, 0);
	icrc_seal(&flow, 0, data, 100);
	send_raw(data, 104);
	drain();
	assert_int_equal(udp_received.count, 1);
	data[50] ^= 1;
	send_raw(data, 104);
	drain();
	assert_int_equal(udp_b.counters.rx_bad_icrc, 1);
	send_raw(data, UDP_BTH + ROCE_ICRC_BYTES - 1);
	drain();
	send_raw(data, 1);
	drain();
	assert_int_equal(udp_b.counters.rx_short, 2);
	assert_int_equal(udp_received.count, 1);
}

/* An adapter numbers its packets as it likes; an ordinary socket does not show the numbers. */
static void ipv4_ids_of_any_sender_verify(void **state)
{
	static const uint16_t ids[] = {0x1234, 0x1235, 0xffff, 0, 7};
	struct icrc_flow flow;
	int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);

	(void)state;
	assert_true(fd >= 0);
	udp_ends_open("127.0.0.1", "127.0.0.2");
	icrc_flow_init(&flow, udp_a.gid.raw, udp_b.gid.raw, 0xc123, ROCE_UDP_PORT);
	for (uint32_t i = 0; i < ARRAY_COUNT(ids); i++) {
		struct sockaddr_in to = {
			.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002)};
		struct iphdr ip = {
			.version = 4,
			.ihl = 5,
			.ttl = 64,
			/* The kernel chooses an id of its own when it is given 0. */
			.id = htons(ids[i]),
			.frag_off = htons(IP_DF),
			.protocol = IPPROTO_UDP,
			.saddr = htonl(0x7f000001),
			.daddr = to.sin_addr.s_addr,
		};
		struct udphdr udp = {.source = htons(0xc123), .dest = htons(ROCE_UDP_PORT)};
		uint8_t data[200];
		uint8_t *payload = data + sizeof(ip) + sizeof(udp);

		udp.len = htons(8 + 104);
		udp_fill(payload, 100, i);
		icrc_seal(&flow, ids[i], payload, 100);
		memcpy(data, &ip, sizeof(ip));
		memcpy(data + sizeof(ip), &udp, sizeof(udp));
		if (ids[i] == 0)
			continue;
		assert_int_equal(sendto(fd, data, 28 + 104, 0, (struct sockaddr *)&to, sizeof(to)),
			28 + 104);
		drain();
	}
	close(fd);
	assert_int_equal(udp_b.counters.rx_bad_icrc, 0);
	assert_int_equal(udp_received.count, ARRAY_COUNT(ids) - 1);
}

static void overflowing_receive_queue_is_counted(void **state)
{
	uint32_t path;

	(void)state;
	udp_ends_open("127.0.0.1", "127.0.0.2");
	path = udp_path_to(&udp_a, &udp_b, 0, 0);
	for (unsigned round = 0; round < 200; round++) {
		for (uint32_t i = 0; i < 60; i++)
			udp_stage(&udp_a, path, 1024, 0);
		assert_int_equal(port_udp_flush(udp_a.port), 0);
	}
	while (udp_receive_some() > 0)
		;
	/* The count comes with a packet that was queued after the drop. */
	udp_received.count = 0;
	udp_stage(&udp_a, path, 1024, 0);
	port_udp_flush(udp_a.port);
	udp_receive(1);
	assert_true(udp_b.counters.rx_queue_overflows > 0);
	assert_int_equal(udp_b.counters.rx_bad_icrc, 0);
}

#define TEST(name) cmocka_unit_test_teardown(name, udp_ends_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ipv6_packet_without_a_udp_checksum_is_taken),
		TEST(bad_packets_are_dropped_and_counted),
		TEST(ipv4_ids_of_any_sender_verify),
		TEST(overflowing_receive_queue_is_counted),
	};

	if (!udp_ends_enter())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
