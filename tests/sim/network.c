/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Engines in random simulated networks, in two phases: first cables lose and corrupt frames, fail
 * and flap, hosts pause their switches or are slow; then all is calm, and every flow must finish.
 *
 *     sim_network [--seeds A..B | --seed N]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/traffic/engine_host.h"
#include "sim/seeds.h"
#include "support/arena_memory.h"
#include "support/fabric_net.h"

#define MS FABRIC_PS_PER_MS

enum {
	ARENA_BYTES = 64 << 20,
	MTU_BYTES = 1024,
	MESSAGE_BYTES = 1 << 16,
	FLOW_BYTES_MAX = 1 << 18,
	FAULT_COUNT_MAX = 6,
	SLOW_MBPS = 1000,
	SLOW_LIMIT_BYTES = 10000,
	FAULTS_MS = 4, /* from then on all is calm */
	CALM_MS = 2000,
};

enum trouble_kind {
	TROUBLE_LOSES_SOME,
	TROUBLE_LOSES_EACH,
	TROUBLE_IS_DOWN,
	TROUBLE_STORMS,
	TROUBLE_CORRUPTS,
	TROUBLE_FLAPS,
	TROUBLE_IS_SLOW,
	TROUBLE_KINDS
};

struct trouble {
	enum trouble_kind kind;
	uint32_t port; /* of a storm and of a slow host: the host's */
	uint64_t start_ps;
	uint64_t end_ps;
};

struct run {
	uint64_t seed;
	struct net net;
	struct fabric_random random;
	struct cc_params cc;
	struct arena arena;
	void *memory;
	struct engine_hosts *hosts;
	uint32_t fault_count;
	struct trouble faults[FAULT_COUNT_MAX];
	bool may_discard; /* pauses are lost or ignored */
};

static void run_check(const struct run *run, bool condition, const char *what, uint32_t flow)
{
	if (condition)
		return;
	printf("seed %llu, %.3f ms, flow %u: %s\n", (unsigned long long)run->seed,
		(double)run->net.fabric->now_ps / MS, flow, what);
	exit(1);
}

static uint64_t random_below(struct run *run, uint64_t limit)
{
	return fabric_random_below(&run->random, limit);
}

/* --- what is random --- */

static void topology_choose(struct run *run)
{
	struct topology *topology = &run->net.topology;

	topology->hosts = 2 + (uint32_t)random_below(run, 4);
	topology->hosts_right = 1 + (uint32_t)random_below(run, 4);
	topology->leaves = 2 + (uint32_t)random_below(run, 2);
	topology->spines = 1 + (uint32_t)random_below(run, 3);
	topology->k = 2 + 2 * (uint32_t)random_below(run, 2);
	topology->host_link.rate_mbps = 10000 << random_below(run, 4);
	topology->host_link.delay_ps = 1000 * random_below(run, 3000);
	topology->switch_link.delay_ps = 1000 * random_below(run, 3000);
}

static void switches_choose(struct run *run)
{
	static const enum fabric_watchdog_action actions[] = {FABRIC_WATCHDOG_OFF,
		FABRIC_WATCHDOG_DROP, FABRIC_WATCHDOG_FORWARD, FABRIC_WATCHDOG_ALERT};
	struct fabric_switch_config *config = &run->net.topology.switches;

	config->lossless = random_below(run, 8) ? 1u << 3 | 1u << 4 : 0;
	/* A lossy frame needs a threshold that is longer than itself. */
	config->pool_bytes = 1ull << ((config->lossless ? 14 : 17) + random_below(run, 6));
	config->dynamic_th = (int32_t)random_below(run, 7) - 4;
	config->scheduler.weight[3] = (uint8_t)(1 + random_below(run, 99));
	config->scheduler.strict = 1u << 6;
	if (random_below(run, 2))
		config->marking[3] = config->marking[4] = (struct marking){5000, 50000, 20000};
	config->watchdog = (struct fabric_watchdog){
		actions[random_below(run, ARRAY_COUNT(actions))], MS / 2, MS / 2};
	/* Switches that ignore a pause overrun their peers. */
	run->may_discard = config->watchdog.action == FABRIC_WATCHDOG_FORWARD;
}

static void flows_choose(struct run *run)
{
	uint32_t hosts = topology_host_count(&run->net.topology);
	uint32_t count = 1 + (uint32_t)random_below(run, 24);

	while (count--) {
		uint32_t source = (uint32_t)random_below(run, hosts);
		uint32_t step = 1 + (uint32_t)random_below(run, hosts - 1);
		struct fabric_flow *flow = net_flow(&run->net, source, (source + step) % hosts);

		flow->priority = (uint8_t)(3 + random_below(run, 2));
		flow->start_ps = random_below(run, 2 * MS);
		flow->bytes = 1 + random_below(run, FLOW_BYTES_MAX);
	}
}

static void faults_choose(struct run *run)
{
	const struct fabric *fabric = run->net.fabric;

	run->fault_count = (uint32_t)random_below(run, FAULT_COUNT_MAX + 1);
	for (uint32_t i = 0; i < run->fault_count; i++) {
		struct trouble *fault = &run->faults[i];

		fault->kind = (enum trouble_kind)random_below(run, TROUBLE_KINDS);
		fault->port = (uint32_t)random_below(run, fabric->port_count);
		if (fault->kind == TROUBLE_STORMS || fault->kind == TROUBLE_IS_SLOW)
			fault->port = fabric->hosts[random_below(run, fabric->host_count)].port;
		fault->start_ps = random_below(run, FAULTS_MS * MS);
		fault->end_ps =
			fault->start_ps + 1 + random_below(run, FAULTS_MS * MS - fault->start_ps);
		run->may_discard |= fault->kind == TROUBLE_IS_DOWN || fault->kind == TROUBLE_FLAPS;
	}
}

static void run_init(struct run *run, uint64_t seed)
{
	struct engine_hosts_init init = {
		.arena = &run->arena,
		.mtu_bytes = MTU_BYTES,
		.message_bytes = MESSAGE_BYTES,
		.depth = 2,
		.timeout = 14,
		.retry_count = 7,
		.cnp_priority = 6,
	};
	enum cc_algorithm algorithm;
	enum cc_preset preset;

	memset(run, 0, sizeof(*run));
	run->seed = seed;
	run->random = fabric_random_make(seed, FABRIC_RANDOM_WORKLOAD, 0);
	net_init(&run->net, (enum topology_kind)(seed % 4));
	run->net.config.seed = seed;
	run->net.config.gap_bytes = FABRIC_GAP_BYTES;
	run->net.config.response_quanta = FABRIC_RESPONSE_OF_RATE;
	run->net.config.frame_bytes_max = engine_host_frame_bytes(MTU_BYTES);
	run->net.config.data_capacity = engine_host_data_bytes(MTU_BYTES);
	topology_choose(run);
	switches_choose(run);
	flows_choose(run);
	algorithm = (enum cc_algorithm)random_below(run, CC_ALGORITHM_COUNT);
	preset = (enum cc_preset)random_below(run, CC_PRESET_COUNT);
	cc_params_init(&run->cc, algorithm, preset);
	run->cc.rp_max_rate = run->net.topology.host_link.rate_mbps;
	run->cc.rp_min_rate = 10;
	init.cc = run->cc.algorithm == CC_OFF ? NULL : &run->cc;
	run->memory = arena_memory_new(ARENA_BYTES);
	arena_init(&run->arena, run->memory, ARENA_BYTES);
	run->net.fabric = fabric_create(&run->net.config);
	if (!run->net.fabric || topology_build(run->net.fabric, &run->net.topology))
		abort();
	run->hosts =
		engine_hosts_create(run->net.fabric, &init, run->net.flows, run->net.flow_count);
	if (!run->hosts)
		abort();
	faults_choose(run);
}

/* --- time --- */

/* A flapping cable is down half of the time. */
static bool is_flap_down(const struct fabric *fabric)
{
	return fabric->now_ps / (MS / 16) % 2;
}

/* Switch the faults on and off whose time is now. */
static void faults_apply(struct run *run)
{
	for (uint32_t i = 0; i < run->fault_count; i++) {
		const struct trouble *fault = &run->faults[i];
		bool is_on = fault->start_ps <= run->net.fabric->now_ps &&
			run->net.fabric->now_ps < fault->end_ps;
		struct fabric_port *port = &run->net.fabric->ports[fault->port];

		switch (fault->kind) {
		case TROUBLE_LOSES_SOME:
			port->loss_ppm = is_on ? 10000 : 0;
			break;
		case TROUBLE_LOSES_EACH:
			port->loss_period = is_on ? 50 : 0;
			break;
		case TROUBLE_IS_DOWN:
			port->is_down = is_on;
			break;
		case TROUBLE_FLAPS:
			port->is_down = is_on && is_flap_down(run->net.fabric);
			break;
		case TROUBLE_CORRUPTS:
			port->corrupt_ppm = is_on ? 10000 : 0;
			break;
		case TROUBLE_STORMS:
			pause_force(run->net.fabric, fault->port, is_on ? 1u << 3 : 0);
			break;
		case TROUBLE_IS_SLOW:
			fabric_slow_host(run->net.fabric, port->node, is_on ? SLOW_MBPS : 0,
				SLOW_LIMIT_BYTES);
			break;
		case TROUBLE_KINDS:
			break;
		}
	}
}

static bool are_all_finished(const struct run *run)
{
	for (uint32_t i = 0; i < run->net.flow_count; i++)
		if (run->net.flows[i].finish_ps == FABRIC_NEVER)
			return false;
	return true;
}

/* Frames of lossless priorities that no switch had room for. CNPs have a lossy one. */
static uint64_t lossless_discards(const struct run *run)
{
	uint64_t frames = 0;

	for (uint32_t i = 0; i < run->net.fabric->port_count; i++)
		for (uint32_t j = 0; j < FABRIC_PRIORITY_COUNT; j++)
			if (run->net.topology.switches.lossless >> j & 1)
				frames += run->net.fabric->ports[i]
						  .priority[j]
						  .counters.discarded_frames;
	return frames;
}

static void result_check(struct run *run)
{
	for (uint32_t i = 0; i < run->net.flow_count; i++) {
		const struct fabric_flow *flow = &run->net.flows[i];

		run_check(run, !flow->has_failed, "failed", i);
		run_check(run, flow->finish_ps != FABRIC_NEVER, "did not finish", i);
		run_check(run, flow->received_bytes == flow->bytes, "has other bytes", i);
	}
	run_check(run, run->may_discard || !lossless_discards(run), "a frame was discarded", 0);
}

/* What all runs did. */
struct sums {
	uint64_t events;
	uint64_t lost_frames;
	uint64_t hash; /* of all their histories */
};

static void network_run(uint64_t seed, struct sums *sums)
{
	struct run *run = (struct run *)malloc(sizeof(*run));
	uint64_t at_ps = 0;

	if (!run)
		abort();
	run_init(run, seed);
	for (; at_ps <= FAULTS_MS * MS; at_ps += MS / 16) {
		net_run(&run->net, at_ps);
		faults_apply(run);
	}
	while (!are_all_finished(run) && at_ps < CALM_MS * MS) {
		at_ps += MS;
		net_run(&run->net, at_ps);
		faults_apply(run);
	}
	result_check(run);
	for (uint32_t i = 0; i < run->net.fabric->port_count; i++)
		sums->lost_frames += run->net.fabric->ports[i].lost_frames;
	sums->events += run->net.fabric->event_count;
	sums->hash = mix_u64(sums->hash ^ run->net.fabric->hash);
	engine_hosts_destroy(run->hosts);
	fabric_destroy(run->net.fabric);
	arena_memory_free(run->memory, ARENA_BYTES);
	free(run);
}

int main(int argc, char **argv)
{
	struct seeds seeds = {1, 100};
	struct sums sums = {0};

	if (!seeds_parse(&seeds, argc, argv))
		return 2;
	for (unsigned long long seed = seeds.first; seed <= seeds.last; seed++)
		network_run(seed, &sums);
	printf("%llu seeds: %llu events, %llu frames lost, hash %016llx\n",
		seeds.last - seeds.first + 1,
		(unsigned long long)sums.events, (unsigned long long)sums.lost_frames,
		(unsigned long long)sums.hash);
	return 0;
}
