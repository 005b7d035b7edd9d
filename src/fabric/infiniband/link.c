/* SPDX-License-Identifier: BSD-2-Clause */
/* What a port sends and receives: packets by credits and arbitration, and credits themselves. */
#include <assert.h>

#include "base/arith.h"
#include "fabric/infiniband/internal.h"
#include "wire/infiniband/lrh.h"
#include "wire/infiniband/pkey.h"

/* --- the queues of a port --- */

static void head_change(struct fabric *fabric, uint32_t number, uint32_t vl)
{
	struct infiniband_port *port = infiniband_port_of(fabric, number);
	struct infiniband_vl *of = &port->vls[vl];

	of->head_since_ps = fabric->now_ps;
	if (of->queue.first) {
		port->waiting |= (uint16_t)(1u << vl);
		port->head_bytes[vl] = of->queue.first->bytes;
	} else {
		port->waiting &= (uint16_t) ~(1u << vl);
	}
	infiniband_lifetime_set(fabric, number);
}

/* Count the bytes of queues by priority, for reports. */
static void queue_note(
	struct fabric *fabric, uint32_t number, const struct fabric_packet *packet, bool is_added)
{
	struct port_priority *of = &fabric->ports[number].priority[packet->priority];
	uint64_t bytes = packet->bytes;

	if (!fabric->ports[number].is_host)
		port_queue_change(
			fabric, of, is_added ? of->queue_bytes + bytes : of->queue_bytes - bytes);
}

void infiniband_push(struct fabric *fabric, uint32_t number, struct fabric_packet *packet)
{
	struct infiniband_vl *of = &infiniband_port_of(fabric, number)->vls[packet->vl];
	bool was_empty = !of->queue.first;

	packet->queued_ps = fabric->now_ps;
	packet->paused_before_ps = infiniband_wait_ps(fabric, number, packet->vl);
	packet_queue_push(&of->queue, packet);
	queue_note(fabric, number, packet, true);
	if (was_empty)
		head_change(fabric, number, packet->vl);
}

static void wait_end(const struct fabric *fabric, struct infiniband_vl *of)
{
	if (of->wait_since_ps == FABRIC_NEVER)
		return;
	of->wait_ps += fabric->now_ps - of->wait_since_ps;
	of->wait_since_ps = FABRIC_NEVER;
}

struct fabric_packet *infiniband_pop(struct fabric *fabric, uint32_t number, uint32_t vl)
{
	struct infiniband_vl *of = &infiniband_port_of(fabric, number)->vls[vl];
	struct fabric_packet *packet = packet_queue_pop(&of->queue);

	wait_end(fabric, of);
	queue_note(fabric, number, packet, false);
	head_change(fabric, number, vl);
	if (!fabric->ports[number].is_host)
		infiniband_buffer_release(fabric, packet);
	return packet;
}

/* --- sending --- */

/*
 * The priorities of which the host need not offer a packet: those whose lane has a packet already,
 * and those that are mapped to no data lane.
 */
static uint8_t priorities_ready(const struct fabric *fabric, uint32_t number)
{
	const struct infiniband_port *port = infiniband_port_of(fabric, number);
	uint8_t priorities = 0;

	for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++) {
		uint32_t vl;

		vl = infiniband_vl_of(fabric, number, number, i);
		if (vl == IB_VL_MANAGEMENT || (port->waiting >> vl & 1))
			priorities |= (uint8_t)(1u << i);
	}
	return priorities;
}

/* Take a packet for each lane from the port's host. */
static void host_pull(struct fabric *fabric, uint32_t number)
{
	uint8_t ready = priorities_ready(fabric, number);

	while (ready != UINT8_MAX &&
		!(infiniband_port_of(fabric, number)->waiting >> IB_VL_MANAGEMENT & 1)) {
		struct fabric_packet *packet = host_next_packet(fabric, number, ready);

		if (!packet)
			return;
		packet->vl = IB_VL_MANAGEMENT;
		if (!packet->is_management)
			packet->vl = infiniband_vl_of(fabric, number, number, packet->priority);
		infiniband_push(fabric, number, packet);
		ready = priorities_ready(fabric, number);
	}
}

/* The data lanes with a packet and credits for it. */
static uint16_t lanes_ready(struct fabric *fabric, uint32_t number)
{
	struct infiniband_port *port = infiniband_port_of(fabric, number);
	uint16_t ready = 0;

	for (uint32_t vl = 0; vl < IB_DATA_VL_COUNT; vl++) {
		struct infiniband_vl *of = &port->vls[vl];

		if (!(port->waiting >> vl & 1))
			continue;
		if (credit_allows(&of->sender, credit_blocks(port->head_bytes[vl])))
			ready |= (uint16_t)(1u << vl);
		else if (of->wait_since_ps == FABRIC_NEVER)
			of->wait_since_ps = fabric->now_ps;
	}
	return ready;
}

/* The flow control packet of the lowest lane whose credits are pending. */
static struct fabric_packet *link_packet_make(struct fabric *fabric, uint32_t number)
{
	struct infiniband_port *port = infiniband_port_of(fabric, number);
	uint32_t vl = (uint32_t)__builtin_ctz(port->credits_pending);
	struct fabric_packet *packet = fabric_packet_take(fabric);

	if (!packet)
		return NULL;
	port->credits_pending &= (uint16_t) ~(1u << vl);
	port->link_packets++;
	packet->is_link = true;
	packet->bytes = IB_LINK_PACKET_BYTES;
	packet->vl = (uint8_t)vl;
	packet->number =
		(uint64_t)port->vls[vl].sender.fctbs << 16 | credit_limit(&port->vls[vl].receiver);
	return packet;
}

struct fabric_packet *infiniband_next_packet(struct fabric *fabric, uint32_t number)
{
	struct infiniband_port *port = infiniband_port_of(fabric, number);
	uint32_t vl = IB_VL_MANAGEMENT;
	struct fabric_packet *packet;

	if (fabric->ports[number].is_host)
		host_pull(fabric, number);
	if (port->credits_pending)
		return link_packet_make(fabric, number);
	if (!(port->waiting >> vl & 1)) {
		vl = arbiter_choose(&port->arbiter, lanes_ready(fabric, number), port->head_bytes);
		if (vl == ARBITRATION_NONE)
			return NULL;
	}
	packet = infiniband_pop(fabric, number, vl);
	port->vls[vl].sent_packets++;
	port->vls[vl].sent_bytes += packet->bytes;
	port->vls[vl].discards_in_a_row = 0;
	if (packet->data_bytes)
		lrh_set_vl(packet->data, (uint8_t)vl);
	if (vl != IB_VL_MANAGEMENT)
		port->vls[vl].sender.fctbs =
			credit_add(port->vls[vl].sender.fctbs, credit_blocks(packet->bytes));
	return packet;
}

uint64_t infiniband_wait_ps(const struct fabric *fabric, uint32_t port, uint32_t vl)
{
	const struct infiniband_vl *of = &infiniband_port_of(fabric, port)->vls[vl];
	bool is_waiting = of->wait_since_ps != FABRIC_NEVER;

	return of->wait_ps + (is_waiting ? fabric->now_ps - of->wait_since_ps : 0);
}

/* --- credits --- */

static void credits_send(struct fabric *fabric, uint32_t number, uint32_t vl)
{
	infiniband_port_of(fabric, number)->credits_pending |= (uint16_t)(1u << vl);
	port_kick(fabric, number);
}

void infiniband_flow_control(struct fabric *fabric, uint32_t number)
{
	struct infiniband_port *port = infiniband_port_of(fabric, number);

	if (!fabric_timer_fires(fabric, &port->flow_control, EVENT_FLOW_CONTROL, number))
		return;
	port->credits_pending |= (uint16_t)((1u << fabric->infiniband->config.data_vls) - 1);
	infiniband_flow_control_set(fabric, number);
	port_kick(fabric, number);
}

/*
 * A link packet brings FCCL, the peer's new limit, and FCTBS, the blocks that the peer has sent. If
 * fewer blocks have arrived, the link has lost the others, and this port counts them as received.
 */
void infiniband_link_receive(struct fabric *fabric, uint32_t number, struct fabric_packet *packet)
{
	struct infiniband_vl *of = &infiniband_port_of(fabric, number)->vls[packet->vl];
	uint32_t vl = packet->vl;
	uint16_t fctbs = (uint16_t)(packet->number >> 16);
	bool has_lost = of->receiver.abr != fctbs;

	fabric_note(fabric, FABRIC_FRAME_ARRIVED, number, 0, packet);
	of->sender.fccl = (uint16_t)packet->number;
	of->receiver.abr = fctbs;
	packet_pool_return(&fabric->pool, packet);
	if (has_lost)
		credits_send(fabric, number, vl);
	else
		port_kick(fabric, number);
}

void infiniband_buffer_take(
	struct fabric *fabric, uint32_t number, const struct fabric_packet *packet)
{
	struct infiniband_vl *of = &infiniband_port_of(fabric, number)->vls[packet->vl];
	uint32_t blocks = credit_blocks(packet->bytes);

	of->received_packets++;
	of->held_packets++;
	if (packet->vl == IB_VL_MANAGEMENT)
		return;
	assert(blocks <= of->receiver.free_blocks);
	of->receiver.abr = credit_add(of->receiver.abr, blocks);
	of->receiver.free_blocks -= blocks;
}

void infiniband_buffer_release(struct fabric *fabric, const struct fabric_packet *packet)
{
	uint32_t vl = packet->ingress_vl;
	uint32_t ingress = infiniband_ingress_of(fabric, packet);
	struct infiniband_vl *of = &infiniband_port_of(fabric, ingress)->vls[vl];

	if (packet->is_copy && !infiniband_hold_release(fabric, packet->ingress))
		return;
	of->held_packets--;
	if (vl == IB_VL_MANAGEMENT)
		return;
	of->receiver.free_blocks += credit_blocks(packet->bytes);
	credits_send(fabric, ingress, vl);
}

/* --- receiving --- */

/* Does the host want the packet: is it a member of its group, and has it a P_Key for it? */
static bool host_wants(struct fabric *fabric, uint32_t number, const struct fabric_packet *packet)
{
	struct infiniband_port *port = infiniband_port_of(fabric, number);
	uint32_t host = fabric->ports[number].node;

	if (packet->is_management)
		return true;
	if (!pkey_table_matches(port->pkeys, port->pkey_count, packet->pkey)) {
		port->pkey_violations++;
		fabric_note(fabric, FABRIC_FRAME_REFUSED, number, packet->priority, packet);
		return false;
	}
	if (!packet->is_multicast ||
		fabric->infiniband->groups[packet->destination].roles[host] == INFINIBAND_MEMBER)
		return true;
	fabric->ports[number].priority[packet->priority].counters.discarded_frames++;
	fabric_note(fabric, FABRIC_FRAME_DISCARDED, number, packet->priority, packet);
	return false;
}

void infiniband_receive(struct fabric *fabric, uint32_t number, struct fabric_packet *packet)
{
	struct infiniband_port *port = infiniband_port_of(fabric, number);

	if (packet->vl == IB_VL_MANAGEMENT &&
		port->vls[packet->vl].held_packets ==
			fabric->infiniband->config.management_packets) {
		port->vl15_dropped++;
		fabric->ports[number].priority[packet->priority].counters.discarded_frames++;
		fabric_note(fabric, FABRIC_FRAME_DISCARDED, number, packet->priority, packet);
		packet_pool_return(&fabric->pool, packet);
		return;
	}
	packet->ingress = number;
	packet->ingress_vl = packet->vl;
	packet->is_copy = false;
	infiniband_buffer_take(fabric, number, packet);
	if (!fabric->ports[number].is_host) {
		infiniband_forward(fabric, number, packet);
		return;
	}
	infiniband_buffer_release(fabric, packet);
	if (host_wants(fabric, number, packet))
		host_receive(fabric, number, packet);
	else
		packet_pool_return(&fabric->pool, packet);
}
