/* SPDX-License-Identifier: BSD-2-Clause */
/* The nodes and ports of the fabric, as clients see them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arith.h"
#include "fabricd/server/server_internal.h"

struct server_port *server_port_find(struct fabric_server *server, uint32_t node, uint32_t number)
{
	struct server_node *found = &server->nodes[node];

	if (!found->ports || number == 0 || number > found->port_count)
		return NULL;
	return &found->ports[number - 1];
}

struct server_port *server_port_next(
	const struct fabric_server *server, const struct server_port *port)
{
	uint32_t node = port ? port->node : 0, index = port ? port->number : 0;

	for (; node < server->node_count; node++, index = 0)
		if (server->nodes[node].ports && index < server->nodes[node].port_count)
			return &server->nodes[node].ports[index];
	return NULL;
}

int server_port_mads(struct server_port *port)
{
	return port->mads ? 0 : mad_port_create(port->server->mads, port, &port->mads);
}

void server_port_describe(const struct server_port *port, struct attach_port *ret_info)
{
	struct subnet_port_view view;

	*ret_info = (struct attach_port){0};
	if (!subnet_port(port->server->subnet, port->node, port->number, &view))
		return;
	*ret_info = (struct attach_port){
		.gid_prefix = view.info->gid_prefix,
		.guid = view.guids[0],
		.capability_mask = view.info->capability_mask,
		.lid = view.info->lid,
		.sm_lid = view.info->sm_lid,
		.lmc = view.info->lmc,
		.sm_sl = view.info->sm_sl,
		.state = view.info->port_state,
		.phys_state = view.info->port_physical_state,
		.mtu = view.info->neighbor_mtu,
		.mtu_max = view.info->mtu_cap,
		.link_width = view.info->link_width_active,
		.link_speed = view.info->link_speed_active,
		.link_speed_ext = view.info->link_speed_ext_active,
		.subnet_timeout = view.info->subnet_timeout,
		.vl_cap = view.info->vl_cap,
		.init_type_reply = view.info->init_type_reply,
		.bad_pkeys = view.info->p_key_violations,
		.qkey_violations = view.info->q_key_violations,
		.pkey_count = (uint16_t)min_u32(view.pkey_count, ATTACH_PKEYS_MAX),
		.guid_count = (uint16_t)min_u32(view.guid_count, ATTACH_GUIDS_MAX),
	};
	memcpy(ret_info->pkeys, view.pkeys, ret_info->pkey_count * sizeof(ret_info->pkeys[0]));
	memcpy(ret_info->guids, view.guids, ret_info->guid_count * sizeof(ret_info->guids[0]));
}

void server_node_describe(
	const struct fabric_server *server, uint32_t node, struct attach_node *ret_node)
{
	struct subnet_node_view view;

	subnet_node(server->subnet, node, &view);
	*ret_node = (struct attach_node){.node_guid = view.guid,
		.system_image_guid = view.system_guid,
		.index = node,
		.port_count = view.port_count,
		.vendor_id = view.vendor_id,
		.device_id = view.device_id,
		.fabric_pid = getpid()};
	snprintf(ret_node->name, sizeof(ret_node->name), "%s", view.description);
}

static int node_create(struct fabric_server *server, uint32_t index)
{
	struct server_node *node = &server->nodes[index];
	struct subnet_node_view view;

	subnet_node(server->subnet, index, &view);
	list_init(&node->claims);
	if (view.kind != TOPOLOGY_CA)
		return 0;
	node->port_count = view.port_count;
	node->ports = calloc(view.port_count ? view.port_count : 1, sizeof(*node->ports));
	if (!node->ports)
		return -ENOMEM;
	for (uint32_t i = 0; i < view.port_count; i++) {
		node->ports[i] = (struct server_port){
			.server = server, .node = index, .number = i + 1, .issm_watch = -1};
		list_init(&node->ports[i].memberships);
	}
	return 0;
}

int server_nodes_create(struct fabric_server *server)
{
	uint32_t count = subnet_node_count(server->subnet);
	int rc = 0;

	server->nodes = calloc(count ? count : 1, sizeof(*server->nodes));
	if (!server->nodes)
		return -ENOMEM;
	server->node_count = count;
	for (uint32_t i = 0; i < count && rc == 0; i++)
		rc = node_create(server, i);
	return rc;
}

void server_nodes_destroy(struct fabric_server *server)
{
	for (uint32_t i = 0; i < server->node_count; i++) {
		struct server_node *node = &server->nodes[i];

		for (uint32_t j = 0; node->ports && j < node->port_count; j++) {
			mad_port_destroy(node->ports[j].mads);
			free(node->ports[j].levels);
		}
		free(node->ports);
		free(node->leases);
	}
	free(server->nodes);
}

static enum attach_event_type event_type(enum subnet_event event)
{
	static const enum attach_event_type types[] = {
		[SUBNET_PORT_ACTIVE] = ATTACH_EVENT_PORT_ACTIVE,
		[SUBNET_PORT_ERROR] = ATTACH_EVENT_PORT_ERROR,
		[SUBNET_LID_CHANGE] = ATTACH_EVENT_LID_CHANGE,
		[SUBNET_PKEY_CHANGE] = ATTACH_EVENT_PKEY_CHANGE,
		[SUBNET_GID_CHANGE] = ATTACH_EVENT_GID_CHANGE,
		[SUBNET_SM_CHANGE] = ATTACH_EVENT_SM_CHANGE,
		[SUBNET_CLIENT_REREGISTER] = ATTACH_EVENT_CLIENT_REREGISTER,
	};

	return types[event];
}

void server_event(void *context, uint32_t node, uint32_t port, enum subnet_event event)
{
	struct fabric_server *server = context;
	const struct attach_event message = {.type = event_type(event), .port = port};
	struct server_port *at = server->nodes ? server_port_find(server, node, port) : NULL;

	/* memberships_renew() joins later, because the subnet must not be called from here. */
	if (at && event == SUBNET_CLIENT_REREGISTER)
		at->has_reregistered = server->has_reregistered = true;
	if (!server->nodes || server->nodes[node].client_count == 0)
		return;
	list_for_each(client, &server->clients, struct client, link)
		if (client->events >= 0 && client->node == node)
			send(client->events, &message, sizeof(message),
				MSG_DONTWAIT | MSG_NOSIGNAL);
}
