/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/port.h"

#include <assert.h>

#include "base/arith.h"
#include "fabric/fabric.h"

/* --- egress queues --- */

void port_queue_change(const struct fabric *fabric, struct port_priority *of, uint64_t bytes)
{
	uint64_t now_ns = fabric->now_ps / FABRIC_PS_PER_NS;

	of->queue_byte_ns += of->queue_bytes * (now_ns - of->queue_changed_ps / FABRIC_PS_PER_NS);
	of->queue_changed_ps = fabric->now_ps;
	of->queue_bytes = bytes;
	of->counters.queue_bytes_max = max_u64(of->counters.queue_bytes_max, bytes);
}

void port_enqueue(struct fabric *fabric, uint32_t number, struct fabric_packet *packet)
{
	struct fabric_port *port = &fabric->ports[number];
	struct port_priority *of = &port->priority[packet->priority];

	packet->queued_ps = fabric->now_ps;
	packet->paused_before_ps = pause_total_ps(fabric, number, packet->priority);
	if (!of->queue.first)
		port->head_bytes[packet->priority] = packet->bytes;
	packet_queue_push(&of->queue, packet);
	port->waiting |= (uint8_t)(1u << packet->priority);
	port_queue_change(fabric, of, of->queue_bytes + packet->bytes);
	port_kick(fabric, number);
}

static void buffer_release(struct fabric *fabric, const struct fabric_packet *packet)
{
	struct fabric_port *ingress = &fabric->ports[packet->ingress];
	struct priority_group *group = &ingress->priority[packet->priority].group;
	bool was_paused = group->is_paused;

	shared_buffer_release(&fabric_switch_of(fabric, ingress)->buffer, group, packet->bytes);
	pause_update(fabric, packet->ingress, packet->priority, was_paused);
}

struct fabric_packet *port_dequeue(struct fabric *fabric, uint32_t number, uint32_t priority)
{
	struct fabric_port *port = &fabric->ports[number];
	struct port_priority *of = &port->priority[priority];
	struct fabric_packet *packet = packet_queue_pop(&of->queue);

	if (of->queue.first)
		port->head_bytes[priority] = of->queue.first->bytes;
	else
		port->waiting &= (uint8_t) ~(1u << priority);
	port_queue_change(fabric, of, of->queue_bytes - packet->bytes);
	buffer_release(fabric, packet);
	return packet;
}

/* --- sending --- */

/* The priorities that may send. */
static uint8_t port_ready(const struct fabric *fabric, const struct fabric_port *port)
{
	bool ignores =
		fabric_switch_of(fabric, port)->config.watchdog.action == FABRIC_WATCHDOG_FORWARD;

	return port->waiting & (uint8_t)(~port->paused | (ignores ? port->stormed : 0));
}

static void congestion_mark(
	struct fabric *fabric, uint32_t number, struct fabric_packet *packet, uint64_t queue_bytes)
{
	struct fabric_port *port = &fabric->ports[number];
	const struct marking *marking =
		&fabric_switch_of(fabric, port)->config.marking[packet->priority];

	if (packet->ecn != FABRIC_ECN_CAPABLE ||
		!marking_chooses(marking, queue_bytes, &port->mark_random))
		return;
	packet->ecn = FABRIC_ECN_MARKED;
	port->priority[packet->priority].counters.marked_frames++;
	fabric_note(fabric, FABRIC_FRAME_MARKED, number, packet->priority, packet);
}

static struct fabric_packet *switch_next_packet(struct fabric *fabric, uint32_t number)
{
	struct fabric_port *port = &fabric->ports[number];
	uint8_t ready = port_ready(fabric, port);
	struct fabric_packet *packet;
	uint64_t queue_bytes;
	uint32_t priority;

	if (!ready)
		return NULL;
	priority = scheduler_choose(&port->scheduler, ready, port->head_bytes);
	queue_bytes = port->priority[priority].queue_bytes;
	packet = port_dequeue(fabric, number, priority);
	congestion_mark(fabric, number, packet, queue_bytes);
	return packet;
}

static struct fabric_packet *port_next_packet(struct fabric *fabric, uint32_t number)
{
	const struct fabric_port *port = &fabric->ports[number];

	if (fabric->link)
		return fabric->link->next_packet(fabric, number);
	if (port->pause_pending)
		return pause_make(fabric, number);
	if (port->is_host)
		return host_next_packet(fabric, number, port->paused);
	return switch_next_packet(fabric, number);
}

static void frame_transmit(struct fabric *fabric, uint32_t number, struct fabric_packet *packet)
{
	struct fabric_port *port = &fabric->ports[number];
	uint64_t sent_ps = fabric->now_ps +
		fabric_wire_ps(packet->bytes + fabric->config.gap_bytes, port->rate_mbps);
	bool is_cable_empty = !port->cable.first;

	if (!packet_is_of_link(packet)) {
		port->priority[packet->priority].counters.sent_frames++;
		port->priority[packet->priority].counters.sent_bytes += packet->bytes;
	}
	fabric_note(fabric, FABRIC_FRAME_SENT, number, packet->priority, packet);
	packet->at_ps = sent_ps + port->delay_ps;
	packet_queue_push(&port->cable, packet);
	fabric_schedule(fabric, sent_ps, EVENT_SENT, number);
	if (is_cable_empty)
		fabric_schedule(fabric, packet->at_ps, EVENT_ARRIVE, number);
}

void port_kick(struct fabric *fabric, uint32_t number)
{
	struct fabric_port *port = &fabric->ports[number];
	struct fabric_packet *packet;

	if (port->is_sending)
		return;
	/*
	 * Taking a frame from a buffer may call this function again, because a port has to send a
	 * PFC frame, perhaps this port.
	 */
	port->is_sending = true;
	packet = port_next_packet(fabric, number);
	if (packet)
		frame_transmit(fabric, number, packet);
	else
		port->is_sending = false;
}

void port_sent(struct fabric *fabric, uint32_t number)
{
	fabric->ports[number].is_sending = false;
	port_kick(fabric, number);
}

/* --- receiving --- */

/* Does the cable lose this frame? PFC frames and link packets are lost only while it is down. */
static bool frame_is_lost(struct fabric_port *port, const struct fabric_packet *packet)
{
	if (port->is_down)
		return true;
	if (packet_is_of_link(packet))
		return false;
	if (port->loss_period && ++port->loss_count >= port->loss_period) {
		port->loss_count = 0;
		return true;
	}
	return fabric_random_chance(&port->loss_random, port->loss_ppm);
}

/*
 * Flip a bit of the packet's data, which the receiving host's ICRC detects. A frame without data,
 * and an InfiniBand packet, is discarded instead: at the cable's end its FCS or VCRC would be
 * wrong. Returns false if the caller has to discard the frame.
 */
static bool frame_corrupt(struct fabric *fabric, uint32_t number, struct fabric_packet *packet)
{
	struct fabric_port *port = &fabric->ports[number];
	uint64_t bit;

	port->corrupted_frames++;
	fabric_note(fabric, FABRIC_FRAME_CORRUPTED, number, packet->priority, packet);
	if (!packet->data_bytes || fabric->infiniband)
		return false;
	bit = fabric_random_below(&port->corrupt_random, 8ull * packet->data_bytes);
	packet->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	return true;
}

static void frame_arrive(struct fabric *fabric, uint32_t number, struct fabric_packet *packet)
{
	struct fabric_port *port = &fabric->ports[number];

	if (packet->is_link) {
		fabric->link->link_receive(fabric, number, packet);
		return;
	}
	if (packet->pause_vector) {
		pause_receive(fabric, number, packet);
		return;
	}
	port->priority[packet->priority].counters.received_frames++;
	port->priority[packet->priority].counters.received_bytes += packet->bytes;
	fabric_note(fabric, FABRIC_FRAME_ARRIVED, number, packet->priority, packet);
	if (fabric->link)
		fabric->link->receive(fabric, number, packet);
	else if (port->is_host)
		host_receive(fabric, number, packet);
	else
		switch_receive(fabric, number, packet);
}

void port_arrive(struct fabric *fabric, uint32_t number)
{
	struct fabric_port *port = &fabric->ports[number];
	struct fabric_packet *packet = packet_queue_pop(&port->cable);

	if (port->cable.first)
		fabric_schedule(fabric, port->cable.first->at_ps, EVENT_ARRIVE, number);
	if (frame_is_lost(port, packet)) {
		port->lost_frames++;
		fabric_note(fabric, FABRIC_FRAME_LOST, number, packet->priority, packet);
	} else if (packet_is_of_link(packet) ||
		!fabric_random_chance(&port->corrupt_random, port->corrupt_ppm) ||
		frame_corrupt(fabric, number, packet)) {
		frame_arrive(fabric, port->peer, packet);
		return;
	}
	packet_pool_return(&fabric->pool, packet);
}
