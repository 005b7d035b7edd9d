/* SPDX-License-Identifier: BSD-2-Clause */
/* The cables and routes of a scenario. */
#include <stdlib.h>

#include "base/arith.h"
#include "common/command.h"
#include "fabric/route.h"
#include "sim/scenario/scenario.h"

uint32_t scenario_port_between(
	const struct fabric *fabric, struct fabric_node from, struct fabric_node to)
{
	for (uint32_t i = 0; i < fabric->port_count; i++) {
		const struct fabric_port *port = &fabric->ports[i];
		const struct fabric_port *peer = &fabric->ports[port->peer];

		if (port->is_host == from.is_host && port->node == from.number &&
			peer->is_host == to.is_host && peer->node == to.number)
			return i;
	}
	return FABRIC_NO_PORT;
}

/* --- cables --- */

/* The rate of a cable, in Gbit/s, if it has one of its own. */
static bool cable_rate_read(const struct scenario_text *text, const cJSON *item, uint32_t *ret_mbps)
{
	const double mbps = cJSON_IsNumber(item) ? item->valuedouble * 1000 + 0.5 : 0;

	if (!item)
		return true;
	if (!(mbps >= 1 && mbps < FABRIC_RATE_MBPS_MAX + 1.))
		return scenario_refuse(text, item,
			"the rate of a cable is from 0.001 to %.15g Gbit/s",
			FABRIC_RATE_MBPS_MAX / 1000.);
	*ret_mbps = (uint32_t)mbps;
	return true;
}

static bool cable_read(const struct scenario_text *text, const struct scenario *scenario,
	const cJSON *item, bool *is_connected, struct topology_cable *cable)
{
	const cJSON *name = item->child;

	if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) < 2 || cJSON_GetArraySize(item) > 3)
		return scenario_refuse(
			text, item, "a cable is a list of two nodes, and perhaps a rate");
	for (uint32_t i = 0; i < 2; i++, name = name->next) {
		struct fabric_node *end = &cable->ends[i];

		if (!scenario_read_node(text, scenario, name, end))
			return false;
		if (end->is_host && is_connected[end->number])
			return scenario_refuse(
				text, name, "host \"%s\" has two cables", name->valuestring);
		if (end->is_host)
			is_connected[end->number] = true;
	}
	if (cable->ends[0].is_host && cable->ends[1].is_host)
		return scenario_refuse(text, item, "a cable between two hosts");
	if (!cable->ends[0].is_host && !cable->ends[1].is_host &&
		cable->ends[0].number == cable->ends[1].number)
		return scenario_refuse(text, item, "a cable from a switch to itself");
	return true;
}

static bool cables_read(const struct scenario_text *text, struct scenario *scenario,
	const cJSON *list, bool *is_connected)
{
	struct topology *topology = &scenario->topology;
	const cJSON *item;

	cJSON_ArrayForEach(item, list)
	{
		if (!cable_read(text, scenario, item, is_connected,
			    &scenario->cables[topology->cable_count]) ||
			!cable_rate_read(text, cJSON_GetArrayItem(item, 2),
				&scenario->cable_mbps[topology->cable_count]))
			return false;
		topology->cable_count++;
	}
	for (uint32_t i = 0; i < topology->hosts; i++)
		if (!is_connected[i])
			return scenario_refuse(text, list, "host \"h%u\" has no cable", i);
	return true;
}

/* Do all hosts reach each other? */
static bool is_whole(
	const struct scenario_text *text, const struct scenario *scenario, const cJSON *list)
{
	const struct fabric_config config = {.response_quanta = FABRIC_RESPONSE_OF_RATE};
	const struct topology_link link = {1000, 0};
	struct topology topology = scenario->topology;
	struct fabric *fabric = fabric_create(&config);
	bool is_built;

	topology.host_link = topology.switch_link = link;
	is_built = fabric && !topology_build(fabric, &topology);
	fabric_destroy(fabric);
	return is_built || scenario_refuse(text, list, "some host cannot reach another one");
}

bool scenario_read_cables(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *item)
{
	const cJSON *list = scenario_member(item, "cables");
	bool *is_connected;
	bool is_read;

	if (scenario->topology.kind != TOPOLOGY_CUSTOM)
		return !list ||
			scenario_refuse(text, list, "only a custom topology has \"cables\"");
	if (!cJSON_IsArray(list))
		return scenario_refuse(
			text, list ? list : item, "a custom topology has a list \"cables\"");
	is_connected = (bool *)calloc(scenario->topology.hosts + 1ull, sizeof(bool));
	scenario->cables = (struct topology_cable *)calloc(
		(size_t)cJSON_GetArraySize(list) + 1, sizeof(struct topology_cable));
	scenario->cable_mbps =
		(uint32_t *)calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof(uint32_t));
	scenario->topology.cables = scenario->cables;
	scenario->topology.cable_mbps = scenario->cable_mbps;
	is_read = is_connected && scenario->cables && scenario->cable_mbps;
	if (!is_read)
		complain("no memory for cables");
	is_read = is_read && cables_read(text, scenario, list, is_connected) &&
		is_whole(text, scenario, list);
	free(is_connected);
	return is_read;
}

/* --- routes --- */

static bool route_set(struct fabric *fabric, const struct scenario_route *route)
{
	struct fabric_node at = {.number = route->at};
	struct fabric_node via = {.number = route->via};
	uint32_t port = scenario_port_between(fabric, at, via);

	return !route_override(fabric, route->at, route->to, port);
}

bool scenario_set_routes(const struct scenario *scenario, struct fabric *fabric)
{
	for (uint32_t i = 0; i < scenario->route_count; i++)
		if (!route_set(fabric, &scenario->routes[i]))
			return false;
	return true;
}

static bool route_read(const struct scenario_text *text, const struct scenario *scenario,
	const struct fabric *fabric, const cJSON *item, struct scenario_route *route)
{
	static const struct scenario_field fields[] = {
		SCENARIO_OTHER("at"),
		SCENARIO_OTHER("to"),
		SCENARIO_OTHER("via"),
	};
	struct fabric_node at;
	struct fabric_node via;

	if (!scenario_read_object(text, item, "a route", fields, ARRAY_COUNT(fields), route))
		return false;
	for (uint32_t i = 0; i < ARRAY_COUNT(fields); i++)
		if (!scenario_member(item, fields[i].name))
			return scenario_refuse(text, item, "a route has no \"%s\"", fields[i].name);
	if (!scenario_read_node(text, scenario, scenario_member(item, "at"), &at) ||
		!scenario_read_host(text, scenario, scenario_member(item, "to"), &route->to) ||
		!scenario_read_node(text, scenario, scenario_member(item, "via"), &via))
		return false;
	if (at.is_host || via.is_host)
		return scenario_refuse(
			text, item, "a route is \"at\" a switch, \"via\" another one");
	if (scenario_port_between(fabric, at, via) == FABRIC_NO_PORT)
		return scenario_refuse(text, item, "there is no cable from \"s%u\" to \"s%u\"",
			at.number, via.number);
	route->at = at.number;
	route->via = via.number;
	return true;
}

static bool routes_read(const struct scenario_text *text, struct scenario *scenario,
	struct fabric *fabric, const cJSON *list)
{
	const cJSON *item;

	cJSON_ArrayForEach(item, list)
	{
		struct scenario_route *route = &scenario->routes[scenario->route_count];

		if (!route_read(text, scenario, fabric, item, route))
			return false;
		scenario->route_count++;
		if (!route_set(fabric, route)) {
			complain("no memory for routes");
			return false;
		}
	}
	for (uint32_t i = 0; i < scenario->route_count; i++)
		if (route_has_loop(fabric, scenario->routes[i].to))
			return scenario_refuse(text, list,
				"frames to \"h%u\" would go round in a loop",
				scenario->routes[i].to);
	return true;
}

bool scenario_read_routes(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *list)
{
	struct fabric *fabric;
	bool is_read;

	if (!list)
		return true;
	if (!cJSON_IsArray(list))
		return scenario_refuse(text, list, "\"routes\" is not a list");
	scenario->routes = (struct scenario_route *)calloc(
		(size_t)cJSON_GetArraySize(list) + 1, sizeof(struct scenario_route));
	fabric = fabric_create(&scenario->config);
	is_read = scenario->routes && fabric && !topology_build(fabric, &scenario->topology);
	if (!is_read)
		complain("no memory for routes");
	is_read = is_read && routes_read(text, scenario, fabric, list);
	fabric_destroy(fabric);
	return is_read;
}
