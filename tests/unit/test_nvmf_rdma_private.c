/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <string.h>

#include "nvmf/common/rdma/rdma_private.h"

enum { ENTRIES_MAX = 128 };

/* What Linux 6.1 sends as host and as controller, with the zeroes that IB adds. */
static const uint8_t linux_admin_request[56] = {0, 0, 0, 0, 0x20, 0, 0x1f, 0};
static const uint8_t linux_reply[196] = {0, 0, 0x20, 0};

static void linux_request_is_accepted(void **state)
{
	struct rdma_request request;

	(void)state;
	assert_int_equal(rdma_request_decode(linux_admin_request, sizeof(linux_admin_request),
				 ENTRIES_MAX, &request),
		RDMA_ACCEPT);
	assert_int_equal(request.qid, 0);
	assert_int_equal(request.hrqsize, 32);
	assert_int_equal(request.hsqsize, 31);
	assert_int_equal(request.cntlid, 0);
}

static void linux_reply_is_understood(void **state)
{
	uint16_t crqsize = 0;

	(void)state;
	assert_true(rdma_reply_decode(linux_reply, sizeof(linux_reply), &crqsize));
	assert_int_equal(crqsize, 32);
}

/* The bytes are those of Linux, and what is decoded is encoded to the same bytes. */
static void encoding_gives_the_bytes_of_linux(void **state)
{
	struct rdma_request request = {.hrqsize = 32, .hsqsize = 31};
	uint8_t bytes[RDMA_REQUEST_BYTES];

	(void)state;
	rdma_request_encode(&request, bytes);
	assert_memory_equal(bytes, linux_admin_request, sizeof(bytes));
	rdma_reply_encode(32, bytes);
	assert_memory_equal(bytes, linux_reply, RDMA_REPLY_BYTES);

	request = (struct rdma_request){0x1234, 0x2345, 64, 0x4567};
	rdma_request_encode(&request, bytes);
	memset(&request, 0, sizeof(request));
	assert_int_equal(
		rdma_request_decode(bytes, sizeof(bytes), ENTRIES_MAX, &request), RDMA_ACCEPT);
	assert_int_equal(request.qid, 0x1234);
	assert_int_equal(request.hrqsize, 0x2345);
	assert_int_equal(request.hsqsize, 64);
	assert_int_equal(request.cntlid, 0x4567);
}

static void each_wrong_request_gets_its_status(void **state)
{
	/* clang-format off */
	static const struct {
		uint8_t bytes[10];
		size_t length;
		enum rdma_reject status;
	} rows[] = {
		{{0, 0, 1, 0, 128, 0, 127, 0}, 32, RDMA_ACCEPT},
		{{0}, 0, RDMA_REJECT_LENGTH},
		{{0, 0, 1, 0, 128, 0, 127, 0}, 31, RDMA_REJECT_LENGTH},
		{{1, 0, 1, 0, 128, 0, 127, 0}, 32, RDMA_REJECT_RECFMT},
		{{0, 1, 1, 0, 128, 0, 127, 0}, 32, RDMA_REJECT_RECFMT},
		{{0, 0, 1, 0, 128, 0, 0, 0}, 32, RDMA_REJECT_HSQSIZE},
		{{0, 0, 1, 0, 128, 0, 128, 0}, 32, RDMA_REJECT_HSQSIZE},
		{{0, 0, 1, 0, 128, 0, 0xff, 0xff}, 32, RDMA_REJECT_HSQSIZE},
		/* The Admin queue is shorter. */
		{{0, 0, 0, 0, 32, 0, 31, 0}, 32, RDMA_ACCEPT},
		{{0, 0, 0, 0, 32, 0, 32, 0}, 32, RDMA_REJECT_HSQSIZE},
		{{0, 0, 1, 0, 0, 0, 127, 0}, 32, RDMA_REJECT_HRQSIZE},
	};
	/* clang-format on */

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		/* Of that size exactly, so that ASan sees one byte too far. */
		uint8_t *bytes = calloc(1, rows[i].length + !rows[i].length);
		struct rdma_request request;

		memcpy(bytes, rows[i].bytes,
			rows[i].length < sizeof(rows[i].bytes) ? rows[i].length
							       : sizeof(rows[i].bytes));
		if (rdma_request_decode(bytes, rows[i].length, ENTRIES_MAX, &request) !=
			rows[i].status)
			fail_msg("row %zu", i);
		free(bytes);
	}
}

static void reply_without_queue_is_refused(void **state)
{
	uint8_t bytes[RDMA_REPLY_BYTES];
	uint16_t crqsize;

	(void)state;
	rdma_reply_encode(1, bytes);
	assert_true(rdma_reply_decode(bytes, sizeof(bytes), &crqsize));
	assert_false(rdma_reply_decode(bytes, sizeof(bytes) - 1, &crqsize));
	assert_false(rdma_reply_decode(NULL, 0, &crqsize));
	bytes[2] = 0;
	assert_false(rdma_reply_decode(bytes, sizeof(bytes), &crqsize));
	bytes[2] = 1;
	bytes[0] = 1;
	assert_false(rdma_reply_decode(bytes, sizeof(bytes), &crqsize));
}

static void each_reject_has_its_sentence(void **state)
{
	const char *none = rdma_reject_sentence(NULL, 0);
	uint8_t bytes[RDMA_REJECT_BYTES];

	(void)state;
	for (int status = 1; status <= RDMA_REJECT_ORD; status++) {
		rdma_reject_encode((enum rdma_reject)status, bytes);
		assert_int_equal(bytes[2], status);
		assert_string_not_equal(rdma_reject_sentence(bytes, sizeof(bytes)), none);
		assert_string_equal(rdma_reject_sentence(bytes, sizeof(bytes) - 1), none);
	}
	rdma_reject_encode((enum rdma_reject)(RDMA_REJECT_ORD + 1), bytes);
	assert_string_equal(rdma_reject_sentence(bytes, sizeof(bytes)), none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(linux_request_is_accepted),
		cmocka_unit_test(linux_reply_is_understood),
		cmocka_unit_test(encoding_gives_the_bytes_of_linux),
		cmocka_unit_test(each_wrong_request_gets_its_status),
		cmocka_unit_test(reply_without_queue_is_refused),
		cmocka_unit_test(each_reject_has_its_sentence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
