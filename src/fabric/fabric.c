/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/fabric.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/arith.h"
#include "fabric/plan.h"
#include "fabric/route.h"

enum {
	TARGET_BITS = 32,
	PREFETCHED_EVENTS = 5, /* the next one and, in a heap, its four children */
};

struct fabric *fabric_create(const struct fabric_config *config)
{
	struct fabric *fabric = (struct fabric *)calloc(1, sizeof(*fabric));

	if (!fabric)
		return NULL;
	fabric->config = *config;
	fabric->pool.data_capacity = config->data_capacity;
	return fabric;
}

void fabric_destroy(struct fabric *fabric)
{
	if (!fabric)
		return;
	route_done(fabric);
	if (fabric->link)
		fabric->link->done(fabric);
	packet_pool_done(&fabric->pool);
	event_heap_done(&fabric->events);
	free(fabric->hosts);
	free(fabric->switches);
	free(fabric->ports);
	free(fabric);
}

/* Make room for one more element behind `count` others. The array doubles when it is full. */
static int array_extend(void **array, uint32_t count, size_t element_bytes)
{
	void *longer;

	if (count & (count - 1))
		return 0;
	longer = realloc(*array, (count ? 2ull * count : 1) * element_bytes);
	if (!longer)
		return -ENOMEM;
	*array = longer;
	return 0;
}

int fabric_add_host(struct fabric *fabric, uint32_t *ret_number)
{
	void *hosts = fabric->hosts;
	int error = array_extend(&hosts, fabric->host_count, sizeof(*fabric->hosts));

	fabric->hosts = (struct fabric_host *)hosts;
	if (error)
		return error;
	fabric->hosts[fabric->host_count] = (struct fabric_host){
		.port = FABRIC_NO_PORT,
		.timer = {FABRIC_NEVER, FABRIC_NEVER},
	};
	*ret_number = fabric->host_count++;
	return 0;
}

int fabric_add_switch(
	struct fabric *fabric, const struct fabric_switch_config *config, uint32_t *ret_number)
{
	void *switches = fabric->switches;
	int error = array_extend(&switches, fabric->switch_count, sizeof(*fabric->switches));
	uint32_t number = fabric->switch_count;
	struct fabric_random random;

	fabric->switches = (struct fabric_switch *)switches;
	if (error)
		return error;
	random = fabric_random_make(fabric->config.seed, FABRIC_RANDOM_PATH, number);
	fabric->switches[number] = (struct fabric_switch){
		.config = *config,
		.buffer = {.pool_bytes = config->pool_bytes,
			.dynamic_th = config->dynamic_th,
			.xon_offset_bytes = config->xon_offset_bytes},
		.salt = fabric_random_next(&random),
		.watch = {FABRIC_NEVER, FABRIC_NEVER},
	};
	fabric->switch_count++;
	*ret_number = number;
	if (config->watchdog.action != FABRIC_WATCHDOG_OFF)
		fabric_timer_set(fabric, &fabric->switches[number].watch, fabric->now_ps + 1,
			EVENT_WATCH, number);
	return fabric->error;
}

static uint64_t response_ps(const struct fabric_config *config, uint32_t rate_mbps)
{
	uint32_t quanta = config->response_quanta == FABRIC_RESPONSE_OF_RATE
		? fabric_response_quanta(rate_mbps)
		: config->response_quanta;

	return fabric_quanta_ps(quanta, rate_mbps);
}

/*
 * The headroom of a priority group of this port, in bytes. It holds what arrives after the pause,
 * for which the cable's length counts. It also holds the frame that causes the pause, if other
 * groups have filled the pool.
 */
static uint64_t headroom_bytes(const struct fabric *fabric, const struct fabric_port *port)
{
	uint32_t bytes = fabric_switch_of(fabric, port)->config.headroom_bytes;

	if (bytes != FABRIC_HEADROOM_OF_CABLE)
		return bytes;
	return plan_headroom_bytes(port->rate_mbps, port->delay_ps, fabric->config.frame_bytes_max,
		       port->response_ps) +
		fabric->config.frame_bytes_max;
}

static void port_init(struct fabric *fabric, uint32_t number, struct fabric_node node,
	uint32_t rate_mbps, uint64_t delay_ps)
{
	struct fabric_port *port = &fabric->ports[number];
	uint64_t seed = fabric->config.seed;

	*port = (struct fabric_port){
		.node = node.number,
		.is_host = node.is_host,
		.peer = FABRIC_NO_PORT,
		.rate_mbps = rate_mbps,
		.delay_ps = delay_ps,
		.response_ps = response_ps(&fabric->config, rate_mbps),
		.mark_random = fabric_random_make(seed, FABRIC_RANDOM_MARK, number),
		.loss_random = fabric_random_make(seed, FABRIC_RANDOM_LOSS, number),
		.corrupt_random = fabric_random_make(seed, FABRIC_RANDOM_CORRUPT, number),
	};
	for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++) {
		struct fabric_timer unset = {FABRIC_NEVER, FABRIC_NEVER};

		port->priority[i].pause_end = unset;
		port->priority[i].refresh = unset;
		if (!node.is_host)
			port->priority[i].group.headroom_limit = headroom_bytes(fabric, port);
	}
	if (node.is_host)
		fabric->hosts[node.number].port = number;
	else
		port->scheduler = fabric->switches[node.number].config.scheduler;
}

static int port_add(struct fabric *fabric, struct fabric_node node, uint32_t rate_mbps,
	uint64_t delay_ps, uint32_t *ret_number)
{
	void *ports = fabric->ports;
	int error = array_extend(&ports, fabric->port_count, sizeof(*fabric->ports));

	fabric->ports = (struct fabric_port *)ports;
	if (error)
		return error;
	*ret_number = fabric->port_count++;
	port_init(fabric, *ret_number, node, rate_mbps, delay_ps);
	return 0;
}

int fabric_connect(struct fabric *fabric, struct fabric_node a, struct fabric_node b,
	uint32_t rate_mbps, uint64_t delay_ps, uint32_t ret_ports[2])
{
	uint32_t ports[2];
	int error;

	assert(rate_mbps && rate_mbps <= FABRIC_RATE_MBPS_MAX);
	assert(!a.is_host || fabric->hosts[a.number].port == FABRIC_NO_PORT);
	assert(!b.is_host || fabric->hosts[b.number].port == FABRIC_NO_PORT);
	error = port_add(fabric, a, rate_mbps, delay_ps, &ports[0]);
	if (!error)
		error = port_add(fabric, b, rate_mbps, delay_ps, &ports[1]);
	if (error)
		return error;
	fabric->ports[ports[0]].peer = ports[1];
	fabric->ports[ports[1]].peer = ports[0];
	if (ret_ports) {
		ret_ports[0] = ports[0];
		ret_ports[1] = ports[1];
	}
	return 0;
}

void fabric_watch(struct fabric *fabric, fabric_watcher *watcher, void *context)
{
	fabric->watcher = watcher;
	fabric->watcher_context = context;
}

struct fabric_packet *fabric_packet_take(struct fabric *fabric)
{
	struct fabric_packet *packet = packet_pool_take(&fabric->pool);

	if (!packet)
		fabric->error = -ENOMEM;
	return packet;
}

void fabric_note(struct fabric *fabric, enum fabric_event event, uint32_t port, uint32_t priority,
	const struct fabric_packet *packet)
{
	uint64_t what = (uint64_t)event << 56 | (uint64_t)priority << 48 | port;
	uint64_t whose =
		packet ? (uint64_t)packet->flow << 40 ^ packet->number << 16 ^ packet->bytes : 0;

	fabric->hash = mix_u64(fabric->hash ^ fabric->now_ps) ^ mix_u64(what) ^ whose;
	if (fabric->watcher)
		fabric->watcher(
			fabric->watcher_context, fabric->now_ps, event, port, priority, packet);
}

/* --- time --- */

void fabric_schedule(
	struct fabric *fabric, uint64_t at_ps, enum fabric_event_kind kind, uint32_t target)
{
	if (event_heap_push(&fabric->events, at_ps, (uint64_t)kind << TARGET_BITS | target))
		fabric->error = -ENOMEM;
}

void fabric_timer_set(struct fabric *fabric, struct fabric_timer *timer, uint64_t due_ps,
	enum fabric_event_kind kind, uint32_t target)
{
	timer->due_ps = due_ps;
	if (due_ps < timer->armed_ps) {
		timer->armed_ps = due_ps;
		fabric_schedule(fabric, due_ps, kind, target);
	}
}

bool fabric_timer_fires(struct fabric *fabric, struct fabric_timer *timer,
	enum fabric_event_kind kind, uint32_t target)
{
	uint64_t due_ps = timer->due_ps;

	if (timer->armed_ps != fabric->now_ps)
		return false; /* an earlier event has replaced this one */
	timer->armed_ps = FABRIC_NEVER;
	if (due_ps > fabric->now_ps) {
		fabric_timer_set(fabric, timer, due_ps, kind, target);
		return false;
	}
	timer->due_ps = FABRIC_NEVER;
	return true;
}

static void event_execute(struct fabric *fabric, uint64_t what)
{
	uint32_t target = (uint32_t)what;

	switch ((enum fabric_event_kind)(what >> TARGET_BITS)) {
	case EVENT_ARRIVE:
		port_arrive(fabric, target);
		break;
	case EVENT_SENT:
		port_sent(fabric, target);
		break;
	case EVENT_HEED:
		pause_heed(fabric, target);
		break;
	case EVENT_HOST:
		host_expire(fabric, target);
		break;
	case EVENT_PAUSE_END:
		pause_expire(
			fabric, target / FABRIC_PRIORITY_COUNT, target % FABRIC_PRIORITY_COUNT);
		break;
	case EVENT_REFRESH:
		pause_refresh(
			fabric, target / FABRIC_PRIORITY_COUNT, target % FABRIC_PRIORITY_COUNT);
		break;
	case EVENT_WATCH:
		switch_watch(fabric, target);
		break;
	case EVENT_TAKE:
		host_take(fabric, target);
		break;
	case EVENT_FLOW_CONTROL:
		fabric->link->flow_control(fabric, target);
		break;
	case EVENT_LIFETIME:
		fabric->link->expire(fabric, target);
		break;
	}
}

/*
 * The next events touch ports, and frames on their cables, that have left the caches. Prefetch
 * them, so that those events need not wait for memory.
 */
static void events_prefetch(const struct fabric *fabric)
{
	const struct event *events = fabric->events.events;
	uint32_t count = min_u32(fabric->events.count, PREFETCHED_EVENTS);

	for (uint32_t i = 0; i < count; i++) {
		uint32_t target = (uint32_t)events[i].what;
		enum fabric_event_kind kind =
			(enum fabric_event_kind)(events[i].what >> TARGET_BITS);

		if (kind != EVENT_ARRIVE && kind != EVENT_SENT)
			continue;
		__builtin_prefetch(&fabric->ports[target]);
		__builtin_prefetch(&fabric->ports[target].cable);
	}
	if (count && events[0].what >> TARGET_BITS == EVENT_ARRIVE) {
		const struct fabric_port *port = &fabric->ports[(uint32_t)events[0].what];

		__builtin_prefetch(port->cable.first);
		__builtin_prefetch(&fabric->ports[port->peer]);
	}
}

bool fabric_step(struct fabric *fabric, uint64_t until_ps)
{
	struct event event;

	if (fabric->error || !fabric->events.count ||
		event_heap_first_at(&fabric->events) > until_ps)
		return false;
	event = event_heap_pop(&fabric->events);
	assert(event.at >= fabric->now_ps);
	fabric->now_ps = event.at;
	fabric->event_count++;
	events_prefetch(fabric);
	event_execute(fabric, event.what);
	return true;
}

int fabric_run(struct fabric *fabric, uint64_t until_ps)
{
	while (fabric_step(fabric, until_ps))
		;
	if (!fabric->error)
		fabric->now_ps = max_u64(fabric->now_ps, until_ps);
	return fabric->error;
}

uint64_t fabric_queue_byte_ns(const struct fabric *fabric, uint32_t port, uint32_t priority)
{
	const struct port_priority *of = &fabric->ports[port].priority[priority];
	uint64_t since_ns =
		fabric->now_ps / FABRIC_PS_PER_NS - of->queue_changed_ps / FABRIC_PS_PER_NS;

	return of->queue_byte_ns + of->queue_bytes * since_ns;
}

/* --- invariants --- */

static void queue_check(const struct fabric_port *port, uint32_t priority)
{
	const struct port_priority *of = &port->priority[priority];
	uint64_t bytes = 0;

	for (const struct fabric_packet *packet = of->queue.first; packet; packet = packet->next)
		bytes += packet->bytes;
	assert(bytes == of->queue_bytes);
	assert(!!of->queue.first == (port->waiting >> priority & 1));
	assert(of->group.headroom_bytes <= of->group.headroom_limit);
}

void fabric_check(const struct fabric *fabric)
{
	if (fabric->link) {
		fabric->link->check(fabric);
		return;
	}
	for (uint32_t i = 0; i < fabric->switch_count; i++) {
		uint64_t held_bytes = 0;
		uint64_t queued_bytes = 0;
		uint64_t used_bytes = 0;

		for (uint32_t j = 0; j < fabric->port_count; j++) {
			const struct fabric_port *port = &fabric->ports[j];

			if (port->is_host || port->node != i)
				continue;
			for (uint32_t k = 0; k < FABRIC_PRIORITY_COUNT; k++) {
				const struct port_priority *of = &port->priority[k];

				queue_check(port, k);
				queued_bytes += of->queue_bytes;
				used_bytes += of->group.shared_bytes;
				held_bytes += of->group.shared_bytes + of->group.headroom_bytes;
			}
		}
		assert(held_bytes == queued_bytes);
		assert(used_bytes == fabric->switches[i].buffer.used_bytes);
		assert(used_bytes <= fabric->switches[i].buffer.pool_bytes);
	}
}
