/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf.h"

#include <stdlib.h>

#include "nvmf_load.h"
#include "nvmf_network.h"
#include "nvmf_target.h"
#include "nvmf_verbs.h"

enum { STEPS_MAX = 4000000 };

/*
 * After the last fault, the longest time without progress: until the next request is done, or until
 * the target is idle. It is enough for the time-outs of a host, an Abort, and some attempts to
 * connect.
 */
#define CALM_NS (60 * NVMF_S)

/* A machine that may be paused. */
struct pause {
	struct loop_timer timer;
	struct nvmf_world *world;
	unsigned machine;
};

/* A host that is down. */
struct boot {
	struct loop_timer timer;
	struct nvmf_load *load;
};

/* A host that gives its connections up. */
struct lapse {
	struct loop_timer timer;
	struct run *run;
	unsigned host;
};

struct run {
	struct nvmf_world world;
	struct nvmf_plan plan;
	struct nvmf_network *network;
	struct register_set *registers;
	struct nvmf_target *target;
	struct nvmf_load *load[NVMF_HOSTS];
	struct nvmf_load_counts counts;
	uint64_t recent[NVMF_NAMESPACES_MAX * NVMF_BLOCKS_MAX];
	struct loop_timer fault;
	struct loop_timer start; /* of the target */
	struct pause pause[NVMF_MACHINES];
	struct boot boot[NVMF_HOSTS];
	struct lapse lapse[NVMF_HOSTS];
	unsigned faults_left;
	bool is_over; /* the time of faults */
	uint64_t faults;
};

static bool report(void *context, unsigned machine)
{
	struct run *run = context;

	bool has_streams = nvmf_network_report(run->network, machine);
	bool has_channels = nvmf_verbs_report(machine);

	return has_streams || has_channels;
}

/* --- faults --- */

static void start_expired(struct loop_timer *timer)
{
	struct run *run = container_of(timer, struct run, start);

	nvmf_network_set_down(run->network, NVMF_TARGET, false);
	nvmf_target_start(run->target);
}

static void target_crash(struct run *run)
{
	bool is_machine = nvmf_below(&run->world, 2);

	run->world.is_paused[NVMF_TARGET] = false;
	nvmf_target_crash(run->target, is_machine);
	for (unsigned i = 0; i < NVMF_HOSTS; i++)
		nvmf_load_target_crashed(run->load[i]);
	if (is_machine && run->plan.loses_writes)
		register_crash(run->registers);
	nvmf_network_set_down(run->network, NVMF_TARGET, is_machine);
	loop_timer_set(run->world.clock, &run->start,
		run->world.now_ns + nvmf_any_size(&run->world, NVMF_MS, run->plan.fault_ns));
}

static void pause_expired(struct loop_timer *timer)
{
	struct pause *pause = container_of(timer, struct pause, timer);

	pause->world->is_paused[pause->machine] = false;
}

static void machine_pause(struct run *run)
{
	unsigned machine = (unsigned)nvmf_below(&run->world, NVMF_MACHINES);
	uint64_t pause_ns = nvmf_any_size(&run->world, NVMF_MS, run->plan.fault_ns);

	nvmf_trace(&run->world, "machine %u is paused for %llu ms", machine,
		(unsigned long long)(pause_ns / NVMF_MS));
	run->world.is_paused[machine] = true;
	loop_timer_set(run->world.clock, &run->pause[machine].timer, run->world.now_ns + pause_ns);
}

static void boot_expired(struct loop_timer *timer)
{
	struct boot *boot = container_of(timer, struct boot, timer);

	nvmf_load_start(boot->load);
}

/*
 * A program ends, and its kernel resets its streams; or a machine ends, and the target gets no
 * reset.
 */
static void host_restart(struct run *run)
{
	unsigned host = (unsigned)nvmf_below(&run->world, NVMF_HOSTS);
	bool is_machine = nvmf_below(&run->world, 2);
	uint64_t down_ns = nvmf_any_size(&run->world, NVMF_MS, NVMF_S);

	nvmf_trace(&run->world, "host %u: its %s ends", host, is_machine ? "machine" : "program");
	nvmf_network_crash(run->network, host, !is_machine);
	nvmf_verbs_crash(host, !is_machine);
	nvmf_load_stop(run->load[host]);
	loop_timer_set(run->world.clock, &run->boot[host].timer, run->world.now_ns + down_ns);
}

/* A host gives its connections up, and its resets get lost: the target goes on with them. */
static void lapse_expired(struct loop_timer *timer)
{
	struct lapse *lapse = container_of(timer, struct lapse, timer);

	nvmf_trace(&lapse->run->world, "host %u gives its connections up", lapse->host);
	nvmf_network_crash(lapse->run->network, lapse->host, false);
	nvmf_verbs_crash(lapse->host, false);
}

/* Mostly with commands that the target has delayed, and would execute after those that follow. */
static void host_lapse(struct run *run, unsigned host)
{
	uint64_t wait_ns = nvmf_any_size(&run->world, NVMF_MS, run->plan.fault_gap_ns);

	if (nvmf_target_is_up(run->target) && nvmf_below(&run->world, 4))
		nvmf_target_delay_writes(run->target, host, wait_ns);
	loop_timer_set(run->world.clock, &run->lapse[host].timer, run->world.now_ns + wait_ns);
}

static void network_fault(struct run *run)
{
	struct nvmf_world *world = &run->world;
	unsigned host = (unsigned)nvmf_below(world, NVMF_HOSTS);
	const struct nvmf_plan_host *plan = &run->plan.host[host];
	uint64_t time_ns = nvmf_any_size(world, NVMF_MS, run->plan.fault_ns);
	unsigned kind = (unsigned)nvmf_below(world, 11);

	nvmf_trace(world, "network: fault %u, host %u, %llu ms", kind, host,
		(unsigned long long)(time_ns / NVMF_MS));
	switch (kind) {
	case 0:
		(void)nvmf_network_reset(run->network);
		nvmf_verbs_reset(false);
		break;
	case 1:
		(void)nvmf_network_reset_half(run->network);
		nvmf_verbs_reset(true);
		break;
	case 2:
		(void)nvmf_network_end_half(run->network);
		break;
	case 3:
		(void)nvmf_network_stall(run->network, time_ns);
		break;
	case 4:
	case 5:
		for (int i = 0; i < 4 && plan->has_header_digest && plan->has_data_digest; i++)
			(void)nvmf_network_invert(run->network, host);
		break;
	case 6:
		nvmf_network_starve(run->network, (unsigned)nvmf_between(world, 1, 4));
		break;
	case 7:
		host_lapse(run, host);
		break;
	default:
		if (run->plan.has_cuts)
			nvmf_network_cut(run->network, host, time_ns);
		break;
	}
}

static void target_fault(struct run *run)
{
	switch (nvmf_below(&run->world, 8)) {
	case 0:
		target_crash(run);
		break;
	case 1:
	case 2:
		nvmf_target_change_namespace(run->target);
		break;
	case 3:
		nvmf_target_disconnect_all(run->target);
		break;
	case 4:
		nvmf_target_inject_clear(run->target);
		break;
	case 5:
		nvmf_target_trouble(run->target, (unsigned)nvmf_below(&run->world, 20),
			run->plan.disk_delay_ns);
		break;
	default:
		nvmf_target_inject(run->target);
		break;
	}
}

static void fault_expired(struct loop_timer *timer)
{
	struct run *run = container_of(timer, struct run, fault);
	uint64_t kind = nvmf_below(&run->world, 16);

	if (run->faults_left == 0) {
		run->is_over = true;
		return;
	}
	run->faults_left--;
	run->faults++;
	if (kind == 0)
		host_restart(run);
	else if (kind < 3)
		machine_pause(run);
	else if (kind < 9 && nvmf_target_is_up(run->target))
		target_fault(run);
	else
		network_fault(run);
	/* The last ones may last, too. */
	loop_timer_set(run->world.clock, timer,
		run->world.now_ns +
			nvmf_any_size(&run->world, NVMF_MS,
				run->faults_left ? run->plan.fault_gap_ns : 16 * NVMF_S));
}

/* All that fails is mended. */
static void calm(struct run *run)
{
	nvmf_trace(&run->world, "calm");
	loop_timer_cancel(&run->fault);
	for (unsigned i = 0; i < NVMF_HOSTS; i++)
		loop_timer_cancel(&run->lapse[i].timer);
	for (unsigned i = 0; i < NVMF_MACHINES; i++) {
		loop_timer_cancel(&run->pause[i].timer);
		run->world.is_paused[i] = false;
	}
	if (!nvmf_target_is_up(run->target)) {
		loop_timer_cancel(&run->start);
		start_expired(&run->start);
	}
	nvmf_network_heal(run->network);
	nvmf_target_inject_clear(run->target);
	nvmf_target_trouble(run->target, 0, 100 * NVMF_US);
	for (unsigned i = 0; i < NVMF_HOSTS; i++)
		nvmf_load_hurry(run->load[i]);
}

/* --- phases --- */

static void step(struct run *run)
{
	nvmf_world_step(&run->world, UINT64_MAX);
	NVMF_CHECK(&run->world, run->world.steps < STEPS_MAX, "the machines chatter");
}

/* The restored namespaces may have to wait for the end of what was at work in them. */
static bool is_calm(struct run *run)
{
	bool is_whole = nvmf_target_restore_namespaces(run->target);

	for (unsigned i = 0; i < NVMF_HOSTS; i++)
		if (!nvmf_load_is_live(run->load[i]) || !nvmf_load_is_finished(run->load[i]))
			return false;
	return is_whole;
}

static bool has_read_all(const struct run *run)
{
	return nvmf_load_has_read_all(run->load[0]) && nvmf_load_has_read_all(run->load[1]);
}

static uint64_t done_count(const struct run *run)
{
	return run->counts.requests - nvmf_load_pending_count(run->load[0]) -
		nvmf_load_pending_count(run->load[1]);
}

static void phases(struct run *run)
{
	uint64_t limit_ns, done = 0;

	while (!run->is_over)
		step(run);
	calm(run);
	limit_ns = run->world.now_ns + CALM_NS;
	while (!is_calm(run)) {
		step(run);
		if (done_count(run) != done)
			limit_ns = run->world.now_ns + CALM_NS;
		done = done_count(run);
		NVMF_CHECK(&run->world, run->world.now_ns < limit_ns,
			"requests are pending: host 0 %s, host 1 %s",
			nvmf_load_is_finished(run->load[0]) ? "no" : "yes",
			nvmf_load_is_finished(run->load[1]) ? "no" : "yes");
	}
	limit_ns = run->world.now_ns + CALM_NS;
	for (unsigned i = 0; i < NVMF_HOSTS; i++)
		nvmf_load_read_all(run->load[i]);
	while (!has_read_all(run)) {
		step(run);
		NVMF_CHECK(&run->world, run->world.now_ns < limit_ns, "the last reads do not end");
	}
	for (unsigned i = 0; i < NVMF_HOSTS; i++) {
		nvmf_load_destroy(run->load[i]);
		NVMF_CHECK(&run->world,
			nvmf_network_open_count(run->network, i) == 0 &&
				nvmf_verbs_object_count(i) == 0,
			"host %u leaves descriptors or objects of its adapter", i);
	}
	limit_ns = run->world.now_ns + CALM_NS;
	while (!nvmf_target_is_idle(run->target)) {
		step(run);
		NVMF_CHECK(&run->world, run->world.now_ns < limit_ns,
			"the target keeps %u connections",
			nvmf_target_connection_count(run->target));
	}
}

static void run_init(struct run *run, uint64_t seed, bool is_traced)
{
	nvmf_world_init(&run->world, seed, is_traced);
	nvmf_plan_make(&run->plan, &run->world);
	run->network = nvmf_network_create(&run->world, run->plan.latency_ns);
	nvmf_verbs_begin(&run->world, run->network, run->plan.latency_ns);
	run->world.report = report;
	run->world.report_context = run;
	for (unsigned i = 0; i < NVMF_MACHINES; i++) {
		if (loop_create_virtual(nvmf_network_of(run->network, i), &run->world.loop[i]))
			abort();
		loop_advance(run->world.loop[i], run->world.now_ns);
		run->pause[i].world = &run->world;
		run->pause[i].machine = i;
		loop_timer_init(&run->pause[i].timer, pause_expired);
	}
	loop_timer_init(&run->fault, fault_expired);
	loop_timer_init(&run->start, start_expired);
	run->registers = register_create(&run->world, run->plan.blocks);
	run->target = nvmf_target_create(&run->world, &run->plan, run->network, run->registers);
	nvmf_target_start(run->target);
	for (unsigned i = 0; i < NVMF_HOSTS; i++) {
		struct nvmf_load_settings settings = {
			.host = i,
			.world = &run->world,
			.plan = &run->plan,
			.registers = run->registers,
			.transport = run->plan.is_rdma ? &host_rdma : &host_tcp,
			.counts = &run->counts,
			.recent = run->recent,
		};

		run->load[i] = nvmf_load_create(&settings);
		run->boot[i].load = run->load[i];
		loop_timer_init(&run->boot[i].timer, boot_expired);
		run->lapse[i].run = run;
		run->lapse[i].host = i;
		loop_timer_init(&run->lapse[i].timer, lapse_expired);
	}
	run->faults_left = run->plan.faults;
	loop_timer_set(run->world.clock, &run->fault,
		run->world.now_ns + nvmf_below(&run->world, run->plan.fault_gap_ns));
}

static void result_add(const struct run *run, struct nvmf_result *result)
{
	const struct nvmf_network_counts *network = nvmf_network_counts(run->network);

	result->requests += run->counts.requests;
	result->failed += run->counts.failed;
	result->unknown += run->counts.unknown;
	result->attempts += run->counts.attempts;
	result->lost += run->counts.lost;
	result->associations += run->counts.associations;
	result->swaps += run->counts.swaps;
	result->swapped += run->counts.swapped;
	result->faults += run->faults;
	result->streams += network->streams;
	result->bytes += network->bytes;
	result->inverted += network->inverted;
	result->virtual_ns += run->world.now_ns - NVMF_S;
}

void nvmf_run(uint64_t seed, bool is_traced, struct nvmf_result *result)
{
	struct run *run = calloc(1, sizeof(*run));
	struct register_result registers = {0};

	if (!run)
		abort();
	run_init(run, seed, is_traced);
	phases(run);
	nvmf_target_destroy(run->target, &result->target);
	NVMF_CHECK(&run->world,
		nvmf_network_open_count(run->network, NVMF_TARGET) == 0 &&
			nvmf_verbs_object_count(NVMF_TARGET) == 0,
		"the target leaves descriptors or objects of its adapter");
	register_check(run->registers, &registers);
	result->actions += registers.actions;
	result->undecided += registers.undecided;
	result_add(run, result);
	nvmf_verbs_end();
	nvmf_network_destroy(run->network);
	register_destroy(run->registers);
	nvmf_world_done(&run->world);
	free(run);
}
