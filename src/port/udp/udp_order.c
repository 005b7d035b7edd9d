/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The order of packets of the bypass and of the UDP socket where no mark shows it (udp_bypass.c):
 * middle packets of a message arrive at the UDP socket without a mark. So the port records which
 * queue pairs have received a part of a message, and the first PSN that is missing. Later packets
 * from the bypass wait for the middle packets.
 *
 * This is only an estimate: the port does not wait if it has no record for the queue pair, and
 * waits for lost packets only briefly. The transport handles packets in any order.
 */
#include "port/udp/udp_internal.h"
#include "wire/opcode.h"

enum { RESPONSE = 1 << U24_BITS }; /* separates a queue pair's responses from its requests */

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
