/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arith.h"
#include "wire/bth.h"
#include "wire/bytes.h"
#include "wire/captured.h"
#include "wire/packet.h"
#include "wire/roce_frame.h"

enum { BYTES = 120 };

static struct captured_frame frame;
static uint8_t packet[BYTES + ROCE_ICRC_BYTES];

static struct captured between(bool is_ipv4)
{
	const struct gid here = {{0x20, 0x01, 0x0d, 0xb8, [15] = 1}};
	const struct gid there = {{0x20, 0x01, 0x0d, 0xb8, [15] = 2}};

	for (uint32_t i = 0; i < BYTES; i++)
		packet[i] = (uint8_t)(3 * i);
	return (struct captured){
		.source = is_ipv4 ? gid_from_ipv4((const uint8_t[]){192, 0, 2, 1}) : here,
		.destination = is_ipv4 ? gid_from_ipv4((const uint8_t[]){192, 0, 2, 2}) : there,
		.packet_bytes = BYTES,
		.captured_bytes = BYTES,
		.source_port = 0xc001,
		.traffic_class = 0x22,
		.hop_limit = 9,
		.flow_label = 0x54321,
	};
}

static struct icrc_flow flow_of(const struct captured *captured)
{
	struct icrc_flow flow;

	icrc_flow_init(&flow, captured->source.raw, captured->destination.raw,
		captured->source_port, ROCE_UDP_PORT);
	return flow;
}

/* RFC 1071, one word after the other. */
static uint32_t sum(const uint8_t *bytes, size_t count, uint32_t before)
{
	for (size_t i = 0; i < count; i += 2)
		before += get_be16(bytes + i);
	return before % 0xffff;
}

static uint32_t header_bytes(const struct captured *captured)
{
	return (gid_is_ipv4(&captured->source) ? IPV4_BYTES : IPV6_BYTES) + ROCE_UDP_BYTES;
}

/*
 * Check a captured frame as a reader does: its headers have the captured values, and its checksums
 * and ICRC are right.
 */
static void assert_frame_is_of(const struct captured *captured, uint16_t id, uint16_t flags)
{
	bool is_ipv4 = gid_is_ipv4(&captured->source);
	const struct icrc_flow flow = flow_of(captured);
	uint8_t with_macs[ROCE_ETHERNET_BYTES + CAPTURED_FRAME_BYTES_MAX] = {0};
	const uint8_t *udp = frame.bytes + header_bytes(captured) - ROCE_UDP_BYTES;
	struct roce_frame decoded;
	uint32_t udp_bytes = frame.count - header_bytes(captured) + ROCE_UDP_BYTES;

	put_be16(with_macs + ROCE_MACS_BYTES, is_ipv4 ? 0x0800 : 0x86dd);
	memcpy(with_macs + ROCE_ETHERNET_BYTES, frame.bytes, frame.count);
	assert_true(roce_frame_decode(&decoded, with_macs, ROCE_ETHERNET_BYTES + frame.count));
	assert_true(gid_is_equal(&decoded.sgid, &captured->source));
	assert_true(gid_is_equal(&decoded.dgid, &captured->destination));
	assert_int_equal(decoded.source_port, captured->source_port);
	assert_int_equal(decoded.tos, captured->traffic_class);
	assert_int_equal(decoded.hop_limit, captured->hop_limit);
	assert_int_equal(decoded.data_bytes, BYTES + ROCE_ICRC_BYTES);
	assert_memory_equal(decoded.data, packet, BYTES);
	assert_true(icrc_verify(&flow, id, flags, decoded.data, BYTES));
	assert_int_equal(frame.count, frame.whole);
	if (is_ipv4) {
		assert_int_equal(get_be16(frame.bytes + 4), id);
		assert_int_equal(get_be16(frame.bytes + 6), flags);
		assert_int_equal(sum(frame.bytes, IPV4_BYTES, 0), 0);
	}
	assert_int_equal(
		sum(udp, udp_bytes,
			sum(frame.bytes + (is_ipv4 ? 12 : 8), is_ipv4 ? 8 : 32, 17 + udp_bytes)),
		0);
}

static void what_never_was_on_a_wire_gets_an_icrc(void **state)
{
	(void)state;
	for (int is_ipv4 = 0; is_ipv4 < 2; is_ipv4++) {
		struct captured captured = between(is_ipv4);

		assert_true(captured_frame_make(&captured, packet, &frame));
		assert_frame_is_of(&captured, 0, ICRC_IPV4_DF);
	}
}

static void what_was_cut_off_says_how_long_it_was(void **state)
{
	struct captured captured = between(true);

	(void)state;
	captured.captured_bytes = 40;
	assert_true(captured_frame_make(&captured, packet, &frame));
	assert_int_equal(frame.count, header_bytes(&captured) + 40);
	assert_int_equal(frame.whole, header_bytes(&captured) + BYTES + ROCE_ICRC_BYTES);
	assert_memory_equal(frame.bytes + header_bytes(&captured), packet, 40);
}

static void what_makes_no_sense_is_refused(void **state)
{
	const struct captured good = between(true);
	struct captured bad[] = {good, good, good, good};

	(void)state;
	bad[0].packet_bytes = BTH_BYTES - 1;
	bad[1].packet_bytes = CAPTURED_BYTES_MAX + 1;
	bad[2].captured_bytes = BYTES + 1;
	bad[3].source.raw[10] = 0;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(captured_frame_make(&bad[i], packet, &frame));
}

/* --- repetitions --- */

/* A WRITE of `bytes`, as the model that a lane records. */
static struct captured write_of(bool is_ipv4, uint32_t bytes)
{
	struct captured captured = between(is_ipv4);
	const struct packet write = {
		.info = opcode_info(OPCODE_RC_WRITE_ONLY),
		.bth = {.opcode = OPCODE_RC_WRITE_ONLY,
			.pad_bytes = (uint8_t)(-bytes & 3),
			.ack_requested = true,
			.dest_qpn = {0x123456},
			.psn = {7}},
		.reth = {0x1000, 0xabcd, bytes},
	};

	packet_encode_headers(&write, packet);
	memset(packet + write.info->header_bytes + bytes, 0, write.bth.pad_bytes);
	captured.model = CAPTURED_MODEL;
	captured.answer = CAPTURED_ACKED | 1;
	captured.packet_bytes = write.info->header_bytes + bytes + write.bth.pad_bytes;
	captured.captured_bytes = captured.packet_bytes;
	return captured;
}

static const struct captured_repeat repeat = {
	.psn = CAPTURED_REPEAT | 0xfffffe,
	.msn = 0xffffff,
	.time_ns = 99,
	.va = 0x1122334455667788,
	.rkey = 0x99aabbcc,
	.bytes = 9,
};

static void repetition_is_the_packet_that_it_stands_for(void **state)
{
	const struct captured head = write_of(true, 8);
	struct captured_model model = {0};
	struct captured made;
	uint8_t bytes[CAPTURED_BYTES_MAX];
	struct packet decoded;

	(void)state;
	captured_model_keep(&model, &head, packet);
	assert_true(captured_repeat_make(
		&model, &repeat, (const uint8_t *)"ninebytes", 9, &made, bytes));
	assert_int_equal(made.time_ns, 99);
	assert_int_equal(made.answer, CAPTURED_ACKED | 0xffffff);
	assert_int_equal(made.packet_bytes, 28 + 12);
	assert_int_equal(made.captured_bytes, made.packet_bytes);
	assert_int_equal(packet_decode(&decoded, bytes, made.packet_bytes), PACKET_OK);
	assert_int_equal(decoded.bth.psn.value, 0xfffffe);
	assert_int_equal(decoded.bth.dest_qpn.value, 0x123456);
	assert_int_equal(decoded.bth.pad_bytes, 3);
	assert_true(decoded.bth.ack_requested);
	assert_int_equal(decoded.reth.va, repeat.va);
	assert_int_equal(decoded.reth.rkey, repeat.rkey);
	assert_int_equal(decoded.reth.dma_bytes, 9);
	assert_int_equal(decoded.payload_bytes, 9);
	assert_memory_equal(decoded.payload, "ninebytes", 9);
}

static void impossible_repetition_is_refused(void **state)
{
	struct captured head = write_of(true, 8);
	struct captured_repeat bad = repeat;
	struct captured_model model = {0};
	struct captured made;
	uint8_t bytes[CAPTURED_BYTES_MAX];

	(void)state;
	assert_false(captured_repeat_make(&model, &repeat, packet, 9, &made, bytes));
	captured_model_keep(&model, &head, packet);
	assert_false(captured_repeat_make(&model, &repeat, packet, 10, &made, bytes));
	for (uint32_t i = 0; i < 2; i++) {
		bad.bytes = i ? UINT32_MAX : CAPTURED_BYTES_MAX - OPCODE_HEADER_BYTES_MAX + 1;
		assert_false(captured_repeat_make(&model, &bad, packet, 9, &made, bytes));
	}
	/* What is not a model replaces the model of that number. */
	head.captured_bytes = 27;
	captured_model_keep(&model, &head, packet);
	assert_false(captured_repeat_make(&model, &repeat, packet, 9, &made, bytes));
	head.captured_bytes = head.packet_bytes;
	packet[0] = OPCODE_RC_COMPARE_SWAP;
	captured_model_keep(&model, &head, packet);
	assert_false(captured_repeat_make(&model, &repeat, packet, 9, &made, bytes));
}

/* What a step makes of a model's last repetition is the one that it was made of. */
static void step_leads_to_the_next_repetition(void **state)
{
	struct captured_repeat next = repeat;
	struct captured_model model = {.last = repeat};
	struct captured_step step;

	(void)state;
	next.psn++;
	next.msn = model.last.msn = 0x21000005;
	next.msn++;
	next.time_ns += (1u << CAPTURED_STEP_NS_BITS) - 1;
	next.va -= 64;
	assert_true(captured_step_init(&step, &model.last, &next));
	assert_int_equal(captured_step_model(&step), 0x21);
	assert_true(captured_step_take(&model, &step));
	assert_memory_equal(&model.last, &next, sizeof(next));
}

static void repetition_that_is_no_step_is_refused(void **state)
{
	struct captured_repeat next[8];
	const struct captured_repeat none = {.msn = 4};
	struct captured_repeat last = repeat;
	struct captured_step step;

	(void)state;
	last.msn = 4;
	for (uint32_t i = 0; i < ARRAY_COUNT(next); i++) {
		next[i] = last;
		next[i].psn++;
		next[i].msn++;
	}
	next[1].psn++;
	next[2].msn++;
	next[3].time_ns += 1u << CAPTURED_STEP_NS_BITS;
	next[4].va += 1u << 31;
	next[5].rkey++;
	next[6].bytes--;
	next[7].msn |= 1u << U24_BITS;
	for (uint32_t i = 0; i < ARRAY_COUNT(next); i++)
		assert_int_equal(captured_step_init(&step, &last, &next[i]), i == 0);
	assert_false(captured_step_init(&step, &none, &next[0]));
	/* The numbers begin again with 0. */
	last.psn++;
	next[0].psn = CAPTURED_REPEAT;
	assert_false(captured_step_init(&step, &last, &next[0]));
}

static void step_without_a_repetition_is_refused(void **state)
{
	struct captured head = write_of(true, 8);
	struct captured_model model = {.last = repeat};
	const struct captured_step step = {UINT32_MAX, INT32_MIN};

	(void)state;
	assert_true(captured_step_take(&model, &step));
	assert_true(captured_step_take(&model, &step));
	captured_model_keep(&model, &head, packet);
	assert_false(captured_step_take(&model, &step));
}

/* The changed frame is the one that is made, with lengths on both sides of SHORT_BYTES. */
static void changed_frame_is_the_one_that_is_made(void **state)
{
	static const uint32_t lengths[] = {0, 1, 8, 30, 80};
	static struct captured_frame changed;
	static struct crc32_tables tables;
	uint8_t payload[80], bytes[CAPTURED_BYTES_MAX];

	(void)state;
	crc32_tables_init(&tables);
	memset(payload, 0xc3, sizeof(payload));
	for (uint32_t i = 0; i < 2 * ARRAY_COUNT(lengths); i++) {
		uint32_t length = lengths[i / 2];
		struct captured head = write_of(i % 2, length), made;
		uint8_t *start = changed.bytes + header_bytes(&head);
		struct captured_repeat same_length = repeat;
		struct captured_model model = {0};
		struct captured_seal seal;

		same_length.bytes = length;
		assert_true(captured_frame_make(&head, packet, &changed));
		captured_model_keep(&model, &head, packet);
		captured_seal_init(&seal, &head, start, &tables);
		captured_repeat_change(&model, &same_length, payload, length, start);
		captured_seal(&seal, start, head.packet_bytes);
		assert_true(
			captured_repeat_make(&model, &same_length, payload, length, &made, bytes));
		assert_true(captured_frame_make(&made, bytes, &frame));
		assert_int_equal(changed.count, frame.count);
		assert_memory_equal(changed.bytes, frame.bytes, frame.count);
	}
}

static void changed_acknowledgement_is_the_one_that_is_made(void **state)
{
	struct captured head = write_of(true, 8), made, answer;
	uint8_t bytes[CAPTURED_BYTES_MAX];
	uint8_t changed[CAPTURED_ANSWER_BYTES], expected[CAPTURED_ANSWER_BYTES];
	struct captured_model model = {0};

	(void)state;
	assert_true(captured_answer_make(&head, packet, &answer, changed));
	captured_answer_repeat(&repeat, changed);
	captured_model_keep(&model, &head, packet);
	assert_true(captured_repeat_make(&model, &repeat, packet, 9, &made, bytes));
	assert_true(captured_answer_make(&made, bytes, &answer, expected));
	assert_memory_equal(changed, expected, sizeof(expected));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_never_was_on_a_wire_gets_an_icrc),
		cmocka_unit_test(what_was_cut_off_says_how_long_it_was),
		cmocka_unit_test(what_makes_no_sense_is_refused),
		cmocka_unit_test(repetition_is_the_packet_that_it_stands_for),
		cmocka_unit_test(impossible_repetition_is_refused),
		cmocka_unit_test(step_leads_to_the_next_repetition),
		cmocka_unit_test(repetition_that_is_no_step_is_refused),
		cmocka_unit_test(step_without_a_repetition_is_refused),
		cmocka_unit_test(changed_frame_is_the_one_that_is_made),
		cmocka_unit_test(changed_acknowledgement_is_the_one_that_is_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
