/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/fabric.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/event_heap.h"
#include "engine/engine.h"
#include "wire/bth.h"
#include "wire/icrc.h"

enum {
	FRAME_BYTES_MAX = ENGINE_PACKET_BYTES_MAX + ROCE_ICRC_BYTES,
	FLIPPED_BITS_MAX = 8,
	SIM_ZEROCOPY_BYTES_MIN = 300, /* so that some payloads are borrowed and some copied */
	SIM_RUN_BYTES_MAX = 20000, /* of packets that come in a row, in the longest of rows */
};

/* The identification of an unconnected socket with DF in each IPv4 datagram. */
static const uint16_t ipv4_id = 0;

struct frame {
	uint32_t from;
	uint32_t to;
	const struct gid *destination; /* the host's address, or a group's */
	uint32_t bytes; /* BTH to ICRC */
	uint8_t data[];
};

struct port {
	struct lane *lane;
	uint32_t host;
	uint64_t data_at_ns; /* when held packets are sent; DEADLINE_NEVER when none are held */
	uint64_t acks_at_ns; /* the same for packets that are only acknowledgements */
};

struct sim {
	struct sim_random random;
	uint64_t now_ns;
	uint64_t hold_data_ns;
	uint64_t hold_acks_ns;
	uint32_t host_count;
	struct gid address[SIM_HOST_COUNT_MAX];
	uint32_t owner[SIM_HOST_COUNT_MAX]; /* the host with this address: mostly itself */
	bool is_dead[SIM_HOST_COUNT_MAX];
	uint64_t paused_until_ns[SIM_HOST_COUNT_MAX];
	uint32_t group_count;
	struct gid group[SIM_GROUP_COUNT_MAX];
	uint32_t port_count;
	struct port port[SIM_LANE_COUNT_MAX];
	struct sim_link link[SIM_HOST_COUNT_MAX][SIM_HOST_COUNT_MAX];
	uint64_t link_free_ns[SIM_HOST_COUNT_MAX][SIM_HOST_COUNT_MAX];
	struct event_heap frames; /* in flight, by arrival; what: a struct frame */
	uint64_t count[SIM_FATE_COUNT];
	sim_trace *trace;
	void *trace_context;
};

static const char *const fate_names[SIM_FATE_COUNT] = {
	[SIM_SENT] = "sent",
	[SIM_LOST] = "lost",
	[SIM_PARTITIONED] = "partitioned",
	[SIM_OVERFLOWED] = "overflowed",
	[SIM_DUPLICATED] = "duplicated",
	[SIM_DELIVERED] = "delivered",
	[SIM_CORRUPTED] = "corrupted",
};

const char *sim_fate_name(enum sim_fate fate)
{
	return fate_names[fate];
}

static struct frame *frame_of(struct event event)
{
	return (struct frame *)(uintptr_t)event.what;
}

static void frame_schedule(struct sim *sim, struct frame *frame, uint64_t at_ns)
{
	if (event_heap_push(&sim->frames, at_ns, (uintptr_t)frame))
		abort();
}

struct sim *sim_create(uint64_t seed)
{
	struct sim *sim = calloc(1, sizeof(*sim));

	if (sim) {
		sim->random.state = seed;
		sim->now_ns = 1000000000;
	}
	return sim;
}

void sim_destroy(struct sim *sim)
{
	if (!sim)
		return;
	while (sim->frames.count)
		free(frame_of(event_heap_pop(&sim->frames)));
	event_heap_done(&sim->frames);
	free(sim);
}

void sim_watch(struct sim *sim, sim_trace *trace, void *context)
{
	sim->trace = trace;
	sim->trace_context = context;
}

uint64_t sim_now_ns(const struct sim *sim)
{
	return sim->now_ns;
}

uint64_t sim_count(const struct sim *sim, enum sim_fate fate)
{
	return sim->count[fate];
}

uint32_t sim_add_host(struct sim *sim, const struct gid *address)
{
	assert(sim->host_count < SIM_HOST_COUNT_MAX);
	sim->address[sim->host_count] = *address;
	sim->owner[sim->host_count] = sim->host_count;
	return sim->host_count++;
}

uint32_t sim_add_address(struct sim *sim, uint32_t host, const struct gid *address)
{
	uint32_t number = sim_add_host(sim, address);

	sim->owner[number] = host;
	return number;
}

void sim_add_lane(struct sim *sim, uint32_t host, struct lane *lane)
{
	assert(host < sim->host_count && sim->port_count < SIM_LANE_COUNT_MAX);
	lane->zerocopy_bytes_min = SIM_ZEROCOPY_BYTES_MIN;
	sim->port[sim->port_count++] = (struct port){lane, host, DEADLINE_NEVER, DEADLINE_NEVER};
}

struct sim_link *sim_link(struct sim *sim, uint32_t from_host, uint32_t to_host)
{
	assert(from_host < SIM_HOST_COUNT_MAX && to_host < SIM_HOST_COUNT_MAX);
	return &sim->link[from_host][to_host];
}

uint32_t sim_path(uint32_t from_host, uint32_t to_host)
{
	return from_host * SIM_HOST_COUNT_MAX + to_host;
}

/* Number of the first path to a group. */
enum { GROUP_PATHS = SIM_HOST_COUNT_MAX * SIM_HOST_COUNT_MAX };

uint32_t sim_add_group(struct sim *sim, const struct gid *address)
{
	assert(sim->group_count < SIM_GROUP_COUNT_MAX && gid_is_multicast(address));
	sim->group[sim->group_count] = *address;
	return sim->group_count++;
}

uint32_t sim_group_path(uint32_t from_host, uint32_t group)
{
	return GROUP_PATHS + from_host * SIM_GROUP_COUNT_MAX + group;
}

void sim_kill_host(struct sim *sim, uint32_t host)
{
	sim->is_dead[host] = true;
}

void sim_pause_host(struct sim *sim, uint32_t host, uint64_t until_ns)
{
	sim->paused_until_ns[host] = until_ns;
}

static bool is_paused(const struct sim *sim, uint32_t host)
{
	return sim->now_ns < sim->paused_until_ns[host];
}

void sim_hold(struct sim *sim, uint64_t data_ns, uint64_t acks_ns)
{
	sim->hold_data_ns = data_ns;
	sim->hold_acks_ns = acks_ns;
}

/* --- links --- */

static void fate_report(struct sim *sim, uint32_t from, uint32_t to, enum sim_fate fate,
	const uint8_t *frame, size_t bytes)
{
	sim->count[fate]++;
	if (sim->trace)
		sim->trace(sim->trace_context, sim->now_ns, from, to, fate, frame, bytes);
}

/* The source port of a host: any number that both ends know. */
static void flow_between(
	const struct sim *sim, uint32_t from, const struct gid *destination, struct icrc_flow *flow)
{
	icrc_flow_init(flow, sim->address[from].raw, destination->raw,
		(uint16_t)(ROCE_SOURCE_PORT_MIN + from), ROCE_UDP_PORT);
}

static bool is_partitioned(const struct sim_link *link, uint64_t now_ns)
{
	for (uint32_t i = 0; i < link->partition_count; i++)
		if (now_ns >= link->partition[i].from_ns && now_ns < link->partition[i].to_ns)
			return true;
	return false;
}

static void flip_bits(struct sim *sim, uint8_t *data, uint32_t bytes)
{
	uint64_t count = sim_random_between(&sim->random, 1, FLIPPED_BITS_MAX);

	while (count--) {
		uint64_t bit = sim_random_below(&sim->random, 8ull * bytes);

		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

/* A copy of a frame leaves at `start_ns`. */
static void frame_travel(struct sim *sim, uint32_t from, uint32_t to, const struct gid *destination,
	uint64_t start_ns, const uint8_t *data, uint32_t bytes)
{
	const struct sim_link *link = &sim->link[from][to];
	struct frame *frame = malloc(sizeof(*frame) + bytes);
	uint64_t at_ns = start_ns + link->delay_ns;

	if (!frame)
		abort();
	if (link->jitter_ns)
		at_ns += sim_random_below(&sim->random, link->jitter_ns + 1);
	if (sim_random_chance(&sim->random, link->reorder_ppm))
		at_ns += link->reorder_ns;
	frame->from = from;
	frame->to = to;
	frame->destination = destination;
	frame->bytes = bytes;
	memcpy(frame->data, data, bytes);
	if (sim_random_chance(&sim->random, link->corrupt_ppm))
		flip_bits(sim, frame->data, bytes);
	frame_schedule(sim, frame, at_ns);
}

/*
 * The time at which a frame has left its sender, after the frames that wait before it. False when
 * too many wait.
 */
static bool wire_take(
	struct sim *sim, uint32_t from, uint32_t to, uint32_t bytes, uint64_t *ret_left_ns)
{
	const struct sim_link *link = &sim->link[from][to];
	uint64_t start_ns = max_u64(sim->link_free_ns[from][to], sim->now_ns);
	uint64_t backlog_ns = start_ns - sim->now_ns;

	*ret_left_ns = sim->now_ns;
	if (!link->byte_ps)
		return true;
	if (link->backlog_bytes_max && backlog_ns * 1000 / link->byte_ps > link->backlog_bytes_max)
		return false;
	*ret_left_ns = start_ns + (uint64_t)bytes * link->byte_ps / 1000;
	sim->link_free_ns[from][to] = *ret_left_ns;
	return true;
}

static void send_frame(struct sim *sim, uint32_t from, uint32_t to, const struct gid *destination,
	const uint8_t *data, uint32_t bytes)
{
	const struct sim_link *link = &sim->link[from][to];
	uint64_t left_ns;

	if (is_partitioned(link, sim->now_ns)) {
		fate_report(sim, from, to, SIM_PARTITIONED, data, bytes);
	} else if (!wire_take(sim, from, to, bytes, &left_ns)) {
		fate_report(sim, from, to, SIM_OVERFLOWED, data, bytes);
	} else if (sim_random_chance(&sim->random, link->loss_ppm)) {
		fate_report(sim, from, to, SIM_LOST, data, bytes);
	} else {
		fate_report(sim, from, to, SIM_SENT, data, bytes);
		frame_travel(sim, from, to, destination, left_ns, data, bytes);
		if (sim_random_chance(&sim->random, link->duplicate_ppm)) {
			fate_report(sim, from, to, SIM_DUPLICATED, data, bytes);
			frame_travel(sim, from, to, destination, left_ns, data, bytes);
		}
	}
}

/* --- lanes --- */

/* Have the packets, if there are any, waited for `hold_ns`? */
static bool is_due(struct sim *sim, bool is_there, uint64_t hold_ns, uint64_t *at_ns)
{
	if (!is_there)
		*at_ns = DEADLINE_NEVER;
	else if (*at_ns == DEADLINE_NEVER)
		*at_ns = sim->now_ns + (hold_ns ? sim_random_below(&sim->random, hold_ns + 1) : 0);
	return *at_ns <= sim->now_ns;
}

/* `data` has room for the ICRC. */
static void send_packet(
	struct sim *sim, uint32_t host, uint32_t path, uint8_t *data, uint32_t bytes)
{
	bool is_group = path >= GROUP_PATHS;
	uint32_t from;
	uint32_t to = is_group ? 0 : path % SIM_HOST_COUNT_MAX;
	uint32_t end = is_group ? sim->host_count : to + 1;
	const struct gid *destination =
		is_group ? &sim->group[path % SIM_GROUP_COUNT_MAX] : &sim->address[to];
	struct icrc_flow flow;

	from = is_group ? (path - GROUP_PATHS) / SIM_GROUP_COUNT_MAX : path / SIM_HOST_COUNT_MAX;
	assert(sim->owner[from] == host);
	flow_between(sim, from, destination, &flow);
	icrc_seal(&flow, ipv4_id, data, bytes);
	for (; to < end; to++)
		if (!is_group || sim->owner[to] == to)
			send_frame(sim, from, to, destination, data, bytes + ROCE_ICRC_BYTES);
}

/* The packets of a run, of `bytes` each. */
static void send_run(struct sim *sim, uint32_t host, const struct packet_run *run, uint32_t bytes)
{
	uint32_t own_bytes = bytes - run->borrowed_bytes;
	uint8_t packet[FRAME_BYTES_MAX];

	assert(bytes <= ENGINE_PACKET_BYTES_MAX);
	for (uint32_t i = 0; i < run->packets; i++) {
		memcpy(packet, run->buffer + i * (own_bytes + ROCE_ICRC_BYTES), own_bytes);
		if (run->borrowed)
			memcpy(packet + own_bytes, run->borrowed + i * run->borrowed_bytes,
				run->borrowed_bytes);
		send_packet(sim, host, run->path, packet, bytes);
	}
}

static void port_flush(struct sim *sim, struct port *port)
{
	uint8_t buffer[SIM_RUN_BYTES_MAX + FRAME_BYTES_MAX];
	struct packet_run run = {.buffer = buffer};
	size_t bytes;
	bool has_data = engine_has_packets(port->lane, false);
	bool has_any = engine_has_packets(port->lane, true);
	bool with_data = is_due(sim, has_data, sim->hold_data_ns, &port->data_at_ns);
	bool with_acks = is_due(sim, has_any, sim->hold_acks_ns, &port->acks_at_ns);

	if (has_data && !with_data)
		return; /* acknowledgements follow data */
	for (;;) {
		run.run_bytes = (uint32_t)(sim->frames.pushed * 4099 % SIM_RUN_BYTES_MAX);
		bytes = engine_next_packet(port->lane, with_acks, &run, sim->now_ns);
		if (!bytes)
			break;
		send_run(sim, port->host, &run, (uint32_t)bytes);
	}
	port->data_at_ns = DEADLINE_NEVER;
	if (with_acks)
		port->acks_at_ns = DEADLINE_NEVER;
}

void sim_flush(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->port_count; i++)
		if (!sim->is_dead[sim->port[i].host] && !is_paused(sim, sim->port[i].host))
			port_flush(sim, &sim->port[i]);
}

/* Multicast frames reach all lanes of a host; other frames the lane with the slot of their QPN. */
static bool is_for_port(const struct sim *sim, const struct frame *frame, const struct port *port)
{
	struct bth bth;

	bth_decode(&bth, frame->data);
	return port->host == sim->owner[frame->to] &&
		(gid_is_multicast(frame->destination) ||
			port->lane->slot == bth.dest_qpn.value >> 16);
}

static void frame_deliver(struct sim *sim, const struct frame *frame)
{
	size_t bytes = frame->bytes - ROCE_ICRC_BYTES;
	struct packet_origin origin = {
		.source = &sim->address[frame->from],
		.destination = frame->destination,
		.source_port = (uint16_t)(ROCE_SOURCE_PORT_MIN + frame->from),
	};
	struct icrc_flow flow;

	if (sim->is_dead[sim->owner[frame->to]])
		return;
	flow_between(sim, frame->from, frame->destination, &flow);
	if (!icrc_verify(&flow, ipv4_id, ICRC_IPV4_DF, frame->data, bytes)) {
		fate_report(sim, frame->from, frame->to, SIM_CORRUPTED, frame->data, frame->bytes);
		return;
	}
	fate_report(sim, frame->from, frame->to, SIM_DELIVERED, frame->data, frame->bytes);
	for (uint32_t i = 0; i < sim->port_count; i++)
		if (is_for_port(sim, frame, &sim->port[i]))
			engine_receive(sim->port[i].lane, &origin, frame->data, bytes, sim->now_ns);
}

static uint64_t port_deadline_ns(const struct sim *sim, const struct port *port)
{
	if (sim->is_dead[port->host])
		return DEADLINE_NEVER;
	uint64_t send_at_ns =
		port->data_at_ns != DEADLINE_NEVER ? port->data_at_ns : port->acks_at_ns;

	if (is_paused(sim, port->host) && engine_has_packets(port->lane, true))
		return sim->paused_until_ns[port->host];

	return max_u64(min_u64(send_at_ns, engine_deadline_ns(port->lane)),
		sim->paused_until_ns[port->host]);
}

bool sim_step(struct sim *sim, uint64_t limit_ns)
{
	uint64_t at_ns = event_heap_first_at(&sim->frames);
	struct port *due = NULL;

	for (uint32_t i = 0; i < sim->port_count; i++) {
		uint64_t deadline_ns = port_deadline_ns(sim, &sim->port[i]);

		if (deadline_ns < at_ns) {
			at_ns = deadline_ns;
			due = &sim->port[i];
		}
	}
	if (at_ns == DEADLINE_NEVER || at_ns > limit_ns) {
		if (limit_ns != DEADLINE_NEVER)
			sim->now_ns = max_u64(sim->now_ns, limit_ns);
		return false;
	}
	sim->now_ns = max_u64(sim->now_ns, at_ns);
	if (due) {
		engine_expire(due->lane, sim->now_ns);
	} else {
		struct frame *frame = frame_of(event_heap_pop(&sim->frames));
		uint32_t host = sim->owner[frame->to];

		if (is_paused(sim, host)) {
			frame_schedule(sim, frame, sim->paused_until_ns[host]);
		} else {
			frame_deliver(sim, frame);
			free(frame);
		}
	}
	sim_flush(sim);
	return true;
}
