/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host's end of NVMe/TCP against a controller that the test scripts, byte for byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "nvmf/common/bytes.h"
#include "nvmf/common/tcp/digest.h"
#include "nvmf/host/tcp/tcp_session.h"

enum { DEPTH = 4, IN_CAPSULE = 512, H2C_MAX = 4096, DATA_BYTES = 16384, STREAM_BYTES = 65536 };

static struct tcp_session session;
static struct tcp_options options;
static uint8_t sent[STREAM_BYTES];
static size_t sent_bytes;
static uint8_t data[2][DATA_BYTES];

struct test_command {
	struct host_command command;
	int done;
	enum host_end end;
};

static void command_done(struct host_command *command, enum host_end end)
{
	struct test_command *test = container_of(command, struct test_command, command);

	test->done++;
	test->end = end;
}

/* Take up to `limit` bytes of the session's output. */
static void take_output(size_t limit)
{
	struct iovec parts[8];
	size_t taken = 0;
	int count;

	sent_bytes = 0;
	while (taken < limit && (count = tcp_session_output(&session, parts, 8)) > 0) {
		size_t round = 0;

		for (int i = 0; i < count && taken + round < limit; i++) {
			size_t piece = parts[i].iov_len;

			if (piece > limit - taken - round)
				piece = limit - taken - round;
			memcpy(sent + taken + round, parts[i].iov_base, piece);
			round += piece;
		}
		tcp_session_sent(&session, round);
		taken += round;
	}
	sent_bytes = taken;
}

static void feed_pdu(struct tcp_pdu *pdu, const struct tcp_options *pdu_options)
{
	static uint8_t bytes[STREAM_BYTES];
	uint8_t *end = bytes + tcp_pdu_encode(pdu, pdu_options, bytes);

	if (pdu->data_bytes) {
		memset(end, 0xc3, pdu->data_bytes);
		if (pdu->flags & TCP_DDGST)
			le32_put(end + pdu->data_bytes, digest_of(end, pdu->data_bytes));
	}
	tcp_session_received(&session, 0, bytes, pdu->plen);
}

static void begin(bool has_digests, uint16_t qid)
{
	static const struct tcp_options none;
	struct tcp_pdu pdu = {.type = TCP_PDU_IC_RESP};
	struct host_queue_settings settings = {
		.qid = qid,
		.depth = DEPTH,
		.in_capsule_bytes = IN_CAPSULE,
		.data_bytes_max = DATA_BYTES,
		.wants_header_digest = has_digests,
		.wants_data_digest = has_digests,
	};

	options = (struct tcp_options){
		.has_header_digest = has_digests, .has_data_digest = has_digests};
	assert_int_equal(tcp_session_init(&session, &settings), 0);
	take_output(STREAM_BYTES);
	assert_int_equal(sent_bytes, 128);
	pdu.ic.max = H2C_MAX;
	pdu.ic.digest = has_digests ? 3 : 0;
	feed_pdu(&pdu, &none);
	assert_true(session.is_ready);
}

static void submit(struct test_command *test, enum host_direction direction, uint32_t bytes)
{
	*test = (struct test_command){.command = {
					      .data = bytes ? data[0] : NULL,
					      .data_bytes = bytes,
					      .direction = direction,
					      .done = command_done,
				      }};
	test->command.sqe[0] = direction == HOST_TO_CONTROLLER ? 1 : 2;
	tcp_session_submit(&session, &test->command);
}

static void respond(struct test_command *test, uint16_t status)
{
	struct tcp_pdu pdu = {.type = TCP_PDU_CAPSULE_RESP};

	le16_put(pdu.cqe + 12, test->command.cid);
	le16_put(pdu.cqe + 14, (uint16_t)(status << 1));
	feed_pdu(&pdu, &options);
}

static void data_pdu(struct test_command *test, enum tcp_pdu_type type, uint8_t flags,
	uint32_t offset, uint32_t length)
{
	struct tcp_pdu pdu = {.type = type, .flags = flags};

	pdu.data_bytes = type == TCP_PDU_C2H_DATA ? length : 0;
	pdu.data.cccid = test->command.cid;
	pdu.data.ttag = 77;
	pdu.data.offset = offset;
	pdu.data.length = length;
	feed_pdu(&pdu, &options);
}

static void a_small_write_travels_in_the_capsule(void **state)
{
	struct test_command test;

	(void)state;
	begin(false, 1);
	submit(&test, HOST_TO_CONTROLLER, IN_CAPSULE);
	take_output(STREAM_BYTES);
	assert_int_equal(sent_bytes, 72 + IN_CAPSULE);
	assert_int_equal(sent[0], TCP_PDU_CAPSULE_CMD);
	assert_int_equal(sent[8 + 1] & 0xc0, 0x40);
	assert_int_equal(sent[8 + 39], 0x01);
	assert_int_equal(le32_get(sent + 8 + 32), IN_CAPSULE);
	respond(&test, 0);
	assert_int_equal(test.done, 1);
	assert_int_equal(test.end, HOST_COMPLETED);
	tcp_session_end(&session);
}

static void admin_and_fabrics_commands_put_8192_bytes_into_the_capsule(void **state)
{
	struct test_command test;

	(void)state;
	begin(false, 0);
	submit(&test, HOST_TO_CONTROLLER, TCP_ADMIN_DATA_BYTES);
	take_output(STREAM_BYTES);
	assert_int_equal(sent_bytes, 72 + TCP_ADMIN_DATA_BYTES);
	tcp_session_end(&session);

	begin(false, 1);
	memset(&test, 0, sizeof(test));
	test.command.sqe[0] = 0x7f;
	test.command.data = data[0];
	test.command.data_bytes = 1024;
	test.command.direction = HOST_TO_CONTROLLER;
	test.command.done = command_done;
	tcp_session_submit(&session, &test.command);
	take_output(STREAM_BYTES);
	assert_int_equal(sent_bytes, 72 + 1024);
	tcp_session_end(&session);
	assert_int_equal(test.end, HOST_LOST);
}

/* 10,000 bytes by two R2Ts, the first of 6,000 bytes in PDUs of MAXH2CDATA. */
static void a_large_write_follows_the_r2ts(void **state)
{
	struct test_command test;

	(void)state;
	for (int has_digests = 0; has_digests < 2; has_digests++) {
		size_t extra = has_digests ? 4 : 0;

		begin(has_digests, 1);
		submit(&test, HOST_TO_CONTROLLER, 10000);
		take_output(STREAM_BYTES);
		assert_int_equal(sent_bytes, 72 + extra);
		assert_int_equal(sent[8 + 39], 0x5a);
		data_pdu(&test, TCP_PDU_R2T, 0, 0, 6000);
		take_output(STREAM_BYTES);
		assert_int_equal(sent_bytes, 2 * (24 + 2 * extra) + 6000);
		assert_int_equal(sent[0], TCP_PDU_H2C_DATA);
		assert_false(sent[1] & TCP_LAST);
		assert_int_equal(le32_get(sent + 16), H2C_MAX);
		assert_int_equal(le16_get(sent + 10), 77);
		assert_true(sent[24 + 2 * extra + H2C_MAX + 1] & TCP_LAST);
		data_pdu(&test, TCP_PDU_R2T, 0, 6000, 4000);
		take_output(STREAM_BYTES);
		assert_int_equal(le32_get(sent + 12), 6000);
		respond(&test, 0);
		assert_int_equal(test.done, 1);
		assert_int_equal(session.error, 0);
		tcp_session_end(&session);
	}
}

static void a_read_arrives_in_pieces_and_by_success(void **state)
{
	struct test_command test;

	(void)state;
	begin(true, 1);
	submit(&test, HOST_FROM_CONTROLLER, 8192);
	take_output(STREAM_BYTES);
	memset(data[0], 0, DATA_BYTES);
	data_pdu(&test, TCP_PDU_C2H_DATA, 0, 0, 4096);
	data_pdu(&test, TCP_PDU_C2H_DATA, TCP_LAST | TCP_SUCCESS, 4096, 4096);
	assert_int_equal(test.done, 1);
	assert_int_equal(test.end, HOST_COMPLETED);
	assert_int_equal(le16_get(test.command.cqe + 14), 0);
	assert_int_equal(data[0][0], 0xc3);
	assert_int_equal(data[0][8191], 0xc3);
	assert_int_equal(data[0][8192], 0);
	tcp_session_end(&session);
}

static void damaged_data_ends_one_command_only(void **state)
{
	struct tcp_pdu pdu = {.type = TCP_PDU_C2H_DATA, .flags = TCP_LAST};
	uint8_t bytes[1024];
	struct test_command test;

	(void)state;
	begin(true, 1);
	submit(&test, HOST_FROM_CONTROLLER, 512);
	take_output(STREAM_BYTES);
	pdu.data_bytes = pdu.data.length = 512;
	pdu.data.cccid = test.command.cid;
	memset(bytes, 0, sizeof(bytes));
	tcp_pdu_encode(&pdu, &options, bytes);
	le32_put(bytes + pdu.plen - 4, 0x12345678);
	tcp_session_received(&session, 0, bytes, pdu.plen);
	respond(&test, 0);
	assert_int_equal(test.end, HOST_DAMAGED);
	submit(&test, HOST_NO_DATA, 0);
	take_output(STREAM_BYTES);
	respond(&test, 0);
	assert_int_equal(test.end, HOST_COMPLETED);
	tcp_session_end(&session);
}

/*
 * The data is damaged in the first of two PDUs or in the last one. A SUCCESS flag or a response
 * follows, or a response with an error status.
 */
static void damaged_data_ends_its_command_in_each_state(void **state)
{
	static const struct {
		bool is_first_wrong;
		bool has_success;
		uint16_t status;
	} rows[] = {
		{true, false, 0},
		{false, false, 0},
		{true, true, 0},
		{false, true, 0},
		{true, false, 0x80},
		{false, false, 0x80},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct test_command tests[2];

		begin(true, 1);
		submit(&tests[0], HOST_FROM_CONTROLLER, 1024);
		submit(&tests[1], HOST_NO_DATA, 0);
		take_output(STREAM_BYTES);
		for (uint32_t half = 0; half < 2; half++) {
			struct tcp_pdu pdu = {.type = TCP_PDU_C2H_DATA, .data_bytes = 512};
			uint8_t bytes[1024] = {0};

			if (half)
				pdu.flags = TCP_LAST | (rows[i].has_success ? TCP_SUCCESS : 0);
			pdu.data.length = 512;
			pdu.data.offset = half * 512;
			pdu.data.cccid = tests[0].command.cid;
			tcp_pdu_encode(&pdu, &options, bytes);
			le32_put(bytes + pdu.plen - 4,
				digest_of(bytes + pdu.pdo, 512) ^ (half != rows[i].is_first_wrong));
			tcp_session_received(&session, 0, bytes, pdu.plen);
		}
		if (!rows[i].has_success)
			respond(&tests[0], rows[i].status);
		assert_int_equal(tests[0].end, HOST_DAMAGED);
		respond(&tests[1], 0);
		assert_int_equal(tests[1].end, HOST_COMPLETED);
		assert_int_equal(session.error, 0);
		tcp_session_end(&session);
	}
}

static void an_early_error_waits_until_the_data_has_left(void **state)
{
	struct test_command test;

	(void)state;
	begin(false, 1);
	submit(&test, HOST_TO_CONTROLLER, 8192);
	take_output(STREAM_BYTES);
	data_pdu(&test, TCP_PDU_R2T, 0, 0, 8192);
	take_output(100);
	respond(&test, 0x80);
	assert_int_equal(test.done, 0);
	take_output(STREAM_BYTES);
	assert_int_equal(test.done, 1);
	assert_int_equal(le16_get(test.command.cqe + 14), 0x100);
	tcp_session_end(&session);
}

static void the_end_tells_what_was_sent_and_what_was_not(void **state)
{
	struct test_command tests[DEPTH];

	(void)state;
	begin(false, 1);
	for (int i = 0; i < DEPTH; i++)
		submit(&tests[i], HOST_NO_DATA, 0);
	take_output(72 + 1);
	tcp_session_end(&session);
	for (int i = 0; i < DEPTH; i++) {
		assert_int_equal(tests[i].done, 1);
		assert_int_equal(tests[i].end, i < 2 ? HOST_LOST : HOST_UNSENT);
	}
}

/* A pending read or write of 8,192 bytes, 4,096 of which may have moved, and then one PDU. */
struct refusal_row {
	const char *name;
	enum host_direction direction;
	bool has_moved_half;
	enum tcp_pdu_type type;
	uint8_t flags;
	int cid_change;
	uint32_t offset;
	uint32_t length;
	uint32_t data_bytes; /* 0: as `length` */
	enum tcp_fatal fes; /* TCP_FATAL_NONE: accepted */
};

/* clang-format off */
static const struct refusal_row refusals[] = {
	{"R2T", HOST_TO_CONTROLLER, false, TCP_PDU_R2T, 0, 0, 0, 8192, 0, TCP_FATAL_NONE},
	{"next R2T", HOST_TO_CONTROLLER, true, TCP_PDU_R2T, 0, 0, 4096, 4096, 0, TCP_FATAL_NONE},
	{"R2T of a read", HOST_FROM_CONTROLLER, false, TCP_PDU_R2T, 0, 0, 0, 8192, 0, TCP_FATAL_HEADER},
	{"R2T without data", HOST_NO_DATA, false, TCP_PDU_R2T, 0, 0, 0, 8192, 0, TCP_FATAL_HEADER},
	{"R2T of another cid", HOST_TO_CONTROLLER, false, TCP_PDU_R2T, 0, 1, 0, 8192, 0, TCP_FATAL_HEADER},
	{"R2T of an old cid", HOST_TO_CONTROLLER, false, TCP_PDU_R2T, 0, -1024, 0, 8192, 0, TCP_FATAL_HEADER},
	{"R2T of a cid that is no slot", HOST_TO_CONTROLLER, false, TCP_PDU_R2T, 0, 100, 0, 8192, 0, TCP_FATAL_HEADER},
	{"R2T with a gap", HOST_TO_CONTROLLER, false, TCP_PDU_R2T, 0, 0, 4, 4096, 0, TCP_FATAL_DATA_RANGE},
	{"R2T again", HOST_TO_CONTROLLER, true, TCP_PDU_R2T, 0, 0, 0, 4096, 0, TCP_FATAL_DATA_RANGE},
	{"R2T of nothing", HOST_TO_CONTROLLER, false, TCP_PDU_R2T, 0, 0, 0, 0, 0, TCP_FATAL_HEADER},
	{"R2T too long", HOST_TO_CONTROLLER, true, TCP_PDU_R2T, 0, 0, 4096, 4097, 0, TCP_FATAL_DATA_RANGE},
	{"R2T that wraps", HOST_TO_CONTROLLER, true, TCP_PDU_R2T, 0, 0, 4096, 0xfffff001, 0, TCP_FATAL_DATA_RANGE},
	{"data", HOST_FROM_CONTROLLER, false, TCP_PDU_C2H_DATA, 0, 0, 0, 4096, 0, TCP_FATAL_NONE},
	{"last data", HOST_FROM_CONTROLLER, true, TCP_PDU_C2H_DATA, TCP_LAST | TCP_SUCCESS, 0, 4096, 4096, 0, TCP_FATAL_NONE},
	{"data of a write", HOST_TO_CONTROLLER, false, TCP_PDU_C2H_DATA, 0, 0, 0, 4096, 0, TCP_FATAL_HEADER},
	{"data without data", HOST_NO_DATA, false, TCP_PDU_C2H_DATA, 0, 0, 0, 4096, 0, TCP_FATAL_HEADER},
	{"data of another cid", HOST_FROM_CONTROLLER, false, TCP_PDU_C2H_DATA, 0, 1, 0, 4096, 0, TCP_FATAL_HEADER},
	{"data with a gap", HOST_FROM_CONTROLLER, false, TCP_PDU_C2H_DATA, 0, 0, 512, 4096, 0, TCP_FATAL_DATA_RANGE},
	{"data again", HOST_FROM_CONTROLLER, true, TCP_PDU_C2H_DATA, 0, 0, 0, 4096, 0, TCP_FATAL_DATA_RANGE},
	{"data of another length", HOST_FROM_CONTROLLER, false, TCP_PDU_C2H_DATA, 0, 0, 0, 4096, 2048, TCP_FATAL_HEADER},
	{"too much data", HOST_FROM_CONTROLLER, true, TCP_PDU_C2H_DATA, 0, 0, 4096, 4100, 0, TCP_FATAL_DATA_RANGE},
	{"more data than a PDU has", HOST_FROM_CONTROLLER, false, TCP_PDU_C2H_DATA, 0, 0, 0, DATA_BYTES + 4, 0, TCP_FATAL_HEADER},
	{"SUCCESS without LAST", HOST_FROM_CONTROLLER, true, TCP_PDU_C2H_DATA, TCP_SUCCESS, 0, 4096, 4096, 0, TCP_FATAL_HEADER},
	{"SUCCESS too early", HOST_FROM_CONTROLLER, false, TCP_PDU_C2H_DATA, TCP_LAST | TCP_SUCCESS, 0, 0, 4096, 0, TCP_FATAL_SEQUENCE},
	{"response to another cid", HOST_NO_DATA, false, TCP_PDU_CAPSULE_RESP, 0, 1, 0, 0, 0, TCP_FATAL_HEADER},
	{"short read", HOST_FROM_CONTROLLER, true, TCP_PDU_CAPSULE_RESP, 0, 0, 0, 0, 0, TCP_FATAL_SEQUENCE},
	{"short write", HOST_TO_CONTROLLER, true, TCP_PDU_CAPSULE_RESP, 0, 0, 0, 0, 0, TCP_FATAL_SEQUENCE},
	{"response", HOST_NO_DATA, false, TCP_PDU_CAPSULE_RESP, 0, 0, 0, 0, 0, TCP_FATAL_NONE},
	{"second ICResp", HOST_NO_DATA, false, TCP_PDU_IC_RESP, 0, 0, 0, 0, 0, TCP_FATAL_SEQUENCE},
	{"wrong direction", HOST_NO_DATA, false, TCP_PDU_CAPSULE_CMD, 0, 0, 0, 0, 0, TCP_FATAL_HEADER},
};
/* clang-format on */

static void feed_row(const struct refusal_row *row, struct test_command *test)
{
	uint16_t cid = (uint16_t)(test->command.cid + row->cid_change);
	struct tcp_pdu pdu = {.type = row->type, .flags = row->flags};

	if (row->type == TCP_PDU_CAPSULE_RESP) {
		le16_put(pdu.cqe + 12, cid);
	} else if (row->type == TCP_PDU_R2T || row->type == TCP_PDU_C2H_DATA) {
		pdu.data.cccid = cid;
		pdu.data.offset = row->offset;
		pdu.data.length = row->length;
		if (row->type == TCP_PDU_C2H_DATA)
			pdu.data_bytes = row->data_bytes ? row->data_bytes : row->length;
	}
	feed_pdu(&pdu, &options);
}

static void each_row_is_refused_or_accepted(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2 * sizeof(refusals) / sizeof(*refusals); i++) {
		const struct refusal_row *row = &refusals[i / 2];
		struct test_command test;

		begin(i % 2, 1);
		submit(&test, row->direction, row->direction == HOST_NO_DATA ? 0 : 8192);
		take_output(STREAM_BYTES);
		if (row->has_moved_half && row->direction == HOST_TO_CONTROLLER)
			data_pdu(&test, TCP_PDU_R2T, 0, 0, 4096);
		else if (row->has_moved_half)
			data_pdu(&test, TCP_PDU_C2H_DATA, 0, 0, 4096);
		take_output(STREAM_BYTES);
		assert_int_equal(session.error, 0);
		feed_row(row, &test);
		if (session.rx.refusal.fes != row->fes || !session.error != !row->fes)
			fail_msg("%s: FES %u (%s)", row->name, session.rx.refusal.fes,
				session.reason);
		if (row->fes != TCP_FATAL_NONE) {
			take_output(STREAM_BYTES);
			assert_int_equal(sent[0], TCP_PDU_H2C_TERM);
			assert_int_equal(le16_get(sent + 8), row->fes);
			assert_int_equal(test.done, 0);
		}
		tcp_session_end(&session);
		assert_int_equal(test.done, 1);
	}
}

static void a_second_r2t_before_the_data_is_refused(void **state)
{
	struct test_command test;

	(void)state;
	begin(false, 1);
	submit(&test, HOST_TO_CONTROLLER, 8192);
	take_output(STREAM_BYTES);
	data_pdu(&test, TCP_PDU_R2T, 0, 0, 4096);
	data_pdu(&test, TCP_PDU_R2T, 0, 4096, 4096);
	assert_int_equal(session.rx.refusal.fes, TCP_FATAL_LIMIT);
	tcp_session_end(&session);
}

static void a_command_that_has_not_left_cannot_be_answered(void **state)
{
	struct test_command test;

	(void)state;
	begin(false, 1);
	submit(&test, HOST_FROM_CONTROLLER, 512);
	data_pdu(&test, TCP_PDU_C2H_DATA, TCP_LAST | TCP_SUCCESS, 0, 512);
	assert_int_equal(session.rx.refusal.fes, TCP_FATAL_HEADER);
	tcp_session_end(&session);
	assert_int_equal(test.end, HOST_UNSENT);
}

/* A response before an R2T's data has left, and then once more. */
static void a_second_response_is_refused(void **state)
{
	struct test_command test;

	(void)state;
	begin(false, 1);
	submit(&test, HOST_TO_CONTROLLER, 8192);
	take_output(STREAM_BYTES);
	data_pdu(&test, TCP_PDU_R2T, 0, 0, 8192);
	respond(&test, 0x80);
	respond(&test, 0x80);
	assert_int_equal(session.rx.refusal.fes, TCP_FATAL_HEADER);
	tcp_session_end(&session);
	assert_int_equal(test.done, 1);
}

static void an_icresp_with_other_digests_is_refused(void **state)
{
	static const struct tcp_options none;

	(void)state;
	for (uint8_t asked = 0; asked < 4; asked++) {
		for (uint8_t answer = 0; answer < 4; answer++) {
			struct tcp_pdu pdu = {.type = TCP_PDU_IC_RESP};
			struct host_queue_settings settings = {
				.depth = 1,
				.wants_header_digest = asked & 1,
				.wants_data_digest = asked & 2,
			};

			assert_int_equal(tcp_session_init(&session, &settings), 0);
			take_output(STREAM_BYTES);
			assert_int_equal(sent[11], asked);
			pdu.ic.max = H2C_MAX;
			pdu.ic.digest = answer;
			feed_pdu(&pdu, &none);
			assert_int_equal(session.is_ready, asked == answer);
			assert_int_equal(session.error, asked == answer ? 0 : -EPROTO);
			tcp_session_end(&session);
		}
	}
}

static void a_termreq_ends_the_session_with_its_reason(void **state)
{
	struct tcp_pdu pdu = {.type = TCP_PDU_C2H_TERM};

	(void)state;
	begin(false, 1);
	pdu.term.fes = TCP_FATAL_LIMIT;
	pdu.data_bytes = 24;
	feed_pdu(&pdu, &options);
	assert_int_equal(session.error, -EPROTO);
	assert_non_null(strstr(session.reason, "limit"));
	take_output(STREAM_BYTES);
	assert_int_equal(sent_bytes, 0);
	tcp_session_end(&session);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_small_write_travels_in_the_capsule),
		cmocka_unit_test(admin_and_fabrics_commands_put_8192_bytes_into_the_capsule),
		cmocka_unit_test(a_large_write_follows_the_r2ts),
		cmocka_unit_test(a_read_arrives_in_pieces_and_by_success),
		cmocka_unit_test(damaged_data_ends_one_command_only),
		cmocka_unit_test(damaged_data_ends_its_command_in_each_state),
		cmocka_unit_test(an_early_error_waits_until_the_data_has_left),
		cmocka_unit_test(the_end_tells_what_was_sent_and_what_was_not),
		cmocka_unit_test(each_row_is_refused_or_accepted),
		cmocka_unit_test(a_second_r2t_before_the_data_is_refused),
		cmocka_unit_test(a_command_that_has_not_left_cannot_be_answered),
		cmocka_unit_test(a_second_response_is_refused),
		cmocka_unit_test(an_icresp_with_other_digests_is_refused),
		cmocka_unit_test(a_termreq_ends_the_session_with_its_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
