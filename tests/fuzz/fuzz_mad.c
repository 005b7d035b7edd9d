/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ports of the MAD layer that get any MADs, from each other and from the input: the layer keeps
 * its bounds, gives each request back at most once, and forgets all of it with its agent.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mad/mad_layer.h"
#include "wire/bytes.h"
#include "wire/infiniband/rmpp.h"

enum { PORTS = 2, AGENTS = 4, QUEUE_MAX = 256, MESSAGE_BYTES_MAX = 24 + UINT8_MAX * 16 };

struct crossing {
	uint32_t to;
	uint32_t qpn;
	struct mad_address from;
	uint8_t mad[MAD_BYTES];
};

static struct crossing queue[QUEUE_MAX];
static uint32_t queued;
static struct mad_port *ports[PORTS];
static uint64_t delivered, sent;

static void queue_transmit(
	void *context, uint32_t own_qpn, const struct mad_address *to, const uint8_t mad[MAD_BYTES])
{
	struct crossing *crossing = &queue[queued % QUEUE_MAX];

	if (queued < QUEUE_MAX)
		queued++;
	*crossing = (struct crossing){.to = context == &ports[0], .qpn = own_qpn, .from = *to};
	crossing->from.lid = (uint16_t)((context == &ports[1]) + 1);
	memcpy(crossing->mad, mad, MAD_BYTES);
}

/* Read each byte, so that a sanitizer sees those that are not there. */
static void count_deliver(void *context, const struct mad_address *peer, int status,
	const uint8_t *bytes, uint32_t count)
{
	volatile uint8_t sum = 0;

	(void)context;
	(void)peer;
	if (count < MAD_HEADER_BYTES || (status != 0 && status != ETIMEDOUT))
		abort();
	for (uint32_t i = 0; i < count; i++)
		sum = (uint8_t)(sum + bytes[i]);
	delivered += status != 0;
	if (delivered > sent)
		abort();
}

/* A MAD that mostly passes the first checks; `input` has 16 bytes. */
static void mad_make(const uint8_t *input, uint64_t tid_high, uint8_t mad[MAD_BYTES])
{
	static const uint8_t classes[] = {3, 3, 3, 0x32, 4, 1, 0x81, 6};
	static const uint8_t methods[] = {1, 0x12, 0x92, 0x81, 0x14, 0x94, 7, 5};
	const struct mad_header header = {.base_version = (input[0] & 15) ? 1 : input[0],
		.management_class = (input[1] & 0x80) ? input[1] : classes[input[1] & 7],
		.class_version = (input[2] & 15) ? 1 : input[2],
		.method = (input[3] & 0x80) ? input[3] : methods[input[3] & 7],
		.attribute_id = input[4],
		.transaction_id = tid_high << 32 | (input[5] & 3)};
	const struct rmpp_header rmpp = {.version = (input[6] & 15) ? 1 : input[6],
		.type = input[7] % 6,
		.flags = input[8] & 7,
		.status = (input[9] & 7) ? 0 : input[9],
		.segment = (input[10] & 0x80) ? get_be32(input + 10) : input[10],
		.length = (input[14] & 0x80) ? get_be32(input + 12) : input[14]};

	memset(mad, input[15], MAD_BYTES);
	mad_header_encode(&header, mad);
	rmpp_header_encode(&rmpp, mad);
}

static void agent_make(struct mad_agent **agent, uint32_t port, const uint8_t *input)
{
	const struct mad_agent_spec spec = {.management_class = (input[0] & 4) ? 0x32
			: (input[0] & 8)                                       ? 0x81
									       : 3,
		.class_version = 1,
		.has_rmpp = input[0] & 1,
		.qpn = (input[0] & 12) == 8 ? 0 : 1,
		.method_mask = {(input[0] & 2) ? UINT64_MAX : 0, 0}};

	if (*agent) {
		mad_agent_remove(*agent);
		*agent = NULL;
	} else if (mad_agent_add(ports[port], &spec, agent, agent)) {
		*agent = NULL;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct mad_calls calls = {
		.transmit = queue_transmit, .deliver = count_deliver};
	static uint8_t message[MESSAGE_BYTES_MAX];
	struct mad_agent *agents[AGENTS] = {0};
	struct mad_layer *layer;
	uint64_t now_ns = 1;

	queued = 0;
	delivered = sent = 0;
	if (mad_layer_create(&calls, &layer))
		abort();
	for (uint32_t i = 0; i < PORTS; i++)
		if (mad_port_create(layer, &ports[i], &ports[i]))
			abort();
	for (size_t at = 0; at + 20 <= size; at += 20) {
		const uint8_t *input = data + at + 4;
		uint32_t port = data[at] & 1, index = data[at + 1] % AGENTS;
		struct mad_address peer = {.lid = (uint16_t)(2 - port), .qpn = input[0] & 1};
		struct mad_agent *agent = agents[index];
		uint8_t mad[MAD_BYTES];

		mad_make(input, agent ? mad_agent_number(agent) : index, mad);
		switch (data[at + 2] % 6) {
		case 0:
			agent_make(&agents[index], index % PORTS, input);
			break;
		case 1:
			mad_port_receive(ports[port], peer.qpn, &peer, mad, now_ns);
			break;
		case 2:
			peer.lid = (uint16_t)(2 - index % PORTS);
			memcpy(message, mad, MAD_BYTES);
			if (agent &&
				mad_agent_send(agent, &peer, message, 24u + data[at + 3] * 16u,
					input[1] * 10u, input[2] & 3, now_ns) == 0)
				sent++;
			break;
		case 3:
			now_ns += (uint64_t)data[at + 3] * 50000000;
			mad_layer_advance(layer, now_ns);
			break;
		default:
			for (unsigned i = 0; queued > 0 && i < 64; i++) {
				struct crossing crossing = queue[--queued];

				mad_port_receive(ports[crossing.to], crossing.from.qpn,
					&crossing.from, crossing.mad, now_ns);
			}
		}
	}
	mad_port_destroy(ports[0]);
	mad_port_destroy(ports[1]);
	if (mad_layer_deadline_ns(layer) != UINT64_MAX)
		abort();
	mad_layer_destroy(layer);
	return 0;
}
