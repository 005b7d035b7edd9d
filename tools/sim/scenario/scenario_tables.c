/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables of a subnet that a subnet manager has set up, in the item "subnet" of a scenario: which
 * cable leads to a host, the service levels of paths, and lanes. `urnic fabric scenario` writes
 * them. They replace what the routing engine of the scenario has chosen.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "common/command.h"
#include "sim/scenario/scenario.h"

enum { NO_CABLE = UINT32_MAX };

struct lane_numbers {
	uint64_t from;
	uint64_t to;
};

static bool is_end(const struct topology_cable *cable, struct fabric_node node)
{
	for (uint32_t i = 0; i < 2; i++)
		if (cable->ends[i].is_host == node.is_host && cable->ends[i].number == node.number)
			return true;
	return false;
}

/* Check that a list has `count` items. `name` names the list in a complaint. */
static bool list_check(
	const struct scenario_text *text, const cJSON *list, uint32_t count, const char *name)
{
	return (cJSON_IsArray(list) && cJSON_GetArraySize(list) == (int)count) ||
		scenario_refuse(text, list, "\"%s\" is no list of %u", name, count);
}

/* A whole number up to `last`. */
static bool number_read(const struct scenario_text *text, const cJSON *item, uint32_t last,
	const char *name, uint32_t *ret_number)
{
	const double value = cJSON_IsNumber(item) ? item->valuedouble : -1;

	if (!(value >= 0 && value <= last) || value != (double)(uint32_t)value)
		return scenario_refuse(text, item, "\"%s\" has numbers from 0 to %u", name, last);
	*ret_number = (uint32_t)value;
	return true;
}

/* --- forwarding: by switch and host, the number of a cable, or null --- */

static bool forwarding_row(const struct scenario_text *text, struct scenario *scenario,
	uint32_t switch_number, const cJSON *row)
{
	const struct topology *topology = &scenario->topology;
	const struct fabric_node at = {.number = switch_number};
	uint32_t *cables = scenario->forwarding + (size_t)switch_number * topology->hosts;
	const cJSON *item;

	if (!list_check(text, row, topology->hosts, "forwarding"))
		return false;
	cJSON_ArrayForEach(item, row)
	{
		*cables = NO_CABLE;
		if (!cJSON_IsNull(item) &&
			!number_read(text, item, topology->cable_count - 1, "forwarding", cables))
			return false;
		if (*cables != NO_CABLE && !is_end(&topology->cables[*cables], at))
			return scenario_refuse(text, item, "cable %u has no end at \"s%u\"",
				*cables, switch_number);
		cables++;
	}
	return true;
}

static bool forwarding_read(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *list)
{
	const struct topology *topology = &scenario->topology;
	uint32_t number = 0;
	const cJSON *row;

	if (!list_check(text, list, topology->switch_count, "forwarding"))
		return false;
	scenario->forwarding = (uint32_t *)calloc(
		(size_t)topology->switch_count * topology->hosts + 1, sizeof(uint32_t));
	if (!scenario->forwarding) {
		complain("no memory for the tables");
		return false;
	}
	cJSON_ArrayForEach(row, list)
	{
		if (!forwarding_row(text, scenario, number++, row))
			return false;
	}
	return true;
}

/* --- service levels: by two hosts --- */

static bool levels_read(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *list)
{
	const uint32_t hosts = scenario->topology.hosts;
	const cJSON *row;
	const cJSON *item;
	uint8_t *level;

	if (!list_check(text, list, hosts, "service_levels"))
		return false;
	level = scenario->service_levels = (uint8_t *)calloc((size_t)hosts * hosts + 1, 1);
	if (!level) {
		complain("no memory for the tables");
		return false;
	}
	cJSON_ArrayForEach(row, list)
	{
		if (!list_check(text, row, hosts, "service_levels"))
			return false;
		cJSON_ArrayForEach(item, row)
		{
			uint32_t sl = 0;

			if (!number_read(
				    text, item, FABRIC_PRIORITY_COUNT - 1, "service_levels", &sl))
				return false;
			*level++ = (uint8_t)sl;
		}
	}
	return true;
}

/* --- lanes: of packets from a cable to another one, at a switch; or from a host --- */

static bool lane_read(const struct scenario_text *text, struct scenario *scenario,
	const cJSON *item, struct scenario_lane *lane)
{
	static const struct scenario_field fields[] = {
		SCENARIO_OTHER("at"),
		SCENARIO_NUMBER(struct lane_numbers, from, "from", 1, 0, UINT32_MAX - 1.),
		SCENARIO_NUMBER(struct lane_numbers, to, "to", 1, 0, UINT32_MAX - 1.),
		SCENARIO_OTHER("qos_sl2vl"),
	};
	struct lane_numbers numbers = {NO_CABLE, NO_CABLE};
	const struct topology *topology = &scenario->topology;

	if (!scenario_read_object(
		    text, item, "lanes of a node", fields, ARRAY_COUNT(fields), &numbers) ||
		!scenario_read_node(text, scenario, scenario_member(item, "at"), &lane->at) ||
		!scenario_read_lanes(text, item, scenario->infiniband.data_vls, lane->sl2vl))
		return false;
	lane->from = (uint32_t)numbers.from;
	lane->to = (uint32_t)numbers.to;
	if (lane->at.is_host)
		return (lane->from == NO_CABLE && lane->to == NO_CABLE) ||
			scenario_refuse(text, item, "a host has one cable: there is no \"from\"");
	if (lane->from >= topology->cable_count || lane->to >= topology->cable_count ||
		!is_end(&topology->cables[lane->from], lane->at) ||
		!is_end(&topology->cables[lane->to], lane->at))
		return scenario_refuse(text, item,
			"lanes of \"s%u\" are \"from\" a cable with an end there \"to\" another "
			"one",
			lane->at.number);
	return true;
}

static bool lanes_read(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *list)
{
	const cJSON *item;

	if (!cJSON_IsArray(list))
		return scenario_refuse(text, list, "\"lanes\" is not a list");
	scenario->lanes = (struct scenario_lane *)calloc(
		(size_t)cJSON_GetArraySize(list) + 1, sizeof(struct scenario_lane));
	if (!scenario->lanes) {
		complain("no memory for the tables");
		return false;
	}
	cJSON_ArrayForEach(item, list)
	{
		struct scenario_lane *lane = &scenario->lanes[scenario->lane_count];

		memcpy(lane->sl2vl, scenario->infiniband.sl2vl, sizeof(lane->sl2vl));
		if (!lane_read(text, scenario, item, lane))
			return false;
		scenario->lane_count++;
	}
	return true;
}

bool scenario_read_tables(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *item)
{
	static const char *const names[] = {"forwarding", "service_levels", "lanes"};
	static bool (*const readers[])(const struct scenario_text *, struct scenario *,
		const cJSON *) = {forwarding_read, levels_read, lanes_read};

	for (uint32_t i = 0; i < ARRAY_COUNT(names); i++) {
		const cJSON *list = scenario_member(item, names[i]);

		if (list && scenario->topology.kind != TOPOLOGY_CUSTOM)
			return scenario_refuse(
				text, list, "only a custom topology has \"%s\"", names[i]);
		if (list && !readers[i](text, scenario, list))
			return false;
	}
	return true;
}

/* --- in the network --- */

/* The port of a node at its cable; each cable has added two ports (topology.h). */
static uint32_t port_at(const struct scenario *scenario, const struct fabric *fabric,
	struct fabric_node node, uint32_t cable)
{
	const struct fabric_node *first = &scenario->topology.cables[cable].ends[0];
	const uint32_t port =
		2 * cable + !(first->is_host == node.is_host && first->number == node.number);

	assert(fabric->ports[port].is_host == node.is_host);
	assert(fabric->ports[port].node == node.number);
	return port;
}

static void forwarding_set(const struct scenario *scenario, struct fabric *fabric)
{
	for (uint32_t i = 0; i < fabric->switch_count; i++)
		for (uint32_t host = 0; host < fabric->host_count; host++) {
			const struct fabric_node at = {.number = i};
			const uint32_t cable =
				scenario->forwarding[(size_t)i * fabric->host_count + host];

			infiniband_set_forwarding(fabric, i, infiniband_lid(host),
				cable == NO_CABLE ? FABRIC_NO_PORT
						  : port_at(scenario, fabric, at, cable));
		}
}

static void lane_set(
	const struct scenario *scenario, struct fabric *fabric, const struct scenario_lane *lane)
{
	uint32_t from, to;

	if (lane->at.is_host) {
		from = to = fabric->hosts[lane->at.number].port;
	} else {
		from = port_at(scenario, fabric, lane->at, lane->from);
		to = port_at(scenario, fabric, lane->at, lane->to);
	}
	for (uint32_t sl = 0; sl < IB_SL_COUNT; sl++)
		infiniband_set_sl2vl(fabric, from, to, sl, lane->sl2vl[sl]);
}

int scenario_set_tables(const struct scenario *scenario, struct fabric *fabric)
{
	if (scenario->forwarding)
		forwarding_set(scenario, fabric);
	for (uint32_t i = 0; i < scenario->lane_count; i++)
		lane_set(scenario, fabric, &scenario->lanes[i]);
	return scenario->service_levels
		? infiniband_set_service_levels(fabric, scenario->service_levels)
		: 0;
}
