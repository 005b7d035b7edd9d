/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic sim compare: two scenarios, side by side. */
#include <errno.h>
#include <string.h>

#include "base/arith.h"
#include "common/command.h"
#include "fabric/deadlock/deadlock.h"
#include "sim/sim.h"

enum { SIDES = 2 };

struct comparison {
	const char *paths[SIDES];
	struct sim_run runs[SIDES];
};

/* --- rows --- */

static void change_print(double before, double after)
{
	if (before > 0)
		printf("%+10.1f %%\n", 100 * (after - before) / before);
	else
		printf("%12s\n", after > 0 ? "new" : "=");
}

static void count_print(const char *what, uint64_t before, uint64_t after)
{
	printf("%-38s%16llu%16llu", what, (unsigned long long)before, (unsigned long long)after);
	change_print((double)before, (double)after);
}

static void number_print(const char *what, double before, double after)
{
	printf("%-38s%16.3f%16.3f", what, before, after);
	change_print(before, after);
}

/* --- the whole network --- */

struct network_result {
	struct sim_totals totals;
	uint64_t queue_mean; /* of the queue that is the longest on average */
	uint64_t queue_max;
	uint64_t paused_ps; /* of the priority that was paused the longest */
	bool has_deadlock;
};

static struct network_result network_result_of(const struct fabric *fabric)
{
	struct network_result result = {.totals = sim_totals_of(fabric)};
	struct deadlock deadlock;

	for (uint32_t i = 0; i < fabric->port_count; i++)
		for (uint32_t j = 0; j < FABRIC_PRIORITY_COUNT; j++) {
			result.queue_mean =
				max_u64(result.queue_mean, sim_queue_mean(fabric, i, j));
			result.queue_max = max_u64(result.queue_max,
				fabric->ports[i].priority[j].counters.queue_bytes_max);
			result.paused_ps = max_u64(result.paused_ps, pause_total_ps(fabric, i, j));
		}
	result.has_deadlock = deadlock_find(fabric, &deadlock);
	return result;
}

static void networks_print(const struct comparison *comparison)
{
	struct network_result a = network_result_of(comparison->runs[0].fabric);
	struct network_result b = network_result_of(comparison->runs[1].fabric);

	count_print("pauses", a.totals.pauses, b.totals.pauses);
	number_print("longest time paused, us", (double)a.paused_ps / FABRIC_PS_PER_US,
		(double)b.paused_ps / FABRIC_PS_PER_US);
	count_print("marks", a.totals.marks, b.totals.marks);
	count_print("frames discarded", a.totals.discards, b.totals.discards);
	count_print("frames dropped by watchdogs", a.totals.storm_drops, b.totals.storm_drops);
	count_print("frames lost on cables", a.totals.lost, b.totals.lost);
	count_print("frames corrupted", a.totals.corrupted, b.totals.corrupted);
	number_print("longest queue on average, KB", (double)a.queue_mean / 1000,
		(double)b.queue_mean / 1000);
	number_print("longest queue, KB", (double)a.queue_max / 1000, (double)b.queue_max / 1000);
	printf("%-38s%16s%16s\n", "deadlock", a.has_deadlock ? "yes" : "no",
		b.has_deadlock ? "yes" : "no");
}

/* --- workloads --- */

/* The workload with this name; NULL: there is none. */
static const struct scenario_workload *workload_find(
	const struct scenario *scenario, const char *name)
{
	for (uint32_t i = 0; i < scenario->workload_count; i++)
		if (strcmp(scenario->workloads[i].name, name) == 0)
			return &scenario->workloads[i];
	return NULL;
}

static void workloads_compare(const struct comparison *comparison,
	const struct scenario_workload *first, const struct scenario_workload *second)
{
	struct sim_workload_result a = sim_workload_result_of(&comparison->runs[0], first);
	struct sim_workload_result b = sim_workload_result_of(&comparison->runs[1], second);

	printf("\nworkload %s\n", first->name);
	count_print("  flows", a.flows, b.flows);
	count_print("  finished", a.finished, b.finished);
	number_print("  Gbit/s of a flow, least", a.least_gbps, b.least_gbps);
	number_print("  mean", a.mean_gbps, b.mean_gbps);
	number_print("  most", a.most_gbps, b.most_gbps);
	number_print("  Jain", a.jain, b.jain);
	if (!a.finished || !b.finished)
		return;
	number_print("  completion time, us, median", a.median_us, b.median_us);
	number_print("  p99", a.p99_us, b.p99_us);
	number_print("  longest", a.longest_us, b.longest_us);
}

static void workloads_print(const struct comparison *comparison)
{
	for (uint32_t side = 0; side < SIDES; side++) {
		const struct scenario *scenario = &comparison->runs[side].scenario;
		const struct scenario *other = &comparison->runs[!side].scenario;

		for (uint32_t i = 0; i < scenario->workload_count; i++) {
			const struct scenario_workload *workload = &scenario->workloads[i];
			const struct scenario_workload *same = workload_find(other, workload->name);

			if (!same)
				printf("\nworkload %s is in %s only\n", workload->name,
					comparison->paths[side]);
			else if (!side)
				workloads_compare(comparison, workload, same);
		}
	}
}

/* --- the command --- */

static bool side_run(struct sim_run *run, const char *path)
{
	return scenario_read(&run->scenario, path, NULL) && sim_run_init(run) &&
		sim_run_execute(run);
}

static bool comparison_print(const struct comparison *comparison)
{
	const struct fabric *a = comparison->runs[0].fabric;
	const struct fabric *b = comparison->runs[1].fabric;

	printf("A: %s, %.3f ms, hash %016llx\nB: %s, %.3f ms, hash %016llx\n\n%54s%16s%12s\n",
		comparison->paths[0], (double)a->now_ps / FABRIC_PS_PER_MS,
		(unsigned long long)a->hash, comparison->paths[1],
		(double)b->now_ps / FABRIC_PS_PER_MS, (unsigned long long)b->hash, "A", "B",
		"change");
	networks_print(comparison);
	workloads_print(comparison);
	if (!fflush(stdout) && !ferror(stdout))
		return true;
	complain("the results cannot be printed: %s", strerror(errno));
	return false;
}

int sim_compare(int argc, char **argv)
{
	struct comparison comparison = {0};
	int status = EXIT_OK;

	if (argc != 1 + SIDES || argv[1][0] == '-' || argv[2][0] == '-') {
		complain("sim compare: it takes two scenarios");
		return EXIT_USAGE;
	}
	for (uint32_t side = 0; side < SIDES && status == EXIT_OK; side++) {
		comparison.paths[side] = argv[1 + side];
		if (!side_run(&comparison.runs[side], comparison.paths[side]))
			status = comparison.runs[side].fabric ? EXIT_FAILED : EXIT_USAGE;
	}
	if (status == EXIT_OK && !comparison_print(&comparison))
		status = EXIT_FAILED;
	for (uint32_t side = 0; side < SIDES; side++)
		sim_run_done(&comparison.runs[side]);
	return status;
}
