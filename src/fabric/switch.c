/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/arith.h"
#include "fabric/fabric.h"
#include "fabric/route.h"

/* --- forwarding --- */

static void frame_discard(struct fabric *fabric, enum fabric_event event, uint32_t number,
	struct fabric_packet *packet)
{
	fabric_note(fabric, event, number, packet->priority, packet);
	packet_pool_return(&fabric->pool, packet);
}

static bool is_stormed_away(const struct fabric *fabric, const struct fabric_port *egress,
	const struct fabric_packet *packet)
{
	return fabric_switch_of(fabric, egress)->config.watchdog.action == FABRIC_WATCHDOG_DROP &&
		(egress->stormed >> packet->priority & 1);
}

/* Find room for a frame that came in through port `number`. */
static bool frame_admit(struct fabric *fabric, uint32_t number, const struct fabric_port *egress,
	const struct fabric_packet *packet)
{
	struct fabric_port *port = &fabric->ports[number];
	struct fabric_switch *at = fabric_switch_of(fabric, port);
	struct priority_group *group = &port->priority[packet->priority].group;
	bool was_paused = group->is_paused;
	bool is_admitted;

	if (!(at->config.lossless >> packet->priority & 1))
		return shared_buffer_admit_lossy(&at->buffer, group,
			egress->priority[packet->priority].queue_bytes, packet->bytes);
	is_admitted = shared_buffer_admit(&at->buffer, group, packet->bytes);
	pause_update(fabric, number, packet->priority, was_paused);
	return is_admitted;
}

void switch_receive(struct fabric *fabric, uint32_t number, struct fabric_packet *packet)
{
	struct fabric_port *port = &fabric->ports[number];
	const struct fabric_switch_config *config = &fabric_switch_of(fabric, port)->config;
	uint32_t egress = route_choose(fabric, port->node, packet);

	if (config->has_dscp_map)
		packet->priority = config->priority_of_dscp[packet->dscp];

	if (egress == FABRIC_NO_PORT) {
		fabric_switch_of(fabric, port)->unroutable_frames++;
		frame_discard(fabric, FABRIC_FRAME_UNROUTABLE, number, packet);
	} else if (is_stormed_away(fabric, &fabric->ports[egress], packet)) {
		fabric->ports[egress].priority[packet->priority].counters.storm_drops++;
		frame_discard(fabric, FABRIC_STORM_DROP, egress, packet);
	} else if (!frame_admit(fabric, number, &fabric->ports[egress], packet)) {
		port->priority[packet->priority].counters.discarded_frames++;
		frame_discard(fabric, FABRIC_FRAME_DISCARDED, number, packet);
	} else {
		packet->ingress = number;
		port_enqueue(fabric, egress, packet);
	}
}

/* --- the watchdog --- */

/* The watchdog looks four times within its detection time. */
enum { LOOKS_PER_DETECTION = 4 };

static void storm_begin(struct fabric *fabric, uint32_t number, uint32_t priority)
{
	struct fabric_port *port = &fabric->ports[number];
	struct port_priority *of = &port->priority[priority];

	port->stormed |= (uint8_t)(1u << priority);
	of->storm_ps = fabric->now_ps;
	of->counters.storms++;
	fabric_note(fabric, FABRIC_STORM_BEGUN, number, priority, NULL);
	if (fabric_switch_of(fabric, port)->config.watchdog.action == FABRIC_WATCHDOG_DROP)
		while (of->queue.first) {
			of->counters.storm_drops++;
			frame_discard(fabric, FABRIC_STORM_DROP, number,
				port_dequeue(fabric, number, priority));
		}
	port_kick(fabric, number);
}

static void storm_end(struct fabric *fabric, uint32_t number, uint32_t priority)
{
	fabric->ports[number].stormed &= (uint8_t) ~(1u << priority);
	fabric_note(fabric, FABRIC_STORM_ENDED, number, priority, NULL);
	port_kick(fabric, number);
}

static void priority_watch(
	struct fabric *fabric, uint32_t number, uint32_t priority, uint64_t period_ps)
{
	struct fabric_port *port = &fabric->ports[number];
	const struct fabric_watchdog *watchdog = &fabric_switch_of(fabric, port)->config.watchdog;
	struct port_priority *of = &port->priority[priority];
	bool is_paused = port->paused >> priority & 1;
	bool is_stuck =
		is_paused && of->queue.first && of->watched_frames == of->counters.sent_frames;

	of->watched_frames = of->counters.sent_frames;
	of->stuck_ps = is_stuck ? of->stuck_ps + period_ps : 0;
	if (!(port->stormed >> priority & 1)) {
		if (of->stuck_ps >= watchdog->detection_ps)
			storm_begin(fabric, number, priority);
	} else if (is_paused) {
		of->storm_ps = fabric->now_ps;
	} else if (fabric->now_ps - of->storm_ps >= watchdog->restoration_ps) {
		storm_end(fabric, number, priority);
	}
}

void switch_watch(struct fabric *fabric, uint32_t number)
{
	struct fabric_switch *at = &fabric->switches[number];
	uint64_t period_ps = at->config.watchdog.detection_ps / LOOKS_PER_DETECTION;

	if (!fabric_timer_fires(fabric, &at->watch, EVENT_WATCH, number))
		return;
	for (uint32_t i = 0; i < fabric->port_count; i++) {
		if (fabric->ports[i].is_host || fabric->ports[i].node != number)
			continue;
		for (uint32_t j = 0; j < FABRIC_PRIORITY_COUNT; j++)
			if (at->config.lossless >> j & 1)
				priority_watch(fabric, i, j, period_ps);
	}
	fabric_timer_set(fabric, &at->watch, fabric->now_ps + period_ps, EVENT_WATCH, number);
}
