/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending: transaction IDs, timeouts, retries. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "mad/mad_internal.h"

static struct list *sends_of(struct mad_agent *agent, uint64_t transaction_id)
{
	return &agent->sends[mix_u64(transaction_id) % MAD_SEND_BUCKETS];
}

struct mad_send *mad_send_find_request(struct mad_agent *agent, const struct mad_header *response)
{
	const struct list *sends = sends_of(agent, response->transaction_id);

	list_for_each(send, sends, struct mad_send, link)
		if (send->timeout_ms > 0 &&
			send->header.transaction_id == response->transaction_id &&
			send->header.management_class == response->management_class &&
			!mad_header_is_response(&send->header))
			return send;
	return NULL;
}

struct mad_send *mad_send_find_message(
	struct mad_agent *agent, const struct mad_header *header, const struct mad_address *from)
{
	const struct list *sends = sends_of(agent, header->transaction_id);

	list_for_each(send, sends, struct mad_send, link)
		if (send->segment_count > 0 &&
			send->header.transaction_id == header->transaction_id &&
			send->header.management_class == header->management_class &&
			send->header.method == (header->method ^ MAD_METHOD_RESPONSE_BIT) &&
			send->to.lid == from->lid)
			return send;
	return NULL;
}

void mad_send_destroy(struct mad_send *send)
{
	struct mad_port *port = send->agent->port;

	mad_timer_done(port->layer, &send->timer);
	list_remove(&send->link);
	port->send_count--;
	port->send_bytes -= send->room;
	free(send);
}

void mad_send_give_up(struct mad_send *send)
{
	struct mad_port *port = send->agent->port;

	port->counters.timed_out++;
	port->layer->calls->deliver(
		send->agent->context, &send->to, ETIMEDOUT, send->bytes, MAD_HEADER_BYTES);
	mad_send_destroy(send);
}

/* Send a request that is one MAD, and wait for its response. */
static void send_request(struct mad_send *send, uint64_t now_ns)
{
	struct mad_agent *agent = send->agent;

	send->state = MAD_SEND_AWAITS_RESPONSE;
	mad_timer_set(agent->port->layer, &send->timer, now_ns, send->timeout_ms);
	mad_port_transmit(agent->port, agent->spec.qpn, &send->to, send->bytes);
}

void mad_send_expire(struct mad_send *send, uint64_t now_ns)
{
	if (rmpp_send_is_paused(send)) {
		rmpp_send_more(send, now_ns);
		return;
	}
	if (send->retries_left == 0) {
		mad_send_give_up(send);
		return;
	}
	send->retries_left--;
	send->agent->port->counters.retried++;
	if (send->segment_count == 0)
		send_request(send, now_ns);
	else
		rmpp_send_again(send, now_ns);
}

static bool is_duplicate(struct mad_agent *agent, const struct mad_header *header)
{
	const struct list *sends = sends_of(agent, header->transaction_id);

	list_for_each(send, sends, struct mad_send, link)
		if (send->header.transaction_id == header->transaction_id &&
			send->header.management_class == header->management_class &&
			!mad_header_is_response(&send->header))
			return true;
	return false;
}

static int send_create(struct mad_agent *agent, const struct mad_address *to,
	const struct mad_header *header, const uint8_t *bytes, uint32_t count,
	struct mad_send **ret_send)
{
	struct mad_port *port = agent->port;
	uint32_t room = count < MAD_BYTES ? MAD_BYTES : count;
	struct mad_send *send;
	int rc;

	if (port->send_count == MAD_SENDS_MAX || room > MAD_PORT_BYTES_MAX - port->send_bytes)
		return -ENOBUFS;
	send = malloc(sizeof(*send) + room);
	if (!send)
		return -ENOMEM;
	*send = (struct mad_send){
		.agent = agent, .to = *to, .header = *header, .count = count, .room = room};
	rc = mad_timer_init(port->layer, &send->timer, MAD_TIMER_SEND);
	if (rc) {
		free(send);
		return rc;
	}
	memset(send->bytes, 0, MAD_BYTES);
	memcpy(send->bytes, bytes, count);
	mad_header_encode(header, send->bytes);
	list_append(sends_of(agent, header->transaction_id), &send->link);
	port->send_count++;
	port->send_bytes += room;
	*ret_send = send;
	return 0;
}

/* Send a MAD that expects no answer. */
static void send_once(struct mad_agent *agent, const struct mad_address *to,
	const struct mad_header *header, const uint8_t *bytes, uint32_t count)
{
	uint8_t mad[MAD_BYTES] = {0};

	memcpy(mad, bytes, count);
	mad_header_encode(header, mad);
	mad_port_transmit(agent->port, agent->spec.qpn, to, mad);
}

int mad_agent_send(struct mad_agent *agent, const struct mad_address *to, const uint8_t *bytes,
	uint32_t count, uint32_t timeout_ms, uint32_t retries, uint64_t now_ns)
{
	struct mad_header header;
	struct mad_send *send;
	bool is_response, is_segmented;
	int rc;

	if (count < MAD_HEADER_BYTES || count > MAD_MESSAGE_BYTES_MAX)
		return -EINVAL;
	mad_header_decode(&header, bytes);
	is_response = mad_header_is_response(&header);
	is_segmented = rmpp_send_is_needed(agent, &header, bytes, count);
	if (count > MAD_BYTES && !is_segmented)
		return -EINVAL;
	if (!is_response) {
		header.transaction_id =
			(uint64_t)agent->number << 32 | (header.transaction_id & UINT32_MAX);
		if (is_duplicate(agent, &header))
			return -EINVAL;
	} else {
		/* A response gets no answer, so ignore a timeout, which ibping sets. */
		timeout_ms = 0;
	}
	if (!is_segmented && timeout_ms == 0) {
		send_once(agent, to, &header, bytes, count);
		return 0;
	}
	rc = send_create(agent, to, &header, bytes, count, &send);
	if (rc)
		return rc;
	send->timeout_ms = timeout_ms;
	send->retries = send->retries_left = retries;
	if (!is_segmented) {
		send_request(send, now_ns);
		return 0;
	}
	rmpp_send_begin(send);
	rmpp_send_more(send, now_ns);
	return 0;
}
