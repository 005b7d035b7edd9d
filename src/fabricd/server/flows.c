/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flows: frames that pass the server by (attach_protocol.h).
 *
 * The server offers a flow to its receiver. When the receiver reads it, the server opens it for its
 * sender. When the route changes, the server first tells the sender. It tells the receiver when the
 * sender has released the flow, or after CLOSING_NS. The receiver still reads what the sender has
 * put into the ring until then. If there is no route any more, the server tells both at once.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arith.h"
#include "fabricd/server/server_internal.h"
#include "os/fd_pass.h"

enum {
	CLOSING_NS = 10000000,
	/* How long the server opens no flows of a channel after it failed to make one. */
	REST_NS = 100000000,
	PAGE_BYTES = 4096,
	FRAME_WORDS_MAX = ATTACH_FRAME_BYTES_MAX / 4,
};

static_assert(offsetof(struct attach_flow_ring, ring.bytes) <= PAGE_BYTES,
	"the server maps the first page of a flow");

enum flow_state {
	FLOW_OFFERED, /* the receiver knows of the flow */
	FLOW_OPEN, /* the sender knows of it, too */
	FLOW_CLOSING, /* the sender knows of the flow's end */
	FLOW_CLOSED, /* the receiver knows of it, too */
};

struct flow_key {
	uint32_t port; /* of the sender's node */
	uint16_t dlid;
	uint16_t pkey;
	uint8_t sl;
};

struct flow_counts {
	uint64_t packets;
	uint64_t words;
	uint64_t discards;
	uint64_t wait_us;
};

struct flow {
	struct list link; /* in the server's flows */
	enum flow_state state;
	struct channel *from;
	struct channel *to; /* NULL: the flow is closed, or its receiver has ended */
	uint32_t out_slot;
	uint32_t in_slot;
	uint32_t serial;
	struct flow_key key;
	struct subnet_route route;
	uint64_t close_by_ns;
	struct flow_counts counted; /* the sender's counts when the server last looked */
	struct attach_flow_ring *shared; /* its first page */
	int memory; /* -1: the sender has it */
};

/* --- counters --- */

static struct flow_counts counts_read(const struct flow *flow)
{
	const struct attach_flow_out *out = &flow->from->shared->out[flow->out_slot];

	return (struct flow_counts){
		.packets = atomic_load_explicit(&out->packets, memory_order_relaxed),
		.words = atomic_load_explicit(&out->words, memory_order_relaxed),
		.discards = atomic_load_explicit(&out->discards, memory_order_relaxed),
		.wait_us = atomic_load_explicit(&out->wait_us, memory_order_relaxed),
	};
}

/* Add what the sender has counted since the last call. The server ignores impossible counts. */
static void flow_count(struct fabric_server *server, struct flow *flow)
{
	const struct flow_counts now = counts_read(flow), before = flow->counted;
	const uint64_t packets = now.packets - before.packets;
	const uint64_t words = now.words - before.words;
	const uint64_t discards = now.discards - before.discards;
	const uint64_t wait_us = now.wait_us - before.wait_us;

	flow->counted = now;
	if (packets <= UINT32_MAX && words <= packets * FRAME_WORDS_MAX && discards <= UINT32_MAX &&
		wait_us <= UINT32_MAX)
		subnet_route_count(server->subnet, &flow->route, packets, words, discards, wait_us);
	else
		server->counters.frames_malformed++;
}

/* --- the end of a flow --- */

static void flow_free(struct fabric_server *server, struct flow *flow)
{
	flow_count(server, flow);
	flow->from->flows_out[flow->out_slot] = NULL;
	list_remove(&flow->link);
	munmap(flow->shared, PAGE_BYTES);
	if (flow->memory >= 0)
		close(flow->memory);
	free(flow);
}

/* End the flow at its receiver, which still takes what the sender has written until now. */
static void receiver_end(struct flow *flow)
{
	uint64_t limit = atomic_load_explicit(&flow->shared->ring.written, memory_order_acquire);
	struct attach_flow_in *in;

	if (!flow->to)
		return;
	in = &flow->to->shared->in[flow->in_slot];
	atomic_store_explicit(&in->limit, min_u64(limit, UINT64_MAX - 1), memory_order_release);
	flow->to->flows_in[flow->in_slot] = NULL;
	flow->to->is_touched = true;
	flow->to = NULL;
}

static bool is_released(const struct flow *flow)
{
	const struct attach_flow_out *out = &flow->from->shared->out[flow->out_slot];

	return atomic_load_explicit(&out->released, memory_order_acquire) == flow->serial;
}

static void flow_close(struct fabric_server *server, struct flow *flow, bool is_at_once)
{
	struct attach_flow_out *out = &flow->from->shared->out[flow->out_slot];

	if (flow->state == FLOW_OFFERED) {
		receiver_end(flow);
		flow_free(server, flow);
		return;
	}
	atomic_store_explicit(&out->serial, 0, memory_order_release);
	if (is_at_once)
		receiver_end(flow);
	flow->state = flow->to ? FLOW_CLOSING : FLOW_CLOSED;
	flow->close_by_ns = server->now_ns + CLOSING_NS;
	if (flow->to)
		server->flows_at_ns = min_u64(server->flows_at_ns, flow->close_by_ns);
}

void flows_advance(struct fabric_server *server)
{
	server->flows_at_ns = UINT64_MAX;
	list_for_each_safe(flow, &server->flows, struct flow, link) {
		if (flow->state != FLOW_CLOSING && flow->state != FLOW_CLOSED)
			continue;
		if (flow->state == FLOW_CLOSING &&
			(is_released(flow) || flow->close_by_ns <= server->now_ns)) {
			receiver_end(flow);
			flow->state = FLOW_CLOSED;
		}
		if (flow->state == FLOW_CLOSING)
			server->flows_at_ns = min_u64(server->flows_at_ns, flow->close_by_ns);
		else if (is_released(flow))
			flow_free(server, flow);
	}
}

void flows_count(void *context)
{
	struct fabric_server *server = context;

	list_for_each(flow, &server->flows, struct flow, link)
		flow_count(server, flow);
}

static bool is_equal_route(const struct subnet_route *a, const struct subnet_route *b)
{
	if (a->hop_count != b->hop_count || a->node != b->node || a->port != b->port ||
		a->frame_bytes_max != b->frame_bytes_max || a->lifetime_ns != b->lifetime_ns)
		return false;
	for (uint32_t i = 0; i < a->hop_count; i++)
		if (a->hops[i].node != b->hops[i].node || a->hops[i].port != b->hops[i].port ||
			a->hops[i].vl != b->hops[i].vl)
			return false;
	return true;
}

static bool route_find(struct fabric_server *server, const struct channel *from,
	const struct flow_key *key, struct subnet_route *ret_route)
{
	return subnet_route_find(
		server->subnet, from->node, key->port, key->dlid, key->sl, key->pkey, ret_route);
}

void flows_refresh(struct fabric_server *server)
{
	const uint64_t changes = subnet_route_changes(server->subnet);
	struct subnet_route route;

	if (changes == server->flows_changes)
		return;
	server->flows_changes = changes;
	list_for_each_safe(flow, &server->flows, struct flow, link) {
		bool is_found;

		if (flow->state == FLOW_CLOSED)
			continue;
		is_found = route_find(server, flow->from, &flow->key, &route);
		if (!is_found || !is_equal_route(&route, &flow->route))
			flow_close(server, flow, !is_found);
	}
}

uint32_t flows_of_client(const struct client *client)
{
	uint32_t count = 0;

	list_for_each(channel, &client->channels, struct channel, link)
		for (uint32_t i = 0; i < ATTACH_FLOWS_MAX; i++)
			count += channel->flows_out[i] != NULL;
	return count;
}

void flows_end(struct channel *channel)
{
	struct fabric_server *server = channel->client->server;

	for (uint32_t i = 0; i < ATTACH_FLOWS_MAX; i++) {
		struct flow *out = channel->flows_out[i], *in = channel->flows_in[i];

		if (out) {
			receiver_end(out);
			flow_free(server, out);
		}
		if (in && in == channel->flows_in[i])
			flow_close(server, in, true);
	}
}

/* --- its beginning --- */

static struct attach_flow flow_describe(const struct flow *flow, bool is_outgoing)
{
	const struct subnet_route *route = &flow->route;
	const uint32_t hops = route->hop_count;

	return (struct attach_flow){
		.lease = is_outgoing ? flow->from->lease : flow->to->lease,
		.slot = is_outgoing ? flow->out_slot : flow->in_slot,
		.serial = flow->serial,
		.port = is_outgoing ? flow->key.port : route->port,
		.peer_lease = is_outgoing ? flow->to->lease : 0,
		.frame_bytes_max = min_u32(route->frame_bytes_max, ATTACH_FRAME_BYTES_MAX),
		.dlid = flow->key.dlid,
		.pkey = flow->key.pkey,
		.sl = flow->key.sl,
		.vl = hops ? route->hops[hops - 1].vl : 0,
		.lifetime_ns = route->lifetime_ns,
	};
}

static bool flow_tell(struct channel *channel, enum attach_event_type type,
	const struct attach_flow *about, const int *fds, uint32_t count)
{
	struct attach_event event = {.type = type, .port = about->port, .flow = *about};
	struct iovec piece = {&event, sizeof(event)};

	return channel->client->events >= 0 &&
		fd_pass_send(channel->client->events, &piece, 1, fds, count, MSG_DONTWAIT) == 0;
}

/* Make the flow's memfd. A seal against shrinking keeps the server's accesses from faulting. */
static int memory_make(struct flow *flow)
{
	void *shared;

	flow->memory = memfd_create("urnic-flow", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (flow->memory < 0)
		return -errno;
	if (ftruncate(flow->memory, (off_t)attach_flow_memory()) ||
		fcntl(flow->memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		goto fail_close;
	shared = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, flow->memory, 0);
	if (shared == MAP_FAILED)
		goto fail_close;
	flow->shared = shared;
	return 0;
fail_close:
	close(flow->memory);
	return -ENOMEM;
}

static uint32_t slot_unused(struct flow *const flows[ATTACH_FLOWS_MAX])
{
	uint32_t slot = 0;

	while (slot < ATTACH_FLOWS_MAX && flows[slot])
		slot++;
	return slot;
}

/* Give the flow its places in both channels, and tell the receiver. */
static bool flow_offer(struct fabric_server *server, struct flow *flow)
{
	struct attach_flow_in *in = &flow->to->shared->in[flow->in_slot];
	struct attach_flow about;

	if (++server->flow_serial == 0)
		server->flow_serial = 1;
	flow->serial = server->flow_serial;
	flow->from->flows_out[flow->out_slot] = flow;
	flow->to->flows_in[flow->in_slot] = flow;
	list_append(&server->flows, &flow->link);
	flow->counted = counts_read(flow);
	atomic_store_explicit(&in->limit, UINT64_MAX, memory_order_relaxed);
	atomic_store_explicit(&in->serial, flow->serial, memory_order_release);
	about = flow_describe(flow, false);
	return flow_tell(flow->to, ATTACH_EVENT_FLOW_IN, &about, &flow->memory, 1);
}

static bool flow_make(struct fabric_server *server, struct channel *from, struct channel *to,
	const struct flow_key *key)
{
	struct flow *flow = calloc(1, sizeof(*flow));

	if (!flow)
		return false;
	*flow = (struct flow){.from = from,
		.to = to,
		.out_slot = slot_unused(from->flows_out),
		.in_slot = slot_unused(to->flows_in),
		.key = *key};
	if (flow->out_slot == ATTACH_FLOWS_MAX || flow->in_slot == ATTACH_FLOWS_MAX ||
		!route_find(server, from, key, &flow->route) || memory_make(flow)) {
		free(flow);
		return false;
	}
	if (flow_offer(server, flow))
		return true;
	flow_close(server, flow, true);
	return false;
}

static bool has_flow(
	const struct channel *from, const struct channel *to, const struct flow_key *key)
{
	for (uint32_t i = 0; i < ATTACH_FLOWS_MAX; i++) {
		const struct flow *flow = from->flows_out[i];

		if (flow && flow->to == to && flow->state < FLOW_CLOSING &&
			flow->key.port == key->port && flow->key.dlid == key->dlid &&
			flow->key.pkey == key->pkey && flow->key.sl == key->sl)
			return true;
	}
	return false;
}

void flow_consider(
	struct channel *from, uint32_t port, struct channel *to, const struct ib_frame *frame)
{
	struct fabric_server *server = from->client->server;
	const struct flow_key key = {.port = port,
		.dlid = frame->lrh.dlid,
		.pkey = frame->bth.pkey,
		.sl = frame->lrh.sl};

	/* A taken host is on another machine, which shares no memory with this one. */
	if (server->nodes[from->node].taker || server->trace ||
		from->flows_rest_until_ns > server->now_ns || from->client->events < 0 ||
		to->client->events < 0 || has_flow(from, to, &key))
		return;
	flows_advance(server);
	if (!flow_make(server, from, to, &key))
		from->flows_rest_until_ns = server->now_ns + REST_NS;
}

void flow_ready(struct channel *to, uint32_t slot, uint32_t serial)
{
	struct fabric_server *server = to->client->server;
	struct flow *flow = slot < ATTACH_FLOWS_MAX ? to->flows_in[slot] : NULL;
	struct attach_flow about;
	bool is_told;

	/* Another serial: the flow has ended before its receiver was ready. */
	if (!flow || flow->serial != serial || flow->state != FLOW_OFFERED)
		return;
	about = flow_describe(flow, true);
	atomic_store_explicit(
		&flow->from->shared->out[flow->out_slot].serial, serial, memory_order_release);
	is_told = flow_tell(flow->from, ATTACH_EVENT_FLOW_OUT, &about,
		(const int[]){flow->memory, to->wake_client}, 2);
	if (!is_told) {
		atomic_store_explicit(
			&flow->from->shared->out[flow->out_slot].serial, 0, memory_order_release);
		flow->from->flows_rest_until_ns = server->now_ns + REST_NS;
		flow_close(server, flow, true);
		return;
	}
	close(flow->memory);
	flow->memory = -1;
	flow->state = FLOW_OPEN;
}
