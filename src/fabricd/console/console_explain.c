/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why the subnet does not do what was expected of it: hosts that cannot reach each other, credit
 * loops, what was dropped and where, ports that are slow.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/arith.h"
#include "fabricd/console/console_internal.h"

enum {
	SLOW_MAX = 8,
	SLOW_US_MIN = 1000,
};

struct explanation {
	const struct fabric_server *server;
	FILE *out;
	struct console_paths paths;
};

static const char *name_of(const struct explanation *explanation, uint32_t node)
{
	return console_node_name(explanation->server, node);
}

/* --- ports --- */

const char *console_why_not_active(const struct subnet_port_view *view)
{
	if (view->peer_node == TOPOLOGY_NO_NODE)
		return "it has no cable";
	if (view->is_cut)
		return "its cable is cut";
	if (view->info->port_physical_state == IB_PHYSICAL_DISABLED)
		return "a subnet manager has disabled it";
	if (view->info->port_state == IB_PORT_DOWN)
		return "the other end of its cable is disabled";
	return "no subnet manager has set it up";
}

static void ports_explain(struct explanation *explanation)
{
	const struct fabric_server *server = explanation->server;
	struct subnet_port_view view;

	for (struct server_port *port = NULL; (port = server_port_next(server, port));)
		if (subnet_port(server->subnet, port->node, port->number, &view) &&
			view.info->port_state != IB_PORT_ACTIVE)
			fprintf(explanation->out, "\"%s\"[%u] is not active: %s\n",
				name_of(explanation, port->node), port->number,
				console_why_not_active(&view));
}

/* --- paths --- */

static void paths_explain(struct explanation *explanation)
{
	const struct console_paths *paths = &explanation->paths;
	FILE *out = explanation->out;

	if (paths->unknown)
		fprintf(out, "the subnet administrator has no record of %u of %u paths\n",
			paths->unknown, paths->count);
	if (!paths->unreached) {
		fprintf(out, "all %u paths between active ports of hosts exist\n", paths->count);
		return;
	}
	fprintf(out, "%u of %u paths between active ports of hosts do not exist:\n",
		paths->unreached, paths->count);
	for (uint32_t i = 0; i < paths->group_count; i++) {
		const struct console_group *group = &paths->groups[i];

		fprintf(out, "  %u, such as \"%s\" to \"%s\", end at \"%s\"[%u]: %s\n",
			group->count, name_of(explanation, group->from),
			name_of(explanation, group->to), name_of(explanation, group->node),
			group->port, subnet_route_end_text(group->end));
	}
}

/* --- credit loops --- */

/* Print the assumption if the subnet administrator has not given the service levels. */
static void assumption_explain(const struct fabric_server *server, FILE *out)
{
	if (!server->levels.is_answered)
		fprintf(out, "%s, so each path is taken to have service level 0\n",
			server->levels.why);
}

/* Print "the paths of service levels 0, 1 and 2". */
static void levels_print(FILE *out, uint16_t levels)
{
	uint32_t left = (uint32_t)__builtin_popcount(levels);

	fprintf(out, "the paths of service level%s ", left > 1 ? "s" : "");
	for (uint8_t sl = 0; left; sl++)
		if (levels >> sl & 1) {
			left--;
			fprintf(out, "%u%s", sl, left > 1 ? ", " : left == 1 ? " and " : "");
		}
}

static void loop_explain(struct explanation *explanation)
{
	const struct fabric_server *server = explanation->server;
	FILE *out = explanation->out;
	struct subnet_loop loop;
	int result;

	if (!explanation->paths.levels)
		return;
	result = subnet_loop_find(server->subnet, service_levels_of, server, &loop);
	if (result < 0) {
		fprintf(out, "no memory to look for credit loops\n");
		return;
	}
	assumption_explain(server, out);
	levels_print(out, result ? loop.levels : explanation->paths.levels);
	if (result == 0) {
		fprintf(out, " have no credit loop\n");
		return;
	}
	fprintf(out,
		" have a credit loop: each of these %u ports waits for the next one,\n"
		"and the last one for the first, so they can wait for ever:\n",
		loop.length);
	for (uint32_t i = 0; i < min_u32(loop.length, SUBNET_LOOP_MAX); i++)
		fprintf(out, "  \"%s\"[%u], lane %u\n", name_of(explanation, loop.hops[i].node),
			loop.hops[i].port, loop.hops[i].vl);
}

/* --- drops --- */

/* Returns the number of counters of drops that are not zero. */
static uint32_t port_drops_explain(struct explanation *explanation, uint32_t node, uint32_t port,
	const struct subnet_counters *counters)
{
	uint32_t count = 0;

#define SUBNET_COUNTER(name, is_of_drops, sentence)                                         \
	if (counters->name && (is_of_drops)) {                                              \
		fprintf(explanation->out, "\"%s\"[%u] %s %" PRIu64 ": %s\n",                \
			name_of(explanation, node), port, #name, counters->name, sentence); \
		count++;                                                                    \
	}
#include "subnet/counter.def"
#undef SUBNET_COUNTER
	return count;
}

static void process_drops_explain(struct explanation *explanation, uint32_t count)
{
	const struct server_counters *counters = &explanation->server->counters;
	const struct {
		uint64_t count;
		const char *sentence;
	} rows[] = {
		{counters->frames_dropped, "frames were for a program that did not take them"},
		{counters->frames_unknown, "frames were for queue pairs that do not exist"},
		{counters->frames_malformed, "frames of programs were malformed"},
		{counters->mads_dropped,
			"management packets were for a program that did not take them"},
		{counters->mads_malformed, "management packets of programs were malformed"},
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		if (!rows[i].count)
			continue;
		fprintf(explanation->out, "%" PRIu64 " %s\n", rows[i].count, rows[i].sentence);
		count++;
	}
	if (!count)
		fprintf(explanation->out, "no frame was dropped\n");
}

/* --- slow ports --- */

struct slow_port {
	uint32_t node;
	uint32_t port;
	uint64_t wait_us;
};

static void slow_add(
	struct slow_port slow[SLOW_MAX], uint32_t node, uint32_t port, uint64_t wait_us)
{
	struct slow_port add = {.node = node, .port = port, .wait_us = wait_us};

	for (uint32_t i = 0; i < SLOW_MAX; i++) {
		struct slow_port here = slow[i];

		if (here.wait_us >= add.wait_us)
			continue;
		slow[i] = add;
		add = here;
	}
}

static void slow_explain(struct explanation *explanation, const struct slow_port slow[SLOW_MAX])
{
	for (uint32_t i = 0; i < SLOW_MAX && slow[i].wait_us >= SLOW_US_MIN; i++) {
		struct subnet_port_view view;
		const bool has_peer = subnet_port(explanation->server->subnet, slow[i].node,
					      slow[i].port, &view) &&
			view.peer_node != TOPOLOGY_NO_NODE;

		fprintf(explanation->out,
			"\"%s\"[%u] is slow: senders have waited %" PRIu64
			" ms, because \"%s\" was behind\n",
			name_of(explanation, slow[i].node), slow[i].port, slow[i].wait_us / 1000,
			has_peer ? name_of(explanation, view.peer_node) : "its peer");
	}
}

static void counters_explain(struct explanation *explanation)
{
	const struct subnet *subnet = explanation->server->subnet;
	struct slow_port slow[SLOW_MAX] = {0};
	struct subnet_node_view node;
	struct subnet_port_view view;
	uint32_t count = 0;

	for (uint32_t i = 0; i < subnet_node_count(subnet); i++) {
		subnet_node(subnet, i, &node);
		for (uint32_t j = 0; j <= node.port_count; j++) {
			if (!subnet_port(subnet, i, j, &view))
				continue;
			count += port_drops_explain(explanation, i, j, view.counters);
			slow_add(slow, i, j, view.counters->port_xmit_wait);
		}
	}
	process_drops_explain(explanation, count);
	slow_explain(explanation, slow);
}

void console_explain(const struct fabric_server *server, FILE *out)
{
	struct explanation explanation = {.server = server, .out = out};

	ports_explain(&explanation);
	console_paths_try(server, &explanation.paths);
	paths_explain(&explanation);
	loop_explain(&explanation);
	counters_explain(&explanation);
}

void console_explain_path(const struct fabric_server *server, uint32_t from, uint32_t from_port,
	uint32_t to, uint32_t to_port, uint32_t sl, FILE *out)
{
	struct subnet_port_view source, destination;
	struct subnet_route route;
	uint32_t node, port;
	uint16_t pkey;

	if (!subnet_port(server->subnet, from, from_port, &source) ||
		!subnet_port(server->subnet, to, to_port, &destination))
		return;
	if (!destination.info->lid) {
		fprintf(out, "\"%s\"[%u] has no LID: %s\n", console_node_name(server, to), to_port,
			console_why_not_active(&destination));
		return;
	}
	if (sl == CONSOLE_SL_OF_PATH) {
		assumption_explain(server, out);
		sl = console_level_lowest(
			service_levels_of(server, from, from_port, destination.info->lid));
	}
	pkey = console_pkey_choose(&source, &destination);
	subnet_route_find(
		server->subnet, from, from_port, destination.info->lid, (uint8_t)sl, pkey, &route);
	fprintf(out, "from \"%s\"[%u] to LID %u, service level %u, P_Key 0x%04x:\n",
		console_node_name(server, from), from_port, destination.info->lid, sl, pkey);
	for (uint32_t i = 0; i < route.hop_count; i++)
		fprintf(out, "  \"%s\"[%u], lane %u\n",
			console_node_name(server, route.hops[i].node), route.hops[i].port,
			route.hops[i].vl);
	console_end_place(&route, &node, &port);
	fprintf(out, "at \"%s\"[%u] %s\n", console_node_name(server, node), port,
		subnet_route_end_text(route.end));
}
