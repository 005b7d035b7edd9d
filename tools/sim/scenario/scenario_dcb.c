/* SPDX-License-Identifier: BSD-2-Clause */
/* The item "dcb" of a scenario's hosts, in the words of iproute2's dcb. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arith.h"
#include "sim/scenario/scenario.h"

#define WORD_LENGTH_MAX 15

/* The format of a word, for sscanf(). */
#define WORD_FORMAT(characters)       FORMAT_OF(WORD_LENGTH_MAX, characters)
#define FORMAT_OF(length, characters) "%" LENGTH_TEXT(length) characters
#define LENGTH_TEXT(length)           #length

enum {
	WORD_BYTES = WORD_LENGTH_MAX + 1,
	PART_LISTS_MAX = 3,
	BUFFER_BYTES_MAX = 1 << 30,
};

/* Takes the next "LEFT:RIGHT" of a list with blanks between. `left` is "all" or a number. */
static bool pair_next(const char **at, char left[WORD_BYTES], char right[WORD_BYTES])
{
	int bytes = 0;

	if (sscanf(*at, " " WORD_FORMAT("[a-z0-9]") ":" WORD_FORMAT("[a-zA-Z0-9.]") "%n", left,
		    right, &bytes) != 2)
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

/* A number with a unit behind it. */
struct unit {
	const char *name;
	double scale;
};

static bool scaled_parse(
	const char *text, const struct unit *units, uint32_t count, double *ret_value)
{
	char *end;
	double value = strtod(text, &end);

	for (uint32_t i = 0; i < count; i++)
		if (end != text && strcasecmp(end, units[i].name) == 0) {
			*ret_value = value * units[i].scale;
			return true;
		}
	return false;
}

/* Parse LEFT of a list, "all" or one number, as a range of the eight. */
static bool place_parse(const char *left, uint32_t *ret_first, uint32_t *ret_end)
{
	*ret_first = 0;
	*ret_end = FABRIC_PRIORITY_COUNT;
	if (strcmp(left, "all") == 0)
		return true;
	if (!number_parse(left, FABRIC_PRIORITY_COUNT - 1, ret_first))
		return false;
	*ret_end = *ret_first + 1;
	return true;
}

/* --- a pair of each list --- */

static bool pause_set(struct scenario *scenario, const char *left, const char *right)
{
	uint32_t first;
	uint32_t end;

	if (!place_parse(left, &first, &end))
		return false;
	for (uint32_t i = first; i < end; i++) {
		uint8_t mine = (uint8_t)(1u << i);

		scenario->pause_ignored &= (uint8_t)~mine;
		if (strcmp(right, "off") == 0)
			scenario->pause_ignored |= mine;
	}
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

/* Set one of eight numbers, or all. */
static bool bytes_set(
	uint8_t values[FABRIC_PRIORITY_COUNT], const char *left, const char *right, uint32_t most)
{
	uint32_t first;
	uint32_t end;
	uint32_t value;

	if (!place_parse(left, &first, &end) || !number_parse(right, most, &value))
		return false;
	for (uint32_t i = first; i < end; i++)
		values[i] = (uint8_t)value;
	return true;
}

static bool class_set(struct scenario *scenario, const char *left, const char *right)
{
	return bytes_set(scenario->egress.class_of, left, right, EGRESS_CLASS_COUNT - 1);
}

static bool selection_set(struct scenario *scenario, const char *left, const char *right)
{
	uint32_t first;
	uint32_t end;

	if (!place_parse(left, &first, &end))
		return false;
	for (uint32_t i = first; i < end; i++) {
		uint8_t mine = (uint8_t)(1u << i);

		scenario->egress.strict &= (uint8_t)~mine;
		if (strcmp(right, "strict") == 0)
			scenario->egress.strict |= mine;
	}
	return strcmp(right, "strict") == 0 || strcmp(right, "ets") == 0;
}

static bool share_set(struct scenario *scenario, const char *left, const char *right)
{
	return bytes_set(scenario->egress.weight, left, right, SCHEDULER_WEIGHT_MAX);
}

static bool rate_set(struct scenario *scenario, const char *left, const char *right)
{
	static const struct unit units[] = {
		{"bit", 1e-6}, {"kbit", 1e-3}, {"mbit", 1}, {"gbit", 1e3}, {"tbit", 1e6}};
	uint32_t first;
	uint32_t end;
	double mbps;

	if (!place_parse(left, &first, &end) ||
		!scaled_parse(right, units, ARRAY_COUNT(units), &mbps) || mbps < 1 ||
		mbps > FABRIC_RATE_MBPS_MAX)
		return false;
	for (uint32_t i = first; i < end; i++)
		scenario->egress.rate_mbps[i] = (uint32_t)mbps;
	return true;
}

static bool buffer_set(struct scenario *scenario, const char *left, const char *right)
{
	return bytes_set(scenario->ingress.buffer_of, left, right, FABRIC_PRIORITY_COUNT - 1);
}

static bool size_set(struct scenario *scenario, const char *left, const char *right)
{
	static const struct unit units[] = {{"", 1}, {"b", 1}, {"k", 1 << 10}, {"kb", 1 << 10},
		{"m", 1 << 20}, {"mb", 1 << 20}};
	uint32_t first;
	uint32_t end;
	double bytes;

	if (!place_parse(left, &first, &end) ||
		!scaled_parse(right, units, ARRAY_COUNT(units), &bytes) || bytes < 0 ||
		bytes > BUFFER_BYTES_MAX)
		return false;
	for (uint32_t i = first; i < end; i++)
		scenario->ingress.buffer_bytes[i] = (uint32_t)bytes;
	return true;
}

/* --- the parts --- */

typedef bool pair_set(struct scenario *scenario, const char *left, const char *right);

struct dcb_list {
	const char *name;
	const char *example;
	pair_set *set;
};

static bool list_read(const struct scenario_text *text, struct scenario *scenario,
	const cJSON *object, const struct dcb_list *list)
{
	const cJSON *item = scenario_member(object, list->name);
	const char *at = "";
	char left[WORD_BYTES];
	char right[WORD_BYTES];

	if (!scenario_read_string(text, object, list->name, &at))
		return false;
	while (at[strspn(at, " ")])
		if (!pair_next(&at, left, right) || !list->set(scenario, left, right))
			return scenario_refuse(text, item,
				"\"%s\" is \"%s\": it is a list as \"%s\"", list->name,
				item->valuestring, list->example);
	return true;
}

/* Read the lists of a part of dcb; NULL: it has none. */
static bool part_read(const struct scenario_text *text, struct scenario *scenario,
	const cJSON *object, const struct dcb_list *lists, uint32_t count)
{
	struct scenario_field fields[PART_LISTS_MAX] = {0};

	assert(count <= PART_LISTS_MAX);
	if (!object)
		return true;
	for (uint32_t i = 0; i < count; i++)
		fields[i].name = lists[i].name;
	if (!scenario_read_object(text, object, "this part of dcb", fields, count, NULL))
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (!list_read(text, scenario, object, &lists[i]))
			return false;
	return true;
}

/* The classes that are not strict share all of the line. */
static bool ets_read(const struct scenario_text *text, struct scenario *scenario, const cJSON *item)
{
	static const struct dcb_list lists[] = {
		{"prio-tc", "all:0 3:1", class_set},
		{"tc-tsa", "all:strict 0:ets 1:ets", selection_set},
		{"tc-bw", "0:25 1:75", share_set},
	};
	struct egress *egress = &scenario->egress;
	uint32_t sum = 0;

	if (!item)
		return true;
	scenario->has_classes = true;
	egress->strict = UINT8_MAX;
	if (!part_read(text, scenario, item, lists, ARRAY_COUNT(lists)))
		return false;
	for (uint32_t i = 0; i < EGRESS_CLASS_COUNT; i++) {
		if (egress->strict >> i & 1 && egress->weight[i])
			return scenario_refuse(text, scenario_member(item, "tc-bw"),
				"\"tc-bw\" has class %u, whose \"tc-tsa\" is strict", i);
		sum += egress->weight[i];
	}
	if (egress->strict != UINT8_MAX && sum != SCHEDULER_WEIGHT_MAX)
		return scenario_refuse(text, item,
			"the classes of \"tc-bw\" sum to %u: they sum to %d", sum,
			SCHEDULER_WEIGHT_MAX);
	return true;
}

static bool maxrate_read(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *item)
{
	static const struct dcb_list lists[] = {{"tc-maxrate", "all:100Gbit 3:10Gbit", rate_set}};
	struct egress *egress = &scenario->egress;

	if (item && !scenario->has_classes) /* strict classes */
		egress->strict = UINT8_MAX;
	scenario->has_classes |= item != NULL;
	return part_read(text, scenario, item, lists, ARRAY_COUNT(lists));
}

static bool buffer_read(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *item)
{
	static const struct dcb_list lists[] = {
		{"prio-buffer", "all:0 3:1", buffer_set},
		{"buffer-size", "0:64K 1:256K", size_set},
	};
	const struct fabric_ingress_config *ingress = &scenario->ingress;

	if (!item)
		return true;
	scenario->ingress.has_buffers = true;
	if (!part_read(text, scenario, item, lists, ARRAY_COUNT(lists)))
		return false;
	for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++)
		if (!ingress->buffer_bytes[ingress->buffer_of[i]])
			return scenario_refuse(text, item,
				"priority %u has buffer %u, and that has no \"buffer-size\"", i,
				ingress->buffer_of[i]);
	return true;
}

bool scenario_read_dcb(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *item)
{
	static const struct scenario_field fields[] = {
		SCENARIO_OTHER("pfc"),
		SCENARIO_OTHER("app"),
		SCENARIO_OTHER("ets"),
		SCENARIO_OTHER("maxrate"),
		SCENARIO_OTHER("buffer"),
	};
	static const struct dcb_list pfc = {"prio-pfc", "all:off 3:on", pause_set};
	static const struct dcb_list app = {"dscp-prio", "26:3 48:6", dscp_set};

	for (uint32_t i = 0; i < FABRIC_DSCP_COUNT; i++)
		scenario->priority_of_dscp[i] = (uint8_t)(i >> 3);
	for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++)
		scenario->egress.class_of[i] = (uint8_t)i;
	if (!item)
		return true;
	return scenario_read_object(text, item, "\"dcb\"", fields, ARRAY_COUNT(fields), NULL) &&
		part_read(text, scenario, scenario_member(item, "pfc"), &pfc, 1) &&
		part_read(text, scenario, scenario_member(item, "app"), &app, 1) &&
		ets_read(text, scenario, scenario_member(item, "ets")) &&
		maxrate_read(text, scenario, scenario_member(item, "maxrate")) &&
		buffer_read(text, scenario, scenario_member(item, "buffer"));
}
