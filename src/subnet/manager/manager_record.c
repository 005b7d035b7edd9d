/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/arith.h"
#include "subnet/manager/manager_internal.h"

enum {
	RESP_TIME = 16,
	CAPABILITY_MASK_MATCH = 1 << 13, /* in ClassPortInfo: MODIFIER_MASK_MATCH is supported */
	NODE_INFO_OFFSET = 4, /* in a NodeRecord */
	NODE_DESCRIPTION_OFFSET = 44,
};

/* In the modifier of a query: a port fits if it has all bits of the query's CapabilityMask. */
#define MODIFIER_MASK_MATCH 0x80000000u
/* The bit of the CapabilityMask in the component mask of a PortInfoRecord (IBTA 15.2.5.3). */
#define COMPONENT_CAPABILITY_MASK (1u << 7)

/* Adds the records of one end port, `at`, which has the LID. */
typedef void add_records(struct subnet *subnet, const struct manager_query *query, uint16_t lid,
	const struct manager_lid *at, struct manager_records *records);

/* Read an attribute by a Get to the node's SMA. */
static bool attribute_read(struct subnet *subnet, uint32_t node, uint32_t port, uint16_t attribute,
	uint32_t modifier, uint8_t data[SMP_DATA_BYTES])
{
	const struct mad_header header = {
		.base_version = MAD_BASE_VERSION,
		.management_class = MAD_CLASS_SUBN_LID_ROUTED,
		.class_version = 1,
		.method = MAD_METHOD_GET,
		.attribute_id = attribute,
		.attribute_modifier = modifier,
	};
	const struct node_port *end = node_end_port(&subnet->nodes[node], port);
	uint8_t mad[MAD_BYTES] = {0};

	mad_header_encode(&header, mad);
	put_be64(mad + SMP_M_KEY, end->info.m_key);
	if (!sma_answer(subnet, node, port, 0, mad))
		return false;
	memcpy(data, mad + SMP_DATA, SMP_DATA_BYTES);
	return true;
}

/* Add a record, if the query asks for it. */
#define RECORD_ADD(name, record, query, records)                                       \
	do {                                                                           \
		struct sa_##name asked_;                                               \
		uint8_t *to_;                                                          \
                                                                                       \
		sa_##name##_decode(&asked_, (query)->record);                          \
		if (!sa_##name##_matches(&(record), &asked_, (query)->component_mask)) \
			break;                                                         \
		to_ = manager_records_add(records);                                    \
		if (to_)                                                               \
			sa_##name##_encode(&(record), to_);                            \
	} while (0)

/* The last port with the LID of `at`: all ports of a switch have the switch's LID. */
static uint32_t last_port(const struct subnet *subnet, const struct manager_lid *at)
{
	return at->port ? at->port : subnet->nodes[at->node - 1].port_count;
}

static void node_add(struct subnet *subnet, const struct manager_query *query, uint16_t lid,
	const struct manager_lid *at, struct manager_records *records)
{
	uint8_t bytes[SA_NODE_BYTES] = {0}, data[SMP_DATA_BYTES];
	struct sa_node record;

	if (!attribute_read(subnet, at->node - 1, at->port, SM_ATTRIBUTE_NODE_INFO, 0, data))
		return;
	put_be16(bytes, lid);
	memcpy(bytes + NODE_INFO_OFFSET, data, IB_NODE_INFO_BYTES);
	memcpy(bytes + NODE_DESCRIPTION_OFFSET, subnet->nodes[at->node - 1].description,
		SMP_DATA_BYTES);
	sa_node_decode(&record, bytes);
	RECORD_ADD(node, record, query, records);
}

/* Does the port fit the CapabilityMask of the query? */
static bool capabilities_match(
	const struct manager_query *query, const uint8_t *asked_bytes, const uint8_t *bytes)
{
	struct ib_port_info asked, info;

	if (!(query->component_mask & COMPONENT_CAPABILITY_MASK))
		return true;
	ib_port_info_decode(&asked, asked_bytes);
	ib_port_info_decode(&info, bytes);
	if (query->modifier & MODIFIER_MASK_MATCH)
		return !(asked.capability_mask & ~info.capability_mask);
	return asked.capability_mask == info.capability_mask;
}

static void port_info_add(struct subnet *subnet, const struct manager_query *query, uint16_t lid,
	const struct manager_lid *at, uint32_t port, struct manager_records *records)
{
	struct sa_port_info asked, record = {.lid = lid, .port = (uint8_t)port};
	uint8_t *to;

	sa_port_info_decode(&asked, query->record);
	if (!sa_port_info_matches(&record, &asked, query->component_mask) ||
		!attribute_read(
			subnet, at->node - 1, at->port, SM_ATTRIBUTE_PORT_INFO, port, record.info))
		return;
	if (!capabilities_match(query, asked.info, record.info))
		return;
	/* The M_Key is the manager's secret (IBTA 15.2.5.3). */
	memset(record.info, 0, 8);
	to = manager_records_add(records);
	if (to)
		sa_port_info_encode(&record, to);
}

static void port_infos_add(struct subnet *subnet, const struct manager_query *query, uint16_t lid,
	const struct manager_lid *at, struct manager_records *records)
{
	for (uint32_t port = at->port; port <= last_port(subnet, at); port++)
		port_info_add(subnet, query, lid, at, port, records);
}

static void switch_info_add(struct subnet *subnet, const struct manager_query *query, uint16_t lid,
	const struct manager_lid *at, struct manager_records *records)
{
	struct sa_switch_info record = {.lid = lid};

	if (at->port)
		return;
	ib_switch_info_encode(&subnet->nodes[at->node - 1].switch_info, record.info);
	RECORD_ADD(switch_info, record, query, records);
}

static void linear_add(struct subnet *subnet, const struct manager_query *query, uint16_t lid,
	const struct manager_lid *at, struct manager_records *records)
{
	const struct subnet_node *node = &subnet->nodes[at->node - 1];

	for (uint32_t block = 0;
		!at->port && block <= node->switch_info.linear_fdb_top / LIDS_OF_BLOCK; block++) {
		struct sa_linear record = {.lid = lid, .block = (uint16_t)block};

		memcpy(record.table, node->linear + block * LIDS_OF_BLOCK, LIDS_OF_BLOCK);
		RECORD_ADD(linear, record, query, records);
	}
}

static void links_add(struct subnet *subnet, const struct manager_query *query, uint16_t lid,
	const struct manager_lid *at, struct manager_records *records)
{
	for (uint32_t port = at->port ? at->port : 1; port <= last_port(subnet, at); port++) {
		const struct node_port *from = &subnet->nodes[at->node - 1].ports[port];
		struct sa_link record = {.from_lid = lid, .from_port = (uint8_t)port};

		if (from->info.port_state < IB_PORT_INIT)
			continue;
		record.to_port = from->peer_port;
		record.to_lid =
			node_end_port(&subnet->nodes[from->peer_node], from->peer_port)->info.lid;
		RECORD_ADD(link, record, query, records);
	}
}

static void guid_info_add(struct subnet *subnet, const struct manager_query *query, uint16_t lid,
	const struct manager_lid *at, struct manager_records *records)
{
	struct sa_guid_info record = {.lid = lid};

	if (attribute_read(subnet, at->node - 1, at->port, SM_ATTRIBUTE_GUID_INFO, 0, record.table))
		RECORD_ADD(guid_info, record, query, records);
}

/* Add the first P_Key block of each port, and those further blocks that have a key. */
static void pkeys_add(struct subnet *subnet, const struct manager_query *query, uint16_t lid,
	const struct manager_lid *at, struct manager_records *records)
{
	static const uint8_t empty[SMP_DATA_BYTES];
	const uint32_t blocks = node_pkey_count(&subnet->nodes[at->node - 1]) / PKEYS_OF_BLOCK;

	for (uint32_t i = 0; i < (last_port(subnet, at) - at->port + 1) * blocks; i++) {
		const uint32_t port = at->port + i / blocks, block = i % blocks;
		struct sa_pkey record = {
			.lid = lid, .block = (uint16_t)block, .port = (uint8_t)port};

		if (attribute_read(subnet, at->node - 1, at->port, SM_ATTRIBUTE_PKEY_TABLE,
			    port << 16 | block, record.table) &&
			(!block || memcmp(record.table, empty, sizeof(empty)) != 0))
			RECORD_ADD(pkey, record, query, records);
	}
}

static void sm_info_get(struct subnet *subnet, struct manager_records *records)
{
	const struct subnet_manager *manager = subnet->manager;
	const struct ib_sm_info info = {
		.guid = subnet->nodes[manager->node].guid,
		.act_count = manager->act_count,
		.state = (uint8_t)manager->state,
	};
	struct sa_sm_info record = {
		.lid = subnet->nodes[manager->node].ports[manager->port].info.lid,
	};
	uint8_t *to = manager_records_add(records);

	ib_sm_info_encode(&info, record.info);
	if (to)
		sa_sm_info_encode(&record, to);
}

static void class_port_info_get(struct manager_records *records)
{
	const struct ib_class_port_info info = {
		.base_version = MAD_BASE_VERSION,
		.class_version = SA_CLASS_VERSION,
		.capability_mask = CAPABILITY_MASK_MATCH,
		.resp_time = RESP_TIME,
	};
	uint8_t *to = manager_records_add(records);

	if (to)
		ib_class_port_info_encode(&info, to);
}

uint16_t manager_records_get(
	struct subnet *subnet, const struct manager_query *query, struct manager_records *records)
{
	static const struct {
		uint16_t attribute_id;
		add_records *add;
	} kinds[] = {
		{SA_ATTRIBUTE_NODE, node_add},
		{SA_ATTRIBUTE_PORT_INFO, port_infos_add},
		{SA_ATTRIBUTE_SWITCH_INFO, switch_info_add},
		{SA_ATTRIBUTE_LINEAR, linear_add},
		{SA_ATTRIBUTE_LINK, links_add},
		{SA_ATTRIBUTE_GUID_INFO, guid_info_add},
		{SA_ATTRIBUTE_PKEY, pkeys_add},
	};
	const struct subnet_manager *manager = subnet->manager;

	if (query->attribute_id == SA_ATTRIBUTE_CLASS_PORT_INFO) {
		class_port_info_get(records);
		return MAD_STATUS_OK;
	}
	if (query->attribute_id == SA_ATTRIBUTE_SM_INFO) {
		sm_info_get(subnet, records);
		return MAD_STATUS_OK;
	}
	for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
		if (kinds[i].attribute_id != query->attribute_id)
			continue;
		for (uint32_t lid = 1; lid <= manager->lid_last && !records->is_too_long; lid++)
			if (manager->lids[lid].node)
				kinds[i].add(
					subnet, query, (uint16_t)lid, &manager->lids[lid], records);
		return MAD_STATUS_OK;
	}
	return MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE;
}
