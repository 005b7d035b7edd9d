/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/arith.h"
#include "fabric/fabric.h"

static uint32_t timer_target(uint32_t number, uint32_t priority)
{
	return number * FABRIC_PRIORITY_COUNT + priority;
}

static uint64_t pause_ps(const struct fabric *fabric, const struct fabric_port *port)
{
	return fabric_quanta_ps(fabric->config.pause_quanta, port->rate_mbps);
}

/* --- the port that pauses its peer --- */

static bool peer_has_to_pause(const struct fabric_port *port, uint32_t priority)
{
	return port->priority[priority].group.is_paused || (port->pause_forced >> priority & 1);
}

static void pause_send(struct fabric *fabric, uint32_t number, uint32_t priority)
{
	fabric->ports[number].pause_pending |= (uint8_t)(1u << priority);
	port_kick(fabric, number);
}

void pause_update(struct fabric *fabric, uint32_t number, uint32_t priority, bool was_paused)
{
	if (fabric->ports[number].priority[priority].group.is_paused != was_paused)
		pause_send(fabric, number, priority);
}

void pause_force(struct fabric *fabric, uint32_t number, uint8_t priorities)
{
	struct fabric_port *port = &fabric->ports[number];
	uint8_t changed = port->pause_forced ^ priorities;

	port->pause_forced = priorities;
	for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++)
		if (changed >> i & 1)
			pause_send(fabric, number, i);
}

/* Repeat the pause after half of its time, so that a delayed PFC frame still arrives in time. */
static void refresh_set(struct fabric *fabric, uint32_t number, uint32_t priority)
{
	struct fabric_port *port = &fabric->ports[number];

	fabric_timer_set(fabric, &port->priority[priority].refresh,
		fabric->now_ps + pause_ps(fabric, port) / 2, EVENT_REFRESH,
		timer_target(number, priority));
}

struct fabric_packet *pause_make(struct fabric *fabric, uint32_t number)
{
	struct fabric_port *port = &fabric->ports[number];
	struct fabric_packet *packet = fabric_packet_take(fabric);

	if (!packet)
		return NULL;
	packet->bytes = FABRIC_PAUSE_FRAME_BYTES;
	packet->pause_vector = port->pause_pending;
	port->pause_pending = 0;
	for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++) {
		if (!(packet->pause_vector >> i & 1) || !peer_has_to_pause(port, i))
			continue;
		packet->pause_on |= (uint8_t)(1u << i);
		port->priority[i].counters.sent_pauses++;
		refresh_set(fabric, number, i);
	}
	return packet;
}

void pause_refresh(struct fabric *fabric, uint32_t number, uint32_t priority)
{
	struct fabric_port *port = &fabric->ports[number];
	struct fabric_timer *timer = &port->priority[priority].refresh;

	if (fabric_timer_fires(fabric, timer, EVENT_REFRESH, timer_target(number, priority)) &&
		peer_has_to_pause(port, priority))
		pause_send(fabric, number, priority);
}

/* --- the port that is paused --- */

static void priority_pause(struct fabric *fabric, uint32_t number, uint32_t priority)
{
	struct fabric_port *port = &fabric->ports[number];
	struct port_priority *of = &port->priority[priority];

	of->counters.received_pauses++;
	if (!(port->paused >> priority & 1)) {
		port->paused |= (uint8_t)(1u << priority);
		of->paused_since_ps = fabric->now_ps;
		fabric_note(fabric, FABRIC_PAUSED, number, priority, NULL);
	}
	fabric_timer_set(fabric, &of->pause_end, fabric->now_ps + pause_ps(fabric, port),
		EVENT_PAUSE_END, timer_target(number, priority));
}

static void priority_resume(struct fabric *fabric, uint32_t number, uint32_t priority)
{
	struct fabric_port *port = &fabric->ports[number];
	struct port_priority *of = &port->priority[priority];

	if (!(port->paused >> priority & 1))
		return;
	port->paused &= (uint8_t) ~(1u << priority);
	of->counters.paused_ps += fabric->now_ps - of->paused_since_ps;
	of->pause_end.due_ps = FABRIC_NEVER;
	fabric_note(fabric, FABRIC_RESUMED, number, priority, NULL);
	port_kick(fabric, number);
}

static void pause_apply(struct fabric *fabric, uint32_t number, const struct fabric_packet *packet)
{
	for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++) {
		if (!(packet->pause_vector & ~fabric->ports[number].pause_ignored & 1u << i))
			continue;
		if (packet->pause_on >> i & 1)
			priority_pause(fabric, number, i);
		else
			priority_resume(fabric, number, i);
	}
}

void pause_receive(struct fabric *fabric, uint32_t number, struct fabric_packet *packet)
{
	struct fabric_port *port = &fabric->ports[number];

	fabric_note(fabric, FABRIC_FRAME_ARRIVED, number, 0, packet);
	if (port->response_ps) {
		packet_queue_push(&port->heeding, packet);
		fabric_schedule(fabric, fabric->now_ps + port->response_ps, EVENT_HEED, number);
		return;
	}
	pause_apply(fabric, number, packet);
	packet_pool_return(&fabric->pool, packet);
}

void pause_heed(struct fabric *fabric, uint32_t number)
{
	struct fabric_packet *packet = packet_queue_pop(&fabric->ports[number].heeding);

	pause_apply(fabric, number, packet);
	packet_pool_return(&fabric->pool, packet);
}

void pause_expire(struct fabric *fabric, uint32_t number, uint32_t priority)
{
	struct fabric_timer *timer = &fabric->ports[number].priority[priority].pause_end;

	if (fabric_timer_fires(fabric, timer, EVENT_PAUSE_END, timer_target(number, priority)))
		priority_resume(fabric, number, priority);
}

uint64_t pause_total_ps(const struct fabric *fabric, uint32_t number, uint32_t priority)
{
	const struct fabric_port *port = &fabric->ports[number];
	const struct port_priority *of = &port->priority[priority];
	bool is_paused = port->paused >> priority & 1;

	return of->counters.paused_ps + (is_paused ? fabric->now_ps - of->paused_since_ps : 0);
}
