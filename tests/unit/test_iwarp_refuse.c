/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer breaks one rule at a time: the test checks the Terminate message, and that nothing was
 * placed. It also sends what the rules allow, but urnic never sends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/stream.h"
#include "wire/bytes.h"

enum { AT = 4096 };

static struct stream_end end;
static uint8_t before[STREAM_MEMORY_BYTES];

static void start_with(const struct stream_options *options)
{
	stream_start(&end, options);
	memcpy(before, end.memory, sizeof(before));
}

static void start_as(bool is_initiator)
{
	struct stream_options options = {.settings = stream_settings(is_initiator)};

	start_with(&options);
}

static void start(void)
{
	start_as(false);
}

static struct ddp_segment tagged(enum rdmap_opcode opcode, uint32_t stag, uint64_t offset)
{
	return (struct ddp_segment){
		.opcode = opcode, .is_last = true, .tagged = {.stag = stag, .offset = offset}};
}

static struct ddp_segment untagged(enum rdmap_opcode opcode, uint32_t queue, uint32_t msn)
{
	return (struct ddp_segment){
		.opcode = opcode, .is_last = true, .untagged = {.queue = queue, .msn = msn}};
}

/* A FPDU of this segment with this payload, or with as many bytes of 0xee. */
static uint32_t fpdu_make(
	uint8_t *to, const struct ddp_segment *segment, const void *payload, uint32_t bytes)
{
	uint32_t header_bytes = ddp_encode(segment, to + FPDU_LENGTH_BYTES);

	if (payload)
		memcpy(to + FPDU_LENGTH_BYTES + header_bytes, payload, bytes);
	else
		memset(to + FPDU_LENGTH_BYTES + header_bytes, 0xee, bytes);
	return fpdu_seal(to, header_bytes + bytes, end.iwarp->settings.has_crc);
}

static void give(const struct ddp_segment *segment, const void *payload, uint32_t bytes)
{
	static uint8_t fpdu[FPDU_BYTES_MAX];

	stream_give(&end, fpdu, fpdu_make(fpdu, segment, payload, bytes));
}

static bool was_sent[RDMAP_ERROR_COUNT];

/* The one message that it sends, then the end; nothing of memory has changed. */
static void expect(enum rdmap_error error)
{
	struct rdmap_terminate terminate;
	struct ddp_segment segment;
	uint8_t bytes[256];
	size_t count = stream_take(&end, bytes, sizeof(bytes));

	assert_true(count > FPDU_LENGTH_BYTES);
	assert_int_equal(count, fpdu_bytes(fpdu_ulpdu_bytes(bytes)));
	assert_int_equal(
		ddp_decode(&segment, bytes + FPDU_LENGTH_BYTES, fpdu_ulpdu_bytes(bytes)), RDMAP_OK);
	assert_int_equal(segment.opcode, RDMAP_TERMINATE);
	assert_int_equal(segment.untagged.queue, DDP_QUEUE_TERMINATE);
	assert_int_equal(segment.untagged.msn, 1);
	rdmap_terminate_decode(&terminate, segment.payload, segment.payload_bytes);
	assert_string_equal(rdmap_error_sentence(terminate.error), rdmap_error_sentence(error));
	assert_int_equal(terminate.error, error);
	was_sent[error] = true;
	assert_int_equal(end.qp->state, QP_ERR);
	assert_true(end.has_said_end);
	assert_memory_equal(before, end.memory, sizeof(before));
	stream_stop(&end);
}

static uint64_t address(uint64_t offset)
{
	return (uintptr_t)end.memory + offset;
}

/* --- MPA --- */

static void wrong_crc_is_refused(void **state)
{
	struct stream_options options = {.settings = stream_settings(false)};
	struct ddp_segment segment;
	uint8_t fpdu[256];
	uint32_t count;

	(void)state;
	options.settings.has_crc = true;
	start_with(&options);
	segment = tagged(RDMAP_WRITE, end.key, address(AT));
	count = fpdu_make(fpdu, &segment, NULL, 100);
	fpdu[50] ^= 1;
	stream_give(&end, fpdu, count);
	expect(RDMAP_ERROR_MPA_CRC);
}

static void marker_that_points_elsewhere_is_refused(void **state)
{
	struct stream_options options = {.settings = stream_settings(false)};
	struct ddp_segment segment;
	uint8_t fpdu[1200];
	uint32_t header_bytes, count;

	(void)state;
	options.settings.receives_markers = true;
	start_with(&options);
	segment = tagged(RDMAP_WRITE, end.key, address(AT));
	header_bytes = ddp_encode(&segment, fpdu + FPDU_LENGTH_BYTES);
	memset(fpdu + FPDU_LENGTH_BYTES + header_bytes, 0xee, 1000);
	count = fpdu_seal_marked(fpdu, header_bytes + 1000, false, 0);
	fpdu[512 + 3] ^= 4;
	stream_give(&end, fpdu, count);
	expect(RDMAP_ERROR_MPA_MARKER);
}

static void empty_fpdu_is_refused(void **state)
{
	const uint8_t nothing[8] = {0};

	(void)state;
	start();
	stream_give(&end, nothing, sizeof(nothing));
	expect(RDMAP_ERROR_UNEXPECTED_OPCODE);
}

/* --- headers --- */

static void give_changed(size_t at, uint8_t value)
{
	struct ddp_segment segment = untagged(RDMAP_SEND, DDP_QUEUE_SEND, 1);
	uint8_t fpdu[64];
	uint32_t count;

	start();
	stream_post_receive(&end, 1, AT, 100);
	count = fpdu_make(fpdu, &segment, NULL, 4);
	fpdu[FPDU_LENGTH_BYTES + at] = value;
	stream_give(&end, fpdu, count);
}

static void unknown_header_is_refused(void **state)
{
	(void)state;
	give_changed(0, 0x42);
	expect(RDMAP_ERROR_UNTAGGED_VERSION);
	give_changed(0, 0xc2);
	expect(RDMAP_ERROR_TAGGED_VERSION);
	give_changed(1, 0x83);
	expect(RDMAP_ERROR_RDMAP_VERSION);
	give_changed(1, 0x4f);
	expect(RDMAP_ERROR_UNEXPECTED_OPCODE);
	give_changed(1, 0x40);
	expect(RDMAP_ERROR_UNEXPECTED_OPCODE);
	give_changed(9, 7);
	expect(RDMAP_ERROR_UNTAGGED_QUEUE);
	give_changed(13, 2);
	expect(RDMAP_ERROR_UNTAGGED_MSN);
	give_changed(17, 4);
	expect(RDMAP_ERROR_UNTAGGED_OFFSET);
}

/* --- WRITE --- */

static void write_refused(uint32_t access, uint32_t key_difference, uint64_t offset, uint32_t bytes,
	enum rdmap_error error)
{
	struct stream_options options = {.settings = stream_settings(false), .access = access};
	struct ddp_segment segment;

	start_with(&options);
	segment = tagged(RDMAP_WRITE, end.key ^ key_difference,
		offset == UINT64_MAX ? offset : address(offset));
	give(&segment, NULL, bytes);
	expect(error);
}

static void write_outside_of_what_was_granted_is_refused(void **state)
{
	(void)state;
	write_refused(0, 1, AT, 100, RDMAP_ERROR_TAGGED_STAG);
	write_refused(0, 0, STREAM_MEMORY_BYTES - 99, 100, RDMAP_ERROR_TAGGED_BOUNDS);
	write_refused(0, 0, STREAM_MEMORY_BYTES - 9999, 10000, RDMAP_ERROR_TAGGED_BOUNDS);
	write_refused(0, 0, UINT64_MAX, 2, RDMAP_ERROR_TAGGED_WRAP);
	write_refused(MR_REMOTE_READ, 0, AT, 100, RDMAP_ERROR_READ_ACCESS);
}

static void long_write_is_refused_by_its_header(void **state)
{
	struct ddp_segment segment;
	uint8_t fpdu[20000];

	(void)state;
	start();
	segment = tagged(RDMAP_WRITE, end.key, address(STREAM_MEMORY_BYTES - 9999));
	fpdu_make(fpdu, &segment, NULL, 10000);
	stream_give(&end, fpdu, 100);
	expect(RDMAP_ERROR_TAGGED_BOUNDS);
}

static void empty_write_names_no_memory(void **state)
{
	struct ddp_segment segment;

	(void)state;
	start();
	segment = tagged(RDMAP_WRITE, ~end.key, 0);
	give(&segment, NULL, 0);
	assert_int_equal(end.qp->state, QP_RTS);
	stream_stop(&end);
}

static void write_into_a_region_of_another_domain_is_refused(void **state)
{
	struct ddp_segment segment;
	struct mr_region region;

	(void)state;
	start();
	region = (struct mr_region){
		STREAM_PD + 1, MR_LOCAL_WRITE | MR_REMOTE_ANY, 0, 4096, end.memory};
	uint32_t key;
	assert_int_equal(mr_table_add(&end.mrs, &region, 1, &key), 0);
	segment = tagged(RDMAP_WRITE, key, 0);
	give(&segment, NULL, 10);
	expect(RDMAP_ERROR_TAGGED_STREAM);
}

/* --- SEND --- */

static void send_without_a_receive_request_is_refused(void **state)
{
	struct ddp_segment segment = untagged(RDMAP_SEND, DDP_QUEUE_SEND, 1);

	(void)state;
	start();
	give(&segment, NULL, 10);
	stream_pass(&end, IWARP_STALL_NS - 1);
	assert_int_equal(end.qp->state, QP_RTS);
	stream_pass(&end, 1 + IWARP_STALL_LOOK_NS);
	expect(RDMAP_ERROR_UNTAGGED_NO_BUFFER);
	start();
	segment = untagged(RDMAP_IMMEDIATE, DDP_QUEUE_SEND, 1);
	give(&segment, NULL, 8);
	stream_pass(&end, IWARP_STALL_NS);
	expect(RDMAP_ERROR_UNTAGGED_NO_BUFFER);
}

static void send_without_a_receive_request_is_refused_at_once_by_a_strict_lane(void **state)
{
	struct ddp_segment segment = untagged(RDMAP_SEND, DDP_QUEUE_SEND, 1);

	(void)state;
	start();
	end.lane.is_strict = true;
	give(&segment, NULL, 10);
	expect(RDMAP_ERROR_UNTAGGED_NO_BUFFER);
}

static void send_longer_than_the_receive_request_is_refused(void **state)
{
	struct ddp_segment segment = untagged(RDMAP_SEND, DDP_QUEUE_SEND, 1);
	struct cqe cqe;

	(void)state;
	start();
	stream_post_receive(&end, 1, AT, 9);
	give(&segment, NULL, 10);
	assert_true(stream_poll(&end, &cqe));
	assert_int_equal(cqe.fault, FAULT_RECEIVE_TOO_SHORT);
	expect(RDMAP_ERROR_UNTAGGED_TOO_LONG);
}

static void send_that_invalidates_what_it_may_not_is_refused(void **state)
{
	struct ddp_segment segment = untagged(RDMAP_SEND_INVALIDATE, DDP_QUEUE_SEND, 1);

	(void)state;
	start();
	stream_post_receive(&end, 1, AT, 100);
	segment.untagged.invalidate_stag = end.key; /* a region of the program's */
	give(&segment, NULL, 10);
	expect(RDMAP_ERROR_INVALIDATE);
}

static void message_that_goes_on_otherwise_is_refused(void **state)
{
	struct ddp_segment segment = untagged(RDMAP_SEND, DDP_QUEUE_SEND, 1);

	(void)state;
	for (int i = 0; i < 3; i++) {
		start();
		stream_post_receive(&end, 1, AT, 100);
		segment = untagged(RDMAP_SEND, DDP_QUEUE_SEND, 1);
		segment.is_last = false;
		give(&segment, before + AT, 10);
		segment.is_last = true;
		segment.untagged.offset = 10;
		if (i == 0)
			segment.opcode = RDMAP_SEND_SOLICITED;
		if (i == 1)
			segment.untagged.offset = 11;
		if (i == 2)
			segment = untagged(RDMAP_IMMEDIATE, DDP_QUEUE_SEND, 1);
		give(&segment, NULL, 8);
		expect(i == 1 ? RDMAP_ERROR_UNTAGGED_OFFSET : RDMAP_ERROR_UNEXPECTED_OPCODE);
	}
}

/* --- READ --- */

static void give_read(uint32_t msn, uint32_t stag, uint64_t offset, uint32_t bytes)
{
	struct ddp_segment segment = untagged(RDMAP_READ_REQUEST, DDP_QUEUE_READ_REQUEST, msn);
	const struct rdmap_read_request request = {
		.bytes = bytes, .source_stag = stag, .source_offset = offset};
	uint8_t payload[RDMAP_READ_REQUEST_BYTES];

	rdmap_read_request_encode(&request, payload);
	give(&segment, payload, sizeof(payload));
}

static void read_of_what_was_not_granted_is_refused(void **state)
{
	struct stream_options options = {
		.settings = stream_settings(false), .access = MR_REMOTE_WRITE};

	(void)state;
	start();
	give_read(1, end.key ^ 1, address(0), 10);
	expect(RDMAP_ERROR_READ_STAG);
	start();
	give_read(1, end.key, address(1), STREAM_MEMORY_BYTES);
	expect(RDMAP_ERROR_READ_BOUNDS);
	start();
	give_read(1, end.key, UINT64_MAX, 2);
	expect(RDMAP_ERROR_READ_WRAP);
	start_with(&options);
	give_read(1, end.key, address(0), 10);
	expect(RDMAP_ERROR_READ_ACCESS);
}

static void read_of_a_region_of_another_domain_is_refused(void **state)
{
	struct mr_region region;
	uint32_t key;

	(void)state;
	start();
	region = (struct mr_region){STREAM_PD + 1, MR_REMOTE_READ, 0, 4096, end.memory};
	assert_int_equal(mr_table_add(&end.mrs, &region, 1, &key), 0);
	give_read(1, key, 0, 10);
	expect(RDMAP_ERROR_READ_STREAM);
}

static void failure_of_our_own_is_told(void **state)
{
	struct send_wr wr;
	struct sge sge;

	(void)state;
	start_as(true);
	wr = stream_wr(&end, &end, WR_RDMA_WRITE, &sge, AT, 100, 0);
	sge.lkey ^= 1;
	assert_int_equal(stream_post(&end, &wr), 0);
	expect(RDMAP_ERROR_STREAM_CATASTROPHIC);
}

static void more_reads_than_agreed_are_refused(void **state)
{
	struct stream_options options = {.settings = stream_settings(false)};
	uint8_t bytes[4096];

	(void)state;
	options.settings.ird = 2;
	start_with(&options);
	give_read(1, end.key, address(0), 10);
	give_read(2, end.key, address(0), 10);
	give_read(3, end.key, address(0), 10);
	assert_int_equal(end.qp->state, QP_ERR);
	stream_take(&end, bytes, sizeof(bytes));
	stream_stop(&end);
}

static void response_to_nothing_is_refused(void **state)
{
	struct ddp_segment segment;

	(void)state;
	start();
	segment = tagged(RDMAP_READ_RESPONSE, end.key, address(AT));
	give(&segment, NULL, 10);
	expect(RDMAP_ERROR_UNEXPECTED_OPCODE);
	start();
	segment = untagged(RDMAP_ATOMIC_RESPONSE, DDP_QUEUE_ATOMIC_RESPONSE, 1);
	give(&segment, NULL, RDMAP_ATOMIC_RESPONSE_BYTES);
	expect(RDMAP_ERROR_UNEXPECTED_OPCODE);
}

static void response_refused(
	uint32_t stag, uint64_t offset, uint32_t bytes, bool is_last, enum rdmap_error error)
{
	struct ddp_segment segment;
	struct send_wr wr;
	struct sge sge;
	uint8_t out[256];

	start_as(true);
	wr = stream_wr(&end, &end, WR_RDMA_READ, &sge, AT, 100, 0);
	assert_int_equal(stream_post(&end, &wr), 0);
	stream_take(&end, out, sizeof(out));
	segment = tagged(RDMAP_READ_RESPONSE,
		get_be32(out + FPDU_LENGTH_BYTES + DDP_UNTAGGED_BYTES) + stag, offset);
	segment.is_last = is_last;
	give(&segment, NULL, bytes);
	expect(error);
}

static void response_that_does_not_fit_its_read_is_refused(void **state)
{
	(void)state;
	response_refused(1, 0, 100, true, RDMAP_ERROR_TAGGED_STAG);
	response_refused(0, 1, 99, true, RDMAP_ERROR_TAGGED_BOUNDS);
	response_refused(0, 1, 100, true, RDMAP_ERROR_TAGGED_BOUNDS);
	response_refused(0, 0, 101, true, RDMAP_ERROR_TAGGED_BOUNDS);
	response_refused(0, 0, 101, false, RDMAP_ERROR_TAGGED_BOUNDS);
	response_refused(0, 0, 99, true, RDMAP_ERROR_TAGGED_BOUNDS);
	response_refused(0, 0, 100, false, RDMAP_ERROR_TAGGED_BOUNDS);
}

static void response_of_another_kind_is_refused(void **state)
{
	struct ddp_segment segment;
	struct send_wr wr;
	struct sge sge;
	uint8_t out[256];

	(void)state;
	start_as(true);
	wr = stream_wr(&end, &end, WR_ATOMIC_FETCH_AND_ADD, &sge, AT, 8, 0);
	assert_int_equal(stream_post(&end, &wr), 0);
	stream_take(&end, out, sizeof(out));
	segment = tagged(RDMAP_READ_RESPONSE, 0, 0);
	give(&segment, NULL, 8);
	expect(RDMAP_ERROR_UNEXPECTED_OPCODE);
}

/* --- getting ready --- */

static void start_ready(bool is_initiator, uint32_t ready)
{
	struct stream_options options = {.settings = stream_settings(is_initiator)};

	options.settings.ready = ready;
	start_with(&options);
}

/* The message that says no more than that the initiator is ready is empty, and so is its answer. */
static void ready_message_that_says_more_is_refused(void **state)
{
	struct ddp_segment segment;
	uint8_t out[256];

	(void)state;
	for (int is_last = 0; is_last <= 1; is_last++) {
		start_ready(false, MPA_READY_SEND);
		stream_post_receive(&end, 1, AT, 100);
		segment = untagged(RDMAP_SEND, DDP_QUEUE_SEND, 1);
		segment.is_last = is_last;
		give(&segment, NULL, is_last ? 10 : 0);
		expect(RDMAP_ERROR_UNTAGGED_TOO_LONG);

		start_ready(true, MPA_READY_READ);
		stream_take(&end, out, sizeof(out));
		segment = tagged(RDMAP_READ_RESPONSE, end.key, address(AT));
		segment.is_last = is_last;
		give(&segment, NULL, is_last ? 10 : 0);
		expect(RDMAP_ERROR_TAGGED_BOUNDS);
	}
}

/* --- atomics --- */

static void give_atomic(uint32_t operation, uint32_t stag, uint64_t offset)
{
	struct ddp_segment segment = untagged(RDMAP_ATOMIC_REQUEST, DDP_QUEUE_READ_REQUEST, 1);
	const struct rdmap_atomic_request request = {
		.operation = operation, .stag = stag, .offset = offset, .operand = 1};
	uint8_t payload[RDMAP_ATOMIC_REQUEST_BYTES];

	rdmap_atomic_request_encode(&request, payload);
	give(&segment, payload, sizeof(payload));
}

static void atomic_that_may_not_be_is_refused(void **state)
{
	struct stream_options options = {
		.settings = stream_settings(false), .access = MR_REMOTE_WRITE};

	(void)state;
	start();
	give_atomic(7, end.key, address(AT));
	expect(RDMAP_ERROR_UNEXPECTED_OPCODE);
	start();
	give_atomic(1, end.key, address(AT)); /* reserved */
	expect(RDMAP_ERROR_UNEXPECTED_OPCODE);
	start();
	give_atomic(RDMAP_FETCH_ADD, end.key ^ 1, address(AT));
	expect(RDMAP_ERROR_READ_STAG);
	start();
	give_atomic(RDMAP_FETCH_ADD, end.key, address(AT + 4));
	expect(RDMAP_ERROR_STREAM_CATASTROPHIC);
	start_with(&options);
	give_atomic(RDMAP_FETCH_ADD, end.key, address(AT));
	expect(RDMAP_ERROR_READ_ACCESS);
}

static void give_request(uint32_t msn, const struct rdmap_atomic_request *request)
{
	struct ddp_segment segment = untagged(RDMAP_ATOMIC_REQUEST, DDP_QUEUE_READ_REQUEST, msn);
	uint8_t payload[RDMAP_ATOMIC_REQUEST_BYTES];

	rdmap_atomic_request_encode(request, payload);
	give(&segment, payload, sizeof(payload));
}

static void more_atomics_than_agreed_are_refused(void **state)
{
	struct stream_options options = {.settings = stream_settings(false)};
	struct rdmap_atomic_request request = {.operation = RDMAP_FETCH_ADD, .operand = 1};
	uint64_t value = 5;
	uint8_t bytes[4096];

	(void)state;
	options.settings.ird = 2;
	start_with(&options);
	memcpy(end.memory + AT, &value, sizeof(value));
	request.stag = end.key;
	request.offset = address(AT);
	for (uint32_t msn = 1; msn <= 3; msn++)
		give_request(msn, &request);
	assert_int_equal(end.qp->state, QP_ERR);
	memcpy(&value, end.memory + AT, sizeof(value));
	assert_int_equal(value, 7);
	stream_take(&end, bytes, sizeof(bytes));
	stream_stop(&end);
}

/* What a peer's atomic of these operands makes of a value. */
static uint64_t value_after(uint64_t value, struct rdmap_atomic_request request)
{
	start();
	memcpy(end.memory + AT, &value, sizeof(value));
	request.stag = end.key;
	request.offset = address(AT);
	give_request(1, &request);
	assert_int_equal(end.qp->state, QP_RTS);
	memcpy(&value, end.memory + AT, sizeof(value));
	stream_stop(&end);
	return value;
}

/*
 * RFC 7306 section 5.1.1: in an addition, a one in the mask ends a field. In the other operations
 * the mask selects the bits.
 */
static void atomic_with_masks_changes_no_other_bits(void **state)
{
	struct rdmap_atomic_request add = {.operation = RDMAP_FETCH_ADD,
		.operand = 0x0000000100000001,
		.operand_mask = 0x0000000080000000};
	struct rdmap_atomic_request swap = {.operation = RDMAP_COMPARE_SWAP,
		.operand = 0x1111111111111111,
		.operand_mask = 0xff00,
		.compare = 0xeeeeeeeeeeee0042,
		.compare_mask = 0xff};

	(void)state;
	assert_int_equal(value_after(0x00000005ffffffff, add), 0x0000000600000000);
	add.operand_mask = 0;
	assert_int_equal(value_after(0x00000005ffffffff, add), 0x0000000700000000);
	assert_int_equal(value_after(0x0123456789abcd42, swap), 0x0123456789ab1142);
	assert_int_equal(value_after(0x0123456789abcd43, swap), 0x0123456789abcd43);
}

/* --- all of them --- */

/* Codes that urnic never sends. */
static const char *const never[RDMAP_ERROR_COUNT] = {
	[RDMAP_ERROR_LOCAL_CATASTROPHIC] = "software that fails has nobody left to say so",
	[RDMAP_ERROR_GLOBAL_CATASTROPHIC] = "likewise",
	[RDMAP_ERROR_DDP_CATASTROPHIC] = "likewise",
	[RDMAP_ERROR_REMOTE_PROTECTION] = "we always know which one it is",
	[RDMAP_ERROR_REMOTE_OPERATION] = "likewise",
	[RDMAP_ERROR_INVALIDATE_OPERATION] = "INVALIDATE says the same",
	[RDMAP_ERROR_MPA_CLOSED] = "there is no connection any more",
	[RDMAP_ERROR_MPA_FRAME] = "the connection is closed instead (RFC 5044 section 8)",
	[RDMAP_ERROR_MPA_CATASTROPHIC] = "of connections that were not opened: test_mpa",
	[RDMAP_ERROR_MPA_READS] = "likewise",
	[RDMAP_ERROR_MPA_READY] = "likewise",
};

/* The last of the tests here. */
static void every_code_is_sent_by_a_test_or_never(void **state)
{
	(void)state;
	for (uint32_t i = RDMAP_OK + 1; i < RDMAP_ERROR_COUNT; i++)
		if (was_sent[i] == (never[i] != NULL))
			fail_msg("%s", rdmap_error_sentence((enum rdmap_error)i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_crc_is_refused),
		cmocka_unit_test(marker_that_points_elsewhere_is_refused),
		cmocka_unit_test(empty_fpdu_is_refused),
		cmocka_unit_test(unknown_header_is_refused),
		cmocka_unit_test(write_outside_of_what_was_granted_is_refused),
		cmocka_unit_test(long_write_is_refused_by_its_header),
		cmocka_unit_test(empty_write_names_no_memory),
		cmocka_unit_test(write_into_a_region_of_another_domain_is_refused),
		cmocka_unit_test(send_without_a_receive_request_is_refused),
		cmocka_unit_test(
			send_without_a_receive_request_is_refused_at_once_by_a_strict_lane),
		cmocka_unit_test(send_longer_than_the_receive_request_is_refused),
		cmocka_unit_test(send_that_invalidates_what_it_may_not_is_refused),
		cmocka_unit_test(message_that_goes_on_otherwise_is_refused),
		cmocka_unit_test(read_of_what_was_not_granted_is_refused),
		cmocka_unit_test(read_of_a_region_of_another_domain_is_refused),
		cmocka_unit_test(failure_of_our_own_is_told),
		cmocka_unit_test(more_reads_than_agreed_are_refused),
		cmocka_unit_test(response_to_nothing_is_refused),
		cmocka_unit_test(response_that_does_not_fit_its_read_is_refused),
		cmocka_unit_test(response_of_another_kind_is_refused),
		cmocka_unit_test(ready_message_that_says_more_is_refused),
		cmocka_unit_test(atomic_that_may_not_be_is_refused),
		cmocka_unit_test(more_atomics_than_agreed_are_refused),
		cmocka_unit_test(atomic_with_masks_changes_no_other_bits),
		cmocka_unit_test(every_code_is_sent_by_a_test_or_never),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
