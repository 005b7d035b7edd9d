/* SPDX-License-Identifier: BSD-2-Clause */
/* InfiniBand links in a scenario: the item "subnet". Its words are those of opensm.conf. */
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "sim/scenario/scenario.h"
#include "wire/infiniband/lrh.h"

enum {
	OP_VLS_CODE_MAX = 5,
	LIFE_CODE_MAX = 31,
	STALL_COUNT_MAX = 7,
	BUFFER_BYTES = 32768,
	BUFFER_BYTES_MAX = CREDIT_BLOCKS_MAX * IB_BLOCK_BYTES,
	LOW_WEIGHT = 64, /* of each lane, unless qos_vlarb_low has others */
	MANAGEMENT_PACKETS = 16,
	VALUE_MAX = 255,
};

struct subnet_numbers {
	uint64_t op_vls;
	uint64_t hoq_life;
	uint64_t switch_life;
	uint64_t stall_count;
	uint64_t high_limit;
	uint64_t buffer_bytes;
};

#define NUMBER(member, name, low, high) \
	SCENARIO_NUMBER(struct subnet_numbers, member, name, 1, low, high)

/* A number up to 255 at *at, which moves behind it. Returns false: there is none. */
static bool value_read(const char **at, uint8_t *ret_value)
{
	char *end;
	unsigned long value;

	if (**at < '0' || **at > '9')
		return false;
	value = strtoul(*at, &end, 0);
	*at = end;
	*ret_value = (uint8_t)value;
	return value <= VALUE_MAX;
}

/* "0:4,1:64": lanes with their weights. */
static bool table_parse(const char *at, uint32_t data_vls, struct arbitration_table *table)
{
	table->count = 0;
	do {
		struct arbitration_entry *entry = &table->entries[table->count];

		if (table->count++ == ARBITRATION_ENTRIES_MAX || !value_read(&at, &entry->vl) ||
			*at++ != ':' || !value_read(&at, &entry->weight) || entry->vl >= data_vls)
			return false;
	} while (*at++ == ',');
	return !at[-1];
}

static bool table_read(const struct scenario_text *text, const cJSON *item, const char *name,
	uint32_t data_vls, struct arbitration_table *table)
{
	const char *words = NULL;

	if (!scenario_read_string(text, item, name, &words))
		return false;
	return !words || table_parse(words, data_vls, table) ||
		scenario_refuse(text, scenario_member(item, name),
			"\"%s\" is \"%s\": it is up to %d lanes of 0 to %u with their weights, as "
			"\"0:64,1:128\"",
			name, words, ARBITRATION_ENTRIES_MAX, data_vls - 1);
}

/* "0,1,2,3": the lanes of service levels 0 and up; further service levels keep their lanes. */
static bool mapping_parse(const char *at, uint32_t data_vls, uint8_t *sl2vl)
{
	uint32_t sl = 0;

	do {
		if (sl == IB_SL_COUNT || !value_read(&at, &sl2vl[sl]) ||
			(sl2vl[sl] >= data_vls && sl2vl[sl] != IB_VL_MANAGEMENT))
			return false;
		sl++;
	} while (*at++ == ',');
	return !at[-1];
}

bool scenario_read_lanes(
	const struct scenario_text *text, const cJSON *item, uint32_t data_vls, uint8_t *sl2vl)
{
	const char *words = NULL;

	if (!scenario_read_string(text, item, "qos_sl2vl", &words))
		return false;
	return !words || mapping_parse(words, data_vls, sl2vl) ||
		scenario_refuse(text, scenario_member(item, "qos_sl2vl"),
			"\"qos_sl2vl\" is \"%s\": it is up to %d lanes of 0 to %u, or 15, as "
			"\"0,1,2\"",
			words, IB_SL_COUNT, data_vls - 1);
}

/* Refuse items that only Ethernet has. */
static bool others_check(const struct scenario_text *text, const struct scenario *scenario)
{
	static const char *const names[] = {"switch", "pause", "routes"};

	for (uint32_t i = 0; i < ARRAY_COUNT(names); i++)
		if (scenario_member(text->root, names[i]))
			return scenario_refuse(text, scenario_member(text->root, names[i]),
				"\"%s\" is Ethernet's: an InfiniBand link layer has \"subnet\"",
				names[i]);
	if (scenario_member(scenario_member(text->root, "hosts"), "dcb"))
		return scenario_refuse(text, scenario_member(text->root, "hosts"),
			"\"dcb\" is Ethernet's: an InfiniBand link layer has \"subnet\"");
	if (scenario->cc.algorithm != CC_OFF)
		return scenario_refuse(text, scenario_member(text->root, "congestion"),
			"switches of an InfiniBand link layer mark nothing: \"congestion\" is off");
	return true;
}

/* Check that there are LIDs for all hosts, and that a buffer has room for the longest packet. */
static bool sizes_check(const struct scenario_text *text, const struct scenario *scenario,
	const cJSON *item, uint64_t buffer_bytes)
{
	uint32_t hosts = topology_host_count(&scenario->topology);
	uint32_t packet_bytes = scenario->config.frame_bytes_max;

	if (hosts > LID_UNICAST_MAX)
		return scenario_refuse(text, scenario_member(text->root, "topology"),
			"%u hosts are more than a subnet's %d LIDs", hosts, LID_UNICAST_MAX);
	if (buffer_bytes / IB_BLOCK_BYTES < credit_blocks(packet_bytes))
		return scenario_refuse(text, item,
			"\"buffer\" has no room for a packet of %u bytes, which takes %u blocks",
			packet_bytes, credit_blocks(packet_bytes));
	return true;
}

static void lanes_default(struct infiniband_config *config)
{
	for (uint32_t i = 0; i < IB_SL_COUNT; i++)
		config->sl2vl[i] = (uint8_t)(i % config->data_vls);
	config->arbitration.low.count = config->data_vls;
	for (uint32_t i = 0; i < config->data_vls; i++)
		config->arbitration.low.entries[i] =
			(struct arbitration_entry){(uint8_t)i, LOW_WEIGHT};
}

enum { EMBEDDED = INFINIBAND_LASH + 1 };

static bool lanes_and_engine_read(
	const struct scenario_text *text, const cJSON *item, struct scenario *scenario)
{
	static const char *const engines[] = {"minhop", "updn", "lash", "embedded", NULL};
	struct infiniband_config *config = &scenario->infiniband;
	const cJSON *word = scenario_member(item, "routing_engine");
	uint32_t engine = INFINIBAND_MINHOP;

	lanes_default(config);
	if (word && !scenario_read_word(text, word, "routing engine", engines, &engine))
		return false;
	scenario->is_embedded = engine == EMBEDDED;
	config->routing =
		scenario->is_embedded ? INFINIBAND_MINHOP : (enum infiniband_routing)engine;
	return table_read(
		       text, item, "qos_vlarb_high", config->data_vls, &config->arbitration.high) &&
		table_read(
			text, item, "qos_vlarb_low", config->data_vls, &config->arbitration.low) &&
		scenario_read_lanes(text, item, config->data_vls, config->sl2vl);
}

bool scenario_read_subnet(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *item)
{
	static const struct scenario_field fields[] = {
		SCENARIO_OTHER("routing_engine"),
		NUMBER(op_vls, "max_op_vls", 1, OP_VLS_CODE_MAX),
		NUMBER(hoq_life, "head_of_queue_lifetime", 0, LIFE_CODE_MAX),
		NUMBER(switch_life, "packet_life_time", 0, LIFE_CODE_MAX),
		NUMBER(stall_count, "vl_stall_count", 0, STALL_COUNT_MAX),
		NUMBER(high_limit, "qos_high_limit", 0, VALUE_MAX),
		SCENARIO_OTHER("qos_vlarb_high"),
		SCENARIO_OTHER("qos_vlarb_low"),
		SCENARIO_OTHER("qos_sl2vl"),
		SCENARIO_OTHER("forwarding"),
		SCENARIO_OTHER("service_levels"),
		SCENARIO_OTHER("lanes"),
		SCENARIO_OTHER("partitions"),
		SCENARIO_OTHER("part_enforce"),
		NUMBER(buffer_bytes, "buffer", IB_BLOCK_BYTES, BUFFER_BYTES_MAX),
	};
	static const uint32_t data_vls[OP_VLS_CODE_MAX + 1] = {0, 1, 2, 4, 8, 15};
	struct subnet_numbers numbers = {3, 18, 18, 7, 0, BUFFER_BYTES};
	struct infiniband_config *config = &scenario->infiniband;

	if (!scenario->is_infiniband)
		return !item ||
			scenario_refuse(text, item,
				"\"subnet\" is InfiniBand's: the topology has no \"link_layer\" "
				"\"infiniband\"");
	if (!others_check(text, scenario) ||
		(item &&
			!scenario_read_object(
				text, item, "\"subnet\"", fields, ARRAY_COUNT(fields), &numbers)))
		return false;
	if (!sizes_check(text, scenario, item, numbers.buffer_bytes))
		return false;
	*config = (struct infiniband_config){
		.data_vls = data_vls[numbers.op_vls],
		.buffer_blocks = (uint32_t)(numbers.buffer_bytes / IB_BLOCK_BYTES),
		.management_packets = MANAGEMENT_PACKETS,
		.hoq_life_ps = infiniband_life_ps((uint32_t)numbers.hoq_life),
		.switch_life_ps = infiniband_life_ps((uint32_t)numbers.switch_life),
		.vl_stall_count = (uint32_t)numbers.stall_count,
		.arbitration.high_limit = (uint8_t)numbers.high_limit,
	};
	return lanes_and_engine_read(text, item, scenario) &&
		scenario_read_tables(text, scenario, item) &&
		scenario_read_partitions(text, scenario, item);
}
