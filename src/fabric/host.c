/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>

#include "fabric/fabric.h"

void fabric_set_host(
	struct fabric *fabric, uint32_t host, const struct fabric_host_ops *ops, void *context)
{
	fabric->hosts[host].ops = ops;
	fabric->hosts[host].context = context;
	fabric_wake_host(fabric, host);
}

void fabric_wake_host(struct fabric *fabric, uint32_t host)
{
	fabric_timer_set(fabric, &fabric->hosts[host].timer, fabric->now_ps, EVENT_HOST, host);
}

static void host_timer_update(struct fabric *fabric, uint32_t number)
{
	struct fabric_host *host = &fabric->hosts[number];

	fabric_timer_set(fabric, &host->timer, host->ops->next_time(host->context, fabric->now_ps),
		EVENT_HOST, number);
}

void host_expire(struct fabric *fabric, uint32_t number)
{
	struct fabric_host *host = &fabric->hosts[number];

	if (!host->ops || !fabric_timer_fires(fabric, &host->timer, EVENT_HOST, number))
		return;
	if (host->ops->expire)
		host->ops->expire(host->context, fabric->now_ps);
	if (host->port != FABRIC_NO_PORT)
		port_kick(fabric, host->port);
	host_timer_update(fabric, number);
}

struct fabric_packet *host_next_packet(struct fabric *fabric, uint32_t number, uint8_t paused)
{
	uint32_t host_number = fabric->ports[number].node;
	struct fabric_host *host = &fabric->hosts[host_number];
	struct fabric_packet *packet;

	if (!host->ops)
		return NULL;
	packet = fabric_packet_take(fabric);
	if (!packet)
		return NULL;
	if (!host->ops->next_packet(host->context, packet, paused, fabric->now_ps)) {
		packet_pool_return(&fabric->pool, packet);
		host_timer_update(fabric, host_number);
		return NULL;
	}
	packet->source = host_number;
	assert(packet->is_management || !(paused >> packet->priority & 1));
	return packet;
}

/* --- receiving --- */

static void frame_take(struct fabric *fabric, uint32_t host_number, struct fabric_packet *packet)
{
	struct fabric_host *host = &fabric->hosts[host_number];

	if (host->ops) {
		host->ops->receive(host->context, packet, fabric->now_ps);
		port_kick(fabric, host->port);
		host_timer_update(fabric, host_number);
	}
	packet_pool_return(&fabric->pool, packet);
}

static void take_schedule(struct fabric *fabric, uint32_t host_number)
{
	const struct fabric_host *host = &fabric->hosts[host_number];
	uint64_t take_ps =
		host->take_mbps ? fabric_wire_ps(host->inbox.first->bytes, host->take_mbps) : 0;

	fabric_schedule(fabric, fabric->now_ps + take_ps, EVENT_TAKE, host_number);
}

static void host_pause(struct fabric *fabric, uint32_t port, uint32_t priority, bool is_paused)
{
	struct priority_group *group = &fabric->ports[port].priority[priority].group;
	bool was_paused = group->is_paused;

	group->is_paused = is_paused;
	pause_update(fabric, port, priority, was_paused);
}

void host_receive(struct fabric *fabric, uint32_t number, struct fabric_packet *packet)
{
	uint32_t host_number = fabric->ports[number].node;
	struct fabric_host *host = &fabric->hosts[host_number];
	bool is_idle = !host->inbox.first;

	if (!host->take_mbps && is_idle) {
		frame_take(fabric, host_number, packet);
		return;
	}
	packet_queue_push(&host->inbox, packet);
	host->inbox_bytes += packet->bytes;
	if (host->inbox_bytes > host->inbox_limit_bytes)
		host_pause(fabric, number, packet->priority, true);
	if (is_idle)
		take_schedule(fabric, host_number);
}

void host_take(struct fabric *fabric, uint32_t number)
{
	struct fabric_host *host = &fabric->hosts[number];
	struct fabric_packet *packet = packet_queue_pop(&host->inbox);

	host->inbox_bytes -= packet->bytes;
	if (host->inbox.first)
		take_schedule(fabric, number);
	if (host->inbox_bytes <= host->inbox_limit_bytes / 2)
		for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++)
			host_pause(fabric, host->port, i, false);
	frame_take(fabric, number, packet);
}

void fabric_slow_host(
	struct fabric *fabric, uint32_t host, uint32_t take_mbps, uint32_t limit_bytes)
{
	fabric->hosts[host].take_mbps = take_mbps;
	fabric->hosts[host].inbox_limit_bytes = limit_bytes;
}
