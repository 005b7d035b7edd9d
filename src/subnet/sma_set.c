/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "subnet/subnet_internal.h"

enum {
	WIDTH_ALL_SUPPORTED = 255,
	SPEED_ALL_SUPPORTED = 15,
	SPEED_EXT_ALL_SUPPORTED = 31,
	SPEED_EXT_NONE = 30,
	VL_CAP_MAX = 5,
	MTU_MAX = 5,
	VL_ARBITRATION_ENTRIES = 32,
};

/* --- where an attribute is --- */

uint8_t *sma_sl_to_vl(struct subnet_node *node, uint32_t in_port, uint32_t modifier)
{
	const uint32_t output = modifier & 0xff, input = modifier >> 8 & 0xff;

	if (!node_is_switch(node))
		return node->ports[in_port].sl_to_vl;
	return output <= node->port_count && input <= node->port_count
		? node->ports[output].sl_to_vl + input * SL_COUNT
		: NULL;
}

uint8_t *sma_vl_arbitration(struct subnet_node *node, uint32_t in_port, uint32_t modifier)
{
	const uint32_t block = modifier >> 16;
	struct node_port *port =
		sma_port(node, in_port, node_is_switch(node) ? modifier & 0xffff : 0);

	return port && block >= 1 && block <= VL_ARBITRATION_BLOCKS
		? port->vl_arbitration[block - 1]
		: NULL;
}

bool sma_multicast_block(struct sma_multicast_block *ret_at, uint32_t modifier)
{
	const uint32_t block = modifier & 0x1ff, position = modifier >> 28;

	if (block >= MULTICAST_FDB_CAP / SMA_MLIDS_OF_BLOCK)
		return false;
	*ret_at = (struct sma_multicast_block){
		.first = block * SMA_MLIDS_OF_BLOCK,
		.word = position / 4,
		.shift = position % 4 * 16,
	};
	return true;
}

/* --- PortInfo --- */

static bool width_is_valid(const struct ib_port_info *set, const struct ib_port_info *now)
{
	return set->link_width_enabled == 0 || set->link_width_enabled == WIDTH_ALL_SUPPORTED ||
		!(set->link_width_enabled & ~now->link_width_supported);
}

static bool speed_is_valid(const struct ib_port_info *set, const struct ib_port_info *now)
{
	return (set->link_speed_enabled == SPEED_ALL_SUPPORTED ||
		       !(set->link_speed_enabled & ~now->link_speed_supported)) &&
		(set->link_speed_ext_enabled == SPEED_EXT_ALL_SUPPORTED ||
			set->link_speed_ext_enabled == SPEED_EXT_NONE ||
			!(set->link_speed_ext_enabled & ~now->link_speed_ext_supported));
}

/* May a manager change the port state `now` to `set` (IBTA 14.2.5.6)? */
static bool state_is_valid(uint8_t set, uint8_t now)
{
	switch (set) {
	case IB_PORT_NO_CHANGE:
	case IB_PORT_DOWN:
		return true;
	case IB_PORT_ARMED:
		return now == IB_PORT_INIT || now == IB_PORT_ARMED;
	case IB_PORT_ACTIVE:
		return now == IB_PORT_ARMED || now == IB_PORT_ACTIVE;
	default:
		return false;
	}
}

static bool port_info_is_valid(
	const struct ib_port_info *set, const struct ib_port_info *now, bool is_end_port)
{
	if (is_end_port && (set->lid > LID_UNICAST_MAX || set->sm_lid > LID_UNICAST_MAX))
		return false;
	return width_is_valid(set, now) && speed_is_valid(set, now) &&
		state_is_valid(set->port_state, now->port_state) &&
		set->port_physical_state <= IB_PHYSICAL_DISABLED &&
		set->link_down_default_state <= IB_PHYSICAL_POLLING &&
		set->neighbor_mtu <= now->mtu_cap && set->operational_vls <= now->vl_cap;
}

void port_set_lids(
	struct subnet *subnet, uint32_t node, uint32_t port, const struct ib_port_info *set)
{
	struct ib_port_info *now = &subnet->nodes[node].ports[port].info;
	const bool is_other_lid = now->lid != set->lid || now->lmc != set->lmc;
	const bool is_other_sm = now->sm_lid != set->sm_lid || now->sm_sl != set->sm_sl;
	const bool is_other_prefix = now->gid_prefix != set->gid_prefix;

	now->lid = set->lid;
	now->lmc = set->lmc;
	now->sm_lid = set->sm_lid;
	now->sm_sl = set->sm_sl;
	now->gid_prefix = set->gid_prefix;
	if (is_other_prefix)
		subnet_event_send(subnet, node, port, SUBNET_GID_CHANGE);
	if (is_other_lid)
		subnet_event_send(subnet, node, port, SUBNET_LID_CHANGE);
	if (is_other_sm)
		subnet_event_send(subnet, node, port, SUBNET_SM_CHANGE);
}

/* Set the components of PortInfo that only an end port has. */
static void end_port_set(
	struct subnet *subnet, uint32_t node, uint32_t port, const struct ib_port_info *set)
{
	struct ib_port_info *now = &subnet->nodes[node].ports[port].info;

	now->m_key = set->m_key;
	now->m_key_lease_period = set->m_key_lease_period;
	now->m_key_protect = set->m_key_protect;
	now->m_key_violations = set->m_key_violations;
	now->p_key_violations = set->p_key_violations;
	now->q_key_violations = set->q_key_violations;
	now->init_type_reply = set->init_type_reply;
	now->subnet_timeout = set->subnet_timeout;
	now->multicast_pkey_suppression = set->multicast_pkey_suppression;
	port_set_lids(subnet, node, port, set);
}

static void link_set(struct ib_port_info *now, const struct ib_port_info *set)
{
	if (set->link_width_enabled)
		now->link_width_enabled = set->link_width_enabled & now->link_width_supported;
	if (set->link_speed_enabled)
		now->link_speed_enabled = set->link_speed_enabled & now->link_speed_supported;
	if (set->link_speed_ext_enabled == SPEED_EXT_NONE)
		now->link_speed_ext_enabled = 0;
	else if (set->link_speed_ext_enabled)
		now->link_speed_ext_enabled =
			set->link_speed_ext_enabled & now->link_speed_ext_supported;
	if (set->link_down_default_state)
		now->link_down_default_state = set->link_down_default_state;
	if (set->neighbor_mtu)
		now->neighbor_mtu = set->neighbor_mtu;
	if (set->operational_vls)
		now->operational_vls = set->operational_vls;
	now->vl_high_limit = set->vl_high_limit;
	now->vl_stall_count = set->vl_stall_count;
	now->hoq_life = set->hoq_life;
	now->local_phy_errors = set->local_phy_errors;
	now->overrun_errors = set->overrun_errors;
}

/* Set the enforcement of partitions, which only a switch's external ports have. */
static void enforcement_set(struct ib_port_info *now, const struct ib_port_info *set)
{
	now->partition_enforcement_in = set->partition_enforcement_in;
	now->partition_enforcement_out = set->partition_enforcement_out;
}

static void state_set(
	struct subnet *subnet, uint32_t node, uint32_t port, const struct ib_port_info *set)
{
	struct ib_port_info *now = &subnet->nodes[node].ports[port].info;

	if (set->port_physical_state == IB_PHYSICAL_DISABLED) {
		link_drop(subnet, node, port);
		now->port_physical_state = IB_PHYSICAL_DISABLED;
	} else if (set->port_state == IB_PORT_DOWN ||
		set->port_physical_state != IB_PHYSICAL_NO_CHANGE) {
		link_drop(subnet, node, port);
		now->port_physical_state = IB_PHYSICAL_POLLING;
		link_train(subnet, node, port);
	} else if (set->port_state != IB_PORT_NO_CHANGE) {
		port_set_state(subnet, node, port, (enum ib_port_state)set->port_state);
	}
}

static uint16_t set_port_info(struct subnet *subnet, uint32_t node, uint32_t in_port,
	uint32_t number, const uint8_t *data)
{
	struct subnet_node *at = &subnet->nodes[node];
	struct node_port *port = sma_port(at, in_port, number);
	struct ib_port_info set;
	uint32_t own;
	bool is_end_port;

	if (!port)
		return MAD_STATUS_INVALID_VALUE;
	own = (uint32_t)(port - at->ports);
	is_end_port = !node_is_switch(at) || own == 0;
	ib_port_info_decode(&set, data);
	if (!port_info_is_valid(&set, &port->info, is_end_port))
		return MAD_STATUS_INVALID_VALUE;
	if (is_end_port)
		end_port_set(subnet, node, own, &set);
	else
		enforcement_set(&port->info, &set);
	/* A switch's port 0 has no link. */
	if (own) {
		link_set(&port->info, &set);
		state_set(subnet, node, own, &set);
	}
	if (is_end_port && set.client_reregister)
		subnet_event_send(subnet, node, own, SUBNET_CLIENT_REREGISTER);
	return MAD_STATUS_OK;
}

/* --- other attributes --- */

static uint16_t set_switch_info(struct subnet_node *node, const uint8_t *data)
{
	struct ib_switch_info *now = &node->switch_info, set;

	if (!node_is_switch(node))
		return MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE;
	ib_switch_info_decode(&set, data);
	if (set.linear_fdb_top >= LINEAR_FDB_CAP)
		return MAD_STATUS_INVALID_VALUE;
	now->linear_fdb_top = set.linear_fdb_top;
	now->default_port = set.default_port;
	now->default_multicast_primary_port = set.default_multicast_primary_port;
	now->default_multicast_other_port = set.default_multicast_other_port;
	now->life_time = set.life_time;
	now->multicast_fdb_top = set.multicast_fdb_top;
	/* Writing a one clears the bit (IBTA 14.2.5.4). */
	if (set.port_state_change)
		now->port_state_change = 0;
	return MAD_STATUS_OK;
}

static uint16_t set_guid_info(
	struct subnet *subnet, uint32_t node, uint32_t in_port, uint32_t block, const uint8_t *data)
{
	struct subnet_node *at = &subnet->nodes[node];
	struct node_port *port = node_end_port(at, in_port);

	if (block >= SUBNET_GUIDS_MAX / GUIDS_OF_BLOCK)
		return MAD_STATUS_INVALID_VALUE;
	/* The first GUID is the port's own; a manager cannot change it. */
	for (uint32_t i = block == 0; i < GUIDS_OF_BLOCK; i++)
		port->guids[block * GUIDS_OF_BLOCK + i] = get_be64(data + i * 8);
	subnet_event_send(subnet, node, in_port, SUBNET_GID_CHANGE);
	return MAD_STATUS_OK;
}

static uint16_t set_pkey_table(struct subnet *subnet, uint32_t node, uint32_t in_port,
	uint32_t modifier, const uint8_t *data)
{
	struct subnet_node *at = &subnet->nodes[node];
	struct node_port *port = sma_port(at, in_port, modifier >> 16);
	const uint32_t block = modifier & 0xffff;
	bool is_changed = false;

	if (!port || block >= node_pkey_count(at) / PKEYS_OF_BLOCK)
		return MAD_STATUS_INVALID_VALUE;
	for (uint32_t i = 0; i < PKEYS_OF_BLOCK; i++) {
		uint16_t *pkey = &port->pkeys[block * PKEYS_OF_BLOCK + i];

		is_changed |= *pkey != get_be16(data + i * 2);
		*pkey = get_be16(data + i * 2);
	}
	if (is_changed)
		subnet_event_send(subnet, node, (uint32_t)(port - at->ports), SUBNET_PKEY_CHANGE);
	return MAD_STATUS_OK;
}

static uint16_t set_sl_to_vl(
	struct subnet_node *node, uint32_t in_port, uint32_t modifier, const uint8_t *data)
{
	uint8_t *row = sma_sl_to_vl(node, in_port, modifier);

	if (!row)
		return MAD_STATUS_INVALID_VALUE;
	for (uint32_t i = 0; i < SL_COUNT; i++)
		row[i] = i % 2 ? data[i / 2] & 0xf : data[i / 2] >> 4;
	return MAD_STATUS_OK;
}

static uint16_t set_vl_arbitration(
	struct subnet_node *node, uint32_t in_port, uint32_t modifier, const uint8_t *data)
{
	uint8_t *block = sma_vl_arbitration(node, in_port, modifier);

	if (!block)
		return MAD_STATUS_INVALID_VALUE;
	for (uint32_t i = 0; i < VL_ARBITRATION_ENTRIES; i++) {
		block[i * 2] = data[i * 2] & 0xf;
		block[i * 2 + 1] = data[i * 2 + 1];
	}
	return MAD_STATUS_OK;
}

static uint16_t set_linear(struct subnet_node *node, uint32_t block, const uint8_t *data)
{
	if (!node_is_switch(node))
		return MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE;
	if (block >= LINEAR_FDB_CAP / LIDS_OF_BLOCK)
		return MAD_STATUS_INVALID_VALUE;
	memcpy(node->linear + block * LIDS_OF_BLOCK, data, LIDS_OF_BLOCK);
	return MAD_STATUS_OK;
}

static uint16_t set_multicast(struct subnet_node *node, uint32_t modifier, const uint8_t *data)
{
	struct sma_multicast_block at;

	if (!node_is_switch(node))
		return MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE;
	if (!sma_multicast_block(&at, modifier))
		return MAD_STATUS_INVALID_VALUE;
	for (uint32_t i = 0; i < SMA_MLIDS_OF_BLOCK; i++) {
		uint64_t *mask = &node->multicast[at.first + i].ports[at.word];

		*mask &= ~(0xffffull << at.shift);
		*mask |= (uint64_t)get_be16(data + i * 2) << at.shift;
	}
	return MAD_STATUS_OK;
}

uint16_t sma_set(struct subnet *subnet, uint32_t node, uint32_t in_port,
	const struct mad_header *header, const uint8_t *data)
{
	struct subnet_node *at = &subnet->nodes[node];
	const uint32_t modifier = header->attribute_modifier;

	switch (header->attribute_id) {
	case SM_ATTRIBUTE_SWITCH_INFO:
		return set_switch_info(at, data);
	case SM_ATTRIBUTE_GUID_INFO:
		return set_guid_info(subnet, node, in_port, modifier, data);
	case SM_ATTRIBUTE_PORT_INFO:
		return set_port_info(subnet, node, in_port, modifier & PORT_NUMBER_MASK, data);
	case SM_ATTRIBUTE_PKEY_TABLE:
		return set_pkey_table(subnet, node, in_port, modifier, data);
	case SM_ATTRIBUTE_SL_TO_VL:
		return set_sl_to_vl(at, in_port, modifier, data);
	case SM_ATTRIBUTE_VL_ARBITRATION:
		return set_vl_arbitration(at, in_port, modifier, data);
	case SM_ATTRIBUTE_LINEAR_FORWARDING:
		return set_linear(at, modifier, data);
	case SM_ATTRIBUTE_MULTICAST_FORWARDING:
		return set_multicast(at, modifier, data);
	default:
		return MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE;
	}
}
