/* SPDX-License-Identifier: BSD-2-Clause */
/* Workloads as of applications: collectives, storage, messages of given sizes and times. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "common/command.h"
#include "sim/scenario/scenario_workload.h"

enum { SIZES_MAX = 64 };

static struct fabric_random workload_random(const struct workload *workload)
{
	return fabric_random_make(workload->scenario->config.seed, FABRIC_RANDOM_WORKLOAD,
		workload->scenario->workload_count);
}

/* --- all-reduce --- */

/*
 * Each of the N hosts of a ring sends a share of its vector to the next host, in 2 (N - 1) steps.
 * In each step it sends what it has received in the step before.
 */
bool all_reduce_read(struct workload *workload)
{
	struct scenario *scenario = workload->scenario;
	uint32_t count = topology_host_count(&scenario->topology);
	uint64_t step_flows = count * workload->numbers.flows;
	uint64_t share_bytes = div_ceil_u64(workload->numbers.bytes, count);

	if (!workload->numbers.bytes)
		return scenario_refuse(
			workload->text, workload->item, "an all-reduce has no \"bytes\"");
	for (uint32_t step = 0; step < 2 * (count - 1); step++)
		for (uint64_t i = 0; i < step_flows; i++) {
			uint32_t host = (uint32_t)(i % count);
			uint32_t before = (host + count - 1) % count;
			uint32_t number = scenario->flow_count;

			if (!workload_add(workload, host, (host + 1) % count, share_bytes,
				    step ? FABRIC_NEVER : workload->numbers.start_ps))
				return false;
			if (step)
				scenario->flows[number - step_flows - host + before].follower =
					number;
		}
	return true;
}

/* --- storage --- */

static bool servers_read(struct workload *workload, bool *is_server)
{
	const cJSON *list = scenario_member(workload->item, "servers");
	const cJSON *name;
	uint32_t clients = topology_host_count(&workload->scenario->topology);

	if (!cJSON_IsArray(list) || !cJSON_GetArraySize(list))
		return scenario_refuse(workload->text, list ? list : workload->item,
			"\"servers\" is a list of hosts");
	cJSON_ArrayForEach(name, list)
	{
		uint32_t host;

		if (!scenario_read_host(workload->text, workload->scenario, name, &host))
			return false;
		if (is_server[host])
			return scenario_refuse(
				workload->text, name, "\"%s\" is there twice", name->valuestring);
		is_server[host] = true;
		clients--;
	}
	if (!clients)
		return scenario_refuse(workload->text, list, "all hosts are servers");
	return true;
}

static uint32_t server_choose(
	const struct workload *workload, const bool *is_server, struct fabric_random *random)
{
	uint32_t count = topology_host_count(&workload->scenario->topology);
	uint32_t host;

	do {
		host = (uint32_t)fabric_random_below(random, count);
	} while (!is_server[host]);
	return host;
}

/* Add a request of the client. A read is a flow from the server, a write one from the client. */
static bool client_add(struct workload *workload, const bool *is_server, uint32_t client,
	struct fabric_random *random)
{
	const struct workload_numbers *numbers = &workload->numbers;
	uint64_t start_ps = numbers->start_ps;

	for (uint64_t i = 0; i < numbers->operations; i++) {
		uint32_t server = server_choose(workload, is_server, random);
		bool is_read = fabric_random_below(random, 100) < numbers->read_percent;

		start_ps += fabric_random_gap(random, min_u64(numbers->step_ps, FABRIC_PS_PER_S));
		if (!workload_add(workload, is_read ? server : client, is_read ? client : server,
			    numbers->bytes, start_ps))
			return false;
	}
	return true;
}

bool storage_read(struct workload *workload)
{
	uint32_t count = topology_host_count(&workload->scenario->topology);
	bool *is_server = (bool *)calloc(count, sizeof(bool));
	struct fabric_random random = workload_random(workload);
	bool is_read = is_server;

	if (!is_server)
		complain("no memory for %u hosts", count);
	is_read = is_read && servers_read(workload, is_server);
	workload->numbers.bytes = workload->numbers.bytes ? workload->numbers.bytes : 4096;
	if (!workload->numbers.step_ps)
		workload->numbers.step_ps = 10 * FABRIC_PS_PER_US;
	for (uint32_t i = 0; is_read && i < count; i++)
		if (!is_server[i])
			is_read = client_add(workload, is_server, i, &random);
	free(is_server);
	return is_read;
}

/* --- messages of given sizes --- */

/* The share of messages, in percent, that have at most so many bytes. */
struct size_step {
	uint64_t bytes;
	uint32_t percent;
};

struct sizes {
	uint32_t count;
	struct size_step steps[SIZES_MAX];
};

static bool step_read(struct workload *workload, const cJSON *item, struct sizes *sizes)
{
	const cJSON *bytes = cJSON_IsArray(item) ? item->child : NULL;
	const cJSON *percent = bytes ? bytes->next : NULL;
	const struct size_step *before = sizes->count ? &sizes->steps[sizes->count - 1] : NULL;
	struct size_step *step = &sizes->steps[sizes->count];

	if (!cJSON_IsNumber(bytes) || !percent || !cJSON_IsNumber(percent) || percent->next)
		return scenario_refuse(workload->text, item,
			"an item of \"sizes\" is a number of bytes and a percentage");
	if (!(bytes->valuedouble >= 1 && bytes->valuedouble <= 1e12) ||
		!(percent->valueint >= 1 && percent->valueint <= 100) ||
		percent->valuedouble != percent->valueint)
		return scenario_refuse(workload->text, item,
			"bytes are from 1 to 1e12, percentages whole numbers from 1 to 100");
	*step = (struct size_step){(uint64_t)bytes->valuedouble, (uint32_t)percent->valueint};
	if (before && (step->bytes <= before->bytes || step->percent <= before->percent))
		return scenario_refuse(workload->text, item, "the items of \"sizes\" rise");
	sizes->count++;
	return true;
}

static bool steps_read(struct workload *workload, struct sizes *sizes)
{
	const cJSON *list = scenario_member(workload->item, "sizes");
	const cJSON *item;

	if (!cJSON_IsArray(list) || !cJSON_GetArraySize(list) ||
		cJSON_GetArraySize(list) > SIZES_MAX)
		return scenario_refuse(workload->text, list ? list : workload->item,
			"\"sizes\" is a list of 1 to %d items as [bytes, percent]", SIZES_MAX);
	cJSON_ArrayForEach(item, list)
	{
		if (!step_read(workload, item, sizes))
			return false;
	}
	if (sizes->steps[sizes->count - 1].percent != 100)
		return scenario_refuse(workload->text, list, "the last percentage is %u: it is 100",
			sizes->steps[sizes->count - 1].percent);
	return true;
}

/* Between two steps all sizes are equally likely. */
static uint64_t size_choose(const struct sizes *sizes, struct fabric_random *random)
{
	uint64_t percent = fabric_random_below(random, 100);
	uint64_t low = 0;
	uint32_t i = 0;

	while (percent >= sizes->steps[i].percent)
		low = sizes->steps[i++].bytes;
	return low + 1 + fabric_random_below(random, sizes->steps[i].bytes - low);
}

static uint64_t size_mean(const struct sizes *sizes)
{
	uint64_t sum = 0;
	uint64_t low = 0;
	uint32_t below = 0;

	for (uint32_t i = 0; i < sizes->count; i++) {
		sum += (sizes->steps[i].percent - below) * (low + sizes->steps[i].bytes);
		low = sizes->steps[i].bytes;
		below = sizes->steps[i].percent;
	}
	return max_u64(sum / 200, 1);
}

/* Each host sends at random times to random others, so much that it uses its share of its cable. */
bool sizes_read(struct workload *workload)
{
	const struct scenario *scenario = workload->scenario;
	uint32_t count = topology_host_count(&scenario->topology);
	uint32_t rate_mbps = scenario->topology.host_link.rate_mbps;
	struct fabric_random random = workload_random(workload);
	struct sizes sizes = {0};
	uint64_t gap_ps;

	if (!steps_read(workload, &sizes))
		return false;
	gap_ps = min_u64(fabric_wire_ps(size_mean(&sizes), rate_mbps), FABRIC_PS_PER_S);
	gap_ps = min_u64(gap_ps * 100 / workload->numbers.load_percent, FABRIC_PS_PER_S);
	for (uint32_t host = 0; host < count; host++) {
		uint64_t at_ps = workload->numbers.start_ps + fabric_random_gap(&random, gap_ps);

		for (; at_ps < scenario->duration_ps; at_ps += fabric_random_gap(&random, gap_ps)) {
			uint32_t step = 1 + (uint32_t)fabric_random_below(&random, count - 1);

			if (!workload_add(workload, host, (host + step) % count,
				    size_choose(&sizes, &random), at_ps))
				return false;
		}
	}
	return true;
}

/* --- traces --- */

static bool trace_line_read(
	struct workload *workload, const char *path, uint32_t line, const char *text)
{
	uint32_t count = topology_host_count(&workload->scenario->topology);
	unsigned long long bytes;
	unsigned source;
	unsigned destination;
	double start_us;
	int end = 0;

	if (text[strspn(text, " \t\r\n")] == 0 || text[0] == '#')
		return true;
	if (sscanf(text, "%lf h%5u h%5u %llu %n", &start_us, &source, &destination, &bytes, &end) !=
			4 ||
		text[end] || !(start_us >= 0 && start_us <= SCENARIO_TIME_US_MAX) || !bytes ||
		bytes > (uint64_t)SCENARIO_FLOW_BYTES_MAX) {
		complain("%s:%u: a line has a time in us, two hosts and bytes, as \"12.5 h0 h1 "
			 "4096\"",
			path, line);
		return false;
	}
	if (source >= count || destination >= count) {
		complain("%s:%u: unknown host \"h%u\": there are h0 to h%u", path, line,
			source >= count ? source : destination, count - 1);
		return false;
	}
	if (source == destination) {
		complain("%s:%u: host \"h%u\" sends to itself", path, line, source);
		return false;
	}
	return workload_add(workload, source, destination, bytes,
		(uint64_t)(start_us * FABRIC_PS_PER_US + 0.5));
}

bool trace_read(struct workload *workload)
{
	char path[4096];
	char *line = NULL;
	size_t room = 0;
	const char *name = NULL;
	uint32_t number = 0;
	bool is_read = true;
	FILE *file;

	if (!scenario_read_string(workload->text, workload->item, "file", &name))
		return false;
	if (!name)
		return scenario_refuse(workload->text, workload->item, "a trace has no \"file\"");
	if (!scenario_join_path(workload->text, name, path, sizeof(path)))
		return false;
	file = fopen(path, "re");
	if (!file) {
		complain("%s: %s", path, strerror(errno));
		return false;
	}
	while (is_read && getline(&line, &room, file) >= 0)
		is_read = trace_line_read(workload, path, ++number, line);
	if (is_read && ferror(file)) {
		complain("%s: %s", path, strerror(errno));
		is_read = false;
	}
	free(line);
	fclose(file);
	return is_read;
}
