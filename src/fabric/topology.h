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
 * Hosts are numbered switch by switch.
 */
#ifndef URNIC_FABRIC_TOPOLOGY_H
#define URNIC_FABRIC_TOPOLOGY_H

#include "fabric/fabric.h"

enum topology_kind {
	TOPOLOGY_STAR,
	TOPOLOGY_DUMBBELL,
	TOPOLOGY_LEAF_SPINE,
	TOPOLOGY_FAT_TREE,
};

struct topology_link {
	uint32_t rate_mbps;
	uint64_t delay_ps;
};

struct topology {
	enum topology_kind kind;
	uint32_t hosts; /* star: in all; dumbbell: on the left; leaf-spine: per leaf */
	uint32_t hosts_right; /* dumbbell */
	uint32_t leaves; /* leaf-spine */
	uint32_t spines; /* leaf-spine */
	uint32_t k; /* fat tree: even, 2 or more */
	struct topology_link host_link;
	struct topology_link switch_link; /* between switches */
	struct fabric_switch_config switches;
};

/* The number of hosts. */
uint32_t topology_host_count(const struct topology *topology);

/* Build it in an empty network, paths included. Returns 0 or -ENOMEM. */
int topology_build(struct fabric *fabric, const struct topology *topology);

#endif
