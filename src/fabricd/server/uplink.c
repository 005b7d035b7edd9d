/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls to the subnet; to the uplink instead if the subnet is on another machine. */
#include <string.h>

#include "base/arith.h"
#include "fabricd/server/server_internal.h"

/* --- to the subnet --- */

void server_send(struct fabric_server *server, uint32_t node, uint32_t port, uint8_t *frame,
	uint32_t frame_bytes)
{
	const struct fabric_uplink *uplink = server->uplink;

	if (uplink)
		uplink->send(uplink->context, node, port, 0, frame, frame_bytes);
	else
		subnet_send(server->subnet, node, port, frame, frame_bytes, server->now_ns);
}

void server_report(struct fabric_server *server, uint32_t node, uint32_t port, uint32_t violation,
	const uint8_t *frame, uint32_t frame_bytes)
{
	const struct fabric_uplink *uplink = server->uplink;

	if (uplink)
		uplink->send(uplink->context, node, port, violation, frame, frame_bytes);
	else
		subnet_port_violation(server->subnet, node, port,
			violation & ATTACH_RECORD_BAD_PKEY ? SUBNET_BAD_PKEY : SUBNET_BAD_QKEY,
			frame, frame_bytes, server->now_ns);
}

void server_issm_set(struct fabric_server *server, const struct server_port *port, bool is_open)
{
	const struct fabric_uplink *uplink = server->uplink;

	if (uplink)
		uplink->set_issm(uplink->context, port->node, port->number, is_open);
	else
		subnet_port_capability(server->subnet, port->node, port->number,
			is_open ? IB_CAPABILITY_IS_SM : 0, is_open ? 0 : IB_CAPABILITY_IS_SM,
			server->now_ns);
}

bool server_has_room(const struct fabric_server *server)
{
	return !server->uplink || server->uplink->has_room(server->uplink->context);
}

/* --- from the uplink --- */

void fabric_server_deliver(struct fabric_server *server, uint32_t node, uint32_t port,
	const uint8_t *frame, uint32_t frame_bytes)
{
	if (node < server->node_count && server_port_find(server, node, port))
		server_deliver(server, node, port, frame, frame_bytes);
}

/* The PortInfo whose values server_port_describe() shows. */
static struct ib_port_info port_info_of(const struct attach_port *from)
{
	return (struct ib_port_info){
		.gid_prefix = from->gid_prefix,
		.capability_mask = from->capability_mask,
		.lid = from->lid,
		.sm_lid = from->sm_lid,
		.lmc = from->lmc,
		.sm_sl = from->sm_sl,
		.port_state = from->state,
		.port_physical_state = from->phys_state,
		.neighbor_mtu = from->mtu,
		.mtu_cap = from->mtu_max,
		.link_width_active = from->link_width,
		.link_speed_active = from->link_speed,
		.link_speed_ext_active = from->link_speed_ext,
		.subnet_timeout = from->subnet_timeout,
		.vl_cap = from->vl_cap,
		.init_type_reply = from->init_type_reply,
		.p_key_violations = from->bad_pkeys,
		.q_key_violations = from->qkey_violations,
		.guid_cap = (uint8_t)min_u32(from->guid_count, SUBNET_GUIDS_MAX),
	};
}

void fabric_server_set_port(
	struct fabric_server *server, uint32_t node, uint32_t port, const struct attach_port *info)
{
	const struct ib_port_info set = port_info_of(info);
	uint64_t guids[SUBNET_GUIDS_MAX] = {0};
	uint16_t pkeys[SUBNET_PKEYS_MAX] = {0};

	memcpy(guids, info->guids, set.guid_cap * sizeof(guids[0]));
	memcpy(pkeys, info->pkeys, min_u32(info->pkey_count, SUBNET_PKEYS_MAX) * sizeof(pkeys[0]));
	subnet_mirror_port(server->subnet, node, port, &set, pkeys, guids);
}

void fabric_server_set_counters(struct fabric_server *server, uint32_t node, uint32_t port,
	const struct attach_counters *counters)
{
	struct subnet_counters set;

#define SUBNET_COUNTER(name, is_of_drops, sentence) set.name = counters->name;
#include "subnet/counter.def"
#undef SUBNET_COUNTER
	subnet_mirror_counters(server->subnet, node, port, &set);
}

void fabric_server_event(
	struct fabric_server *server, uint32_t node, uint32_t port, enum attach_event_type type)
{
	static const enum subnet_event events[] = {
		[ATTACH_EVENT_PORT_ACTIVE] = SUBNET_PORT_ACTIVE,
		[ATTACH_EVENT_PORT_ERROR] = SUBNET_PORT_ERROR,
		[ATTACH_EVENT_LID_CHANGE] = SUBNET_LID_CHANGE,
		[ATTACH_EVENT_PKEY_CHANGE] = SUBNET_PKEY_CHANGE,
		[ATTACH_EVENT_SM_CHANGE] = SUBNET_SM_CHANGE,
		[ATTACH_EVENT_CLIENT_REREGISTER] = SUBNET_CLIENT_REREGISTER,
		[ATTACH_EVENT_GID_CHANGE] = SUBNET_GID_CHANGE,
	};

	if (type && type < ARRAY_COUNT(events) && node < server->node_count)
		server_event(server, node, port, events[type]);
}
