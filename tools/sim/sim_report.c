/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "fabric/deadlock/deadlock.h"
#include "sim/sim.h"

enum {
	FLOW_ROWS_MAX = 20, /* with more flows, the report has workloads only */
	QUEUE_ROWS_MAX = 8,
	QUEUE_MEAN_MIN = 100, /* bytes; shorter queues are not printed */
};

/* --- results --- */

double sim_flow_mbps(const struct sim_run *run, uint32_t number)
{
	const struct fabric_flow *flow = &run->scenario.flows[number];
	uint64_t end_ps = min_u64(flow->finish_ps, run->fabric->now_ps);

	if (end_ps <= flow->start_ps)
		return 0;
	return (double)flow->received_bytes * 8 * FABRIC_PS_PER_US / max_u32(flow->receivers, 1) /
		(double)(end_ps - flow->start_ps);
}

void sim_flow_name(const struct fabric_flow *flow, char *ret_name, size_t bytes)
{
	snprintf(ret_name, bytes, "h%u>%c%u", flow->source, flow->is_multicast ? 'g' : 'h',
		flow->destination);
}

uint64_t sim_flow_retransmitted(const struct sim_run *run, uint32_t flow)
{
	if (!run->hosts)
		return 0;
	return counter_read(
		engine_hosts_sender(run->hosts, flow)->counters, COUNTER_retransmitted_pkts);
}

void sim_port_name(const struct fabric *fabric, uint32_t number, char ret_name[SIM_PORT_NAME_BYTES])
{
	const struct fabric_port *port = &fabric->ports[number];
	const struct fabric_port *peer = &fabric->ports[port->peer];

	snprintf(ret_name, SIM_PORT_NAME_BYTES, "%c%u>%c%u", port->is_host ? 'h' : 's', port->node,
		peer->is_host ? 'h' : 's', peer->node);
}

uint64_t sim_queue_mean(const struct fabric *fabric, uint32_t port, uint32_t priority)
{
	uint64_t ns = fabric->now_ps / FABRIC_PS_PER_NS;

	return ns ? fabric_queue_byte_ns(fabric, port, priority) / ns : 0;
}

bool sim_priority_is_used(const struct fabric_port *port, uint32_t priority)
{
	const struct port_counters *counters = &port->priority[priority].counters;

	return counters->sent_frames || counters->received_frames || counters->sent_pauses ||
		counters->received_pauses || counters->discarded_frames;
}

/* --- workloads --- */

static int compare_times(const void *a, const void *b)
{
	uint64_t first = *(const uint64_t *)a;
	uint64_t second = *(const uint64_t *)b;

	return first < second ? -1 : first > second;
}

uint32_t sim_times_collect(
	const struct sim_run *run, const struct scenario_workload *workload, uint64_t *times)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < workload->flow_count; i++) {
		const struct fabric_flow *flow = &run->scenario.flows[workload->first_flow + i];

		if (flow->finish_ps != FABRIC_NEVER)
			times[count++] = flow->finish_ps - flow->start_ps;
	}
	qsort(times, count, sizeof(*times), compare_times);
	return count;
}

static double percentile_us(const uint64_t *times, uint32_t count, uint32_t percent)
{
	uint32_t place = (uint32_t)div_ceil_u64((uint64_t)count * percent, 100);

	return (double)times[max_u32(place, 1) - 1] / FABRIC_PS_PER_US;
}

static void times_sum_up(const struct sim_run *run, const struct scenario_workload *workload,
	struct sim_workload_result *result)
{
	uint64_t *times = (uint64_t *)calloc(workload->flow_count + 1ull, sizeof(uint64_t));
	uint32_t count = times ? sim_times_collect(run, workload, times) : 0;

	result->finished = count;
	if (count) {
		result->median_us = percentile_us(times, count, 50);
		result->p99_us = percentile_us(times, count, 99);
		result->longest_us = percentile_us(times, count, 100);
	}
	free(times);
}

struct sim_workload_result sim_workload_result_of(
	const struct sim_run *run, const struct scenario_workload *workload)
{
	struct sim_workload_result result = {.flows = workload->flow_count};
	double sum = 0;
	double squares = 0;

	for (uint32_t i = 0; i < workload->flow_count; i++) {
		double gbps = sim_flow_mbps(run, workload->first_flow + i) / 1000;

		sum += gbps;
		squares += gbps * gbps;
		result.least_gbps = !i || gbps < result.least_gbps ? gbps : result.least_gbps;
		result.most_gbps = gbps > result.most_gbps ? gbps : result.most_gbps;
	}
	if (workload->flow_count)
		result.mean_gbps = sum / workload->flow_count;
	if (squares > 0)
		result.jain = sum * sum / (workload->flow_count * squares);
	times_sum_up(run, workload, &result);
	return result;
}

static void workload_print(const struct sim_run *run, const struct scenario_workload *workload)
{
	struct sim_workload_result result = sim_workload_result_of(run, workload);

	printf("%-14s%7u%10u%10.3f%10.3f%10.3f%8.4f", workload->name, result.flows, result.finished,
		result.least_gbps, result.mean_gbps, result.most_gbps, result.jain);
	if (result.finished)
		printf("%10.1f%10.1f%10.1f\n", result.median_us, result.p99_us, result.longest_us);
	else
		printf("%10s%10s%10s\n", "-", "-", "-");
}

static void workloads_print(const struct sim_run *run)
{
	printf("\n%-14s%7s%10s%30s%8s%30s\n%-31s%10s%10s%10s%8s%10s%10s%10s\n", "workload", "flows",
		"finished", "Gbit/s of a flow", "Jain", "completion time, us", "", "least", "mean",
		"most", "", "median", "p99", "longest");
	for (uint32_t i = 0; i < run->scenario.workload_count; i++)
		workload_print(run, &run->scenario.workloads[i]);
}

static void flows_print(const struct sim_run *run)
{
	printf("\n%-14s%10s%10s%14s%10s%8s%15s%14s\n", "flow", "priority", "Gbit/s", "MB received",
		"marked", "CNPs", "retransmitted", "finish, us");
	for (uint32_t i = 0; i < run->scenario.flow_count; i++) {
		const struct fabric_flow *flow = &run->scenario.flows[i];
		char name[SIM_PORT_NAME_BYTES];

		sim_flow_name(flow, name, sizeof(name));
		printf("%-14s%10u%10.3f%14.3f%10llu%8llu%15llu", name, flow->priority,
			sim_flow_mbps(run, i) / 1000, (double)flow->received_bytes / 1e6,
			(unsigned long long)flow->marked_frames,
			(unsigned long long)flow->cnp_count,
			(unsigned long long)sim_flow_retransmitted(run, i));
		if (flow->has_failed)
			printf("%14s\n", "failed");
		else if (flow->finish_ps == FABRIC_NEVER)
			printf("%14s\n", "-");
		else
			printf("%14.1f\n", (double)flow->finish_ps / FABRIC_PS_PER_US);
	}
}

/* --- queues --- */

/* Find the next queue to print: the longest one whose mean length is below the last one's. */
static bool queue_next(const struct fabric *fabric, uint64_t *below, uint32_t *place)
{
	uint32_t best = UINT32_MAX;
	uint64_t best_mean = 0;

	for (uint32_t i = 0; i < fabric->port_count * FABRIC_PRIORITY_COUNT; i++) {
		const struct fabric_port *port = &fabric->ports[i / FABRIC_PRIORITY_COUNT];
		uint64_t mean = sim_queue_mean(
			fabric, i / FABRIC_PRIORITY_COUNT, i % FABRIC_PRIORITY_COUNT);
		bool is_behind = mean < *below || (mean == *below && i > *place);

		if (!port->is_host && is_behind && (best == UINT32_MAX || mean > best_mean) &&
			mean >= QUEUE_MEAN_MIN) {
			best = i;
			best_mean = mean;
		}
	}
	*below = best_mean;
	*place = best;
	return best != UINT32_MAX;
}

static void queue_print(const struct fabric *fabric, uint32_t number, uint32_t priority)
{
	const struct port_counters *counters = &fabric->ports[number].priority[priority].counters;
	char name[SIM_PORT_NAME_BYTES];

	sim_port_name(fabric, number, name);
	printf("%-14s%10u%12.1f%12.1f%10llu%10.1f%10llu\n", name, priority,
		(double)sim_queue_mean(fabric, number, priority) / 1000,
		(double)counters->queue_bytes_max / 1000,
		(unsigned long long)counters->marked_frames,
		100.0 * (double)pause_total_ps(fabric, number, priority) /
			(double)max_u64(fabric->now_ps, 1),
		(unsigned long long)counters->storms);
}

static void queues_print(const struct fabric *fabric)
{
	uint64_t below = UINT64_MAX;
	uint32_t place = 0;

	printf("\n%-14s%10s%24s%10s%10s%10s\n%-24s%12s%12s%10s%10s%10s\n", "queue", "priority",
		"KB", "marked", "paused", "storms", "", "mean", "most", "", "%", "");
	for (uint32_t i = 0; i < QUEUE_ROWS_MAX && queue_next(fabric, &below, &place); i++)
		queue_print(fabric, place / FABRIC_PRIORITY_COUNT, place % FABRIC_PRIORITY_COUNT);
}

/* --- the whole network --- */

struct sim_totals sim_totals_of(const struct fabric *fabric)
{
	struct sim_totals totals = {0};

	for (uint32_t i = 0; i < fabric->port_count; i++) {
		totals.lost += fabric->ports[i].lost_frames;
		totals.corrupted += fabric->ports[i].corrupted_frames;
		for (uint32_t j = 0; j < FABRIC_PRIORITY_COUNT; j++) {
			const struct port_counters *counters =
				&fabric->ports[i].priority[j].counters;

			totals.pauses += counters->sent_pauses;
			totals.discards += counters->discarded_frames;
			totals.marks += counters->marked_frames;
			totals.storm_drops += counters->storm_drops;
		}
	}
	return totals;
}

static void network_print(const struct fabric *fabric)
{
	struct sim_totals totals = sim_totals_of(fabric);
	uint64_t buffer_bytes = 0;

	for (uint32_t i = 0; i < fabric->switch_count; i++)
		buffer_bytes = max_u64(buffer_bytes, fabric->switches[i].buffer.used_bytes_max);
	printf("%u hosts, %u switches, %.3f ms, seed %llu: %llu events, hash %016llx\n",
		fabric->host_count, fabric->switch_count, (double)fabric->now_ps / FABRIC_PS_PER_MS,
		(unsigned long long)fabric->config.seed, (unsigned long long)fabric->event_count,
		(unsigned long long)fabric->hash);
	if (fabric->infiniband) {
		sim_subnet_totals_print(fabric);
		return;
	}
	printf("%llu pauses, %llu marks, %llu frames discarded, %llu by watchdogs, %llu lost on "
	       "cables, %llu corrupted; largest shared buffer in use %.1f KB\n",
		(unsigned long long)totals.pauses, (unsigned long long)totals.marks,
		(unsigned long long)totals.discards, (unsigned long long)totals.storm_drops,
		(unsigned long long)totals.lost, (unsigned long long)totals.corrupted,
		(double)buffer_bytes / 1000);
}

/* "a deadlock": the queues of the cycle, each waiting for the next one. */
static void deadlock_print(const struct fabric *fabric)
{
	struct deadlock deadlock;

	if (!deadlock_find(fabric, &deadlock))
		return;
	printf("\ndeadlock of %s %u since %.1f us:", fabric->infiniband ? "VL" : "priority",
		deadlock.priority, (double)deadlock.since_ps / FABRIC_PS_PER_US);
	for (uint32_t i = 0; i < deadlock.port_count; i++) {
		char name[SIM_PORT_NAME_BYTES];

		sim_port_name(fabric, deadlock.ports[i], name);
		printf(" %s", name);
	}
	printf("\n");
}

void sim_report_print(const struct sim_run *run)
{
	network_print(run->fabric);
	workloads_print(run);
	if (run->scenario.flow_count <= FLOW_ROWS_MAX)
		flows_print(run);
	queues_print(run->fabric);
	sim_subnet_print(run);
	deadlock_print(run->fabric);
}
