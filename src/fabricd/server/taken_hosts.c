/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hosts whose programs run on another machine. The server joins the cables of a host when a machine
 * takes it, and cuts them when the machine's channel ends.
 */
#include "fabricd/server/server_internal.h"

void taken_host_begin(struct channel *channel)
{
	struct fabric_server *server = channel->client->server;
	struct server_node *node = &server->nodes[channel->node];

	node->taker = channel;
	for (uint32_t i = 0; i < node->port_count; i++) {
		struct server_port *port = &node->ports[i];

		if (port->is_unplugged)
			subnet_cable_join(
				server->subnet, channel->node, port->number, server->now_ns);
		port->is_unplugged = false;
	}
}

static bool is_plugged(const struct server_port *port)
{
	struct subnet_port_view view;

	return subnet_port(port->server->subnet, port->node, port->number, &view) &&
		view.peer_node != TOPOLOGY_NO_NODE && !view.is_cut;
}

void taken_host_end(struct channel *channel)
{
	struct fabric_server *server = channel->client->server;
	struct server_node *node = &server->nodes[channel->node];

	if (node->taker != channel)
		return;
	node->taker = NULL;
	for (uint32_t i = 0; i < node->port_count; i++) {
		struct server_port *port = &node->ports[i];

		port->is_unplugged = is_plugged(port);
		if (port->is_unplugged)
			subnet_cable_cut(
				server->subnet, channel->node, port->number, server->now_ns);
	}
}
