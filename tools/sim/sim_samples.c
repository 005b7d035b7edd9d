/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/sim_samples.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "common/command.h"
#include "sim/sim.h"

static uint8_t priorities_of(const struct scenario *scenario)
{
	uint8_t priorities = 0;

	for (uint32_t i = 0; i < scenario->flow_count; i++)
		priorities |= (uint8_t)(1u << scenario->flows[i].priority);
	return priorities;
}

static void queues_list(struct sim_samples *samples, const struct sim_run *run)
{
	uint8_t priorities = priorities_of(&run->scenario);

	for (uint32_t i = 0; i < run->fabric->port_count; i++)
		for (uint32_t j = 0; j < FABRIC_PRIORITY_COUNT; j++) {
			if (run->fabric->ports[i].is_host || !(priorities >> j & 1))
				continue;
			samples->queue_ports[samples->queue_count] = i;
			samples->queue_priorities[samples->queue_count++] = (uint8_t)j;
		}
}

bool sim_samples_init(struct sim_samples *samples, const struct sim_run *run)
{
	const struct scenario *scenario = &run->scenario;
	uint64_t queues_max = (uint64_t)run->fabric->port_count * FABRIC_PRIORITY_COUNT;

	*samples = (struct sim_samples){
		.capacity = (uint32_t)min_u64(
			SIM_SAMPLES_MAX, scenario->duration_ps / run->interval_ps + 1),
		.are_lines_flows = scenario->flow_count <= SIM_LINES_MAX,
	};
	samples->line_count =
		samples->are_lines_flows ? scenario->flow_count : scenario->workload_count;
	samples->queue_ports = (uint32_t *)calloc(queues_max, sizeof(uint32_t));
	samples->queue_priorities = (uint8_t *)calloc(queues_max, 1);
	if (samples->queue_ports && samples->queue_priorities)
		queues_list(samples, run);
	samples->received_bytes = (uint64_t *)calloc(
		(uint64_t)samples->capacity * samples->line_count, sizeof(uint64_t));
	samples->queue_bytes = (uint64_t *)calloc(
		(uint64_t)samples->capacity * samples->queue_count + 1, sizeof(uint64_t));
	samples->paused_ps = (uint64_t *)calloc(
		(uint64_t)samples->capacity * samples->queue_count + 1, sizeof(uint64_t));
	if (samples->queue_count && samples->received_bytes && samples->queue_bytes &&
		samples->paused_ps)
		return true;
	complain("no memory for the plots of %u ports", run->fabric->port_count);
	return false;
}

void sim_samples_done(struct sim_samples *samples)
{
	free(samples->received_bytes);
	free(samples->queue_ports);
	free(samples->queue_priorities);
	free(samples->queue_bytes);
	free(samples->paused_ps);
	*samples = (struct sim_samples){0};
}

static uint64_t line_bytes(
	const struct sim_samples *samples, const struct scenario *scenario, uint32_t line)
{
	const struct scenario_workload *workload = &scenario->workloads[line];
	uint64_t bytes = 0;

	if (samples->are_lines_flows)
		return scenario->flows[line].received_bytes;
	for (uint32_t i = 0; i < workload->flow_count; i++)
		bytes += scenario->flows[workload->first_flow + i].received_bytes;
	return bytes;
}

void sim_samples_take(struct sim_samples *samples, const struct sim_run *run)
{
	uint64_t row = samples->count;

	if (samples->count == samples->capacity)
		return;
	samples->count++;
	for (uint32_t i = 0; i < samples->line_count; i++)
		samples->received_bytes[row * samples->line_count + i] =
			line_bytes(samples, &run->scenario, i);
	for (uint32_t i = 0; i < samples->queue_count; i++) {
		uint32_t port = samples->queue_ports[i];
		uint32_t priority = samples->queue_priorities[i];

		samples->queue_bytes[row * samples->queue_count + i] =
			run->fabric->ports[port].priority[priority].queue_bytes;
		samples->paused_ps[row * samples->queue_count + i] =
			pause_total_ps(run->fabric, port, priority);
	}
}

static uint64_t queue_sum(const struct sim_samples *samples, uint32_t queue)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < samples->count; i++)
		sum += samples->queue_bytes[i * samples->queue_count + queue];
	return sum;
}

uint32_t sim_samples_longest(
	const struct sim_samples *samples, uint32_t count, uint32_t *ret_queues)
{
	uint64_t *sums = (uint64_t *)calloc(samples->queue_count + 1ull, sizeof(uint64_t));
	uint32_t found = 0;

	for (uint32_t i = 0; sums && i < samples->queue_count; i++)
		sums[i] = queue_sum(samples, i);
	while (sums && found < count) {
		uint32_t longest = 0;

		for (uint32_t i = 1; i < samples->queue_count; i++)
			if (sums[i] > sums[longest])
				longest = i;
		if (!sums[longest])
			break;
		ret_queues[found++] = longest;
		sums[longest] = 0;
	}
	free(sums);
	return found;
}
