/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The order of packets that come two ways, over the link and by the socket, where no mark tells it
 * (udp_bypass.c): which queue pairs are within a message, and so have middle packets to come by the
 * socket. What is after those has to wait.
 *
 * Only a guess at what is on its way. Who is not known here is not waited for, and who never comes
 * is not waited for long; the transport puts up with packets in any order.
 */
#include "port/udp_internal.h"
#include "wire/bth.h"
#include "wire/opcode.h"

enum { RESPONSE = 1 << U24_BITS }; /* a queue pair's requests and responses are numbered apart */

static struct udp_order *order_of(
	struct port_udp *port, const struct udp_flow *flow, uint32_t stream)
{
	uint32_t hash = stream * 0x9e3779b1u >> 16 ^ (uint32_t)(flow - port->flows);

	return &port->orders[hash % UDP_ORDERS_COUNT];
}

static uint32_t stream_of(const struct opcode_info *info, const uint8_t *packet)
{
	return get_be24(packet + 5) | (info->role == OPCODE_ROLE_RESPONSE ? RESPONSE : 0);
}

void udp_order_note(struct port_udp *port, const struct udp_flow *flow, const uint8_t *packet)
{
	const struct opcode_info *info = opcode_info(packet[0]);
	struct udp_order *order;

	if (!info || info->position == POSITION_ONLY)
		return;
	order = order_of(port, flow, stream_of(info, packet));
	*order = (struct udp_order){
		.flow = opcode_ends_message(info) ? NULL : flow,
		.stream = stream_of(info, packet),
		.next = psn_add(psn_from(get_be24(packet + 9)), 1),
	};
}

bool udp_order_is_early(struct port_udp *port, const struct udp_flow *flow, const uint8_t *packet)
{
	const struct opcode_info *info = opcode_info(packet[0]);
	const struct udp_order *order;

	if (!info)
		return false;
	order = order_of(port, flow, stream_of(info, packet));
	return order->flow == flow && order->stream == stream_of(info, packet) &&
		psn_before(order->next, psn_from(get_be24(packet + 9)));
}

bool udp_order_is_middle(const uint8_t *packet)
{
	const struct opcode_info *info = opcode_info(packet[0]);

	return info && info->position == POSITION_MIDDLE;
}
