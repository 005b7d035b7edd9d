/* SPDX-License-Identifier: BSD-2-Clause */
/* The route of a frame to a unicast LID, looked up in the tables without sending a frame. */
#include <assert.h>

#include "base/arith.h"
#include "subnet/subnet_internal.h"
#include "wire/infiniband/pkey.h"

enum {
	HOQ_LIFE_UNIT_NS = 4096,
	HOQ_LIFE_MAX = 19, /* a greater value: no limit (IBTA 14.2.5.6) */
};

/* A walk along the route. */
struct walk {
	const struct subnet *subnet;
	uint16_t dlid;
	uint16_t pkey;
	uint8_t sl;
	struct subnet_route *route;
};

const char *subnet_route_end_text(enum subnet_route_end end)
{
	static const char *const texts[] = {
#define SUBNET_ROUTE_END(name, sentence) [SUBNET_ROUTE_##name] = sentence,
#include "subnet/route_end.def"
#undef SUBNET_ROUTE_END
	};

	return texts[end];
}

uint64_t subnet_route_changes(const struct subnet *subnet)
{
	return subnet->route_changes;
}

static uint64_t hoq_life_ns(const struct ib_port_info *info)
{
	return info->hoq_life > HOQ_LIFE_MAX ? UINT64_MAX
					     : (uint64_t)HOQ_LIFE_UNIT_NS << info->hoq_life;
}

/* Leave route->node by a port. Returns ARRIVES if the frame crosses the cable. */
static enum subnet_route_end walk_cross(struct walk *walk, uint32_t in_port, uint32_t out_port)
{
	struct subnet_route *route = walk->route;
	const struct node_port *out = &walk->subnet->nodes[route->node].ports[out_port];
	const struct node_port *peer;
	uint8_t vl;

	if (!port_vl_find(out, in_port, walk->sl, &vl))
		return SUBNET_ROUTE_NO_LANE;
	if (in_port && port_pkey_is_refused(out, out->info.partition_enforcement_out, walk->pkey))
		return SUBNET_ROUTE_PKEY_OUT;
	if (route->hop_count == HOPS_MAX)
		return SUBNET_ROUTE_LOOP;
	route->hops[route->hop_count++] =
		(struct subnet_hop){.node = route->node, .port = (uint8_t)out_port, .vl = vl};
	if (out->info.port_state != IB_PORT_ACTIVE)
		return SUBNET_ROUTE_PORT_DOWN;
	peer = &walk->subnet->nodes[out->peer_node].ports[out->peer_port];
	if (peer->info.port_state != IB_PORT_ACTIVE)
		return SUBNET_ROUTE_PEER_DOWN;
	if (peer->error_per_million)
		return SUBNET_ROUTE_SPOILT;
	route->frame_bytes_max = min_u32(route->frame_bytes_max, port_frame_bytes_max(out));
	route->lifetime_ns = hoq_life_ns(&out->info);
	route->node = out->peer_node;
	route->port = out->peer_port;
	return SUBNET_ROUTE_ARRIVES;
}

static enum subnet_route_end walk_switch(struct walk *walk)
{
	const struct subnet_node *at = &walk->subnet->nodes[walk->route->node];
	const uint32_t in_port = walk->route->port;
	const struct node_port *in = &at->ports[in_port];
	uint8_t out;

	if (port_pkey_is_refused(in, in->info.partition_enforcement_in, walk->pkey))
		return SUBNET_ROUTE_PKEY_IN;
	if (port_has_lid(&at->ports[0], walk->dlid))
		return SUBNET_ROUTE_IS_SWITCH;
	out = subnet_switch_route(walk->subnet, walk->route->node, walk->dlid);
	if (out == in_port)
		return SUBNET_ROUTE_TURNS_BACK;
	if (out == 0 || out > at->port_count)
		return SUBNET_ROUTE_NO_ROUTE;
	return walk_cross(walk, in_port, out);
}

/* How the route ends at a CA's port. */
static enum subnet_route_end walk_end(const struct walk *walk, uint32_t port)
{
	const struct subnet_node *at = &walk->subnet->nodes[walk->route->node];

	if (!port_has_lid(&at->ports[port], walk->dlid))
		return SUBNET_ROUTE_OTHER_LID;
	return pkey_table_matches(at->ports[port].pkeys, node_pkey_count(at), walk->pkey)
		? SUBNET_ROUTE_ARRIVES
		: SUBNET_ROUTE_PKEY_END;
}

static enum subnet_route_end walk_all(struct walk *walk, uint32_t port)
{
	const struct subnet_node *nodes = walk->subnet->nodes;
	struct subnet_route *route = walk->route;
	enum subnet_route_end end;

	if (nodes[route->node].ports[port].info.port_state != IB_PORT_ACTIVE)
		return SUBNET_ROUTE_PORT_DOWN;
	if (port_has_lid(&nodes[route->node].ports[port], walk->dlid))
		return walk_end(walk, port);
	end = walk_cross(walk, 0, port);
	while (end == SUBNET_ROUTE_ARRIVES && node_is_switch(&nodes[route->node]))
		end = walk_switch(walk);
	return end == SUBNET_ROUTE_ARRIVES ? walk_end(walk, route->port) : end;
}

bool subnet_route_find(const struct subnet *subnet, uint32_t node, uint32_t port, uint16_t dlid,
	uint8_t sl, uint16_t pkey, struct subnet_route *ret_route)
{
	struct walk walk = {
		.subnet = subnet, .dlid = dlid, .pkey = pkey, .sl = sl, .route = ret_route};

	assert(node < subnet->node_count && !node_is_switch(&subnet->nodes[node]));
	assert(port && port <= subnet->nodes[node].port_count && sl < SL_COUNT);
	*ret_route = (struct subnet_route){.node = node,
		.port = port,
		.frame_bytes_max = SUBNET_FRAME_BYTES_MAX,
		.lifetime_ns = UINT64_MAX};
	ret_route->end = walk_all(&walk, port);
	return ret_route->end == SUBNET_ROUTE_ARRIVES;
}

void subnet_route_count(struct subnet *subnet, const struct subnet_route *route, uint64_t packets,
	uint64_t words, uint64_t discards, uint64_t wait_ticks)
{
	for (uint32_t i = 0; i < route->hop_count; i++) {
		const struct subnet_hop *hop = &route->hops[i];
		struct node_port *at = &subnet->nodes[hop->node].ports[hop->port];
		/* Stop at a cable that has been moved, so that it leads to another node. */
		const uint32_t peer_node =
			i + 1 < route->hop_count ? route->hops[i + 1].node : route->node;

		if (at->peer_node != peer_node)
			return;
		link_count(
			at, &subnet->nodes[peer_node].ports[at->peer_port], packets, words, false);
		if (i + 1 < route->hop_count)
			continue;
		at->counters.port_xmit_discards += discards;
		at->counters.port_xmit_wait += wait_ticks;
	}
}

/* The port at the other end of a port's cable; NULL: there is none. */
static struct node_port *port_before(const struct subnet *subnet, uint32_t node, uint32_t port)
{
	const struct node_port *at = &subnet->nodes[node].ports[port];

	return at->peer_node == TOPOLOGY_NO_NODE
		? NULL
		: &subnet->nodes[at->peer_node].ports[at->peer_port];
}

void subnet_port_behind(
	struct subnet *subnet, uint32_t node, uint32_t port, uint64_t discards, uint64_t wait_ticks)
{
	struct node_port *before = port_before(subnet, node, port);

	if (!before)
		return;
	before->counters.port_xmit_discards += discards;
	before->counters.port_xmit_wait += wait_ticks;
}

uint64_t subnet_port_lifetime_ns(const struct subnet *subnet, uint32_t node, uint32_t port)
{
	const struct node_port *before = port_before(subnet, node, port);

	return before ? hoq_life_ns(&before->info) : 0;
}

bool subnet_vl_find(const struct subnet *subnet, uint32_t node, uint32_t in_port, uint32_t out_port,
	uint8_t sl, uint8_t *ret_vl)
{
	return port_vl_find(&subnet->nodes[node].ports[out_port], in_port, sl, ret_vl);
}
