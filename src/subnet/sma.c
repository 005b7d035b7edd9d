/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "subnet/subnet_internal.h"

enum {
	SMP_CLASS_VERSION = 1,
	NS_PER_S = 1000000000,
};

/* --- the M_Key (IBTA 14.2.4) --- */

static void lease_advance(struct subnet *subnet, struct node_port *port)
{
	if (port->m_key_lease_end_ns > subnet->now_ns)
		return;
	port->info.m_key_protect = 0;
	port->m_key_lease_end_ns = UINT64_MAX;
}

static bool m_key_allows(const struct ib_port_info *info, uint8_t method, uint64_t m_key)
{
	if (!info->m_key || info->m_key == m_key)
		return true;
	return method == MAD_METHOD_GET && info->m_key_protect < 2;
}

static void m_key_violate(struct subnet *subnet, uint32_t node, uint32_t in_port, uint16_t slid,
	struct node_port *port, const uint8_t *mad)
{
	const uint64_t lease_ns = (uint64_t)port->info.m_key_lease_period * NS_PER_S;

	port_count_violation(&port->info.m_key_violations);
	if (lease_ns && port->m_key_lease_end_ns == UINT64_MAX)
		port->m_key_lease_end_ns = subnet->now_ns + lease_ns;
	trap_m_key(subnet, node, in_port, slid, mad);
}

/* --- Get --- */

struct node_port *sma_port(struct subnet_node *node, uint32_t in_port, uint32_t number)
{
	if (!node_is_switch(node) && number == 0)
		number = in_port;
	return number <= node->port_count ? &node->ports[number] : NULL;
}

static uint16_t get_node_info(const struct subnet_node *node, uint32_t in_port, uint8_t *data)
{
	const struct ib_node_info info = {
		.base_version = MAD_BASE_VERSION,
		.class_version = SMP_CLASS_VERSION,
		.node_type = (uint8_t)node->kind,
		.num_ports = (uint8_t)node->port_count,
		.system_guid = node->system_guid,
		.node_guid = node->guid,
		.port_guid = node_is_switch(node) ? node->guid : node->ports[in_port].guids[0],
		.partition_cap = (uint16_t)node_pkey_count(node),
		.device_id = node->device_id,
		.local_port = (uint8_t)in_port,
		.vendor_id = node->vendor_id,
	};

	ib_node_info_encode(&info, data);
	return MAD_STATUS_OK;
}

static uint16_t get_switch_info(const struct subnet_node *node, uint8_t *data)
{
	if (!node_is_switch(node))
		return MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE;
	ib_switch_info_encode(&node->switch_info, data);
	return MAD_STATUS_OK;
}

/* Show a protected M_Key only to a requester that knows it, or has just set it (IBTA 14.2.4). */
static uint16_t get_port_info(struct subnet_node *node, uint32_t in_port, uint32_t number,
	bool knows_m_key, uint8_t *data)
{
	const struct node_port *port = sma_port(node, in_port, number);
	struct ib_port_info info;

	if (!port)
		return MAD_STATUS_INVALID_VALUE;
	info = port->info;
	info.local_port = (uint8_t)in_port;
	if (info.m_key_protect && !knows_m_key)
		info.m_key = 0;
	ib_port_info_encode(&info, data);
	return MAD_STATUS_OK;
}

static uint16_t get_guid_info(
	struct subnet_node *node, uint32_t in_port, uint32_t block, uint8_t *data)
{
	const struct node_port *port = node_end_port(node, in_port);

	if (block >= SUBNET_GUIDS_MAX / GUIDS_OF_BLOCK)
		return MAD_STATUS_INVALID_VALUE;
	for (uint32_t i = 0; i < GUIDS_OF_BLOCK; i++)
		put_be64(data + i * 8, port->guids[block * GUIDS_OF_BLOCK + i]);
	return MAD_STATUS_OK;
}

static uint16_t get_pkey_table(
	struct subnet_node *node, uint32_t in_port, uint32_t modifier, uint8_t *data)
{
	const struct node_port *port = sma_port(node, in_port, modifier >> 16);
	const uint32_t block = modifier & 0xffff;

	if (!port || block >= node_pkey_count(node) / PKEYS_OF_BLOCK)
		return MAD_STATUS_INVALID_VALUE;
	for (uint32_t i = 0; i < PKEYS_OF_BLOCK; i++)
		put_be16(data + i * 2, port->pkeys[block * PKEYS_OF_BLOCK + i]);
	return MAD_STATUS_OK;
}

static uint16_t get_sl_to_vl(
	struct subnet_node *node, uint32_t in_port, uint32_t modifier, uint8_t *data)
{
	const uint8_t *row = sma_sl_to_vl(node, in_port, modifier);

	if (!row)
		return MAD_STATUS_INVALID_VALUE;
	for (uint32_t i = 0; i < SL_COUNT; i += 2)
		data[i / 2] = (uint8_t)(row[i] << 4 | row[i + 1]);
	return MAD_STATUS_OK;
}

static uint16_t get_vl_arbitration(
	struct subnet_node *node, uint32_t in_port, uint32_t modifier, uint8_t *data)
{
	const uint8_t *block = sma_vl_arbitration(node, in_port, modifier);

	if (!block)
		return MAD_STATUS_INVALID_VALUE;
	memcpy(data, block, SMP_DATA_BYTES);
	return MAD_STATUS_OK;
}

static uint16_t get_linear(const struct subnet_node *node, uint32_t block, uint8_t *data)
{
	if (!node_is_switch(node))
		return MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE;
	if (block >= LINEAR_FDB_CAP / LIDS_OF_BLOCK)
		return MAD_STATUS_INVALID_VALUE;
	memcpy(data, node->linear + block * LIDS_OF_BLOCK, LIDS_OF_BLOCK);
	return MAD_STATUS_OK;
}

static uint16_t get_multicast(const struct subnet_node *node, uint32_t modifier, uint8_t *data)
{
	struct sma_multicast_block at;

	if (!node_is_switch(node))
		return MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE;
	if (!sma_multicast_block(&at, modifier))
		return MAD_STATUS_INVALID_VALUE;
	for (uint32_t i = 0; i < SMA_MLIDS_OF_BLOCK; i++)
		put_be16(data + i * 2,
			(uint16_t)(node->multicast[at.first + i].ports[at.word] >> at.shift));
	return MAD_STATUS_OK;
}

static uint16_t attribute_get(struct subnet_node *node, uint32_t in_port,
	const struct mad_header *header, bool knows_m_key, uint8_t *data)
{
	const uint32_t modifier = header->attribute_modifier;

	memset(data, 0, SMP_DATA_BYTES);
	switch (header->attribute_id) {
	case SM_ATTRIBUTE_NODE_DESCRIPTION:
		memcpy(data, node->description, SMP_DATA_BYTES);
		return MAD_STATUS_OK;
	case SM_ATTRIBUTE_NODE_INFO:
		return get_node_info(node, in_port, data);
	case SM_ATTRIBUTE_SWITCH_INFO:
		return get_switch_info(node, data);
	case SM_ATTRIBUTE_GUID_INFO:
		return get_guid_info(node, in_port, modifier, data);
	case SM_ATTRIBUTE_PORT_INFO:
		return get_port_info(node, in_port, modifier & PORT_NUMBER_MASK, knows_m_key, data);
	case SM_ATTRIBUTE_PKEY_TABLE:
		return get_pkey_table(node, in_port, modifier, data);
	case SM_ATTRIBUTE_SL_TO_VL:
		return get_sl_to_vl(node, in_port, modifier, data);
	case SM_ATTRIBUTE_VL_ARBITRATION:
		return get_vl_arbitration(node, in_port, modifier, data);
	case SM_ATTRIBUTE_LINEAR_FORWARDING:
		return get_linear(node, modifier, data);
	case SM_ATTRIBUTE_MULTICAST_FORWARDING:
		return get_multicast(node, modifier, data);
	default:
		return MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE;
	}
}

bool sma_answer(struct subnet *subnet, uint32_t node, uint32_t in_port, uint16_t slid,
	uint8_t mad[MAD_BYTES])
{
	struct subnet_node *at = &subnet->nodes[node];
	struct node_port *port = node_end_port(at, in_port);
	const uint64_t m_key = get_be64(mad + SMP_M_KEY);
	uint16_t status = MAD_STATUS_OK;
	struct mad_header header;

	mad_header_decode(&header, mad);
	if (header.base_version != MAD_BASE_VERSION || header.class_version != SMP_CLASS_VERSION) {
		smp_turn(mad, MAD_STATUS_BAD_VERSION);
		return true;
	}
	lease_advance(subnet, port);
	if (!m_key_allows(&port->info, header.method, m_key)) {
		m_key_violate(subnet, node, in_port, slid, port, mad);
		return false;
	}
	if (port->info.m_key == m_key)
		port->m_key_lease_end_ns = UINT64_MAX;
	if (header.method == MAD_METHOD_SET)
		status = sma_set(subnet, node, in_port, &header, mad + SMP_DATA);
	if (header.method == MAD_METHOD_SET)
		subnet->route_changes++;
	if (status == MAD_STATUS_OK)
		status = attribute_get(at, in_port, &header,
			header.method == MAD_METHOD_SET || port->info.m_key == m_key,
			mad + SMP_DATA);
	smp_turn(mad, status);
	return true;
}
