/* SPDX-License-Identifier: BSD-2-Clause */
/* The item "dcb" of a scenario's hosts, in the words of iproute2's dcb. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "sim/scenario/scenario.h"

/* Takes the next "LEFT:RIGHT" of a list with blanks between. `left` is "all" or a number. */
static bool pair_next(const char **at, char left[8], char right[8])
{
	int bytes = 0;

	if (sscanf(*at, " %7[a-z0-9]:%7[a-z0-9]%n", left, right, &bytes) != 2)
		return false;
	*at += bytes;
	return **at == ' ' || !**at;
}

/* Is the text a whole number up to `most`? */
static bool number_parse(const char *text, uint32_t most, uint32_t *ret_number)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	*ret_number = (uint32_t)number;
	return text[0] >= '0' && text[0] <= '9' && !*end && number <= most;
}

static bool pause_set(struct scenario *scenario, const char *left, const char *right)
{
	uint32_t priority = 0;
	uint8_t mine = 0xff;

	if (strcmp(left, "all") != 0) {
		if (!number_parse(left, FABRIC_PRIORITY_COUNT - 1, &priority))
			return false;
		mine = (uint8_t)(1u << priority);
	}
	if (strcmp(right, "on") == 0)
		scenario->pause_ignored &= (uint8_t)~mine;
	else
		scenario->pause_ignored |= mine;
	return strcmp(right, "on") == 0 || strcmp(right, "off") == 0;
}

static bool dscp_set(struct scenario *scenario, const char *left, const char *right)
{
	uint32_t dscp;
	uint32_t priority;

	if (!number_parse(left, FABRIC_DSCP_COUNT - 1, &dscp) ||
		!number_parse(right, FABRIC_PRIORITY_COUNT - 1, &priority))
		return false;
	scenario->priority_of_dscp[dscp] = (uint8_t)priority;
	return true;
}

typedef bool pair_set(struct scenario *scenario, const char *left, const char *right);

static bool list_read(const struct scenario_text *text, struct scenario *scenario,
	const cJSON *object, const char *name, const char *example, pair_set *set)
{
	const struct scenario_field field = SCENARIO_OTHER(name);
	const cJSON *item = scenario_member(object, name);
	const char *at = "";
	char left[8];
	char right[8];

	if (!object)
		return true;
	if (!scenario_read_object(text, object, "this part of dcb", &field, 1, NULL) ||
		!scenario_read_string(text, object, name, &at))
		return false;
	while (at[strspn(at, " ")])
		if (!pair_next(&at, left, right) || !set(scenario, left, right))
			return scenario_refuse(text, item,
				"\"%s\" is \"%s\": it is a list as \"%s\"", name, item->valuestring,
				example);
	return true;
}

bool scenario_read_dcb(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *item)
{
	static const struct scenario_field fields[] = {
		SCENARIO_OTHER("pfc"),
		SCENARIO_OTHER("app"),
	};

	for (uint32_t i = 0; i < FABRIC_DSCP_COUNT; i++)
		scenario->priority_of_dscp[i] = (uint8_t)(i >> 3);
	if (!item)
		return true;
	return scenario_read_object(text, item, "\"dcb\"", fields, ARRAY_COUNT(fields), NULL) &&
		list_read(text, scenario, scenario_member(item, "pfc"), "prio-pfc", "all:off 3:on",
			pause_set) &&
		list_read(text, scenario, scenario_member(item, "app"), "dscp-prio", "26:3 48:6",
			dscp_set);
}
