/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/fabric_net.h"

#define MS FABRIC_PS_PER_MS
#define US FABRIC_PS_PER_US

/* Within 1 % of the closed form. */
static void share_check(uint32_t share, uint32_t expected)
{
	assert_in_range(share, expected * 99 / 100, expected * 101 / 100);
}

/* --- closed forms of PFC --- */

/* The length of the egress queue to `host`, on average from `from_ps` to `until_ps`. */
static uint64_t queue_mean(struct net *net, uint32_t host, uint64_t from_ps, uint64_t until_ps)
{
	uint32_t port = net_port_to(net, host);
	uint64_t before;

	net_run(net, from_ps);
	before = fabric_queue_byte_ns(net->fabric, port, NET_PRIORITY);
	net_run(net, until_ps);
	return (fabric_queue_byte_ns(net->fabric, port, NET_PRIORITY) - before) /
		((until_ps - from_ps) / FABRIC_PS_PER_NS);
}

/*
 * N senders to one fill N alpha B / (1 + N alpha) of a buffer B, and what is in flight after the
 * pause.
 */
static void queue_of_an_incast_is_the_closed_form(void **state)
{
	(void)state;
	for (uint32_t senders = 2; senders <= 16; senders *= 2) {
		struct net net;
		uint64_t expected = (uint64_t)senders * NET_POOL_BYTES / (8 + senders);
		uint64_t mean;

		net_init(&net, TOPOLOGY_STAR);
		net.topology.hosts = senders + 1;
		net.topology.switches.xon_offset_bytes = 0;
		for (uint32_t i = 1; i <= senders; i++)
			net_flow(&net, i, 0);
		net_start(&net);
		mean = queue_mean(&net, 0, 5 * MS, 15 * MS);
		printf("%u senders: %llu bytes, closed form %llu\n", senders,
			(unsigned long long)mean, (unsigned long long)expected);
		assert_in_range(mean, expected, expected * 103 / 100);
		assert_int_equal(net_discards(&net), 0);
		net_done(&net);
	}
}

static void local_sender_gets_three_times_the_share_of_remote_ones(void **state)
{
	struct net net;
	uint32_t shares[NET_FLOW_COUNT_MAX];

	(void)state;
	net_init(&net, TOPOLOGY_DUMBBELL);
	net.topology.hosts = 3;
	net.topology.hosts_right = 2;
	for (uint32_t i = 0; i < 4; i++)
		net_flow(&net, i, 4);
	net_start(&net);
	net_measure(&net, 5 * MS, 25 * MS, shares);
	for (uint32_t i = 0; i < 3; i++)
		share_check(shares[i], 10000 / 6);
	share_check(shares[3], 10000 / 2);
	assert_int_equal(net_discards(&net), 0);
	net_done(&net);
}

static void victim_gets_no_more_than_the_flows_that_congest(void **state)
{
	struct net net;
	uint32_t shares[NET_FLOW_COUNT_MAX];

	(void)state;
	net_init(&net, TOPOLOGY_DUMBBELL);
	net.topology.hosts = 3;
	net.topology.hosts_right = 4;
	net_flow(&net, 0, 5);
	net_flow(&net, 1, 5);
	net_flow(&net, 2, 6); /* the victim: nobody else sends to host 6 */
	net_flow(&net, 3, 5);
	net_flow(&net, 4, 5);
	net_start(&net);
	net_measure(&net, 5 * MS, 25 * MS, shares);
	for (uint32_t i = 0; i < 3; i++)
		share_check(shares[i], 10000 / 6);
	share_check(shares[3], 10000 / 3);
	share_check(shares[4], 10000 / 3);
	net_done(&net);
}

/* --- headroom --- */

/* Everybody sends, so that PFC frames wait for other frames. */
static uint64_t incast_discards(uint32_t headroom_bytes)
{
	struct net net;
	uint64_t discards;

	net_init(&net, TOPOLOGY_STAR);
	net.topology.hosts = 9;
	net.topology.switches.headroom_bytes = headroom_bytes;
	for (uint32_t i = 1; i <= 8; i++) {
		net_flow(&net, i, 0);
		net_flow(&net, 0, i);
	}
	net_start(&net);
	net_run(&net, 20 * MS);
	discards = net_discards(&net);
	net_done(&net);
	return discards;
}

static void headroom_of_the_bound_loses_nothing_and_a_frame_less_does(void **state)
{
	uint64_t bound = plan_headroom_bytes(NET_RATE_MBPS, NET_DELAY_PS, NET_FRAME_BYTES, 0);

	(void)state;
	assert_int_equal(incast_discards((uint32_t)bound), 0);
	assert_int_not_equal(incast_discards((uint32_t)bound - NET_FRAME_BYTES), 0);
}

/* A frame that finds the pool full, though its group is below its threshold, has room. */
static void lossless_frames_fit_when_the_pool_is_full(void **state)
{
	struct net net;

	(void)state;
	net_init(&net, TOPOLOGY_STAR);
	net.topology.hosts = 9;
	net.topology.switches.pool_bytes = 15 * NET_FRAME_BYTES;
	net.topology.switches.dynamic_th = 2;
	for (uint32_t i = 1; i <= 8; i++) {
		net_flow(&net, i, 0);
		net_flow(&net, 0, i);
	}
	net_start(&net);
	net_run(&net, 20 * MS);
	assert_int_equal(net_discards(&net), 0);
	net_done(&net);
}

/* A network with several switches, rates and cables, and flows between random hosts. */
static void any_start(struct net *net, uint64_t seed)
{
	struct fabric_random random = fabric_random_make(seed, FABRIC_RANDOM_WORKLOAD, 0);
	uint32_t hosts;

	net_init(net, TOPOLOGY_LEAF_SPINE);
	net->config.seed = seed;
	net->config.gap_bytes = FABRIC_GAP_BYTES;
	net->config.frame_bytes_max = 4200;
	net->config.response_quanta = FABRIC_RESPONSE_OF_RATE;
	net->topology.hosts = 4;
	net->topology.leaves = 3;
	net->topology.spines = 2;
	net->topology.host_link.delay_ps = 1000 * fabric_random_below(&random, 2000);
	net->topology.switch_link.rate_mbps = 100000;
	net->topology.switches.pool_bytes = 1 << 20;
	net->topology.switches.dynamic_th = (int32_t)fabric_random_below(&random, 6) - 3;
	net->topology.switches.marking[NET_PRIORITY] = (struct marking){5000, 200000, 10000};
	hosts = topology_host_count(&net->topology);
	for (uint32_t i = 0; i < 40; i++) {
		uint32_t source = (uint32_t)fabric_random_below(&random, hosts);
		uint32_t step = 1 + (uint32_t)fabric_random_below(&random, hosts - 1);
		struct fabric_flow *flow = net_flow(net, source, (source + step) % hosts);

		flow->header_bytes = 64;
		flow->payload_bytes = 1 + (uint32_t)fabric_random_below(&random, 4136);
		flow->start_ps = fabric_random_below(&random, MS);
		flow->bytes = 1 + fabric_random_below(&random, 1 << 22);
	}
	net_start(net);
}

static void lossless_network_drops_nothing_and_finishes_every_flow(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct net net;

		any_start(&net, seed);
		for (uint64_t at_ps = 0; at_ps <= 40 * MS; at_ps += MS / 4)
			net_run(&net, at_ps);
		assert_int_equal(net_discards(&net), 0);
		for (uint32_t i = 0; i < net.flow_count; i++)
			assert_int_not_equal(net.flows[i].finish_ps, FABRIC_NEVER);
		assert_int_equal(net.fabric->pool.used, 0);
		net_done(&net);
	}
}

/* --- determinism --- */

static uint64_t any_hash(uint64_t seed)
{
	struct net net;
	uint64_t hash;

	any_start(&net, seed);
	net_run(&net, 5 * MS);
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
	assert_true(any_hash(7) == 0x54e3bae15e2e4c71);
}

/* --- the scheduler of a port --- */

/* Three hosts with a priority each, to one. */
static void classes_start(struct net *net)
{
	net_init(net, TOPOLOGY_STAR);
	net->topology.hosts = 4;
	net->topology.switches.lossless = 0xff;
	net->topology.switches.scheduler = (struct scheduler){.weight = {33, 33, 34}};
	for (uint32_t i = 0; i < 3; i++)
		net_flow(net, i + 1, 0)->priority = (uint8_t)i;
}

static void shares_of_a_saturated_port_are_exact(void **state)
{
	static const uint32_t percent[] = {33, 33, 34};
	struct net net;
	uint64_t total = 0;
	const struct port_priority *of;

	(void)state;
	classes_start(&net);
	net_start(&net);
	net_run(&net, 10 * MS);
	of = net.fabric->ports[net_port_to(&net, 0)].priority;
	for (uint32_t i = 0; i < 3; i++)
		total += of[i].counters.sent_bytes;
	for (uint32_t i = 0; i < 3; i++) {
		uint64_t slack = percent[i] * SCHEDULER_QUANTUM_BYTES + NET_FRAME_BYTES;
		uint64_t expected = total * percent[i] / 100;

		assert_in_range(of[i].counters.sent_bytes, expected - slack, expected + slack);
	}
	net_done(&net);
}

static void share_of_an_idle_class_goes_to_the_others(void **state)
{
	struct net net;
	uint32_t shares[NET_FLOW_COUNT_MAX];

	(void)state;
	classes_start(&net);
	net.flows[2].bytes = 1;
	net_start(&net);
	net_measure(&net, 5 * MS, 15 * MS, shares);
	share_check(shares[0], 5000);
	share_check(shares[1], 5000);
	net_done(&net);
}

/* --- pauses --- */

static void pause_without_a_repetition_ends_after_its_time(void **state)
{
	struct net net;
	const struct port_priority *of;

	(void)state;
	net_init(&net, TOPOLOGY_STAR);
	net.topology.hosts = 2;
	net_flow(&net, 1, 0);
	net_start(&net);
	net_run(&net, 10 * US);
	pause_force(net.fabric, net.fabric->hosts[0].port, 1u << NET_PRIORITY);
	net_run(&net, 20 * US);
	net.fabric->ports[net.fabric->hosts[0].port].is_down = true;
	net_run(&net, 5 * MS);
	of = &net.fabric->ports[net_port_to(&net, 0)].priority[NET_PRIORITY];
	assert_int_equal(of->counters.received_pauses, 1);
	assert_int_equal(of->counters.paused_ps, 838848000);
	net_done(&net);
}

static void repeated_pause_holds_until_it_is_taken_back(void **state)
{
	struct net net;
	uint32_t port;
	uint64_t sent_frames;

	(void)state;
	net_init(&net, TOPOLOGY_STAR);
	net.topology.hosts = 3;
	net_flow(&net, 1, 0);
	net_flow(&net, 1, 2)->priority = 0;
	net_start(&net);
	port = net_port_to(&net, 0);
	pause_force(net.fabric, net.fabric->hosts[0].port, 1u << NET_PRIORITY);
	net_run(&net, 20 * US);
	sent_frames = net.fabric->ports[port].priority[NET_PRIORITY].counters.sent_frames;
	net_run(&net, 20 * MS);
	assert_int_equal(
		net.fabric->ports[port].priority[NET_PRIORITY].counters.sent_frames, sent_frames);
	/* The pause has spread to host 1, and its other priority has the whole line. */
	assert_int_equal(net.fabric->ports[net.fabric->hosts[1].port].paused, 1u << NET_PRIORITY);
	pause_force(net.fabric, net.fabric->hosts[0].port, 0);
	net_run(&net, 21 * MS);
	assert_true(net.fabric->ports[port].priority[NET_PRIORITY].counters.sent_frames >
		sent_frames + 1000);
	net_done(&net);
}

/* --- the watchdog --- */

/* Host 0 pauses its switch for ever; host 1 sends to it, and to host 2. */
static void storm_start(struct net *net, enum fabric_watchdog_action action)
{
	net_init(net, TOPOLOGY_STAR);
	net->topology.hosts = 3;
	net->topology.switches.watchdog = (struct fabric_watchdog){action, 4 * MS, 4 * MS};
	net_flow(net, 1, 0);
	net_flow(net, 1, 2);
	net_start(net);
	pause_force(net->fabric, net->fabric->hosts[0].port, 1u << NET_PRIORITY);
}

static void watchdog_drops_a_stuck_queue_and_frees_the_others(void **state)
{
	struct net net;
	uint32_t shares[NET_FLOW_COUNT_MAX];
	const struct fabric_port *port;

	(void)state;
	storm_start(&net, FABRIC_WATCHDOG_DROP);
	port = &net.fabric->ports[net_port_to(&net, 0)];
	net_run(&net, 2 * MS);
	net_measure(&net, 2 * MS, 3 * MS, shares);
	assert_int_equal(shares[1], 0); /* the storm has stopped host 1 altogether */
	net_run(&net, 6 * MS);
	assert_int_equal(port->priority[NET_PRIORITY].counters.storms, 1);
	assert_int_not_equal(port->priority[NET_PRIORITY].counters.storm_drops, 0);
	net_measure(&net, 7 * MS, 9 * MS, shares);
	share_check(shares[1], 5000);
	pause_force(net.fabric, net.fabric->hosts[0].port, 0);
	net_measure(&net, 15 * MS, 17 * MS, shares);
	assert_int_equal(port->stormed, 0);
	share_check(shares[0], 5000);
	net_done(&net);
}

static void watchdog_may_forward_in_spite_of_a_pause(void **state)
{
	struct net net;
	uint32_t shares[NET_FLOW_COUNT_MAX];

	(void)state;
	storm_start(&net, FABRIC_WATCHDOG_FORWARD);
	net_measure(&net, 8 * MS, 10 * MS, shares);
	share_check(shares[0], 5000);
	share_check(shares[1], 5000);
	net_done(&net);
}

static void watchdog_may_only_count(void **state)
{
	struct net net;
	uint32_t shares[NET_FLOW_COUNT_MAX];

	(void)state;
	storm_start(&net, FABRIC_WATCHDOG_ALERT);
	net_measure(&net, 8 * MS, 10 * MS, shares);
	assert_int_equal(shares[0], 0);
	assert_int_equal(shares[1], 0);
	assert_int_equal(
		net.fabric->ports[net_port_to(&net, 0)].priority[NET_PRIORITY].counters.storms, 1);
	net_done(&net);
}

/* --- paths --- */

static void fat_tree_reaches_every_host_over_many_paths(void **state)
{
	struct net net;
	uint32_t used = 0;

	(void)state;
	net_init(&net, TOPOLOGY_FAT_TREE);
	net.topology.k = 4;
	for (uint32_t i = 0; i < 16; i++)
		for (uint32_t j = 0; j < 4; j++)
			net_flow(&net, i, (i + 4) % 16)->bytes = 10 * NET_FRAME_BYTES;
	net_start(&net);
	assert_int_equal(net.fabric->host_count, 16);
	assert_int_equal(net.fabric->switch_count, 20);
	assert_int_equal(net.fabric->port_count, 2 * 48);
	net_run(&net, 5 * MS);
	for (uint32_t i = 0; i < net.flow_count; i++)
		assert_int_not_equal(net.flows[i].finish_ps, FABRIC_NEVER);
	for (uint32_t i = 0; i < net.fabric->port_count; i++) {
		const struct fabric_port *port = &net.fabric->ports[i];

		used += !port->is_host && port->node >= 16 &&
			port->priority[NET_PRIORITY].counters.sent_frames;
	}
	/* The four core switches have 16 ports. */
	assert_in_range(used, 8, 16);
	net_done(&net);
}

static void cable_loses_what_it_is_told_to(void **state)
{
	struct net net;
	const struct fabric_port *port;

	(void)state;
	net_init(&net, TOPOLOGY_STAR);
	net.topology.hosts = 2;
	net_flow(&net, 1, 0)->bytes = 2560 * NET_FRAME_BYTES;
	net_start(&net);
	port = &net.fabric->ports[net.fabric->hosts[1].port];
	net.fabric->ports[net.fabric->hosts[1].port].loss_period = 256;
	net_run(&net, 5 * MS);
	assert_int_equal(port->lost_frames, 10);
	assert_int_equal(net.flows[0].received_frames, 2550);
	assert_int_equal(net.flows[0].finish_ps, FABRIC_NEVER);
	net_done(&net);
}

/* What arrives within 50 ms over a cable that loses every 256th frame, in frames. */
static uint64_t lossy_frames(
	enum source_recovery recovery, uint32_t message_frames, uint64_t *ret_sent_frames)
{
	struct net net;
	uint64_t frames;

	net_init(&net, TOPOLOGY_STAR);
	net.topology.hosts = 2;
	net.sources_init = (struct sources_init){.cnp_priority = 6,
		.recovery = recovery,
		.message_bytes = message_frames * NET_FRAME_BYTES,
		.timeout_ps = MS};
	net_flow(&net, 1, 0);
	net_start(&net);
	net.fabric->ports[net.fabric->hosts[1].port].loss_period = 256;
	net_run(&net, 50 * MS);
	assert_int_equal(net.flows[0].finish_ps, FABRIC_NEVER);
	frames = net.flows[0].received_bytes / NET_FRAME_BYTES;
	*ret_sent_frames = net.flows[0].sent_bytes / NET_FRAME_BYTES;
	printf("messages of %u frames: %llu sent, %llu received\n", message_frames,
		(unsigned long long)*ret_sent_frames, (unsigned long long)frames);
	net_done(&net);
	return frames;
}

/*
 * Go-back-0 sends a message again from its first frame. If each message loses one, none ever
 * arrives, and the cable is full all the same.
 */
static void go_back_0_livelocks_and_go_back_n_does_not(void **state)
{
	uint64_t line_frames = fabric_bytes_in(50 * MS, NET_RATE_MBPS) / NET_FRAME_BYTES;
	uint64_t sent_frames;

	(void)state;
	assert_int_equal(lossy_frames(SOURCE_GO_BACK_0, 256, &sent_frames), 0);
	assert_in_range(sent_frames, line_frames * 99 / 100, line_frames + 1);
	assert_in_range(lossy_frames(SOURCE_GO_BACK_N, 256, &sent_frames), line_frames * 85 / 100,
		line_frames);
	/* A shorter message arrives between two losses. */
	assert_int_not_equal(lossy_frames(SOURCE_GO_BACK_0, 100, &sent_frames), 0);
}

static void recovery_finishes_what_cables_lose(void **state)
{
	struct net net;

	(void)state;
	net_init(&net, TOPOLOGY_DUMBBELL);
	net.topology.hosts = 3;
	net.topology.hosts_right = 3;
	net.sources_init = (struct sources_init){
		.cnp_priority = 6, .recovery = SOURCE_GO_BACK_N, .timeout_ps = MS / 10};
	for (uint32_t i = 0; i < 12; i++)
		net_flow(&net, i % 3, 3 + i % 2)->bytes = 12345 * (i + 1);
	net_start(&net);
	/* In both directions, NAKs too. */
	for (uint32_t i = 0; i < net.fabric->port_count; i++)
		net.fabric->ports[i].loss_ppm = 20000;
	net_run(&net, 100 * MS);
	for (uint32_t i = 0; i < net.flow_count; i++) {
		assert_int_not_equal(net.flows[i].finish_ps, FABRIC_NEVER);
		assert_int_equal(net.flows[i].received_bytes, net.flows[i].bytes);
	}
	net_done(&net);
}

/* A plain source does not repeat a frame whose checksum is wrong at the end of its cable. */
static void cable_corrupts_what_it_is_told_to(void **state)
{
	struct net net;
	const struct fabric_port *port;

	(void)state;
	net_init(&net, TOPOLOGY_STAR);
	net.topology.hosts = 2;
	net_flow(&net, 1, 0)->bytes = 10000 * NET_FRAME_BYTES;
	net_start(&net);
	port = &net.fabric->ports[net.fabric->hosts[1].port];
	net.fabric->ports[net.fabric->hosts[1].port].corrupt_ppm = 100000;
	net_run(&net, 5 * MS);
	assert_in_range(port->corrupted_frames, 900, 1100);
	assert_int_equal(net.flows[0].received_frames, 10000 - port->corrupted_frames);
	assert_int_equal(port->lost_frames, 0);
	net_done(&net);
}

static void switch_and_hosts_may_disagree_about_priorities(void **state)
{
	struct net net;

	(void)state;
	net_init(&net, TOPOLOGY_STAR);
	net.topology.hosts = 3;
	net.topology.switches.has_dscp_map = true;
	net.topology.switches.priority_of_dscp[26] = NET_PRIORITY;
	net_flow(&net, 1, 0)->dscp = 26;
	net_flow(&net, 2, 0)->dscp = 8; /* the switch takes it for priority 0 */
	net_start(&net);
	net_run(&net, 10 * MS);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(!net.fabric->ports[net_port_to(&net, 1 + i)]
					  .priority[i ? 0 : NET_PRIORITY]
					  .counters.discarded_frames,
			!i);
	net_done(&net);
}

static void host_may_ignore_pauses(void **state)
{
	struct net net;

	(void)state;
	net_init(&net, TOPOLOGY_STAR);
	net.topology.hosts = 3;
	net_flow(&net, 1, 0);
	net_flow(&net, 2, 0);
	net_start(&net);
	net.fabric->ports[net.fabric->hosts[1].port].pause_ignored = 1u << NET_PRIORITY;
	net_run(&net, 10 * MS);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(!net.fabric->ports[net_port_to(&net, 1 + i)]
					  .priority[NET_PRIORITY]
					  .counters.discarded_frames,
			i);
	net_done(&net);
}

/* A host that takes a tenth of its line pauses its switch, and loses nothing. */
static void slow_host_pauses_its_switch(void **state)
{
	struct net net;
	uint32_t shares[NET_FLOW_COUNT_MAX];
	const struct port_counters *counters;

	(void)state;
	net_init(&net, TOPOLOGY_STAR);
	net.topology.hosts = 3;
	net_flow(&net, 1, 0);
	net_flow(&net, 2, 1); /* another host's traffic does not suffer */
	net_start(&net);
	fabric_slow_host(net.fabric, 0, NET_RATE_MBPS / 10, 20 * NET_FRAME_BYTES);
	net_measure(&net, 5 * MS, 25 * MS, shares);
	share_check(shares[0], 1000);
	share_check(shares[1], 10000);
	counters = &net.fabric->ports[net.fabric->hosts[0].port].priority[NET_PRIORITY].counters;
	assert_int_not_equal(counters->sent_pauses, 0);
	assert_int_equal(net_discards(&net), 0);
	/* More than its limit waits for it only as long as its switch does not heed the pause. */
	assert_in_range(net.fabric->hosts[0].ingress.used_bytes[0], 0,
		20 * NET_FRAME_BYTES + fabric_bytes_in(2 * NET_DELAY_PS, NET_RATE_MBPS) +
			3 * NET_FRAME_BYTES);
	fabric_slow_host(net.fabric, 0, 0, 0);
	net_measure(&net, 26 * MS, 36 * MS, shares);
	share_check(shares[0], 10000);
	assert_int_equal(net.fabric->hosts[0].ingress.used_bytes[0], 0);
	net_done(&net);
}

static void paced_flow_keeps_its_rate(void **state)
{
	struct net net;
	uint32_t shares[NET_FLOW_COUNT_MAX] = {0};

	(void)state;
	net_init(&net, TOPOLOGY_STAR);
	net.topology.hosts = 2;
	net_flow(&net, 1, 0)->rate_mbps = 10000;
	net_flow(&net, 1, 0)->rate_mbps = 5000;
	net_start(&net);
	net_measure(&net, 1 * MS, 5 * MS, shares);
	share_check(shares[0], 2500);
	share_check(shares[1], 1250);
	net_done(&net);
}

/*
 * A ring all-reduce: each host sends a share to the next one in 2 (N - 1) steps, each when it has
 * the share of the step before. A step takes the share's time on a cable, a frame's on the second
 * one, and both cables' delays.
 */
static void ring_takes_its_steps_one_after_the_other(void **state)
{
	enum { HOSTS = 4, STEPS = 2 * (HOSTS - 1), SHARE_FRAMES = 100 };
	uint64_t frame_ps = fabric_wire_ps(NET_FRAME_BYTES, NET_RATE_MBPS);
	uint64_t step_ps = (SHARE_FRAMES + 1) * frame_ps + 2 * NET_DELAY_PS;
	struct net net;

	(void)state;
	net_init(&net, TOPOLOGY_STAR);
	net.topology.hosts = HOSTS;
	for (uint32_t i = 0; i < STEPS * HOSTS; i++) {
		struct fabric_flow *flow = net_flow(&net, i % HOSTS, (i + 1) % HOSTS);

		flow->bytes = SHARE_FRAMES * NET_FRAME_BYTES;
		flow->start_ps = i < HOSTS ? 0 : FABRIC_NEVER;
		if (i / HOSTS + 1 < STEPS)
			flow->follower = (i / HOSTS + 1) * HOSTS + (i + 1) % HOSTS;
	}
	net_start(&net);
	net_run(&net, 10 * MS);
	for (uint32_t i = 0; i < net.flow_count; i++) {
		assert_int_equal(net.flows[i].start_ps, i / HOSTS * step_ps);
		assert_int_equal(net.flows[i].finish_ps, (i / HOSTS + 1) * step_ps);
	}
	net_done(&net);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(queue_of_an_incast_is_the_closed_form),
		cmocka_unit_test(local_sender_gets_three_times_the_share_of_remote_ones),
		cmocka_unit_test(victim_gets_no_more_than_the_flows_that_congest),
		cmocka_unit_test(headroom_of_the_bound_loses_nothing_and_a_frame_less_does),
		cmocka_unit_test(lossless_frames_fit_when_the_pool_is_full),
		cmocka_unit_test(lossless_network_drops_nothing_and_finishes_every_flow),
		cmocka_unit_test(run_of_a_seed_has_one_history),
		cmocka_unit_test(shares_of_a_saturated_port_are_exact),
		cmocka_unit_test(share_of_an_idle_class_goes_to_the_others),
		cmocka_unit_test(pause_without_a_repetition_ends_after_its_time),
		cmocka_unit_test(repeated_pause_holds_until_it_is_taken_back),
		cmocka_unit_test(watchdog_drops_a_stuck_queue_and_frees_the_others),
		cmocka_unit_test(watchdog_may_forward_in_spite_of_a_pause),
		cmocka_unit_test(watchdog_may_only_count),
		cmocka_unit_test(fat_tree_reaches_every_host_over_many_paths),
		cmocka_unit_test(cable_loses_what_it_is_told_to),
		cmocka_unit_test(go_back_0_livelocks_and_go_back_n_does_not),
		cmocka_unit_test(recovery_finishes_what_cables_lose),
		cmocka_unit_test(cable_corrupts_what_it_is_told_to),
		cmocka_unit_test(switch_and_hosts_may_disagree_about_priorities),
		cmocka_unit_test(host_may_ignore_pauses),
		cmocka_unit_test(slow_host_pauses_its_switch),
		cmocka_unit_test(paced_flow_keeps_its_rate),
		cmocka_unit_test(ring_takes_its_steps_one_after_the_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
