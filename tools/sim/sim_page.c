/* SPDX-License-Identifier: BSD-2-Clause */
/* The results of a run as one HTML page, whose pictures are SVG; it has no script. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "common/command.h"
#include "fabric/deadlock/deadlock.h"
#include "sim/sim.h"
#include "sim/sim_chart.h"

enum { QUEUES_MAX = 8 };

static double us_of(uint64_t ps)
{
	return (double)ps / FABRIC_PS_PER_US;
}

/* --- charts over time --- */

static double sample_us(const struct sim_run *run, uint32_t sample)
{
	return us_of(run->interval_ps) * (sample + 1);
}

/* What a line received between a sample and the one before it, in Gbit/s. */
static double line_gbps(const struct sim_run *run, uint32_t sample, uint32_t line)
{
	const struct sim_samples *samples = &run->samples;
	const uint64_t *bytes = samples->received_bytes + (uint64_t)sample * samples->line_count;
	uint64_t before = sample ? bytes[(int64_t)line - samples->line_count] : 0;

	return (double)(bytes[line] - before) * 8 / 1000 / us_of(run->interval_ps);
}

static void line_name(const struct sim_run *run, uint32_t line, char *name, size_t bytes)
{
	const struct fabric_flow *flow = &run->scenario.flows[line];

	if (run->samples.are_lines_flows)
		sim_flow_name(flow, name, bytes);
	else
		snprintf(name, bytes, "%s", run->scenario.workloads[line].name);
}

static void rates_write(const struct sim_run *run, FILE *file)
{
	const struct sim_samples *samples = &run->samples;
	struct sim_chart chart;
	double most = 0;

	for (uint32_t i = 0; i < samples->count; i++)
		for (uint32_t j = 0; j < samples->line_count; j++)
			most = line_gbps(run, i, j) > most ? line_gbps(run, i, j) : most;
	sim_chart_begin(&chart, file,
		samples->are_lines_flows ? "Rates of flows" : "Rates of workloads", "us", "Gbit/s",
		sample_us(run, samples->count - 1), most);
	for (uint32_t j = 0; j < min_u32(samples->line_count, SIM_LINES_MAX); j++) {
		char name[SCENARIO_NAME_BYTES];

		line_name(run, j, name, sizeof(name));
		sim_chart_line(&chart, name);
		for (uint32_t i = 0; i < samples->count; i++)
			sim_chart_point(&chart, sample_us(run, i), line_gbps(run, i, j));
	}
	sim_chart_end(&chart);
}

static double queue_kb(const struct sim_run *run, uint32_t sample, uint32_t queue)
{
	const struct sim_samples *samples = &run->samples;

	return (double)samples->queue_bytes[(uint64_t)sample * samples->queue_count + queue] / 1000;
}

/* How much of the time since the sample before the queue was paused, in percent. */
static double queue_paused(const struct sim_run *run, uint32_t sample, uint32_t queue)
{
	const struct sim_samples *samples = &run->samples;
	const uint64_t *paused_ps = samples->paused_ps + (uint64_t)sample * samples->queue_count;
	uint64_t before = sample ? paused_ps[(int64_t)queue - samples->queue_count] : 0;

	return 100 * (double)(paused_ps[queue] - before) / (double)run->interval_ps;
}

typedef double queue_value(const struct sim_run *run, uint32_t sample, uint32_t queue);

static void queues_write(const struct sim_run *run, FILE *file, const char *title, const char *unit,
	queue_value *value, double most)
{
	const struct sim_samples *samples = &run->samples;
	uint32_t queues[QUEUES_MAX];
	uint32_t count = sim_samples_longest(samples, QUEUES_MAX, queues);
	struct sim_chart chart;

	for (uint32_t i = 0; i < samples->count; i++)
		for (uint32_t j = 0; j < count; j++)
			most = value(run, i, queues[j]) > most ? value(run, i, queues[j]) : most;
	sim_chart_begin(&chart, file, title, "us", unit, sample_us(run, samples->count - 1), most);
	for (uint32_t j = 0; j < count; j++) {
		char port[SIM_PORT_NAME_BYTES];
		char name[SIM_PORT_NAME_BYTES + 16];

		sim_port_name(run->fabric, samples->queue_ports[queues[j]], port);
		snprintf(name, sizeof(name), "%s priority %u", port,
			samples->queue_priorities[queues[j]]);
		sim_chart_line(&chart, name);
		for (uint32_t i = 0; i < samples->count; i++)
			sim_chart_point(&chart, sample_us(run, i), value(run, i, queues[j]));
	}
	sim_chart_end(&chart);
}

/* --- completion times --- */

static void times_line(const struct scenario_workload *workload, const uint64_t *times,
	uint32_t count, struct sim_chart *chart)
{
	/* A thousand points of a line are enough. */
	uint32_t step = max_u32(1, count / 1000);

	sim_chart_line(chart, workload->name);
	/* Begin at 0, since a line of a single point would be invisible. */
	sim_chart_point(chart, us_of(times[0]), 0);
	for (uint32_t i = 0; i < count; i += step)
		sim_chart_point(chart, us_of(times[i]), 100.0 * (i + 1) / workload->flow_count);
	sim_chart_point(chart, us_of(times[count - 1]), 100.0 * count / workload->flow_count);
}

static uint64_t time_longest(const struct sim_run *run)
{
	uint64_t longest_ps = 0;

	for (uint32_t i = 0; i < run->scenario.flow_count; i++) {
		const struct fabric_flow *flow = &run->scenario.flows[i];

		if (flow->finish_ps != FABRIC_NEVER)
			longest_ps = max_u64(longest_ps, flow->finish_ps - flow->start_ps);
	}
	return longest_ps;
}

static void times_write(const struct sim_run *run, FILE *file)
{
	uint64_t *times = (uint64_t *)calloc(run->scenario.flow_count, sizeof(uint64_t));
	uint64_t longest_ps = time_longest(run);
	struct sim_chart chart;

	if (times && longest_ps) {
		sim_chart_begin(&chart, file, "Flows that are finished after a time", "us", "%",
			us_of(longest_ps), 100);
		for (uint32_t i = 0; i < min_u32(run->scenario.workload_count, SIM_LINES_MAX);
			i++) {
			const struct scenario_workload *workload = &run->scenario.workloads[i];
			uint32_t count = sim_times_collect(run, workload, times);

			if (count)
				times_line(workload, times, count, &chart);
		}
		sim_chart_end(&chart);
	}
	free(times);
}

/* --- the page --- */

static void head_write(const struct sim_run *run, FILE *file, const char *scenario)
{
	fputs("<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'><title>urnic sim: ",
		file);
	sim_chart_text(file, scenario);
	fputs("</title>\n<style>body{font:14px sans-serif;margin:2em;max-width:960px}"
	      "svg text{font:11px sans-serif;fill:#333}svg .title{font-weight:bold;font-size:14px}"
	      "svg{display:block;margin:1.5em 0;max-width:100%;height:auto}"
	      "td,th{padding:0.2em 1em;text-align:right}</style></head>\n<body><h1>",
		file);
	sim_chart_text(file, scenario);
	fprintf(file, "</h1>\n<p>%u hosts, %u switches, %.3f ms, seed %llu, hash %016llx</p>\n",
		run->fabric->host_count, run->fabric->switch_count,
		us_of(run->fabric->now_ps) / 1000, (unsigned long long)run->fabric->config.seed,
		(unsigned long long)run->fabric->hash);
}

static void counts_write(const struct sim_run *run, FILE *file)
{
	struct sim_totals totals = sim_totals_of(run->fabric);
	struct deadlock deadlock;

	fprintf(file,
		"<table><tr><th>pauses<th>marks<th>frames discarded<th>by watchdogs<th>lost on "
		"cables<th>corrupted</tr>\n<tr><td>%llu<td>%llu<td>%llu<td>%llu<td>%llu<td>%llu</tr></table>\n",
		(unsigned long long)totals.pauses, (unsigned long long)totals.marks,
		(unsigned long long)totals.discards, (unsigned long long)totals.storm_drops,
		(unsigned long long)totals.lost, (unsigned long long)totals.corrupted);
	if (!deadlock_find(run->fabric, &deadlock))
		return;
	fprintf(file, "<p><b>Deadlock</b> of priority %u since %.1f us:", deadlock.priority,
		us_of(deadlock.since_ps));
	for (uint32_t i = 0; i < deadlock.port_count; i++) {
		char name[SIM_PORT_NAME_BYTES];

		sim_port_name(run->fabric, deadlock.ports[i], name);
		fputc(' ', file);
		sim_chart_text(file, name);
	}
	fputs("</p>\n", file);
}

bool sim_page_write(const struct sim_run *run, const char *path, const char *scenario)
{
	FILE *file = fopen(path, "we");
	bool is_bad;

	if (!file) {
		complain("%s: %s", path, strerror(errno));
		return false;
	}
	head_write(run, file, scenario);
	counts_write(run, file);
	rates_write(run, file);
	queues_write(run, file, "The longest queues", "KB", queue_kb, 0);
	queues_write(run, file, "How much of the time they were paused", "%", queue_paused, 100);
	times_write(run, file);
	sim_topology_write(run, file);
	fputs("</body></html>\n", file);
	is_bad = ferror(file);
	if (!fclose(file) && !is_bad)
		return true;
	complain("%s could not be written: %s", path, strerror(errno));
	return false;
}
