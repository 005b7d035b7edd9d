/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A switch as SONiC's config_db.json has it: the tables of quality of service and of buffers. All
 * ports of all switches have this configuration, so ports that differ are refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "sim/scenario/scenario.h"

enum { NAME_BYTES = 80 };

struct config_db {
	const struct scenario_text *text;
	const cJSON *root;
	struct fabric_switch_config *config;
};

#define KNOWN(name) SCENARIO_OTHER(name)

/* --- values: strings, and references to rows of other tables --- */

/* The member `name` as a whole number, which SONiC writes as a string. */
static bool number_get(const struct config_db *db, const cJSON *row, const char *name, double low,
	double high, double *ret_number)
{
	const cJSON *item = scenario_member(row, name);
	const char *text = cJSON_IsString(item) ? item->valuestring : "";
	char *end;
	double number = strtod(text, &end);
	bool is_number = end != text && !*end;

	if (!item)
		return true;
	if (cJSON_IsNumber(item)) {
		number = item->valuedouble;
		is_number = true;
	}
	if (!is_number || !(number >= low && number <= high) || number != (double)(int64_t)number)
		return scenario_refuse(db->text, item,
			"\"%s\" is a whole number from %.15g to %.15g", name, low, high);
	*ret_number = number;
	return true;
}

/* The row that `item` names, as "NAME" or as "[TABLE|NAME]". */
static bool row_find(
	const struct config_db *db, const cJSON *item, const char *table, const cJSON **ret_row)
{
	const char *name = cJSON_IsString(item) ? item->valuestring : "";
	const char *bar = name[0] == '[' ? strchr(name, '|') : NULL;
	char plain[NAME_BYTES];

	snprintf(plain, sizeof(plain), "%s", bar ? bar + 1 : name);
	if (bar && strchr(plain, ']'))
		*strchr(plain, ']') = 0;
	*ret_row = scenario_member(scenario_member(db->root, table), plain);
	return *ret_row ||
		scenario_refuse(db->text, item, "\"%s\" is in no row of \"%s\"", name, table);
}

/* "Ethernet0,Ethernet4|3-4": the priorities as bits. */
static bool key_priorities(const struct config_db *db, const cJSON *row, uint8_t *ret_priorities)
{
	const char *bar = strchr(row->string, '|');
	unsigned first = 0;
	unsigned last = 0;
	int end = 0;
	int count = bar ? sscanf(bar, "|%1u%n-%1u%n", &first, &end, &last, &end) : 0;

	last = count == 1 ? first : last;
	if (count < 1 || bar[end] || first > last || last >= FABRIC_PRIORITY_COUNT)
		return scenario_refuse(db->text, row,
			"\"%s\" is no row of ports and priorities, as \"Ethernet0|3-4\"",
			row->string);
	*ret_priorities = (uint8_t)((2u << last) - (1u << first));
	return true;
}

/* Check that the rows of a table have only the members that `fields` names. */
static bool table_check(const struct config_db *db, const char *table,
	const struct scenario_field *fields, uint32_t count)
{
	const cJSON *rows = scenario_member(db->root, table);
	const cJSON *row;

	if (rows && !cJSON_IsObject(rows))
		return scenario_refuse(db->text, rows, "\"%s\" is not an object", table);
	cJSON_ArrayForEach(row, rows)
	{
		if (!scenario_read_object(db->text, row, table, fields, count, NULL))
			return false;
	}
	return true;
}

/* --- maps of DSCP, traffic classes and priorities --- */

/* Read a row that maps numbers to numbers. */
static bool map_read(
	const struct config_db *db, const cJSON *row, uint32_t left_count, uint8_t *map)
{
	const cJSON *item;

	if (!cJSON_IsObject(row))
		return scenario_refuse(db->text, row, "a map is not an object");
	cJSON_ArrayForEach(item, row)
	{
		char *end;
		unsigned long left = strtoul(item->string, &end, 10);
		double right = -1;

		if (*end || end == item->string || left >= left_count)
			return scenario_refuse(db->text, item, "\"%s\" is no number below %u",
				item->string, left_count);
		if (!number_get(db, row, item->string, 0, FABRIC_PRIORITY_COUNT - 1, &right))
			return false;
		map[left] = (uint8_t)right;
	}
	return true;
}

/* Check that each of these traffic classes has the number of its queue or priority group. */
static bool identity_check(
	const struct config_db *db, const cJSON *row, const char *what, uint8_t classes)
{
	uint8_t map[FABRIC_PRIORITY_COUNT];

	for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++)
		map[i] = (uint8_t)i;
	if (!map_read(db, row, FABRIC_PRIORITY_COUNT, map))
		return false;
	for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++)
		if ((classes >> i & 1) && map[i] != i)
			return scenario_refuse(db->text, row,
				"traffic class %u has %s %u: here it has the same number", i, what,
				map[i]);
	return true;
}

static bool port_map_read(const struct config_db *db, const cJSON *row)
{
	struct fabric_switch_config *config = db->config;
	const cJSON *dscp = scenario_member(row, "dscp_to_tc_map");
	const cJSON *queue = scenario_member(row, "tc_to_queue_map");
	const cJSON *group = scenario_member(row, "tc_to_pg_map");
	const cJSON *map;

	if (dscp) {
		config->has_dscp_map = true;
		if (!row_find(db, dscp, "DSCP_TO_TC_MAP", &map) ||
			!map_read(db, map, FABRIC_DSCP_COUNT, config->priority_of_dscp))
			return false;
	}
	if (queue &&
		(!row_find(db, queue, "TC_TO_QUEUE_MAP", &map) ||
			!identity_check(db, map, "queue", 0xff)))
		return false;
	return !group ||
		(row_find(db, group, "TC_TO_PRIORITY_GROUP_MAP", &map) &&
			identity_check(db, map, "priority group", config->lossless));
}

static bool ports_read(const struct config_db *db)
{
	static const struct scenario_field fields[] = {
		KNOWN("pfc_enable"),
		KNOWN("pfcwd_sw_enable"),
		KNOWN("dscp_to_tc_map"),
		KNOWN("tc_to_queue_map"),
		KNOWN("tc_to_pg_map"),
		KNOWN("pfc_to_queue_map"),
	};
	const cJSON *rows = scenario_member(db->root, "PORT_QOS_MAP");
	const cJSON *row;

	if (!table_check(db, "PORT_QOS_MAP", fields, ARRAY_COUNT(fields)))
		return false;
	cJSON_ArrayForEach(row, rows)
	{
		const cJSON *first = scenario_member(rows->child, "pfc_enable");
		const cJSON *enable = scenario_member(row, "pfc_enable");

		if ((first || enable) && !cJSON_Compare(first, enable, true))
			return scenario_refuse(db->text, row,
				"\"%s\" has another \"pfc_enable\" than \"%s\"", row->string,
				rows->child->string);
		if (enable &&
			!scenario_read_priorities(
				db->text, enable, "pfc_enable", &db->config->lossless))
			return false;
		if (!port_map_read(db, row))
			return false;
	}
	return true;
}

/* --- queues --- */

static bool marking_read(const struct config_db *db, const cJSON *row, struct marking *ret_marking)
{
	double low = 0;
	double high = 0;
	double percent = 100;

	if (!number_get(db, row, "green_min_threshold", 0, 1 << 30, &low) ||
		!number_get(db, row, "green_max_threshold", 1, 1 << 30, &high) ||
		!number_get(db, row, "green_drop_probability", 0, 100, &percent))
		return false;
	if (high < 1 || low > high)
		return scenario_refuse(db->text, row,
			"\"green_max_threshold\" is not there, or below \"green_min_threshold\"");
	*ret_marking = (struct marking){(uint32_t)low, (uint32_t)high, (uint32_t)percent * 10000};
	return true;
}

static bool weight_read(const struct config_db *db, const cJSON *row, uint8_t priorities)
{
	static const char *const words[] = {"DWRR", "STRICT", NULL};
	const cJSON *type = scenario_member(row, "type");
	uint32_t is_strict = 0;
	double weight = 1;

	if (!type)
		return scenario_refuse(db->text, row, "a scheduler has a \"type\"");
	if (!scenario_read_word(db->text, type, "type", words, &is_strict) ||
		!number_get(db, row, "weight", 1, SCHEDULER_WEIGHT_MAX, &weight))
		return false;
	for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++)
		if (priorities >> i & 1)
			db->config->scheduler.weight[i] = (uint8_t)weight;
	if (is_strict)
		db->config->scheduler.strict |= priorities;
	return true;
}

static bool queue_read(const struct config_db *db, const cJSON *row)
{
	const cJSON *scheduler = scenario_member(row, "scheduler");
	const cJSON *profile = scenario_member(row, "wred_profile");
	struct marking marking = {0};
	uint8_t priorities = 0;
	const cJSON *named;

	if (!key_priorities(db, row, &priorities))
		return false;
	if (scheduler &&
		(!row_find(db, scheduler, "SCHEDULER", &named) ||
			!weight_read(db, named, priorities)))
		return false;
	if (!profile)
		return true;
	if (!row_find(db, profile, "WRED_PROFILE", &named) || !marking_read(db, named, &marking))
		return false;
	for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++)
		if (priorities >> i & 1)
			db->config->marking[i] = marking;
	return true;
}

static bool queues_read(const struct config_db *db)
{
	static const struct scenario_field queue[] = {KNOWN("scheduler"), KNOWN("wred_profile")};
	static const struct scenario_field scheduler[] = {KNOWN("type"), KNOWN("weight")};
	static const struct scenario_field wred[] = {
		KNOWN("ecn"),
		KNOWN("wred_green_enable"),
		KNOWN("green_min_threshold"),
		KNOWN("green_max_threshold"),
		KNOWN("green_drop_probability"),
	};
	const cJSON *row;

	if (!table_check(db, "QUEUE", queue, ARRAY_COUNT(queue)) ||
		!table_check(db, "SCHEDULER", scheduler, ARRAY_COUNT(scheduler)) ||
		!table_check(db, "WRED_PROFILE", wred, ARRAY_COUNT(wred)))
		return false;
	cJSON_ArrayForEach(row, scenario_member(db->root, "QUEUE"))
	{
		if (!queue_read(db, row))
			return false;
	}
	return true;
}

/* --- buffers --- */

/* The profile of the lossless groups: its pool, threshold and headroom. */
static bool profile_read(const struct config_db *db, const cJSON *profile)
{
	const cJSON *pool_name = scenario_member(profile, "pool");
	double threshold = db->config->dynamic_th;
	double xon_offset = db->config->xon_offset_bytes;
	double size = 0;
	double xoff = 0;
	const cJSON *pool;

	if (!pool_name)
		return scenario_refuse(db->text, profile, "a profile has a \"pool\"");
	if (!row_find(db, pool_name, "BUFFER_POOL", &pool) ||
		!number_get(db, pool, "size", 1, 1e12, &size) ||
		!number_get(db, profile, "dynamic_th", -8, 8, &threshold) ||
		!number_get(db, profile, "xoff", 0, 1 << 30, &xoff) ||
		!number_get(db, profile, "xon_offset", 0, 1 << 30, &xon_offset))
		return false;
	if (size > 0)
		db->config->pool_bytes = (uint64_t)size;
	db->config->dynamic_th = (int32_t)threshold;
	db->config->headroom_bytes = (uint32_t)xoff;
	db->config->xon_offset_bytes = (uint32_t)xon_offset;
	return true;
}

static bool groups_read(const struct config_db *db)
{
	const cJSON *lossless = NULL;
	const cJSON *row;

	cJSON_ArrayForEach(row, scenario_member(db->root, "BUFFER_PG"))
	{
		const cJSON *name = scenario_member(row, "profile");
		const cJSON *profile;
		uint8_t priorities = 0;

		if (!name)
			return scenario_refuse(db->text, row, "a priority group has a \"profile\"");
		if (!key_priorities(db, row, &priorities) ||
			!row_find(db, name, "BUFFER_PROFILE", &profile))
			return false;
		if (!(priorities & db->config->lossless))
			continue;
		if (lossless && lossless != profile)
			return scenario_refuse(db->text, row,
				"lossless groups have \"%s\" and \"%s\": here they have one profile",
				lossless->string, profile->string);
		lossless = profile;
	}
	return !lossless || profile_read(db, lossless);
}

static bool buffers_read(const struct config_db *db)
{
	static const struct scenario_field pool[] = {
		KNOWN("type"), KNOWN("mode"), KNOWN("size"), KNOWN("xoff")};
	static const struct scenario_field profile[] = {
		KNOWN("pool"),
		KNOWN("size"),
		KNOWN("dynamic_th"),
		KNOWN("xoff"),
		KNOWN("xon"),
		KNOWN("xon_offset"),
	};
	static const struct scenario_field group[] = {KNOWN("profile")};

	return table_check(db, "BUFFER_POOL", pool, ARRAY_COUNT(pool)) &&
		table_check(db, "BUFFER_PROFILE", profile, ARRAY_COUNT(profile)) &&
		table_check(db, "BUFFER_PG", group, ARRAY_COUNT(group)) && groups_read(db);
}

/* --- the watchdog --- */

static bool watchdog_read(const struct config_db *db)
{
	static const char *const words[] = {"drop", "forward", "alert", NULL};
	static const struct scenario_field fields[] = {
		KNOWN("action"),
		KNOWN("detection_time"),
		KNOWN("restoration_time"),
		KNOWN("POLL_INTERVAL"),
	};
	double detection_ms = 200;
	double restoration_ms = 200;
	const cJSON *row;

	if (!table_check(db, "PFC_WD", fields, ARRAY_COUNT(fields)))
		return false;
	cJSON_ArrayForEach(row, scenario_member(db->root, "PFC_WD"))
	{
		const cJSON *action = scenario_member(row, "action");
		uint32_t place = 0;

		if (strcmp(row->string, "GLOBAL") == 0)
			continue;
		if ((action && !scenario_read_word(db->text, action, "action", words, &place)) ||
			!number_get(db, row, "detection_time", 1, 60000, &detection_ms) ||
			!number_get(db, row, "restoration_time", 1, 60000, &restoration_ms))
			return false;
		db->config->watchdog = (struct fabric_watchdog){
			(enum fabric_watchdog_action)(FABRIC_WATCHDOG_DROP + place),
			(uint64_t)detection_ms * FABRIC_PS_PER_MS,
			(uint64_t)restoration_ms * FABRIC_PS_PER_MS};
	}
	return true;
}

/* --- the file --- */

static bool tables_read(const struct config_db *db)
{
	static const struct scenario_field tables[] = {
		KNOWN("DSCP_TO_TC_MAP"),
		KNOWN("TC_TO_QUEUE_MAP"),
		KNOWN("TC_TO_PRIORITY_GROUP_MAP"),
		KNOWN("PORT_QOS_MAP"),
		KNOWN("SCHEDULER"),
		KNOWN("QUEUE"),
		KNOWN("WRED_PROFILE"),
		KNOWN("BUFFER_POOL"),
		KNOWN("BUFFER_PROFILE"),
		KNOWN("BUFFER_PG"),
		KNOWN("PFC_WD"),
	};

	return scenario_read_object(
		       db->text, db->root, "config_db", tables, ARRAY_COUNT(tables), NULL) &&
		ports_read(db) && queues_read(db) && buffers_read(db) && watchdog_read(db);
}

bool scenario_read_config_db(
	const struct scenario_text *text, const cJSON *item, struct fabric_switch_config *config)
{
	struct scenario_text file;
	struct config_db db = {.text = &file, .config = config};
	char path[4096];
	bool is_read;

	if (!cJSON_IsString(item))
		return scenario_refuse(text, item, "\"config_db\" is not the path of a file");
	if (!scenario_join_path(text, item->valuestring, path, sizeof(path)))
		return false;
	is_read = scenario_text_read(&file, path);
	db.root = file.root;
	is_read = is_read && tables_read(&db);
	scenario_text_done(&file);
	return is_read;
}
