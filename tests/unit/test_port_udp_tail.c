/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An acknowledgement in the super-packet of the requests that leave behind it
 * (port/udp/udp_tail.c): the port delivers the acknowledgement first in each case.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <string.h>

#include "support/udp_ends.h"
#include "wire/opcode.h"

enum { ACK_BYTES = 16, SEND_BYTES = 20, COPIES_MAX = 4, SEEN_MAX = 64 };

/* What an end has received, in its order. */
static struct seen {
	uint32_t count;
	uint8_t opcode[SEEN_MAX];
	uint32_t bytes[SEEN_MAX];
	bool is_wrong;
} seen;

static uint32_t path_ab, path_ba;

static void ends_open(void)
{
	udp_ends_open("127.0.0.1", "127.0.0.2");
	path_ab = udp_path_to(&udp_a, &udp_b, 0, 0);
	path_ba = udp_path_to(&udp_b, &udp_a, 0, 0);
	memset(&seen, 0, sizeof(seen));
}

static void stage(struct udp_end *end, uint32_t path, enum opcode opcode, uint32_t bytes)
{
	uint32_t capacity;
	uint8_t *buffer = port_udp_buffer(end->port, &capacity);

	assert_true(capacity >= bytes);
	memset(buffer, opcode, bytes);
	port_udp_stage(end->port, path, bytes);
}

static bool on_packet(void *context, const struct port_udp_packet *packet)
{
	(void)context;
	assert_true(seen.count < SEEN_MAX);
	for (uint32_t i = 0; i < packet->data_bytes; i++)
		seen.is_wrong |= packet->data[i] != packet->data[0];
	seen.opcode[seen.count] = packet->data[0];
	seen.bytes[seen.count++] = packet->data_bytes;
	return true;
}

/* Have `end` receive until `count` packets have come. */
static void receive(struct udp_end *end, uint32_t count)
{
	struct pollfd fds[PORT_UDP_FDS_MAX];

	memset(&seen, 0, sizeof(seen));
	while (seen.count < count) {
		if (poll(fds, port_udp_fds(end->port, fds), UDP_WAIT_MS) <= 0)
			break;
		port_udp_receive(end->port, on_packet, NULL);
	}
	assert_int_equal(seen.count, count);
	assert_false(seen.is_wrong);
	assert_int_equal(end->counters.rx_bad_icrc, 0);
}

/* Send what was staged; it travels in so many datagrams. */
static void flush(struct udp_end *end, uint64_t datagrams)
{
	uint64_t before = end->counters.tx_datagrams;

	assert_int_equal(port_udp_flush(end->port), 0);
	assert_int_equal(end->counters.tx_datagrams - before, datagrams);
}

/* Have tails come to both. */
static void learn(void)
{
	stage(&udp_a, path_ab, OPCODE_RC_ACKNOWLEDGE, ACK_BYTES);
	stage(&udp_a, path_ab, OPCODE_RC_SEND_ONLY, SEND_BYTES);
	flush(&udp_a, 2);
	receive(&udp_b, 3);
	stage(&udp_b, path_ba, OPCODE_RC_ACKNOWLEDGE, ACK_BYTES);
	stage(&udp_b, path_ba, OPCODE_RC_SEND_ONLY, SEND_BYTES);
	flush(&udp_b, 1);
	receive(&udp_a, 2);
}

static void ack_to_an_unknown_host_leaves_first_with_a_copy_as_the_tail(void **state)
{
	(void)state;
	ends_open();
	stage(&udp_a, path_ab, OPCODE_RC_ACKNOWLEDGE, ACK_BYTES);
	stage(&udp_a, path_ab, OPCODE_RC_SEND_ONLY, SEND_BYTES);
	flush(&udp_a, 2);
	receive(&udp_b, 3);
	assert_int_equal(seen.opcode[0], OPCODE_RC_ACKNOWLEDGE);
	assert_int_equal(seen.opcode[1], OPCODE_RC_ACKNOWLEDGE);
	assert_int_equal(seen.opcode[2], OPCODE_RC_SEND_ONLY);
}

static void ack_to_a_host_that_sends_no_tails_gets_few_copies(void **state)
{
	(void)state;
	ends_open();
	for (uint32_t i = 0; i < 3 * COPIES_MAX; i++) {
		stage(&udp_a, path_ab, OPCODE_RC_ACKNOWLEDGE, ACK_BYTES);
		stage(&udp_a, path_ab, OPCODE_RC_SEND_ONLY, SEND_BYTES);
		flush(&udp_a, 2);
		receive(&udp_b, i < COPIES_MAX ? 3 : 2);
		assert_int_equal(seen.opcode[0], OPCODE_RC_ACKNOWLEDGE);
		assert_int_equal(seen.opcode[seen.count - 1], OPCODE_RC_SEND_ONLY);
	}
}

static void ack_to_a_host_that_sends_tails_is_one(void **state)
{
	(void)state;
	ends_open();
	learn();
	assert_int_equal(seen.opcode[0], OPCODE_RC_ACKNOWLEDGE);
	assert_int_equal(seen.opcode[1], OPCODE_RC_SEND_ONLY);
	/* Several requests of one size, of XRC, and something behind them. */
	stage(&udp_a, path_ab, OPCODE_XRC_ACKNOWLEDGE, ACK_BYTES);
	for (uint32_t i = 0; i < 5; i++)
		stage(&udp_a, path_ab, OPCODE_RC_SEND_MIDDLE, 1012);
	stage(&udp_a, path_ab, OPCODE_RC_SEND_LAST, 100);
	flush(&udp_a, 2);
	receive(&udp_b, 7);
	assert_int_equal(seen.opcode[0], OPCODE_XRC_ACKNOWLEDGE);
	for (uint32_t i = 1; i < 6; i++)
		assert_int_equal(seen.opcode[i], OPCODE_RC_SEND_MIDDLE);
	assert_int_equal(seen.opcode[6], OPCODE_RC_SEND_LAST);
}

static void ack_of_a_super_packet_with_a_short_end_leaves_first(void **state)
{
	(void)state;
	ends_open();
	learn();
	stage(&udp_a, path_ab, OPCODE_RC_ACKNOWLEDGE, ACK_BYTES);
	stage(&udp_a, path_ab, OPCODE_RC_SEND_FIRST, 1012);
	stage(&udp_a, path_ab, OPCODE_RC_SEND_LAST, 100);
	flush(&udp_a, 2);
	receive(&udp_b, 3);
	assert_int_equal(seen.opcode[0], OPCODE_RC_ACKNOWLEDGE);
	assert_int_equal(seen.opcode[1], OPCODE_RC_SEND_FIRST);
}

static void ack_and_an_empty_request_keep_their_order(void **state)
{
	(void)state;
	ends_open();
	learn();
	stage(&udp_a, path_ab, OPCODE_RC_ACKNOWLEDGE, ACK_BYTES);
	stage(&udp_a, path_ab, OPCODE_RC_SEND_ONLY, 12);
	flush(&udp_a, 1);
	receive(&udp_b, 2);
	assert_int_equal(seen.opcode[0], OPCODE_RC_ACKNOWLEDGE);
}

/* A response in front of an acknowledgement is to stay there. */
static void ack_behind_a_response_stays_behind_it(void **state)
{
	(void)state;
	ends_open();
	learn();
	stage(&udp_a, path_ab, OPCODE_RC_READ_RESPONSE_ONLY, 100);
	stage(&udp_a, path_ab, OPCODE_RC_ACKNOWLEDGE, ACK_BYTES);
	flush(&udp_a, 1);
	receive(&udp_b, 2);
	assert_int_equal(seen.opcode[0], OPCODE_RC_READ_RESPONSE_ONLY);
	stage(&udp_a, path_ab, OPCODE_RC_ACKNOWLEDGE, ACK_BYTES);
	stage(&udp_a, path_ab, OPCODE_RC_READ_RESPONSE_ONLY, 100);
	flush(&udp_a, 2);
	receive(&udp_b, 2);
	assert_int_equal(seen.opcode[0], OPCODE_RC_ACKNOWLEDGE);
}

static void ack_of_requests_with_borrowed_payloads_is_their_tail(void **state)
{
	uint8_t borrowed[3 * 1000], *buffer;
	uint32_t capacity;

	(void)state;
	ends_open();
	learn();
	stage(&udp_a, path_ab, OPCODE_RC_ACKNOWLEDGE, ACK_BYTES);
	buffer = port_udp_buffer(udp_a.port, &capacity);
	memset(buffer, OPCODE_RC_WRITE_MIDDLE, 3 * 1016);
	memset(borrowed, OPCODE_RC_WRITE_MIDDLE, sizeof(borrowed));
	port_udp_stage_run(udp_a.port, 1012,
		&(struct packet_run){.packets = 3,
			.path = path_ab,
			.borrowed_bytes = 1000,
			.borrowed = borrowed});
	flush(&udp_a, 1);
	receive(&udp_b, 4);
	assert_int_equal(seen.opcode[0], OPCODE_RC_ACKNOWLEDGE);
	for (uint32_t i = 1; i < 4; i++)
		assert_int_equal(seen.bytes[i], 1012);
}

#define TEST(name) cmocka_unit_test_teardown(name, udp_ends_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ack_to_an_unknown_host_leaves_first_with_a_copy_as_the_tail),
		TEST(ack_to_a_host_that_sends_no_tails_gets_few_copies),
		TEST(ack_to_a_host_that_sends_tails_is_one),
		TEST(ack_of_a_super_packet_with_a_short_end_leaves_first),
		TEST(ack_and_an_empty_request_keep_their_order),
		TEST(ack_behind_a_response_stays_behind_it),
		TEST(ack_of_requests_with_borrowed_payloads_is_their_tail),
	};

	if (!udp_ends_enter())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
