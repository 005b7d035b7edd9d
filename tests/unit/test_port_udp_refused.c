/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the UDP port does when the kernel refuses a packet. The test's own syscall() simulates the
 * refusals.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/udp_ends.h"

/* What the kernel is to answer to the next sendmmsg() calls; 0: let it answer itself. */
static int refusal;
static unsigned refusals_left;
static bool is_only_super_refused;

static bool is_refused(const struct mmsghdr *messages)
{
	bool is_super = messages[0].msg_hdr.msg_controllen >= CMSG_SPACE(sizeof(uint16_t));

	return refusals_left > 0 && (is_super || !is_only_super_refused);
}

static unsigned argument_count(long number)
{
	assert_true(number == SYS_sendmmsg || number == SYS_recvmmsg || number == SYS_socket);
	if (number == SYS_socket)
		return 3;
	return number == SYS_sendmmsg ? 4 : 5;
}

/* In place of the C library's, with which the port makes its system calls. */
long syscall(long number, ...)
{
	static long (*real)(long number, ...);
	unsigned count = argument_count(number);
	long arguments[5] = {0};
	va_list list;

	if (!real)
		real = (long (*)(long, ...))(uintptr_t)dlsym(RTLD_NEXT, "syscall");
	va_start(list, number);
	for (unsigned i = 0; i < count; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_sendmmsg && is_refused((const struct mmsghdr *)arguments[1])) {
		refusals_left--;
		errno = refusal;
		return -1;
	}
	return real(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4]);
}

static void refuse(int error, unsigned times, bool only_super)
{
	refusal = error;
	refusals_left = times;
	is_only_super_refused = only_super;
}

static void packet_longer_than_the_mtu_is_dropped_and_counted(void **state)
{
	uint32_t path;

	(void)state;
	udp_ends_open_veth("10.99.0.1", "10.99.0.2");
	path = udp_path_to(&udp_a, &udp_b, 0, 0);
	for (uint32_t i = 0; i < 3; i++)
		udp_stage(&udp_a, path, 2000, i);
	udp_stage(&udp_a, path, 64, 0);
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	udp_receive(1);
	assert_int_equal(udp_a.counters.tx_segment_refused, 1);
	assert_int_equal(udp_a.counters.tx_too_long, 3);
	assert_int_equal(udp_a.counters.tx_packets, 1);
}

static void refused_segmentation_falls_back_to_singles(void **state)
{
	uint32_t path;

	(void)state;
	udp_ends_open("127.0.0.1", "127.0.0.2");
	path = udp_path_to(&udp_a, &udp_b, 0, 0);
	refuse(EIO, 1000, true);
	for (uint32_t i = 0; i < 50; i++)
		udp_stage(&udp_a, path, 1040, i);
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	udp_receive(50);
	udp_assert_in_order(50);
	assert_int_equal(udp_a.counters.tx_segment_refused, 1);
	assert_int_equal(udp_a.counters.tx_datagrams, 50);
}

static void full_queue_keeps_the_rest_until_a_later_flush(void **state)
{
	struct pollfd fds[PORT_UDP_FDS_MAX];
	uint32_t capacity;
	uint32_t path;

	(void)state;
	udp_ends_open("127.0.0.1", "127.0.0.2");
	path = udp_path_to(&udp_a, &udp_b, 0, 0);
	refuse(EAGAIN, 2, false);
	for (uint32_t i = 0; i < 10; i++)
		udp_stage(&udp_a, path, 1040, i);
	assert_int_equal(port_udp_flush(udp_a.port), -EAGAIN);
	assert_true(port_udp_is_blocked(udp_a.port));
	port_udp_buffer(udp_a.port, &capacity);
	assert_int_equal(capacity, 0);
	assert_int_equal(port_udp_fds(udp_a.port, fds), 2);
	assert_int_equal(fds[1].events, POLLOUT);
	assert_int_equal(port_udp_flush(udp_a.port), -EAGAIN);
	assert_int_equal(udp_a.counters.tx_blocked, 1);
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	assert_false(port_udp_is_blocked(udp_a.port));
	port_udp_buffer(udp_a.port, &capacity);
	assert_int_equal(capacity, PORT_UDP_PACKET_BYTES_MAX);
	assert_int_equal(port_udp_fds(udp_a.port, fds), 1);
	udp_receive(10);
	udp_assert_in_order(10);
}

static uint8_t borrowed[10][UDP_BORROWED_BYTES_MAX];

static void payload_that_has_to_wait_is_copied(void **state)
{
	uint32_t path;

	(void)state;
	udp_ends_open("127.0.0.1", "127.0.0.2");
	path = udp_path_to(&udp_a, &udp_b, 0, 0);
	refuse(EAGAIN, 1, false);
	for (uint32_t i = 0; i < 10; i++)
		udp_stage_borrowed(&udp_a, path, 1040, 16, i * 3, 3, borrowed[i]);
	assert_int_equal(port_udp_flush(udp_a.port), -EAGAIN);
	memset(borrowed, 0, sizeof(borrowed));
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	udp_receive(30);
	udp_assert_in_order(30);
}

static void run_is_sent_singly_where_segmentation_is_refused(void **state)
{
	uint32_t path;

	(void)state;
	udp_ends_open("127.0.0.1", "127.0.0.2");
	path = udp_path_to(&udp_a, &udp_b, 0, 0);
	refuse(EIO, 1000, true);
	for (uint32_t i = 0; i < 5; i++)
		udp_stage_borrowed(&udp_a, path, 1012, 12, i * 4, 4, borrowed[i]);
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	udp_receive(20);
	udp_assert_in_order(20);
	assert_int_equal(udp_a.counters.tx_datagrams, 20);
}

static void path_closed_while_blocked_loses_its_packets(void **state)
{
	uint32_t stays, goes;

	(void)state;
	udp_ends_open("127.0.0.1", "127.0.0.2");
	stays = udp_path_to(&udp_a, &udp_b, 0, 0);
	goes = udp_path_to(&udp_a, &udp_b, 1, 0);
	udp_stage(&udp_a, goes, 64, 7);
	udp_stage(&udp_a, stays, 64, 0);
	refuse(EAGAIN, 2, false);
	assert_int_equal(port_udp_flush(udp_a.port), -EAGAIN);
	port_udp_path_close(udp_a.port, goes);
	assert_int_equal(udp_a.counters.tx_path_closed, 1);
	assert_int_equal(port_udp_flush(udp_a.port), 0);
	udp_receive(1);
	udp_assert_in_order(1);
}

static int ends_close(void **state)
{
	refuse(0, 0, false);
	return udp_ends_close(state);
}

#define TEST(name) cmocka_unit_test_teardown(name, ends_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(packet_longer_than_the_mtu_is_dropped_and_counted),
		TEST(refused_segmentation_falls_back_to_singles),
		TEST(full_queue_keeps_the_rest_until_a_later_flush),
		TEST(payload_that_has_to_wait_is_copied),
		TEST(run_is_sent_singly_where_segmentation_is_refused),
		TEST(path_closed_while_blocked_loses_its_packets),
	};

	if (!udp_ends_enter())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
