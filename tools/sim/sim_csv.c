/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "sim/sim.h"

static FILE *csv_create(const char *prefix, const char *what, const char *header)
{
	char path[4096];
	FILE *file;

	if ((size_t)snprintf(path, sizeof(path), "%s-%s.csv", prefix, what) >= sizeof(path)) {
		complain("%s: the name is too long", prefix);
		return NULL;
	}
	file = fopen(path, "we");
	if (file)
		fputs(header, file);
	else
		complain("%s: %s", path, strerror(errno));
	return file;
}

bool sim_csv_open(struct sim_run *run, const char *prefix)
{
	run->sampled_bytes = (uint64_t *)calloc(run->scenario.flow_count, sizeof(uint64_t));
	if (!run->sampled_bytes) {
		complain("no memory for %u flows", run->scenario.flow_count);
		return false;
	}
	run->queues = csv_create(prefix, "queues", "time_us,port,priority,queue_bytes,paused\n");
	if (run->queues)
		run->rates = csv_create(prefix, "rates", "time_us,flow,source,destination,mbps\n");
	return run->queues && run->rates;
}

static void queues_sample(const struct sim_run *run, double time_us)
{
	const struct fabric *fabric = run->fabric;

	for (uint32_t i = 0; i < fabric->port_count; i++)
		for (uint32_t j = 0; j < FABRIC_PRIORITY_COUNT; j++) {
			const struct fabric_port *port = &fabric->ports[i];
			char name[SIM_PORT_NAME_BYTES];

			if (!sim_priority_is_used(port, j))
				continue;
			sim_port_name(fabric, i, name);
			fprintf(run->queues, "%.3f,%s,%u,%llu,%u\n", time_us, name, j,
				(unsigned long long)port->priority[j].queue_bytes,
				(uint32_t)port->paused >> j & 1);
		}
}

void sim_csv_sample(struct sim_run *run)
{
	double time_us = (double)run->fabric->now_ps / FABRIC_PS_PER_US;
	double interval_us = (double)run->interval_ps / FABRIC_PS_PER_US;

	queues_sample(run, time_us);
	for (uint32_t i = 0; i < run->scenario.flow_count; i++) {
		const struct fabric_flow *flow = &run->scenario.flows[i];
		uint64_t bytes = flow->received_bytes - run->sampled_bytes[i];

		fprintf(run->rates, "%.3f,%u,h%u,%c%u,%.3f\n", time_us, i, flow->source,
			flow->is_multicast ? 'g' : 'h', flow->destination,
			(double)bytes * 8 / interval_us / max_u32(flow->receivers, 1));
		run->sampled_bytes[i] = flow->received_bytes;
	}
}

static bool csv_close(FILE *file, const char *what)
{
	bool is_bad = file && ferror(file);

	if (file && (fclose(file) || is_bad)) {
		complain("the CSV of %s could not be written: %s", what, strerror(errno));
		return false;
	}
	return true;
}

bool sim_csv_close(struct sim_run *run)
{
	bool are_queues_written = csv_close(run->queues, "queues");
	bool are_rates_written = csv_close(run->rates, "rates");

	run->queues = run->rates = NULL;
	return are_queues_written && are_rates_written;
}
