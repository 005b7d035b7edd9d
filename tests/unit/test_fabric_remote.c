/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What two machines of one fabric send each other: keys, the control connection, datagrams, and
 * what a hostile peer makes of these.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arith.h"
#include "fabricd/remote/remote_address.h"
#include "fabricd/remote/remote_control.h"
#include "fabricd/remote/remote_datagram.h"
#include "wire/bytes.h"

enum { FRAME_BYTES = 4000, MS = 1000000 };

/* --- keys --- */

static int key_read(const char *text, mode_t mode, struct remote_key *ret_key, char *why)
{
	char path[] = "/tmp/urnic-unit-key.XXXXXX";
	int fd = mkstemp(path), rc;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	rc = remote_key_read(path, ret_key, why);
	unlink(path);
	return rc;
}

/* One byte more than a key may have. */
static const char *long_text(void)
{
	static char text[REMOTE_KEY_BYTES_MAX + 2];

	memset(text, 'k', sizeof(text) - 1);
	return text;
}

static void key_that_others_may_read_or_that_is_short_is_refused(void **state)
{
	char why[ATTACH_TEXT_BYTES];
	struct remote_key key;

	(void)state;
	assert_int_equal(key_read("0123456789abcdef\r\n\n", 0600, &key, why), 0);
	assert_int_equal(key.count, 16);
	assert_int_equal(key_read("0123456789abcdef", 0640, &key, why), -EPERM);
	assert_non_null(strstr(why, "chmod 600"));
	assert_int_equal(key_read("0123456789abcdef", 0602, &key, why), -EPERM);
	assert_int_equal(key_read("0123456789abcde\n", 0600, &key, why), -EINVAL);
	assert_non_null(strstr(why, "16 bytes or more, and this one has 15"));
	assert_int_equal(remote_key_read("/no/such", &key, why), -ENOENT);
	assert_int_equal(remote_key_read("/dev/null", &key, why), -EINVAL);
	assert_non_null(strstr(why, "regular file of 16 to 4096 bytes"));
	assert_int_equal(key_read(long_text(), 0600, &key, why), -EFBIG);
	assert_non_null(strstr(why, "regular file of 16 to 4096 bytes"));
}

static void key_of_a_test(struct remote_key *key, uint8_t value)
{
	memset(key->bytes, value, 32);
	key->count = 32;
}

static void address_is_a_name_with_or_without_a_port(void **state)
{
	static const struct {
		const char *text;
		int family;
		uint16_t port;
	} rows[] = {
		{"10.0.0.1", AF_INET, REMOTE_PORT_DEFAULT},
		{"10.0.0.1:7", AF_INET, 7},
		{"fd00::1", AF_INET6, REMOTE_PORT_DEFAULT},
		{"[fd00::1]", AF_INET6, REMOTE_PORT_DEFAULT},
		{"[fd00::1]:65535", AF_INET6, 65535},
	};
	static const char *const wrong[] = {"", ":1", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536",
		"10.0.0.1:x", "[fd00::1", "[fd00::1]7", "[]:1", "10.0.0.1:000000000000000007"};
	struct remote_address address;
	char why[ATTACH_TEXT_BYTES];

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		const struct sockaddr_storage *socket = &address.socket;
		uint16_t port;

		assert_int_equal(remote_address_find(rows[i].text, &address, why), 0);
		assert_int_equal(socket->ss_family, rows[i].family);
		memcpy(&port, (const uint8_t *)socket + 2, sizeof(port));
		assert_int_equal(be16toh(port), rows[i].port);
	}
	for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
		*why = '\0';
		assert_int_equal(remote_address_find(wrong[i], &address, why), -EINVAL);
		assert_true(*why);
	}
}

/* --- the control connection --- */

static struct {
	struct remote_key keys[2];
	struct remote_control ends[2]; /* joiner, listener */
	int sockets[2];
} control_;

/* The ends have a pair of sockets. A test at one end reads and writes what the other one does. */
static void control_begin(uint8_t joiner_key, uint8_t listener_key)
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, control_.sockets), 0);
	key_of_a_test(&control_.keys[0], joiner_key);
	key_of_a_test(&control_.keys[1], listener_key);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(remote_control_init(&control_.ends[i], control_.sockets[i], i == 0,
					 &control_.keys[i]),
			0);
}

static void control_end(void)
{
	for (unsigned i = 0; i < 2; i++)
		remote_control_done(&control_.ends[i]);
}

/* Let both ends receive until nothing moves. Returns the first error; ret_message is the last. */
static int control_run(struct remote_message *ret_message)
{
	int rc = 0;

	for (unsigned i = 0; i < 8 && rc >= 0; i++)
		rc = remote_control_receive(&control_.ends[i % 2], ret_message);
	return rc;
}

static void control_open(void)
{
	struct remote_message message;

	control_begin(1, 1);
	assert_int_equal(control_run(&message), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(control_.ends[i].state, REMOTE_CONTROL_OPEN);
}

static void both_ends_with_the_key_open_the_connection(void **state)
{
	struct remote_writer writer = {.bytes = REMOTE_BODY_BYTES_MAX};
	struct remote_message message;

	(void)state;
	control_open();
	memset(writer.body, 7, sizeof(writer.body));
	for (unsigned i = 0; i < 200; i++) {
		const unsigned from = i % 2;

		writer.bytes = i * 40;
		assert_int_equal(remote_control_send(&control_.ends[from], 1 + i % 9, &writer), 0);
		assert_int_equal(remote_control_receive(&control_.ends[!from], &message), 1);
		assert_int_equal(message.type, 1 + i % 9);
		assert_int_equal(message.bytes, i * 40);
		assert_memory_equal(message.body, writer.body, message.bytes);
	}
	control_end();
}

static void end_with_another_key_is_rejected_by_the_listener(void **state)
{
	struct remote_message message;

	(void)state;
	control_begin(1, 2);
	assert_int_equal(control_run(&message), -EKEYREJECTED);
	assert_int_equal(control_.ends[1].state, REMOTE_CONTROL_PROOF);
	/* It has proved nothing to the joiner, and sends nothing. */
	assert_int_equal(remote_control_receive(&control_.ends[0], &message), 0);
	assert_int_equal(remote_control_send(&control_.ends[0], REMOTE_ALIVE, NULL), -ENOTCONN);
	control_end();
}

static void end_of_another_version_is_refused(void **state)
{
	uint8_t greeting[28] = "urnicIB\n";
	struct remote_message message;

	(void)state;
	for (unsigned wrong = 0; wrong < 12; wrong++) {
		control_begin(1, 1);
		put_be32(greeting + 8, REMOTE_VERSION);
		greeting[wrong] ^= 1;
		remote_control_done(&control_.ends[0]);
		control_end();
		assert_int_equal(
			socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, control_.sockets), 0);
		assert_int_equal(remote_control_init(&control_.ends[1], control_.sockets[1], false,
					 &control_.keys[1]),
			0);
		assert_int_equal(
			write(control_.sockets[0], greeting, sizeof(greeting)), sizeof(greeting));
		assert_int_equal(
			remote_control_receive(&control_.ends[1], &message), -EPROTONOSUPPORT);
		greeting[wrong] ^= 1;
		close(control_.sockets[0]);
		remote_control_done(&control_.ends[1]);
	}
}

/* The bytes of one message of the joiner, which the listener has not received. */
static uint32_t message_catch(uint8_t *bytes, uint32_t room)
{
	struct remote_writer writer = {.body = "a body", .bytes = 7};
	ssize_t count;

	assert_int_equal(remote_control_send(&control_.ends[0], REMOTE_FRAME, &writer), 0);
	count = read(control_.sockets[1], bytes, room);
	assert_int_equal(count, REMOTE_HEADER_BYTES + 7);
	return (uint32_t)count;
}

static void message_that_is_changed_repeated_or_left_out_ends_the_connection(void **state)
{
	struct remote_message message;
	uint8_t bytes[64];
	uint32_t count;

	(void)state;
	for (uint32_t wrong = 0; wrong < REMOTE_HEADER_BYTES + 7; wrong++) {
		int rc;

		control_open();
		count = message_catch(bytes, sizeof(bytes));
		bytes[wrong] ^= 0x10;
		assert_int_equal(write(control_.sockets[0], bytes, count), count);
		rc = remote_control_receive(&control_.ends[1], &message);
		/* A length that is greater makes it wait for more bytes, which no message has. */
		assert_true(rc == -EBADMSG || (rc == 0 && wrong >= 8 && wrong < 12));
		control_end();
	}
	control_open();
	count = message_catch(bytes, sizeof(bytes));
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(write(control_.sockets[0], bytes, count), count);
		assert_int_equal(
			remote_control_receive(&control_.ends[1], &message), i ? -EBADMSG : 1);
	}
	control_end();
	control_open();
	message_catch(bytes, sizeof(bytes));
	count = message_catch(bytes, sizeof(bytes));
	assert_int_equal(write(control_.sockets[0], bytes, count), count);
	assert_int_equal(remote_control_receive(&control_.ends[1], &message), -EBADMSG);
	control_end();
}

static void message_may_come_in_single_bytes(void **state)
{
	struct remote_message message;
	uint8_t bytes[64];
	uint32_t count;

	(void)state;
	control_open();
	count = message_catch(bytes, sizeof(bytes));
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(write(control_.sockets[0], bytes + i, 1), 1);
		assert_int_equal(
			remote_control_receive(&control_.ends[1], &message), i + 1 == count);
	}
	assert_string_equal(message.body, "a body");
	control_end();
}

static void peer_that_takes_nothing_costs_limited_memory(void **state)
{
	struct remote_writer writer = {.bytes = REMOTE_BODY_BYTES_MAX};
	struct remote_message message;
	uint64_t sent = 0, received = 0;
	int rc;

	(void)state;
	control_open();
	while ((rc = remote_control_send(&control_.ends[0], REMOTE_FRAME, &writer)) == 0)
		assert_true(++sent < 10000);
	assert_int_equal(rc, -ENOBUFS);
	for (rc = 1; rc > 0 || !remote_control_is_flushed(&control_.ends[0]);) {
		assert_int_equal(remote_control_flush(&control_.ends[0]), 0);
		rc = remote_control_receive(&control_.ends[1], &message);
		assert_true(rc >= 0);
		received += (uint64_t)rc;
	}
	assert_int_equal(received, sent);
	control_end();
}

static void message_of_type_0_ends_the_connection(void **state)
{
	struct remote_message message;

	(void)state;
	control_open();
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(remote_control_send(&control_.ends[0], 0, NULL), 0);
	assert_int_equal(remote_control_receive(&control_.ends[1], &message), -EBADMSG);
	assert_int_equal(control_.ends[1].received, 0);
	control_end();
}

/* --- messages --- */

static struct remote_message message_of(const struct remote_writer *writer)
{
	return (struct remote_message){.body = writer->body, .bytes = writer->bytes};
}

static void body_that_is_longer_or_shorter_is_refused(void **state)
{
	struct attach_port info = {.lid = 5,
				   .state = 4,
				   .mtu = 5,
				   .mtu_max = 5,
				   .guid_count = 1,
				   .pkey_count = ATTACH_PKEYS_MAX,
				   .pkeys = {0xffff, 1},
				   .guids = {9}},
			   port;
	struct remote_place place = {.host = 3, .port = 2}, found;
	struct remote_message message;
	struct remote_writer writer, again;
	uint32_t bytes;

	(void)state;
	remote_port_encode(&writer, &place, &info);
	message = message_of(&writer);
	assert_true(remote_port_decode(&message, &found, &port));
	remote_port_encode(&again, &place, &port);
	assert_int_equal(again.bytes, writer.bytes);
	assert_memory_equal(again.body, writer.body, writer.bytes);
	assert_int_equal(found.host, 3);
	assert_int_equal(found.port, 2);
	bytes = message.bytes;
	for (message.bytes = 0; message.bytes < bytes + 2; message.bytes++)
		assert_int_equal(
			remote_port_decode(&message, &found, &port), message.bytes == bytes);
}

static bool port_is_taken(const struct attach_port *info)
{
	const struct remote_place place = {.port = 1};
	struct remote_place found;
	struct remote_message message;
	struct remote_writer writer;
	struct attach_port port;

	remote_port_encode(&writer, &place, info);
	message = message_of(&writer);
	return remote_port_decode(&message, &found, &port);
}

static void port_that_cannot_be_is_refused(void **state)
{
	const struct attach_port legal = {.state = 4, .mtu = 5, .mtu_max = 5, .guid_count = 8};
	struct attach_port port = legal;

	(void)state;
	assert_true(port_is_taken(&port));
#define WRONG(name, value)                          \
	do {                                        \
		port = legal;                       \
		port.name = value;                  \
		assert_false(port_is_taken(&port)); \
	} while (0)
	WRONG(state, 0);
	WRONG(state, 5);
	WRONG(mtu, 0);
	WRONG(mtu, 6);
	WRONG(mtu_max, 6);
	WRONG(guid_count, 0);
	WRONG(guid_count, 9);
	WRONG(pkey_count, ATTACH_PKEYS_MAX + 1);
	WRONG(lmc, 8);
	WRONG(sm_sl, 16);
#undef WRONG
}

static void joining_names_hosts_in_printable_characters(void **state)
{
	static struct remote_join join = {.window = 9, .udp_port = 7, .host_count = 2}, found;
	struct remote_message message;
	struct remote_writer writer;

	(void)state;
	snprintf(join.hosts[0], ATTACH_NAME_BYTES, "host 1");
	snprintf(join.hosts[1], ATTACH_NAME_BYTES, "a\x1b[2Jb");
	remote_join_encode(&writer, &join);
	message = message_of(&writer);
	assert_true(remote_join_decode(&message, &found));
	assert_string_equal(found.hosts[0], "host 1");
	assert_string_equal(found.hosts[1], "a?[2Jb");
	memset(writer.body + 6, 'x', ATTACH_NAME_BYTES);
	assert_true(remote_join_decode(&message, &found));
	assert_int_equal(strlen(found.hosts[0]), ATTACH_NAME_BYTES - 1);
	put_be16(writer.body + 4, REMOTE_HOSTS_MAX + 1);
	assert_false(remote_join_decode(&message, &found));
	put_be16(writer.body + 4, 0);
	assert_false(remote_join_decode(&message, &found));
}

/* --- datagrams --- */

static struct remote_datagrams sender, receiver;
static uint8_t frame_[FRAME_BYTES];

static int datagrams_begin(void **state)
{
	(void)state;
	sender = (struct remote_datagrams){
		.session = 5, .own = {{1, 2}}, .peer = {{3, 4}}, .bytes_max = 1500, .window = 20};
	receiver = (struct remote_datagrams){
		.session = 5, .own = {{3, 4}}, .peer = {{1, 2}}, .bytes_max = 1500, .window = 20};
	for (unsigned i = 0; i < FRAME_BYTES; i++)
		frame_[i] = (uint8_t)(i * 7 + i / 256);
	return 0;
}

/* Write the part from `offset`; returns the length of the datagram. */
static uint32_t part_write(uint8_t to[DATAGRAM_BYTES_MAX], uint32_t offset)
{
	const struct remote_frame frame = {
		.place = {.host = 2, .port = 1}, .bytes = frame_, .count = FRAME_BYTES};
	const uint32_t count = min_u32(1000, FRAME_BYTES - offset);

	datagram_begin(&sender, &frame, offset, count, to);
	return DATAGRAM_HEADER_BYTES + count;
}

/* Send the parts of one frame but `lost`. Returns whether the receiver has a whole frame. */
static bool frame_pass(uint32_t lost)
{
	uint8_t bytes[DATAGRAM_BYTES_MAX];
	struct remote_frame frame;
	bool is_whole = false;

	for (uint32_t i = 0; i < 4; i++) {
		const uint32_t count = part_write(bytes, 1000 * i);

		if (i != lost)
			is_whole |= datagram_take(&receiver, bytes, count, MS, &frame);
	}
	if (is_whole) {
		assert_int_equal(frame.count, FRAME_BYTES);
		assert_memory_equal(frame.bytes, frame_, FRAME_BYTES);
		assert_int_equal(frame.place.host, 2);
		assert_int_equal(frame.place.port, 1);
	}
	return is_whole;
}

static void frame_is_whole_if_all_its_parts_come(void **state)
{
	(void)state;
	assert_true(frame_pass(4));
	for (uint32_t lost = 0; lost < 4; lost++) {
		assert_false(frame_pass(lost));
		assert_true(frame_pass(4));
		assert_int_equal(receiver.drops.partial, lost + 1);
	}
	assert_int_equal(
		receiver.drops.late + receiver.drops.foreign + receiver.drops.malformed, 0);
}

/* The end of one frame and the beginning of the next are lost, so that the rest fits. */
static void parts_around_a_gap_are_not_put_together(void **state)
{
	uint8_t bytes[DATAGRAM_BYTES_MAX];
	struct remote_frame frame;
	uint32_t count = part_write(bytes, 0);

	(void)state;
	assert_false(datagram_take(&receiver, bytes, count, MS, &frame));
	part_write(bytes, 1000);
	part_write(bytes, 0);
	for (uint32_t i = 1; i < 4; i++) {
		count = part_write(bytes, 1000 * i);
		assert_false(datagram_take(&receiver, bytes, count, MS, &frame));
		assert_int_equal(receiver.filled, 0);
	}
	assert_true(frame_pass(4));
}

static void datagram_that_comes_again_or_late_is_dropped(void **state)
{
	uint8_t early[DATAGRAM_BYTES_MAX], late[DATAGRAM_BYTES_MAX];
	struct remote_frame frame;
	uint32_t count = part_write(early, 0);

	(void)state;
	part_write(late, 0);
	assert_false(datagram_take(&receiver, late, count, MS, &frame));
	assert_false(datagram_take(&receiver, early, count, MS, &frame));
	assert_false(datagram_take(&receiver, late, count, MS, &frame));
	assert_int_equal(receiver.drops.late, 2);
	assert_true(frame_pass(4));
}

static void datagram_with_any_changed_bit_is_dropped(void **state)
{
	uint8_t bytes[DATAGRAM_BYTES_MAX];
	const uint32_t count = part_write(bytes, 0);
	struct remote_frame frame;

	(void)state;
	for (uint32_t bit = 0; bit < 8 * count; bit += 3) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_false(datagram_take(&receiver, bytes, count, MS, &frame));
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(receiver.received, 0);
	assert_int_equal(receiver.filled, 0);
	assert_true(receiver.drops.foreign > 0);
	/* Its own datagrams, reflected, have another key. */
	assert_false(datagram_take(&sender, bytes, count, MS, &frame));
	assert_int_equal(sender.drops.foreign, 1);
	assert_false(datagram_take(&receiver, bytes, count, MS, &frame));
	assert_int_equal(receiver.received, 1);
}

/* A peer that has the key, and lies. */
static void datagram_with_impossible_lengths_is_dropped(void **state)
{
	static const struct {
		uint16_t offset;
		uint16_t total;
		uint32_t count;
	} wrong[] = {
		{0, 4000, 0}, /* no part */
		{0, 0, 5}, /* a part of nothing */
		{4000, 4000, 1},
		{3999, 4000, 2},
		{65535, 4000, 1},
		{0, 4000, 4001},
		{0, ATTACH_FRAME_BYTES_MAX + 1, 10},
		{0, 65535, 10},
		{0, ATTACH_FRAME_BYTES_MIN - 1, 10},
	};
	uint8_t bytes[DATAGRAM_BYTES_MAX];
	struct remote_frame frame;

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
		part_write(bytes, 0);
		put_be16(bytes + 32, wrong[i].offset);
		put_be16(bytes + 34, wrong[i].total);
		put_be64(bytes,
			siphash(&sender.own, bytes + 8,
				DATAGRAM_HEADER_BYTES - 8 + wrong[i].count));
		assert_false(datagram_take(
			&receiver, bytes, DATAGRAM_HEADER_BYTES + wrong[i].count, MS, &frame));
		assert_int_equal(receiver.drops.malformed, i + 1);
	}
	for (uint32_t count = 0; count < DATAGRAM_HEADER_BYTES; count++)
		assert_false(datagram_take(&receiver, bytes, count, MS, &frame));
	assert_false(datagram_take(&receiver, bytes, DATAGRAM_BYTES_MAX + 1, MS, &frame));
	assert_int_equal(receiver.filled, 0);
	assert_true(frame_pass(4));
}

/* The parts of two frames, whose headers differ. */
static void parts_of_different_frames_are_not_put_together(void **state)
{
	static const uint32_t offsets[] = {13, 14, 15, 35};
	uint8_t bytes[DATAGRAM_BYTES_MAX];
	struct remote_frame frame;

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(offsets); i++) {
		uint32_t count = part_write(bytes, 0);

		assert_false(datagram_take(&receiver, bytes, count, MS, &frame));
		count = part_write(bytes, 1000);
		bytes[offsets[i]] ^= 1;
		put_be64(bytes, siphash(&sender.own, bytes + 8, count - 8));
		assert_false(datagram_take(&receiver, bytes, count, MS, &frame));
		assert_int_equal(receiver.filled, 0);
	}
}

static void sender_waits_for_credits_and_takes_silence_for_loss(void **state)
{
	uint8_t bytes[DATAGRAM_BYTES_MAX];
	const struct remote_frame nothing = {0};
	struct remote_frame frame;
	uint32_t frames = 0;

	(void)state;
	while (datagram_has_room(&sender)) {
		assert_true(frame_pass(4));
		frames++;
	}
	assert_int_equal(frames, 5);
	assert_true(datagram_is_due(&receiver));
	datagram_begin(&receiver, &nothing, 0, 0, bytes);
	assert_false(datagram_is_due(&receiver));
	assert_false(datagram_take(&sender, bytes, DATAGRAM_HEADER_BYTES, MS, &frame));
	assert_true(datagram_has_room(&sender));
	while (datagram_has_room(&sender))
		frame_pass(4);
	datagram_expire(&sender, 2 * MS);
	datagram_expire(&sender, 2 * MS + CREDIT_LOSS_NS - 1);
	assert_false(datagram_has_room(&sender));
	datagram_expire(&sender, 2 * MS + CREDIT_LOSS_NS);
	assert_true(datagram_has_room(&sender));
	/* A peer may not have received what was not sent. */
	receiver.received = sender.sent + 100;
	datagram_begin(&receiver, &nothing, 0, 0, bytes);
	datagram_take(&sender, bytes, DATAGRAM_HEADER_BYTES, MS, &frame);
	assert_true(sender.acknowledged <= sender.sent);
}

/* The joiner looks every 50 ms, and the burst comes just before a look. */
static void burst_after_an_idle_time_is_not_taken_for_lost(void **state)
{
	const uint64_t look_ns = CREDIT_LOSS_NS;
	uint64_t now_ns = MS;

	(void)state;
	for (unsigned i = 0; i < 20; i++)
		datagram_expire(&sender, now_ns += look_ns);
	assert_int_equal(sender.acknowledged, 0);
	while (datagram_has_room(&sender))
		frame_pass(4);
	datagram_expire(&sender, now_ns += look_ns);
	assert_false(datagram_has_room(&sender));
	datagram_expire(&sender, now_ns += look_ns);
	assert_true(datagram_has_room(&sender));
	/* The same at the next full window. */
	datagram_expire(&sender, now_ns += look_ns);
	while (datagram_has_room(&sender))
		frame_pass(4);
	datagram_expire(&sender, now_ns += look_ns);
	assert_false(datagram_has_room(&sender));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key_that_others_may_read_or_that_is_short_is_refused),
		cmocka_unit_test(address_is_a_name_with_or_without_a_port),
		cmocka_unit_test(both_ends_with_the_key_open_the_connection),
		cmocka_unit_test(end_with_another_key_is_rejected_by_the_listener),
		cmocka_unit_test(end_of_another_version_is_refused),
		cmocka_unit_test(message_that_is_changed_repeated_or_left_out_ends_the_connection),
		cmocka_unit_test(message_may_come_in_single_bytes),
		cmocka_unit_test(peer_that_takes_nothing_costs_limited_memory),
		cmocka_unit_test(message_of_type_0_ends_the_connection),
		cmocka_unit_test(body_that_is_longer_or_shorter_is_refused),
		cmocka_unit_test(port_that_cannot_be_is_refused),
		cmocka_unit_test(joining_names_hosts_in_printable_characters),
		cmocka_unit_test_setup(frame_is_whole_if_all_its_parts_come, datagrams_begin),
		cmocka_unit_test_setup(parts_around_a_gap_are_not_put_together, datagrams_begin),
		cmocka_unit_test_setup(
			datagram_that_comes_again_or_late_is_dropped, datagrams_begin),
		cmocka_unit_test_setup(datagram_with_any_changed_bit_is_dropped, datagrams_begin),
		cmocka_unit_test_setup(
			datagram_with_impossible_lengths_is_dropped, datagrams_begin),
		cmocka_unit_test_setup(
			parts_of_different_frames_are_not_put_together, datagrams_begin),
		cmocka_unit_test_setup(
			sender_waits_for_credits_and_takes_silence_for_loss, datagrams_begin),
		cmocka_unit_test_setup(
			burst_after_an_idle_time_is_not_taken_for_lost, datagrams_begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
