/* SPDX-License-Identifier: BSD-2-Clause */
/* Workloads of kind "multicast": some hosts send to a group of others. */
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "sim/scenario/scenario_workload.h"

/* What plain sources without recovery have alone. */
static bool hosts_check(const struct workload *workload)
{
	const struct scenario *scenario = workload->scenario;

	if (!scenario->is_infiniband)
		return scenario_refuse(workload->text, workload->item,
			"a multicast workload needs the \"link_layer\" \"infiniband\"");
	if (scenario->has_engine || scenario->recovery != SOURCE_NO_RECOVERY)
		return scenario_refuse(workload->text, workload->item,
			"a multicast workload needs plain sources without \"recovery\"");
	if (scenario->group_count == IB_GROUPS_MAX)
		return scenario_refuse(workload->text, workload->item,
			"more than %d multicast workloads", IB_GROUPS_MAX);
	return true;
}

/* The roles of the next group's hosts; NULL without memory, with a sentence. */
static uint8_t *roles_add(struct scenario *scenario)
{
	const size_t hosts = topology_host_count(&scenario->topology);
	uint8_t *roles = (uint8_t *)realloc(scenario->roles, (scenario->group_count + 1) * hosts);

	if (!roles) {
		complain("no memory for %u groups", scenario->group_count + 1);
		return NULL;
	}
	scenario->roles = roles;
	roles += scenario->group_count++ * hosts;
	memset(roles, INFINIBAND_STRANGER, hosts);
	return roles;
}

/* Give the hosts of a list a role, if they have none. */
static bool list_read(const struct workload *workload, const char *name, enum infiniband_role role,
	uint8_t *roles)
{
	const cJSON *list = scenario_member(workload->item, name);
	const cJSON *item;
	uint32_t host;

	if (!cJSON_IsArray(list))
		return scenario_refuse(workload->text, list ? list : workload->item,
			"the \"%s\" of a multicast workload is a list of hosts", name);
	cJSON_ArrayForEach(item, list)
	{
		if (!scenario_read_host(workload->text, workload->scenario, item, &host))
			return false;
		if (roles[host] == INFINIBAND_STRANGER)
			roles[host] = (uint8_t)role;
	}
	return true;
}

/* Is any host but this one a member? */
static bool has_receiver(const struct scenario *scenario, const uint8_t *roles, uint32_t host)
{
	for (uint32_t i = 0; i < topology_host_count(&scenario->topology); i++)
		if (i != host && roles[i] == INFINIBAND_MEMBER)
			return true;
	return false;
}

bool group_read(struct workload *workload)
{
	struct scenario *scenario = workload->scenario;
	const cJSON *item;
	uint8_t *roles;
	uint32_t first = scenario->flow_count;
	uint32_t group = scenario->group_count;

	if (!hosts_check(workload))
		return false;
	roles = roles_add(scenario);
	if (!roles || !list_read(workload, "to", INFINIBAND_MEMBER, roles) ||
		!list_read(workload, "from", INFINIBAND_SENDER, roles))
		return false;
	cJSON_ArrayForEach(item, scenario_member(workload->item, "from"))
	{
		uint32_t host = 0;

		if (!scenario_read_host(workload->text, scenario, item, &host))
			return false;
		if (!has_receiver(scenario, roles, host))
			return scenario_refuse(workload->text, item,
				"\"%s\" has no other host to send to", item->valuestring);
		if (!workload_add_pair(workload, host, group))
			return false;
	}
	for (uint32_t i = first; i < scenario->flow_count; i++)
		scenario->flows[i].is_multicast = true;
	return true;
}
