/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/source.h"

#include <assert.h>
#include <stdlib.h>

struct source_host {
	struct sources *sources;
	/* Its flows that are not all sent: numbers in flow_of[first] up to [first + count]. */
	uint32_t first;
	uint32_t count;
	uint32_t turn; /* the place of the flow whose turn it is */
};

struct sources {
	struct fabric_flow *flows;
	struct source_host *hosts;
	uint32_t *flow_of;
};

static struct fabric_flow *flow_at(const struct source_host *host, uint32_t place)
{
	return &host->sources->flows[host->sources->flow_of[host->first + place]];
}

/* The flow is sent: the flows behind it move up, so that turns keep their order. */
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

static void flow_send(
	struct source_host *host, uint32_t place, struct fabric_packet *packet, uint64_t now_ps)
{
	struct fabric_flow *flow = flow_at(host, place);
	uint32_t payload_bytes = flow->payload_bytes;

	if (flow->bytes)
		payload_bytes = (uint32_t)min_u64(payload_bytes, flow->bytes - flow->sent_bytes);
	packet->flow = (uint32_t)(flow - host->sources->flows);
	packet->number = flow->sent_bytes;
	packet->destination = flow->destination;
	packet->bytes = payload_bytes + flow->header_bytes;
	packet->source_port = flow->source_port;
	packet->priority = flow->priority;
	packet->ecn = flow->is_ecn_capable ? FABRIC_ECN_CAPABLE : FABRIC_ECN_NONE;
	if (flow->rate_mbps)
		flow->next_ps = max_u64(flow->next_ps, now_ps) +
			fabric_wire_ps(packet->bytes, flow->rate_mbps);
	flow->sent_bytes += payload_bytes;
	host->turn = place + 1 < host->count ? place + 1 : 0;
	if (flow->bytes && flow->sent_bytes == flow->bytes)
		flow_remove(host, place);
}

static bool source_next_packet(
	void *context, struct fabric_packet *packet, uint8_t paused, uint64_t now_ps)
{
	struct source_host *host = (struct source_host *)context;
	uint32_t place = host->turn;

	for (uint32_t i = 0; i < host->count; i++) {
		const struct fabric_flow *flow = flow_at(host, place);

		if (flow->next_ps <= now_ps && !(paused >> flow->priority & 1)) {
			flow_send(host, place, packet, now_ps);
			return true;
		}
		place = place + 1 < host->count ? place + 1 : 0;
	}
	return false;
}

static void source_receive(void *context, const struct fabric_packet *packet, uint64_t now_ps)
{
	const struct source_host *host = (const struct source_host *)context;
	struct fabric_flow *flow = &host->sources->flows[packet->flow];

	flow->received_frames++;
	flow->received_bytes += packet->bytes - flow->header_bytes;
	flow->marked_frames += packet->ecn == FABRIC_ECN_MARKED;
	if (flow->received_bytes == flow->bytes)
		flow->finish_ps = now_ps;
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

static struct sources *sources_new(uint32_t host_count, uint32_t flow_count)
{
	struct sources *sources = (struct sources *)calloc(1, sizeof(*sources));

	if (!sources)
		return NULL;
	sources->hosts =
		(struct source_host *)calloc(host_count + 1ull, sizeof(struct source_host));
	sources->flow_of = (uint32_t *)calloc(flow_count + 1ull, sizeof(uint32_t));
	if (sources->hosts && sources->flow_of)
		return sources;
	sources_destroy(sources);
	return NULL;
}

struct sources *sources_create(struct fabric *fabric, struct fabric_flow *flows, uint32_t count)
{
	struct sources *sources = sources_new(fabric->host_count, count);
	uint32_t first = 0;

	if (!sources)
		return NULL;
	sources->flows = flows;
	for (uint32_t i = 0; i < count; i++) {
		assert(flows[i].source != flows[i].destination);
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
	free(sources);
}
