/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending messages by RMPP (IBTA 13.6.6): segments within the receiver's window. After a timeout
 * without an acknowledgement, the sender repeats the segments from the first unacknowledged one.
 */
#include <assert.h>
#include <string.h>

#include "mad/mad_internal.h"

static uint32_t data_offset(const struct mad_send *send)
{
	return rmpp_data_offset(send->header.management_class);
}

bool rmpp_send_is_needed(const struct mad_agent *agent, const struct mad_header *header,
	const uint8_t *bytes, uint32_t count)
{
	uint8_t mad[MAD_BYTES] = {0};
	struct rmpp_header rmpp;

	if (!agent->spec.has_rmpp || !rmpp_has_header(header->management_class))
		return false;
	memcpy(mad, bytes, count < MAD_BYTES ? count : MAD_BYTES);
	rmpp_header_decode(&rmpp, mad);
	return rmpp.flags & RMPP_ACTIVE;
}

void rmpp_send_begin(struct mad_send *send)
{
	uint32_t offset = data_offset(send), step = MAD_BYTES - offset;

	if (send->count < offset)
		send->count = offset;
	send->segment_count = send->count == offset ? 1 : (send->count - offset + step - 1) / step;
	send->segment_sent = 0;
	send->segment_acked = 0;
	send->window_last = 1;
	send->state = MAD_SEND_AWAITS_ACK;
}

static void segment_encode(const struct mad_send *send, uint32_t segment, uint8_t mad[MAD_BYTES])
{
	uint32_t offset = data_offset(send), step = MAD_BYTES - offset;
	uint32_t at = offset + (segment - 1) * step;
	uint32_t count = send->count - at < step ? send->count - at : step;
	uint32_t pad = send->segment_count * step - (send->count - offset);
	struct rmpp_header rmpp;

	memset(mad, 0, MAD_BYTES);
	memcpy(mad, send->bytes, offset);
	memcpy(mad + offset, send->bytes + at, count);
	rmpp_header_decode(&rmpp, mad);
	rmpp.version = RMPP_VERSION;
	rmpp.type = RMPP_DATA;
	rmpp.flags = RMPP_ACTIVE;
	rmpp.status = RMPP_STATUS_OK;
	rmpp.segment = segment;
	rmpp.length = 0;
	/* IBTA 13.6.2.3: the first segment has the length of all of them, the last one its own. */
	if (segment == 1) {
		rmpp.flags |= RMPP_FIRST;
		rmpp.length = send->segment_count * RMPP_SEGMENT_BYTES - pad;
	}
	if (segment == send->segment_count) {
		rmpp.flags |= RMPP_LAST;
		rmpp.length = RMPP_SEGMENT_BYTES - pad;
	}
	rmpp_header_encode(&rmpp, mad);
}

/* The last segment that the receiver takes. */
static uint32_t sendable_last(const struct mad_send *send)
{
	return send->window_last < send->segment_count ? send->window_last : send->segment_count;
}

bool rmpp_send_is_paused(const struct mad_send *send)
{
	return send->segment_count && send->state == MAD_SEND_AWAITS_ACK &&
		send->segment_sent < sendable_last(send);
}

/*
 * The receiver chooses the window, which may be as long as a message of many megabytes. So the
 * sender pauses after each burst, to let other messages, and the caller's other work, have turns.
 */
void rmpp_send_more(struct mad_send *send, uint64_t now_ns)
{
	struct mad_agent *agent = send->agent;
	uint8_t mad[MAD_BYTES];

	for (uint32_t i = 0; i < RMPP_BURST && send->segment_sent < sendable_last(send); i++) {
		segment_encode(send, ++send->segment_sent, mad);
		mad_port_transmit(agent->port, agent->spec.qpn, &send->to, mad);
	}
	mad_timer_set(agent->port->layer, &send->timer, now_ns,
		rmpp_send_is_paused(send) ? RMPP_PAUSE_MS : RMPP_ACK_TIMEOUT_MS);
}

void rmpp_send_again(struct mad_send *send, uint64_t now_ns)
{
	if (send->state == MAD_SEND_AWAITS_RESPONSE) {
		/* The receiver has the whole request: its last segment is enough as a reminder. */
		send->segment_sent = send->segment_count - 1;
		send->window_last = send->segment_count;
		rmpp_send_more(send, now_ns);
		mad_timer_set(send->agent->port->layer, &send->timer, now_ns, send->timeout_ms);
		return;
	}
	send->segment_sent = send->segment_acked;
	rmpp_send_more(send, now_ns);
}

/* All segments are acknowledged: wait for the response, if one is expected. */
static void send_finish(struct mad_send *send, uint64_t now_ns)
{
	if (send->timeout_ms == 0 || mad_header_is_response(&send->header)) {
		mad_send_destroy(send);
		return;
	}
	send->state = MAD_SEND_AWAITS_RESPONSE;
	mad_timer_set(send->agent->port->layer, &send->timer, now_ns, send->timeout_ms);
}

/* One of the two ends aborts the message. A request is returned to its agent, a response is not. */
static void send_fail(struct mad_send *send)
{
	send->agent->port->counters.aborted++;
	if (send->timeout_ms > 0 && !mad_header_is_response(&send->header))
		mad_send_give_up(send);
	else
		mad_send_destroy(send);
}

static enum rmpp_status ack_check(const struct mad_send *send, const struct rmpp_header *rmpp)
{
	if (rmpp->status != RMPP_STATUS_OK)
		return RMPP_STATUS_BAD_STATUS;
	if (rmpp->length < rmpp->segment)
		return RMPP_STATUS_WINDOW_TOO_SMALL;
	if (rmpp->segment > send->segment_sent)
		return RMPP_STATUS_SEGMENT_TOO_BIG;
	return RMPP_STATUS_OK;
}

static void receive_ack(struct mad_send *send, const struct rmpp_header *rmpp, uint64_t now_ns)
{
	/* Ignore an ACK that a later one has overtaken. */
	if (rmpp->segment < send->segment_acked || rmpp->length < send->window_last)
		return;
	if (rmpp->segment > send->segment_acked)
		send->retries_left = send->retries;
	send->segment_acked = rmpp->segment;
	send->window_last = rmpp->length;
	if (send->segment_acked == send->segment_count)
		send_finish(send, now_ns);
	else
		rmpp_send_more(send, now_ns);
}

void rmpp_send_control(struct mad_agent *agent, const struct mad_header *header,
	const struct rmpp_header *rmpp, const struct mad_address *from, uint32_t own_qpn,
	const uint8_t mad[MAD_BYTES], uint64_t now_ns)
{
	struct mad_send *send = mad_send_find_message(agent, header, from);
	enum rmpp_status status;

	if (!send) {
		if (rmpp->type != RMPP_ACK)
			rmpp_receive_aborted(agent, header, from);
		return;
	}
	if (rmpp->type != RMPP_ACK) {
		send_fail(send);
		return;
	}
	if (send->state != MAD_SEND_AWAITS_ACK)
		return;
	status = ack_check(send, rmpp);
	if (status == RMPP_STATUS_OK) {
		receive_ack(send, rmpp, now_ns);
		return;
	}
	rmpp_abort(agent->port, own_qpn, from, mad, status);
	send_fail(send);
}

void rmpp_abort(struct mad_port *port, uint32_t own_qpn, const struct mad_address *to,
	const uint8_t mad[MAD_BYTES], enum rmpp_status status)
{
	struct rmpp_header rmpp = {.version = RMPP_VERSION,
		.type = RMPP_ABORT,
		.response_time = RMPP_NO_RESPONSE_TIME,
		.flags = RMPP_ACTIVE,
		.status = (uint8_t)status};
	uint8_t answer[MAD_BYTES] = {0};

	port->counters.aborted++;
	memcpy(answer, mad, MAD_HEADER_BYTES);
	answer[3] ^= MAD_METHOD_RESPONSE_BIT;
	rmpp_header_encode(&rmpp, answer);
	mad_port_transmit(port, own_qpn, to, answer);
}
