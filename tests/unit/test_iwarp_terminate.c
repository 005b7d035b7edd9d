/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Terminate messages of the peer with every code, and the headers that urnic's own quote.
 * test_iwarp_refuse.c and test_mpa.c test that urnic sends the right code.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "qp/reason.h"
#include "support/stream.h"

enum { AT = 4096, FPDU_ROOM = 512 };

static struct stream_end end;

/* The result of a READ that the peer has refused like that. */
static const enum wc_status status_of[RDMAP_ERROR_COUNT] = {
	[RDMAP_ERROR_LOCAL_CATASTROPHIC] = WC_REM_OP_ERR,
	[RDMAP_ERROR_READ_STAG] = WC_REM_ACCESS_ERR,
	[RDMAP_ERROR_READ_BOUNDS] = WC_REM_ACCESS_ERR,
	[RDMAP_ERROR_READ_ACCESS] = WC_REM_ACCESS_ERR,
	[RDMAP_ERROR_READ_STREAM] = WC_REM_ACCESS_ERR,
	[RDMAP_ERROR_READ_WRAP] = WC_REM_ACCESS_ERR,
	[RDMAP_ERROR_INVALIDATE] = WC_REM_INV_REQ_ERR,
	[RDMAP_ERROR_REMOTE_PROTECTION] = WC_REM_ACCESS_ERR,
	[RDMAP_ERROR_RDMAP_VERSION] = WC_REM_OP_ERR,
	[RDMAP_ERROR_UNEXPECTED_OPCODE] = WC_REM_OP_ERR,
	[RDMAP_ERROR_STREAM_CATASTROPHIC] = WC_REM_OP_ERR,
	[RDMAP_ERROR_GLOBAL_CATASTROPHIC] = WC_REM_OP_ERR,
	[RDMAP_ERROR_INVALIDATE_OPERATION] = WC_REM_INV_REQ_ERR,
	[RDMAP_ERROR_REMOTE_OPERATION] = WC_REM_OP_ERR,
	[RDMAP_ERROR_DDP_CATASTROPHIC] = WC_REM_OP_ERR,
	[RDMAP_ERROR_TAGGED_STAG] = WC_REM_ACCESS_ERR,
	[RDMAP_ERROR_TAGGED_BOUNDS] = WC_REM_ACCESS_ERR,
	[RDMAP_ERROR_TAGGED_STREAM] = WC_REM_ACCESS_ERR,
	[RDMAP_ERROR_TAGGED_WRAP] = WC_REM_ACCESS_ERR,
	[RDMAP_ERROR_TAGGED_VERSION] = WC_REM_OP_ERR,
	[RDMAP_ERROR_UNTAGGED_QUEUE] = WC_REM_OP_ERR,
	[RDMAP_ERROR_UNTAGGED_NO_BUFFER] = WC_REM_OP_ERR,
	[RDMAP_ERROR_UNTAGGED_MSN] = WC_REM_OP_ERR,
	[RDMAP_ERROR_UNTAGGED_OFFSET] = WC_REM_OP_ERR,
	[RDMAP_ERROR_UNTAGGED_TOO_LONG] = WC_REM_INV_REQ_ERR,
	[RDMAP_ERROR_UNTAGGED_VERSION] = WC_REM_OP_ERR,
	[RDMAP_ERROR_MPA_CLOSED] = WC_REM_OP_ERR,
	[RDMAP_ERROR_MPA_CRC] = WC_REM_OP_ERR,
	[RDMAP_ERROR_MPA_MARKER] = WC_REM_OP_ERR,
	[RDMAP_ERROR_MPA_FRAME] = WC_REM_OP_ERR,
	[RDMAP_ERROR_MPA_CATASTROPHIC] = WC_REM_OP_ERR,
	[RDMAP_ERROR_MPA_READS] = WC_REM_OP_ERR,
	[RDMAP_ERROR_MPA_READY] = WC_REM_OP_ERR,
};

/*
 * A READ is under way, a WRITE is behind it, a receive request waits. Returns the length of the
 * READ's FPDU, at `fpdu`.
 */
static uint32_t start(uint8_t fpdu[FPDU_ROOM])
{
	struct stream_options options = {.settings = stream_settings(true)};
	struct send_wr wr;
	struct sge sge;

	stream_start(&end, &options);
	wr = stream_wr(&end, &end, WR_RDMA_READ, &sge, AT, 100, 0);
	assert_int_equal(stream_post(&end, &wr), 0);
	uint32_t bytes = (uint32_t)stream_take(&end, fpdu, FPDU_ROOM);
	wr = stream_wr(&end, &end, WR_RDMA_WRITE, &sge, AT, 100, 0);
	assert_int_equal(stream_post(&end, &wr), 0);
	assert_int_equal(stream_post_receive(&end, 3, AT, 100), 0);
	return bytes;
}

static void give(const struct ddp_segment *segment, const uint8_t *payload, uint32_t bytes)
{
	uint8_t fpdu[FPDU_ROOM];
	uint32_t header_bytes = ddp_encode(segment, fpdu + FPDU_LENGTH_BYTES);

	memcpy(fpdu + FPDU_LENGTH_BYTES + header_bytes, payload, bytes);
	stream_give(&end, fpdu, fpdu_seal(fpdu, header_bytes + bytes, false));
}

static struct ddp_segment terminate_segment(void)
{
	return (struct ddp_segment){.opcode = RDMAP_TERMINATE,
		.is_last = true,
		.untagged = {.queue = DDP_QUEUE_TERMINATE, .msn = 1}};
}

static void give_terminate(const uint8_t *payload, uint32_t bytes)
{
	const struct ddp_segment segment = terminate_segment();

	give(&segment, payload, bytes);
}

/* All requests come back, the READ so; the stream ends, and we say nothing more. */
static void expect_the_end(enum wc_status read)
{
	const enum wc_status expected[] = {WC_WR_FLUSH_ERR, read, WC_WR_FLUSH_ERR};
	uint8_t bytes[FPDU_ROOM];
	uint32_t reads = 0, others = 0;
	struct cqe cqe;

	while (stream_poll(&end, &cqe)) {
		if (cqe.status == expected[0] && read != WC_WR_FLUSH_ERR)
			others++;
		else if (cqe.status == read)
			reads++;
		else
			fail_msg("status %d", cqe.status);
	}
	assert_int_equal(reads + others, 3);
	assert_true(read == WC_WR_FLUSH_ERR || reads == 1);
	assert_int_equal(end.qp->state, QP_ERR);
	assert_true(end.events & SIGNAL_QP_FATAL);
	assert_int_equal(stream_take(&end, bytes, sizeof(bytes)), 0);
	assert_true(end.has_said_end);
	assert_true(stream_is_untouched(&end, 0, STREAM_MEMORY_BYTES));
	stream_stop(&end);
}

static struct failures failures;

/* The stream's end is the only failure that is kept, or the first. */
static void expect_failure(enum reason reason, enum rdmap_error error)
{
	uint64_t value;

	assert_int_equal(failures.list[0].reason, reason);
	assert_true(failure_fact(&failures.list[0], FACT_terminate, &value));
	assert_int_equal(value, error);
}

static void terminate_that_is_received_is_kept_as_a_failure(void **state)
{
	uint8_t payload[RDMAP_TERMINATE_BYTES_MAX], fpdu[FPDU_ROOM];

	(void)state;
	start(fpdu);
	failures = (struct failures){.noted = NULL};
	end.lane.failures = &failures;
	give_terminate(
		payload, rdmap_terminate_encode(RDMAP_ERROR_UNTAGGED_NO_BUFFER, NULL, 0, payload));
	expect_failure(REASON_TERMINATE_RECEIVED, RDMAP_ERROR_UNTAGGED_NO_BUFFER);
	stream_stop(&end);
}

static void terminate_that_is_sent_is_kept_as_a_failure(void **state)
{
	const struct ddp_segment segment = {
		.opcode = RDMAP_WRITE, .is_last = true, .tagged = {.stag = 1, .offset = 0}};
	const uint8_t payload[8] = {0};
	uint8_t fpdu[FPDU_ROOM];

	(void)state;
	start(fpdu);
	failures = (struct failures){.noted = NULL};
	end.lane.failures = &failures;
	give(&segment, payload, sizeof(payload));
	expect_failure(REASON_TERMINATE_SENT, RDMAP_ERROR_TAGGED_STAG);
	stream_stop(&end);
}

static void every_code_about_a_read_fails_the_read(void **state)
{
	uint8_t payload[RDMAP_TERMINATE_BYTES_MAX], fpdu[FPDU_ROOM];

	(void)state;
	for (uint32_t i = RDMAP_OK + 1; i < RDMAP_ERROR_COUNT; i++) {
		start(fpdu);
		assert_int_not_equal(status_of[i], WC_SUCCESS); /* the table has them all */
		give_terminate(payload,
			rdmap_terminate_encode((enum rdmap_error)i, fpdu + FPDU_LENGTH_BYTES,
				fpdu_ulpdu_bytes(fpdu), payload));
		expect_the_end(status_of[i]);
	}
}

static void every_code_about_nothing_flushes_everything(void **state)
{
	uint8_t payload[RDMAP_TERMINATE_BYTES_MAX], fpdu[FPDU_ROOM];

	(void)state;
	for (uint32_t i = RDMAP_OK + 1; i < RDMAP_ERROR_COUNT; i++) {
		start(fpdu);
		give_terminate(
			payload, rdmap_terminate_encode((enum rdmap_error)i, NULL, 0, payload));
		expect_the_end(WC_WR_FLUSH_ERR);
	}
}

static void code_that_there_is_not_ends_the_stream_all_the_same(void **state)
{
	static const uint8_t unknown[] = {0x0f, 0x77, 0, 0}, any[] = {0x00, 0x5c, 0, 0};
	struct rdmap_terminate terminate;
	uint8_t fpdu[FPDU_ROOM];

	(void)state;
	start(fpdu);
	give_terminate(unknown, sizeof(unknown));
	expect_the_end(WC_WR_FLUSH_ERR);
	rdmap_terminate_decode(&terminate, unknown, sizeof(unknown));
	assert_int_equal(terminate.error, RDMAP_OK);
	rdmap_terminate_decode(&terminate, any, sizeof(any)); /* has no codes */
	assert_int_equal(terminate.error, RDMAP_ERROR_LOCAL_CATASTROPHIC);
}

static void terminate_that_says_it_quotes_what_it_does_not_is_taken(void **state)
{
	static const uint8_t short_of[] = {0x01, 0x00, 0xe0, 0x00, 0xff, 0xff, 0x41, 0x41};
	uint8_t fpdu[FPDU_ROOM];

	(void)state;
	start(fpdu);
	give_terminate(short_of, sizeof(short_of));
	expect_the_end(WC_WR_FLUSH_ERR);
}

/* RFC 5040 section 5.4: a malformed Terminate message is an error like any other. */
static void terminate_that_is_none_is_refused(void **state)
{
	static const uint8_t payload[4] = {0x10, 0, 0, 0};
	uint8_t bytes[FPDU_ROOM];

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct ddp_segment segment = terminate_segment();

		start(bytes);
		segment.untagged.msn += i == 0;
		segment.untagged.offset = i == 1;
		segment.is_last = i != 2;
		give(&segment, payload, i == 3 ? 3 : 4);
		assert_int_equal(end.qp->state, QP_ERR);
		assert_true(end.events & SIGNAL_QP_REQUEST);
		assert_false(end.events & SIGNAL_QP_FATAL);
		stream_take(&end, bytes, sizeof(bytes));
		stream_stop(&end);
	}
}

static void what_follows_a_terminate_is_not_looked_at(void **state)
{
	uint8_t both[2 * FPDU_ROOM], fpdu[FPDU_ROOM];
	struct ddp_segment write, segment = terminate_segment();
	uint32_t header_bytes, count;

	(void)state;
	start(fpdu);
	header_bytes = ddp_encode(&segment, both + FPDU_LENGTH_BYTES);
	memset(both + FPDU_LENGTH_BYTES + header_bytes, 0, 4);
	count = fpdu_seal(both, header_bytes + 4, false);
	write = (struct ddp_segment){.opcode = RDMAP_WRITE,
		.is_last = true,
		.tagged = {.stag = end.key, .offset = (uintptr_t)end.memory}};
	header_bytes = ddp_encode(&write, both + count + FPDU_LENGTH_BYTES);
	memset(both + count + FPDU_LENGTH_BYTES + header_bytes, 0xee, 100);
	count += fpdu_seal(both + count, header_bytes + 100, false);
	stream_give(&end, both, count);
	expect_the_end(WC_WR_FLUSH_ERR);
}

/* --- ours --- */

static void give_read(uint32_t msn, uint32_t bytes)
{
	const struct ddp_segment segment = {.opcode = RDMAP_READ_REQUEST,
		.is_last = true,
		.untagged = {.queue = DDP_QUEUE_READ_REQUEST, .msn = msn}};
	const struct rdmap_read_request request = {.sink_stag = 7,
		.sink_offset = 1000,
		.bytes = bytes,
		.source_stag = end.key,
		.source_offset = (uintptr_t)end.memory};
	uint8_t fpdu[FPDU_ROOM];
	uint32_t header_bytes = ddp_encode(&segment, fpdu + FPDU_LENGTH_BYTES);

	rdmap_read_request_encode(&request, fpdu + FPDU_LENGTH_BYTES + header_bytes);
	stream_give(&end, fpdu, fpdu_seal(fpdu, header_bytes + RDMAP_READ_REQUEST_BYTES, true));
}

/* Go through the FPDUs of a stream up to the last one, and add up the payload of READ responses. */
static const uint8_t *last_fpdu(const uint8_t *bytes, size_t count, uint32_t *ret_answered_bytes)
{
	const uint8_t *behind = bytes + count;

	*ret_answered_bytes = 0;
	for (;;) {
		struct ddp_segment segment;
		uint32_t ulpdu_bytes = fpdu_ulpdu_bytes(bytes);

		assert_int_equal(
			ddp_decode(&segment, bytes + FPDU_LENGTH_BYTES, ulpdu_bytes), RDMAP_OK);
		if (bytes + fpdu_bytes(ulpdu_bytes) == behind)
			return bytes;
		assert_int_equal(segment.opcode, RDMAP_READ_RESPONSE);
		*ret_answered_bytes += segment.payload_bytes;
		bytes += fpdu_bytes(ulpdu_bytes);
	}
}

/* RFC 5040 section 4.8: where the READ had got to. */
static void read_that_ends_in_the_middle_is_quoted_as_what_is_left(void **state)
{
	enum { SHORT = 10, LONG = 300000 };
	struct stream_options options = {.settings = stream_settings(false)};
	static uint8_t bytes[LONG + 4096];
	uint32_t answered_bytes, msn;
	struct rdmap_read_request left;
	const uint8_t *fpdu, *quoted;
	size_t count;

	(void)state;
	options.settings.has_crc = true;
	stream_start(&end, &options);
	give_read(1, SHORT);
	give_read(2, LONG);
	count = stream_take(&end, bytes, LONG / 2);
	assert_int_equal(mr_table_remove(&end.mrs, end.key, STREAM_PD), 0);
	count += stream_take(&end, bytes + count, sizeof(bytes) - count);
	assert_int_equal(end.qp->state, QP_ERR);
	fpdu = last_fpdu(bytes, count, &answered_bytes);
	quoted = fpdu + FPDU_LENGTH_BYTES + DDP_UNTAGGED_BYTES;
	assert_memory_equal(quoted, "\x01\x00\xe0\x00\x00\x2e", 6);
	quoted += 6;
	msn = (uint32_t)quoted[12] << 8 | quoted[13];
	assert_int_equal(msn, 2);
	rdmap_read_request_decode(&left, quoted + DDP_UNTAGGED_BYTES);
	answered_bytes -= SHORT;
	assert_int_equal(left.sink_stag, 7);
	assert_int_equal(left.sink_offset, 1000 + answered_bytes);
	assert_int_equal(left.source_offset, (uintptr_t)end.memory + answered_bytes);
	assert_int_equal(left.bytes, LONG - answered_bytes);
	stream_stop(&end);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(terminate_that_is_received_is_kept_as_a_failure),
		cmocka_unit_test(terminate_that_is_sent_is_kept_as_a_failure),
		cmocka_unit_test(every_code_about_a_read_fails_the_read),
		cmocka_unit_test(every_code_about_nothing_flushes_everything),
		cmocka_unit_test(code_that_there_is_not_ends_the_stream_all_the_same),
		cmocka_unit_test(terminate_that_says_it_quotes_what_it_does_not_is_taken),
		cmocka_unit_test(terminate_that_is_none_is_refused),
		cmocka_unit_test(what_follows_a_terminate_is_not_looked_at),
		cmocka_unit_test(read_that_ends_in_the_middle_is_quoted_as_what_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
