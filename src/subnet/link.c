/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "base/arith.h"
#include "subnet/subnet_internal.h"
#include "wire/infiniband/pkey.h"

enum {
	MTU_HEADERS_BYTES = 124, /* the most from LRH to ICRC besides the payload (IBTA 7.7.8) */
	MILLION = 1000000,
};

/* --- width and speed --- */

/* A number of lanes as PortInfo encodes it. */
static uint8_t width_code(uint8_t lanes)
{
	return lanes == 1 ? 1 : lanes == 4 ? 2 : lanes == 8 ? 4 : lanes == 12 ? 8 : 16;
}

/* The widest of some widths, each a bit as in PortInfo. */
static uint8_t width_widest(uint8_t widths)
{
	static const uint8_t order[] = {8, 4, 2, 16, 1}; /* 12x, 8x, 4x, 2x, 1x */

	for (size_t i = 0; i < ARRAY_COUNT(order); i++)
		if (widths & order[i])
			return order[i];
	return 1;
}

/* The widths that a port with a cable of `lanes` lanes supports, a bit for each. */
static uint8_t width_codes(uint8_t lanes)
{
	static const uint8_t all[] = {1, 2, 4, 8, 12};
	uint8_t codes = 0;

	/* 2X came with HDR, so only a port whose cable has two lanes supports it. */
	for (size_t i = 0; i < ARRAY_COUNT(all); i++)
		if (all[i] <= lanes && (all[i] != 2 || lanes == 2))
			codes |= width_code(all[i]);
	return codes;
}

static uint8_t speed_codes(enum topology_speed speed)
{
	return speed == TOPOLOGY_SDR ? 1 : speed == TOPOLOGY_DDR ? 3 : 7;
}

static uint8_t speed_ext_codes(enum topology_speed speed)
{
	return speed < TOPOLOGY_FDR ? 0 : (uint8_t)((2u << (speed - TOPOLOGY_FDR)) - 1);
}

static uint8_t highest_bit(uint8_t bits)
{
	return bits ? (uint8_t)(1u << (31 - __builtin_clz(bits))) : 0;
}

/* Let the port support the widths and speeds up to those of its cable. */
void link_support_rate(struct node_port *port)
{
	struct ib_port_info *info = &port->info;

	info->link_width_supported = info->link_width_enabled = width_codes(port->cable_width);
	info->link_speed_supported = info->link_speed_enabled = speed_codes(port->cable_speed);
	info->link_speed_ext_supported = speed_ext_codes(port->cable_speed);
	info->link_speed_ext_enabled = info->link_speed_ext_supported;
}

static void rate_negotiate(struct ib_port_info *a, struct ib_port_info *b)
{
	a->link_width_active = b->link_width_active =
		width_widest(a->link_width_enabled & b->link_width_enabled);
	a->link_speed_active = b->link_speed_active =
		highest_bit(a->link_speed_enabled & b->link_speed_enabled);
	a->link_speed_ext_active = b->link_speed_ext_active =
		highest_bit(a->link_speed_ext_enabled & b->link_speed_ext_enabled & 0xf);
}

/* --- states --- */

void subnet_event_send(struct subnet *subnet, uint32_t node, uint32_t port, enum subnet_event event)
{
	if (subnet->user.event && !node_is_switch(&subnet->nodes[node]))
		subnet->user.event(subnet->user.context, node, port, event);
}

void port_set_state(struct subnet *subnet, uint32_t node, uint32_t port, enum ib_port_state state)
{
	struct subnet_node *at = &subnet->nodes[node];
	struct ib_port_info *info = &at->ports[port].info;
	const uint8_t before = info->port_state;

	if (before == state)
		return;
	info->port_state = (uint8_t)state;
	subnet->route_changes++;
	if (state == IB_PORT_ACTIVE)
		subnet_event_send(subnet, node, port, SUBNET_PORT_ACTIVE);
	else if (before == IB_PORT_ACTIVE)
		subnet_event_send(subnet, node, port, SUBNET_PORT_ERROR);
	if (state == IB_PORT_DOWN || before == IB_PORT_DOWN) {
		if (node_is_switch(at)) {
			at->switch_info.port_state_change = 1;
			trap_link_state(subnet, node);
		}
		subnet->calls->notice_change(subnet);
	}
}

static struct node_port *peer_of(const struct subnet *subnet, const struct node_port *port)
{
	return &subnet->nodes[port->peer_node].ports[port->peer_port];
}

bool link_is_possible(const struct subnet *subnet, uint32_t node, uint32_t port)
{
	const struct node_port *at = &subnet->nodes[node].ports[port];

	return at->peer_node != TOPOLOGY_NO_NODE && !at->is_cut &&
		at->info.port_physical_state != IB_PHYSICAL_DISABLED &&
		peer_of(subnet, at)->info.port_physical_state != IB_PHYSICAL_DISABLED;
}

static void end_up(struct subnet *subnet, uint32_t node, uint32_t port)
{
	subnet->nodes[node].ports[port].info.port_physical_state = IB_PHYSICAL_LINK_UP;
	port_set_state(subnet, node, port, IB_PORT_INIT);
}

static void end_down(struct subnet *subnet, uint32_t node, uint32_t port)
{
	struct node_port *at = &subnet->nodes[node].ports[port];

	if (at->info.port_physical_state == IB_PHYSICAL_LINK_UP) {
		at->info.port_physical_state = IB_PHYSICAL_POLLING;
		at->counters.link_downed++;
	}
	port_set_state(subnet, node, port, IB_PORT_DOWN);
}

void link_train(struct subnet *subnet, uint32_t node, uint32_t port)
{
	struct node_port *at = &subnet->nodes[node].ports[port];

	if (!link_is_possible(subnet, node, port) || at->info.port_state != IB_PORT_DOWN)
		return;
	rate_negotiate(&at->info, &peer_of(subnet, at)->info);
	end_up(subnet, node, port);
	end_up(subnet, at->peer_node, at->peer_port);
}

void link_drop(struct subnet *subnet, uint32_t node, uint32_t port)
{
	const struct node_port *at = &subnet->nodes[node].ports[port];

	end_down(subnet, node, port);
	if (at->peer_node != TOPOLOGY_NO_NODE)
		end_down(subnet, at->peer_node, at->peer_port);
}

/* --- cables --- */

/* Find a port; NULL if it does not exist. */
static struct node_port *port_at(struct subnet *subnet, uint32_t node, uint32_t port)
{
	return node < subnet->node_count && port && port <= subnet->nodes[node].port_count
		? &subnet->nodes[node].ports[port]
		: NULL;
}

static struct node_port *cable_at(struct subnet *subnet, uint32_t node, uint32_t port)
{
	struct node_port *at = port_at(subnet, node, port);

	return at && at->peer_node != TOPOLOGY_NO_NODE ? at : NULL;
}

int subnet_cable_cut(struct subnet *subnet, uint32_t node, uint32_t port, uint64_t now_ns)
{
	struct node_port *at = cable_at(subnet, node, port);

	if (!at)
		return -ENOENT;
	subnet->now_ns = now_ns;
	if (at->is_cut)
		return 0;
	at->is_cut = peer_of(subnet, at)->is_cut = true;
	link_drop(subnet, node, port);
	return 0;
}

int subnet_cable_join(struct subnet *subnet, uint32_t node, uint32_t port, uint64_t now_ns)
{
	struct node_port *at = cable_at(subnet, node, port);

	if (!at)
		return -ENOENT;
	subnet->now_ns = now_ns;
	at->is_cut = peer_of(subnet, at)->is_cut = false;
	link_train(subnet, node, port);
	return 0;
}

/* Cut, or join, each cable of a node. */
static int each_cable(struct subnet *subnet, uint32_t node, uint64_t now_ns,
	int (*change)(struct subnet *, uint32_t, uint32_t, uint64_t))
{
	if (node >= subnet->node_count)
		return -ENOENT;
	for (uint32_t port = 1; port <= subnet->nodes[node].port_count; port++)
		change(subnet, node, port, now_ns);
	return 0;
}

int subnet_node_cut(struct subnet *subnet, uint32_t node, uint64_t now_ns)
{
	return each_cable(subnet, node, now_ns, subnet_cable_cut);
}

int subnet_node_join(struct subnet *subnet, uint32_t node, uint64_t now_ns)
{
	return each_cable(subnet, node, now_ns, subnet_cable_join);
}

static bool is_connected(const struct node_port *port)
{
	return port->peer_node != TOPOLOGY_NO_NODE && !port->is_cut;
}

/* Remove a cut cable from the ports at both of its ends. */
static void cable_remove(struct subnet *subnet, struct node_port *port)
{
	if (port->peer_node == TOPOLOGY_NO_NODE)
		return;
	peer_of(subnet, port)->peer_node = TOPOLOGY_NO_NODE;
	peer_of(subnet, port)->is_cut = false;
	port->peer_node = TOPOLOGY_NO_NODE;
	port->is_cut = false;
}

int subnet_cable_move(struct subnet *subnet, uint32_t node, uint32_t port, uint32_t peer_node,
	uint32_t peer_port, uint64_t now_ns)
{
	struct node_port *at = port_at(subnet, node, port);
	struct node_port *peer = port_at(subnet, peer_node, peer_port);

	if (!at || !peer || at == peer)
		return -ENOENT;
	if (is_connected(at) || is_connected(peer))
		return -EBUSY;
	subnet->now_ns = now_ns;
	cable_remove(subnet, at);
	cable_remove(subnet, peer);
	at->peer_node = peer_node;
	at->peer_port = (uint8_t)peer_port;
	peer->peer_node = node;
	peer->peer_port = (uint8_t)port;
	link_train(subnet, node, port);
	return 0;
}

int subnet_port_error_rate(struct subnet *subnet, uint32_t node, uint32_t port,
	uint32_t per_million, uint16_t attribute_id)
{
	struct node_port *at = port_at(subnet, node, port);

	if (!at)
		return -ENOENT;
	at->error_per_million = min_u32(per_million, MILLION);
	at->error_attribute = attribute_id;
	subnet->route_changes++;
	return 0;
}

/* --- keys --- */

uint32_t node_pkey_count(const struct subnet_node *node)
{
	return node_is_switch(node) ? SWITCH_PKEYS : CA_PKEYS;
}

bool port_pkey_is_refused(const struct node_port *port, bool is_enforced, uint16_t pkey)
{
	return is_enforced && !pkey_table_matches(port->pkeys, SWITCH_PKEYS, pkey);
}

void port_count_violation(uint16_t *counter)
{
	if (*counter < UINT16_MAX)
		(*counter)++;
}

/* --- frames --- */

static uint32_t random_below(struct subnet *subnet, uint32_t limit)
{
	subnet->random += 0x9e3779b97f4a7c15u;
	return (uint32_t)(mix_u64(subnet->random) % limit);
}

static bool frame_is_spoilt(struct subnet *subnet, const struct node_port *at, const uint8_t *smp)
{
	if (!at->error_per_million || random_below(subnet, MILLION) >= at->error_per_million)
		return false;
	return !at->error_attribute || (smp && get_be16(smp + 16) == at->error_attribute);
}

uint32_t port_frame_bytes_max(const struct node_port *port)
{
	return (128u << port->info.neighbor_mtu) + MTU_HEADERS_BYTES;
}

/* May the port send the frame? Counts it if not. */
static bool frame_may_leave(struct node_port *at, uint32_t count, bool is_smp)
{
	if (is_smp ? at->info.port_state >= IB_PORT_INIT
		   : at->info.port_state == IB_PORT_ACTIVE && count <= port_frame_bytes_max(at))
		return true;
	if (is_smp)
		at->counters.vl15_dropped++;
	else
		at->counters.port_xmit_discards++;
	return false;
}

static void count_sent(
	struct subnet_counters *counters, uint64_t packets, uint64_t words, bool is_multicast)
{
	counters->port_xmit_packets += packets;
	counters->port_xmit_data += words;
	if (is_multicast)
		counters->multicast_xmit_packets += packets;
	else
		counters->unicast_xmit_packets += packets;
}

static void count_received(
	struct subnet_counters *counters, uint64_t packets, uint64_t words, bool is_multicast)
{
	counters->port_rcv_packets += packets;
	counters->port_rcv_data += words;
	if (is_multicast)
		counters->multicast_rcv_packets += packets;
	else
		counters->unicast_rcv_packets += packets;
}

void link_count(struct node_port *at, struct node_port *peer, uint64_t packets, uint64_t words,
	bool is_multicast)
{
	count_sent(&at->counters, packets, words, is_multicast);
	count_received(&peer->counters, packets, words, is_multicast);
}

bool link_pass(struct subnet *subnet, uint32_t node, uint32_t port, const uint8_t *bytes,
	uint32_t count, const uint8_t *smp)
{
	const bool is_multicast = lid_is_multicast(get_be16(bytes + 2));
	struct node_port *at = &subnet->nodes[node].ports[port];
	struct node_port *peer;

	if (!frame_may_leave(at, count, smp))
		return false;
	count_sent(&at->counters, 1, count / 4, is_multicast);
	if (subnet->user.trace)
		subnet->user.trace(subnet->user.context, node, port, bytes, count);
	peer = peer_of(subnet, at);
	if (frame_is_spoilt(subnet, peer, smp)) {
		peer->counters.symbol_error++;
		peer->counters.port_rcv_errors++;
		return false;
	}
	if (!smp && peer->info.port_state < IB_PORT_ARMED) {
		peer->counters.port_rcv_errors++;
		return false;
	}
	count_received(&peer->counters, 1, count / 4, is_multicast);
	/* IBTA 7.2.7: the first data packet shows an armed port that the sender is active. */
	if (!smp && peer->info.port_state == IB_PORT_ARMED)
		port_set_state(subnet, at->peer_node, at->peer_port, IB_PORT_ACTIVE);
	return true;
}
