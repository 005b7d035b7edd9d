/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DDP segments and RDMAP messages. The byte strings are what Linux's siw sent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "wire/iwarp/rdmap.h"

static const uint8_t siw_read_request[] = {0x41, 0x41, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0,
	0, 0xeb, 0x36, 0x40, 0x00, 0x00, 0x00, 0x55, 0xad, 0xe6, 0xbb, 0xbf, 0x40, 0x00, 0x00, 0x00,
	0x40, 0xf0, 0x1e, 0x5d, 0x00, 0x00, 0x00, 0x56, 0x3a, 0xae, 0xcd, 0xbb, 0xe0};
static const uint8_t siw_write[] = {0xc1, 0x40, 0x03, 0xc8, 0xc1, 0x00, 0x00, 0x00, 0x56, 0x3a,
	0xae, 0xcd, 0x7f, 0x40, 'r', 'd', 'm', 'a'};
static const uint8_t siw_send[] = {0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0};

static void read_request_of_siw_is_understood(void **state)
{
	uint8_t bytes[sizeof(siw_read_request)];
	struct rdmap_read_request request;
	struct ddp_segment segment;

	(void)state;
	assert_int_equal(
		ddp_decode(&segment, siw_read_request, sizeof(siw_read_request)), RDMAP_OK);
	assert_int_equal(segment.opcode, RDMAP_READ_REQUEST);
	assert_true(segment.is_last);
	assert_int_equal(segment.untagged.queue, DDP_QUEUE_READ_REQUEST);
	assert_int_equal(segment.untagged.msn, 1);
	assert_int_equal(segment.payload_bytes, RDMAP_READ_REQUEST_BYTES);
	rdmap_read_request_decode(&request, segment.payload);
	assert_int_equal(request.sink_stag, 0xeb364000);
	assert_int_equal(request.sink_offset, 0x55ade6bbbf40);
	assert_int_equal(request.bytes, 64);
	assert_int_equal(request.source_stag, 0xf01e5d00);
	assert_int_equal(request.source_offset, 0x563aaecdbbe0);
	assert_int_equal(ddp_encode(&segment, bytes), DDP_UNTAGGED_BYTES);
	rdmap_read_request_encode(&request, bytes + DDP_UNTAGGED_BYTES);
	assert_memory_equal(bytes, siw_read_request, sizeof(bytes));
}

static void write_and_send_of_siw_are_understood(void **state)
{
	uint8_t bytes[DDP_UNTAGGED_BYTES];
	struct ddp_segment segment;

	(void)state;
	assert_int_equal(ddp_decode(&segment, siw_write, sizeof(siw_write)), RDMAP_OK);
	assert_int_equal(segment.opcode, RDMAP_WRITE);
	assert_int_equal(segment.tagged.stag, 0x03c8c100);
	assert_int_equal(segment.tagged.offset, 0x563aaecd7f40);
	assert_int_equal(segment.payload_bytes, 4);
	assert_memory_equal(segment.payload, "rdma", 4);
	assert_int_equal(ddp_encode(&segment, bytes), DDP_TAGGED_BYTES);
	assert_memory_equal(bytes, siw_write, DDP_TAGGED_BYTES);

	assert_int_equal(ddp_decode(&segment, siw_send, sizeof(siw_send)), RDMAP_OK);
	assert_int_equal(segment.opcode, RDMAP_SEND);
	assert_int_equal(segment.untagged.msn, 2);
	assert_int_equal(segment.payload_bytes, 0);
}

static enum rdmap_error error_of(const uint8_t *bytes, size_t count, size_t at, uint8_t value)
{
	struct ddp_segment segment;
	uint8_t copy[64];

	memcpy(copy, bytes, count);
	copy[at] = value;
	return ddp_decode(&segment, copy, (uint32_t)count);
}

static void segment_of_another_version_is_refused(void **state)
{
	(void)state;
	assert_int_equal(
		error_of(siw_write, sizeof(siw_write), 0, 0xc2), RDMAP_ERROR_TAGGED_VERSION);
	assert_int_equal(
		error_of(siw_send, sizeof(siw_send), 0, 0x40), RDMAP_ERROR_UNTAGGED_VERSION);
	assert_int_equal(error_of(siw_send, sizeof(siw_send), 1, 0x83), RDMAP_ERROR_RDMAP_VERSION);
}

static void segment_with_reserved_bits_set_is_understood(void **state)
{
	(void)state;
	assert_int_equal(error_of(siw_write, sizeof(siw_write), 0, 0xfd), RDMAP_OK);
	assert_int_equal(error_of(siw_send, sizeof(siw_send), 1, 0x73), RDMAP_OK);
}

static void segment_of_an_unknown_or_misplaced_opcode_is_refused(void **state)
{
	(void)state;
	for (uint8_t opcode = RDMAP_OPCODE_COUNT; opcode < 16; opcode++)
		assert_int_equal(error_of(siw_send, sizeof(siw_send), 1, (uint8_t)(0x40 | opcode)),
			RDMAP_ERROR_UNEXPECTED_OPCODE);
	/* A tagged SEND, an untagged WRITE. */
	assert_int_equal(
		error_of(siw_write, sizeof(siw_write), 1, 0x43), RDMAP_ERROR_UNEXPECTED_OPCODE);
	assert_int_equal(
		error_of(siw_send, sizeof(siw_send), 1, 0x40), RDMAP_ERROR_UNEXPECTED_OPCODE);
}

static void segment_for_another_queue_is_refused(void **state)
{
	(void)state;
	assert_int_equal(error_of(siw_send, sizeof(siw_send), 9, DDP_QUEUE_COUNT),
		RDMAP_ERROR_UNTAGGED_QUEUE);
	assert_int_equal(error_of(siw_send, sizeof(siw_send), 6, 1), RDMAP_ERROR_UNTAGGED_QUEUE);
	assert_int_equal(error_of(siw_send, sizeof(siw_send), 9, 1), RDMAP_ERROR_UNEXPECTED_OPCODE);
}

static void segment_that_is_too_short_is_refused(void **state)
{
	struct ddp_segment segment;

	(void)state;
	for (uint32_t bytes = 0; bytes < DDP_UNTAGGED_BYTES; bytes++)
		assert_int_equal(
			ddp_decode(&segment, siw_send, bytes), RDMAP_ERROR_UNEXPECTED_OPCODE);
	for (uint32_t bytes = 0; bytes < DDP_TAGGED_BYTES; bytes++)
		assert_int_equal(
			ddp_decode(&segment, siw_write, bytes), RDMAP_ERROR_UNEXPECTED_OPCODE);
	assert_int_equal(ddp_decode(&segment, siw_read_request, sizeof(siw_read_request) - 1),
		RDMAP_ERROR_UNEXPECTED_OPCODE);
}

static void terminate_quotes_the_refused_request(void **state)
{
	uint8_t bytes[RDMAP_TERMINATE_BYTES_MAX];
	struct rdmap_terminate terminate;

	(void)state;
	assert_int_equal(rdmap_terminate_encode(RDMAP_ERROR_READ_STAG, siw_read_request,
				 sizeof(siw_read_request), bytes),
		RDMAP_TERMINATE_BYTES_MAX);
	assert_memory_equal(bytes, "\x01\x00\xe0\x00\x00\x2e", 6);
	assert_memory_equal(bytes + 6, siw_read_request, sizeof(siw_read_request));
	rdmap_terminate_decode(&terminate, bytes, RDMAP_TERMINATE_BYTES_MAX);
	assert_int_equal(terminate.error, RDMAP_ERROR_READ_STAG);
	assert_true(terminate.is_about_read);

	assert_int_equal(rdmap_terminate_encode(
				 RDMAP_ERROR_TAGGED_BOUNDS, siw_write, sizeof(siw_write), bytes),
		20);
	assert_memory_equal(bytes, "\x11\x01\xc0\x00\x00\x12", 6);
	rdmap_terminate_decode(&terminate, bytes, 20);
	assert_int_equal(terminate.error, RDMAP_ERROR_TAGGED_BOUNDS);
	assert_false(terminate.is_about_read);

	assert_int_equal(rdmap_terminate_encode(RDMAP_ERROR_MPA_CRC, NULL, 0, bytes), 4);
	assert_memory_equal(bytes, "\x20\x02\x00\x00", 4);
}

static void terminate_of_every_error_decodes_to_it(void **state)
{
	uint8_t bytes[RDMAP_TERMINATE_BYTES_MAX];
	struct rdmap_terminate terminate;

	(void)state;
	for (uint32_t i = RDMAP_OK + 1; i < RDMAP_ERROR_COUNT; i++) {
		uint32_t count = rdmap_terminate_encode((enum rdmap_error)i, NULL, 0, bytes);

		rdmap_terminate_decode(&terminate, bytes, count);
		assert_int_equal(terminate.error, i);
		assert_non_null(rdmap_error_sentence(terminate.error));
	}
}

/* siw has layer and type, and the flags, the other way round in their bytes. */
static void terminate_of_siw_is_understood(void **state)
{
	uint8_t read_refused[6 + sizeof(siw_read_request)] = {0x10, 0x00, 0x07, 0x00, 0x00, 0x46};
	static const uint8_t no_buffer[] = {0x21, 0x02, 0x03, 0x00, 0x00, 0x40, 0x41, 0x43, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0};
	struct rdmap_terminate terminate;

	(void)state;
	memcpy(read_refused + 6, siw_read_request, sizeof(siw_read_request));
	rdmap_terminate_decode(&terminate, read_refused, sizeof(read_refused));
	assert_int_equal(terminate.error, RDMAP_ERROR_READ_STAG);
	assert_true(terminate.is_about_read);
	rdmap_terminate_decode(&terminate, no_buffer, sizeof(no_buffer));
	assert_int_equal(terminate.error, RDMAP_ERROR_UNTAGGED_NO_BUFFER);
	assert_false(terminate.is_about_read);
}

static void atomic_payloads_decode_to_what_was_encoded(void **state)
{
	const struct rdmap_atomic_request request = {RDMAP_COMPARE_SWAP, 2, 3, 4, 5, 6, 7, 8};
	const struct rdmap_atomic_response response = {9, 0x123456789abcdef0};
	uint8_t bytes[RDMAP_ATOMIC_REQUEST_BYTES], bytes_again[RDMAP_ATOMIC_REQUEST_BYTES];
	struct rdmap_atomic_response response_again;
	struct rdmap_atomic_request again;

	(void)state;
	rdmap_atomic_request_encode(&request, bytes);
	rdmap_atomic_request_decode(&again, bytes);
	rdmap_atomic_request_encode(&again, bytes_again);
	assert_memory_equal(bytes_again, bytes, sizeof(bytes));
	assert_int_equal(again.operation, RDMAP_COMPARE_SWAP);
	assert_int_equal(again.compare_mask, 8);
	rdmap_atomic_response_encode(&response, bytes);
	rdmap_atomic_response_decode(&response_again, bytes);
	assert_int_equal(response_again.id, 9);
	assert_int_equal(response_again.original, 0x123456789abcdef0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_request_of_siw_is_understood),
		cmocka_unit_test(write_and_send_of_siw_are_understood),
		cmocka_unit_test(segment_of_another_version_is_refused),
		cmocka_unit_test(segment_with_reserved_bits_set_is_understood),
		cmocka_unit_test(segment_of_an_unknown_or_misplaced_opcode_is_refused),
		cmocka_unit_test(segment_for_another_queue_is_refused),
		cmocka_unit_test(segment_that_is_too_short_is_refused),
		cmocka_unit_test(terminate_quotes_the_refused_request),
		cmocka_unit_test(terminate_of_every_error_decodes_to_it),
		cmocka_unit_test(terminate_of_siw_is_understood),
		cmocka_unit_test(atomic_payloads_decode_to_what_was_encoded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
