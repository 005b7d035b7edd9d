/* SPDX-License-Identifier: BSD-2-Clause */
/* The paths between the hosts: which ones exist, and where and why the others end. */
#include "fabricd/console/console_internal.h"
#include "wire/infiniband/pkey.h"

uint16_t console_pkey_choose(const struct subnet_port_view *from, const struct subnet_port_view *to)
{
	const uint16_t common =
		pkey_find_common(from->pkeys, from->pkey_count, to->pkeys, to->pkey_count);

	return common ? common : from->pkeys[0];
}

uint8_t console_level_lowest(uint16_t levels)
{
	return levels ? (uint8_t)__builtin_ctz(levels) : 0;
}

void console_end_place(const struct subnet_route *route, uint32_t *ret_node, uint32_t *ret_port)
{
	const bool is_at_sender = route->end == SUBNET_ROUTE_PORT_DOWN ||
		route->end == SUBNET_ROUTE_PEER_DOWN || route->end == SUBNET_ROUTE_SPOILT;

	*ret_node = route->node;
	*ret_port = route->port;
	if (is_at_sender && route->hop_count)
		*ret_port = route->hops[route->hop_count - 1].port;
}

static void group_add(
	struct console_paths *paths, const struct subnet_route *route, uint32_t from, uint32_t to)
{
	struct console_group new = {.end = route->end, .count = 1, .from = from, .to = to};

	console_end_place(route, &new.node, &new.port);
	for (uint32_t i = 0; i < paths->group_count; i++) {
		struct console_group *group = &paths->groups[i];

		if (group->end == new.end && group->node == new.node && group->port == new.port) {
			group->count++;
			return;
		}
	}
	if (paths->group_count < CONSOLE_GROUPS_MAX)
		paths->groups[paths->group_count++] = new;
}

static void path_try(const struct fabric_server *server, const struct server_port *from,
	const struct subnet_port_view *from_view, const struct server_port *to,
	const struct subnet_port_view *to_view, struct console_paths *paths)
{
	const uint16_t lid = to_view->info->lid;
	const uint16_t levels = service_levels_of(server, from->node, from->number, lid);
	struct subnet_route route;

	paths->count++;
	paths->unknown += !levels;
	paths->levels |= levels;
	if (subnet_route_find(server->subnet, from->node, from->number, lid,
		    console_level_lowest(levels), console_pkey_choose(from_view, to_view),
		    &route) &&
		route.node == to->node)
		return;
	paths->unreached++;
	group_add(paths, &route, from->node, to->node);
}

static bool is_active(const struct fabric_server *server, const struct server_port *port,
	struct subnet_port_view *ret_view)
{
	return subnet_port(server->subnet, port->node, port->number, ret_view) &&
		ret_view->info->port_state == IB_PORT_ACTIVE;
}

void console_paths_try(const struct fabric_server *server, struct console_paths *ret_paths)
{
	struct subnet_port_view from_view, to_view;

	*ret_paths = (struct console_paths){0};
	for (struct server_port *from = NULL; (from = server_port_next(server, from));) {
		if (!is_active(server, from, &from_view))
			continue;
		for (struct server_port *to = NULL; (to = server_port_next(server, to));)
			if (to->node != from->node && is_active(server, to, &to_view) &&
				to_view.info->lid)
				path_try(server, from, &from_view, to, &to_view, ret_paths);
	}
}
