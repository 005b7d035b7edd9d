/* SPDX-License-Identifier: BSD-2-Clause */
/* The item "workloads" of a scenario. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "common/command.h"
#include "sim/scenario/scenario_workload.h"

#define NUMBER(member, name, scale, low, high) \
	SCENARIO_NUMBER(struct workload_numbers, member, name, scale, low, high)

#define TIME_PS_MAX ((uint64_t)(SCENARIO_TIME_US_MAX * FABRIC_PS_PER_US))

enum workload_kind {
	WORKLOAD_INCAST,
	WORKLOAD_PERMUTATION,
	WORKLOAD_ALL_TO_ALL,
	WORKLOAD_PAIRS,
	WORKLOAD_ALL_REDUCE,
	WORKLOAD_STORAGE,
	WORKLOAD_SIZES,
	WORKLOAD_TRACE,
	WORKLOAD_MULTICAST,
};

static const char *const workload_words[] = {"incast", "permutation", "all-to-all", "pairs",
	"all-reduce", "storage", "sizes", "trace", "multicast", NULL};

/* Make room for one more flow. Returns false, after a sentence, if there is none. */
static bool flow_reserve(struct workload *workload)
{
	struct scenario *scenario = workload->scenario;
	struct fabric_flow *flows;

	if (scenario->flow_count == SCENARIO_FLOW_COUNT_MAX)
		return scenario_refuse(workload->text, workload->item, "more than %d flows",
			SCENARIO_FLOW_COUNT_MAX);
	if (scenario->flow_count < workload->capacity)
		return true;
	workload->capacity = max_u32(64, 2 * workload->capacity);
	flows = (struct fabric_flow *)realloc(
		scenario->flows, workload->capacity * sizeof(struct fabric_flow));
	if (!flows) {
		complain("no memory for %u flows", workload->capacity);
		return false;
	}
	scenario->flows = flows;
	return true;
}

bool workload_add(struct workload *workload, uint32_t source, uint32_t destination, uint64_t bytes,
	uint64_t start_ps)
{
	struct scenario *scenario = workload->scenario;

	if (!flow_reserve(workload))
		return false;
	scenario->flows[scenario->flow_count++] = (struct fabric_flow){
		.source = source,
		.destination = destination,
		.priority = (uint8_t)workload->numbers.priority,
		.dscp = (uint8_t)workload->numbers.dscp,
		.is_ecn_capable = workload->is_ecn_capable,
		.pkey = workload->pkey,
		.rate_mbps = (uint32_t)workload->numbers.rate_mbps,
		.bytes = bytes,
		.start_ps = start_ps,
	};
	return true;
}

bool workload_add_pair(struct workload *workload, uint32_t source, uint32_t destination)
{
	const struct scenario *scenario = workload->scenario;
	const struct workload_numbers *numbers = &workload->numbers;
	const struct scenario_workload *group = &scenario->workloads[scenario->workload_count];
	uint64_t before_max = TIME_PS_MAX / max_u64(numbers->step_ps, 1);

	for (uint64_t i = 0; i < numbers->flows; i++) {
		uint64_t before = scenario->flow_count - group->first_flow;

		if (before > before_max)
			return scenario_refuse(workload->text, workload->item,
				"flow %llu of the workload begins after more than %.15g us",
				(unsigned long long)before, SCENARIO_TIME_US_MAX);
		if (!workload_add(workload, source, destination, numbers->bytes,
			    numbers->start_ps + before * numbers->step_ps))
			return false;
	}
	return true;
}

/* --- kinds of workloads --- */

static bool incast_read(struct workload *workload)
{
	const struct scenario_text *text = workload->text;
	const cJSON *from = scenario_member(workload->item, "from");
	const cJSON *name;
	uint32_t to;
	uint32_t host;

	if (!scenario_member(workload->item, "to"))
		return scenario_refuse(text, workload->item, "an incast has no \"to\"");
	if (!scenario_read_host(
		    text, workload->scenario, scenario_member(workload->item, "to"), &to))
		return false;
	if (from && !cJSON_IsArray(from))
		return scenario_refuse(text, from, "\"from\" is not a list of hosts");
	cJSON_ArrayForEach(name, from)
	{
		if (!scenario_read_host(text, workload->scenario, name, &host))
			return false;
		if (host == to)
			return scenario_refuse(
				text, name, "host \"%s\" sends to itself", name->valuestring);
		if (!workload_add_pair(workload, host, to))
			return false;
	}
	if (from)
		return true;
	for (host = 0; host < topology_host_count(&workload->scenario->topology); host++)
		if (host != to && !workload_add_pair(workload, host, to))
			return false;
	return true;
}

/* Each host sends to one other, and receives from one other: a random cycle through all hosts. */
static bool permutation_read(struct workload *workload)
{
	struct scenario *scenario = workload->scenario;
	uint32_t count = topology_host_count(&scenario->topology);
	uint32_t *to = (uint32_t *)calloc(count, sizeof(uint32_t));
	struct fabric_random random = fabric_random_make(
		scenario->config.seed, FABRIC_RANDOM_WORKLOAD, scenario->workload_count);
	bool is_added = to;

	if (!to)
		complain("no memory for %u hosts", count);
	for (uint32_t i = 0; to && i < count; i++)
		to[i] = i;
	for (uint32_t i = count - 1; to && i; i--) {
		uint32_t other = (uint32_t)fabric_random_below(&random, i);
		uint32_t host = to[i];

		to[i] = to[other];
		to[other] = host;
	}
	for (uint32_t i = 0; is_added && i < count; i++)
		is_added = workload_add_pair(workload, i, to[i]);
	free(to);
	return is_added;
}

static bool all_to_all_read(struct workload *workload)
{
	uint32_t count = topology_host_count(&workload->scenario->topology);

	/* In each step every host is the destination of one other. */
	for (uint32_t step = 1; step < count; step++)
		for (uint32_t host = 0; host < count; host++)
			if (!workload_add_pair(workload, host, (host + step) % count))
				return false;
	return true;
}

static bool pairs_read(struct workload *workload)
{
	const struct scenario_text *text = workload->text;
	const cJSON *list = scenario_member(workload->item, "pairs");
	const cJSON *pair;

	if (!cJSON_IsArray(list))
		return scenario_refuse(text, list ? list : workload->item,
			"\"pairs\" is a list of pairs of hosts");
	cJSON_ArrayForEach(pair, list)
	{
		uint32_t source;
		uint32_t destination;

		if (!cJSON_IsArray(pair) || cJSON_GetArraySize(pair) != 2)
			return scenario_refuse(text, pair, "a pair is a list of two hosts");
		if (!scenario_read_host(text, workload->scenario, pair->child, &source) ||
			!scenario_read_host(
				text, workload->scenario, pair->child->next, &destination))
			return false;
		if (source == destination)
			return scenario_refuse(text, pair, "host \"%s\" sends to itself",
				pair->child->valuestring);
		if (!workload_add_pair(workload, source, destination))
			return false;
	}
	return true;
}

/* Each kind has members of its own. */
static bool members_check(struct workload *workload, uint32_t kind)
{
	static const struct {
		const char *name;
		uint32_t kinds; /* a bit for each kind that has it */
	} own[] = {
		{"to", 1u << WORKLOAD_INCAST | 1u << WORKLOAD_MULTICAST},
		{"from", 1u << WORKLOAD_INCAST | 1u << WORKLOAD_MULTICAST},
		{"pairs", 1u << WORKLOAD_PAIRS},
		{"servers", 1u << WORKLOAD_STORAGE},
		{"reads", 1u << WORKLOAD_STORAGE},
		{"operations", 1u << WORKLOAD_STORAGE},
		{"sizes", 1u << WORKLOAD_SIZES},
		{"load", 1u << WORKLOAD_SIZES},
		{"file", 1u << WORKLOAD_TRACE},
		{"bytes", ~(1u << WORKLOAD_SIZES | 1u << WORKLOAD_TRACE)},
		{"step_us",
			~(1u << WORKLOAD_SIZES | 1u << WORKLOAD_TRACE | 1u << WORKLOAD_ALL_REDUCE)},
		{"flows", ~(1u << WORKLOAD_SIZES | 1u << WORKLOAD_TRACE | 1u << WORKLOAD_STORAGE)},
	};

	for (uint32_t i = 0; i < ARRAY_COUNT(own); i++)
		if (scenario_member(workload->item, own[i].name) && !(own[i].kinds >> kind & 1))
			return scenario_refuse(workload->text,
				scenario_member(workload->item, own[i].name),
				"a workload of kind \"%s\" has no \"%s\"", workload_words[kind],
				own[i].name);
	return true;
}

static bool kind_read(struct workload *workload, uint32_t kind)
{
	if (!members_check(workload, kind))
		return false;
	switch ((enum workload_kind)kind) {
	case WORKLOAD_INCAST:
		return incast_read(workload);
	case WORKLOAD_PERMUTATION:
		return permutation_read(workload);
	case WORKLOAD_ALL_TO_ALL:
		return all_to_all_read(workload);
	case WORKLOAD_PAIRS:
		return pairs_read(workload);
	case WORKLOAD_ALL_REDUCE:
		return all_reduce_read(workload);
	case WORKLOAD_STORAGE:
		return storage_read(workload);
	case WORKLOAD_SIZES:
		return sizes_read(workload);
	case WORKLOAD_TRACE:
		return trace_read(workload);
	case WORKLOAD_MULTICAST:
		return group_read(workload);
	}
	return false;
}

enum { NO_DSCP = FABRIC_DSCP_COUNT };

/* Derive the priority from the DSCP, as hosts map it, or the DSCP from the priority. */
static bool dscp_set(struct workload *workload)
{
	struct workload_numbers *numbers = &workload->numbers;

	if (numbers->dscp == NO_DSCP)
		numbers->dscp = FABRIC_DSCP_OF(numbers->priority);
	else if (scenario_member(workload->item, "priority"))
		return scenario_refuse(workload->text, workload->item,
			"a workload has either \"dscp\" or \"priority\"");
	else
		numbers->priority = workload->scenario->priority_of_dscp[numbers->dscp];
	return true;
}

static const struct scenario_field workload_fields[] = {
	SCENARIO_OTHER("kind"),
	SCENARIO_OTHER("name"),
	SCENARIO_OTHER("to"),
	SCENARIO_OTHER("from"),
	SCENARIO_OTHER("pairs"),
	SCENARIO_OTHER("servers"),
	SCENARIO_OTHER("sizes"),
	SCENARIO_OTHER("file"),
	SCENARIO_OTHER("ecn"),
	SCENARIO_OTHER("pkey"),
	NUMBER(bytes, "bytes", 1, 1, SCENARIO_FLOW_BYTES_MAX),
	NUMBER(start_ps, "start_us", 1e6, 0, SCENARIO_TIME_US_MAX),
	NUMBER(step_ps, "step_us", 1e6, 0, SCENARIO_TIME_US_MAX),
	NUMBER(dscp, "dscp", 1, 0, FABRIC_DSCP_COUNT - 1),
	NUMBER(priority, "priority", 1, 0, FABRIC_PRIORITY_COUNT - 1),
	NUMBER(rate_mbps, "rate_gbps", 1000, 0.001, FABRIC_RATE_MBPS_MAX / 1000.),
	NUMBER(flows, "flows", 1, 1, 65536),
	NUMBER(read_percent, "reads", 1, 0, 100),
	NUMBER(operations, "operations", 1, 1, SCENARIO_FLOW_COUNT_MAX),
	NUMBER(load_percent, "load", 1, 1, 100),
};

static bool workload_read(struct workload *workload)
{
	struct scenario *scenario = workload->scenario;
	struct scenario_workload *group = &scenario->workloads[scenario->workload_count];
	const cJSON *kind = scenario_member(workload->item, "kind");
	const char *name = NULL;
	uint32_t place;

	workload->numbers = (struct workload_numbers){.dscp = NO_DSCP,
		.priority = 3,
		.flows = 1,
		.read_percent = 70,
		.operations = 100,
		.load_percent = 30};
	workload->is_ecn_capable = true;
	workload->pkey = 0;
	if (!scenario_read_object(workload->text, workload->item, "a workload", workload_fields,
		    ARRAY_COUNT(workload_fields), &workload->numbers) ||
		!scenario_read_string(workload->text, workload->item, "name", &name) ||
		!scenario_read_pkey(workload->text, workload->item, &workload->pkey) ||
		!scenario_read_bool(
			workload->text, workload->item, "ecn", &workload->is_ecn_capable))
		return false;
	if (!kind)
		return scenario_refuse(
			workload->text, workload->item, "a workload has no \"kind\"");
	if (workload->pkey && !scenario->is_infiniband)
		return scenario_refuse(workload->text, workload->item,
			"\"pkey\" is InfiniBand's: the topology has no \"link_layer\" "
			"\"infiniband\"");
	if (!dscp_set(workload))
		return false;
	if (!scenario_read_word(workload->text, kind, "kind of workload", workload_words, &place))
		return false;
	group->first_flow = scenario->flow_count;
	snprintf(group->name, sizeof(group->name), "%s", name ? name : workload_words[place]);
	if (!kind_read(workload, place))
		return false;
	group->flow_count = scenario->flow_count - group->first_flow;
	scenario->workload_count++;
	return true;
}

bool scenario_read_workloads(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *list)
{
	struct workload workload = {.text = text, .scenario = scenario};

	if (!cJSON_IsArray(list))
		return scenario_refuse(
			text, list ? list : text->root, "the scenario has no list \"workloads\"");
	scenario->workloads = (struct scenario_workload *)calloc(
		(size_t)cJSON_GetArraySize(list) + 1, sizeof(struct scenario_workload));
	if (!scenario->workloads) {
		complain("no memory for workloads");
		return false;
	}
	cJSON_ArrayForEach(workload.item, list)
	{
		if (!workload_read(&workload))
			return false;
	}
	if (!scenario->flow_count)
		return scenario_refuse(text, list, "the workloads have no flow");
	return true;
}
