/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests from a capture of the Linux kernel's siw (tests/data/pcap) are sent to urnic's
 * responder. It gives siw's answers, and ends the stream with siw's Terminate message where that is
 * the right one.
 *
 * As in test_rc_captured.c, the test translates keys and addresses to those of its own memory. The
 * private data of the MPA reply has the address of the server's region of TARGET_BYTES.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/pcap.h"
#include "support/stream.h"
#include "wire/bytes.h"
#include "wire/iwarp/mpa_frame.h"

enum {
	TARGET_BYTES = 64 << 10,
	TARGET = STREAM_MEMORY_BYTES - TARGET_BYTES,
	RECEIVE_BYTES = 16 << 10,
	HALF_BYTES = 128 << 10,
	IP = 14, /* behind the Ethernet header */
	TCP = IP + 20,
	MPA_HEADER_BYTES = 20 + 4, /* with those of RFC 6581 */
	ANSWERS_MAX = 16,
	KEY_WRONG = 0x5500,
};

/* One direction of the captured connection. */
struct half {
	uint8_t bytes[HALF_BYTES];
	uint32_t count;
	uint32_t first_sequence;
};

/* A message of the server's: READ response or Terminate. */
struct answer {
	enum rdmap_opcode opcode;
	uint32_t stag;
	uint64_t offset;
	uint32_t payload_bytes;
	uint8_t payload[RECEIVE_BYTES];
	bool is_whole;
};

struct answers {
	struct answer list[ANSWERS_MAX];
	uint32_t count;
};

static struct half client, server;
static struct answers ours, theirs;
static struct stream_end end;
static uint64_t address;
static uint32_t key;

/* --- what was captured --- */

static void segment_take(struct half *half, const uint8_t *frame)
{
	uint32_t header_bytes = (uint32_t)(frame[TCP + 12] >> 4) * 4;
	uint32_t bytes = get_be16(frame + IP + 2) - (TCP - IP) - header_bytes;
	uint32_t sequence = get_be32(frame + TCP + 4);
	bool is_syn = frame[TCP + 13] & 2;

	if (is_syn)
		half->first_sequence = sequence + 1;
	if (is_syn || !bytes)
		return;
	assert_int_equal(sequence - half->first_sequence, half->count);
	assert_true(bytes <= HALF_BYTES - half->count);
	memcpy(half->bytes + half->count, frame + TCP + header_bytes, bytes);
	half->count += bytes;
}

static void load(const char *name)
{
	uint32_t client_address = 0;
	struct pcap pcap;
	uint8_t *frame;
	size_t bytes;

	memset(&client, 0, sizeof(client));
	memset(&server, 0, sizeof(server));
	pcap_load(&pcap, name);
	while (pcap_next(&pcap, &frame, &bytes)) {
		if (get_be16(frame + 12) != 0x0800 || frame[IP + 9] != 6)
			continue;
		if (!client_address)
			client_address = get_be32(frame + IP + 12);
		segment_take(
			get_be32(frame + IP + 12) == client_address ? &client : &server, frame);
	}
	pcap_done(&pcap);
	const uint8_t *private_data = server.bytes + MPA_HEADER_BYTES;

	address = get_le32(private_data) | (uint64_t)get_le32(private_data + 4) << 32;
	key = get_le32(private_data + 8);
}

/* --- answers --- */

static void answer_add(struct answers *answers, const struct ddp_segment *segment)
{
	struct answer *answer = &answers->list[answers->count ? answers->count - 1 : 0];

	if (!answers->count || answer->is_whole) {
		assert_true(answers->count < ANSWERS_MAX);
		answer = &answers->list[answers->count++];
		*answer = (struct answer){.opcode = segment->opcode};
		if (rdmap_is_tagged(segment->opcode)) {
			answer->stag = segment->tagged.stag;
			answer->offset = segment->tagged.offset;
		}
	}
	assert_int_equal(answer->opcode, segment->opcode);
	assert_true(segment->payload_bytes <= RECEIVE_BYTES - answer->payload_bytes);
	memcpy(answer->payload + answer->payload_bytes, segment->payload, segment->payload_bytes);
	answer->payload_bytes += segment->payload_bytes;
	answer->is_whole = segment->is_last;
}

/* The FPDUs of a piece of a stream. */
static void answers_take(struct answers *answers, const uint8_t *bytes, size_t count)
{
	struct ddp_segment segment;

	for (uint32_t at = 0; at < count;) {
		uint32_t ulpdu_bytes = fpdu_ulpdu_bytes(bytes + at);

		assert_true(fpdu_bytes(ulpdu_bytes) <= count - at);
		assert_int_equal(ddp_decode(&segment, bytes + at + FPDU_LENGTH_BYTES, ulpdu_bytes),
			RDMAP_OK);
		answer_add(answers, &segment);
		at += fpdu_bytes(ulpdu_bytes);
	}
}

/* --- replaying --- */

static uint32_t key_here(uint32_t stag)
{
	assert_int_equal(stag & ~KEY_WRONG, key & ~KEY_WRONG);
	return stag == key ? end.key : end.key ^ KEY_WRONG;
}

static uint64_t address_here(uint64_t offset)
{
	return (uintptr_t)end.memory + TARGET + (offset - address);
}

static void request_replay(struct ddp_segment *segment)
{
	static uint8_t fpdu[FPDU_BYTES_MAX], out[HALF_BYTES];
	struct rdmap_read_request read;
	uint32_t header_bytes;

	if (segment->opcode == RDMAP_WRITE) {
		segment->tagged.stag = key_here(segment->tagged.stag);
		segment->tagged.offset = address_here(segment->tagged.offset);
	}
	header_bytes = ddp_encode(segment, fpdu + FPDU_LENGTH_BYTES);
	memcpy(fpdu + FPDU_LENGTH_BYTES + header_bytes, segment->payload, segment->payload_bytes);
	if (segment->opcode == RDMAP_READ_REQUEST) {
		rdmap_read_request_decode(&read, segment->payload);
		read.source_stag = key_here(read.source_stag);
		read.source_offset = address_here(read.source_offset);
		rdmap_read_request_encode(&read, fpdu + FPDU_LENGTH_BYTES + header_bytes);
	}
	stream_give(&end, fpdu, fpdu_seal(fpdu, header_bytes + segment->payload_bytes, false));
	answers_take(&ours, out, stream_take(&end, out, sizeof(out)));
}

static void replay(const char *name, uint32_t receive_bytes)
{
	const struct stream_options options = {.settings = stream_settings(false)};
	struct ddp_segment segment;

	load(name);
	memset(&ours, 0, sizeof(ours));
	memset(&theirs, 0, sizeof(theirs));
	stream_start(&end, &options);
	for (uint32_t i = 0; i < TARGET_BYTES; i++)
		end.memory[TARGET + i] = (uint8_t)i;
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(stream_post_receive(&end, i, 0, receive_bytes), 0);
	for (uint32_t at = 20 + get_be16(client.bytes + 18); at < client.count;) {
		uint32_t ulpdu_bytes = fpdu_ulpdu_bytes(client.bytes + at);

		assert_int_equal(
			ddp_decode(&segment, client.bytes + at + FPDU_LENGTH_BYTES, ulpdu_bytes),
			RDMAP_OK);
		request_replay(&segment);
		at += fpdu_bytes(ulpdu_bytes);
	}
	uint32_t reply_bytes = 20 + get_be16(server.bytes + 18);

	answers_take(&theirs, server.bytes + reply_bytes, server.count - reply_bytes);
}

static void expect_the_same(void)
{
	assert_int_equal(ours.count, theirs.count);
	for (uint32_t i = 0; i < ours.count; i++) {
		assert_int_equal(ours.list[i].opcode, theirs.list[i].opcode);
		assert_int_equal(ours.list[i].stag, theirs.list[i].stag);
		assert_int_equal(ours.list[i].offset, theirs.list[i].offset);
		assert_int_equal(ours.list[i].payload_bytes, theirs.list[i].payload_bytes);
		assert_memory_equal(
			ours.list[i].payload, theirs.list[i].payload, theirs.list[i].payload_bytes);
	}
	stream_stop(&end);
}

/* Both have ended the stream; says how we did. */
static enum rdmap_error terminated(void)
{
	struct rdmap_terminate terminate;

	assert_int_equal(ours.count, 1);
	assert_int_equal(theirs.count, 1);
	assert_int_equal(ours.list[0].opcode, RDMAP_TERMINATE);
	assert_int_equal(theirs.list[0].opcode, RDMAP_TERMINATE);
	rdmap_terminate_decode(&terminate, ours.list[0].payload, ours.list[0].payload_bytes);
	assert_int_equal(end.qp->state, QP_ERR);
	return terminate.error;
}

static void operations_are_answered_as_siw_does(void **state)
{
	(void)state;
	replay("iwarp-operations.pcap", RECEIVE_BYTES);
	assert_int_equal(theirs.count, 3); /* READs */
	expect_the_same();
}

/* Layer, type and code; how much of the offending segment is quoted is everybody's own choice. */
static void bad_write_is_refused_as_by_siw(void **state)
{
	(void)state;
	replay("iwarp-bad-write-key.pcap", RECEIVE_BYTES);
	assert_int_equal(terminated(), RDMAP_ERROR_TAGGED_STAG);
	assert_memory_equal(ours.list[0].payload, theirs.list[0].payload, 2);
	stream_stop(&end);
	replay("iwarp-out-of-range.pcap", RECEIVE_BYTES);
	assert_int_equal(terminated(), RDMAP_ERROR_TAGGED_BOUNDS);
	assert_memory_equal(ours.list[0].payload, theirs.list[0].payload, 2);
	stream_stop(&end);
}

/*
 * siw calls it a local catastrophic error of DDP; RFC 5040 section 4.8 has a remote protection
 * error of RDMAP.
 */
static void bad_read_is_refused_as_by_siw(void **state)
{
	(void)state;
	replay("iwarp-bad-read-key.pcap", RECEIVE_BYTES);
	assert_int_equal(terminated(), RDMAP_ERROR_READ_STAG);
	assert_int_equal(theirs.list[0].payload[0], 0x10);
	stream_stop(&end);
}

/*
 * siw reports layer MPA and a type that MPA does not define. RFC 5041 section 7.2 asks for an
 * untagged buffer error.
 */
static void message_too_long_is_refused_as_by_siw(void **state)
{
	(void)state;
	replay("iwarp-too-long.pcap", 16);
	assert_int_equal(terminated(), RDMAP_ERROR_UNTAGGED_TOO_LONG);
	assert_int_equal(theirs.list[0].payload[0], 0x21);
	stream_stop(&end);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operations_are_answered_as_siw_does),
		cmocka_unit_test(bad_write_is_refused_as_by_siw),
		cmocka_unit_test(bad_read_is_refused_as_by_siw),
		cmocka_unit_test(message_too_long_is_refused_as_by_siw),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
