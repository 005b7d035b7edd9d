/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_FABRIC_NET_H
#define URNIC_TESTS_FABRIC_NET_H

/*
 * Simulated networks for tests, as the closed forms assume them: 40 Gbit/s, 1 us per cable, frames
 * of 1,048 bytes without gaps, PFC on priority 3 that is heeded at once. InfiniBand's have one data
 * lane, and packets of 1,024 bytes.
 */

#include <stdlib.h>
#include <string.h>

#include "fabric/infiniband/infiniband.h"
#include "fabric/plan.h"
#include "fabric/topology.h"
#include "fabric/traffic/source.h"

enum {
	NET_RATE_MBPS = 40000,
	NET_FRAME_BYTES = 1048,
	NET_PACKET_BYTES = 1024, /* of InfiniBand */
	NET_PRIORITY = 3,
	NET_POOL_BYTES = 12 << 20,
	NET_FLOW_COUNT_MAX = 64,
	NET_GROUP_COUNT_MAX = 4,
};

#define NET_DELAY_PS FABRIC_PS_PER_US

struct net {
	struct fabric_config config;
	struct sources_init sources_init;
	struct topology topology;
	bool is_infiniband;
	struct infiniband_config infiniband;
	uint32_t group_count;
	const uint8_t *groups[NET_GROUP_COUNT_MAX]; /* by host: enum infiniband_role */
	struct fabric *fabric;
	struct sources *sources;
	uint32_t flow_count;
	struct fabric_flow flows[NET_FLOW_COUNT_MAX];
};

/* The defaults, which a test may change before net_start(). */
static inline void net_init(struct net *net, enum topology_kind kind)
{
	const struct topology_link link = {NET_RATE_MBPS, NET_DELAY_PS};

	memset(net, 0, sizeof(*net));
	net->config = (struct fabric_config){
		.seed = 1,
		.frame_bytes_max = NET_FRAME_BYTES,
		.pause_quanta = FABRIC_PAUSE_QUANTA_MAX,
	};
	net->topology = (struct topology){
		.kind = kind,
		.host_link = link,
		.switch_link = link,
		.switches = {.pool_bytes = NET_POOL_BYTES,
			.dynamic_th = -3,
			.headroom_bytes = FABRIC_HEADROOM_OF_CABLE,
			.xon_offset_bytes = 2 * NET_FRAME_BYTES,
			.lossless = 1u << NET_PRIORITY},
	};
}

/* The same with InfiniBand links, and buffers of 64 packets for each port and lane. */
static inline void net_init_infiniband(struct net *net, enum topology_kind kind)
{
	net_init(net, kind);
	net->is_infiniband = true;
	net->config.gap_bytes = IB_DELIMITER_BYTES;
	net->infiniband = (struct infiniband_config){
		.data_vls = 1,
		.buffer_blocks = 64 * NET_PACKET_BYTES / IB_BLOCK_BYTES,
		.management_packets = 16,
		.hoq_life_ps = FABRIC_NEVER,
		.switch_life_ps = FABRIC_NEVER,
		.arbitration = {.low = {1, {{0, 1}}}},
	};
}

/* A flow at line rate without end, which the test may change before net_start(). */
static inline struct fabric_flow *net_flow(struct net *net, uint32_t source, uint32_t destination)
{
	struct fabric_flow *flow = &net->flows[net->flow_count];

	if (net->flow_count == NET_FLOW_COUNT_MAX)
		abort();
	*flow = (struct fabric_flow){
		.source = source,
		.destination = destination,
		.source_port = (uint16_t)(49152 + net->flow_count++),
		.priority = NET_PRIORITY,
		.is_ecn_capable = true,
		.payload_bytes = net->is_infiniband ? NET_PACKET_BYTES : NET_FRAME_BYTES,
	};
	return flow;
}

/* A flow has the service level of its path. */
static inline void net_level_set(const struct net *net, struct fabric_flow *flow)
{
	flow->priority = flow->is_multicast
		? infiniband_group_level(net->fabric, flow->destination, flow->priority)
		: infiniband_service_level(
			  net->fabric, flow->source, flow->destination, flow->priority);
}

static inline void net_start(struct net *net)
{
	net->fabric = fabric_create(&net->config);
	if (!net->fabric || topology_build(net->fabric, &net->topology))
		abort();
	if (net->is_infiniband && infiniband_init(net->fabric, &net->infiniband))
		abort();
	for (uint32_t i = 0; i < net->group_count; i++) {
		uint32_t group;

		if (infiniband_add_group(net->fabric, net->groups[i], &group) || group != i)
			abort();
	}
	for (uint32_t i = 0; net->is_infiniband && i < net->flow_count; i++)
		net_level_set(net, &net->flows[i]);
	net->sources = sources_create(net->fabric, &net->sources_init, net->flows, net->flow_count);
	if (!net->sources)
		abort();
}

static inline void net_done(struct net *net)
{
	sources_destroy(net->sources);
	fabric_destroy(net->fabric);
}

static inline void net_run(struct net *net, uint64_t until_ps)
{
	if (fabric_run(net->fabric, until_ps))
		abort();
	fabric_check(net->fabric);
}

/* The switch's port towards a host. */
static inline uint32_t net_port_to(const struct net *net, uint32_t host)
{
	return net->fabric->ports[net->fabric->hosts[host].port].peer;
}

/* Frames that no switch had room for. */
static inline uint64_t net_discards(const struct net *net)
{
	uint64_t frames = 0;

	for (uint32_t i = 0; i < net->fabric->port_count; i++)
		for (uint32_t j = 0; j < FABRIC_PRIORITY_COUNT; j++)
			frames += net->fabric->ports[i].priority[j].counters.discarded_frames;
	return frames;
}

/* What each flow receives from `from_ps` to `until_ps`, in parts of 10,000 of the line. */
static inline void net_measure(
	struct net *net, uint64_t from_ps, uint64_t until_ps, uint32_t *ret_shares)
{
	uint64_t before[NET_FLOW_COUNT_MAX] = {0};
	uint64_t line_bytes = fabric_bytes_in(until_ps - from_ps, NET_RATE_MBPS);

	net_run(net, from_ps);
	for (uint32_t i = 0; i < net->flow_count; i++)
		before[i] = net->flows[i].received_bytes;
	net_run(net, until_ps);
	for (uint32_t i = 0; i < net->flow_count; i++)
		ret_shares[i] =
			(uint32_t)((net->flows[i].received_bytes - before[i]) * 10000 / line_bytes);
}

#endif
