/* SPDX-License-Identifier: BSD-2-Clause */
/* The item "faults" of a scenario. */
#include <stdlib.h>

#include "base/arith.h"
#include "common/command.h"
#include "sim/scenario.h"

struct fault_numbers {
	uint64_t priority;
	uint64_t ppm;
	uint64_t period;
	uint64_t start_ps;
	uint64_t end_ps;
};

#define NUMBER(member, name, scale, low, high) \
	SCENARIO_NUMBER(struct fault_numbers, member, name, scale, low, high)

static const char *const fault_words[] = {"loss", "down", "storm", NULL};

static bool are_neighbours(
	const struct scenario *scenario, struct fabric_node a, struct fabric_node b)
{
	struct fabric *fabric = fabric_create(&scenario->config);
	bool are_found = fabric && !topology_build(fabric, &scenario->topology) &&
		scenario_port_between(fabric, a, b) != FABRIC_NO_PORT;

	fabric_destroy(fabric);
	return are_found;
}

static bool cable_read(const struct scenario_text *text, const struct scenario *scenario,
	const cJSON *item, struct scenario_fault *fault)
{
	const cJSON *from = scenario_member(item, "from");
	const cJSON *to = scenario_member(item, "to");

	if (!from || !to)
		return scenario_refuse(text, item, "a fault of a cable has \"from\" and \"to\"");
	if (!scenario_read_node(text, scenario, from, &fault->from) ||
		!scenario_read_node(text, scenario, to, &fault->to))
		return false;
	if (!are_neighbours(scenario, fault->from, fault->to))
		return scenario_refuse(text, to, "there is no cable from \"%s\" to \"%s\"",
			from->valuestring, to->valuestring);
	return true;
}

static bool storm_read(const struct scenario_text *text, const struct scenario *scenario,
	const cJSON *item, struct scenario_fault *fault)
{
	fault->from.is_host = true;
	if (!scenario_member(item, "host"))
		return scenario_refuse(text, item, "a storm has a \"host\"");
	return scenario_read_host(
		text, scenario, scenario_member(item, "host"), &fault->from.number);
}

/* Each kind of fault has its own members besides the times. */
static bool fault_check(const struct scenario_text *text, const cJSON *item, uint32_t kind)
{
	static const struct {
		const char *name;
		uint32_t kinds; /* a bit for each kind that has it */
	} own[] = {
		{"from", 1u << SCENARIO_LOSS | 1u << SCENARIO_DOWN},
		{"to", 1u << SCENARIO_LOSS | 1u << SCENARIO_DOWN},
		{"host", 1u << SCENARIO_STORM},
		{"priority", 1u << SCENARIO_STORM},
		{"ppm", 1u << SCENARIO_LOSS},
		{"every", 1u << SCENARIO_LOSS},
	};

	for (uint32_t i = 0; i < ARRAY_COUNT(own); i++)
		if (scenario_member(item, own[i].name) && !(own[i].kinds >> kind & 1))
			return scenario_refuse(text, scenario_member(item, own[i].name),
				"a fault of kind \"%s\" has no \"%s\"", fault_words[kind],
				own[i].name);
	if (kind == SCENARIO_LOSS &&
		!scenario_member(item, "ppm") == !scenario_member(item, "every"))
		return scenario_refuse(text, item, "a loss has either \"ppm\" or \"every\"");
	return true;
}

static bool fault_read(const struct scenario_text *text, const struct scenario *scenario,
	const cJSON *item, struct scenario_fault *fault)
{
	static const struct scenario_field fields[] = {
		SCENARIO_OTHER("kind"),
		SCENARIO_OTHER("from"),
		SCENARIO_OTHER("to"),
		SCENARIO_OTHER("host"),
		NUMBER(priority, "priority", 1, 0, FABRIC_PRIORITY_COUNT - 1),
		NUMBER(ppm, "ppm", 1, 1, 1000000),
		NUMBER(period, "every", 1, 2, 1e9),
		NUMBER(start_ps, "start_us", 1e6, 0, SCENARIO_TIME_US_MAX),
		NUMBER(end_ps, "end_us", 1e6, 0, SCENARIO_TIME_US_MAX),
	};
	struct fault_numbers numbers = {.priority = 3, .end_ps = FABRIC_NEVER};
	const cJSON *kind = scenario_member(item, "kind");
	uint32_t place;

	if (!scenario_read_object(text, item, "a fault", fields, ARRAY_COUNT(fields), &numbers))
		return false;
	if (!kind)
		return scenario_refuse(text, item, "a fault has no \"kind\"");
	if (!scenario_read_word(text, kind, "kind of fault", fault_words, &place) ||
		!fault_check(text, item, place))
		return false;
	if (numbers.end_ps <= numbers.start_ps)
		return scenario_refuse(text, item, "the fault ends before it begins");
	*fault = (struct scenario_fault){
		.kind = (enum scenario_fault_kind)place,
		.priority = (uint32_t)numbers.priority,
		.ppm = (uint32_t)numbers.ppm,
		.period = (uint32_t)numbers.period,
		.start_ps = numbers.start_ps,
		.end_ps = numbers.end_ps,
	};
	return place == SCENARIO_STORM ? storm_read(text, scenario, item, fault)
				       : cable_read(text, scenario, item, fault);
}

bool scenario_read_faults(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *list)
{
	const cJSON *item;

	if (!list)
		return true;
	if (!cJSON_IsArray(list))
		return scenario_refuse(text, list, "\"faults\" is not a list");
	scenario->faults = (struct scenario_fault *)calloc(
		(size_t)cJSON_GetArraySize(list) + 1, sizeof(struct scenario_fault));
	if (!scenario->faults) {
		complain("no memory for faults");
		return false;
	}
	cJSON_ArrayForEach(item, list)
	{
		if (!fault_read(text, scenario, item, &scenario->faults[scenario->fault_count]))
			return false;
		scenario->fault_count++;
	}
	return true;
}
