/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A machine of a fabric that has the key and sends anything: bodies of messages, and datagrams. The
 * receiver takes what is whole, and reads nothing beyond it.
 *
 * The first byte chooses. A body follows, or steps of STEP_BYTES bytes, each of which makes the
 * header of a datagram. Most datagrams have the right tag.
 */
#include <stdlib.h>
#include <string.h>

#include "fabricd/remote/remote_datagram.h"
#include "fabricd/remote/remote_message.h"
#include "wire/bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	STEP_BYTES = 12,
	AT_NUMBER = 16,
	AT_TOTAL = 34,
	SESSION = 0x01020304,
};

static const struct siphash_key sender_key = {{11, 12}};

static void require(bool is_so)
{
	if (!is_so)
		abort();
}

/* --- messages --- */

/* What was decoded is encoded to the same bytes again. */
static void encoded_again(const struct remote_message *message, const struct remote_writer *writer)
{
	require(writer->bytes == message->bytes);
	require(memcmp(writer->body, message->body, message->bytes) == 0);
}

static void ports_decode(const struct remote_message *message, struct remote_writer *writer)
{
	struct attach_counters counters;
	struct remote_place place;
	struct attach_port port;
	uint8_t fact;

	if (remote_port_decode(message, &place, &port)) {
		require(port.pkey_count <= ATTACH_PKEYS_MAX && port.guid_count <= ATTACH_GUIDS_MAX);
		remote_port_encode(writer, &place, &port);
		encoded_again(message, writer);
	}
	if (remote_counters_decode(message, &place, &counters)) {
		remote_counters_encode(writer, &place, &counters);
		encoded_again(message, writer);
	}
	if (remote_fact_decode(message, &place, &fact)) {
		remote_fact_encode(writer, &place, fact);
		encoded_again(message, writer);
	}
}

static void messages_decode(const uint8_t *data, size_t size)
{
	const struct remote_message message = {.body = data, .bytes = (uint32_t)size};
	static struct remote_welcome welcome;
	static struct remote_writer writer;
	static struct remote_join join;
	char why[ATTACH_TEXT_BYTES];
	struct remote_place place;
	const uint8_t *frame;
	uint32_t bytes;
	int error;

	ports_decode(&message, &writer);
	if (remote_join_decode(&message, &join)) {
		require(join.host_count <= REMOTE_HOSTS_MAX);
		for (uint32_t i = 0; i < join.host_count; i++)
			require(strlen(join.hosts[i]) < ATTACH_NAME_BYTES);
	}
	if (remote_welcome_decode(&message, &welcome))
		for (uint32_t i = 0; i < welcome.host_count; i++)
			require(welcome.hosts[i].port_count <= REMOTE_PORTS_MAX);
	if (remote_refusal_decode(&message, &error, why))
		require(error >= 0 && strlen(why) < sizeof(why));
	if (remote_frame_decode(&message, &place, &frame, &bytes)) {
		require(frame + bytes == data + size && bytes <= ATTACH_FRAME_BYTES_MAX);
		remote_frame_is_management(frame, bytes);
	}
}

/* The input as a body, or as the beginning of one that has the length of some message. */
static void body_decode(uint32_t choice, const uint8_t *data, size_t size)
{
	const size_t hosts = choice / 4 % 8 + 1;
	const size_t lengths[] = {
		choice & 32 ? 171 : size, 367, 6 + hosts * ATTACH_NAME_BYTES, 8 + hosts * 89};
	const size_t bytes = lengths[choice % 4];
	uint8_t *body = calloc(1, bytes ? bytes : 1);

	require(body != NULL);
	memcpy(body, data, size < bytes ? size : bytes);
	messages_decode(body, bytes);
	free(body);
}

/* --- datagrams --- */

static struct remote_datagrams receiver;

static void frame_check(const struct remote_frame *frame)
{
	static volatile uint8_t sum;

	require(frame->count >= ATTACH_FRAME_BYTES_MIN && frame->count <= ATTACH_FRAME_BYTES_MAX);
	require(!(frame->violation & ~(uint32_t)ATTACH_RECORD_VIOLATIONS));
	for (uint32_t k = 0; k < frame->count; k++)
		sum = sum ^ frame->bytes[k];
}

/*
 * The datagram has exactly its bytes, so that ASan sees an access beyond them. Most continue the
 * frame before them, or begin one.
 */
static void datagram_pass(const uint8_t *step, uint64_t *number)
{
	const bool continues = receiver.filled && step[8] & 1;
	const uint32_t next = continues ? receiver.total : 1200;
	const uint32_t total = step[8] & 2 ? next : get_be16(step + 10);
	const bool is_last = continues && step[8] & 4;
	const uint32_t part = is_last ? receiver.total - receiver.filled : get_be16(step) & 0x3ffu;
	const uint32_t begin = step[8] & 8 ? 0 : get_be16(step + 9);
	const uint32_t count = DATAGRAM_HEADER_BYTES + part;
	struct remote_frame frame;
	uint8_t *bytes = calloc(1, count);

	require(bytes != NULL);
	memset(bytes + DATAGRAM_HEADER_BYTES, step[2], part);
	put_be32(bytes + 8, SESSION);
	bytes[13] = step[3] > 240;
	bytes[14] = (uint8_t)(1 + (step[4] > 240));
	bytes[15] = step[5] > 240 ? step[5] : 0;
	*number += step[6] > 250 ? step[6] : 1;
	put_be64(bytes + AT_NUMBER, step[6] == 250 ? step[7] : *number);
	put_be64(bytes + 24, step[7]);
	put_be16(bytes + 32, (uint16_t)(continues ? receiver.filled : begin));
	put_be16(bytes + AT_TOTAL, (uint16_t)total);
	put_be64(bytes, siphash(&sender_key, bytes + 8, count - 8) ^ (step[8] == 255));
	if (datagram_take(
		    &receiver, bytes, step[11] == 255 ? step[0] % count : count, step[7], &frame))
		frame_check(&frame);
	require(receiver.filled < ATTACH_FRAME_BYTES_MAX);
	require(receiver.acknowledged <= receiver.sent);
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t number = 0;

	if (size == 0)
		return 0;
	if (data[0] & 1) {
		body_decode(data[0] >> 1, data + 1, size - 1);
		return 0;
	}
	receiver = (struct remote_datagrams){
		.session = SESSION, .peer = sender_key, .window = 20, .sent = 100};
	for (size_t at = 1; at + STEP_BYTES <= size; at += STEP_BYTES)
		datagram_pass(data + at, &number);
	return 0;
}
