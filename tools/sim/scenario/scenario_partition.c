/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The partitions of a subnet: "partitions" and "part_enforce" in the item "subnet", and the P_Keys
 * of workloads. The words are those of OpenSM. As OpenSM does, the port of a switch that leads to a
 * host has the P_Keys of that host.
 */
#include <stdlib.h>

#include "base/arith.h"
#include "common/command.h"
#include "sim/scenario/scenario.h"
#include "wire/infiniband/pkey.h"

bool scenario_read_pkey(const struct scenario_text *text, const cJSON *object, uint16_t *ret_pkey)
{
	const cJSON *item = scenario_member(object, "pkey");
	const char *word = NULL;
	unsigned long value;
	char *end;

	if (!scenario_read_string(text, object, "pkey", &word))
		return false;
	if (!word)
		return true;
	value = strtoul(word, &end, 0);
	if (*word < '0' || *word > '9' || *end || value > UINT16_MAX || !(value & PKEY_PARTITION))
		return scenario_refuse(text, item,
			"\"pkey\" is \"%s\": it is from \"0x0001\" to \"0xffff\", not \"0x8000\"",
			word);
	*ret_pkey = (uint16_t)value;
	return true;
}

/* --- tables --- */

static bool pkey_add(const struct scenario_text *text, struct scenario *scenario, const cJSON *item,
	uint32_t host, uint16_t pkey)
{
	struct scenario_pkeys *of = &scenario->pkeys[host];

	for (uint32_t i = 0; i < of->count; i++)
		if (pkey_is_of_partition(of->pkeys[i], pkey))
			return scenario_refuse(text, item, "\"%s\" is in partition 0x%04x twice",
				item->valuestring, pkey & PKEY_PARTITION);
	if (of->count == IB_PKEYS_MAX)
		return scenario_refuse(text, item, "\"%s\" is in more than %d partitions",
			item->valuestring, IB_PKEYS_MAX);
	of->pkeys[of->count++] = pkey;
	return true;
}

/* The members of a kind: `pkey` is theirs. */
static bool members_read(const struct scenario_text *text, struct scenario *scenario,
	const cJSON *partition, const char *name, uint16_t pkey)
{
	const cJSON *list = scenario_member(partition, name);
	const cJSON *item;

	if (list && !cJSON_IsArray(list))
		return scenario_refuse(text, list, "\"%s\" is not a list of hosts", name);
	cJSON_ArrayForEach(item, list)
	{
		uint32_t host = 0;

		if (!scenario_read_host(text, scenario, item, &host) ||
			!pkey_add(text, scenario, item, host, pkey))
			return false;
	}
	return true;
}

static bool partition_read(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *item)
{
	static const struct scenario_field fields[] = {
		SCENARIO_OTHER("pkey"), SCENARIO_OTHER("full"), SCENARIO_OTHER("limited")};
	uint16_t pkey = 0;

	if (!scenario_read_object(text, item, "a partition", fields, ARRAY_COUNT(fields), &pkey) ||
		!scenario_read_pkey(text, item, &pkey))
		return false;
	if (!pkey)
		return scenario_refuse(text, item, "a partition has no \"pkey\"");
	return members_read(text, scenario, item, "full", pkey | PKEY_FULL) &&
		members_read(text, scenario, item, "limited", pkey & PKEY_PARTITION);
}

static bool enforcement_read(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *item)
{
	static const char *const words[] = {"off", "in", "out", "both", NULL};
	uint32_t place = 2;

	if (item && !scenario_read_word(text, item, "part_enforce", words, &place))
		return false;
	scenario->is_inbound_enforced = place & 1;
	scenario->is_outbound_enforced = place >> 1;
	return true;
}

bool scenario_read_partitions(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *subnet)
{
	const cJSON *list = scenario_member(subnet, "partitions");
	const cJSON *item;

	if (!enforcement_read(text, scenario, scenario_member(subnet, "part_enforce")))
		return false;
	if (!list)
		return true;
	if (!cJSON_IsArray(list))
		return scenario_refuse(text, list, "\"partitions\" is not a list");
	scenario->pkeys = (struct scenario_pkeys *)calloc(
		topology_host_count(&scenario->topology), sizeof(struct scenario_pkeys));
	if (!scenario->pkeys) {
		complain("no memory for the partitions");
		return false;
	}
	cJSON_ArrayForEach(item, list)
	{
		if (!partition_read(text, scenario, item))
			return false;
	}
	return true;
}

/* --- in the network --- */

void scenario_set_partitions(const struct scenario *scenario, struct fabric *fabric)
{
	for (uint32_t i = 0; scenario->pkeys && i < fabric->host_count; i++) {
		const struct scenario_pkeys *of = &scenario->pkeys[i];
		uint32_t port = fabric->hosts[i].port;
		uint32_t peer = fabric->ports[port].peer;

		infiniband_set_pkeys(fabric, port, of->pkeys, of->count);
		infiniband_set_pkeys(fabric, peer, of->pkeys, of->count);
		if (!fabric->ports[peer].is_host)
			infiniband_set_enforcement(fabric, peer, scenario->is_inbound_enforced,
				scenario->is_outbound_enforced);
	}
}

uint16_t scenario_flow_pkey(const struct fabric *fabric, const struct fabric_flow *flow)
{
	const struct infiniband_port *ports = fabric->infiniband->ports;
	const struct infiniband_port *from = &ports[fabric->hosts[flow->source].port];
	const struct infiniband_port *to;
	uint16_t pkey = 0;

	if (flow->pkey)
		return flow->pkey;
	if (!flow->is_multicast) {
		to = &ports[fabric->hosts[flow->destination].port];
		pkey = pkey_find_common(from->pkeys, from->pkey_count, to->pkeys, to->pkey_count);
	}
	return pkey || !from->pkey_count ? pkey : from->pkeys[0];
}
