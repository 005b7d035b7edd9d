/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "nvmf/common/bytes.h"
#include "nvmf/common/tcp/digest.h"
#include "nvmf/common/tcp/tcp_rx.h"

enum { STREAM_BYTES = 65536, CAPSULE_MAX = 8192, DATA_MAX = 16384 };

/* A stream of one PDU, which each row of the table changes. */
static uint8_t stream[STREAM_BYTES];
static uint32_t stream_bytes;
static uint8_t data[DATA_MAX];
static uint8_t placed[DATA_MAX];

static const struct tcp_options no_digests = {0};
static const struct tcp_options digests = {.has_header_digest = true, .has_data_digest = true};

static void append_pdu(struct tcp_pdu *pdu, const struct tcp_options *options)
{
	uint8_t *end = stream + stream_bytes;

	end += tcp_pdu_encode(pdu, options, end);
	memcpy(end, data, pdu->data_bytes);
	if (pdu->flags & TCP_DDGST)
		le32_put(end + pdu->data_bytes, digest_of(data, pdu->data_bytes));
	stream_bytes += pdu->plen;
}

static void begin(struct tcp_rx *rx, bool is_controller, const struct tcp_options *options)
{
	struct tcp_pdu ic = {.type = is_controller ? TCP_PDU_IC_REQ : TCP_PDU_IC_RESP};
	enum tcp_rx_event event;

	if (!is_controller)
		ic.ic.max = TCP_MAXH2CDATA_MIN;
	for (uint32_t i = 0; i < DATA_MAX; i++)
		data[i] = (uint8_t)(i * 7);
	tcp_rx_init(rx, is_controller, CAPSULE_MAX, DATA_MAX);
	stream_bytes = 0;
	append_pdu(&ic, &no_digests);
	assert_int_equal(tcp_rx_feed(rx, stream, stream_bytes, &event), 128);
	assert_int_equal(event, TCP_RX_PDU);
	tcp_rx_agree(rx, options);
	stream_bytes = 0;
}

static struct tcp_pdu pdu_of(enum tcp_pdu_type type)
{
	struct tcp_pdu pdu = {.type = type};

	switch (type) {
	case TCP_PDU_CAPSULE_CMD:
		memset(pdu.sqe, 0x5a, sizeof(pdu.sqe));
		pdu.data_bytes = 512;
		break;
	case TCP_PDU_CAPSULE_RESP:
		memset(pdu.cqe, 0xa5, sizeof(pdu.cqe));
		break;
	case TCP_PDU_H2C_DATA:
	case TCP_PDU_C2H_DATA:
		pdu.flags = TCP_LAST;
		pdu.data_bytes = 1000;
		pdu.data.cccid = 17;
		pdu.data.ttag = type == TCP_PDU_H2C_DATA ? 4660 : 0;
		pdu.data.offset = 4096;
		pdu.data.length = 1000;
		break;
	case TCP_PDU_R2T:
		pdu.data.cccid = 3;
		pdu.data.ttag = 9;
		pdu.data.offset = 8192;
		pdu.data.length = 4096;
		break;
	case TCP_PDU_IC_REQ:
		pdu.ic.pda = 3;
		pdu.ic.digest = 3;
		break;
	case TCP_PDU_IC_RESP:
		pdu.ic.max = 131072;
		break;
	case TCP_PDU_H2C_TERM:
	case TCP_PDU_C2H_TERM:
		pdu.term.fes = 2;
		pdu.term.fei = 0x12345678;
		pdu.data_bytes = 24;
		break;
	}
	return pdu;
}

/* Feed the stream in pieces of `piece` bytes; returns the last event, or that of one PDU. */
static enum tcp_rx_event feed(struct tcp_rx *rx, size_t piece)
{
	enum tcp_rx_event event = TCP_RX_MORE;
	size_t used = 0;

	while (used < stream_bytes || event == TCP_RX_HEADER) {
		size_t length = stream_bytes - used < piece ? stream_bytes - used : piece;

		used += tcp_rx_feed(rx, stream + used, length, &event);
		if (event == TCP_RX_HEADER)
			tcp_rx_place(rx, placed);
		else if (event != TCP_RX_MORE)
			break;
	}
	assert_true(event == TCP_RX_REFUSED || used == stream_bytes);
	return event;
}

static bool goes_to_controller(enum tcp_pdu_type type)
{
	return (type & 1) == 0;
}

static const enum tcp_pdu_type types[] = {
#define TCP_PDU(name, type, hlen, flags, data) TCP_PDU_##name,
#include "nvmf/common/tcp/tcp_pdu.def"
#undef TCP_PDU
};

static void check_same(const struct tcp_pdu *a, const struct tcp_pdu *b)
{
	assert_int_equal(a->type, b->type);
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->plen, b->plen);
	assert_int_equal(a->data_bytes, b->data_bytes);
	assert_memory_equal(a->sqe, b->sqe, sizeof(a->sqe));
}

static void every_pdu_in_pieces_of_every_size_arrives_as_it_was_sent(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		if (types[i] == TCP_PDU_IC_REQ || types[i] == TCP_PDU_IC_RESP)
			continue;
		for (unsigned variant = 0; variant < 64; variant++) {
			struct tcp_options options = {
				variant & 1, variant & 2, (uint8_t)(variant / 2)};
			struct tcp_pdu pdu = pdu_of(types[i]);
			struct tcp_rx rx;

			begin(&rx, goes_to_controller(types[i]), &options);
			append_pdu(&pdu, &options);
			memset(placed, 0, sizeof(placed));
			assert_int_equal(feed(&rx, variant + 1), TCP_RX_PDU);
			assert_false(rx.is_data_digest_wrong);
			check_same(&rx.pdu, &pdu);
			if (types[i] != TCP_PDU_H2C_TERM && types[i] != TCP_PDU_C2H_TERM)
				assert_memory_equal(placed, data, pdu.data_bytes);
		}
	}
}

static void data_read_directly_is_checked_by_its_digest(void **state)
{
	struct tcp_pdu pdu = pdu_of(TCP_PDU_H2C_DATA);
	enum tcp_rx_event event;
	struct tcp_rx rx;
	uint32_t missing;
	size_t used;

	(void)state;
	begin(&rx, true, &digests);
	append_pdu(&pdu, &digests);
	assert_null(tcp_rx_direct(&rx, &missing));
	used = tcp_rx_feed(&rx, stream, stream_bytes, &event);
	assert_int_equal(event, TCP_RX_HEADER);
	tcp_rx_place(&rx, placed);
	assert_ptr_equal(tcp_rx_direct(&rx, &missing), placed);
	assert_int_equal(missing, 1000);
	memcpy(placed, stream + used, 600);
	tcp_rx_placed(&rx, 600);
	assert_ptr_equal(tcp_rx_direct(&rx, &missing), placed + 600);
	assert_int_equal(missing, 400);
	memcpy(placed + 600, stream + used + 600, 400);
	tcp_rx_placed(&rx, 400);
	assert_int_equal(tcp_rx_feed(&rx, stream + used + 1000, 4, &event), 4);
	assert_int_equal(event, TCP_RX_PDU);
	assert_false(rx.is_data_digest_wrong);
}

static void wrong_data_digest_spoils_one_pdu_only(void **state)
{
	struct tcp_pdu pdu = pdu_of(TCP_PDU_H2C_DATA);
	struct tcp_rx rx;

	(void)state;
	begin(&rx, true, &digests);
	append_pdu(&pdu, &digests);
	stream[stream_bytes - 1] ^= 1;
	assert_int_equal(feed(&rx, 100), TCP_RX_PDU);
	assert_true(rx.is_data_digest_wrong);
	stream[stream_bytes - 1] ^= 1;
	assert_int_equal(feed(&rx, 100), TCP_RX_PDU);
	assert_false(rx.is_data_digest_wrong);
}

/*
 * One changed byte (or a PDU out of sequence), and the TermReq that names it. `at` and `value` of
 * the change are for the common header; `plen` and `pdo` are those of the right PDU plus a number.
 */
struct refusal_row {
	const char *what;
	enum tcp_pdu_type type;
	bool has_digests;
	uint32_t at;
	uint8_t value;
	int plen_more;
	enum tcp_fatal fes;
	uint32_t fei;
};

static const struct refusal_row refusals[] = {
	{"unknown type", TCP_PDU_CAPSULE_CMD, false, 0, 0x08, 0, TCP_FATAL_HEADER, 0},
	{"type beyond the table", TCP_PDU_CAPSULE_CMD, false, 0, 0xfe, 0, TCP_FATAL_HEADER, 0},
	{"capsule in the wrong direction", TCP_PDU_CAPSULE_CMD, false, 0, 0x05, 0, TCP_FATAL_HEADER,
		0},
	{"R2T to the controller", TCP_PDU_H2C_DATA, false, 0, 0x09, 0, TCP_FATAL_HEADER, 0},
	{"data in the wrong direction", TCP_PDU_H2C_DATA, false, 0, 0x07, 0, TCP_FATAL_HEADER, 0},
	{"second ICReq", TCP_PDU_IC_REQ, false, 0, 0x00, 0, TCP_FATAL_SEQUENCE, 0},
	{"second ICResp", TCP_PDU_IC_RESP, false, 0, 0x01, 0, TCP_FATAL_SEQUENCE, 0},
	{"reserved flag", TCP_PDU_CAPSULE_CMD, false, 1, 0x10, 0, TCP_FATAL_HEADER, 1},
	{"LAST of a capsule", TCP_PDU_CAPSULE_CMD, false, 1, TCP_LAST, 0, TCP_FATAL_HEADER, 1},
	{"SUCCESS of H2CData", TCP_PDU_H2C_DATA, false, 1, TCP_LAST | TCP_SUCCESS, 0,
		TCP_FATAL_HEADER, 1},
	{"SUCCESS without LAST", TCP_PDU_C2H_DATA, false, 1, TCP_SUCCESS, 0, TCP_FATAL_HEADER, 1},
	{"header digest not agreed", TCP_PDU_H2C_DATA, false, 1, TCP_LAST | TCP_HDGST, 0,
		TCP_FATAL_HEADER, 1},
	{"data digest not agreed", TCP_PDU_H2C_DATA, false, 1, TCP_LAST | TCP_DDGST, 0,
		TCP_FATAL_HEADER, 1},
	{"header digest missing", TCP_PDU_H2C_DATA, true, 1, TCP_LAST | TCP_DDGST, 0,
		TCP_FATAL_HEADER, 1},
	{"data digest missing", TCP_PDU_H2C_DATA, true, 1, TCP_LAST | TCP_HDGST, 0,
		TCP_FATAL_HEADER, 1},
	{"data digest of a response", TCP_PDU_CAPSULE_RESP, true, 1, TCP_HDGST | TCP_DDGST, 0,
		TCP_FATAL_HEADER, 1},
	{"hlen one less", TCP_PDU_CAPSULE_CMD, false, 2, 71, 0, TCP_FATAL_HEADER, 2},
	{"hlen 255 with a digest", TCP_PDU_C2H_DATA, true, 2, 255, 0, TCP_FATAL_HEADER, 2},
	{"hlen 0", TCP_PDU_H2C_DATA, false, 2, 0, 0, TCP_FATAL_HEADER, 2},
	{"pdo within the header", TCP_PDU_H2C_DATA, false, 3, 20, 0, TCP_FATAL_HEADER, 3},
	{"pdo within the digest", TCP_PDU_H2C_DATA, true, 3, 24, 0, TCP_FATAL_HEADER, 3},
	{"pdo 0 of data", TCP_PDU_H2C_DATA, false, 3, 0, 0, TCP_FATAL_HEADER, 3},
	{"pdo not aligned", TCP_PDU_H2C_DATA, false, 3, 26, 0, TCP_FATAL_HEADER, 3},
	{"pdo of a response", TCP_PDU_CAPSULE_RESP, false, 3, 24, 0, TCP_FATAL_HEADER, 3},
	{"pdo of R2T", TCP_PDU_R2T, false, 3, 24, 0, TCP_FATAL_HEADER, 3},
	{"pdo 0 of a capsule with data", TCP_PDU_CAPSULE_CMD, false, 3, 0, 0, TCP_FATAL_HEADER, 4},
	{"pdo behind the end", TCP_PDU_CAPSULE_CMD, false, 3, 252, -500, TCP_FATAL_HEADER, 4},
	{"plen less than the header", TCP_PDU_R2T, false, 0, 0x09, -1, TCP_FATAL_HEADER, 4},
	{"plen less than header and digest", TCP_PDU_R2T, true, 0, 0x09, -1, TCP_FATAL_HEADER, 4},
	{"plen 0", TCP_PDU_R2T, false, 0, 0x09, -24, TCP_FATAL_HEADER, 4},
	{"R2T with data", TCP_PDU_R2T, false, 0, 0x09, 4, TCP_FATAL_HEADER, 4},
	{"response with data", TCP_PDU_CAPSULE_RESP, false, 0, 0x05, 1, TCP_FATAL_HEADER, 4},
	{"H2CData without data", TCP_PDU_H2C_DATA, false, 0, 0x06, -1000, TCP_FATAL_HEADER, 4},
	{"no more data than a digest", TCP_PDU_H2C_DATA, true, 0, 0x06, -1000, TCP_FATAL_HEADER, 4},
	{"capsule of too much data", TCP_PDU_CAPSULE_CMD, false, 0, 0x04, CAPSULE_MAX - 511,
		TCP_FATAL_HEADER, 4},
	{"H2CData beyond MAXH2CDATA", TCP_PDU_H2C_DATA, false, 0, 0x06, DATA_MAX - 999,
		TCP_FATAL_HEADER, 4},
	{"plen of 4 GiB", TCP_PDU_H2C_DATA, false, 0, 0x06, -1025, TCP_FATAL_HEADER, 4},
	{"TermReq longer than 152", TCP_PDU_H2C_TERM, false, 0, 0x02, 105, TCP_FATAL_NONE, 0},
	{"TermReq shorter than 24", TCP_PDU_H2C_TERM, false, 0, 0x02, -25, TCP_FATAL_NONE, 0},
};

static void each_wrong_header_is_refused_by_its_first_wrong_field(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
		const struct refusal_row *row = &refusals[i];
		const struct tcp_options *options = row->has_digests ? &digests : &no_digests;
		struct tcp_pdu pdu = pdu_of(row->type);
		uint8_t term[TCP_TERM_BYTES_MAX];
		struct tcp_rx rx;
		uint32_t length;

		begin(&rx, goes_to_controller(row->type), options);
		append_pdu(&pdu, options);
		stream[row->at] = row->value;
		le32_put(stream + 4, pdu.plen + row->plen_more);
		if (feed(&rx, i + 1) != TCP_RX_REFUSED || rx.refusal.fes != row->fes ||
			rx.refusal.fei != row->fei)
			fail_msg("%s: fes %d, fei %u", row->what, rx.refusal.fes, rx.refusal.fei);
		length = tcp_rx_term(&rx, term);
		assert_int_equal(length, row->fes == TCP_FATAL_NONE ? 0 : 24 + 8);
		if (!length)
			continue;
		assert_int_equal(le16_get(term + 8), row->fes);
		assert_int_equal(le32_get(term + 10), row->fei);
		assert_memory_equal(term + 24, stream, 8);
	}
}

/* A change of ICReq or ICResp, the first PDU of a stream. */
struct ic_row {
	const char *what;
	enum tcp_pdu_type type;
	uint32_t at;
	uint8_t value;
	enum tcp_fatal fes;
	uint32_t fei;
};

static const struct ic_row ic_rows[] = {
	{"capsule before ICReq", TCP_PDU_IC_REQ, 0, 0x04, TCP_FATAL_SEQUENCE, 0},
	{"response before ICResp", TCP_PDU_IC_RESP, 0, 0x05, TCP_FATAL_SEQUENCE, 0},
	{"ICResp to the controller", TCP_PDU_IC_REQ, 0, 0x01, TCP_FATAL_HEADER, 0},
	{"flags of ICReq", TCP_PDU_IC_REQ, 1, TCP_HDGST, TCP_FATAL_HEADER, 1},
	{"hlen of ICReq", TCP_PDU_IC_REQ, 2, 127, TCP_FATAL_HEADER, 2},
	{"pdo of ICReq", TCP_PDU_IC_REQ, 3, 128, TCP_FATAL_HEADER, 3},
	{"plen of ICReq", TCP_PDU_IC_REQ, 4, 129, TCP_FATAL_HEADER, 4},
	{"short ICResp", TCP_PDU_IC_RESP, 4, 127, TCP_FATAL_HEADER, 4},
	{"version of ICReq", TCP_PDU_IC_REQ, 8, 1, TCP_FATAL_PARAMETER, 8},
	{"version of ICResp", TCP_PDU_IC_RESP, 9, 1, TCP_FATAL_PARAMETER, 8},
	{"HPDA beyond 31", TCP_PDU_IC_REQ, 10, 32, TCP_FATAL_HEADER, 10},
	{"reserved digest", TCP_PDU_IC_REQ, 11, 4, TCP_FATAL_HEADER, 11},
	{"MAXH2CDATA below 4,096", TCP_PDU_IC_RESP, 14, 0, TCP_FATAL_HEADER, 12},
	{"MAXH2CDATA of odd bytes", TCP_PDU_IC_RESP, 12, 2, TCP_FATAL_HEADER, 12},
};

static void each_wrong_ic_pdu_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(ic_rows) / sizeof(*ic_rows); i++) {
		const struct ic_row *row = &ic_rows[i];
		struct tcp_pdu pdu = pdu_of(row->type);
		struct tcp_rx rx;

		tcp_rx_init(&rx, goes_to_controller(row->type), CAPSULE_MAX, DATA_MAX);
		stream_bytes = 0;
		append_pdu(&pdu, &no_digests);
		stream[row->at] = row->value;
		if (feed(&rx, i + 1) != TCP_RX_REFUSED || rx.refusal.fes != row->fes ||
			rx.refusal.fei != row->fei)
			fail_msg("%s: fes %d, fei %u", row->what, rx.refusal.fes, rx.refusal.fei);
	}
}

static void wrong_header_digest_ends_the_stream_and_is_returned(void **state)
{
	struct tcp_pdu pdu = pdu_of(TCP_PDU_CAPSULE_CMD);
	uint8_t term[TCP_TERM_BYTES_MAX];
	enum tcp_rx_event event;
	struct tcp_rx rx;

	(void)state;
	begin(&rx, true, &digests);
	append_pdu(&pdu, &digests);
	stream[20] ^= 1;
	assert_int_equal(feed(&rx, 13), TCP_RX_REFUSED);
	assert_int_equal(rx.refusal.fes, TCP_FATAL_HEADER_DIGEST);
	assert_int_equal(rx.refusal.fei, le32_get(stream + 72));
	assert_int_equal(tcp_rx_term(&rx, term), 24 + 76);
	assert_memory_equal(term + 24, stream, 76);
	assert_int_equal(tcp_rx_feed(&rx, stream, stream_bytes, &event), 0);
	assert_int_equal(event, TCP_RX_REFUSED);
}

static void refusal_of_a_complete_pdu_returns_its_header(void **state)
{
	struct tcp_pdu pdu = pdu_of(TCP_PDU_H2C_DATA);
	uint8_t term[TCP_TERM_BYTES_MAX];
	struct tcp_rx rx;

	(void)state;
	begin(&rx, true, &no_digests);
	append_pdu(&pdu, &no_digests);
	assert_int_equal(feed(&rx, STREAM_BYTES), TCP_RX_PDU);
	tcp_rx_refuse(&rx, TCP_FATAL_DATA_RANGE, 12);
	assert_int_equal(tcp_rx_term(&rx, term), 48);
	assert_memory_equal(term + 24, stream, 24);
}

static void nothing_follows_a_term_request(void **state)
{
	struct tcp_pdu pdu = pdu_of(TCP_PDU_H2C_TERM);
	uint8_t term[TCP_TERM_BYTES_MAX];
	enum tcp_rx_event event;
	struct tcp_rx rx;

	(void)state;
	begin(&rx, true, &no_digests);
	append_pdu(&pdu, &no_digests);
	assert_int_equal(feed(&rx, 5), TCP_RX_PDU);
	assert_int_equal(rx.pdu.term.fei, 0x12345678);
	assert_int_equal(tcp_rx_feed(&rx, stream, stream_bytes, &event), 0);
	assert_int_equal(event, TCP_RX_REFUSED);
	assert_int_equal(tcp_rx_term(&rx, term), 0);
}

/* RFC 3720, appendix B.4. */
static void digest_of_known_bytes_is_known(void **state)
{
	uint8_t bytes[32];

	(void)state;
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(digest_of(bytes, sizeof(bytes)), 0x8a9136aa);
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(digest_of(bytes, sizeof(bytes)), 0x62a8ab43);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_pdu_in_pieces_of_every_size_arrives_as_it_was_sent),
		cmocka_unit_test(data_read_directly_is_checked_by_its_digest),
		cmocka_unit_test(wrong_data_digest_spoils_one_pdu_only),
		cmocka_unit_test(each_wrong_header_is_refused_by_its_first_wrong_field),
		cmocka_unit_test(each_wrong_ic_pdu_is_refused),
		cmocka_unit_test(wrong_header_digest_ends_the_stream_and_is_returned),
		cmocka_unit_test(refusal_of_a_complete_pdu_returns_its_header),
		cmocka_unit_test(nothing_follows_a_term_request),
		cmocka_unit_test(digest_of_known_bytes_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
