/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arith.h"
#include "common/command.h"
#include "subnet/simulated/simulated.h"

enum { PROGRESS_STEPS = 100 };

/* A local ACK timeout of code 0. */
#define TIMEOUT_UNIT_PS 4096000ull

/* Address space for the engines' queues; pages that nobody touches cost nothing. */
#define ARENA_BYTES (1ull << 32)

static bool arena_map(struct sim_run *run)
{
	uint8_t *base = (uint8_t *)mmap(NULL, ARENA_SPAN(ARENA_BYTES), PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED)
		return false;
	run->arena_memory = base;
	if (mprotect(base, ARENA_BYTES, PROT_READ | PROT_WRITE) ||
		mprotect(base + ARENA_SIDE_BYTES, ARENA_BYTES, PROT_READ | PROT_WRITE))
		return false;
	arena_init(&run->arena, base, ARENA_BYTES);
	return true;
}

/* The parameters of congestion control; NULL: it is off. */
static const struct cc_params *cc_of(const struct scenario *scenario)
{
	return scenario->cc.algorithm == CC_OFF ? NULL : &scenario->cc;
}

static bool engines_init(struct sim_run *run)
{
	const struct scenario *scenario = &run->scenario;
	struct engine_hosts_init init = {
		.arena = &run->arena,
		.mtu_bytes = scenario->mtu_bytes,
		.message_bytes = scenario->message_bytes,
		.depth = scenario->depth,
		.timeout = scenario->timeout,
		.retry_count = scenario->retry_count,
		.cc = cc_of(scenario),
		.cnp_priority = scenario->cnp_priority,
	};

	if (arena_map(run))
		run->hosts = engine_hosts_create(
			run->fabric, &init, scenario->flows, scenario->flow_count);
	return run->hosts;
}

static bool sources_init(struct sim_run *run)
{
	const struct scenario *scenario = &run->scenario;
	struct sources_init init = {
		.cc = cc_of(scenario),
		.cnp_priority = scenario->cnp_priority,
		.recovery = scenario->recovery,
		.message_bytes = scenario->message_bytes,
		.timeout_ps = TIMEOUT_UNIT_PS << scenario->timeout,
	};

	run->sources = sources_create(run->fabric, &init, scenario->flows, scenario->flow_count);
	return run->sources;
}

static int groups_init(struct sim_run *run)
{
	const struct scenario *scenario = &run->scenario;
	int error = 0;

	for (uint32_t i = 0; !error && i < scenario->group_count; i++) {
		uint32_t group;

		error = infiniband_add_group(
			run->fabric, scenario->roles + (size_t)i * run->fabric->host_count, &group);
	}
	return error;
}

/*
 * Make a subnet of the network, and give flows the service levels and P_Keys of their paths.
 * Returns 0, -ENOMEM, or as infiniband_init() and infiniband_add_group().
 */
static int subnet_init(struct sim_run *run)
{
	int error;

	if (!run->scenario.is_infiniband)
		return 0;
	error = infiniband_init(run->fabric, &run->scenario.infiniband);
	if (!error)
		error = groups_init(run);
	if (!error && run->scenario.is_embedded)
		error = simulated_tables_set(run->fabric);
	if (!error)
		error = scenario_set_tables(&run->scenario, run->fabric);
	if (!error)
		scenario_set_partitions(&run->scenario, run->fabric);
	for (uint32_t i = 0; !error && i < run->scenario.flow_count; i++) {
		struct fabric_flow *flow = &run->scenario.flows[i];

		flow->pkey = scenario_flow_pkey(run->fabric, flow);
		flow->priority = flow->is_multicast
			? infiniband_group_level(run->fabric, flow->destination, flow->priority)
			: infiniband_service_level(
				  run->fabric, flow->source, flow->destination, flow->priority);
	}
	return error;
}

static void init_complain(const struct scenario *scenario, int error)
{
	if (error == -ENETUNREACH && scenario->infiniband.routing == INFINIBAND_LASH)
		complain("lash needs more than %u lanes: \"max_op_vls\" says how many there are",
			scenario->infiniband.data_vls);
	else if (error == -ENETUNREACH)
		complain("a switch has no path to a host, or no switch is above all hosts of a multicast "
			 "workload: add cables");
	else if (error == -E2BIG)
		complain("a switch has more than %d ports: multicast workloads and the embedded "
			 "subnet manager need fewer",
			MULTICAST_PORTS_MAX - 1);
	else
		complain("no memory for %u hosts and %u flows",
			topology_host_count(&scenario->topology), scenario->flow_count);
}

/* What "dcb" says. */
static void host_configure(struct fabric *fabric, const struct scenario *scenario, uint32_t number)
{
	struct fabric_host *host = &fabric->hosts[number];

	fabric->ports[host->port].pause_ignored = scenario->pause_ignored;
	host->has_classes = scenario->has_classes;
	host->egress = scenario->egress;
	fabric_set_ingress(fabric, number, &scenario->ingress);
}

bool sim_run_init(struct sim_run *run)
{
	struct scenario *scenario = &run->scenario;
	int error = 0;
	bool is_made;

	run->fabric = fabric_create(&scenario->config);
	is_made = run->fabric && !topology_build(run->fabric, &scenario->topology);
	if (is_made)
		error = subnet_init(run);
	is_made = is_made && !error && scenario_set_routes(scenario, run->fabric);
	for (uint32_t i = 0; is_made && i < run->fabric->host_count; i++)
		host_configure(run->fabric, scenario, i);
	if (is_made)
		is_made = scenario->has_engine ? engines_init(run) : sources_init(run);
	if (!is_made)
		init_complain(scenario, error);
	return is_made;
}

void sim_run_done(struct sim_run *run)
{
	engine_hosts_destroy(run->hosts);
	sources_destroy(run->sources);
	fabric_destroy(run->fabric);
	if (run->arena_memory)
		munmap(run->arena_memory, ARENA_SPAN(ARENA_BYTES));
	free(run->sampled_bytes);
	free(run->hops);
	sim_samples_done(&run->samples);
	scenario_done(&run->scenario);
}

/* --- faults --- */

static void storm_switch(struct fabric *fabric, const struct scenario_fault *fault, bool is_on)
{
	uint32_t number = fabric->hosts[fault->from.number].port;
	uint8_t mine = (uint8_t)(1u << fault->priority);
	uint8_t others = fabric->ports[number].pause_forced & (uint8_t)~mine;

	pause_force(fabric, number, is_on ? others | mine : others);
}

static void cable_switch(struct fabric *fabric, const struct scenario_fault *fault, bool is_on)
{
	struct fabric_port *port =
		&fabric->ports[scenario_port_between(fabric, fault->from, fault->to)];

	if (fault->kind == SCENARIO_LOSS) {
		port->loss_ppm = is_on ? fault->ppm : 0;
		port->loss_period = is_on ? fault->period : 0;
	} else if (fault->kind == SCENARIO_CORRUPTION) {
		port->corrupt_ppm = is_on ? fault->ppm : 0;
	} else {
		port->is_down = is_on;
		fabric->ports[port->peer].is_down = is_on;
	}
}

static void fault_switch(struct fabric *fabric, const struct scenario_fault *fault, bool is_on)
{
	if (fault->kind == SCENARIO_STORM)
		storm_switch(fabric, fault, is_on);
	else if (fault->kind == SCENARIO_SLOW)
		fabric_slow_host(fabric, fault->from.number, is_on ? fault->take_mbps : 0,
			fault->limit_bytes);
	else
		cable_switch(fabric, fault, is_on);
}

/* Begin and end the faults whose time is now. */
static void faults_apply(struct sim_run *run)
{
	for (uint32_t i = 0; i < run->scenario.fault_count; i++) {
		const struct scenario_fault *fault = &run->scenario.faults[i];

		if (fault->end_ps == run->fabric->now_ps)
			fault_switch(run->fabric, fault, false);
		if (fault->start_ps == run->fabric->now_ps)
			fault_switch(run->fabric, fault, true);
	}
}

/* The first time after now at which a fault begins or ends. */
static uint64_t fault_next_ps(const struct sim_run *run)
{
	uint64_t next_ps = FABRIC_NEVER;

	for (uint32_t i = 0; i < run->scenario.fault_count; i++) {
		const struct scenario_fault *fault = &run->scenario.faults[i];

		if (fault->start_ps > run->fabric->now_ps)
			next_ps = min_u64(next_ps, fault->start_ps);
		if (fault->end_ps > run->fabric->now_ps)
			next_ps = min_u64(next_ps, fault->end_ps);
	}
	return next_ps;
}

/* --- time --- */

static void progress_print(const struct sim_run *run, uint64_t step)
{
	fprintf(stderr, "\r%3u %%  %llu events", (unsigned)(step * 100 / PROGRESS_STEPS),
		(unsigned long long)run->fabric->event_count);
	if (step == PROGRESS_STEPS)
		fputs("\r\033[K", stderr);
}

bool sim_run_execute(struct sim_run *run)
{
	uint64_t end_ps = run->scenario.duration_ps;
	bool has_terminal = isatty(STDERR_FILENO);
	uint64_t sample_ps = run->queues || run->has_samples ? run->interval_ps : FABRIC_NEVER;
	uint64_t step = 0;

	faults_apply(run);
	while (run->fabric->now_ps < end_ps) {
		uint64_t progress_ps = end_ps / PROGRESS_STEPS * (step + 1);
		uint64_t until_ps = min_u64(end_ps, min_u64(fault_next_ps(run), sample_ps));

		if (step + 1 < PROGRESS_STEPS)
			until_ps = min_u64(until_ps, max_u64(progress_ps, 1));
		if (fabric_run(run->fabric, until_ps)) {
			complain("no memory for more frames");
			return false;
		}
		faults_apply(run);
		if (until_ps == sample_ps) {
			if (run->queues)
				sim_csv_sample(run);
			if (run->has_samples)
				sim_samples_take(&run->samples, run);
			sample_ps += run->interval_ps;
		}
		while (step < PROGRESS_STEPS && until_ps >= end_ps / PROGRESS_STEPS * (step + 1))
			step++;
		if (has_terminal)
			progress_print(run, until_ps == end_ps ? PROGRESS_STEPS : step);
	}
	return true;
}
