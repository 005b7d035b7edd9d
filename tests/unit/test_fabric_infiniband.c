/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "fabric/deadlock/loop.h"
#include "support/fabric_net.h"

#define MS FABRIC_PS_PER_MS
#define US FABRIC_PS_PER_US

enum { PACKET_BLOCKS = NET_PACKET_BYTES / IB_BLOCK_BYTES };

static struct infiniband_port *port_of(const struct net *net, uint32_t number)
{
	return &net->fabric->infiniband->ports[number];
}

/* --- credits --- */

static void credits_are_modulo_4096_and_at_most_2048_ahead(void **state)
{
	struct credit_sender sender = {.fctbs = 4090, .fccl = 4};
	struct credit_receiver receiver = {.abr = 4000, .free_blocks = 5000};

	(void)state;
	assert_true(credit_allows(&sender, 10));
	assert_false(credit_allows(&sender, 11));
	assert_int_equal(credit_limit(&receiver), 4000 + 2048 - 4096);
	receiver.free_blocks = 7;
	assert_int_equal(credit_limit(&receiver), 4007);
	assert_int_equal(credit_blocks(64), 1);
	assert_int_equal(credit_blocks(65), 2);
}

/* Two hosts, a switch each, and a long cable between the switches. */
static void cable_start(struct net *net, uint64_t delay_ps, uint32_t blocks)
{
	net_init_infiniband(net, TOPOLOGY_DUMBBELL);
	net->topology.hosts = 1;
	net->topology.hosts_right = 1;
	net->topology.host_link.delay_ps = 1000;
	net->topology.switch_link.delay_ps = delay_ps;
	net->infiniband.buffer_blocks = blocks;
	net_flow(net, 0, 1);
	net_start(net);
}

/* What the flow gets between two times, in Mbit/s. */
static uint64_t flow_mbps(struct net *net, uint64_t from_ps, uint64_t until_ps)
{
	uint64_t before;

	net_run(net, from_ps);
	before = net->flows[0].received_bytes;
	net_run(net, until_ps);
	return (net->flows[0].received_bytes - before) * 8 * US / (until_ps - from_ps);
}

/*
 * C credits are back after the packet, the cable, the link packet and the cable again: a sender
 * gets C blocks through in that time, tau, if its link is fast enough.
 */
static void throughput_is_that_of_the_credits_or_of_the_link(void **state)
{
	static const uint32_t cables_m[] = {10, 100, 300, 1000, 3000, 10000};
	uint64_t link_mbps = (uint64_t)NET_RATE_MBPS * NET_PACKET_BYTES /
		(NET_PACKET_BYTES + IB_DELIMITER_BYTES);

	(void)state;
	for (uint32_t i = 0; i < ARRAY_COUNT(cables_m); i++)
		for (uint32_t blocks = PACKET_BLOCKS; blocks <= CREDIT_BLOCKS_MAX; blocks *= 2) {
			uint64_t delay_ps = cables_m[i] * 5000ull;
			uint64_t tau_ps = 2 * delay_ps +
				fabric_wire_ps(NET_PACKET_BYTES + IB_LINK_PACKET_BYTES +
						2 * IB_DELIMITER_BYTES,
					NET_RATE_MBPS);
			uint64_t credit_mbps = 8ull * IB_BLOCK_BYTES * blocks * US / tau_ps;
			uint64_t expected = min_u64(link_mbps, credit_mbps);
			struct net net;
			uint64_t mbps;

			cable_start(&net, delay_ps, blocks);
			mbps = flow_mbps(&net, MS, 4 * MS);
			if (mbps < expected * 98 / 100 || mbps > expected * 102 / 100)
				printf("%u m, %u blocks: %llu of %llu Mbit/s\n", cables_m[i],
					blocks, (unsigned long long)mbps,
					(unsigned long long)expected);
			assert_in_range(mbps, expected * 98 / 100, expected * 102 / 100);
			net_done(&net);
		}
}

static void credits_that_a_cable_loses_with_packets_come_back(void **state)
{
	struct net net;
	uint64_t mbps;

	(void)state;
	cable_start(&net, 100000, 8 * PACKET_BLOCKS);
	net.fabric->ports[net.fabric->hosts[0].port].loss_period = 10;
	mbps = flow_mbps(&net, 5 * MS, 10 * MS);
	/* Each loss holds up to a packet's credits until the next flow control packet. */
	assert_in_range(mbps, NET_RATE_MBPS / 4, NET_RATE_MBPS);
	net_done(&net);
}

/* --- arbitration --- */

/* Host 0 to 2 send to host 3, with the lanes of their service levels. */
static void lanes_init(struct net *net)
{
	net_init_infiniband(net, TOPOLOGY_STAR);
	net->topology.hosts = 4;
	net->infiniband.data_vls = 3;
	for (uint32_t i = 0; i < 3; i++) {
		net->infiniband.sl2vl[i] = (uint8_t)i;
		net_flow(net, i, 3)->priority = (uint8_t)i;
	}
}

static uint64_t lane_packets(const struct net *net, uint32_t vl)
{
	return port_of(net, net_port_to(net, 3))->vls[vl].sent_packets;
}

static void saturated_lanes_share_as_their_weights_within_a_packet(void **state)
{
	uint64_t total;
	struct net net;

	(void)state;
	lanes_init(&net);
	net.infiniband.arbitration = (struct arbitration){
		.low = {3, {{0, PACKET_BLOCKS}, {1, 2 * PACKET_BLOCKS}, {2, PACKET_BLOCKS}}}};
	net_start(&net);
	net_run(&net, MS / 10);
	for (uint32_t i = 0; i < IB_VL_COUNT; i++)
		port_of(&net, net_port_to(&net, 3))->vls[i].sent_packets = 0;
	net_run(&net, 5 * MS);
	total = lane_packets(&net, 0) + lane_packets(&net, 1) + lane_packets(&net, 2);
	assert_in_range(total, 20000, 30000);
	assert_in_range(lane_packets(&net, 0), total / 4 - 1, total / 4 + 1);
	assert_in_range(lane_packets(&net, 1), total / 2 - 1, total / 2 + 1);
	assert_in_range(lane_packets(&net, 2), total / 4 - 1, total / 4 + 1);
	net_done(&net);
}

/* The lanes that an arbiter chooses, as digits. */
static void arbiter_say(const struct arbitration *config, uint16_t ready, uint32_t bytes,
	char *said, uint32_t count)
{
	uint32_t head_bytes[IB_VL_COUNT];
	struct arbiter arbiter = {.config = config};

	for (uint32_t i = 0; i < IB_VL_COUNT; i++)
		head_bytes[i] = bytes;
	for (uint32_t i = 0; i < count; i++)
		said[i] = (char)('0' + arbiter_choose(&arbiter, ready, head_bytes));
	said[count] = 0;
}

static void weight_is_rounded_up_to_whole_packets(void **state)
{
	static const struct arbitration config = {.low = {3, {{0, 1}, {1, 20}, {2, 0}}}};
	char said[8];

	(void)state;
	/* 64 and 1,280 bytes: a packet of 1,024, and two. */
	arbiter_say(&config, 7, 1024, said, 6);
	assert_true(!memcmp(said, "110110", 6) || !memcmp(said, "011011", 6) ||
		!memcmp(said, "101101", 6));
	arbiter_say(&config, 1, 1024, said, 6);
	assert_string_equal(said, "000000");
	arbiter_say(&config, 4, 1024, said, 1);
	assert_int_equal(said[0], '0' + ARBITRATION_NONE);
}

static void high_limit_0_lets_one_packet_go_before_a_low_one(void **state)
{
	struct arbitration config = {.high = {1, {{1, 255}}}, .low = {1, {{0, 255}}}};
	char said[16];

	(void)state;
	arbiter_say(&config, 3, 1024, said, 6);
	assert_string_equal(said, "101010");
	config.high_limit = 1; /* 4,096 bytes */
	arbiter_say(&config, 3, 1024, said, 10);
	assert_string_equal(said, "1111011110");
	config.high_limit = ARBITRATION_UNLIMITED;
	arbiter_say(&config, 3, 1024, said, 6);
	assert_string_equal(said, "111111");
	arbiter_say(&config, 1, 1024, said, 3);
	assert_string_equal(said, "000");
}

static void sl2vl_depends_on_the_input_port(void **state)
{
	struct net net;
	uint32_t output;

	(void)state;
	lanes_init(&net);
	net.infiniband.arbitration = (struct arbitration){.low = {3, {{0, 16}, {1, 16}, {2, 16}}}};
	for (uint32_t i = 0; i < 3; i++)
		net.flows[i].priority = 0;
	net_start(&net);
	output = net_port_to(&net, 3);
	infiniband_set_sl2vl(net.fabric, net_port_to(&net, 1), output, 0, 2);
	infiniband_set_sl2vl(net.fabric, net_port_to(&net, 2), output, 0, IB_VL_MANAGEMENT);
	net_run(&net, MS);
	/* The packets of host 2 are discarded: their service level has no lane there. */
	assert_int_equal(lane_packets(&net, 1), 0);
	assert_in_range(
		lane_packets(&net, 0), lane_packets(&net, 2) - 1, lane_packets(&net, 2) + 1);
	assert_int_equal(net.flows[2].received_bytes, 0);
	assert_true(port_of(&net, output)->vls[IB_VL_MANAGEMENT].discards > 1000);
	net_done(&net);
}

/* --- routing --- */

enum { GRAPH_SWITCHES = 9, GRAPH_PORTS_MAX = 64 };

/* A ring of switches with a host each, and three random cables across. */
static void graph_start(struct net *net, struct topology_cable *graph, uint64_t seed)
{
	struct fabric_random random = fabric_random_make(seed, FABRIC_RANDOM_WORKLOAD, 0);
	uint32_t count = 0;

	net->topology.hosts = net->topology.switch_count = GRAPH_SWITCHES;
	net->topology.cables = graph;
	for (uint32_t i = 0; i < GRAPH_SWITCHES; i++) {
		graph[count++] = (struct topology_cable){{{true, i}, {false, i}}};
		graph[count++] =
			(struct topology_cable){{{false, i}, {false, (i + 1) % GRAPH_SWITCHES}}};
	}
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t a = (uint32_t)fabric_random_below(&random, GRAPH_SWITCHES);
		uint32_t step = 2 + (uint32_t)fabric_random_below(&random, GRAPH_SWITCHES - 3);

		graph[count++] =
			(struct topology_cable){{{false, a}, {false, (a + step) % GRAPH_SWITCHES}}};
	}
	net->topology.cable_count = count;
	net_flow(net, 0, 1);
	net_start(net);
}

/* The port through which packets to a host leave a switch. */
static uint32_t port_towards(const struct net *net, uint32_t at, uint32_t host)
{
	const struct infiniband *infiniband = net->fabric->infiniband;

	return infiniband->forwarding[at * infiniband->lid_count + infiniband_lid(host)];
}

/* Follow all paths: which port waits for which. Returns the switches on all of them. */
static uint32_t paths_follow(const struct net *net, bool waits[GRAPH_PORTS_MAX][GRAPH_PORTS_MAX])
{
	uint32_t hops = 0;

	for (uint32_t host = 0; host < net->fabric->host_count; host++)
		for (uint32_t start = 0; start < net->fabric->switch_count; start++) {
			uint32_t port = port_towards(net, start, host);

			for (hops++; !net->fabric->ports[net->fabric->ports[port].peer].is_host;
				hops++) {
				uint32_t node =
					net->fabric->ports[net->fabric->ports[port].peer].node;
				uint32_t next = port_towards(net, node, host);

				waits[port][next] = true;
				port = next;
				assert_true(hops < 10000);
			}
			assert_int_equal(
				net->fabric->ports[net->fabric->ports[port].peer].node, host);
		}
	return hops;
}

/* Remove ports that wait for none of the others; in a cycle some are left. */
static bool waits_have_cycle(const struct net *net, bool waits[GRAPH_PORTS_MAX][GRAPH_PORTS_MAX])
{
	bool is_gone[GRAPH_PORTS_MAX] = {false};
	uint32_t left = net->fabric->port_count;

	for (uint32_t round = 0; round < net->fabric->port_count; round++)
		for (uint32_t i = 0; i < net->fabric->port_count; i++) {
			bool is_waiting = false;

			for (uint32_t j = 0; j < net->fabric->port_count; j++)
				is_waiting |= waits[i][j] && !is_gone[j];
			if (is_gone[i] || is_waiting)
				continue;
			is_gone[i] = true;
			left--;
		}
	return left;
}

static void updn_has_no_cycle_of_waits_and_minhop_has_shorter_paths(void **state)
{
	uint32_t cycles = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 50; seed++) {
		uint32_t hops[2];

		for (uint32_t i = 0; i < 2; i++) {
			bool waits[GRAPH_PORTS_MAX][GRAPH_PORTS_MAX] = {{false}};
			struct topology_cable graph[2 * GRAPH_SWITCHES + 3];
			struct deadlock loop;
			struct net net;
			bool has_cycle;

			net_init_infiniband(&net, TOPOLOGY_CUSTOM);
			net.infiniband.routing = i ? INFINIBAND_UPDN : INFINIBAND_MINHOP;
			graph_start(&net, graph, seed);
			hops[i] = paths_follow(&net, waits);
			has_cycle = waits_have_cycle(&net, waits);
			assert_int_equal(infiniband_loop_find(net.fabric, 1, &loop), has_cycle);
			if (i)
				assert_false(has_cycle);
			cycles += has_cycle;
			net_done(&net);
		}
		assert_true(hops[0] <= hops[1]);
	}
	assert_true(cycles > 40);
}

static void ports_of_equal_paths_share_the_destinations(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t counts[4] = {0};
		struct net net;

		net_init_infiniband(&net, TOPOLOGY_LEAF_SPINE);
		net.infiniband.routing = i ? INFINIBAND_UPDN : INFINIBAND_MINHOP;
		net.topology.hosts = 8;
		net.topology.leaves = 2;
		net.topology.spines = 4;
		net_flow(&net, 0, 1);
		net_start(&net);
		/* Leaf 0 sends to the hosts of leaf 1 through all four spines. */
		for (uint32_t host = 8; host < 16; host++) {
			uint32_t port = port_towards(&net, 0, host);

			counts[net.fabric->ports[net.fabric->ports[port].peer].node - 2]++;
		}
		for (uint32_t j = 0; j < 4; j++)
			assert_int_equal(counts[j], 2);
		net_done(&net);
	}
}

/* --- deadlocks --- */

enum { RING = 8 };

static struct topology_cable cables[2 * RING];

/* A ring of switches with a host each that sends to all others, faster than the ring can. */
static void ring_start(struct net *net, enum infiniband_routing routing, uint64_t bytes)
{
	net->topology.hosts = RING;
	net->topology.switch_count = RING;
	net->topology.cable_count = 2 * RING;
	net->topology.cables = cables;
	net->topology.switch_link.rate_mbps = NET_RATE_MBPS / 2;
	for (uint32_t i = 0; i < RING; i++) {
		cables[i] = (struct topology_cable){{{true, i}, {false, i}}};
		cables[RING + i] = (struct topology_cable){{{false, i}, {false, (i + 1) % RING}}};
		for (uint32_t j = 1; j < RING; j++)
			net_flow(net, i, (i + j) % RING)->bytes = bytes;
	}
	net->infiniband.routing = routing;
	net->infiniband.buffer_blocks = 2 * PACKET_BLOCKS;
	net_start(net);
}

static uint32_t flows_unfinished(const struct net *net)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < net->flow_count; i++)
		count += net->flows[i].finish_ps == FABRIC_NEVER;
	return count;
}

static void ring_with_minhop_is_a_deadlock_that_names_its_cycle(void **state)
{
	struct deadlock loop;
	struct deadlock deadlock;
	struct net net;
	uint64_t received_bytes;

	(void)state;
	net_init_infiniband(&net, TOPOLOGY_CUSTOM);
	ring_start(&net, INFINIBAND_MINHOP, 4 << 20);
	net_run(&net, 10 * MS);
	assert_true(deadlock_find(net.fabric, &deadlock));
	assert_int_equal(deadlock.port_count, RING);
	assert_int_equal(infiniband_loop_find(net.fabric, 1u << NET_PRIORITY, &loop), 1);
	assert_int_equal(loop.port_count, RING);
	assert_int_equal(infiniband_loop_find(net.fabric, 0, &loop), 0);
	for (uint32_t i = 0; i < RING; i++) {
		const struct fabric_port *port = &net.fabric->ports[deadlock.ports[i]];
		uint32_t next = deadlock.ports[(i + 1) % RING];

		assert_int_equal(deadlock.lanes[i], 0);
		assert_int_equal(net.fabric->ports[port->peer].node, net.fabric->ports[next].node);
		assert_true(infiniband_wait_ps(net.fabric, deadlock.ports[i], 0) > MS);
	}
	received_bytes = net.flows[0].received_bytes;
	net_run(&net, 20 * MS);
	assert_int_equal(net.flows[0].received_bytes, received_bytes);
	assert_int_not_equal(flows_unfinished(&net), 0);
	net_done(&net);
}

static void ring_finish(enum infiniband_routing routing)
{
	struct deadlock deadlock;
	struct net net;

	net_init_infiniband(&net, TOPOLOGY_CUSTOM);
	net.infiniband.data_vls = 4;
	net.infiniband.arbitration.low =
		(struct arbitration_table){4, {{0, 1}, {1, 1}, {2, 1}, {3, 1}}};
	ring_start(&net, routing, 1 << 18);
	assert_int_equal(infiniband_loop_find(net.fabric, 0xff, &deadlock), 0);
	for (uint64_t at_ps = MS; at_ps <= 15 * MS; at_ps += MS) {
		net_run(&net, at_ps);
		assert_false(deadlock_find(net.fabric, &deadlock));
	}
	assert_int_equal(flows_unfinished(&net), 0);
	net_done(&net);
}

static void ring_with_updn_or_lash_finishes_all_flows(void **state)
{
	(void)state;
	ring_finish(INFINIBAND_UPDN);
	ring_finish(INFINIBAND_LASH);
}

static void lash_has_too_few_lanes_for_a_ring(void **state)
{
	struct net net;

	(void)state;
	net_init_infiniband(&net, TOPOLOGY_CUSTOM);
	ring_start(&net, INFINIBAND_MINHOP, 0);
	net.fabric->link->done(net.fabric);
	net.infiniband.routing = INFINIBAND_LASH;
	assert_int_equal(infiniband_init(net.fabric, &net.infiniband), -ENETUNREACH);
	assert_null(net.fabric->infiniband);
	net_done(&net);
}

/* --- lifetimes --- */

static uint64_t discards_of(const struct net *net)
{
	uint64_t discards = 0;

	for (uint32_t i = 0; i < net->fabric->port_count; i++)
		for (uint32_t vl = 0; vl < IB_VL_COUNT; vl++)
			discards += port_of(net, i)->vls[vl].discards;
	return discards;
}

static void head_of_queue_lifetime_ends_a_deadlock_and_is_counted(void **state)
{
	struct net net;
	uint64_t received_bytes;

	(void)state;
	net_init_infiniband(&net, TOPOLOGY_CUSTOM);
	net.infiniband.hoq_life_ps = infiniband_life_ps(6); /* 262 us */
	ring_start(&net, INFINIBAND_MINHOP, 0);
	net_run(&net, 5 * MS);
	received_bytes = net.flows[0].received_bytes;
	assert_int_not_equal(discards_of(&net), 0);
	net_run(&net, 20 * MS);
	assert_true(net.flows[0].received_bytes > received_bytes);
	net_done(&net);
}

/* A host whose link is down takes nothing: its switch's port keeps its credits. */
static void stuck_start(struct net *net)
{
	net_init_infiniband(net, TOPOLOGY_STAR);
	net->topology.hosts = 2;
	net_flow(net, 0, 1);
}

static void stuck_link_set(struct net *net)
{
	uint32_t port = net->fabric->hosts[1].port;

	/* Only credits do not come back. */
	net->fabric->ports[port].is_down = true;
}

static void packet_too_old_at_the_head_is_discarded_after_its_life(void **state)
{
	struct net net;
	uint32_t output;

	(void)state;
	stuck_start(&net);
	net.infiniband.hoq_life_ps = 100 * US;
	net_start(&net);
	stuck_link_set(&net);
	net_run(&net, 1090 * US);
	output = net_port_to(&net, 1);
	/* The credits are gone after 64 packets, some 13 us. One packet goes in each 100 us. */
	assert_int_equal(port_of(&net, output)->vls[0].discards, 10);
	assert_true(infiniband_wait_ps(net.fabric, output, 0) > MS);
	net_done(&net);
}

static void packet_too_old_in_its_switch_is_discarded(void **state)
{
	struct net net;

	(void)state;
	stuck_start(&net);
	net.infiniband.switch_life_ps = 100 * US;
	net_start(&net);
	stuck_link_set(&net);
	net_run(&net, 1090 * US);
	/* The whole buffer is too old after each 100 us. */
	assert_in_range(port_of(&net, net_port_to(&net, 1))->vls[0].discards, 9 * 64, 10 * 64);
	net_done(&net);
}

static void lane_that_discards_too_many_stalls_for_eight_lives(void **state)
{
	struct net net;
	struct infiniband_vl *vl;

	(void)state;
	stuck_start(&net);
	net.infiniband.hoq_life_ps = 100 * US;
	net.infiniband.vl_stall_count = 3;
	net_start(&net);
	stuck_link_set(&net);
	vl = &port_of(&net, net_port_to(&net, 1))->vls[0];
	net_run(&net, 250 * US);
	assert_int_equal(vl->discards, 2);
	net_run(&net, 400 * US);
	assert_in_range(vl->stalled_until_ps, 1100 * US, 1200 * US);
	assert_true(vl->discards > 64);
	assert_null(vl->queue.first);
	net_done(&net);
}

/* --- management packets --- */

struct manager {
	uint32_t left;
};

static bool manager_next_packet(
	void *context, struct fabric_packet *packet, uint8_t paused, uint8_t held, uint64_t now_ps)
{
	struct manager *manager = (struct manager *)context;

	(void)paused;
	(void)held;
	(void)now_ps;
	if (!manager->left)
		return false;
	manager->left--;
	packet->is_management = true;
	packet->destination = 2;
	packet->bytes = 290;
	return true;
}

static void manager_receive(void *context, const struct fabric_packet *packet, uint64_t now_ps)
{
	(void)context;
	(void)packet;
	(void)now_ps;
}

static uint64_t manager_next_time(void *context, uint64_t now_ps)
{
	(void)context;
	(void)now_ps;
	return FABRIC_NEVER;
}

static const struct fabric_host_ops manager_ops = {
	.next_packet = manager_next_packet,
	.receive = manager_receive,
	.next_time = manager_next_time,
};

/* Two hosts of a faster rate than the third's fill the switch's buffers of lane 15. */
static void management_packets_need_no_credits_and_are_dropped_when_the_buffer_is_full(void **state)
{
	struct manager managers[2] = {{100}, {100}};
	const struct infiniband_vl *vl;
	struct net net;
	uint64_t dropped = 0;

	(void)state;
	net_init_infiniband(&net, TOPOLOGY_STAR);
	net.topology.hosts = 3;
	net.infiniband.buffer_blocks = 0;
	net_start(&net);
	for (uint32_t i = 0; i < 2; i++)
		fabric_set_host(net.fabric, i, &manager_ops, &managers[i]);
	net_run(&net, MS);
	for (uint32_t i = 0; i < 2; i++)
		dropped += port_of(&net, net_port_to(&net, i))->vl15_dropped;
	vl = &port_of(&net, net_port_to(&net, 2))->vls[IB_VL_MANAGEMENT];
	assert_int_not_equal(dropped, 0);
	assert_int_equal(vl->sent_packets + dropped, 200);
	net_done(&net);
}

/* --- determinism --- */

static uint64_t any_hash(uint64_t seed)
{
	struct net net;
	uint64_t hash;

	net_init_infiniband(&net, TOPOLOGY_FAT_TREE);
	net.topology.k = 4;
	net.config.seed = seed;
	for (uint32_t i = 0; i < 16; i++)
		net_flow(&net, i, (uint32_t)(i + 1 + seed) % 16)->payload_bytes = 500 + 97 * i;
	net_start(&net);
	net_run(&net, MS);
	assert_int_equal(discards_of(&net), 0);
	hash = net.fabric->hash;
	net_done(&net);
	return hash;
}

/* The number is that of every compiler and machine. */
static void run_of_a_seed_has_one_history(void **state)
{
	(void)state;
	assert_int_equal(any_hash(7), any_hash(7));
	assert_int_not_equal(any_hash(7), any_hash(8));
	assert_true(any_hash(7) == 0xf8b7de72a842ac66);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(credits_are_modulo_4096_and_at_most_2048_ahead),
		cmocka_unit_test(throughput_is_that_of_the_credits_or_of_the_link),
		cmocka_unit_test(credits_that_a_cable_loses_with_packets_come_back),
		cmocka_unit_test(saturated_lanes_share_as_their_weights_within_a_packet),
		cmocka_unit_test(weight_is_rounded_up_to_whole_packets),
		cmocka_unit_test(high_limit_0_lets_one_packet_go_before_a_low_one),
		cmocka_unit_test(sl2vl_depends_on_the_input_port),
		cmocka_unit_test(updn_has_no_cycle_of_waits_and_minhop_has_shorter_paths),
		cmocka_unit_test(ports_of_equal_paths_share_the_destinations),
		cmocka_unit_test(ring_with_minhop_is_a_deadlock_that_names_its_cycle),
		cmocka_unit_test(ring_with_updn_or_lash_finishes_all_flows),
		cmocka_unit_test(lash_has_too_few_lanes_for_a_ring),
		cmocka_unit_test(head_of_queue_lifetime_ends_a_deadlock_and_is_counted),
		cmocka_unit_test(packet_too_old_at_the_head_is_discarded_after_its_life),
		cmocka_unit_test(packet_too_old_in_its_switch_is_discarded),
		cmocka_unit_test(lane_that_discards_too_many_stalls_for_eight_lives),
		cmocka_unit_test(
			management_packets_need_no_credits_and_are_dropped_when_the_buffer_is_full),
		cmocka_unit_test(run_of_a_seed_has_one_history),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
