/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/traffic/source.h"

#include <assert.h>
#include <stdlib.h>

#include "congestion/cc_flow.h"
#include "fabric/infiniband/infiniband.h"
#include "fabric/traffic/engine_frame.h"

struct source_host {
	struct sources *sources;
	/* The numbers of its unfinished flows are flow_of[first] to flow_of[first + count - 1]. */
	uint32_t first;
	uint32_t count;
	uint32_t turn; /* the place of the flow whose turn it is */
	/* Flows to this host whose CNP is to be sent, linked by next_cnp. */
	uint32_t first_cnp;
	uint32_t last_cnp;
	/* The same for NAKs, by next_nak. */
	uint32_t first_nak;
	uint32_t last_nak;
};

#define NO_FLOW UINT32_MAX

/* Both ends' congestion control of a flow. */
struct flow_congestion {
	struct cc_flow sender;
	struct cc_flow receiver;
	bool is_cnp_pending;
	uint32_t next_cnp;
};

/* Both ends' recovery of a flow. */
struct flow_recovery {
	uint64_t next_bytes; /* the offset in the flow of the sender's next frame */
	uint64_t expected_bytes; /* the offset up to which the receiver has everything */
	uint64_t nak_from_ps; /* when the receiver may send its next NAK */
	bool is_nak_pending;
	uint32_t next_nak;
};

struct sources {
	struct fabric *fabric;
	struct sources_init init;
	struct fabric_flow *flows;
	struct flow_congestion *congestion; /* by flow; NULL: none */
	struct flow_recovery *recovery; /* by flow; NULL: none */
	struct source_host *hosts;
	uint32_t *flow_of;
};

static struct fabric_flow *flow_at(const struct source_host *host, uint32_t place)
{
	return &host->sources->flows[host->sources->flow_of[host->first + place]];
}

/* Remove a flow that has sent all. The flows behind it move up, so that turns keep their order. */
static void flow_remove(struct source_host *host, uint32_t place)
{
	uint32_t *flow_of = host->sources->flow_of + host->first;

	host->count--;
	for (uint32_t i = place; i < host->count; i++)
		flow_of[i] = flow_of[i + 1];
	if (host->turn > place)
		host->turn--;
	if (host->turn >= host->count)
		host->turn = 0;
}

/* --- congestion control --- */

/* A frame of the flow arrived with a mark: send a CNP, if it is time for one. */
static void mark_receive(struct source_host *host, uint32_t number, uint64_t now_ps)
{
	struct flow_congestion *all = host->sources->congestion;
	struct flow_congestion *of = all ? &all[number] : NULL;

	if (!of || of->is_cnp_pending || !cc_flow_on_mark(&of->receiver, now_ps / FABRIC_PS_PER_NS))
		return;
	of->is_cnp_pending = true;
	of->next_cnp = NO_FLOW;
	if (host->first_cnp == NO_FLOW)
		host->first_cnp = number;
	else
		all[host->last_cnp].next_cnp = number;
	host->last_cnp = number;
}

/* What the packet has of its flow on each kind of links. */
static void link_fields_fill(const struct source_host *host, const struct fabric_flow *flow,
	struct fabric_packet *packet)
{
	if (host->sources->fabric->infiniband)
		packet->pkey = engine_frame_pkey(
			host->sources->fabric, flow, (uint32_t)(host - host->sources->hosts));
	else
		packet->source_port = flow->source_port;
}

/* Turn the packet into the host's next CNP. */
static void cnp_send(struct source_host *host, struct fabric_packet *packet)
{
	struct flow_congestion *of = &host->sources->congestion[host->first_cnp];
	struct fabric_flow *flow = &host->sources->flows[host->first_cnp];

	packet->flow = host->first_cnp;
	packet->is_cnp = true;
	packet->destination = flow->source;
	packet->bytes = SOURCE_CNP_BYTES;
	link_fields_fill(host, flow, packet);
	packet->priority = host->sources->init.cnp_priority;
	packet->dscp = FABRIC_DSCP_OF(packet->priority);
	flow->cnp_count++;
	of->is_cnp_pending = false;
	host->first_cnp = of->next_cnp;
}

/* The rate at which the flow may send, in kbit/s; 0: no limit. */
static uint64_t flow_rate_kbps(struct source_host *host, uint32_t number, uint64_t now_ps)
{
	struct flow_congestion *all = host->sources->congestion;
	uint64_t own_kbps = host->sources->flows[number].rate_mbps * 1000ull;
	uint64_t kbps = all ? cc_flow_rate_kbps(&all[number].sender, now_ps / FABRIC_PS_PER_NS) : 0;

	return own_kbps && kbps ? min_u64(own_kbps, kbps) : own_kbps | kbps;
}

/* The flow has sent so many bytes: when may it send again? */
static void flow_pace(struct source_host *host, uint32_t number, uint32_t bytes, uint64_t now_ps)
{
	struct fabric_flow *flow = &host->sources->flows[number];
	uint64_t kbps = flow_rate_kbps(host, number, now_ps);

	if (kbps)
		flow->next_ps =
			max_u64(flow->next_ps, now_ps) + bytes * 8 * FABRIC_PS_PER_MS / kbps;
	if (host->sources->congestion)
		cc_flow_on_sent(&host->sources->congestion[number].sender, bytes,
			now_ps / FABRIC_PS_PER_NS);
}

/* --- recovery --- */

/* The offset to which a sender goes back if the receiver expects the byte at `expected_bytes`. */
static uint64_t back_bytes(const struct sources *sources, uint64_t expected_bytes)
{
	if (sources->init.recovery == SOURCE_GO_BACK_0)
		return expected_bytes - expected_bytes % sources->init.message_bytes;
	return expected_bytes;
}

/* A frame has arrived behind a gap: send a NAK for the missing frame, one in each timeout. */
static void gap_receive(struct source_host *host, uint32_t number, uint64_t now_ps)
{
	struct flow_recovery *all = host->sources->recovery;
	struct flow_recovery *of = &all[number];

	if (of->is_nak_pending || now_ps < of->nak_from_ps)
		return;
	of->expected_bytes = back_bytes(host->sources, of->expected_bytes);
	of->nak_from_ps = now_ps + host->sources->init.timeout_ps;
	of->is_nak_pending = true;
	of->next_nak = NO_FLOW;
	if (host->first_nak == NO_FLOW)
		host->first_nak = number;
	else
		all[host->last_nak].next_nak = number;
	host->last_nak = number;
}

/* Turn the packet into the host's next NAK. */
static void nak_send(struct source_host *host, struct fabric_packet *packet)
{
	struct flow_recovery *of = &host->sources->recovery[host->first_nak];
	const struct fabric_flow *flow = &host->sources->flows[host->first_nak];

	packet->flow = host->first_nak;
	packet->is_nak = true;
	packet->number = of->expected_bytes;
	packet->destination = flow->source;
	packet->bytes = SOURCE_NAK_BYTES;
	link_fields_fill(host, flow, packet);
	packet->priority = host->sources->init.cnp_priority;
	packet->dscp = FABRIC_DSCP_OF(packet->priority);
	of->is_nak_pending = false;
	host->first_nak = of->next_nak;
}

static void nak_receive(struct source_host *host, const struct fabric_packet *packet)
{
	struct fabric_flow *flow = &host->sources->flows[packet->flow];

	host->sources->recovery[packet->flow].next_bytes = packet->number;
	flow->next_ps = 0;
}

/* Does the frame continue what the receiver has? */
static bool frame_is_expected(
	struct source_host *host, const struct fabric_packet *packet, uint64_t now_ps)
{
	struct flow_recovery *of = &host->sources->recovery[packet->flow];
	struct fabric_flow *flow = &host->sources->flows[packet->flow];

	if (packet->number != of->expected_bytes) {
		if (packet->number > of->expected_bytes)
			gap_receive(host, packet->flow, now_ps);
		return false;
	}
	of->expected_bytes += packet->bytes - flow->header_bytes;
	of->nak_from_ps = 0;
	return true;
}

/* The flow's sender has sent all and waited for its timeout, but the receiver lacks a frame. */
static void flow_go_back(const struct sources *sources, const struct fabric_flow *flow)
{
	struct flow_recovery *of = &sources->recovery[flow - sources->flows];

	of->expected_bytes = back_bytes(sources, of->expected_bytes);
	of->next_bytes = of->expected_bytes;
}

/* --- the functions of a host --- */

/* The flow has sent all. With recovery it stays until all has arrived, and may send again. */
static void flow_end(struct source_host *host, uint32_t place, uint64_t now_ps)
{
	if (host->sources->recovery)
		flow_at(host, place)->next_ps = now_ps + host->sources->init.timeout_ps;
	else
		flow_remove(host, place);
}

static void flow_send(
	struct source_host *host, uint32_t place, struct fabric_packet *packet, uint64_t now_ps)
{
	struct fabric_flow *flow = flow_at(host, place);
	uint32_t number = (uint32_t)(flow - host->sources->flows);
	uint32_t payload_bytes = flow->payload_bytes;
	uint64_t *next_bytes = host->sources->recovery ? &host->sources->recovery[number].next_bytes
						       : &flow->sent_bytes;

	if (flow->bytes)
		payload_bytes = (uint32_t)min_u64(payload_bytes, flow->bytes - *next_bytes);
	packet->flow = number;
	packet->number = *next_bytes;
	packet->destination = flow->destination;
	packet->is_multicast = flow->is_multicast;
	packet->bytes = payload_bytes + flow->header_bytes;
	link_fields_fill(host, flow, packet);
	packet->priority = flow->priority;
	packet->dscp = flow->dscp;
	packet->ecn = flow->is_ecn_capable ? FABRIC_ECN_CAPABLE : FABRIC_ECN_NONE;
	flow_pace(host, number, packet->bytes, now_ps);
	*next_bytes += payload_bytes;
	if (host->sources->recovery)
		flow->sent_bytes += payload_bytes;
	host->turn = place + 1 < host->count ? place + 1 : 0;
	if (flow->bytes && *next_bytes == flow->bytes)
		flow_end(host, place, now_ps);
}

/*
 * May the flow send a frame? With recovery, a flow that has sent all goes back to what is missing,
 * until the receiver has everything.
 */
static bool flow_has_frame(struct source_host *host, uint32_t place)
{
	struct sources *sources = host->sources;
	struct fabric_flow *flow = flow_at(host, place);

	if (!sources->recovery || !flow->bytes ||
		sources->recovery[flow - sources->flows].next_bytes < flow->bytes)
		return true;
	if (flow->finish_ps == FABRIC_NEVER) {
		flow_go_back(sources, flow);
		return true;
	}
	flow->next_ps = FABRIC_NEVER;
	return false;
}

static bool source_next_packet(
	void *context, struct fabric_packet *packet, uint8_t paused, uint8_t held, uint64_t now_ps)
{
	struct source_host *host = (struct source_host *)context;
	uint32_t place = host->turn;

	if (host->first_cnp != NO_FLOW && !(paused >> host->sources->init.cnp_priority & 1)) {
		cnp_send(host, packet);
		return true;
	}
	if (host->first_nak != NO_FLOW && !(paused >> host->sources->init.cnp_priority & 1)) {
		nak_send(host, packet);
		return true;
	}
	for (uint32_t i = 0; i < host->count; i++) {
		const struct fabric_flow *flow = flow_at(host, place);

		if (flow->next_ps <= now_ps && !((paused | held) >> flow->priority & 1) &&
			flow_has_frame(host, place)) {
			flow_send(host, place, packet, now_ps);
			return true;
		}
		place = place + 1 < host->count ? place + 1 : 0;
	}
	return false;
}

static void flow_finish(struct sources *sources, struct fabric_flow *flow, uint64_t now_ps)
{
	struct fabric_flow *follower = &sources->flows[flow->follower];

	flow->finish_ps = now_ps;
	if (!flow->follower)
		return;
	follower->start_ps = follower->next_ps = now_ps;
	fabric_wake_host(sources->fabric, follower->source);
}

/*
 * How many bytes of the flow the receiver has. With go-back-0 only whole messages count, since the
 * sender may send the beginning of an unfinished one again.
 */
static uint64_t bytes_of_messages(const struct sources *sources, uint32_t number)
{
	uint64_t expected_bytes = sources->recovery[number].expected_bytes;

	return expected_bytes == sources->flows[number].bytes ? expected_bytes
							      : back_bytes(sources, expected_bytes);
}

static void source_receive(void *context, const struct fabric_packet *packet, uint64_t now_ps)
{
	struct source_host *host = (struct source_host *)context;
	struct fabric_flow *flow = &host->sources->flows[packet->flow];

	if (packet->is_cnp) {
		cc_flow_on_cnp(
			&host->sources->congestion[packet->flow].sender, now_ps / FABRIC_PS_PER_NS);
		return;
	}
	if (packet->is_nak) {
		nak_receive(host, packet);
		return;
	}
	if (packet->ecn == FABRIC_ECN_MARKED)
		mark_receive(host, packet->flow, now_ps);
	flow->received_frames++;
	flow->marked_frames += packet->ecn == FABRIC_ECN_MARKED;
	if (host->sources->recovery) {
		if (!frame_is_expected(host, packet, now_ps))
			return;
		flow->received_bytes = bytes_of_messages(host->sources, packet->flow);
	} else {
		flow->received_bytes += packet->bytes - flow->header_bytes;
	}
	if (flow->bytes && flow->received_bytes == flow->bytes * flow->receivers)
		flow_finish(host->sources, flow, now_ps);
}

static uint64_t source_next_time(void *context, uint64_t now_ps)
{
	const struct source_host *host = (const struct source_host *)context;
	uint64_t next_ps = FABRIC_NEVER;

	for (uint32_t i = 0; i < host->count; i++) {
		uint64_t flow_ps = flow_at(host, i)->next_ps;

		if (flow_ps > now_ps)
			next_ps = min_u64(next_ps, flow_ps);
	}
	return next_ps;
}

static const struct fabric_host_ops source_ops = {
	.next_packet = source_next_packet,
	.receive = source_receive,
	.next_time = source_next_time,
};

/* Each flow begins at the line's rate. */
static bool congestion_init(
	struct sources *sources, const struct fabric *fabric, uint32_t flow_count)
{
	if (!sources->init.cc)
		return true;
	sources->congestion =
		(struct flow_congestion *)calloc(flow_count + 1ull, sizeof(struct flow_congestion));
	for (uint32_t i = 0; sources->congestion && i < flow_count; i++) {
		const struct fabric_flow *flow = &sources->flows[i];
		struct cc_flow fresh = {
			.params = sources->init.cc,
			.line_kbps =
				1000 * fabric->ports[fabric->hosts[flow->source].port].rate_mbps,
			.packet_bytes = flow->payload_bytes + flow->header_bytes,
		};

		sources->congestion[i].sender = fresh;
		sources->congestion[i].receiver = fresh;
	}
	return sources->congestion;
}

static struct sources *sources_new(struct fabric *fabric, const struct sources_init *init,
	struct fabric_flow *flows, uint32_t flow_count)
{
	struct sources *sources = (struct sources *)calloc(1, sizeof(*sources));
	uint32_t host_count = fabric->host_count;

	if (!sources)
		return NULL;
	sources->fabric = fabric;
	sources->init = *init;
	sources->flows = flows;
	sources->hosts =
		(struct source_host *)calloc(host_count + 1ull, sizeof(struct source_host));
	sources->flow_of = (uint32_t *)calloc(flow_count + 1ull, sizeof(uint32_t));
	if (init->recovery != SOURCE_NO_RECOVERY)
		sources->recovery = (struct flow_recovery *)calloc(
			flow_count + 1ull, sizeof(struct flow_recovery));
	if (sources->hosts && sources->flow_of && congestion_init(sources, fabric, flow_count) &&
		!sources->recovery == (init->recovery == SOURCE_NO_RECOVERY))
		return sources;
	sources_destroy(sources);
	return NULL;
}

/* To how many hosts the flow goes: the members of its group but the source itself. */
static uint32_t receivers_count(const struct fabric *fabric, const struct fabric_flow *flow)
{
	const struct infiniband_group *group;

	if (!flow->is_multicast)
		return 1;
	group = &fabric->infiniband->groups[flow->destination];
	return group->member_count - (group->roles[flow->source] == INFINIBAND_MEMBER);
}

struct sources *sources_create(struct fabric *fabric, const struct sources_init *init,
	struct fabric_flow *flows, uint32_t count)
{
	struct sources *sources = sources_new(fabric, init, flows, count);
	uint32_t first = 0;

	if (!sources)
		return NULL;
	for (uint32_t i = 0; i < count; i++) {
		assert(flows[i].is_multicast || flows[i].source != flows[i].destination);
		assert(!flows[i].is_multicast || init->recovery == SOURCE_NO_RECOVERY);
		flows[i].receivers = receivers_count(fabric, &flows[i]);
		flows[i].next_ps = flows[i].start_ps;
		flows[i].finish_ps = FABRIC_NEVER;
		sources->hosts[flows[i].source].count++;
	}
	for (uint32_t i = 0; i < fabric->host_count; i++) {
		struct source_host *host = &sources->hosts[i];

		host->sources = sources;
		host->first = first;
		first += host->count;
		host->count = 0;
		host->first_cnp = host->first_nak = NO_FLOW;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct source_host *host = &sources->hosts[flows[i].source];

		sources->flow_of[host->first + host->count++] = i;
	}
	for (uint32_t i = 0; i < fabric->host_count; i++)
		fabric_set_host(fabric, i, &source_ops, &sources->hosts[i]);
	return sources;
}

void sources_destroy(struct sources *sources)
{
	if (!sources)
		return;
	free(sources->hosts);
	free(sources->flow_of);
	free(sources->congestion);
	free(sources->recovery);
	free(sources);
}
