/* SPDX-License-Identifier: BSD-2-Clause */
/* The item "faults" of a scenario. */
#include <stdlib.h>

#include "base/arith.h"
#include "common/command.h"
#include "sim/scenario/scenario.h"

struct fault_numbers {
	uint64_t priority;
	uint64_t ppm;
	uint64_t period;
	uint64_t take_mbps;
	uint64_t limit_bytes;
	uint64_t down_ps;
	uint64_t up_ps;
	uint64_t start_ps;
	uint64_t end_ps;
};

#define NUMBER(member, name, scale, low, high) \
	SCENARIO_NUMBER(struct fault_numbers, member, name, scale, low, high)

enum {
	ON_HOST = 1u << SCENARIO_STORM | 1u << SCENARIO_SLOW,
	ON_CABLE = 1u << SCENARIO_LOSS | 1u << SCENARIO_DOWN | 1u << SCENARIO_CORRUPTION |
		1u << SCENARIO_FLAP,
	FAULT_COUNT_MAX = 10000, /* a flap becomes many faults */
};

static const char *const fault_words[] = {
	"loss", "down", "storm", "corruption", "slow", "flap", NULL};

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

static bool host_read(const struct scenario_text *text, const struct scenario *scenario,
	const cJSON *item, struct scenario_fault *fault)
{
	fault->from.is_host = true;
	if (!scenario_member(item, "host"))
		return scenario_refuse(text, item, "a fault of a host has a \"host\"");
	if (fault->kind == SCENARIO_SLOW && !fault->take_mbps)
		return scenario_refuse(text, item, "a slow host has a \"rate_gbps\"");
	return scenario_read_host(
		text, scenario, scenario_member(item, "host"), &fault->from.number);
}

/* Each kind of fault has its own members besides the times. */
static bool fault_check(const struct scenario_text *text, const struct scenario *scenario,
	const cJSON *item, uint32_t kind)
{
	static const struct {
		const char *name;
		uint32_t kinds; /* a bit for each kind that has it */
	} own[] = {
		{"from", ON_CABLE},
		{"to", ON_CABLE},
		{"host", ON_HOST},
		{"priority", 1u << SCENARIO_STORM},
		{"ppm", 1u << SCENARIO_LOSS | 1u << SCENARIO_CORRUPTION},
		{"every", 1u << SCENARIO_LOSS},
		{"rate_gbps", 1u << SCENARIO_SLOW},
		{"buffer", 1u << SCENARIO_SLOW},
		{"down_us", 1u << SCENARIO_FLAP},
		{"up_us", 1u << SCENARIO_FLAP},
	};

	if (scenario->is_infiniband && (ON_HOST >> kind & 1))
		return scenario_refuse(text, item,
			"a fault of kind \"%s\" pauses: InfiniBand links have credits instead",
			fault_words[kind]);
	for (uint32_t i = 0; i < ARRAY_COUNT(own); i++)
		if (scenario_member(item, own[i].name) && !(own[i].kinds >> kind & 1))
			return scenario_refuse(text, scenario_member(item, own[i].name),
				"a fault of kind \"%s\" has no \"%s\"", fault_words[kind],
				own[i].name);
	if (kind == SCENARIO_LOSS &&
		!scenario_member(item, "ppm") == !scenario_member(item, "every"))
		return scenario_refuse(text, item, "a loss has either \"ppm\" or \"every\"");
	if (kind == SCENARIO_CORRUPTION && !scenario_member(item, "ppm"))
		return scenario_refuse(text, item, "a corruption has a \"ppm\"");
	if (kind == SCENARIO_FLAP &&
		(!scenario_member(item, "down_us") || !scenario_member(item, "up_us")))
		return scenario_refuse(text, item, "a flap has \"down_us\" and \"up_us\"");
	return true;
}

/* Add a fault, zeroed. Returns NULL, after a sentence, if there is no room for it. */
static struct scenario_fault *fault_add(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *item)
{
	uint32_t count = scenario->fault_count;
	struct scenario_fault *faults = scenario->faults;

	if (count == FAULT_COUNT_MAX) {
		scenario_refuse(text, item, "more than %d faults", FAULT_COUNT_MAX);
		return NULL;
	}
	if (!(count & (count - 1)))
		faults = (struct scenario_fault *)realloc(
			faults, (count ? 2 * count : 1) * sizeof(struct scenario_fault));
	if (!faults) {
		complain("no memory for %u faults", count + 1);
		return NULL;
	}
	scenario->faults = faults;
	scenario->fault_count++;
	faults[count] = (struct scenario_fault){0};
	return &faults[count];
}

/* Add a fault for each time that a flapping cable is down, until the fault ends, or the run. */
static bool flap_add(const struct scenario_text *text, struct scenario *scenario, const cJSON *item,
	const struct scenario_fault *flap, const struct fault_numbers *numbers)
{
	uint64_t end_ps = min_u64(flap->end_ps, scenario->duration_ps);

	for (uint64_t at_ps = flap->start_ps; at_ps < end_ps;
		at_ps += numbers->down_ps + numbers->up_ps) {
		struct scenario_fault *fault = fault_add(text, scenario, item);

		if (!fault)
			return false;
		*fault = *flap;
		fault->kind = SCENARIO_DOWN;
		fault->start_ps = at_ps;
		fault->end_ps = min_u64(at_ps + numbers->down_ps, end_ps);
	}
	return true;
}

static const struct scenario_field fault_fields[] = {
	SCENARIO_OTHER("kind"),
	SCENARIO_OTHER("from"),
	SCENARIO_OTHER("to"),
	SCENARIO_OTHER("host"),
	NUMBER(priority, "priority", 1, 0, FABRIC_PRIORITY_COUNT - 1),
	NUMBER(ppm, "ppm", 1, 1, 1000000),
	NUMBER(period, "every", 1, 2, 1e9),
	NUMBER(take_mbps, "rate_gbps", 1000, 0.001, FABRIC_RATE_MBPS_MAX / 1000.),
	NUMBER(limit_bytes, "buffer", 1, 0, 1 << 30),
	NUMBER(down_ps, "down_us", 1e6, 0.001, SCENARIO_TIME_US_MAX),
	NUMBER(up_ps, "up_us", 1e6, 0.001, SCENARIO_TIME_US_MAX),
	NUMBER(start_ps, "start_us", 1e6, 0, SCENARIO_TIME_US_MAX),
	NUMBER(end_ps, "end_us", 1e6, 0, SCENARIO_TIME_US_MAX),
};

static bool fault_read(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *item)
{
	struct fault_numbers numbers = {
		.priority = 3, .limit_bytes = 65536, .end_ps = FABRIC_NEVER};
	const cJSON *kind = scenario_member(item, "kind");
	struct scenario_fault fault;
	struct scenario_fault *added;
	uint32_t place;

	if (!scenario_read_object(
		    text, item, "a fault", fault_fields, ARRAY_COUNT(fault_fields), &numbers))
		return false;
	if (!kind)
		return scenario_refuse(text, item, "a fault has no \"kind\"");
	if (!scenario_read_word(text, kind, "kind of fault", fault_words, &place) ||
		!fault_check(text, scenario, item, place))
		return false;
	if (numbers.end_ps <= numbers.start_ps)
		return scenario_refuse(text, item, "the fault ends before it begins");
	fault = (struct scenario_fault){
		.kind = (enum scenario_fault_kind)place,
		.priority = (uint32_t)numbers.priority,
		.ppm = (uint32_t)numbers.ppm,
		.period = (uint32_t)numbers.period,
		.take_mbps = (uint32_t)numbers.take_mbps,
		.limit_bytes = (uint32_t)numbers.limit_bytes,
		.start_ps = numbers.start_ps,
		.end_ps = numbers.end_ps,
	};
	if (ON_HOST >> place & 1 ? !host_read(text, scenario, item, &fault)
				 : !cable_read(text, scenario, item, &fault))
		return false;
	if (place == SCENARIO_FLAP)
		return flap_add(text, scenario, item, &fault, &numbers);
	added = fault_add(text, scenario, item);
	if (added)
		*added = fault;
	return added;
}

bool scenario_read_faults(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *list)
{
	const cJSON *item;

	if (!list)
		return true;
	if (!cJSON_IsArray(list))
		return scenario_refuse(text, list, "\"faults\" is not a list");
	cJSON_ArrayForEach(item, list)
	{
		if (!fault_read(text, scenario, item))
			return false;
	}
	return true;
}
