/* SPDX-License-Identifier: BSD-2-Clause */
/* The UDP port with the bypass of the kernel's UDP: what is delivered, and where it is possible. */
#include <errno.h>

#include "base/arith.h"

#include "support/bypass_ends.h"

static uint32_t bytes_of(uint32_t tag)
{
	return tag % 7 == 3 ? LONG : tag % 5 == 4 ? 24 : SHORT;
}

/* Short ones, long ones, and super-packets of both: the link has the short messages. */
static void exchange(uint32_t count)
{
	b_speaks();
	for (uint32_t i = 0; i < count; i++) {
		stage(&a, a.path, bytes_of(i / 4), i);
		if (i % 16 == 15 || i + 1 == count)
			assert_int_equal(port_udp_flush(a.port), 0);
	}
	if (!a_has_link)
		assert_sent_frames(0);
	else if (now_ms() - spoke_ms < TRUST_MS)
		assert_true(a.counters.tx_frames > 0);
	assert_true(count <= 12 || a.counters.tx_frames < a.counters.tx_datagrams);
	receive(&b, count);
	assert_int_equal(a.counters.tx_packets, count);
	assert_int_equal(b.counters.rx_packets, count);
	assert_int_equal(b.counters.rx_bytes, a.counters.tx_bytes);
	assert_int_equal(b.counters.rx_bad_icrc, 0);
	assert_int_equal(b.counters.rx_marks_lost, 0);
	assert_int_equal(a.counters.tx_link_refused, 0);
}

/* A mark says where its datagram came from. */
static void long_packet_tells_where_its_sender_is(void **state)
{
	(void)state;
	ends_open(true, true, true);
	b_says(LONG);
	send_one(&a, SHORT, 0);
	assert_sent_frames(1);
	send_one(&a, LONG, 1);
	assert_sent_frames(1);
	receive(&b, 2);
}

static void ipv4_links_deliver_all_in_order(void **state)
{
	(void)state;
	ends_open(true, true, true);
	exchange(200);
	assert_true(b.counters.rx_frames > 0);
	assert_true(b.counters.rx_frames < b.counters.rx_datagrams);
}

static void ipv6_links_deliver_all_in_order(void **state)
{
	(void)state;
	ends_open(false, true, true);
	exchange(200);
	assert_true(b.counters.rx_frames > 0);
}

static void link_understands_a_plain_sender(void **state)
{
	(void)state;
	ends_open(true, false, true);
	exchange(200);
	assert_true(b.counters.rx_frames > 0);
}

static void plain_receiver_understands_a_link(void **state)
{
	(void)state;
	ends_open(true, true, false);
	exchange(200);
	assert_int_equal(b.counters.rx_frames, 0);
}

static void plain_ipv6_receiver_understands_a_link(void **state)
{
	(void)state;
	ends_open(false, true, false);
	exchange(200);
}

static void dscp_and_hop_limit_of_a_path_arrive_in_frames(void **state)
{
	(void)state;
	assert_path_fields_arrive();
}

static void message_that_the_link_refuses_goes_through_the_socket(void **state)
{
	(void)state;
	ends_open(true, true, true);
	netns_switch(a.netns);
	assert_int_equal(netns_run("ip link set va mtu 1000"), 0);
	b_speaks();
	send_one(&a, MEDIUM, 9); /* which has no way to send it either */
	send_one(&a, SHORT, 0);
	assert_sent_frames(0);
	if (now_ms() - spoke_ms < TRUST_MS)
		assert_int_equal(a.counters.tx_link_refused, 1);
	assert_int_equal(netns_run("ip link set va mtu %d", MTU), 0);
	receive(&b, 1);
	assert_int_equal(a.counters.tx_too_long, 1);
}

/* What comes by another interface is not on the link. */
static void packet_of_this_host_comes_by_the_socket(void **state)
{
	struct end peer = {.netns = b.netns};

	(void)state;
	ends_open(true, true, true);
	netns_switch(b.netns);
	netns_run("ip addr add 10.99.0.3/32 dev lo");
	end_open(&peer, "10.99.0.3", false);
	peer.path = path_to(&peer, &b, 0, 0);
	for (uint32_t i = 0; i < 100; i++) {
		send_one(&peer, i % 3 ? SHORT : LONG, i);
		receive(&b, i + 1);
	}
	port_udp_destroy(peer.port);
	assert_int_equal(b.counters.rx_frames, 0);
	assert_int_equal(b.counters.rx_marks_lost, 0);
}

static void interface_without_ethernet_has_no_link(void **state)
{
	(void)state;
	ends_open(true, true, false);
	netns_switch(b.netns);
	assert_int_equal(port_udp_use_bypass(b.port, 0, if_nametoindex("lo")), -EOPNOTSUPP);
	assert_int_equal(port_udp_use_bypass(b.port, 0, 12345), -ENODEV);
	exchange(20);
}

static void links_on_one_interface_are_few(void **state)
{
	struct port_udp_counters counters = {0};
	struct port_udp *ports[16];
	unsigned count = 0;
	int error = 0;

	(void)state;
	ends_open(true, true, false);
	netns_switch(b.netns);
	for (; count < ARRAY_COUNT(ports) && !error; count++) {
		const struct gid other =
			gid_from_ipv4((uint8_t[]){127, 0, 0, (uint8_t)(count + 1)});

		assert_int_equal(port_udp_create(SLOT, &counters, &ports[count]), 0);
		assert_int_equal(port_udp_add_address(ports[count], &other, 0,
					 udp_bound_socket(&other, ROCE_UDP_PORT)),
			0);
		error = port_udp_use_bypass(ports[count], 0, if_nametoindex("vb"));
	}
	assert_int_equal(error, -EUSERS);
	while (count > 0)
		port_udp_destroy(ports[--count]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(long_packet_tells_where_its_sender_is),
		TEST(ipv4_links_deliver_all_in_order),
		TEST(ipv6_links_deliver_all_in_order),
		TEST(link_understands_a_plain_sender),
		TEST(plain_receiver_understands_a_link),
		TEST(plain_ipv6_receiver_understands_a_link),
		TEST(dscp_and_hop_limit_of_a_path_arrive_in_frames),
		TEST(message_that_the_link_refuses_goes_through_the_socket),
		TEST(packet_of_this_host_comes_by_the_socket),
		TEST(interface_without_ethernet_has_no_link),
		TEST(links_on_one_interface_are_few),
	};

	return bypass_begin() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
