/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Networks of the usual shapes.
 *
 *     star        all hosts at one switch
 *     dumbbell    hosts at two switches with a cable between them; the first hosts are on the left
 *     leaf-spine  hosts at leaves, each leaf connected to each spine; leaves are numbered first
 *     fat tree    k^3/4 hosts in k pods of k/2 edge and k/2 aggregation switches, and (k/2)^2 core
 *                 switches. Switches are numbered pod by pod, edge first, the core last
 *
 *     custom      any hosts and switches, and a list of cables
 *
 * Hosts are numbered switch by switch, except in custom networks.
 */
#ifndef URNIC_FABRIC_TOPOLOGY_H
#define URNIC_FABRIC_TOPOLOGY_H

#include "fabric/fabric.h"

enum topology_kind {
	TOPOLOGY_STAR,
	TOPOLOGY_DUMBBELL,
	TOPOLOGY_LEAF_SPINE,
	TOPOLOGY_FAT_TREE,
	TOPOLOGY_CUSTOM,
};

struct topology_link {
	uint32_t rate_mbps;
	uint64_t delay_ps;
};

struct topology_cable {
	struct fabric_node ends[2];
};

struct topology {
	enum topology_kind kind;
	uint32_t hosts; /* star, custom: in all; dumbbell: on the left; leaf-spine: per leaf */
	uint32_t hosts_right; /* dumbbell */
	uint32_t leaves; /* leaf-spine */
	uint32_t spines; /* leaf-spine */
	uint32_t k; /* fat tree: even, 2 or more */
	uint32_t switch_count; /* custom */
	uint32_t cable_count; /* custom */
	const struct topology_cable *cables; /* custom: each host has one */
	const uint32_t *cable_mbps; /* custom, by cable; 0, or NULL: that of its kind */
	struct topology_link host_link; /* of cables to hosts */
	struct topology_link switch_link; /* between switches */
	struct fabric_switch_config switches;
	/* By number, one for each switch; NULL: all are as `switches`. */
	const struct fabric_switch_config *switch_configs;
};

/* The numbers of hosts and of switches. */
uint32_t topology_host_count(const struct topology *topology);
uint32_t topology_switch_count(const struct topology *topology);

/*
 * Build it in an empty network, paths included. Returns 0 or -ENOMEM; of a custom one also
 * -ENETUNREACH when some host cannot reach another one.
 */
int topology_build(struct fabric *fabric, const struct topology *topology);

#endif
