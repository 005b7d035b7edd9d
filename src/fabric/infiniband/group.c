/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups, and the tree of cables that a group's packets take.
 *
 * The tree's top is a switch from which all switches with hosts of the group are reached by going
 * down only. A packet goes up from its sender's switch, towards the top, and down to members. A row
 * has the ports to members, to switches below with members, and the one that leads up. The tree
 * ends at the lowest switch that is above all hosts of the group.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/infiniband/internal.h"
#include "fabric/route.h"

#define NO_SWITCH UINT32_MAX

struct tree {
	struct fabric *fabric;
	const uint8_t *roles;
	uint32_t group;
	uint32_t host_count; /* that are no strangers */
	uint32_t member_count;
	uint32_t *up; /* by switch: its port towards the top; FABRIC_NO_PORT: it is not reached */
	uint32_t *hosts; /* by switch: hosts of the group at it or below */
	uint32_t *members; /* the same of members */
	uint32_t *queue; /* room for all switches */
};

/* The port of the switch to which the host is connected; FABRIC_NO_PORT: that is a host. */
static uint32_t port_to_host(const struct fabric *fabric, uint32_t host)
{
	uint32_t port = fabric->ports[fabric->hosts[host].port].peer;

	return fabric->ports[port].is_host ? FABRIC_NO_PORT : port;
}

/* Find the switches below `top`, each by the first port that leads up to it. */
static void tree_spread(struct tree *tree, uint32_t top)
{
	const struct fabric *fabric = tree->fabric;
	uint32_t begin = 0;
	uint32_t end = 0;

	for (uint32_t i = 0; i < fabric->switch_count; i++)
		tree->up[i] = FABRIC_NO_PORT;
	tree->queue[end++] = top;
	while (begin < end) {
		uint32_t at = tree->queue[begin++];
		uint32_t count;
		const uint32_t *ports = route_ports_of(fabric, at, &count);

		for (uint32_t i = 0; i < count; i++) {
			const struct fabric_port *peer =
				&fabric->ports[fabric->ports[ports[i]].peer];

			if (peer->is_host || tree->up[peer->node] != FABRIC_NO_PORT ||
				!infiniband_is_above(fabric->infiniband->rank, at, peer->node))
				continue;
			tree->up[peer->node] = fabric->ports[ports[i]].peer;
			tree->queue[end++] = peer->node;
		}
	}
}

static bool tree_reaches_all(const struct tree *tree, uint32_t top)
{
	for (uint32_t i = 0; i < tree->fabric->host_count; i++) {
		uint32_t port = port_to_host(tree->fabric, i);

		if (tree->roles[i] == INFINIBAND_STRANGER)
			continue;
		if (port == FABRIC_NO_PORT)
			return false;
		if (tree->fabric->ports[port].node != top &&
			tree->up[tree->fabric->ports[port].node] == FABRIC_NO_PORT)
			return false;
	}
	return true;
}

/* The switch above, and in *ret_down its port that leads down to `at`. */
static uint32_t parent_of(const struct tree *tree, uint32_t at, uint32_t *ret_down)
{
	*ret_down = tree->fabric->ports[tree->up[at]].peer;
	return tree->fabric->ports[*ret_down].node;
}

static void hosts_count(struct tree *tree)
{
	const struct fabric *fabric = tree->fabric;

	memset(tree->hosts, 0, fabric->switch_count * sizeof(uint32_t));
	memset(tree->members, 0, fabric->switch_count * sizeof(uint32_t));
	for (uint32_t i = 0; i < fabric->host_count; i++) {
		uint32_t at;

		if (tree->roles[i] == INFINIBAND_STRANGER)
			continue;
		at = fabric->ports[port_to_host(fabric, i)].node;
		while (true) {
			uint32_t down;

			tree->hosts[at]++;
			tree->members[at] += tree->roles[i] == INFINIBAND_MEMBER;
			if (tree->up[at] == FABRIC_NO_PORT)
				break;
			at = parent_of(tree, at, &down);
		}
	}
}

static void port_add(const struct tree *tree, uint32_t port)
{
	const struct fabric *fabric = tree->fabric;
	uint32_t node = fabric->ports[port].node;

	multicast_row_set(&fabric->infiniband->multicast[node][tree->group],
		infiniband_port_number(fabric, port), true);
}

static void rows_set(const struct tree *tree)
{
	const struct fabric *fabric = tree->fabric;

	for (uint32_t i = 0; i < fabric->host_count; i++) {
		uint32_t port = port_to_host(fabric, i);
		uint32_t at;

		if (tree->roles[i] == INFINIBAND_STRANGER)
			continue;
		at = fabric->ports[port].node;
		if (tree->roles[i] == INFINIBAND_MEMBER)
			port_add(tree, port);
		while (tree->hosts[at] < tree->host_count) {
			bool has_members = tree->members[at];
			uint32_t down;

			if (tree->members[at] < tree->member_count)
				port_add(tree, tree->up[at]);
			at = parent_of(tree, at, &down);
			if (has_members)
				port_add(tree, down);
		}
	}
}

/* Returns 0 or -ENETUNREACH. */
static int tree_find(struct tree *tree)
{
	const struct fabric *fabric = tree->fabric;
	const uint32_t *rank = fabric->infiniband->rank;
	uint32_t top = NO_SWITCH;
	uint32_t tries = fabric->switch_count;

	while (tries--) {
		uint32_t next = NO_SWITCH;

		/* From the highest switch to the lowest. */
		for (uint32_t i = 0; i < fabric->switch_count; i++)
			if ((top == NO_SWITCH || infiniband_is_above(rank, top, i)) &&
				(next == NO_SWITCH || infiniband_is_above(rank, i, next)))
				next = i;
		top = next;
		tree_spread(tree, top);
		if (tree_reaches_all(tree, top)) {
			hosts_count(tree);
			rows_set(tree);
			return 0;
		}
	}
	return -ENETUNREACH;
}

static int tree_make(struct fabric *fabric, const uint8_t *roles, uint32_t group)
{
	const uint64_t switches = fabric->switch_count + 1ull;
	struct tree tree = {.fabric = fabric, .roles = roles, .group = group};
	uint32_t *numbers = (uint32_t *)calloc(4 * switches, sizeof(uint32_t));
	int error;

	if (!numbers)
		return -ENOMEM;
	tree.up = numbers;
	tree.hosts = numbers + switches;
	tree.members = numbers + 2 * switches;
	tree.queue = numbers + 3 * switches;
	for (uint32_t i = 0; i < fabric->host_count; i++) {
		tree.host_count += roles[i] != INFINIBAND_STRANGER;
		tree.member_count += roles[i] == INFINIBAND_MEMBER;
	}
	error = tree_find(&tree);
	free(numbers);
	return error;
}

/* Room for one more group: its roles, and a row of each switch. */
static int group_reserve(struct fabric *fabric, const uint8_t *roles)
{
	struct infiniband *infiniband = fabric->infiniband;
	const uint32_t number = infiniband->group_count;
	struct infiniband_group *groups = (struct infiniband_group *)realloc(
		infiniband->groups, (number + 1ull) * sizeof(struct infiniband_group));

	if (!groups)
		return -ENOMEM;
	infiniband->groups = groups;
	for (uint32_t i = 0; i < fabric->switch_count; i++) {
		struct multicast_row *rows = (struct multicast_row *)realloc(
			infiniband->multicast[i], (number + 1ull) * sizeof(struct multicast_row));

		if (!rows)
			return -ENOMEM;
		infiniband->multicast[i] = rows;
		rows[number] = (struct multicast_row){{0}};
	}
	groups[number] =
		(struct infiniband_group){.roles = (uint8_t *)malloc(fabric->host_count + 1ull)};
	if (!groups[number].roles)
		return -ENOMEM;
	memcpy(groups[number].roles, roles, fabric->host_count);
	for (uint32_t i = 0; i < fabric->host_count; i++)
		groups[number].member_count += roles[i] == INFINIBAND_MEMBER;
	infiniband->group_count++;
	return 0;
}

/* Have all ports a bit in a row? */
static bool rows_are_wide_enough(const struct fabric *fabric)
{
	for (uint32_t i = 0; i < fabric->switch_count; i++) {
		uint32_t count;

		route_ports_of(fabric, i, &count);
		if (count >= MULTICAST_PORTS_MAX)
			return false;
	}
	return true;
}

int infiniband_add_group(struct fabric *fabric, const uint8_t *roles, uint32_t *ret_group)
{
	struct infiniband *infiniband = fabric->infiniband;
	int error;

	assert(infiniband->group_count < IB_GROUPS_MAX);
	if (!rows_are_wide_enough(fabric))
		return -E2BIG;
	error = group_reserve(fabric, roles);
	if (!error)
		error = tree_make(fabric, roles, infiniband->group_count - 1);
	if (!error && infiniband->config.routing == INFINIBAND_LASH)
		error = infiniband_layers_add_group(fabric);
	*ret_group = infiniband->group_count - 1;
	return error;
}

void infiniband_set_multicast(struct fabric *fabric, uint32_t switch_number, uint32_t group,
	const struct multicast_row *row)
{
	fabric->infiniband->multicast[switch_number][group] = *row;
}
