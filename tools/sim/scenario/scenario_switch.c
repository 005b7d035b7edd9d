/* SPDX-License-Identifier: BSD-2-Clause */
/* The item "switch" of a scenario. Its words are those of SONiC's config_db.json. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "sim/scenario/scenario.h"

struct switch_numbers {
	uint64_t pool_bytes;
	uint64_t headroom_bytes;
	uint64_t xon_offset_bytes;
	/* "wred" */
	uint64_t mark_min_bytes;
	uint64_t mark_max_bytes;
	uint64_t mark_ppm;
	/* "scheduler" */
	uint64_t weight;
	/* "pfc_wd" */
	uint64_t detection_ps;
	uint64_t restoration_ps;
};

#define NUMBER(member, name, scale, low, high) \
	SCENARIO_NUMBER(struct switch_numbers, member, name, scale, low, high)

bool scenario_read_priorities(const struct scenario_text *text, const cJSON *item, const char *name,
	uint8_t *ret_priorities)
{
	const char *at = item->valuestring;
	uint8_t priorities = 0;

	if (!cJSON_IsString(item))
		return scenario_refuse(text, item, "\"%s\" is not a string", name);
	while (*at) {
		if (*at < '0' || *at > '7' || (at[1] && (at[1] != ',' || !at[2])))
			return scenario_refuse(text, item,
				"\"%s\" is \"%s\": it is a list of priorities, as \"3,4\"", name,
				item->valuestring);
		priorities |= (uint8_t)(1u << (*at - '0'));
		at += at[1] ? 2 : 1;
	}
	*ret_priorities = priorities;
	return true;
}

/* Read "wred": when the queues of the lossless priorities mark frames. */
static bool wred_read(
	const struct scenario_text *text, const cJSON *item, struct fabric_switch_config *config)
{
	static const struct scenario_field fields[] = {
		NUMBER(mark_min_bytes, "green_min_threshold", 1, 0, 1 << 30),
		NUMBER(mark_max_bytes, "green_max_threshold", 1, 1, 1 << 30),
		NUMBER(mark_ppm, "green_drop_probability", 10000, 0, 100),
	};
	struct switch_numbers numbers = {0};

	if (!item)
		return true;
	if (!scenario_read_object(text, item, "\"wred\"", fields, ARRAY_COUNT(fields), &numbers))
		return false;
	if (!numbers.mark_max_bytes)
		return scenario_refuse(text, item, "\"wred\" has no \"green_max_threshold\"");
	if (numbers.mark_min_bytes > numbers.mark_max_bytes)
		return scenario_refuse(
			text, item, "\"green_min_threshold\" is above \"green_max_threshold\"");
	for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++)
		if (config->lossless >> i & 1)
			config->marking[i] = (struct marking){(uint32_t)numbers.mark_min_bytes,
				(uint32_t)numbers.mark_max_bytes, (uint32_t)numbers.mark_ppm};
	return true;
}

static bool queue_read(const struct scenario_text *text, const cJSON *item,
	struct scheduler *scheduler, uint32_t priority)
{
	static const char *const words[] = {"DWRR", "STRICT", NULL};
	static const struct scenario_field fields[] = {
		SCENARIO_OTHER("type"),
		NUMBER(weight, "weight", 1, 1, SCHEDULER_WEIGHT_MAX),
	};
	struct switch_numbers numbers = {0};
	const cJSON *type = scenario_member(item, "type");
	uint32_t is_strict = 0;

	if (!scenario_read_object(text, item, "a queue", fields, ARRAY_COUNT(fields), &numbers) ||
		(type && !scenario_read_word(text, type, "type", words, &is_strict)))
		return false;
	if (is_strict && numbers.weight)
		return scenario_refuse(text, item, "a strict queue has no \"weight\"");
	if (!is_strict && !numbers.weight)
		return scenario_refuse(text, item, "a queue of type DWRR has a \"weight\"");
	scheduler->strict |= (uint8_t)(is_strict << priority);
	scheduler->weight[priority] = (uint8_t)numbers.weight;
	return true;
}

static bool scheduler_read(
	const struct scenario_text *text, const cJSON *list, struct scheduler *scheduler)
{
	static const struct scenario_field fields[] = {
		SCENARIO_OTHER("0"),
		SCENARIO_OTHER("1"),
		SCENARIO_OTHER("2"),
		SCENARIO_OTHER("3"),
		SCENARIO_OTHER("4"),
		SCENARIO_OTHER("5"),
		SCENARIO_OTHER("6"),
		SCENARIO_OTHER("7"),
	};
	const cJSON *item;
	uint32_t sum = 0;

	if (!list)
		return true;
	if (!scenario_read_object(
		    text, list, "\"scheduler\"", fields, ARRAY_COUNT(fields), scheduler))
		return false;
	cJSON_ArrayForEach(item, list)
	{
		uint32_t priority = (uint32_t)(item->string[0] - '0');

		if (!queue_read(text, item, scheduler, priority))
			return false;
		sum += scheduler->weight[priority];
	}
	if (sum && sum != SCHEDULER_WEIGHT_MAX)
		return scenario_refuse(text, list, "the weights sum to %u: they sum to %d", sum,
			SCHEDULER_WEIGHT_MAX);
	return true;
}

static bool watchdog_read(
	const struct scenario_text *text, const cJSON *item, struct fabric_watchdog *watchdog)
{
	static const char *const words[] = {"drop", "forward", "alert", NULL};
	static const struct scenario_field fields[] = {
		SCENARIO_OTHER("action"),
		NUMBER(detection_ps, "detection_time", 1e9, 1, 60000),
		NUMBER(restoration_ps, "restoration_time", 1e9, 1, 60000),
	};
	struct switch_numbers numbers = {
		.detection_ps = 200 * FABRIC_PS_PER_MS, .restoration_ps = 200 * FABRIC_PS_PER_MS};
	const cJSON *action = scenario_member(item, "action");
	uint32_t place = 0;

	if (!item)
		return true;
	if (!scenario_read_object(
		    text, item, "\"pfc_wd\"", fields, ARRAY_COUNT(fields), &numbers) ||
		(action && !scenario_read_word(text, action, "action", words, &place)))
		return false;
	*watchdog = (struct fabric_watchdog){
		(enum fabric_watchdog_action)(FABRIC_WATCHDOG_DROP + place), numbers.detection_ps,
		numbers.restoration_ps};
	return true;
}

static bool threshold_read(
	const struct scenario_text *text, const cJSON *item, struct fabric_switch_config *config)
{
	if (!item)
		return true;
	if (!cJSON_IsNumber(item) || item->valuedouble != item->valueint || item->valueint < -8 ||
		item->valueint > 8)
		return scenario_refuse(text, item, "\"dynamic_th\" is a whole number from -8 to 8");
	config->dynamic_th = item->valueint;
	return true;
}

/* --- files of SONiC's --- */

static const char default_name[] = "default";

/* The number of the switch with this name; `count`: there is none. */
static uint32_t switch_find(const char *name, uint32_t count)
{
	char own[SCENARIO_NAME_BYTES];

	for (uint32_t i = 0; i < count; i++) {
		snprintf(own, sizeof(own), "s%u", i);
		if (strcmp(own, name) == 0)
			return i;
	}
	return count;
}

/* Read a file for each switch. A switch that is not named gets the file of "default". */
static bool config_dbs_read(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *files)
{
	uint32_t count = topology_switch_count(&scenario->topology);
	const cJSON *others = scenario_member(files, default_name);
	const cJSON *file;
	char name[SCENARIO_NAME_BYTES];

	scenario->switch_configs = calloc(count, sizeof(*scenario->switch_configs));
	if (!scenario->switch_configs)
		return scenario_refuse(text, files, "no memory for %u switches", count);
	cJSON_ArrayForEach(file, files) if (file != others &&
		switch_find(file->string, count) == count) return scenario_refuse(text, file,
		"\"config_db\" has \"%s\": switches are s0 to s%u", file->string, count - 1);
	for (uint32_t i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		file = scenario_member(files, name);
		if (!file)
			file = others;
		if (!file)
			return scenario_refuse(text, files,
				"\"config_db\" has no file for s%u, and none as \"default\"", i);
		scenario->switch_configs[i] = scenario->topology.switches;
		if (!scenario_read_config_db(text, file, &scenario->switch_configs[i]))
			return false;
	}
	scenario->topology.switch_configs = scenario->switch_configs;
	return true;
}

/* Read "config_db". A file describes a switch completely, so no other key may stand beside it. */
static bool config_db_read(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *item)
{
	const cJSON *path = scenario_member(item, "config_db");

	if (!item || !path)
		return true;
	if (item->child->next)
		return scenario_refuse(text, item, "\"switch\" has \"config_db\" and other keys");
	if (cJSON_IsObject(path))
		return config_dbs_read(text, scenario, path);
	return scenario_read_config_db(text, path, &scenario->topology.switches);
}

bool scenario_read_switch(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *item)
{
	static const struct scenario_field fields[] = {
		NUMBER(pool_bytes, "size", 1, 1, 1e12),
		SCENARIO_OTHER("dynamic_th"),
		NUMBER(headroom_bytes, "xoff", 1, 0, 1 << 30),
		NUMBER(xon_offset_bytes, "xon_offset", 1, 0, 1 << 30),
		SCENARIO_OTHER("pfc_enable"),
		SCENARIO_OTHER("wred"),
		SCENARIO_OTHER("scheduler"),
		SCENARIO_OTHER("pfc_wd"),
		SCENARIO_OTHER("config_db"),
	};
	struct fabric_switch_config *config = &scenario->topology.switches;
	struct switch_numbers numbers = {
		.pool_bytes = 12 << 20,
		.headroom_bytes = FABRIC_HEADROOM_OF_CABLE,
		.xon_offset_bytes = 2 * scenario->config.frame_bytes_max,
	};

	*config = (struct fabric_switch_config){.dynamic_th = -3, .lossless = 1u << 3 | 1u << 4};
	if (item &&
		(!scenario_read_object(
			 text, item, "\"switch\"", fields, ARRAY_COUNT(fields), &numbers) ||
			!threshold_read(text, scenario_member(item, "dynamic_th"), config) ||
			(scenario_member(item, "pfc_enable") &&
				!scenario_read_priorities(text, scenario_member(item, "pfc_enable"),
					"pfc_enable", &config->lossless)) ||
			!wred_read(text, scenario_member(item, "wred"), config) ||
			!scheduler_read(
				text, scenario_member(item, "scheduler"), &config->scheduler) ||
			!watchdog_read(text, scenario_member(item, "pfc_wd"), &config->watchdog)))
		return false;
	config->pool_bytes = numbers.pool_bytes;
	config->headroom_bytes = (uint32_t)numbers.headroom_bytes;
	config->xon_offset_bytes = (uint32_t)numbers.xon_offset_bytes;
	return config_db_read(text, scenario, item);
}
