/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "subnet/manager/manager_internal.h"

enum {
	NOT_REACHED = UINT32_MAX,
	PORTS_OF_SWITCH = 256,
};

/* A CA's port, or a switch's port 0, that the manager reaches. */
struct end_port {
	uint32_t node;
	uint32_t at_switch; /* the place of its switch in `switches`; NOT_REACHED: it has none */
	uint8_t port;
	uint8_t switch_port; /* 0: the switch itself */
};

/* What one sweep finds. */
struct sweep {
	struct subnet *subnet;
	uint32_t *order; /* of each node: its place in `switches`; NOT_REACHED: none */
	uint32_t *switches; /* the nodes of all switches, the nearest to the manager first */
	uint8_t *parent_port; /* of each switch: its port towards the first switch */
	uint32_t *hops; /* of each switch: its distance from the destination's switch */
	uint32_t *queue;
	/* How many LIDs a switch routes to each of its ports; PORTS_OF_SWITCH for each switch. */
	uint32_t *load;
	struct end_port *ends;
	uint32_t switch_count;
	uint32_t end_count;
	uint32_t end_capacity;
};

static bool link_is_up(const struct node_port *port)
{
	return port->info.port_state >= IB_PORT_INIT;
}

/* --- which switches and ports the sweep has found --- */

static void sweep_done(struct sweep *sweep)
{
	free(sweep->order);
	free(sweep->switches);
	free(sweep->parent_port);
	free(sweep->hops);
	free(sweep->queue);
	free(sweep->load);
	free(sweep->ends);
}

static int sweep_init(struct sweep *sweep, struct subnet *subnet)
{
	const uint32_t count = subnet->node_count;
	uint64_t ends = 0;

	assert(count > 0); /* the manager's own node is one */
	for (uint32_t i = 0; i < count; i++)
		ends += node_is_switch(&subnet->nodes[i]) ? 1 : subnet->nodes[i].port_count;
	*sweep = (struct sweep){
		.subnet = subnet,
		.order = malloc(count * sizeof(*sweep->order)),
		.switches = malloc(count * sizeof(*sweep->switches)),
		.parent_port = calloc(count, sizeof(*sweep->parent_port)),
		.hops = malloc(count * sizeof(*sweep->hops)),
		.queue = malloc(count * sizeof(*sweep->queue)),
		.ends = malloc(ends * sizeof(*sweep->ends)),
		.end_capacity = (uint32_t)ends,
	};
	if (!sweep->order || !sweep->switches || !sweep->parent_port || !sweep->hops ||
		!sweep->queue || !sweep->ends) {
		sweep_done(sweep);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < count; i++)
		sweep->order[i] = NOT_REACHED;
	return 0;
}

static void end_add(
	struct sweep *sweep, uint32_t node, uint8_t port, uint32_t at_switch, uint8_t switch_port)
{
	sweep->ends[sweep->end_count++] = (struct end_port){
		.node = node,
		.at_switch = at_switch,
		.port = port,
		.switch_port = switch_port,
	};
}

static void switch_add(struct sweep *sweep, uint32_t node, uint8_t parent_port)
{
	sweep->order[node] = sweep->switch_count;
	sweep->parent_port[sweep->switch_count] = parent_port;
	end_add(sweep, node, 0, sweep->switch_count, 0);
	sweep->switches[sweep->switch_count++] = node;
}

/* Without a switch, the subnet is the manager's CA and the CAs at the other ends of its cables. */
static void pairs_find(struct sweep *sweep, uint32_t own)
{
	const struct subnet_node *node = &sweep->subnet->nodes[own];

	for (uint8_t port = 1; port <= node->port_count; port++) {
		if (!link_is_up(&node->ports[port]))
			continue;
		end_add(sweep, own, port, NOT_REACHED, 0);
		if (node->ports[port].peer_node != own)
			end_add(sweep, node->ports[port].peer_node, node->ports[port].peer_port,
				NOT_REACHED, 0);
	}
}

/* Find all switches that the manager's switch reaches, the nearest first, and their CAs. */
static void nodes_find(struct sweep *sweep)
{
	const struct subnet *subnet = sweep->subnet;
	const uint32_t own = subnet->manager->node;

	if (!node_is_switch(&subnet->nodes[own])) {
		pairs_find(sweep, own);
		return;
	}
	switch_add(sweep, own, 0);
	for (uint32_t i = 0; i < sweep->switch_count; i++) {
		const struct subnet_node *node = &subnet->nodes[sweep->switches[i]];

		for (uint32_t port = 1; port <= node->port_count; port++) {
			const struct node_port *at = &node->ports[port];

			if (!link_is_up(at))
				continue;
			if (!node_is_switch(&subnet->nodes[at->peer_node]))
				end_add(sweep, at->peer_node, at->peer_port, i, (uint8_t)port);
			else if (sweep->order[at->peer_node] == NOT_REACHED)
				switch_add(sweep, at->peer_node, at->peer_port);
		}
	}
}

/* --- LIDs --- */

static struct node_port *end_of(const struct sweep *sweep, const struct end_port *end)
{
	return &sweep->subnet->nodes[end->node].ports[end->port];
}

static void lid_take(struct subnet_manager *manager, const struct end_port *end, uint16_t lid)
{
	manager->lids[lid] = (struct manager_lid){.node = end->node + 1, .port = end->port};
	if (lid > manager->lid_last)
		manager->lid_last = lid;
}

static bool lid_is_free(const struct subnet_manager *manager, uint16_t lid)
{
	return lid && lid <= LID_UNICAST_MAX && !manager->lids[lid].node;
}

/* A port keeps its LID, unless another port has the same. All others get the lowest free LID. */
static int lids_assign(struct sweep *sweep, uint16_t *lids)
{
	struct subnet_manager *manager = sweep->subnet->manager;
	uint16_t next = 1;

	memset(manager->lids, 0, LINEAR_FDB_CAP * sizeof(*manager->lids));
	manager->lid_last = 0;
	for (uint32_t i = 0; i < sweep->end_count; i++) {
		const struct end_port *end = &sweep->ends[i];
		const uint16_t lid = end_of(sweep, end)->info.lid;

		lids[i] = lid_is_free(manager, lid) ? lid : 0;
		if (lids[i])
			lid_take(manager, end, lid);
	}
	for (uint32_t i = 0; i < sweep->end_count; i++) {
		if (lids[i])
			continue;
		while (next <= LID_UNICAST_MAX && !lid_is_free(manager, next))
			next++;
		if (next > LID_UNICAST_MAX)
			return -ENOSPC;
		lids[i] = next;
		lid_take(manager, &sweep->ends[i], next);
	}
	return 0;
}

static void lids_set(struct sweep *sweep, const uint16_t *lids)
{
	struct subnet *subnet = sweep->subnet;
	uint16_t own = 0;

	for (uint32_t i = 0; i < sweep->end_count; i++)
		if (sweep->ends[i].node == subnet->manager->node &&
			sweep->ends[i].port == subnet->manager->port)
			own = lids[i];
	for (uint32_t i = 0; i < sweep->end_count; i++) {
		struct ib_port_info set = end_of(sweep, &sweep->ends[i])->info;

		set.lid = lids[i];
		set.lmc = 0;
		set.sm_lid = own;
		set.sm_sl = 0;
		port_set_lids(subnet, sweep->ends[i].node, sweep->ends[i].port, &set);
	}
}

/* --- routes --- */

/* The hops from each switch to `to`. */
static void hops_count(struct sweep *sweep, uint32_t to)
{
	const struct subnet *subnet = sweep->subnet;
	uint32_t taken = 0, added = 0;

	for (uint32_t i = 0; i < sweep->switch_count; i++)
		sweep->hops[i] = NOT_REACHED;
	sweep->hops[to] = 0;
	sweep->queue[added++] = to;
	while (taken < added) {
		const uint32_t from = sweep->queue[taken++];
		const struct subnet_node *node = &subnet->nodes[sweep->switches[from]];

		for (uint32_t port = 1; port <= node->port_count; port++) {
			const struct node_port *at = &node->ports[port];
			const uint32_t peer =
				link_is_up(at) ? sweep->order[at->peer_node] : NOT_REACHED;

			if (peer == NOT_REACHED || sweep->hops[peer] != NOT_REACHED)
				continue;
			sweep->hops[peer] = sweep->hops[from] + 1;
			sweep->queue[added++] = peer;
		}
	}
}

/* Choose the port with the fewest LIDs among those that lead one hop nearer. */
static uint8_t port_choose(const struct sweep *sweep, uint32_t from)
{
	const struct subnet_node *node = &sweep->subnet->nodes[sweep->switches[from]];
	const uint32_t *load = &sweep->load[from * PORTS_OF_SWITCH];
	uint8_t best = NO_PORT;

	for (uint32_t port = 1; port <= node->port_count; port++) {
		const struct node_port *at = &node->ports[port];
		const uint32_t peer = link_is_up(at) ? sweep->order[at->peer_node] : NOT_REACHED;

		if (peer == NOT_REACHED || sweep->hops[peer] + 1 != sweep->hops[from])
			continue;
		if (best == NO_PORT || load[port] < load[best])
			best = (uint8_t)port;
	}
	return best;
}

static void lid_route(struct sweep *sweep, const struct end_port *end, uint16_t lid)
{
	for (uint32_t i = 0; i < sweep->switch_count; i++) {
		struct subnet_node *node = &sweep->subnet->nodes[sweep->switches[i]];
		const uint8_t port = i == end->at_switch ? end->switch_port : port_choose(sweep, i);

		node->linear[lid] = port;
		sweep->load[i * PORTS_OF_SWITCH + port]++;
	}
}

static int routes_set(struct sweep *sweep, const uint16_t *lids)
{
	sweep->load = calloc(sweep->switch_count + 1, PORTS_OF_SWITCH * sizeof(*sweep->load));
	if (!sweep->load)
		return -ENOMEM;
	for (uint32_t i = 0; i < sweep->switch_count; i++) {
		struct subnet_node *node = &sweep->subnet->nodes[sweep->switches[i]];

		memset(node->linear, NO_PORT, LINEAR_FDB_CAP);
		node->switch_info.linear_fdb_top = sweep->subnet->manager->lid_last;
		node->switch_info.port_state_change = 0;
	}
	for (uint32_t to = 0; to < sweep->switch_count; to++) {
		hops_count(sweep, to);
		for (uint32_t i = 0; i < sweep->end_count; i++)
			if (sweep->ends[i].at_switch == to)
				lid_route(sweep, &sweep->ends[i], lids[i]);
	}
	return 0;
}

/* --- links --- */

/* Set up one end of a link. The sweep sets up the other end with that end's own node. */
static void link_activate(struct subnet *subnet, uint32_t node, uint32_t port)
{
	struct node_port *at = &subnet->nodes[node].ports[port];
	const struct ib_port_info *peer;

	if (!link_is_up(at))
		return;
	peer = &subnet->nodes[at->peer_node].ports[at->peer_port].info;
	at->info.neighbor_mtu = at->info.mtu_cap < peer->mtu_cap ? at->info.mtu_cap : peer->mtu_cap;
	at->info.operational_vls = at->info.vl_cap < peer->vl_cap ? at->info.vl_cap : peer->vl_cap;
	if (at->info.port_state == IB_PORT_INIT)
		port_set_state(subnet, node, port, IB_PORT_ARMED);
	if (at->info.port_state == IB_PORT_ARMED)
		port_set_state(subnet, node, port, IB_PORT_ACTIVE);
}

static void links_activate(struct sweep *sweep)
{
	struct subnet *subnet = sweep->subnet;

	for (uint32_t i = 0; i < sweep->end_count; i++) {
		const struct end_port *end = &sweep->ends[i];

		for (uint32_t port = 1;
			end->port == 0 && port <= subnet->nodes[end->node].port_count; port++)
			link_activate(subnet, end->node, port);
		if (end->port)
			link_activate(subnet, end->node, end->port);
	}
}

static int sweep_run(struct sweep *sweep)
{
	uint16_t *lids = calloc(sweep->end_capacity + 1, sizeof(*lids));
	int error;

	if (!lids)
		return -ENOMEM;
	nodes_find(sweep);
	error = lids_assign(sweep, lids);
	if (!error)
		error = routes_set(sweep, lids);
	if (!error) {
		lids_set(sweep, lids);
		links_activate(sweep);
	}
	free(lids);
	return error;
}

int manager_sweep(struct subnet *subnet)
{
	struct sweep sweep;
	int error = sweep_init(&sweep, subnet);

	if (error)
		return error;
	error = sweep_run(&sweep);
	sweep_done(&sweep);
	return error ? error : manager_route_groups(subnet);
}

/* --- other managers --- */

/* Find the output ports from the first switch to a CA's port. Without a switch it is one port. */
static bool path_find(
	const struct sweep *sweep, const struct end_port *end, struct manager_peer *peer)
{
	const struct subnet *subnet = sweep->subnet;
	uint8_t back[SMP_HOPS_MAX];
	uint32_t order = end->at_switch;

	peer->hops = 0;
	back[peer->hops++] = end->at_switch == NOT_REACHED
		? subnet->nodes[end->node].ports[end->port].peer_port
		: end->switch_port;
	while (order != NOT_REACHED && order != 0) {
		const struct subnet_node *at = &subnet->nodes[sweep->switches[order]];
		const struct node_port *up = &at->ports[sweep->parent_port[order]];

		if (peer->hops == SMP_HOPS_MAX)
			return false;
		back[peer->hops++] = up->peer_port;
		order = sweep->order[up->peer_node];
	}
	for (uint32_t i = 0; i < peer->hops; i++)
		peer->path[1 + i] = back[peer->hops - 1 - i];
	return true;
}

int manager_find_peers(
	struct subnet *subnet, struct manager_peer found[MANAGER_PEERS_MAX], uint32_t *ret_count)
{
	struct sweep sweep;
	uint32_t count = 0;
	int error = sweep_init(&sweep, subnet);

	if (error)
		return error;
	nodes_find(&sweep);
	for (uint32_t i = 0; i < sweep.end_count && count < MANAGER_PEERS_MAX; i++) {
		const struct end_port *end = &sweep.ends[i];
		struct manager_peer peer = {.node = end->node, .port = end->port};

		if (end_of(&sweep, end)->user_capabilities & IB_CAPABILITY_IS_SM &&
			end->node != subnet->manager->node && path_find(&sweep, end, &peer))
			found[count++] = peer;
	}
	sweep_done(&sweep);
	*ret_count = count;
	return 0;
}

/* --- groups --- */

static void row_add(struct subnet_node *node, uint16_t mlid, uint32_t port)
{
	multicast_row_set(&node->multicast[mlid - LID_MULTICAST_FIRST], port, true);
}

/*
 * Find the switch of a member, and the switch's port to it. Returns false if the sweep did not
 * reach the switch, as after a cut cable, which does not end a membership.
 */
static bool member_switch(const struct sweep *sweep, const struct manager_member *member,
	uint32_t *ret_node, uint32_t *ret_port)
{
	const struct subnet_node *nodes = sweep->subnet->nodes;
	const struct node_port *at = &nodes[member->node].ports[member->port];
	const bool is_switch = node_is_switch(&nodes[member->node]);

	if (!is_switch && !link_is_up(at))
		return false;
	*ret_node = is_switch ? member->node : at->peer_node;
	*ret_port = is_switch ? 0 : at->peer_port;
	return sweep->order[*ret_node] != NOT_REACHED;
}

/*
 * Route the group between a member and the first switch, along the tree of the sweep. No frame is
 * routed to a send-only member (IBTA 15.2.5.17), but its own frames reach the first switch.
 */
static void member_route(struct sweep *sweep, uint16_t mlid, const struct manager_member *member)
{
	struct subnet *subnet = sweep->subnet;
	uint32_t node, port;

	if (!member_switch(sweep, member, &node, &port))
		return;
	if (!(member->join_state & (SA_JOIN_FULL | SA_JOIN_NON)))
		port = NO_PORT;
	while (true) {
		const uint32_t order = sweep->order[node];
		const struct node_port *up;

		if (port != NO_PORT)
			row_add(&subnet->nodes[node], mlid, port);
		if (order == 0)
			return;
		row_add(&subnet->nodes[node], mlid, sweep->parent_port[order]);
		up = &subnet->nodes[node].ports[sweep->parent_port[order]];
		node = up->peer_node;
		port = up->peer_port;
	}
}

int manager_route_groups(struct subnet *subnet)
{
	struct subnet_manager *manager = subnet->manager;
	struct sweep sweep;
	int error = sweep_init(&sweep, subnet);

	if (error)
		return error;
	nodes_find(&sweep);
	for (uint32_t i = 0; i < sweep.switch_count; i++)
		memset(subnet->nodes[sweep.switches[i]].multicast, 0,
			MULTICAST_FDB_CAP * sizeof(*subnet->nodes->multicast));
	for (uint32_t i = 0; i < MULTICAST_FDB_CAP; i++) {
		const struct manager_group *group = manager->groups[i];

		for (uint32_t k = 0; group && k < group->member_count; k++)
			member_route(&sweep, group->mlid, &group->members[k]);
	}
	sweep_done(&sweep);
	return 0;
}
