/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic sim compare: two scenarios, side by side. */
#include <errno.h>
#include <string.h>

#include "base/arith.h"
#include "common/command.h"
#include "common/json.h"
#include "fabric/deadlock/deadlock.h"
#include "sim/sim.h"

enum { SIDES = 2 };

struct comparison {
	const char *paths[SIDES];
	struct sim_run runs[SIDES];
	bool has_json;
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

/* --- JSON --- */

/* Times are null when no flow is finished. */
static void finish_add(
	cJSON *object, const char *name, const struct sim_workload_result *result, double us)
{
	if (result->finished)
		cJSON_AddNumberToObject(object, name, us);
	else
		cJSON_AddNullToObject(object, name);
}

static void workload_add(
	const struct sim_run *run, cJSON *list, const struct scenario_workload *workload)
{
	struct sim_workload_result result = sim_workload_result_of(run, workload);
	cJSON *object = json_append_object(list);

	cJSON_AddStringToObject(object, "workload", workload->name);
	json_add_count(object, "flows", result.flows);
	json_add_count(object, "finished", result.finished);
	cJSON_AddNumberToObject(object, "gbps_least", result.least_gbps);
	cJSON_AddNumberToObject(object, "gbps_mean", result.mean_gbps);
	cJSON_AddNumberToObject(object, "gbps_most", result.most_gbps);
	cJSON_AddNumberToObject(object, "jain", result.jain);
	finish_add(object, "median_us", &result, result.median_us);
	finish_add(object, "p99_us", &result, result.p99_us);
	finish_add(object, "longest_us", &result, result.longest_us);
}

static void side_add(cJSON *root, const char *name, const char *path, const struct sim_run *run)
{
	const struct fabric *fabric = run->fabric;
	struct network_result result = network_result_of(fabric);
	cJSON *object = cJSON_AddObjectToObject(root, name);
	cJSON *workloads;
	char hash[20];

	snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)fabric->hash);
	cJSON_AddStringToObject(object, "scenario", path);
	json_add_count(object, "seed", fabric->config.seed);
	cJSON_AddNumberToObject(object, "time_us", (double)fabric->now_ps / FABRIC_PS_PER_US);
	cJSON_AddStringToObject(object, "hash", hash);
	json_add_count(object, "pauses", result.totals.pauses);
	cJSON_AddNumberToObject(
		object, "paused_us_max", (double)result.paused_ps / FABRIC_PS_PER_US);
	json_add_count(object, "marked_frames", result.totals.marks);
	json_add_count(object, "discarded_frames", result.totals.discards);
	json_add_count(object, "storm_drops", result.totals.storm_drops);
	json_add_count(object, "lost_frames", result.totals.lost);
	json_add_count(object, "corrupted_frames", result.totals.corrupted);
	json_add_count(object, "queue_bytes_mean", result.queue_mean);
	json_add_count(object, "queue_bytes_max", result.queue_max);
	cJSON_AddBoolToObject(object, "deadlock", result.has_deadlock);
	workloads = cJSON_AddArrayToObject(object, "workloads");
	for (uint32_t i = 0; i < run->scenario.workload_count; i++)
		workload_add(run, workloads, &run->scenario.workloads[i]);
}

static bool comparison_print_json(const struct comparison *comparison)
{
	cJSON *root = cJSON_CreateObject();
	int error;

	side_add(root, "a", comparison->paths[0], &comparison->runs[0]);
	side_add(root, "b", comparison->paths[1], &comparison->runs[1]);
	error = json_print(root);
	if (error)
		complain("the results cannot be printed: %s", strerror(-error));
	return !error;
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

static bool comparison_read(struct comparison *comparison, int argc, char **argv)
{
	uint32_t side = 0;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0) {
			comparison->has_json = true;
		} else if (argv[i][0] == '-') {
			complain("sim compare: unknown option '%s': there is --json", argv[i]);
			return false;
		} else if (side < SIDES) {
			comparison->paths[side++] = argv[i];
		} else {
			side = SIDES + 1;
		}
	}
	if (side != SIDES)
		complain("sim compare: it takes two scenarios");
	return side == SIDES;
}

int sim_compare(int argc, char **argv)
{
	struct comparison comparison = {0};
	int status = EXIT_OK;
	bool is_printed;

	if (!comparison_read(&comparison, argc, argv))
		return EXIT_USAGE;
	for (uint32_t side = 0; side < SIDES && status == EXIT_OK; side++)
		if (!side_run(&comparison.runs[side], comparison.paths[side]))
			status = comparison.runs[side].fabric ? EXIT_FAILED : EXIT_USAGE;
	if (status == EXIT_OK) {
		is_printed = comparison.has_json ? comparison_print_json(&comparison)
						 : comparison_print(&comparison);
		status = is_printed ? EXIT_OK : EXIT_FAILED;
	}
	for (uint32_t side = 0; side < SIDES; side++)
		sim_run_done(&comparison.runs[side]);
	return status;
}
