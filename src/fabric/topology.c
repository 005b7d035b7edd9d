/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/topology.h"

static int switches_add(struct fabric *fabric, const struct topology *topology, uint32_t count)
{
	uint32_t number;
	int error = 0;

	while (!error && count--) {
		const struct fabric_switch_config *config = topology->switch_configs
			? &topology->switch_configs[fabric->switch_count]
			: &topology->switches;

		error = fabric_add_switch(fabric, config, &number);
	}
	return error;
}

static int hosts_add(struct fabric *fabric, const struct topology *topology, uint32_t switch_number,
	uint32_t count)
{
	int error = 0;

	while (!error && count--) {
		struct fabric_node host = {.is_host = true};

		error = fabric_add_host(fabric, &host.number);
		if (!error)
			error = fabric_connect(fabric, host,
				(struct fabric_node){.number = switch_number},
				topology->host_link.rate_mbps, topology->host_link.delay_ps, NULL);
	}
	return error;
}

static int switches_connect(
	struct fabric *fabric, const struct topology *topology, uint32_t a, uint32_t b)
{
	struct fabric_node from = {.number = a};
	struct fabric_node to = {.number = b};

	return fabric_connect(fabric, from, to, topology->switch_link.rate_mbps,
		topology->switch_link.delay_ps, NULL);
}

static int star_build(struct fabric *fabric, const struct topology *topology)
{
	int error = switches_add(fabric, topology, 1);

	return error ? error : hosts_add(fabric, topology, 0, topology->hosts);
}

static int dumbbell_build(struct fabric *fabric, const struct topology *topology)
{
	int error = switches_add(fabric, topology, 2);

	if (!error)
		error = hosts_add(fabric, topology, 0, topology->hosts);
	if (!error)
		error = hosts_add(fabric, topology, 1, topology->hosts_right);
	return error ? error : switches_connect(fabric, topology, 0, 1);
}

static int leaf_spine_build(struct fabric *fabric, const struct topology *topology)
{
	int error = switches_add(fabric, topology, topology->leaves + topology->spines);

	for (uint32_t i = 0; !error && i < topology->leaves; i++)
		error = hosts_add(fabric, topology, i, topology->hosts);
	for (uint32_t i = 0; !error && i < topology->leaves; i++)
		for (uint32_t j = 0; !error && j < topology->spines; j++)
			error = switches_connect(fabric, topology, i, topology->leaves + j);
	return error;
}

static int pod_build(struct fabric *fabric, const struct topology *topology, uint32_t pod)
{
	uint32_t half = topology->k / 2;
	uint32_t edge = pod * topology->k;
	uint32_t aggregation = edge + half;
	uint32_t core = topology->k * topology->k;
	int error = 0;

	for (uint32_t i = 0; !error && i < half; i++)
		error = hosts_add(fabric, topology, edge + i, half);
	for (uint32_t i = 0; !error && i < half; i++)
		for (uint32_t j = 0; !error && j < half; j++)
			error = switches_connect(fabric, topology, edge + i, aggregation + j);
	for (uint32_t i = 0; !error && i < half; i++)
		for (uint32_t j = 0; !error && j < half; j++)
			error = switches_connect(
				fabric, topology, aggregation + i, core + i * half + j);
	return error;
}

static int fat_tree_build(struct fabric *fabric, const struct topology *topology)
{
	uint32_t k = topology->k;
	int error = switches_add(fabric, topology, k * k + k * k / 4);

	for (uint32_t pod = 0; !error && pod < k; pod++)
		error = pod_build(fabric, topology, pod);
	return error;
}

static int custom_build(struct fabric *fabric, const struct topology *topology)
{
	int error = switches_add(fabric, topology, topology->switch_count);
	uint32_t number;

	for (uint32_t i = 0; !error && i < topology->hosts; i++)
		error = fabric_add_host(fabric, &number);
	for (uint32_t i = 0; !error && i < topology->cable_count; i++) {
		const struct fabric_node *ends = topology->cables[i].ends;
		const struct topology_link *link = ends[0].is_host || ends[1].is_host
			? &topology->host_link
			: &topology->switch_link;
		const uint32_t mbps = topology->cable_mbps ? topology->cable_mbps[i] : 0;

		error = fabric_connect(fabric, ends[0], ends[1], mbps ? mbps : link->rate_mbps,
			link->delay_ps, NULL);
	}
	return error;
}

uint32_t topology_switch_count(const struct topology *topology)
{
	switch (topology->kind) {
	case TOPOLOGY_STAR:
		return 1;
	case TOPOLOGY_DUMBBELL:
		return 2;
	case TOPOLOGY_LEAF_SPINE:
		return topology->leaves + topology->spines;
	case TOPOLOGY_FAT_TREE:
		return topology->k * topology->k + topology->k * topology->k / 4;
	case TOPOLOGY_CUSTOM:
		return topology->switch_count;
	}
	return 0;
}

uint32_t topology_host_count(const struct topology *topology)
{
	switch (topology->kind) {
	case TOPOLOGY_STAR:
	case TOPOLOGY_CUSTOM:
		return topology->hosts;
	case TOPOLOGY_DUMBBELL:
		return topology->hosts + topology->hosts_right;
	case TOPOLOGY_LEAF_SPINE:
		return topology->hosts * topology->leaves;
	case TOPOLOGY_FAT_TREE:
		return topology->k * topology->k * topology->k / 4;
	}
	return 0;
}

int topology_build(struct fabric *fabric, const struct topology *topology)
{
	int error = 0;

	switch (topology->kind) {
	case TOPOLOGY_STAR:
		error = star_build(fabric, topology);
		break;
	case TOPOLOGY_DUMBBELL:
		error = dumbbell_build(fabric, topology);
		break;
	case TOPOLOGY_LEAF_SPINE:
		error = leaf_spine_build(fabric, topology);
		break;
	case TOPOLOGY_FAT_TREE:
		error = fat_tree_build(fabric, topology);
		break;
	case TOPOLOGY_CUSTOM:
		error = custom_build(fabric, topology);
		break;
	}
	return error ? error : fabric_route(fabric);
}
