/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The service levels of the paths between hosts. A routing engine may choose one for each path
 * (lash and dfsssp of OpenSM do), and only the subnet administrator knows them. A command of the
 * console that needs them waits, while the server asks the administrator for the paths from each
 * port of a host, one port after the other. Afterwards the server runs the command again, and
 * forgets the levels.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "fabricd/server/server_internal.h"
#include "wire/bytes.h"
#include "wire/infiniband/rmpp.h"

enum {
	/* A subnet manager that runs a sweep answers late. */
	TIMEOUT_MS = 1000,
	ATTEMPTS_MAX = 5, /* for each port */
	PATHS_PER_PAIR = 127, /* NumbPath: all of them */
	LEVEL_0 = 1 << 0,
};

static bool port_is_asked(const struct subnet_port_view *view)
{
	return view->info->port_state == IB_PORT_ACTIVE && view->info->lid && view->info->sm_lid;
}

static bool port_view(const struct server_port *port, struct subnet_port_view *ret_view)
{
	return subnet_port(port->server->subnet, port->node, port->number, ret_view) &&
		port_is_asked(ret_view);
}

/*
 * The port that asks for the paths from `port`. It is `port` itself, unless its host is on another
 * machine, which would get the answers; then it is a port of a host on this machine. NULL: all
 * hosts are on other machines.
 */
static struct server_port *asker_of(struct server_port *port)
{
	const struct fabric_server *server = port->server;
	struct subnet_port_view view;

	if (!server->nodes[port->node].taker)
		return port;
	port = NULL;
	while ((port = server_port_next(server, port)))
		if (!server->nodes[port->node].taker && port_view(port, &view))
			return port;
	return NULL;
}

/* Does a subnet manager run at the port with this LID? */
static bool manager_runs_at(const struct fabric_server *server, uint16_t lid)
{
	struct subnet_port_view view;
	struct subnet_node_view node;

	for (uint32_t i = 0; i < server->node_count; i++) {
		subnet_node(server->subnet, i, &node);
		for (uint32_t j = 0; j <= node.port_count; j++)
			if (subnet_port(server->subnet, i, j, &view) && view.info->lid == lid &&
				view.info->capability_mask & IB_CAPABILITY_IS_SM)
				return true;
	}
	return false;
}

void service_levels_forget(struct fabric_server *server)
{
	for (struct server_port *port = NULL; (port = server_port_next(server, port));) {
		free(port->levels);
		port->levels = NULL;
	}
	server->levels = (struct service_levels){.state = SERVICE_LEVELS_UNKNOWN};
}

/* End the questions. `why` is the sentence that says why not all have an answer; NULL: all have. */
static void levels_end(struct fabric_server *server, const char *why)
{
	struct service_levels *levels = &server->levels;

	levels->state = SERVICE_LEVELS_KNOWN;
	levels->asked = levels->asker = NULL;
	levels->is_answered = !why;
	if (why)
		snprintf(levels->why, sizeof(levels->why), "%s", why);
}

/* --- questions --- */

/* Ask for the paths from a port to all others. Returns NULL or why not. */
static const char *paths_ask(struct server_port *port, const struct subnet_port_view *view)
{
	struct service_levels *levels = &port->server->levels;
	struct sa_request request = {
		.method = MAD_METHOD_GET_TABLE,
		.attribute_id = SA_ATTRIBUTE_PATH,
		.component_mask = sa_mask_path_sgid | sa_mask_path_path_count,
		.timeout_ms = TIMEOUT_MS,
	};
	struct sa_path path = {.path_count = PATHS_PER_PAIR};

	put_be64(path.sgid, view->info->gid_prefix);
	put_be64(path.sgid + 8, view->guids[0]);
	sa_path_encode(&path, request.record);
	if (!port->levels)
		port->levels = calloc(levels->lid_count, sizeof(*port->levels));
	levels->attempts = levels->asked == port ? levels->attempts + 1 : 1;
	levels->asked = port;
	levels->asker = asker_of(port);
	levels->has_answer = false;
	if (!levels->asker)
		return "no host is on this machine to ask the subnet manager";
	if (!port->levels || sa_request_send(levels->asker, &request, &levels->transaction))
		return "there is no memory to ask the subnet manager";
	return NULL;
}

/* Ask for the paths of the first port from `port` on that has any. End if there is none. */
static void first_ask(struct fabric_server *server, struct server_port *port)
{
	struct subnet_port_view view;
	const char *why = NULL;

	while (port && !port_view(port, &view))
		port = server_port_next(server, port);
	if (port)
		why = paths_ask(port, &view);
	if (!port || why)
		levels_end(server, why);
}

/* Find the first port whose paths the server will ask for. Returns false if there is none. */
static bool first_find(const struct fabric_server *server, struct subnet_port_view *ret_view)
{
	for (struct server_port *port = NULL; (port = server_port_next(server, port));)
		if (port_view(port, ret_view))
			return true;
	return false;
}

/* One more than the highest LID of all hosts. */
static uint32_t lid_count(const struct fabric_server *server)
{
	struct subnet_port_view view;
	uint32_t count = 0;

	for (struct server_port *port = NULL; (port = server_port_next(server, port));)
		if (subnet_port(server->subnet, port->node, port->number, &view) &&
			view.info->lid + (1u << view.info->lmc) > count)
			count = view.info->lid + (1u << view.info->lmc);
	return count;
}

bool service_levels_ask(struct fabric_server *server)
{
	struct service_levels *levels = &server->levels;
	struct subnet_port_view first;

	if (levels->state != SERVICE_LEVELS_UNKNOWN)
		return levels->state == SERVICE_LEVELS_KNOWN;
	levels->state = SERVICE_LEVELS_ASKED;
	levels->lid_count = lid_count(server);
	if (first_find(server, &first) && !manager_runs_at(server, first.info->sm_lid))
		levels_end(server, "no subnet manager runs");
	else
		first_ask(server, server_port_next(server, NULL));
	return levels->state == SERVICE_LEVELS_KNOWN;
}

/* --- answers --- */

static void path_note(
	struct server_port *port, const struct ib_port_info *info, const struct sa_path *path)
{
	if (path->slid >> info->lmc == info->lid >> info->lmc &&
		path->dlid < port->server->levels.lid_count)
		port->levels[path->dlid] |= (uint16_t)(1u << path->sl);
}

static void paths_note(struct server_port *port, const uint8_t *bytes, uint32_t count)
{
	struct subnet_port_view view;
	struct sa_header sa;
	struct sa_path path;
	uint32_t step;

	sa_header_decode(&sa, bytes);
	step = sa.attribute_offset * 8u;
	if (step < SA_PATH_BYTES ||
		!subnet_port(port->server->subnet, port->node, port->number, &view))
		return;
	for (uint32_t at = SA_DATA_OFFSET; at < count && count - at >= SA_PATH_BYTES; at += step) {
		sa_path_decode(&path, bytes + at);
		path_note(port, view.info, &path);
	}
}

void service_levels_answer(
	struct server_port *port, int status, const uint8_t *bytes, uint32_t count)
{
	struct service_levels *levels = &port->server->levels;
	struct mad_header header;

	mad_header_decode(&header, bytes);
	if (levels->asker != port || levels->has_answer ||
		(uint32_t)header.transaction_id != levels->transaction)
		return;
	levels->has_answer = true;
	levels->error = status;
	levels->status = header.status;
	if (!status && !header.status && count >= SA_DATA_OFFSET)
		paths_note(levels->asked, bytes, count);
}

static void answer_regard(struct fabric_server *server)
{
	struct service_levels *levels = &server->levels;
	char why[sizeof(levels->why)];

	if (!levels->error && (!levels->status || levels->status == SA_STATUS_NO_RECORDS)) {
		first_ask(server, server_port_next(server, levels->asked));
		return;
	}
	/* Ask again: a sweep may have changed the port's manager, or the service level to it. */
	if (levels->error && levels->attempts < ATTEMPTS_MAX) {
		first_ask(server, levels->asked);
		return;
	}
	if (levels->error)
		snprintf(why, sizeof(why), "the subnet manager does not answer");
	else
		snprintf(why, sizeof(why), "the subnet manager answers with status 0x%04x",
			levels->status);
	levels_end(server, why);
}

bool service_levels_are_due(const struct fabric_server *server)
{
	return server->levels.state == SERVICE_LEVELS_KNOWN || server->levels.has_answer;
}

void service_levels_advance(struct fabric_server *server)
{
	if (server->levels.has_answer && server->levels.state == SERVICE_LEVELS_ASKED)
		answer_regard(server);
	if (server->levels.state != SERVICE_LEVELS_KNOWN)
		return;
	clients_run_commands(server);
	service_levels_forget(server);
}

/* --- what is known --- */

uint16_t service_levels_of(const void *context, uint32_t node, uint32_t port, uint16_t dlid)
{
	const struct fabric_server *server = context;
	const struct server_port *from = &server->nodes[node].ports[port - 1];

	if (!server->levels.is_answered)
		return LEVEL_0;
	return from->levels && dlid < server->levels.lid_count ? from->levels[dlid] : 0;
}
