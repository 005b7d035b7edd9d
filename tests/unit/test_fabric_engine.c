/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "fabric/traffic/engine_host.h"
#include "support/arena_memory.h"
#include "support/fabric_net.h"
#include "wire/bth.h"
#include "wire/roce.h"

#define MS FABRIC_PS_PER_MS

enum {
	ARENA_BYTES = 64 << 20,
	MTU_BYTES = 1024,
	MESSAGE_BYTES = 1 << 20,
	/* What a packet in the middle of a message takes on a cable. */
	WIRE_BYTES = ENGINE_HOST_FRAME_BYTES + BTH_BYTES + MTU_BYTES + ROCE_ICRC_BYTES +
		FABRIC_GAP_BYTES,
};

/* A network whose hosts are engines, in place of net.sources. */
struct engines {
	struct net net;
	struct arena arena;
	void *memory;
	struct engine_hosts *hosts;
	const struct cc_params *cc; /* NULL: none */
};

static void engines_init(struct engines *engines, enum topology_kind kind)
{
	engines->cc = NULL;
	net_init(&engines->net, kind);
	engines->net.config.frame_bytes_max = engine_host_frame_bytes(MTU_BYTES);
	engines->net.config.gap_bytes = FABRIC_GAP_BYTES;
	engines->net.config.data_capacity = engine_host_data_bytes(MTU_BYTES);
}

static void engines_start(struct engines *engines)
{
	struct engine_hosts_init init = {
		.arena = &engines->arena,
		.mtu_bytes = MTU_BYTES,
		.message_bytes = MESSAGE_BYTES,
		.depth = 2,
		.timeout = 10,
		.retry_count = 7,
		.cc = engines->cc,
		.cnp_priority = 6,
	};

	engines->memory = arena_memory_new(ARENA_BYTES);
	arena_init(&engines->arena, engines->memory, ARENA_BYTES);
	engines->net.fabric = fabric_create(&engines->net.config);
	if (!engines->net.fabric || topology_build(engines->net.fabric, &engines->net.topology))
		abort();
	engines->hosts = engine_hosts_create(
		engines->net.fabric, &init, engines->net.flows, engines->net.flow_count);
	assert_non_null(engines->hosts);
}

static void engines_done(struct engines *engines)
{
	engine_hosts_destroy(engines->hosts);
	fabric_destroy(engines->net.fabric);
	arena_memory_free(engines->memory, ARENA_BYTES);
}

static uint64_t sender_count(const struct engines *engines, uint32_t flow, enum counter counter)
{
	return counter_read(engine_hosts_sender(engines->hosts, flow)->counters, counter);
}

/* The payload that the flow brought, in parts of 1,000 of what its packets of full MTU could. */
static uint64_t goodput_permille(const struct fabric_flow *flow)
{
	uint64_t line_bytes = fabric_bytes_in(flow->finish_ps - flow->start_ps, NET_RATE_MBPS);

	return flow->bytes * WIRE_BYTES / MTU_BYTES * 1000 / line_bytes;
}

static void engines_of_two_hosts_fill_the_line_and_move_every_byte(void **state)
{
	struct engines engines;
	const struct fabric_flow *flow;

	(void)state;
	engines_init(&engines, TOPOLOGY_STAR);
	engines.net.topology.hosts = 2;
	net_flow(&engines.net, 0, 1)->bytes = 10 * MESSAGE_BYTES + 12345;
	engines_start(&engines);
	for (uint32_t i = 0; i < MESSAGE_BYTES; i++)
		engine_hosts_source_buffer(engines.hosts)[i] = (uint8_t)(i * 7 + (i >> 8));
	net_run(&engines.net, 10 * MS);
	flow = &engines.net.flows[0];
	assert_int_not_equal(flow->finish_ps, FABRIC_NEVER);
	assert_int_equal(flow->received_bytes, flow->bytes);
	assert_in_range(goodput_permille(flow), 950, 1000);
	assert_memory_equal(engine_hosts_source_buffer(engines.hosts),
		engine_hosts_target_buffer(engines.hosts), MESSAGE_BYTES);
	assert_int_equal(sender_count(&engines, 0, COUNTER_retransmitted_pkts), 0);
	engines_done(&engines);
}

/* Flows between random hosts of two priorities, in a network with paths of equal length. */
static void any_start(struct engines *engines, uint64_t seed)
{
	struct fabric_random random = fabric_random_make(seed, FABRIC_RANDOM_WORKLOAD, 0);
	uint32_t hosts;

	engines_init(engines, TOPOLOGY_LEAF_SPINE);
	engines->net.config.seed = seed;
	engines->net.topology.hosts = 4;
	engines->net.topology.leaves = 2;
	engines->net.topology.spines = 2;
	engines->net.topology.switches.lossless = 1u << 3 | 1u << 4;
	engines->net.topology.switches.pool_bytes = 1 << 18;
	engines->net.topology.switches.marking[3] = (struct marking){5000, 200000, 10000};
	hosts = topology_host_count(&engines->net.topology);
	for (uint32_t i = 0; i < 40; i++) {
		uint32_t source = (uint32_t)fabric_random_below(&random, hosts);
		uint32_t step = 1 + (uint32_t)fabric_random_below(&random, hosts - 1);
		struct fabric_flow *flow = net_flow(&engines->net, source, (source + step) % hosts);

		flow->priority = (uint8_t)(3 + fabric_random_below(&random, 2));
		flow->start_ps = fabric_random_below(&random, MS);
		flow->bytes = 1 + fabric_random_below(&random, 1 << 20);
	}
	engines_start(engines);
}

static void engines_of_a_lossless_network_finish_without_retransmissions(void **state)
{
	uint64_t hash = 0;

	(void)state;
	for (uint32_t run = 0; run < 2; run++) {
		struct engines engines;
		uint64_t pauses = 0;

		any_start(&engines, 5);
		for (uint64_t at_ps = 0; at_ps <= 10 * MS; at_ps += MS / 4)
			net_run(&engines.net, at_ps);
		for (uint32_t i = 0; i < engines.net.flow_count; i++) {
			assert_int_not_equal(engines.net.flows[i].finish_ps, FABRIC_NEVER);
			assert_int_equal(sender_count(&engines, i, COUNTER_retransmitted_pkts), 0);
		}
		for (uint32_t i = 0; i < engines.net.fabric->port_count; i++)
			pauses += engines.net.fabric->ports[i].priority[3].counters.sent_pauses;
		assert_int_not_equal(pauses, 0);
		assert_int_equal(net_discards(&engines.net), 0);
		assert_true(!run || engines.net.fabric->hash == hash);
		hash = engines.net.fabric->hash;
		engines_done(&engines);
	}
}

/* A lossy cable: the engine goes back to the lost packet, and finishes. */
static uint64_t lossy_goodput(uint32_t loss_ppm, uint32_t loss_period)
{
	struct engines engines;
	struct fabric_port *port;
	uint64_t goodput;

	engines_init(&engines, TOPOLOGY_STAR);
	engines.net.topology.hosts = 2;
	net_flow(&engines.net, 0, 1)->bytes = 8 * MESSAGE_BYTES;
	engines_start(&engines);
	port = &engines.net.fabric->ports[engines.net.fabric->hosts[0].port];
	port->loss_ppm = loss_ppm;
	port->loss_period = loss_period;
	net_run(&engines.net, 1000 * MS);
	assert_int_not_equal(engines.net.flows[0].finish_ps, FABRIC_NEVER);
	assert_int_not_equal(port->lost_frames, 0);
	assert_int_equal(engines.net.flows[0].received_bytes, engines.net.flows[0].bytes);
	goodput = goodput_permille(&engines.net.flows[0]);
	printf("loss %u ppm, one in %u: goodput %llu of 1000\n", loss_ppm, loss_period,
		(unsigned long long)goodput);
	engines_done(&engines);
	return goodput;
}

/* Of W packets in flight go-back-N sends all again: at most (1 - p) / (1 - p + p W). */
static void goodput_of_go_back_n_stays_below_the_bound(void **state)
{
	/* A round trip of four cables carries so many packets. */
	uint64_t window = fabric_bytes_in(4 * NET_DELAY_PS, NET_RATE_MBPS) / WIRE_BYTES;

	(void)state;
	for (uint32_t loss_ppm = 1000; loss_ppm <= 20000; loss_ppm += 19000 / 2) {
		uint64_t kept_ppm = 1000000 - loss_ppm;

		assert_in_range(lossy_goodput(loss_ppm, 0), 1,
			1000 * kept_ppm / (kept_ppm + loss_ppm * window));
	}
}

static void drop_in_every_256_packets_does_not_stop_go_back_n(void **state)
{
	(void)state;
	assert_int_not_equal(lossy_goodput(0, 256), 0);
}

static void pause_of_one_priority_leaves_the_other_one_alone(void **state)
{
	struct engines engines;

	(void)state;
	engines_init(&engines, TOPOLOGY_STAR);
	engines.net.topology.hosts = 3;
	net_flow(&engines.net, 0, 1);
	net_flow(&engines.net, 0, 2)->priority = 4;
	engines_start(&engines);
	pause_force(engines.net.fabric, net_port_to(&engines.net, 0), 1u << NET_PRIORITY);
	net_run(&engines.net, 2 * MS);
	assert_in_range(engines.net.flows[0].received_bytes, 0, 64 * MTU_BYTES);
	assert_in_range(engines.net.flows[1].received_bytes, 8000000, 10000000);
	engines_done(&engines);
}

static void paced_engine_keeps_its_rate(void **state)
{
	struct engines engines;
	uint64_t before;

	(void)state;
	engines_init(&engines, TOPOLOGY_STAR);
	engines.net.topology.hosts = 2;
	net_flow(&engines.net, 0, 1)->rate_mbps = 4000;
	engines_start(&engines);
	net_run(&engines.net, 10 * MS); /* the burst that pacing permits is over */
	before = engines.net.flows[0].received_bytes;
	net_run(&engines.net, 30 * MS);
	assert_in_range(engines.net.flows[0].received_bytes - before,
		10000000ull * MTU_BYTES / WIRE_BYTES * 97 / 100,
		10000000ull * MTU_BYTES / WIRE_BYTES * 103 / 100);
	engines_done(&engines);
}

/* Many connections to one host, without marks or with them. Returns the number of pauses. */
static uint64_t incast_pauses(const struct cc_params *cc)
{
	struct engines engines;
	uint64_t pauses = 0;

	engines_init(&engines, TOPOLOGY_STAR);
	engines.cc = cc;
	engines.net.topology.hosts = 5;
	engines.net.topology.switches.pool_bytes = 2 << 20;
	engines.net.topology.switches.marking[NET_PRIORITY] = (struct marking){5000, 200000, 10000};
	for (uint32_t i = 0; i < 32; i++)
		net_flow(&engines.net, 1 + i % 4, 0);
	engines_start(&engines);
	net_run(&engines.net, 10 * MS);
	for (uint32_t i = 0; i < engines.net.fabric->port_count; i++)
		pauses += engines.net.fabric->ports[i].priority[NET_PRIORITY].counters.sent_pauses;
	for (uint32_t i = 0; i < engines.net.flow_count; i++) {
		const struct counters *receiver = engine_hosts_receiver(engines.hosts, i)->counters;

		assert_int_equal(counter_read(receiver, COUNTER_np_cnp_sent),
			engines.net.flows[i].cnp_count);
		assert_int_equal(!!engines.net.flows[i].cnp_count, !!cc);
		assert_int_equal(!!sender_count(&engines, i, COUNTER_rp_cnp_handled), !!cc);
		assert_int_equal(sender_count(&engines, i, COUNTER_retransmitted_pkts), 0);
	}
	engines_done(&engines);
	return pauses;
}

static void engines_with_dcqcn_spare_the_network_pauses(void **state)
{
	struct cc_params params;
	uint64_t before = incast_pauses(NULL);
	uint64_t after;

	(void)state;
	cc_params_init(&params, CC_DCQCN, CC_PRESET_SIGCOMM15);
	params.rp_max_rate = NET_RATE_MBPS;
	after = incast_pauses(&params);
	printf("%llu pauses without DCQCN, %llu with it\n", (unsigned long long)before,
		(unsigned long long)after);
	assert_in_range(after, 0, before / 4);
}

/* Packets with a wrong ICRC never reach the engine, which sends them again. */
static void corrupted_packets_are_refused_and_sent_again(void **state)
{
	struct engines engines;
	struct fabric_port *port;

	(void)state;
	engines_init(&engines, TOPOLOGY_STAR);
	engines.net.topology.hosts = 2;
	net_flow(&engines.net, 0, 1)->bytes = 8 * MESSAGE_BYTES;
	engines_start(&engines);
	memset(engine_hosts_source_buffer(engines.hosts), 0x5a, MESSAGE_BYTES);
	port = &engines.net.fabric->ports[engines.net.fabric->hosts[0].port];
	port->corrupt_ppm = 10000;
	net_run(&engines.net, 1000 * MS);
	assert_int_not_equal(engines.net.flows[0].finish_ps, FABRIC_NEVER);
	assert_in_range(port->corrupted_frames, 10, 1000);
	assert_int_not_equal(sender_count(&engines, 0, COUNTER_retransmitted_pkts), 0);
	assert_memory_equal(engine_hosts_source_buffer(engines.hosts),
		engine_hosts_target_buffer(engines.hosts), MESSAGE_BYTES);
	engines_done(&engines);
}

static void follower_begins_when_all_has_arrived(void **state)
{
	struct engines engines;

	(void)state;
	engines_init(&engines, TOPOLOGY_STAR);
	engines.net.topology.hosts = 3;
	net_flow(&engines.net, 0, 1)->bytes = 3 * MESSAGE_BYTES;
	net_flow(&engines.net, 1, 2)->bytes = MESSAGE_BYTES;
	engines.net.flows[0].follower = 1;
	engines.net.flows[1].start_ps = FABRIC_NEVER;
	engines_start(&engines);
	net_run(&engines.net, 100 * MS);
	assert_int_not_equal(engines.net.flows[1].finish_ps, FABRIC_NEVER);
	/* The destination has the last byte before the source has its acknowledgement. */
	assert_in_range(engines.net.flows[1].start_ps,
		engines.net.flows[0].finish_ps - 10 * NET_DELAY_PS, engines.net.flows[0].finish_ps);
	assert_int_equal(engines.net.flows[1].received_bytes, MESSAGE_BYTES);
	engines_done(&engines);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(engines_of_two_hosts_fill_the_line_and_move_every_byte),
		cmocka_unit_test(engines_of_a_lossless_network_finish_without_retransmissions),
		cmocka_unit_test(goodput_of_go_back_n_stays_below_the_bound),
		cmocka_unit_test(drop_in_every_256_packets_does_not_stop_go_back_n),
		cmocka_unit_test(pause_of_one_priority_leaves_the_other_one_alone),
		cmocka_unit_test(paced_engine_keeps_its_rate),
		cmocka_unit_test(engines_with_dcqcn_spare_the_network_pauses),
		cmocka_unit_test(corrupted_packets_are_refused_and_sent_again),
		cmocka_unit_test(follower_begins_when_all_has_arrived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
