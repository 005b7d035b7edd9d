/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving messages by RMPP (IBTA 13.6.6): segments within a window, in any order, and
 * acknowledgements at the end of each window and of the message.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "mad/mad_internal.h"

static uint32_t data_offset(const struct mad_receive *receive)
{
	return rmpp_data_offset(receive->header.management_class);
}

static struct mad_receive *receive_find(
	struct mad_agent *agent, const struct mad_header *header, const struct mad_address *from)
{
	list_for_each(receive, &agent->receives, struct mad_receive, link)
		if (receive->header.transaction_id == header->transaction_id &&
			receive->header.management_class == header->management_class &&
			receive->header.method == header->method &&
			receive->from.lid == from->lid && receive->from.qpn == from->qpn)
			return receive;
	return NULL;
}

static void bytes_free(struct mad_receive *receive)
{
	receive->agent->port->receive_bytes -= receive->room;
	free(receive->bytes);
	receive->bytes = NULL;
	receive->room = 0;
}

void rmpp_receive_destroy(struct mad_receive *receive)
{
	struct mad_port *port = receive->agent->port;

	mad_timer_done(port->layer, &receive->timer);
	list_remove(&receive->link);
	if (receive->state == MAD_RECEIVE_COMPLETE) {
		list_remove(&receive->lingering_link);
		port->lingering_count--;
	} else {
		port->receive_count--;
	}
	bytes_free(receive);
	free(receive);
}

static struct mad_receive *receive_create(struct mad_agent *agent, uint32_t own_qpn,
	const struct mad_address *from, const struct mad_header *header)
{
	struct mad_port *port = agent->port;
	struct mad_receive *receive =
		port->receive_count < MAD_RECEIVES_MAX ? calloc(1, sizeof(*receive)) : NULL;

	if (!receive)
		return NULL;
	if (mad_timer_init(port->layer, &receive->timer, MAD_TIMER_RECEIVE)) {
		free(receive);
		return NULL;
	}
	receive->agent = agent;
	receive->own_qpn = own_qpn;
	receive->from = *from;
	receive->header = *header;
	receive->window_last = RMPP_WINDOW;
	list_init(&receive->lingering_link);
	list_append(&agent->receives, &receive->link);
	port->receive_count++;
	return receive;
}

static void send_ack(const struct mad_receive *receive, const uint8_t mad[MAD_BYTES])
{
	struct rmpp_header rmpp = {.version = RMPP_VERSION,
		.type = RMPP_ACK,
		.response_time = RMPP_NO_RESPONSE_TIME,
		.flags = RMPP_ACTIVE,
		.segment = receive->segment_acked,
		.length = receive->window_last};
	uint8_t answer[MAD_BYTES] = {0};

	memcpy(answer, mad, data_offset(receive));
	answer[3] ^= MAD_METHOD_RESPONSE_BIT;
	rmpp_header_encode(&rmpp, answer);
	mad_port_transmit(receive->agent->port, receive->own_qpn, &receive->from, answer);
}

/* Make room for `segments` whole segments. */
static bool reserve_segments(struct mad_receive *receive, uint32_t segments)
{
	struct mad_port *port = receive->agent->port;
	uint32_t offset = data_offset(receive);
	uint64_t needed = offset + (uint64_t)segments * (MAD_BYTES - offset);
	uint64_t room = receive->room ? receive->room : 4096;
	uint8_t *bytes;

	if (needed <= receive->room)
		return true;
	if (needed > MAD_MESSAGE_BYTES_MAX)
		return false;
	while (room < needed)
		room *= 2;
	if (room - receive->room > MAD_PORT_BYTES_MAX - port->receive_bytes)
		return false;
	bytes = realloc(receive->bytes, room);
	if (!bytes)
		return false;
	receive->bytes = bytes;
	port->receive_bytes += (uint32_t)room - receive->room;
	receive->room = (uint32_t)room;
	return true;
}

/* Put a segment into its place. The headers of the message are those of its first segment. */
static void segment_store(struct mad_receive *receive, uint32_t segment, const uint8_t *mad)
{
	uint32_t offset = data_offset(receive), step = MAD_BYTES - offset;

	memcpy(receive->bytes + offset + (size_t)(segment - 1) * step, mad + offset, step);
	if (segment == 1)
		memcpy(receive->bytes, mad, offset);
	receive->beyond |= UINT64_C(1) << (segment - receive->segment_acked - 1);
	while (receive->beyond & 1) {
		receive->beyond >>= 1;
		receive->segment_acked++;
	}
}

/* This segment has the flag RMPP_LAST. Has a segment behind it arrived already? */
static bool is_last_too_early(const struct mad_receive *receive, uint32_t segment)
{
	uint32_t beyond = segment - receive->segment_acked;

	return segment < receive->segment_acked || (beyond < 64 && receive->beyond >> beyond != 0);
}

/* IBTA 13.6.2: flags, segment number and payload length have to agree. */
static enum rmpp_status segment_check(
	const struct mad_receive *receive, const struct rmpp_header *rmpp)
{
	uint32_t headers = data_offset(receive) - MAD_HEADER_BYTES - RMPP_HEADER_BYTES;

	if (rmpp->status != RMPP_STATUS_OK)
		return RMPP_STATUS_BAD_STATUS;
	if (rmpp->segment == 0 || (rmpp->segment == 1) != ((rmpp->flags & RMPP_FIRST) != 0))
		return RMPP_STATUS_FIRST_SEGMENT;
	if (receive->segment_last &&
		(rmpp->segment > receive->segment_last ||
			(rmpp->segment == receive->segment_last) !=
				((rmpp->flags & RMPP_LAST) != 0)))
		return RMPP_STATUS_LAST_LENGTH;
	if (rmpp->flags & RMPP_LAST &&
		(rmpp->length < headers || rmpp->length > RMPP_SEGMENT_BYTES ||
			is_last_too_early(receive, rmpp->segment)))
		return RMPP_STATUS_LAST_LENGTH;
	return RMPP_STATUS_OK;
}

static void receive_fail(
	struct mad_receive *receive, const uint8_t mad[MAD_BYTES], enum rmpp_status status)
{
	rmpp_abort(receive->agent->port, receive->own_qpn, &receive->from, mad, status);
	rmpp_receive_destroy(receive);
}

static void segment_timer_set(struct mad_receive *receive, uint64_t now_ns, uint32_t timeout_ms)
{
	mad_timer_set(receive->agent->port->layer, &receive->timer, now_ns, timeout_ms);
}

/*
 * Restart the timer of a response's request with each segment: a long response may take longer than
 * the timeout, and the layer must not send the request again meanwhile.
 */
static void request_hold(struct mad_agent *agent, const struct mad_header *header, uint64_t now_ns)
{
	struct mad_send *request =
		mad_header_is_response(header) ? mad_send_find_request(agent, header) : NULL;

	if (request)
		mad_timer_set(agent->port->layer, &request->timer, now_ns, request->timeout_ms);
}

/* The message is complete. Keep it for a while, to acknowledge late copies of its segments. */
static void receive_complete(struct mad_receive *receive, uint64_t now_ns)
{
	struct mad_port *port = receive->agent->port;

	if (port->lingering_count == RMPP_LINGERING_MAX)
		rmpp_receive_destroy(
			list_first(&port->lingering, struct mad_receive, lingering_link));
	receive->state = MAD_RECEIVE_COMPLETE;
	port->receive_count--;
	port->lingering_count++;
	list_append(&port->lingering, &receive->lingering_link);
	segment_timer_set(receive, now_ns, RMPP_LINGER_MS);
}

/* Take a new segment in. Returns whether the message is complete. */
static bool segment_take(struct mad_receive *receive, const struct rmpp_header *rmpp,
	const uint8_t *mad, uint64_t now_ns)
{
	if (rmpp->flags & RMPP_LAST) {
		receive->segment_last = rmpp->segment;
		receive->last_length = rmpp->length;
	}
	segment_store(receive, rmpp->segment, mad);
	segment_timer_set(receive, now_ns, RMPP_SEGMENT_TIMEOUT_MS);
	request_hold(receive->agent, &receive->header, now_ns);
	if (receive->segment_last > 0 && receive->segment_acked == receive->segment_last) {
		receive_complete(receive, now_ns);
		send_ack(receive, mad);
		return true;
	}
	/* A sender begins with a window of one segment, so acknowledge that at once. */
	if (rmpp->segment == 1 || receive->segment_acked == receive->window_last) {
		receive->window_last = receive->segment_acked + RMPP_WINDOW;
		send_ack(receive, mad);
	}
	return false;
}

/* Is the segment here already? */
static bool segment_is_here(const struct mad_receive *receive, uint32_t segment)
{
	uint32_t beyond = segment - receive->segment_acked - 1;

	return segment <= receive->segment_acked || (beyond < 64 && receive->beyond >> beyond & 1);
}

/* Find or begin the message to which a segment belongs. NULL: there is none. */
static struct mad_receive *segment_owner(struct mad_agent *agent, uint32_t own_qpn,
	const struct mad_address *from, const struct mad_header *header,
	const struct rmpp_header *rmpp, const uint8_t *mad)
{
	struct mad_receive *receive = receive_find(agent, header, from);

	if (receive)
		return receive;
	/* Ignore a response without a request, and the rest of a message that was given up. */
	if ((mad_header_is_response(header) && !mad_send_find_request(agent, header)) ||
		rmpp->segment != 1)
		return NULL;
	receive = receive_create(agent, own_qpn, from, header);
	if (!receive)
		rmpp_abort(agent->port, own_qpn, from, mad, RMPP_STATUS_UNSPECIFIED);
	return receive;
}

struct mad_receive *rmpp_receive_segment(struct mad_agent *agent, uint32_t own_qpn,
	const struct mad_address *from, const struct mad_header *header,
	const struct rmpp_header *rmpp, const uint8_t mad[MAD_BYTES], uint64_t now_ns)
{
	struct mad_receive *receive = segment_owner(agent, own_qpn, from, header, rmpp, mad);
	enum rmpp_status status;

	if (!receive)
		return NULL;
	status = segment_check(receive, rmpp);
	if (status != RMPP_STATUS_OK) {
		/* A message that was delivered cannot fail any more. */
		if (receive->state == MAD_RECEIVE_ACTIVE)
			receive_fail(receive, mad, status);
		return NULL;
	}
	if (receive->state == MAD_RECEIVE_COMPLETE || segment_is_here(receive, rmpp->segment)) {
		send_ack(receive, mad);
		return NULL;
	}
	if (rmpp->segment > receive->window_last)
		return NULL;
	if (!reserve_segments(receive, rmpp->segment)) {
		receive_fail(receive, mad, RMPP_STATUS_UNSPECIFIED);
		return NULL;
	}
	return segment_take(receive, rmpp, mad, now_ns) ? receive : NULL;
}

uint32_t rmpp_receive_bytes(const struct mad_receive *receive)
{
	uint32_t offset = data_offset(receive), step = MAD_BYTES - offset;
	uint32_t headers = offset - MAD_HEADER_BYTES - RMPP_HEADER_BYTES;

	return offset + (receive->segment_last - 1) * step + receive->last_length - headers;
}

void rmpp_receive_delivered(struct mad_receive *receive)
{
	bytes_free(receive);
}

void rmpp_receive_aborted(
	struct mad_agent *agent, const struct mad_header *header, const struct mad_address *from)
{
	struct mad_receive *receive = receive_find(agent, header, from);

	if (!receive || receive->state == MAD_RECEIVE_COMPLETE)
		return;
	agent->port->counters.aborted++;
	rmpp_receive_destroy(receive);
}

void rmpp_receive_expire(struct mad_receive *receive)
{
	struct mad_port *port = receive->agent->port;
	uint8_t mad[MAD_BYTES] = {0};

	if (receive->state == MAD_RECEIVE_ACTIVE) {
		mad_header_encode(&receive->header, mad);
		rmpp_abort(port, receive->own_qpn, &receive->from, mad, RMPP_STATUS_TOO_LONG);
	}
	rmpp_receive_destroy(receive);
}
