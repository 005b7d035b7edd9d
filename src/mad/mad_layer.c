/* SPDX-License-Identifier: BSD-2-Clause */
/* The layer, its timers and ports; where a received MAD goes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mad/mad_internal.h"

int mad_layer_create(const struct mad_calls *calls, struct mad_layer **ret_layer)
{
	struct mad_layer *layer = calloc(1, sizeof(*layer));

	if (!layer)
		return -ENOMEM;
	layer->calls = calls;
	deadline_heap_init(&layer->timers);
	*ret_layer = layer;
	return 0;
}

void mad_layer_destroy(struct mad_layer *layer)
{
	if (!layer)
		return;
	deadline_heap_done(&layer->timers);
	free(layer);
}

uint64_t mad_layer_deadline_ns(const struct mad_layer *layer)
{
	const struct deadline *first = deadline_heap_first(&layer->timers);

	return first ? first->at_ns : UINT64_MAX;
}

void mad_layer_advance(struct mad_layer *layer, uint64_t now_ns)
{
	struct deadline *first;

	while ((first = deadline_heap_first(&layer->timers)) && first->at_ns <= now_ns) {
		struct mad_timer *timer = container_of(first, struct mad_timer, deadline);

		deadline_set(&layer->timers, first, DEADLINE_NEVER);
		if (timer->kind == MAD_TIMER_SEND)
			mad_send_expire(container_of(timer, struct mad_send, timer), now_ns);
		else
			rmpp_receive_expire(container_of(timer, struct mad_receive, timer));
	}
}

int mad_timer_init(struct mad_layer *layer, struct mad_timer *timer, enum mad_timer_kind kind)
{
	int rc = deadline_heap_reserve(&layer->timers, layer->timer_count + 1);

	if (rc)
		return rc;
	layer->timer_count++;
	*timer = (struct mad_timer){.kind = kind};
	return 0;
}

void mad_timer_done(struct mad_layer *layer, struct mad_timer *timer)
{
	deadline_set(&layer->timers, &timer->deadline, DEADLINE_NEVER);
	layer->timer_count--;
}

void mad_timer_set(
	struct mad_layer *layer, struct mad_timer *timer, uint64_t now_ns, uint64_t timeout_ms)
{
	deadline_set(&layer->timers, &timer->deadline, now_ns + timeout_ms * MAD_MS_NS);
}

/* --- ports --- */

int mad_port_create(struct mad_layer *layer, void *context, struct mad_port **ret_port)
{
	struct mad_port *port = calloc(1, sizeof(*port));

	if (!port)
		return -ENOMEM;
	port->layer = layer;
	port->context = context;
	list_init(&port->agents);
	list_init(&port->lingering);
	*ret_port = port;
	return 0;
}

void mad_port_destroy(struct mad_port *port)
{
	if (!port)
		return;
	list_for_each_safe(agent, &port->agents, struct mad_agent, link)
		mad_agent_remove(agent);
	free(port);
}

const struct mad_counters *mad_port_counters(const struct mad_port *port)
{
	return &port->counters;
}

void mad_port_transmit(struct mad_port *port, uint32_t own_qpn, const struct mad_address *to,
	const uint8_t mad[MAD_BYTES])
{
	port->counters.sent++;
	port->layer->calls->transmit(port->context, own_qpn, to, mad);
}

/* Answer a Get or Set for which no agent has registered, so that its sender need not wait. */
static void answer_unmatched(struct mad_port *port, const struct mad_address *from,
	const struct mad_header *request, const uint8_t *mad)
{
	struct mad_header header = *request;
	uint8_t answer[MAD_BYTES];

	if (request->method != MAD_METHOD_GET && request->method != MAD_METHOD_SET)
		return;
	memcpy(answer, mad, sizeof(answer));
	header.method = MAD_METHOD_GET_RESP;
	header.status = MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE;
	mad_header_encode(&header, answer);
	mad_port_transmit(port, GSI_QPN, from, answer);
}

static void deliver_message(struct mad_agent *agent, const struct mad_address *from,
	const struct mad_header *header, const uint8_t *bytes, uint32_t count)
{
	struct mad_port *port = agent->port;

	if (mad_header_is_response(header)) {
		struct mad_send *request = mad_send_find_request(agent, header);

		if (!request) {
			port->counters.unmatched_responses++;
			return;
		}
		mad_send_destroy(request);
	}
	port->layer->calls->deliver(agent->context, from, 0, bytes, count);
}

static void receive_segment(struct mad_agent *agent, uint32_t own_qpn,
	const struct mad_address *from, const struct mad_header *header,
	const struct rmpp_header *rmpp, const uint8_t *mad, uint64_t now_ns)
{
	struct mad_receive *receive =
		rmpp_receive_segment(agent, own_qpn, from, header, rmpp, mad, now_ns);

	if (!receive)
		return;
	deliver_message(agent, from, header, receive->bytes, rmpp_receive_bytes(receive));
	rmpp_receive_delivered(receive);
}

/* Handle a MAD with an active RMPP header, for an agent with RMPP. */
static void receive_rmpp(struct mad_agent *agent, uint32_t own_qpn, const struct mad_address *from,
	const struct mad_header *header, const struct rmpp_header *rmpp, const uint8_t *mad,
	uint64_t now_ns)
{
	struct mad_port *port = agent->port;

	if (rmpp->version != RMPP_VERSION) {
		port->counters.malformed++;
		if (rmpp->type == RMPP_DATA || rmpp->type == RMPP_ACK)
			rmpp_abort(port, own_qpn, from, mad, RMPP_STATUS_VERSION);
		return;
	}
	switch (rmpp->type) {
	case RMPP_DATA:
		receive_segment(agent, own_qpn, from, header, rmpp, mad, now_ns);
		break;
	case RMPP_ACK:
	case RMPP_STOP:
	case RMPP_ABORT:
		rmpp_send_control(agent, header, rmpp, from, own_qpn, mad, now_ns);
		break;
	default:
		port->counters.malformed++;
		rmpp_abort(port, own_qpn, from, mad, RMPP_STATUS_BAD_TYPE);
	}
}

void mad_port_receive(struct mad_port *port, uint32_t own_qpn, const struct mad_address *from,
	const uint8_t mad[MAD_BYTES], uint64_t now_ns)
{
	struct mad_header header;
	struct rmpp_header rmpp;
	struct mad_agent *agent;

	mad_header_decode(&header, mad);
	port->counters.received++;
	/* IBTA 13.5.3.1: QP0 takes the subnet management classes, QP1 all others. */
	if (header.base_version != MAD_BASE_VERSION || own_qpn > GSI_QPN ||
		mad_class_is_subnet(header.management_class) != (own_qpn == SMI_QPN)) {
		port->counters.malformed++;
		return;
	}
	agent = mad_agent_find(port, &header, mad);
	if (!agent || agent->spec.qpn != own_qpn) {
		if (mad_header_is_response(&header)) {
			port->counters.unmatched_responses++;
			return;
		}
		port->counters.unmatched_requests++;
		if (own_qpn == GSI_QPN)
			answer_unmatched(port, from, &header, mad);
		return;
	}
	if (agent->spec.has_rmpp && rmpp_has_header(header.management_class)) {
		rmpp_header_decode(&rmpp, mad);
		if (rmpp.flags & RMPP_ACTIVE) {
			receive_rmpp(agent, own_qpn, from, &header, &rmpp, mad, now_ns);
			return;
		}
	}
	deliver_message(agent, from, &header, mad, MAD_BYTES);
}
