/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The Ethernet port over real sockets: loopback, and a veth pair between two network namespaces.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <linux/capability.h>
#include <net/if.h>
#include <sys/syscall.h>

#include "port/af_packet.h"
#include "support/netns.h"

enum { MTU = 1500, ROUNDS = 3000, QUIET_MS = 30, TIMEOUT_MS = 60000 };

static int home, other;
static struct port_packet *a, *b;

static uint8_t seen[2048];
static uint32_t seen_bytes, seen_count;
static bool was_departing;

static int setup(void **state)
{
	(void)state;
	netns_switch(home);
	assert_int_equal(port_packet_open(if_nametoindex("va"), &a), 0);
	netns_switch(other);
	assert_int_equal(port_packet_open(if_nametoindex("vb"), &b), 0);
	seen_count = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	port_packet_close(a);
	port_packet_close(b);
	return 0;
}

/* Frames of these tests have a type of their own; what else is on the network is passed over. */
static void on_frame(void *context, const uint8_t *bytes, uint32_t count, bool is_departing)
{
	static const uint8_t type[2] = {0x88, 0xb5};
	bool has_tag = bytes[12] == 0x81 && bytes[13] == 0;

	(void)context;
	if (memcmp(bytes + (has_tag ? 16 : 12), type, 2) != 0 || count > sizeof(seen))
		return;
	memcpy(seen, bytes, count);
	seen_bytes = count;
	was_departing = is_departing;
	seen_count++;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void receive(struct port_packet *port, uint32_t count, int64_t timeout_ms)
{
	int64_t until_ms = now_ms() + timeout_ms;

	while (seen_count < count && now_ms() < until_ms)
		port_packet_receive(port, on_frame, NULL);
}

static void fill(uint8_t *frame, const uint8_t to[6], bool has_tag)
{
	static const uint8_t from[6] = {2, 0, 0, 0, 0, 9};
	static const uint8_t tag[4] = {0x81, 0, 0xa0, 5};
	uint8_t *next = frame + 12;

	memcpy(frame, to, 6);
	memcpy(frame + 6, from, 6);
	if (has_tag) {
		memcpy(next, tag, 4);
		next += 4;
	}
	next[0] = 0x88;
	next[1] = 0xb5;
	for (uint32_t i = (uint32_t)(next - frame) + 2; i < MTU + 14; i++)
		frame[i] = (uint8_t)(i * 7);
}

static const uint8_t group[6] = {1, 0, 0x5e, 0, 0, 9};

static void send_one(struct port_packet *port, const uint8_t to[6], bool has_tag, uint32_t bytes)
{
	int error;

	fill(port_packet_buffer(port, 0), to, has_tag);
	assert_int_equal(port_packet_send(port, &bytes, 1, &error), 1);
}

static void packet_frames_of_all_lengths_arrive_as_they_are(void **state)
{
	static const uint32_t lengths[] = {14, 15, 60, 1000, MTU + 14};

	(void)state;
	assert_int_equal(port_packet_listen(b, true), 0);
	for (uint32_t i = 0; i < 5; i++) {
		send_one(a, group, false, lengths[i]);
		receive(b, i + 1, TIMEOUT_MS);
		assert_int_equal(seen_count, i + 1);
		assert_int_equal(seen_bytes, lengths[i]);
		assert_memory_equal(seen, port_packet_buffer(a, 0), lengths[i]);
		assert_false(was_departing);
	}
	assert_true(port_packet_frame_bytes_max(a) >= MTU + 14);
}

static void packet_vlan_tag_is_where_it_was(void **state)
{
	(void)state;
	assert_int_equal(port_packet_listen(b, true), 0);
	send_one(a, group, true, 100);
	receive(b, 1, TIMEOUT_MS);
	assert_int_equal(seen_bytes, 100);
	assert_memory_equal(seen, port_packet_buffer(a, 0), 100);
}

static void packet_port_that_does_not_listen_gets_nothing(void **state)
{
	(void)state;
	send_one(a, group, false, 60);
	receive(b, 1, QUIET_MS);
	assert_int_equal(seen_count, 0);
	assert_int_equal(port_packet_listen(b, true), 0);
	send_one(a, group, false, 60);
	receive(b, 1, TIMEOUT_MS);
	assert_int_equal(seen_count, 1);
	assert_int_equal(port_packet_listen(b, false), 0);
	send_one(a, group, false, 60);
	receive(b, 2, QUIET_MS);
	assert_int_equal(seen_count, 1);
}

static void packet_of_the_same_host_is_seen_but_not_ones_own(void **state)
{
	static const uint8_t stranger[6] = {2, 0, 0, 0, 0, 0x77};
	struct port_packet *beside;

	(void)state;
	netns_switch(home);
	assert_int_equal(port_packet_open(if_nametoindex("va"), &beside), 0);
	assert_int_equal(port_packet_listen(beside, true), 0);
	assert_int_equal(port_packet_listen(a, true), 0);
	send_one(a, group, false, 60);
	receive(beside, 1, TIMEOUT_MS);
	assert_int_equal(seen_count, 1);
	assert_false(was_departing);
	send_one(a, stranger, false, 60);
	receive(beside, 2, TIMEOUT_MS);
	assert_true(was_departing);
	receive(a, 3, QUIET_MS);
	assert_int_equal(seen_count, 2);
	port_packet_close(beside);
}

/* More than the ring holds, one batch after the other. */
static void packet_ring_goes_round(void **state)
{
	uint32_t bytes[PORT_PACKET_BATCH];
	uint32_t sent = 0;
	int error;

	(void)state;
	assert_int_equal(port_packet_listen(b, true), 0);
	for (unsigned i = 0; i < PORT_PACKET_BATCH; i++) {
		fill(port_packet_buffer(a, i), group, false);
		bytes[i] = 60 + i;
	}
	while (sent < ROUNDS) {
		sent += port_packet_send(a, bytes, PORT_PACKET_BATCH, &error);
		receive(b, sent, TIMEOUT_MS);
		assert_int_equal(seen_count, sent);
	}
}

static void packet_too_long_for_the_interface_is_refused_for_good(void **state)
{
	uint32_t bytes = MTU + 15;
	int error;

	(void)state;
	memset(port_packet_buffer(a, 0), 0, bytes);
	assert_int_equal(port_packet_send(a, &bytes, 1, &error), 0);
	assert_int_equal(error, -EMSGSIZE);
}

static void packet_on_loopback_is_seen_once(void **state)
{
	static const uint8_t nobody[6];
	struct port_packet *from, *to;

	(void)state;
	netns_switch(home);
	assert_int_equal(port_packet_open(if_nametoindex("lo"), &from), 0);
	assert_int_equal(port_packet_open(if_nametoindex("lo"), &to), 0);
	assert_int_equal(port_packet_listen(to, true), 0);
	send_one(from, nobody, false, 60);
	receive(to, 2, QUIET_MS);
	assert_int_equal(seen_count, 1);
	port_packet_close(from);
	port_packet_close(to);
}

static void packet_wishes_are_taken_back(void **state)
{
	(void)state;
	for (int wish = PORT_PACKET_NOTHING; wish <= PORT_PACKET_EVERYTHING; wish++) {
		enum port_packet_wish one = (enum port_packet_wish)wish;

		assert_int_equal(port_packet_request(a, one, group, true), 0);
		assert_int_equal(port_packet_request(a, one, group, false), 0);
	}
}

/* In a process of its own, which gives up all it may do. */
static void packet_without_the_capability_is_not_permitted(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	if (child == 0) {
		struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
		struct __user_cap_data_struct none[2] = {{0}};
		struct port_packet *port;

		if (syscall(SYS_capset, &header, none))
			_exit(1);
		_exit(port_packet_open(1, &port) == -EPERM ? 0 : 2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void packet_on_no_interface_is_an_error(void **state)
{
	struct port_packet *port;

	(void)state;
	assert_int_not_equal(port_packet_open(77777, &port), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(packet_frames_of_all_lengths_arrive_as_they_are),
		TEST(packet_vlan_tag_is_where_it_was),
		TEST(packet_port_that_does_not_listen_gets_nothing),
		TEST(packet_of_the_same_host_is_seen_but_not_ones_own),
		TEST(packet_ring_goes_round),
		TEST(packet_too_long_for_the_interface_is_refused_for_good),
		TEST(packet_on_loopback_is_seen_once),
		TEST(packet_wishes_are_taken_back),
		TEST(packet_without_the_capability_is_not_permitted),
		TEST(packet_on_no_interface_is_an_error),
	};

	home = netns_enter_new();
	if (home < 0)
		return 77;
	other = netns_enter_new();
	if (other < 0)
		return 77;
	netns_switch(home);
	if (netns_join(home, other, MTU))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
