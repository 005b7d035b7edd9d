/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random InfiniBand subnets. On healthy links credits are conserved, nothing is dropped, nothing
 * deadlocks with the embedded routing engines, and every flow finishes. In one run of four the
 * hosts are engines, and cables lose and corrupt packets or are down first; then all is calm, and
 * every flow must finish. In the others some flows go to groups: each packet arrives at each member
 * exactly once, and at no stranger. In some of these hosts have partitions: packets with a wrong
 * P_Key never arrive, and all others do. In one run of four the tables are those of the embedded
 * subnet manager, if its paths have no credit loop.
 *
 *     sim_subnet [--seeds A..B | --seed N]
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/deadlock/deadlock.h"
#include "fabric/deadlock/loop.h"
#include "fabric/traffic/engine_host.h"
#include "sim/seeds.h"
#include "subnet/simulated/simulated.h"
#include "support/arena_memory.h"
#include "support/fabric_net.h"
#include "wire/bth.h"
#include "wire/infiniband/pkey.h"

#define US FABRIC_PS_PER_US

enum {
	ARENA_BYTES = 64 << 20,
	MTU_BYTES = 1024,
	MESSAGE_BYTES = 1 << 14,
	HEADER_BYTES = 26,
	PACKET_BLOCKS = (MTU_BYTES + HEADER_BYTES) / IB_BLOCK_BYTES + 1,
	PACKET_BLOCKS_ENGINE = PACKET_BLOCKS + 2, /* the longest headers */
	RING_MAX = 7,
	CHORDS_MAX = 4,
	ENGINES_EVERY = 4,
	FAULT_COUNT_MAX = 4,
	GROUPS_MAX = 2,
	GROUP_FLOWS_MAX = 4,
	GROUP_HOSTS_MAX = 16,
	GROUP_PAYLOAD_MIN = 64,
	GROUP_PACKETS_MAX = 256, /* of a flow */
	PARTITIONS_EVERY = 3,
	PKEY_CHOICES = 6,
	EMBEDDED_EVERY = 4,
	TABLE_ENTRIES_MAX = 12,
	LASH_VLS_MIN = 8,
	STEP_US = 20,
	FAULTS_STEPS = 10,
	STEPS_MAX = 100000,
	QUIET_US = 300, /* until all credits are back: more than a round of flow control packets */
};

struct run {
	uint64_t seed;
	struct net net;
	struct fabric_random random;
	struct topology_cable cables[2 * RING_MAX + CHORDS_MAX];
	bool has_engines;
	bool is_embedded;
	struct arena arena;
	void *memory;
	struct engine_hosts *hosts;
	uint8_t roles[GROUPS_MAX][GROUP_HOSTS_MAX];
	uint32_t group_flow_count; /* the first flows */
	bool has_partitions;
	bool is_partial[NET_FLOW_COUNT_MAX]; /* by flow: its P_Key is wrong for a receiver */
	/* By group flow, host and packet: how often it has arrived. */
	uint8_t arrivals[GROUP_FLOWS_MAX][GROUP_HOSTS_MAX][GROUP_PACKETS_MAX];
};

static void run_check(const struct run *run, bool condition, const char *what)
{
	if (condition)
		return;
	printf("seed %llu, %.3f us: %s\n", (unsigned long long)run->seed,
		(double)run->net.fabric->now_ps / US, what);
	exit(1);
}

static uint32_t random_below(struct run *run, uint32_t limit)
{
	return (uint32_t)fabric_random_below(&run->random, limit);
}

/* --- what is random --- */

/* A ring of switches with a host each, and some cables across. */
static void ring_choose(struct run *run)
{
	struct topology *topology = &run->net.topology;
	uint32_t count = 3 + random_below(run, RING_MAX - 2);
	uint32_t chords = random_below(run, CHORDS_MAX + 1);

	assert(count >= 3);
	topology->hosts = topology->switch_count = count;
	topology->cables = run->cables;
	topology->cable_count = 2 * count + chords;
	for (uint32_t i = 0; i < count; i++) {
		run->cables[i] = (struct topology_cable){{{true, i}, {false, i}}};
		run->cables[count + i] =
			(struct topology_cable){{{false, i}, {false, (i + 1) % count}}};
	}
	for (uint32_t i = 0; i < chords; i++) {
		uint32_t a = random_below(run, count);
		uint32_t b = (a + 1 + random_below(run, count - 1)) % count;

		run->cables[2 * count + i] = (struct topology_cable){{{false, a}, {false, b}}};
	}
}

static void topology_choose(struct run *run)
{
	struct topology *topology = &run->net.topology;

	topology->hosts = 2 + random_below(run, 3);
	topology->hosts_right = 1 + random_below(run, 3);
	topology->leaves = 2 + random_below(run, 2);
	topology->spines = 1 + random_below(run, 3);
	topology->k = 2 + 2 * random_below(run, 2);
	topology->host_link.rate_mbps = 10000u << random_below(run, 4);
	topology->host_link.delay_ps = 1000ull * random_below(run, 2000);
	topology->switch_link.rate_mbps = 10000u << random_below(run, 4);
	topology->switch_link.delay_ps = 1000ull * random_below(run, 2000);
	if (topology->kind == TOPOLOGY_CUSTOM)
		ring_choose(run);
}

/* A table of random lanes; with `is_whole`, it has all of them. */
static void table_choose(struct run *run, struct arbitration_table *table, bool is_whole)
{
	uint32_t vls = run->net.infiniband.data_vls;

	table->count = random_below(run, TABLE_ENTRIES_MAX);
	if (is_whole)
		table->count = max_u32(table->count, vls);
	for (uint32_t i = 0; i < table->count; i++) {
		table->entries[i].vl = (uint8_t)(i < vls && is_whole ? i : random_below(run, vls));
		table->entries[i].weight = (uint8_t)(1 + random_below(run, 255));
	}
}

static void links_choose(struct run *run)
{
	struct infiniband_config *config = &run->net.infiniband;
	uint32_t packet_blocks = run->has_engines ? PACKET_BLOCKS_ENGINE : PACKET_BLOCKS;

	config->data_vls = 1 + random_below(run, random_below(run, 2) ? 2 : IB_DATA_VL_COUNT);
	config->buffer_blocks =
		packet_blocks + random_below(run, (random_below(run, 2) ? 2 : 20) * packet_blocks);
	/* Shortest paths go up and down in trees; elsewhere they may deadlock. */
	config->routing = run->net.topology.kind == TOPOLOGY_CUSTOM || random_below(run, 2)
		? INFINIBAND_UPDN
		: INFINIBAND_MINHOP;
	if (config->data_vls >= LASH_VLS_MIN && !random_below(run, 4))
		config->routing = INFINIBAND_LASH;
	for (uint32_t i = 0; i < IB_SL_COUNT; i++)
		config->sl2vl[i] = (uint8_t)random_below(run, config->data_vls);
	table_choose(run, &config->arbitration.high, false);
	table_choose(run, &config->arbitration.low, true);
	config->arbitration.high_limit =
		(uint8_t)(random_below(run, 2) ? random_below(run, 4) : random_below(run, 256));
}

static void flow_choose(struct run *run, uint32_t source, uint32_t destination)
{
	struct fabric_flow *flow = net_flow(&run->net, source, destination);

	flow->priority = (uint8_t)random_below(run, FABRIC_PRIORITY_COUNT);
	flow->payload_bytes = 1 + random_below(run, MTU_BYTES);
	flow->header_bytes = HEADER_BYTES;
	flow->start_ps = US * random_below(run, 100);
	flow->bytes = 1 + random_below(run, 1 << 15);
}

/* A flow to the last group, which has a receiver for it. */
static void group_flow_choose(struct run *run, uint32_t source)
{
	uint32_t packets = 1 + random_below(run, GROUP_PACKETS_MAX);
	struct fabric_flow *flow;

	if (run->group_flow_count == GROUP_FLOWS_MAX)
		return;
	run->group_flow_count++;
	flow = net_flow(&run->net, source, run->net.group_count - 1);
	flow->is_multicast = true;
	flow->priority = (uint8_t)random_below(run, FABRIC_PRIORITY_COUNT);
	flow->payload_bytes = GROUP_PAYLOAD_MIN + random_below(run, MTU_BYTES - GROUP_PAYLOAD_MIN);
	flow->header_bytes = HEADER_BYTES;
	flow->start_ps = US * random_below(run, 100);
	flow->bytes =
		(uint64_t)packets * flow->payload_bytes - random_below(run, GROUP_PAYLOAD_MIN);
}

/* Groups of random hosts; a first member, another host that sends, and perhaps more of these. */
static void groups_choose(struct run *run)
{
	uint32_t hosts = topology_host_count(&run->net.topology);
	uint32_t count = run->has_engines ? 0 : random_below(run, GROUPS_MAX + 1);

	while (count--) {
		uint8_t *roles = run->roles[run->net.group_count];
		uint32_t member = random_below(run, hosts);
		uint32_t sender = (member + 1 + random_below(run, hosts - 1)) % hosts;

		for (uint32_t i = 0; i < hosts; i++)
			roles[i] = (uint8_t)random_below(run, INFINIBAND_MEMBER + 1);
		roles[member] = INFINIBAND_MEMBER;
		roles[sender] = (uint8_t)(INFINIBAND_SENDER + random_below(run, 2));
		run->net.groups[run->net.group_count++] = roles;
		group_flow_choose(run, sender);
		for (uint32_t i = 0; i < hosts; i++)
			if (i != member && i != sender && roles[i] != INFINIBAND_STRANGER &&
				!random_below(run, 4))
				group_flow_choose(run, i);
	}
}

/* Each host of a ring to each other one, elsewhere some pairs. */
static void flows_choose(struct run *run)
{
	uint32_t hosts = topology_host_count(&run->net.topology);
	uint32_t count = 1 + random_below(run, 32);

	if (run->net.topology.kind == TOPOLOGY_CUSTOM) {
		for (uint32_t i = 0; i < hosts; i++)
			for (uint32_t j = 1; j < hosts; j++)
				flow_choose(run, i, (i + j) % hosts);
		return;
	}
	while (count--) {
		uint32_t source = random_below(run, hosts);
		uint32_t step = 1 + random_below(run, hosts - 1);

		flow_choose(run, source, (source + step) % hosts);
	}
}

/* Some rows of SL2VL are those of one pair of ports only. LASH has chosen service levels itself. */
static void mapping_choose(struct run *run)
{
	struct fabric *fabric = run->net.fabric;
	uint32_t tries = random_below(run, 40);

	for (uint32_t i = 0; i < run->net.flow_count; i++)
		net_level_set(&run->net, &run->net.flows[i]);
	if (run->net.infiniband.routing == INFINIBAND_LASH)
		return;

	while (tries--) {
		uint32_t input = random_below(run, fabric->port_count);
		uint32_t output = random_below(run, fabric->port_count);
		uint32_t sl = random_below(run, FABRIC_PRIORITY_COUNT);
		uint32_t vl = random_below(run, run->net.infiniband.data_vls);

		if (!fabric->ports[input].is_host && !fabric->ports[output].is_host &&
			fabric->ports[input].node == fabric->ports[output].node)
			infiniband_set_sl2vl(fabric, input, output, sl, (uint8_t)vl);
	}
}

/* --- partitions --- */

static const uint16_t pkey_choices[PKEY_CHOICES] = {0x8001, 0x8001, 0x0001, 0x8002, 0x0002, 0xffff};

static const struct infiniband_port *host_port(const struct run *run, uint32_t host)
{
	return &run->net.fabric->infiniband->ports[run->net.fabric->hosts[host].port];
}

static void host_partitions_choose(struct run *run, uint32_t host)
{
	uint16_t pkeys[2] = {pkey_choices[random_below(run, PKEY_CHOICES)],
		pkey_choices[random_below(run, PKEY_CHOICES)]};
	uint32_t port = run->net.fabric->hosts[host].port;
	uint32_t peer = run->net.fabric->ports[port].peer;

	infiniband_set_pkeys(run->net.fabric, port, pkeys, 2);
	infiniband_set_pkeys(run->net.fabric, peer, pkeys, 2);
	infiniband_set_enforcement(
		run->net.fabric, peer, random_below(run, 2), random_below(run, 2));
}

/* Does a packet with the flow's P_Key reach the host? */
static bool pkey_passes(const struct run *run, const struct fabric_flow *flow, uint32_t host)
{
	const struct infiniband_port *from = host_port(run, flow->source);
	const struct infiniband_port *to = host_port(run, host);
	const struct fabric *fabric = run->net.fabric;
	uint32_t input = fabric->ports[fabric->hosts[flow->source].port].peer;
	uint16_t pkey = flow->pkey ? flow->pkey : BTH_PKEY_DEFAULT;

	return pkey_table_matches(to->pkeys, to->pkey_count, pkey) &&
		(!fabric->infiniband->ports[input].is_inbound_enforced ||
			pkey_table_matches(from->pkeys, from->pkey_count, pkey));
}

/* Is the host one that the flow goes to? */
static bool is_receiver(const struct run *run, const struct fabric_flow *flow, uint32_t host)
{
	if (!flow->is_multicast)
		return host == flow->destination;
	return host != flow->source && run->roles[flow->destination][host] == INFINIBAND_MEMBER;
}

static void partitions_choose(struct run *run)
{
	run->has_partitions = !run->has_engines && !random_below(run, PARTITIONS_EVERY);
	for (uint32_t i = 0; run->has_partitions && i < run->net.fabric->host_count; i++)
		host_partitions_choose(run, i);
	for (uint32_t i = 0; run->has_partitions && i < run->net.flow_count; i++) {
		struct fabric_flow *flow = &run->net.flows[i];

		flow->pkey = pkey_choices[random_below(run, PKEY_CHOICES)];
		for (uint32_t host = 0; host < run->net.fabric->host_count; host++)
			run->is_partial[i] |=
				is_receiver(run, flow, host) && !pkey_passes(run, flow, host);
	}
}

static void hosts_make(struct run *run)
{
	struct engine_hosts_init init = {
		.arena = &run->arena,
		.mtu_bytes = MTU_BYTES,
		.message_bytes = MESSAGE_BYTES,
		.depth = 2,
		.timeout = 8,
		.retry_count = 7,
	};
	struct net *net = &run->net;

	if (!run->has_engines) {
		net->sources = sources_create(
			net->fabric, &net->sources_init, net->flows, net->flow_count);
		run_check(run, net->sources, "no memory for sources");
		return;
	}
	run->memory = arena_memory_new(ARENA_BYTES);
	arena_init(&run->arena, run->memory, ARENA_BYTES);
	run->hosts = engine_hosts_create(net->fabric, &init, net->flows, net->flow_count);
	run_check(run, run->hosts, "no memory for engines");
}

static void subnet_make(struct run *run)
{
	if (infiniband_init(run->net.fabric, &run->net.infiniband))
		abort();
	for (uint32_t i = 0; i < run->net.group_count; i++) {
		uint32_t group;

		if (infiniband_add_group(run->net.fabric, run->net.groups[i], &group))
			abort();
	}
}

/*
 * Take the tables of the embedded manager. All service levels have one lane in the search for a
 * loop, so no other mapping closes one.
 */
static void embedded_try(struct run *run)
{
	struct infiniband_config *config = &run->net.infiniband;
	struct deadlock loop;

	memset(config->sl2vl, 0, sizeof(config->sl2vl));
	subnet_make(run);
	run_check(run, !simulated_tables_set(run->net.fabric), "no tables of the manager");
	run->is_embedded = !infiniband_loop_find(run->net.fabric, 1, &loop);
	run_check(run, run->is_embedded || run->net.topology.kind == TOPOLOGY_CUSTOM,
		"the embedded manager has a loop in a tree");
	if (run->is_embedded)
		return;
	run->net.fabric->link->done(run->net.fabric);
	subnet_make(run);
}

static void packet_watch(void *context, uint64_t now_ps, enum fabric_event event, uint32_t number,
	uint32_t priority, const struct fabric_packet *packet)
{
	struct run *run = (struct run *)context;
	const struct fabric_port *port = &run->net.fabric->ports[number];

	(void)now_ps;
	(void)priority;
	run_check(run,
		event != FABRIC_FRAME_REFUSED || !port->is_host ||
			!pkey_passes(run, &run->net.flows[packet->flow], port->node),
		"a host refuses a P_Key of its own");
	if (event == FABRIC_FRAME_REFUSED && port->is_host && packet->is_multicast)
		run->arrivals[packet->flow][port->node]
			     [packet->number / run->net.flows[packet->flow].payload_bytes]--;
	if (event == FABRIC_FRAME_ARRIVED && port->is_host && !packet->is_link &&
		packet->is_multicast)
		run->arrivals[packet->flow][port->node]
			     [packet->number / run->net.flows[packet->flow].payload_bytes]++;
}

/* Each packet to a group has arrived at each member but its sender exactly once. */
static void groups_check(const struct run *run)
{
	for (uint32_t i = 0; i < run->group_flow_count; i++) {
		const struct fabric_flow *flow = &run->net.flows[i];
		uint64_t packets = div_ceil_u64(flow->bytes, flow->payload_bytes);

		for (uint32_t host = 0; host < run->net.fabric->host_count; host++) {
			bool is_expected =
				is_receiver(run, flow, host) && pkey_passes(run, flow, host);

			for (uint32_t j = 0; j < packets; j++)
				run_check(run, run->arrivals[i][host][j] == is_expected,
					is_expected ? "a member has a packet not once"
						    : "a stranger has a packet");
		}
	}
}

static void run_init(struct run *run, uint64_t seed)
{
	memset(run, 0, sizeof(*run));
	run->seed = seed;
	run->random = fabric_random_make(seed, FABRIC_RANDOM_WORKLOAD, 0);
	run->has_engines = seed % ENGINES_EVERY == 0;
	net_init_infiniband(&run->net, (enum topology_kind)random_below(run, TOPOLOGY_CUSTOM + 1));
	run->net.config.seed = seed;
	run->net.config.data_capacity = engine_host_data_bytes(MTU_BYTES);
	topology_choose(run);
	links_choose(run);
	groups_choose(run);
	flows_choose(run);
	run->net.fabric = fabric_create(&run->net.config);
	if (!run->net.fabric || topology_build(run->net.fabric, &run->net.topology))
		abort();
	if (run->net.infiniband.routing != INFINIBAND_LASH && !random_below(run, EMBEDDED_EVERY))
		embedded_try(run);
	else
		subnet_make(run);
	mapping_choose(run);
	partitions_choose(run);
	hosts_make(run);
	fabric_watch(run->net.fabric, packet_watch, run);
}

/* --- time --- */

static void faults_begin(struct run *run)
{
	uint32_t count = random_below(run, FAULT_COUNT_MAX);
	struct fabric *fabric = run->net.fabric;

	while (count--) {
		struct fabric_port *port = &fabric->ports[random_below(run, fabric->port_count)];

		port->loss_ppm = random_below(run, 50000);
		port->corrupt_ppm = random_below(run, 50000);
		port->is_down = !random_below(run, 4);
	}
}

static void faults_end(struct run *run)
{
	for (uint32_t i = 0; i < run->net.fabric->port_count; i++) {
		struct fabric_port *port = &run->net.fabric->ports[i];

		port->loss_ppm = port->corrupt_ppm = 0;
		port->is_down = false;
	}
}

static bool are_all_finished(const struct run *run)
{
	for (uint32_t i = 0; i < run->net.flow_count; i++)
		if (run->is_partial[i] ? run->net.flows[i].sent_bytes < run->net.flows[i].bytes
				       : run->net.flows[i].finish_ps == FABRIC_NEVER)
			return false;
	return true;
}

/* Every queue is empty, and every sender has all credits again. */
static void quiet_check(const struct run *run)
{
	const struct fabric *fabric = run->net.fabric;

	for (uint32_t i = 0; i < fabric->port_count; i++) {
		const struct infiniband_port *port = &fabric->infiniband->ports[i];
		const struct infiniband_port *peer =
			&fabric->infiniband->ports[fabric->ports[i].peer];

		run_check(run, !port->waiting, "a packet is left");
		for (uint32_t vl = 0; vl < run->net.infiniband.data_vls; vl++) {
			run_check(run, !port->vls[vl].discards, "a packet was discarded");
			run_check(run,
				port->vls[vl].receiver.free_blocks ==
					run->net.infiniband.buffer_blocks,
				"a block is not free");
			run_check(run,
				port->vls[vl].sender.fccl == credit_limit(&peer->vls[vl].receiver),
				"a credit is lost");
		}
	}
}

/* What a flow's receivers have to have in the end. */
static uint64_t expected_bytes(const struct run *run, uint32_t number)
{
	const struct fabric_flow *flow = &run->net.flows[number];
	uint64_t bytes = 0;

	for (uint32_t host = 0; host < run->net.fabric->host_count; host++)
		if (is_receiver(run, flow, host) && pkey_passes(run, flow, host))
			bytes += flow->bytes;
	return bytes;
}

/* What all runs have done. */
struct sums {
	uint64_t events;
	uint64_t lost_packets;
	uint32_t embedded_runs;
	uint64_t hash; /* of all their histories */
};

static void sums_add(struct sums *sums, const struct fabric *fabric)
{
	sums->events += fabric->event_count;
	sums->hash = mix_u64(sums->hash ^ fabric->hash);
	for (uint32_t i = 0; i < fabric->port_count; i++)
		sums->lost_packets +=
			fabric->ports[i].lost_frames + fabric->ports[i].corrupted_frames;
}

static void subnet_run(uint64_t seed, struct sums *sums)
{
	struct run *run = (struct run *)malloc(sizeof(*run));
	struct deadlock deadlock;
	uint64_t at_ps = 0;

	if (!run)
		abort();
	run_init(run, seed);
	for (uint32_t step = 0; step < STEPS_MAX && !are_all_finished(run); step++) {
		if (step == 1 && run->has_engines)
			faults_begin(run);
		if (step == FAULTS_STEPS)
			faults_end(run);
		at_ps += STEP_US * US;
		net_run(&run->net, at_ps);
		run_check(run, !deadlock_find(run->net.fabric, &deadlock), "a deadlock");
	}
	faults_end(run);
	run_check(run, are_all_finished(run), "a flow did not finish");
	net_run(&run->net, at_ps + QUIET_US * US);
	quiet_check(run);
	for (uint32_t i = 0; i < run->net.flow_count; i++) {
		run_check(run, !run->net.flows[i].has_failed, "a flow failed");
		run_check(run, run->net.flows[i].received_bytes == expected_bytes(run, i),
			"a flow has other bytes");
	}
	groups_check(run);
	sums_add(sums, run->net.fabric);
	sums->embedded_runs += run->is_embedded;
	engine_hosts_destroy(run->hosts);
	net_done(&run->net);
	if (run->memory)
		arena_memory_free(run->memory, ARENA_BYTES);
	free(run);
}

int main(int argc, char **argv)
{
	struct seeds seeds = {1, 1000};
	struct sums sums = {0};

	if (!seeds_parse(&seeds, argc, argv))
		return 2;
	for (unsigned long long seed = seeds.first; seed <= seeds.last; seed++)
		subnet_run(seed, &sums);
	printf("%llu seeds: %llu events, %llu packets lost, %u with the embedded manager, hash "
	       "%016llx\n",
		seeds.last - seeds.first + 1, (unsigned long long)sums.events,
		(unsigned long long)sums.lost_packets, sums.embedded_runs,
		(unsigned long long)sums.hash);
	return 0;
}
