/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>

#include "base/arith.h"
#include "fabric/fabric.h"
#include "fabric/plan.h"

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

	uint64_t next_ps = host->ops->next_time(host->context, fabric->now_ps);

	if (host->has_classes)
		next_ps = min_u64(next_ps, egress_next_time(&host->egress, fabric->now_ps));
	fabric_timer_set(fabric, &host->timer, next_ps, EVENT_HOST, number);
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
	bool has_packet;

	if (!host->ops)
		return NULL;
	packet = fabric_packet_take(fabric);
	if (!packet)
		return NULL;
	has_packet = host->has_classes
		? egress_next(host, packet, paused, fabric->now_ps)
		: host->ops->next_packet(host->context, packet, paused, 0, fabric->now_ps);
	if (!has_packet) {
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
	uint32_t bytes = host->ingress.queue.first->bytes;
	uint64_t take_ps = host->take_mbps ? fabric_wire_ps(bytes, host->take_mbps) : 0;

	fabric_schedule(fabric, fabric->now_ps + take_ps, EVENT_TAKE, host_number);
}

static void host_pause(struct fabric *fabric, uint32_t port, uint32_t priority, bool is_paused)
{
	struct priority_group *group = &fabric->ports[port].priority[priority].group;
	bool was_paused = group->is_paused;

	group->is_paused = is_paused;
	pause_update(fabric, port, priority, was_paused);
}

/* The host pauses its peer while the buffer holds more bytes than this. */
static uint64_t pause_bytes(const struct fabric *fabric, uint32_t number, uint32_t buffer)
{
	const struct fabric_host *host = &fabric->hosts[number];
	const struct fabric_port *port = &fabric->ports[host->port];
	uint64_t headroom_bytes;

	if (!host->ingress.config.has_buffers)
		return host->ingress.limit_bytes;
	headroom_bytes = plan_headroom_bytes(
		port->rate_mbps, port->delay_ps, fabric->config.frame_bytes_max, port->response_ps);
	return host->ingress.config.buffer_bytes[buffer] -
		min_u64(host->ingress.config.buffer_bytes[buffer], headroom_bytes);
}

/* Has the host a buffer with room for the frame? */
static bool has_room(const struct fabric_ingress *ingress, const struct fabric_packet *packet)
{
	uint32_t buffer = ingress->config.buffer_of[packet->priority];

	return !ingress->config.has_buffers ||
		packet->bytes <= ingress->config.buffer_bytes[buffer] - ingress->used_bytes[buffer];
}

/* A host with buffers pauses its peer only for priorities whose pauses it obeys itself. */
static bool pauses_peer(
	const struct fabric_ingress *ingress, const struct fabric_port *port, uint32_t priority)
{
	return !ingress->config.has_buffers || !(port->pause_ignored >> priority & 1);
}

static void frame_discard(struct fabric *fabric, uint32_t number, struct fabric_packet *packet)
{
	fabric->ports[number].priority[packet->priority].counters.discarded_frames++;
	fabric_note(fabric, FABRIC_FRAME_DISCARDED, number, packet->priority, packet);
	packet_pool_return(&fabric->pool, packet);
}

void host_receive(struct fabric *fabric, uint32_t number, struct fabric_packet *packet)
{
	uint32_t host_number = fabric->ports[number].node;
	struct fabric_host *host = &fabric->hosts[host_number];
	struct fabric_ingress *ingress = &host->ingress;
	uint32_t buffer = ingress->config.buffer_of[packet->priority];
	bool is_idle = !ingress->queue.first;

	/* Wrong forwarding tables have brought it here. */
	if (!packet->is_multicast && packet->destination != host_number) {
		frame_discard(fabric, number, packet);
		return;
	}
	if (!host->take_mbps && is_idle) {
		frame_take(fabric, host_number, packet);
		return;
	}
	if (!has_room(ingress, packet)) {
		frame_discard(fabric, number, packet);
		return;
	}
	packet_queue_push(&ingress->queue, packet);
	ingress->used_bytes[buffer] += packet->bytes;
	if (ingress->used_bytes[buffer] > pause_bytes(fabric, host_number, buffer) &&
		pauses_peer(ingress, &fabric->ports[number], packet->priority))
		host_pause(fabric, number, packet->priority, true);
	if (is_idle)
		take_schedule(fabric, host_number);
}

void host_take(struct fabric *fabric, uint32_t number)
{
	struct fabric_host *host = &fabric->hosts[number];
	struct fabric_ingress *ingress = &host->ingress;
	struct fabric_packet *packet = packet_queue_pop(&ingress->queue);
	uint32_t buffer = ingress->config.buffer_of[packet->priority];

	ingress->used_bytes[buffer] -= packet->bytes;
	if (ingress->queue.first)
		take_schedule(fabric, number);
	if (ingress->used_bytes[buffer] <= pause_bytes(fabric, number, buffer) / 2)
		for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++)
			if (ingress->config.buffer_of[i] == buffer)
				host_pause(fabric, host->port, i, false);
	frame_take(fabric, number, packet);
}

void fabric_set_ingress(
	struct fabric *fabric, uint32_t host, const struct fabric_ingress_config *config)
{
	fabric->hosts[host].ingress.config = *config;
}

void fabric_slow_host(
	struct fabric *fabric, uint32_t host, uint32_t take_mbps, uint32_t limit_bytes)
{
	fabric->hosts[host].take_mbps = take_mbps;
	fabric->hosts[host].ingress.limit_bytes = limit_bytes;
}
