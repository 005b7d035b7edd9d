/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hostile stream of PDUs, received at either end. The first bytes choose the end, the options and
 * how the stream is split; half of the streams are made of nearly right PDUs. The same stream in
 * one piece must give the same events, PDUs and refusal.
 */
#include <stdlib.h>
#include <string.h>

#include "nvmf/common/bytes.h"
#include "nvmf/common/tcp/tcp_rx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHOICE_BYTES = 8, DATA_MAX = 2048, STREAM_MAX = 8192 };

/* What one run saw: a hash over its events. */
struct history {
	uint64_t hash;
	unsigned pdus;
};

static void record(struct history *history, uint64_t value)
{
	history->hash = (history->hash ^ value) * 0x100000001b3u;
}

/* The first PDU goes through the exchange of options; then random ones follow. */
static void agree(struct tcp_rx *rx, const uint8_t *choice)
{
	struct tcp_options options = {
		.has_header_digest = choice[1] & 1,
		.has_data_digest = choice[1] & 2,
		.pda = choice[1] & 4 ? choice[2] % (TCP_PDA_MAX + 1) : 0,
	};

	tcp_rx_agree(rx, &options);
}

static void record_pdu(struct history *history, const struct tcp_rx *rx, const uint8_t *place)
{
	record(history, rx->pdu.type | rx->pdu.flags << 8 | rx->pdu.pdo << 16);
	record(history, rx->pdu.plen);
	record(history, rx->is_data_digest_wrong);
	if (rx->pdu.data_bytes > DATA_MAX)
		abort();
	for (uint32_t i = 0; place && i < rx->pdu.data_bytes; i++)
		record(history, place[i]);
	history->pdus++;
}

static struct history run(const uint8_t *choice, const uint8_t *stream, size_t length, size_t piece)
{
	struct history history = {.hash = 0xcbf29ce484222325u};
	enum tcp_rx_event event = TCP_RX_MORE;
	uint8_t term[TCP_TERM_BYTES_MAX];
	uint8_t *place = NULL;
	struct tcp_rx rx;
	size_t used = 0;

	tcp_rx_init(&rx, choice[0] & 1, DATA_MAX, DATA_MAX);
	while (event != TCP_RX_REFUSED && (used < length || event != TCP_RX_MORE)) {
		size_t left = length - used < piece ? length - used : piece;

		used += tcp_rx_feed(&rx, stream + used, left, &event);
		if (event == TCP_RX_HEADER) {
			/* Of that size exactly, so that ASan sees one byte too far. */
			free(place);
			place = choice[3] & 1 ? malloc(rx.pdu.data_bytes) : NULL;
			tcp_rx_place(&rx, place);
		} else if (event == TCP_RX_PDU) {
			record_pdu(&history, &rx, rx.pdu.data_bytes ? place : NULL);
			/* The data of a TermReq is dropped: no header event places it. */
			free(place);
			place = NULL;
			if (!rx.is_agreed && rx.state != TCP_RX_OVER)
				agree(&rx, choice);
		}
	}
	if (event == TCP_RX_REFUSED) {
		record(&history, rx.refusal.fes);
		record(&history, rx.refusal.fei);
		if (tcp_rx_term(&rx, term) > TCP_TERM_BYTES_MAX)
			abort();
	}
	free(place);
	return history;
}

/* A stream of ICReq (ICResp) and PDUs made from the input: mostly right ones. */
static size_t make_stream(const uint8_t *choice, const uint8_t *data, size_t size, uint8_t *stream)
{
	static const struct tcp_options none;
	bool is_controller = choice[0] & 1;
	struct tcp_pdu pdu = {.type = is_controller ? TCP_PDU_IC_REQ : TCP_PDU_IC_RESP};
	struct tcp_options options = {choice[1] & 1, choice[1] & 2, 0};
	size_t length;

	if (choice[1] & 4)
		options.pda = choice[2] % (TCP_PDA_MAX + 1);
	pdu.ic.max = is_controller ? 0 : TCP_MAXH2CDATA_MIN;
	length = tcp_pdu_encode(&pdu, &none, stream);
	while (size >= 8 && length < STREAM_MAX - DATA_MAX - TCP_HEADER_BYTES_MAX - 4) {
		static const enum tcp_pdu_type types[2][3] = {
			{TCP_PDU_CAPSULE_RESP, TCP_PDU_C2H_DATA, TCP_PDU_R2T},
			{TCP_PDU_CAPSULE_CMD, TCP_PDU_H2C_DATA, TCP_PDU_H2C_TERM},
		};
		uint8_t *begin = stream + length;

		pdu = (struct tcp_pdu){.type = types[is_controller][data[0] % 16 % 3]};
		if (pdu.type == TCP_PDU_H2C_DATA || pdu.type == TCP_PDU_C2H_DATA)
			pdu.data_bytes = 1u + data[1];
		else if (pdu.type == TCP_PDU_CAPSULE_CMD)
			pdu.data_bytes = data[1];
		else if (pdu.type == TCP_PDU_H2C_TERM)
			pdu.data_bytes = data[1] % 128;
		tcp_pdu_encode(&pdu, &options, begin);
		memset(begin + pdu.plen - pdu.data_bytes, data[2], pdu.data_bytes);
		/* One byte of the common header, sometimes. */
		if (data[3] < 64)
			begin[data[3] % 8] = data[4];
		length += pdu.plen;
		data += 8;
		size -= 8;
	}
	if (size > STREAM_MAX - length)
		size = STREAM_MAX - length;
	memcpy(stream + length, data, size);
	return length + size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t stream[STREAM_MAX];
	struct history split;
	struct history whole;
	size_t length;

	if (size < CHOICE_BYTES)
		return 0;
	if (data[0] & 2) {
		length = make_stream(data, data + CHOICE_BYTES, size - CHOICE_BYTES, stream);
	} else {
		length = size - CHOICE_BYTES < STREAM_MAX ? size - CHOICE_BYTES : STREAM_MAX;
		memcpy(stream, data + CHOICE_BYTES, length);
	}
	split = run(data, stream, length, 1u + le16_get(data + 4) % 300);
	whole = run(data, stream, length, length);
	if (split.hash != whole.hash || split.pdus != whole.pdus)
		abort();
	return 0;
}
