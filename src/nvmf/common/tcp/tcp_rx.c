/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf/common/tcp/tcp_rx.h"

#include <assert.h>
#include <string.h>

#include "nvmf/common/bytes.h"
#include "nvmf/common/tcp/digest.h"

void tcp_rx_init(
	struct tcp_rx *rx, bool is_controller, uint32_t capsule_bytes_max, uint32_t data_bytes_max)
{
	*rx = (struct tcp_rx){
		.is_controller = is_controller,
		.capsule_bytes_max = capsule_bytes_max,
		.data_bytes_max = data_bytes_max,
	};
}

void tcp_rx_agree(struct tcp_rx *rx, const struct tcp_options *options)
{
	assert(!rx->is_agreed && rx->state == TCP_RX_COMMON && rx->is_complete);
	rx->is_agreed = true;
	rx->options = *options;
}

void tcp_rx_refuse(struct tcp_rx *rx, enum tcp_fatal fes, uint32_t fei)
{
	rx->refusal = (struct tcp_refusal){.fes = fes, .fei = fei};
	rx->state = TCP_RX_OVER;
}

static bool is_term(const struct tcp_rx *rx)
{
	return rx->header[0] == (rx->is_controller ? TCP_PDU_H2C_TERM : TCP_PDU_C2H_TERM);
}

/* Returns fes TCP_FATAL_NONE if the PDU's type is allowed now; else fes says why it is not. */
static struct tcp_refusal check_type(const struct tcp_rx *rx)
{
	uint8_t type = rx->header[0];
	bool is_ic = type == TCP_PDU_IC_REQ || type == TCP_PDU_IC_RESP;

	/* Odd types come from the controller. */
	if (!tcp_pdu_is_known(type) || (type & 1) == rx->is_controller)
		return (struct tcp_refusal){.fes = TCP_FATAL_HEADER, .fei = 0};
	/* Section 3.4: an IC PDU comes once, and before it nothing but a TermReq may come. */
	if (!is_term(rx) && is_ic == rx->is_agreed)
		return (struct tcp_refusal){.fes = TCP_FATAL_SEQUENCE};
	return (struct tcp_refusal){0};
}

static bool is_too_long(const struct tcp_rx *rx)
{
	if (rx->pdu.type == TCP_PDU_CAPSULE_CMD)
		return rx->pdu.data_bytes > rx->capsule_bytes_max;
	if (rx->pdu.type == TCP_PDU_H2C_DATA || rx->pdu.type == TCP_PDU_C2H_DATA)
		return rx->pdu.data_bytes > rx->data_bytes_max;
	return false;
}

static void take_common(struct tcp_rx *rx)
{
	struct tcp_refusal refusal = check_type(rx);

	if (refusal.fes != TCP_FATAL_NONE) {
		tcp_rx_refuse(rx, refusal.fes, refusal.fei);
		return;
	}
	if (!tcp_pdu_decode_common(rx->header, &rx->options, &rx->pdu, &refusal)) {
		/* No TermReq answers a TermReq (section 3.5). */
		if (is_term(rx))
			refusal = (struct tcp_refusal){.fes = TCP_FATAL_NONE};
		tcp_rx_refuse(rx, refusal.fes, refusal.fei);
		return;
	}
	if (is_too_long(rx)) {
		tcp_rx_refuse(rx, TCP_FATAL_HEADER, 4);
		return;
	}
	rx->header_needed =
		tcp_pdu_hlen(rx->pdu.type) + (rx->pdu.flags & TCP_HDGST ? DIGEST_BYTES : 0);
	if (rx->pdu.pdo != 0)
		rx->header_needed = rx->pdu.pdo;
	rx->state = TCP_RX_REST;
}

/* Refuse IC PDUs with reserved bits or values out of range (sections 3.6.2.2 and 3.6.2.3). */
static bool is_ic_refused(struct tcp_rx *rx)
{
	if (rx->pdu.type != TCP_PDU_IC_REQ && rx->pdu.type != TCP_PDU_IC_RESP)
		return false;
	if (rx->pdu.ic.pfv != 0)
		tcp_rx_refuse(rx, TCP_FATAL_PARAMETER, 8);
	else if (rx->pdu.ic.pda > TCP_PDA_MAX)
		tcp_rx_refuse(rx, TCP_FATAL_HEADER, 10);
	else if (rx->pdu.ic.digest & ~3)
		tcp_rx_refuse(rx, TCP_FATAL_HEADER, 11);
	else if (rx->pdu.type == TCP_PDU_IC_RESP &&
		(rx->pdu.ic.max < TCP_MAXH2CDATA_MIN || rx->pdu.ic.max % 4 != 0))
		tcp_rx_refuse(rx, TCP_FATAL_HEADER, 12);
	return rx->state == TCP_RX_OVER;
}

static enum tcp_rx_event pdu_finish(struct tcp_rx *rx)
{
	rx->state = is_term(rx) ? TCP_RX_OVER : TCP_RX_COMMON;
	rx->is_complete = true;
	return TCP_RX_PDU;
}

static enum tcp_rx_event take_header(struct tcp_rx *rx)
{
	uint32_t hlen = tcp_pdu_hlen(rx->pdu.type);

	if ((rx->pdu.flags & TCP_HDGST) &&
		digest_of(rx->header, hlen) != le32_get(rx->header + hlen)) {
		tcp_rx_refuse(rx, TCP_FATAL_HEADER_DIGEST, le32_get(rx->header + hlen));
		return TCP_RX_REFUSED;
	}
	tcp_pdu_decode(rx->header, &rx->pdu);
	if (is_ic_refused(rx))
		return TCP_RX_REFUSED;
	rx->is_data_digest_wrong = false;
	if (rx->pdu.data_bytes == 0)
		return pdu_finish(rx);
	rx->state = TCP_RX_PLACE;
	rx->data_left = rx->pdu.data_bytes;
	rx->digest = DIGEST_INITIAL;
	rx->digest_bytes = 0;
	/* The data of a peer's TermReq is a copy of a header: drop it. */
	if (!is_term(rx))
		return TCP_RX_HEADER;
	tcp_rx_place(rx, NULL);
	return TCP_RX_MORE;
}

void tcp_rx_place(struct tcp_rx *rx, void *place)
{
	assert(rx->state == TCP_RX_PLACE);
	rx->place = place;
	rx->state = TCP_RX_DATA;
}

void *tcp_rx_direct(const struct tcp_rx *rx, uint32_t *ret_bytes)
{
	if (rx->state != TCP_RX_DATA || !rx->place)
		return NULL;
	*ret_bytes = rx->data_left;
	return rx->place;
}

static void data_taken(struct tcp_rx *rx, const uint8_t *bytes, uint32_t length)
{
	if (rx->pdu.flags & TCP_DDGST)
		rx->digest = digest_update(rx->digest, bytes, length);
	if (rx->place)
		rx->place += length;
	rx->data_left -= length;
}

void tcp_rx_placed(struct tcp_rx *rx, uint32_t bytes)
{
	assert(rx->state == TCP_RX_DATA && rx->place && bytes <= rx->data_left);
	data_taken(rx, rx->place, bytes);
}

/* Append bytes to `to` until `*have` is `needed` or none are left; returns how many it took. */
static size_t pdu_gather(
	uint8_t *to, uint32_t *have, uint32_t needed, const uint8_t *from, size_t length)
{
	size_t piece = needed - *have < length ? needed - *have : length;

	if (piece)
		memcpy(to + *have, from, piece);
	*have += (uint32_t)piece;
	return piece;
}

static size_t take_data(struct tcp_rx *rx, const uint8_t *bytes, size_t length)
{
	uint32_t piece = rx->data_left < length ? rx->data_left : (uint32_t)length;

	if (piece && rx->place)
		memcpy(rx->place, bytes, piece);
	data_taken(rx, bytes, piece);
	return piece;
}

/* Use bytes in the present state. The event is TCP_RX_MORE if the caller may take another step. */
static size_t rx_step(
	struct tcp_rx *rx, const uint8_t *bytes, size_t length, enum tcp_rx_event *ret_event)
{
	size_t used = 0;

	*ret_event = TCP_RX_MORE;
	switch (rx->state) {
	case TCP_RX_COMMON:
		if (rx->is_complete)
			rx->header_bytes = 0;
		rx->is_complete = false;
		used = pdu_gather(rx->header, &rx->header_bytes, TCP_COMMON_BYTES, bytes, length);
		if (rx->header_bytes == TCP_COMMON_BYTES)
			take_common(rx);
		break;
	case TCP_RX_REST:
		used = pdu_gather(rx->header, &rx->header_bytes, rx->header_needed, bytes, length);
		if (rx->header_bytes == rx->header_needed)
			*ret_event = take_header(rx);
		break;
	case TCP_RX_PLACE:
		*ret_event = TCP_RX_HEADER;
		break;
	case TCP_RX_DATA:
		used = take_data(rx, bytes, length);
		if (rx->data_left == 0 && (rx->pdu.flags & TCP_DDGST))
			rx->state = TCP_RX_DATA_DIGEST;
		else if (rx->data_left == 0)
			*ret_event = pdu_finish(rx);
		break;
	case TCP_RX_DATA_DIGEST:
		used = pdu_gather(rx->data_digest, &rx->digest_bytes, DIGEST_BYTES, bytes, length);
		if (rx->digest_bytes == DIGEST_BYTES) {
			rx->is_data_digest_wrong = le32_get(rx->data_digest) != ~rx->digest;
			*ret_event = pdu_finish(rx);
		}
		break;
	case TCP_RX_OVER:
		break;
	}
	if (rx->state == TCP_RX_OVER && *ret_event == TCP_RX_MORE)
		*ret_event = TCP_RX_REFUSED;
	return used;
}

size_t tcp_rx_feed(
	struct tcp_rx *rx, const void *bytes, size_t length, enum tcp_rx_event *ret_event)
{
	const uint8_t *from = bytes;
	size_t used = 0;
	bool is_waiting;

	do {
		enum tcp_rx_state before = rx->state;
		size_t piece = rx_step(rx, length ? from + used : NULL, length - used, ret_event);

		used += piece;
		is_waiting = piece == 0 && rx->state == before;
	} while (*ret_event == TCP_RX_MORE && !is_waiting);
	return used;
}

uint32_t tcp_rx_term(const struct tcp_rx *rx, uint8_t *ret_bytes)
{
	if (rx->state != TCP_RX_OVER || rx->refusal.fes == TCP_FATAL_NONE)
		return 0;
	return tcp_term_encode(rx->is_controller ? TCP_PDU_C2H_TERM : TCP_PDU_H2C_TERM,
		&rx->refusal, rx->header, rx->header_bytes, ret_bytes);
}
