/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP port's paths and addresses: the effect of a path's settings on packets, equal paths, and
 * addresses that are added and removed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/arith.h"
#include "support/netns.h"
#include "support/udp_ends.h"
#include "wire/roce.h"

static void dscp_and_hop_limit_of_a_path_arrive(void **state)
{
	(void)state;
	udp_ends_open("127.0.0.1", "127.0.0.2");
	for (uint32_t i = 0; i < 3; i++)
		udp_stage(&udp_a, udp_path_to(&udp_a, &udp_b, 46, 9), 64, i);
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	udp_receive(3);
	assert_int_equal(udp_received.tos, 46 << 2 | 2);
}

/* IPV6_FLOWINFO of linux/in6.h, which does not go together with the C library's headers. */
#define LINUX_IPV6_FLOWINFO 11

/* Of the packet that waits at `b`; the port does not look at it. */
static uint32_t arrived_flow_label(void)
{
	struct pollfd fds[PORT_UDP_FDS_MAX];
	uint8_t control[256], data[256];
	struct iovec iov = {data, sizeof(data)};
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	uint32_t flow_info = 0;

	assert_int_equal(port_udp_fds(udp_b.port, fds), 1);
	assert_int_equal(poll(fds, 1, 1000), 1);
	assert_true(recvmsg(fds[0].fd, &message, 0) > 0);
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message); cmsg;
		cmsg = CMSG_NXTHDR(&message, cmsg))
		if (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == LINUX_IPV6_FLOWINFO)
			memcpy(&flow_info, CMSG_DATA(cmsg), sizeof(flow_info));
	return ntohl(flow_info) & 0xfffff;
}

static void flow_label_of_a_path_arrives(void **state)
{
	struct port_udp_path settings = {.destination_slot = 1};
	static const uint32_t labels[] = {0x12345, 0, 0xfffff};
	struct pollfd fds[PORT_UDP_FDS_MAX];
	const int on = 1;
	uint32_t path;

	(void)state;
	netns_run("ip addr add fd00::1/128 dev lo nodad");
	netns_await("fd00::1");
	udp_ends_open("::1", "fd00::1");
	settings.remote = udp_b.gid;
	assert_int_equal(port_udp_fds(udp_b.port, fds), 1);
	assert_int_equal(
		setsockopt(fds[0].fd, IPPROTO_IPV6, LINUX_IPV6_FLOWINFO, &on, sizeof(on)), 0);
	for (uint32_t i = 0; i < ARRAY_COUNT(labels); i++) {
		settings.flow_label = labels[i];
		assert_int_equal(port_udp_path_open(udp_a.port, &settings, &path), 0);
		udp_stage(&udp_a, path, 64, i);
		assert_int_equal(port_udp_flush(udp_a.port), 0);
		assert_int_equal(arrived_flow_label(), labels[i]);
	}
}

static void path_that_was_closed_takes_nothing_nor_does_its_number(void **state)
{
	uint32_t gone, next;

	(void)state;
	udp_ends_open("127.0.0.1", "127.0.0.2");
	gone = udp_path_to(&udp_a, &udp_b, 0, 0);
	port_udp_path_close(udp_a.port, gone);
	next = udp_path_to(&udp_a, &udp_b, 1, 0);
	assert_int_not_equal(next, gone);
	udp_stage(&udp_a, gone, 64, 0);
	assert_int_equal(udp_a.counters.tx_path_closed, 1);
	udp_stage(&udp_a, next, 64, 0);
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	udp_receive(1);
}

/* The top byte of the destination number is 31 times the tag, plus 35. */
static void shared_path_makes_super_packets_for_one_slot_only(void **state)
{
	static const uint32_t tags[] = {0, 0, 0, 1, 1, 0};
	struct port_udp_path settings = {.is_shared = true};
	uint32_t path;

	(void)state;
	udp_ends_open("127.0.0.1", "127.0.0.2");
	settings.remote = udp_b.gid;
	assert_int_equal(port_udp_path_open(udp_a.port, &settings, &path), 0);
	for (uint32_t i = 0; i < ARRAY_COUNT(tags); i++)
		udp_stage(&udp_a, path, 1040, tags[i]);
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	udp_receive(ARRAY_COUNT(tags));
	assert_int_equal(udp_a.counters.tx_datagrams, 3);
}

static void quiet_address_is_still_served(void **state)
{
	struct gid other = udp_gid("127.0.0.3");
	uint32_t path;

	(void)state;
	udp_ends_open("127.0.0.1", "127.0.0.2");
	assert_int_equal(port_udp_add_address(
				 udp_b.port, &other, 0, udp_bound_socket(&other, ROCE_UDP_PORT)),
		1);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(udp_receive_some(), 0);
	udp_b.gid = other;
	path = udp_path_to(&udp_a, &udp_b, 0, 0);
	for (uint32_t i = 0; i < 20; i++) {
		udp_stage(&udp_a, path, 64, i);
		assert_int_equal(port_udp_flush(udp_a.port), 0);
		udp_receive(i + 1);
	}
}

static void address_that_was_removed_makes_room(void **state)
{
	struct gid other = udp_gid("127.0.0.3"), third = udp_gid("127.0.0.4");
	struct pollfd fds[PORT_UDP_FDS_MAX];
	uint32_t path;

	(void)state;
	udp_ends_open("127.0.0.1", "127.0.0.2");
	port_udp_add_address(udp_b.port, &other, 0, udp_bound_socket(&other, ROCE_UDP_PORT));
	udp_b.gid = other;
	udp_stage(&udp_a, udp_path_to(&udp_a, &udp_b, 0, 0), 64, 0);
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	udp_receive(1);
	port_udp_remove_address(udp_b.port, 1);
	assert_int_equal(port_udp_fds(udp_b.port, fds), 1);
	assert_int_equal(port_udp_add_address(
				 udp_b.port, &third, 0, udp_bound_socket(&third, ROCE_UDP_PORT)),
		1);
	udp_b.gid = third;
	path = udp_path_to(&udp_a, &udp_b, 0, 0);
	udp_stage(&udp_a, path, 64, 1);
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	udp_receive(2);
}

static void unreachable_peer_is_counted_and_does_not_stop_others(void **state)
{
	struct udp_end nowhere = {.gid = udp_gid("192.0.2.1")};
	uint32_t there, gone;

	(void)state;
	udp_ends_open("127.0.0.1", "127.0.0.2");
	gone = udp_path_to(&udp_a, &nowhere, 0, 0);
	there = udp_path_to(&udp_a, &udp_b, 0, 0);
	udp_stage(&udp_a, gone, 64, 5);
	udp_stage(&udp_a, there, 64, 0);
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	udp_receive(1);
	assert_int_equal(udp_a.counters.tx_unreachable + udp_a.counters.tx_errors, 1);
}

static void equal_paths_are_shared_and_wrong_ones_refused(void **state)
{
	struct port_udp_path settings = {.remote = udp_gid("::2")};
	uint32_t first, path;

	(void)state;
	udp_ends_open("127.0.0.1", "127.0.0.2");
	first = udp_path_to(&udp_a, &udp_b, 0, 0);
	assert_int_equal(udp_path_to(&udp_a, &udp_b, 0, 64), first);
	port_udp_path_close(udp_a.port, first);
	udp_stage(&udp_a, first, 64, 0);
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	udp_receive(1);
	assert_int_equal(port_udp_path_open(udp_a.port, &settings, &path), -EINVAL);
	settings = (struct port_udp_path){.address = 1, .remote = udp_b.gid};
	assert_int_equal(port_udp_path_open(udp_a.port, &settings, &path), -EINVAL);
	settings = (struct port_udp_path){.dscp = 64, .remote = udp_b.gid};
	assert_int_equal(port_udp_path_open(udp_a.port, &settings, &path), -EINVAL);
}

/* As many as the address handles of three devices, to peers of their own each. */
static void paths_to_many_peers_are_all_there(void **state)
{
	enum { COUNT = 3 * 4096 };
	static uint32_t paths[COUNT];

	(void)state;
	udp_ends_open("127.0.0.1", "127.0.0.2");
	for (uint32_t i = 0; i < COUNT; i++) {
		struct port_udp_path settings = {.is_shared = true};
		uint8_t ipv4[4] = {127, 1, (uint8_t)(i >> 8), (uint8_t)i};

		settings.remote = gid_from_ipv4(ipv4);
		assert_int_equal(port_udp_path_open(udp_a.port, &settings, &paths[i]), 0);
	}
	for (uint32_t i = 0; i < COUNT; i++)
		port_udp_path_close(udp_a.port, paths[i]);
	/* The number of a closed path names no other path. */
	udp_stage(&udp_a, udp_path_to(&udp_a, &udp_b, 0, 0), 64, 1);
	udp_stage(&udp_a, paths[COUNT - 1], 64, 2);
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	udp_receive(1);
	assert_int_equal(udp_a.counters.tx_path_closed, 1);
}

#define TEST(name) cmocka_unit_test_teardown(name, udp_ends_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(dscp_and_hop_limit_of_a_path_arrive),
		TEST(flow_label_of_a_path_arrives),
		TEST(path_that_was_closed_takes_nothing_nor_does_its_number),
		TEST(shared_path_makes_super_packets_for_one_slot_only),
		TEST(quiet_address_is_still_served),
		TEST(address_that_was_removed_makes_room),
		TEST(unreachable_peer_is_counted_and_does_not_stop_others),
		TEST(equal_paths_are_shared_and_wrong_ones_refused),
		TEST(paths_to_many_peers_are_all_there),
	};

	if (!udp_ends_enter())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
