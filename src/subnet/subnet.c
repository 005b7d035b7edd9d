/* SPDX-License-Identifier: BSD-2-Clause */
#include "subnet/subnet.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "subnet/subnet_internal.h"

enum {
	MTU_4096 = 5,
	SUBNET_TIMEOUT = 18, /* 4.096 us * 2^18: about a second */
	RESP_TIME = 16,
	LINK_DOWN_POLLING = 2,
	ERRORS_THRESHOLD = 8,
	HOQ_LIFE = 18, /* 4.096 us * 2^18: about a second */

	CAPABILITIES_ALL = IB_CAPABILITY_TRAP | IB_CAPABILITY_SL_MAPPING |
		IB_CAPABILITY_SYSTEM_IMAGE_GUID | IB_CAPABILITY_EXTENDED_SPEEDS |
		IB_CAPABILITY_VENDOR_CLASS | IB_CAPABILITY_MASK_NOTICE |
		IB_CAPABILITY_OTHER_CHANGES_NOTICE,
	CAPABILITIES_CA = CAPABILITIES_ALL | IB_CAPABILITY_AUTOMATIC_MIGRATION | IB_CAPABILITY_CM |
		IB_CAPABILITY_CLIENT_REREGISTRATION,
	CAPABILITIES_SWITCH = CAPABILITIES_ALL | IB_CAPABILITY_SWITCH_PKEY_TRAP,
};

#define GID_PREFIX_DEFAULT 0xfe80000000000000u
#define PKEY_DEFAULT       0xffff

/* --- making it --- */

static uint32_t capabilities_of(const struct subnet_node *node, uint32_t port)
{
	if (node_is_switch(node))
		return port == 0 ? CAPABILITIES_SWITCH : 0;
	return CAPABILITIES_CA;
}

static void port_info_init(const struct subnet_node *node, uint32_t port, struct ib_port_info *info)
{
	const bool is_end_port = !node_is_switch(node) || port == 0;

	*info = (struct ib_port_info){
		.gid_prefix = is_end_port ? GID_PREFIX_DEFAULT : 0,
		.capability_mask = capabilities_of(node, port),
		.local_port = (uint8_t)port,
		.link_width_enabled = 3,
		.link_width_supported = 3,
		.link_width_active = 2,
		.link_speed_supported = 7,
		.link_speed_enabled = 7,
		.link_speed_active = 1,
		.port_state = IB_PORT_DOWN,
		.port_physical_state = IB_PHYSICAL_POLLING,
		.link_down_default_state = LINK_DOWN_POLLING,
		.neighbor_mtu = MTU_4096,
		.mtu_cap = MTU_4096,
		.vl_cap = VL_CAP,
		.operational_vls = VL_CAP, /* to change it, OpenSM would train the link again */
		.vl_arbitration_high_cap = VL_ARBITRATION_CAP,
		.vl_arbitration_low_cap = VL_ARBITRATION_CAP,
		.guid_cap = is_end_port ? SUBNET_GUIDS_MAX : 0,
		.hoq_life = HOQ_LIFE,
		.subnet_timeout = SUBNET_TIMEOUT,
		.resp_time = RESP_TIME,
		.local_phy_errors = ERRORS_THRESHOLD,
		.overrun_errors = ERRORS_THRESHOLD,
	};
	if (node_is_switch(node) && port == 0) {
		info->port_state = IB_PORT_ACTIVE;
		info->port_physical_state = IB_PHYSICAL_LINK_UP;
	}
}

/* Service level N has lane N modulo the number of lanes. */
static int sl_to_vl_init(const struct subnet_node *node, struct node_port *port)
{
	const uint32_t rows = node_is_switch(node) ? node->port_count + 1 : 1;

	port->sl_to_vl = malloc(rows * SL_COUNT);
	if (!port->sl_to_vl)
		return -ENOMEM;
	for (uint32_t i = 0; i < rows * SL_COUNT; i++)
		port->sl_to_vl[i] = (uint8_t)(i % VL_DATA_COUNT);
	return 0;
}

static int node_port_init(struct subnet_node *node, uint32_t port, const struct topology_port *from)
{
	struct node_port *at = &node->ports[port];

	port_info_init(node, port, &at->info);
	at->pkeys[0] = PKEY_DEFAULT;
	at->guids[0] = from && from->guid ? from->guid : node->guid;
	at->m_key_lease_end_ns = UINT64_MAX;
	at->peer_node = TOPOLOGY_NO_NODE;
	at->cable_width = from ? from->width : 4;
	at->cable_speed = from ? from->speed : TOPOLOGY_SDR;
	if (from) {
		at->peer_node = from->peer_node;
		at->peer_port = from->peer_port;
		link_support_rate(at);
	}
	return sl_to_vl_init(node, at);
}

static int switch_init(struct subnet_node *node)
{
	node->switch_info = (struct ib_switch_info){
		.linear_fdb_cap = LINEAR_FDB_CAP,
		.multicast_fdb_cap = MULTICAST_FDB_CAP,
		.default_port = NO_PORT,
		.default_multicast_primary_port = NO_PORT,
		.default_multicast_other_port = NO_PORT,
		.partition_enforcement_cap = SWITCH_PKEYS,
		.inbound_enforcement_cap = 1,
		.outbound_enforcement_cap = 1,
	};
	node->linear = malloc(LINEAR_FDB_CAP);
	node->multicast = calloc(MULTICAST_FDB_CAP, sizeof(*node->multicast));
	if (!node->linear || !node->multicast)
		return -ENOMEM;
	memset(node->linear, NO_PORT, LINEAR_FDB_CAP);
	return 0;
}

static int node_init(struct subnet_node *node, const struct subnet_topology *topology,
	const struct topology_node *from)
{
	int error = 0;

	node->kind = from->kind;
	node->port_count = from->port_count;
	node->vendor_id = from->vendor_id;
	node->device_id = from->device_id;
	node->guid = from->guid;
	node->system_guid = from->system_guid;
	memcpy(node->name, from->name, sizeof(node->name));
	memcpy(node->description, from->description, sizeof(from->description));
	node->ports = calloc(node->port_count + 1, sizeof(*node->ports));
	if (!node->ports)
		return -ENOMEM;
	for (uint32_t port = 0; !error && port <= node->port_count; port++)
		error = node_port_init(
			node, port, port ? &topology->ports[from->first_port + port - 1] : NULL);
	return error || !node_is_switch(node) ? error : switch_init(node);
}

static int nodes_init(struct subnet *subnet, const struct subnet_topology *topology)
{
	int error = 0;

	subnet->nodes = calloc(topology->node_count, sizeof(*subnet->nodes));
	if (!subnet->nodes)
		return -ENOMEM;
	subnet->node_count = topology->node_count;
	for (uint32_t i = 0; !error && i < subnet->node_count; i++)
		error = node_init(&subnet->nodes[i], topology, &topology->nodes[i]);
	return error;
}

int subnet_create(const struct subnet_topology *topology, const struct subnet_user *user,
	const struct subnet_manager_calls *manager, struct subnet **ret_subnet)
{
	struct subnet *subnet = calloc(1, sizeof(*subnet));
	int error;

	if (!subnet)
		return -ENOMEM;
	subnet->user = *user;
	subnet->calls = manager;
	subnet->traps_at_ns = UINT64_MAX;
	error = nodes_init(subnet, topology);
	if (!error)
		error = manager->create(subnet);
	if (error) {
		subnet_destroy(subnet);
		return error;
	}
	for (uint32_t i = 0; i < subnet->node_count; i++)
		for (uint32_t port = 1; port <= subnet->nodes[i].port_count; port++)
			link_train(subnet, i, port);
	*ret_subnet = subnet;
	return 0;
}

static void node_done(struct subnet_node *node)
{
	for (uint32_t port = 0; node->ports && port <= node->port_count; port++)
		free(node->ports[port].sl_to_vl);
	free(node->ports);
	free(node->linear);
	free(node->multicast);
}

void subnet_destroy(struct subnet *subnet)
{
	if (!subnet)
		return;
	subnet->calls->destroy(subnet->manager);
	for (uint32_t i = 0; i < subnet->node_count; i++)
		node_done(&subnet->nodes[i]);
	free(subnet->nodes);
	free(subnet);
}

uint64_t subnet_advance(struct subnet *subnet, uint64_t now_ns)
{
	subnet->now_ns = now_ns;
	subnet->calls->advance(subnet);
	if (subnet->traps_at_ns <= now_ns)
		traps_advance(subnet);
	return subnet_deadline_ns(subnet);
}

uint64_t subnet_deadline_ns(const struct subnet *subnet)
{
	return min_u64(subnet->calls->deadline_ns(subnet), subnet->traps_at_ns);
}

/* --- looking at it --- */

uint32_t subnet_node_count(const struct subnet *subnet)
{
	return subnet->node_count;
}

/* Is `text` the GUID in hexadecimal, with 0x? */
static bool text_is_guid(const char *text, uint64_t guid)
{
	char *end;

	return text[0] == '0' && (text[1] | 0x20) == 'x' && text[2] &&
		strtoull(text, &end, 16) == guid && !*end;
}

int subnet_find_node(const struct subnet *subnet, const char *name_or_guid)
{
	for (uint32_t i = 0; i < subnet->node_count; i++)
		if (strcmp(subnet->nodes[i].name, name_or_guid) == 0)
			return (int)i;
	for (uint32_t i = 0; i < subnet->node_count; i++)
		if (strcmp(subnet->nodes[i].description, name_or_guid) == 0)
			return (int)i;
	for (uint32_t i = 0; i < subnet->node_count; i++)
		if (text_is_guid(name_or_guid, subnet->nodes[i].guid))
			return (int)i;
	return -ENOENT;
}

void subnet_node(const struct subnet *subnet, uint32_t node, struct subnet_node_view *ret_view)
{
	const struct subnet_node *at = &subnet->nodes[node];

	assert(node < subnet->node_count);
	*ret_view = (struct subnet_node_view){
		.kind = at->kind,
		.port_count = at->port_count,
		.vendor_id = at->vendor_id,
		.device_id = at->device_id,
		.guid = at->guid,
		.system_guid = at->system_guid,
		.name = at->name,
		.description = at->description,
	};
}

static enum topology_speed speed_active(const struct ib_port_info *info)
{
	if (info->link_speed_ext_active)
		return (enum topology_speed)(
			TOPOLOGY_FDR + __builtin_ctz(info->link_speed_ext_active));
	return info->link_speed_active == 4    ? TOPOLOGY_QDR
		: info->link_speed_active == 2 ? TOPOLOGY_DDR
					       : TOPOLOGY_SDR;
}

static uint8_t lanes_active(const struct ib_port_info *info)
{
	switch (info->link_width_active) {
	case 1:
		return 1;
	case 4:
		return 8;
	case 8:
		return 12;
	case 16:
		return 2;
	default:
		return 4;
	}
}

bool subnet_port(const struct subnet *subnet, uint32_t node, uint32_t port,
	struct subnet_port_view *ret_view)
{
	const struct subnet_node *at = &subnet->nodes[node];
	const struct node_port *from = &at->ports[port];

	assert(node < subnet->node_count);
	if (port > at->port_count || (port == 0 && !node_is_switch(at)))
		return false;
	*ret_view = (struct subnet_port_view){
		.info = &from->info,
		.pkeys = from->pkeys,
		.guids = from->guids,
		.counters = &from->counters,
		.pkey_count = node_pkey_count(at),
		.guid_count = from->info.guid_cap,
		.peer_node = from->peer_node,
		.peer_port = from->peer_port,
		.is_cut = from->is_cut,
		.width = lanes_active(&from->info),
		.speed = speed_active(&from->info),
	};
	return true;
}

uint8_t subnet_switch_route(const struct subnet *subnet, uint32_t node, uint16_t lid)
{
	const struct subnet_node *at = &subnet->nodes[node];

	return node_is_switch(at) && lid <= at->switch_info.linear_fdb_top && lid < LINEAR_FDB_CAP
		? at->linear[lid]
		: NO_PORT;
}

void subnet_switch_group(
	const struct subnet *subnet, uint32_t node, uint16_t mlid, struct multicast_row *ret_row)
{
	const struct subnet_node *at = &subnet->nodes[node];
	const struct multicast_row *row = node_is_switch(at)
		? multicast_row_find(at->multicast, MULTICAST_FDB_CAP, mlid)
		: NULL;

	*ret_row = row ? *row : (struct multicast_row){{0}};
}

/* --- what a CA's user reports --- */

static struct node_port *ca_port(struct subnet *subnet, uint32_t node, uint32_t port)
{
	return node < subnet->node_count && !node_is_switch(&subnet->nodes[node]) && port &&
			port <= subnet->nodes[node].port_count
		? &subnet->nodes[node].ports[port]
		: NULL;
}

int subnet_port_capability(struct subnet *subnet, uint32_t node, uint32_t port, uint32_t set,
	uint32_t clear, uint64_t now_ns)
{
	struct node_port *at = ca_port(subnet, node, port);
	uint32_t user, mask;

	if (!at)
		return -ENOENT;
	subnet->now_ns = now_ns;
	user = (at->user_capabilities | set) & ~clear;
	mask = (at->info.capability_mask | set) & ~clear;
	/* Compare both: the embedded manager may have set the same bit at its own port. */
	if (mask == at->info.capability_mask && user == at->user_capabilities)
		return 0;
	at->info.capability_mask = mask;
	at->user_capabilities = user;
	trap_capability(subnet, node, port);
	/*
	 * Let the manager act at once: the program that has set IsSM may look for other managers
	 * before the next subnet_advance().
	 */
	subnet->calls->notice_change(subnet);
	subnet->calls->advance(subnet);
	return 0;
}

int subnet_port_violation(struct subnet *subnet, uint32_t node, uint32_t port,
	enum subnet_violation violation, const uint8_t *frame, uint32_t frame_bytes,
	uint64_t now_ns)
{
	struct node_port *at = ca_port(subnet, node, port);
	struct ib_frame headers;
	struct deth deth = {0};

	if (!at)
		return -ENOENT;
	if (!ib_frame_decode(&headers, frame, frame_bytes) || !headers.has_bth)
		return -EINVAL;
	subnet->now_ns = now_ns;
	if (frame_bytes >= headers.bth_offset + BTH_BYTES + DETH_BYTES)
		deth_decode(&deth, frame + headers.bth_offset + BTH_BYTES);
	if (violation == SUBNET_BAD_PKEY) {
		port_count_violation(&at->info.p_key_violations);
		trap_key(subnet, node, port, TRAP_BAD_PKEY, &headers, headers.bth.pkey, 0);
	} else {
		port_count_violation(&at->info.q_key_violations);
		trap_key(subnet, node, port, TRAP_BAD_QKEY, &headers, deth.qkey,
			deth.source_qpn.value);
	}
	return 0;
}

int subnet_mirror_port(struct subnet *subnet, uint32_t node, uint32_t port,
	const struct ib_port_info *info, const uint16_t *pkeys, const uint64_t *guids)
{
	struct node_port *at = ca_port(subnet, node, port);

	if (!at)
		return -ENOENT;
	assert(info->guid_cap <= SUBNET_GUIDS_MAX);
	at->info = *info;
	memcpy(at->pkeys, pkeys, sizeof(at->pkeys));
	memcpy(at->guids, guids, sizeof(at->guids));
	return 0;
}

int subnet_mirror_counters(
	struct subnet *subnet, uint32_t node, uint32_t port, const struct subnet_counters *counters)
{
	struct node_port *at = ca_port(subnet, node, port);

	if (!at)
		return -ENOENT;
	at->counters = *counters;
	return 0;
}

int subnet_node_describe(
	struct subnet *subnet, uint32_t node, const char *description, uint64_t now_ns)
{
	struct subnet_node *at = &subnet->nodes[node];

	if (node >= subnet->node_count)
		return -ENOENT;
	subnet->now_ns = now_ns;
	memset(at->description, 0, sizeof(at->description));
	memcpy(at->description, description,
		min_u64(strlen(description), sizeof(at->description) - 1));
	for (uint32_t port = node_is_switch(at) ? 0 : 1;
		port <= (node_is_switch(at) ? 0 : at->port_count); port++)
		trap_description(subnet, node, port);
	return 0;
}
