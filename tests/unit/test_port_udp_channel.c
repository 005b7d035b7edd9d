/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP port over a channel in place of a socket: datagrams that urnicd passes on arrive as from
 * a socket.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "port/address.h"
#include "port/udp/udp_channel.h"
#include "support/udp_ends.h"
#include "wire/roce.h"

static int member; /* the socket that `udp_b` has no longer */
static int channel[2]; /* what it has instead: channel[1] is the port's */

static void ends_open(void)
{
	const int on = 1;

	udp_ends_open("127.0.0.1", "127.0.0.2");
	port_udp_remove_address(udp_b.port, 0);
	member = udp_bound_socket(&udp_b.gid, ROCE_UDP_PORT);
	assert_int_equal(setsockopt(member, SOL_UDP, UDP_GRO, &on, sizeof(on)), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, channel), 0);
	assert_int_equal(port_udp_add_address(udp_b.port, &udp_b.gid, 0, channel[1]), 0);
}

static int ends_close(void **state)
{
	close(member);
	close(channel[0]);
	return udp_ends_close(state);
}

static void pass(const struct udp_channel_head *head, const void *data, size_t bytes)
{
	struct iovec iov[] = {{(void *)head, sizeof(*head)}, {(void *)data, bytes}};
	const struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};

	assert_int_equal(sendmsg(channel[0], &message, 0), sizeof(*head) + bytes);
}

/* Pass on one datagram that the member has, as the relay does. */
static void pass_next(struct udp_channel_head *head)
{
	static uint8_t data[1 << 16];
	union socket_address from;
	_Alignas(struct cmsghdr) uint8_t control[128];
	struct iovec iov = {data, sizeof(data)};
	struct msghdr message = {&from, sizeof(from), &iov, 1, control, sizeof(control), 0};
	ssize_t bytes = recvmsg(member, &message, 0);

	assert_true(bytes > 0);
	*head = (struct udp_channel_head){.sgid = socket_address_gid(&from),
		.source_port = socket_address_port(&from),
		.segment_bytes = UINT32_MAX,
		.tos = 0x2b,
		.overflows = 7};
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message); cmsg;
		cmsg = CMSG_NXTHDR(&message, cmsg)) {
		int segment;

		memcpy(&segment, CMSG_DATA(cmsg), sizeof(segment));
		if (cmsg->cmsg_level == SOL_UDP && cmsg->cmsg_type == UDP_GRO)
			head->segment_bytes = (uint32_t)segment;
	}
	pass(head, data, (size_t)bytes);
}

static void datagrams_arrive_as_from_the_socket(void **state)
{
	struct udp_channel_head head;
	uint32_t path;

	(void)state;
	ends_open();
	path = udp_path_to(&udp_a, &udp_b, 0, 0);
	udp_stage(&udp_a, path, UDP_BTH, 0);
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	pass_next(&head);
	udp_receive(1);
	for (uint32_t i = 1; i <= 10; i++)
		udp_stage(&udp_a, path, i < 10 ? 4112 : 100, i);
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	pass_next(&head);
	assert_int_equal(head.segment_bytes, 4116);
	udp_receive(11);
	udp_assert_in_order(11);
	assert_int_equal(udp_received.tos, 0x2b);
	assert_int_equal(udp_b.counters.rx_datagrams, 2);
	assert_int_equal(udp_b.counters.rx_channel_datagrams, 2);
	assert_int_equal(udp_b.counters.rx_queue_overflows, 14);
	assert_int_equal(udp_b.counters.rx_ce_marked, 11);
	assert_int_equal(udp_b.counters.rx_bad_icrc, 0);
}

static void malformed_messages_are_counted_and_dropped(void **state)
{
	struct udp_channel_head head = {.sgid = udp_gid("127.0.0.1"), .segment_bytes = UINT32_MAX};
	const uint8_t data[64] = {4};

	(void)state;
	ends_open();
	assert_int_equal(send(channel[0], "", 0, 0), 0);
	assert_int_equal(send(channel[0], &head, sizeof(head) - 1, 0), sizeof(head) - 1);
	pass(&head, data, 8);
	pass(&head, data, sizeof(data));
	head.segment_bytes = 0;
	pass(&head, data, sizeof(data));
	head = (struct udp_channel_head){.sgid = udp_gid("fd00::1"), .segment_bytes = 1};
	pass(&head, data, sizeof(data));
	while (udp_receive_some() > 0)
		;
	assert_int_equal(udp_received.count, 0);
	assert_int_equal(udp_b.counters.rx_short, 3);
	assert_int_equal(udp_b.counters.rx_bad_icrc, 1);
	assert_int_equal(udp_b.counters.rx_source, 2);
	assert_int_equal(udp_b.counters.rx_errors, 0);
}

static void end_of_urnicd_leaves_an_empty_channel(void **state)
{
	(void)state;
	ends_open();
	close(channel[0]);
	channel[0] = -1;
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(udp_receive_some(), 0);
	assert_int_equal(udp_b.counters.rx_errors, 0);
}

static void channel_has_no_link(void **state)
{
	(void)state;
	ends_open();
	assert_int_equal(port_udp_use_bypass(udp_b.port, 0, 1), -EACCES);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, ends_close)
	const struct CMUnitTest tests[] = {
		TEST(datagrams_arrive_as_from_the_socket),
		TEST(malformed_messages_are_counted_and_dropped),
		TEST(end_of_urnicd_leaves_an_empty_channel),
		TEST(channel_has_no_link),
	};
#undef TEST

	if (!udp_ends_enter())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
