/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The relay: a member's datagrams go to the channel of its slot, and to no other channel.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "port/address.h"
#include "port/udp/udp_channel.h"
#include "support/netns.h"
#include "urnicd/lease/relay.h"

enum {
	PORT = 4791,
	SLOTS = 3,
	SLOT_OFFSET = 5,
	PACKET_BYTES = 64,
	MESSAGE_BYTES = sizeof(struct udp_channel_head) + PACKET_BYTES,
	WAIT_MS = 60000,
	LONG_BYTES = 60000,
	LONG_COUNT = 60, /* more than a channel holds, less than a member */
};

static const struct agent_address loopback = {
	.gid = {{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}},
};

static struct relay *relay;
static int sender;
static int members[SLOTS + 1], channels[SLOTS + 1], ours[SLOTS + 1];

/* Each slot's member has a port of its own, in place of a group that steers. */
static void member_open(uint8_t slot)
{
	const int on = 1, bytes = 8 << 20;
	union socket_address name;
	socklen_t name_bytes =
		socket_address_make(&name, &loopback.gid, 0, (uint16_t)(PORT + slot));

	members[slot] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(setsockopt(members[slot], SOL_UDP, UDP_GRO, &on, sizeof(on)), 0);
	setsockopt(members[slot], SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
	assert_int_equal(bind(members[slot], &name.base, name_bytes), 0);
	assert_int_equal(
		relay_open(relay, &loopback, slot, members[slot], &ours[slot], &channels[slot]), 0);
}

static int begin(void **state)
{
	(void)state;
	assert_int_equal(relay_create(&relay), 0);
	sender = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	for (unsigned slot = 1; slot <= SLOTS; slot++)
		member_open((uint8_t)slot);
	return 0;
}

static int end(void **state)
{
	(void)state;
	relay_destroy(relay);
	for (unsigned slot = 1; slot <= SLOTS; slot++) {
		close(members[slot]);
		close(channels[slot]);
	}
	close(sender);
	return 0;
}

static void send_to(uint8_t member, const uint8_t *data, size_t bytes, int segment_bytes)
{
	union socket_address name;
	socklen_t name_bytes =
		socket_address_make(&name, &loopback.gid, 0, (uint16_t)(PORT + member));

	assert_int_equal(
		setsockopt(sender, SOL_UDP, UDP_SEGMENT, &segment_bytes, sizeof(segment_bytes)), 0);
	assert_int_equal(sendto(sender, data, bytes, 0, &name.base, name_bytes), bytes);
}

/* The next message of a channel: its bytes, or -1 when none comes. */
static ssize_t receive(unsigned slot, void *message, size_t bytes, int wait_ms)
{
	struct pollfd fd = {.fd = channels[slot], .events = POLLIN};

	return poll(&fd, 1, wait_ms) == 1 ? recv(channels[slot], message, bytes, 0) : -1;
}

static struct agent_counters counted(void)
{
	struct agent_counters counters = {0};

	relay_count_up(relay, &counters);
	return counters;
}

static void datagram_comes_with_what_the_kernel_said_of_it(void **state)
{
	uint8_t data[4 * PACKET_BYTES] = {0}, message[sizeof(data) + 100];
	struct udp_channel_head head;
	union socket_address name;
	socklen_t name_bytes = sizeof(name);

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		data[i * PACKET_BYTES + SLOT_OFFSET] = 2;
	send_to(2, data, sizeof(data), PACKET_BYTES);
	assert_int_equal(getsockname(sender, &name.base, &name_bytes), 0);
	assert_int_equal(
		receive(2, message, sizeof(message), WAIT_MS), sizeof(head) + sizeof(data));
	memcpy(&head, message, sizeof(head));
	assert_memory_equal(message + sizeof(head), data, sizeof(data));
	assert_memory_equal(&head.sgid, &loopback.gid, sizeof(head.sgid));
	assert_int_equal(head.source_port, socket_address_port(&name));
	assert_int_equal(head.segment_bytes, PACKET_BYTES);
	assert_int_equal(head.hop_limit, 64);
	/* The thread counts after it has sent. */
	for (unsigned i = 0; i < WAIT_MS / 10 && counted().channel_datagrams == 0; i++)
		poll(NULL, 0, 10);
	assert_int_equal(counted().channel_datagrams, 1);
	assert_int_equal(counted().channels_open, SLOTS);
}

static void packets_merged_behind_another_slots_go_to_their_own(void **state)
{
	static const uint8_t slots[] = {1, 2, 1, 9, 3};
	uint8_t data[sizeof(slots) * PACKET_BYTES] = {0}, message[sizeof(data) + 100];

	(void)state;
	for (unsigned i = 0; i < sizeof(slots); i++)
		data[i * PACKET_BYTES + SLOT_OFFSET] = slots[i];
	send_to(1, data, sizeof(data), PACKET_BYTES);
	for (unsigned i = 0; i < sizeof(slots); i++) {
		if (slots[i] > SLOTS)
			continue;
		assert_int_equal(
			receive(slots[i], message, sizeof(message), WAIT_MS), MESSAGE_BYTES);
		assert_int_equal(message[sizeof(struct udp_channel_head) + SLOT_OFFSET], slots[i]);
	}
	for (unsigned slot = 1; slot <= SLOTS; slot++)
		assert_int_equal(receive(slot, message, sizeof(message), 0), -1);
	assert_int_equal(counted().channel_strays, 3);
	assert_int_equal(counted().channel_lost, 1);
}

static void member_waits_while_its_channel_is_full_and_others_do_not(void **state)
{
	static uint8_t data[LONG_BYTES], message[LONG_BYTES + 100];

	(void)state;
	data[SLOT_OFFSET] = 1;
	for (unsigned i = 0; i < LONG_COUNT; i++)
		send_to(1, data, sizeof(data), 0);
	data[SLOT_OFFSET] = 2;
	send_to(2, data, PACKET_BYTES, 0);
	assert_int_equal(receive(2, message, sizeof(message), WAIT_MS), MESSAGE_BYTES);
	for (unsigned i = 0; i < LONG_COUNT; i++)
		assert_int_equal(receive(1, message, sizeof(message), WAIT_MS),
			sizeof(struct udp_channel_head) + LONG_BYTES);
	assert_int_equal(counted().channel_lost, 0);
}

static void closed_slot_gets_nothing_more(void **state)
{
	uint8_t data[PACKET_BYTES] = {[SLOT_OFFSET] = 1}, message[MESSAGE_BYTES];

	(void)state;
	assert_true(relay_has(relay, &loopback, 1, ours[1]));
	assert_false(relay_has(relay, &loopback, 1, ours[2]));
	assert_int_equal(relay_close_slot(relay, 1), 1);
	assert_int_equal(relay_close_slot(relay, 1), 0);
	assert_int_equal(relay_count(relay), SLOTS - 1);
	send_to(1, data, sizeof(data), 0);
	data[SLOT_OFFSET] = 2;
	send_to(2, data, sizeof(data), 0);
	assert_int_equal(receive(2, message, sizeof(message), WAIT_MS), MESSAGE_BYTES);
	assert_int_equal(receive(1, message, sizeof(message), 0), -1);
	assert_int_equal(relay_open(relay, &loopback, 1, members[1], &ours[1], &channels[0]), 0);
	close(channels[1]);
	channels[1] = channels[0];
	/* What had come meanwhile is the member's; urnicd empties it first. */
	assert_int_equal(receive(1, message, sizeof(message), WAIT_MS), MESSAGE_BYTES);
}

static void channel_of_an_earlier_urnicd_goes_on_unless_nobody_has_it(void **state)
{
	uint8_t data[PACKET_BYTES] = {[SLOT_OFFSET] = 1}, message[MESSAGE_BYTES];
	int kept = dup(ours[1]), abandoned = dup(ours[2]);

	(void)state;
	relay_close_slot(relay, 1);
	relay_close_slot(relay, 2);
	close(channels[2]);
	channels[2] = -1;
	assert_int_equal(relay_adopt(relay, &loopback, 2, members[2], abandoned), -EPIPE);
	close(abandoned);
	assert_int_equal(relay_adopt(relay, &loopback, 1, members[1], kept), 0);
	assert_int_equal(receive(1, message, sizeof(message), WAIT_MS), 0);
	send_to(1, data, sizeof(data), 0);
	assert_int_equal(receive(1, message, sizeof(message), WAIT_MS), MESSAGE_BYTES);
}

static void process_that_closes_its_end_is_counted_only(void **state)
{
	uint8_t data[PACKET_BYTES] = {[SLOT_OFFSET] = 1}, message[MESSAGE_BYTES];

	(void)state;
	close(channels[1]);
	channels[1] = -1;
	send_to(1, data, sizeof(data), 0);
	data[SLOT_OFFSET] = 2;
	send_to(2, data, sizeof(data), 0);
	assert_int_equal(receive(2, message, sizeof(message), WAIT_MS), MESSAGE_BYTES);
	for (unsigned i = 0; i < WAIT_MS / 10 && counted().channel_lost == 0; i++)
		poll(NULL, 0, 10);
	assert_int_equal(counted().channel_lost, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(datagram_comes_with_what_the_kernel_said_of_it),
		TEST(packets_merged_behind_another_slots_go_to_their_own),
		TEST(member_waits_while_its_channel_is_full_and_others_do_not),
		TEST(closed_slot_gets_nothing_more),
		TEST(channel_of_an_earlier_urnicd_goes_on_unless_nobody_has_it),
		TEST(process_that_closes_its_end_is_counted_only),
	};
#undef TEST

	return netns_enter_new() < 0 ? 77 : cmocka_run_group_tests(tests, NULL, NULL);
}
