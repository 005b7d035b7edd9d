/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The subnet as a scenario of `urnic sim`: nodes, cables, the tables and lanes that a subnet
 * manager has set, and the service levels of paths. The simulated links have credits, so that the
 * scenario shows whether these paths deadlock.
 *
 * Each active port of a host is a host of the scenario. Cables that carry no data are left out. A
 * cable with another rate than the first one of its kind has its own.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/arith.h"
#include "fabricd/console/console_internal.h"

enum {
	NO_NUMBER = UINT32_MAX,
	SL_COUNT = 16,
	VL_DISCARDS = 15, /* an SL that is mapped to this lane carries no data */
	PORTS_MAX = 256, /* of a node, port 0 included */
	MESSAGE_BYTES = 1000000,
	/* Room for two packets of 4,096 bytes. With more, a loop deadlocks later, or never. */
	BUFFER_BYTES = 2 * 65 * 64,
};

struct scenario {
	const struct fabric_server *server;
	FILE *out;
	uint32_t *switches; /* by node: its number among the switches; NO_NUMBER: a CA */
	uint32_t (*cables)[PORTS_MAX]; /* by node and port: the cable's number; NO_NUMBER: none */
	uint32_t host_count;
	uint32_t switch_count;
	uint32_t vls_code; /* the largest OperationalVLs of a port */
	uint32_t mtu_code; /* the smallest MTU of a host */
	double host_gbps; /* the rate of the first host's cable; 0: there is no host yet */
	double switch_gbps; /* the rate of the first cable between switches; 0: there is none */
	uint8_t lanes[SL_COUNT]; /* of the first host */
};

/* --- the ports that take part --- */

static bool port_view(const struct scenario *scenario, uint32_t node, uint32_t port,
	struct subnet_port_view *ret_view)
{
	return subnet_port(scenario->server->subnet, node, port, ret_view) &&
		ret_view->peer_node != TOPOLOGY_NO_NODE && !ret_view->is_cut &&
		ret_view->info->port_state == IB_PORT_ACTIVE;
}

/* Does the port of a host lead to a switch, by a cable that carries data? */
static bool host_is_there(const struct scenario *scenario, const struct server_port *port)
{
	struct subnet_port_view view;

	return port_view(scenario, port->node, port->number, &view) &&
		scenario->switches[view.peer_node] != NO_NUMBER;
}

/* The next port of a host that becomes a host of the scenario. Start with NULL. */
static const struct server_port *host_next(
	const struct scenario *scenario, const struct server_port *port)
{
	struct server_port *next = server_port_next(scenario->server, port);

	while (next && !host_is_there(scenario, next))
		next = server_port_next(scenario->server, next);
	return next;
}

/* Gbit/s of data, without the coding. */
static double cable_gbps(const struct subnet_port_view *view)
{
	static const double lane_gbps[] = {2, 4, 8, 13.64, 25, 50, 100};

	return view->width * lane_gbps[view->speed];
}

static void lanes_read(const struct scenario *scenario, uint32_t node, uint32_t in_port,
	uint32_t out_port, uint8_t lanes[SL_COUNT])
{
	for (uint8_t sl = 0; sl < SL_COUNT; sl++)
		if (!subnet_vl_find(
			    scenario->server->subnet, node, in_port, out_port, sl, &lanes[sl]))
			lanes[sl] = VL_DISCARDS;
}

static void nodes_number(struct scenario *scenario)
{
	for (uint32_t i = 0; i < scenario->server->node_count; i++) {
		struct subnet_node_view node;

		subnet_node(scenario->server->subnet, i, &node);
		scenario->switches[i] =
			node.kind == TOPOLOGY_SWITCH ? scenario->switch_count++ : NO_NUMBER;
		for (uint32_t port = 0; port < PORTS_MAX; port++)
			scenario->cables[i][port] = NO_NUMBER;
	}
}

static void hosts_look(struct scenario *scenario)
{
	const struct server_port *port = NULL;
	struct subnet_port_view view;

	scenario->mtu_code = 5;
	while ((port = host_next(scenario, port))) {
		subnet_port(scenario->server->subnet, port->node, port->number, &view);
		if (!scenario->host_count++) {
			scenario->host_gbps = cable_gbps(&view);
			lanes_read(scenario, port->node, 0, port->number, scenario->lanes);
		}
		scenario->mtu_code = min_u32(scenario->mtu_code, view.info->neighbor_mtu);
		scenario->vls_code = max_u32(scenario->vls_code, view.info->operational_vls);
	}
}

/* --- cables --- */

static void cable_print(struct scenario *scenario, uint32_t number, const char *kind, uint32_t from,
	uint32_t node, uint32_t port, const struct subnet_port_view *view)
{
	const double gbps = cable_gbps(view);

	fprintf(scenario->out, "%s[\"%s%u\", \"s%u\"", number ? ", " : "", kind, from,
		scenario->switches[view->peer_node]);
	if (gbps != (*kind == 'h' ? scenario->host_gbps : scenario->switch_gbps))
		fprintf(scenario->out, ", %g", gbps);
	fputc(']', scenario->out);
	scenario->cables[node][port] = number;
	scenario->cables[view->peer_node][view->peer_port] = number;
}

/* Print the cables of hosts first, so that host N has cable N. */
static void cables_print(struct scenario *scenario)
{
	const struct server_port *port = NULL;
	struct subnet_port_view view;
	uint32_t count = 0;

	while ((port = host_next(scenario, port))) {
		port_view(scenario, port->node, port->number, &view);
		cable_print(scenario, count, "h", count, port->node, port->number, &view);
		count++;
	}
	for (uint32_t i = 0; i < scenario->server->node_count; i++)
		for (uint32_t j = 1; scenario->switches[i] != NO_NUMBER && j < PORTS_MAX; j++) {
			if (!port_view(scenario, i, j, &view) ||
				scenario->switches[view.peer_node] == NO_NUMBER ||
				view.peer_node == i || scenario->cables[i][j] != NO_NUMBER)
				continue;
			if (scenario->switch_gbps == 0)
				scenario->switch_gbps = cable_gbps(&view);
			scenario->vls_code =
				max_u32(scenario->vls_code, view.info->operational_vls);
			cable_print(scenario, count++, "s", scenario->switches[i], i, j, &view);
		}
}

/* --- tables --- */

/* Print a switch's row: for each host the cable that leads to it, or null. */
static void forwarding_row_print(const struct scenario *scenario, uint32_t node)
{
	const struct server_port *to = NULL;
	const char *separator = "";
	struct subnet_port_view view;

	while ((to = host_next(scenario, to))) {
		uint32_t cable = NO_NUMBER, out;

		port_view(scenario, to->node, to->number, &view);
		out = subnet_switch_route(scenario->server->subnet, node, view.info->lid);
		if (out && out < PORTS_MAX)
			cable = scenario->cables[node][out];
		if (cable == NO_NUMBER)
			fprintf(scenario->out, "%snull", separator);
		else
			fprintf(scenario->out, "%s%u", separator, cable);
		separator = ", ";
	}
}

static void forwarding_print(const struct scenario *scenario)
{
	const char *separator = "";

	fputs("\t\t\"forwarding\": [", scenario->out);
	for (uint32_t i = 0; i < scenario->server->node_count; i++) {
		if (scenario->switches[i] == NO_NUMBER)
			continue;
		fprintf(scenario->out, "%s\n\t\t\t[", separator);
		forwarding_row_print(scenario, i);
		fputc(']', scenario->out);
		separator = ",";
	}
	fputs("],\n", scenario->out);
}

static void levels_print(const struct scenario *scenario)
{
	const struct server_port *from = NULL;
	const char *separator = "";
	struct subnet_port_view view;

	fputs("\t\t\"service_levels\": [", scenario->out);
	while ((from = host_next(scenario, from))) {
		const struct server_port *to = NULL;
		const char *comma = "";

		fprintf(scenario->out, "%s\n\t\t\t[", separator);
		while ((to = host_next(scenario, to))) {
			port_view(scenario, to->node, to->number, &view);
			fprintf(scenario->out, "%s%u", comma,
				console_level_lowest(service_levels_of(scenario->server, from->node,
					from->number, view.info->lid)));
			comma = ", ";
		}
		fputc(']', scenario->out);
		separator = ",";
	}
	fputs("],\n", scenario->out);
}

static void lanes_text_print(const struct scenario *scenario, const uint8_t lanes[SL_COUNT])
{
	fputs("\"qos_sl2vl\": \"", scenario->out);
	for (uint32_t sl = 0; sl < SL_COUNT; sl++)
		fprintf(scenario->out, "%s%u", sl ? "," : "", lanes[sl]);
	fputc('"', scenario->out);
}

/*
 * Print a node's map of SLs to lanes, unless it equals that of the first host. For a host, `from`
 * is NO_NUMBER.
 */
static void lanes_row_print(const struct scenario *scenario, const uint8_t lanes[SL_COUNT],
	const char *kind, uint32_t number, uint32_t from, uint32_t to, const char **separator)
{
	bool is_same = true;

	for (uint32_t sl = 0; sl < SL_COUNT; sl++)
		is_same &= lanes[sl] == scenario->lanes[sl];
	if (is_same)
		return;
	fprintf(scenario->out, "%s\n\t\t\t{\"at\": \"%s%u\", ", *separator, kind, number);
	if (from != NO_NUMBER)
		fprintf(scenario->out, "\"from\": %u, \"to\": %u, ", from, to);
	lanes_text_print(scenario, lanes);
	fputc('}', scenario->out);
	*separator = ",";
}

static void switch_lanes_print(
	const struct scenario *scenario, uint32_t node, const char **separator)
{
	const uint32_t *cables = scenario->cables[node];
	uint8_t lanes[SL_COUNT];

	for (uint32_t in = 1; in < PORTS_MAX; in++)
		for (uint32_t out = 1; cables[in] != NO_NUMBER && out < PORTS_MAX; out++) {
			if (cables[out] == NO_NUMBER || out == in)
				continue;
			lanes_read(scenario, node, in, out, lanes);
			lanes_row_print(scenario, lanes, "s", scenario->switches[node], cables[in],
				cables[out], separator);
		}
}

static void lanes_print(const struct scenario *scenario)
{
	const struct server_port *port = NULL;
	const char *separator = "";
	uint8_t lanes[SL_COUNT];
	uint32_t number = 0;

	fputs("\t\t", scenario->out);
	lanes_text_print(scenario, scenario->lanes);
	fputs(",\n\t\t\"lanes\": [", scenario->out);
	while ((port = host_next(scenario, port))) {
		lanes_read(scenario, port->node, 0, port->number, lanes);
		lanes_row_print(scenario, lanes, "h", number++, NO_NUMBER, NO_NUMBER, &separator);
	}
	for (uint32_t i = 0; i < scenario->server->node_count; i++)
		if (scenario->switches[i] != NO_NUMBER)
			switch_lanes_print(scenario, i, &separator);
	fputs("]\n", scenario->out);
}

/* --- is it whole? --- */

/* The switches that `at` reaches over cables of the scenario are seen then. */
static void switches_see(
	const struct scenario *scenario, uint32_t at, bool *is_seen, uint32_t *queue)
{
	uint32_t begin = 0, end = 0;
	struct subnet_port_view view;

	is_seen[at] = true;
	queue[end++] = at;
	while (begin < end) {
		const uint32_t node = queue[begin++];

		for (uint32_t port = 1; port < PORTS_MAX; port++) {
			if (!port_view(scenario, node, port, &view) ||
				scenario->switches[view.peer_node] == NO_NUMBER ||
				is_seen[view.peer_node])
				continue;
			is_seen[view.peer_node] = true;
			queue[end++] = view.peer_node;
		}
	}
}

/* Two hosts without a way between them; false: there are none. */
static bool split_find(const struct scenario *scenario, bool *is_seen, uint32_t *queue,
	struct console_split *ret_split)
{
	const struct server_port *port = host_next(scenario, NULL);
	const struct server_port *first = port;
	struct subnet_port_view view;

	if (!first)
		return false;
	port_view(scenario, first->node, first->number, &view);
	switches_see(scenario, view.peer_node, is_seen, queue);
	while ((port = host_next(scenario, port))) {
		port_view(scenario, port->node, port->number, &view);
		if (is_seen[view.peer_node])
			continue;
		*ret_split = (struct console_split){first->node, port->node};
		return true;
	}
	return false;
}

/* --- all of it --- */

static void scenario_print(struct scenario *scenario)
{
	hosts_look(scenario);
	fprintf(scenario->out,
		"{\n\t\"duration_us\": 20000,\n\t\"topology\": {\n\t\t\"kind\": \"custom\", "
		"\"link_layer\": \"infiniband\", \"hosts\": %u, \"switches\": %u,\n"
		"\t\t\"cables\": [",
		scenario->host_count, scenario->switch_count);
	cables_print(scenario);
	fprintf(scenario->out, "],\n\t\t\"rate_gbps\": %g, \"switch_rate_gbps\": %g\n\t},\n",
		scenario->host_gbps,
		scenario->switch_gbps > 0 ? scenario->switch_gbps : scenario->host_gbps);
	fprintf(scenario->out, "\t\"subnet\": {\n\t\t\"max_op_vls\": %u, \"buffer\": %d,\n",
		scenario->vls_code, BUFFER_BYTES);
	forwarding_print(scenario);
	levels_print(scenario);
	lanes_print(scenario);
	fprintf(scenario->out,
		"\t},\n\t\"hosts\": {\"mtu\": %u},\n"
		"\t\"workloads\": [{\"kind\": \"all-to-all\", \"bytes\": %d}]\n}\n",
		128u << scenario->mtu_code, MESSAGE_BYTES);
}

int console_scenario_print(
	const struct fabric_server *server, FILE *out, struct console_split *ret_split)
{
	const size_t count = server->node_count;
	struct scenario scenario = {.server = server,
		.out = out,
		.switches = calloc(count, sizeof(*scenario.switches)),
		.cables = calloc(count, sizeof(*scenario.cables))};
	bool *is_seen = calloc(count, sizeof(*is_seen));
	uint32_t *queue = calloc(count, sizeof(*queue));
	int rc = -ENOMEM;

	if (scenario.switches && scenario.cables && is_seen && queue) {
		nodes_number(&scenario);
		rc = split_find(&scenario, is_seen, queue, ret_split) ? -ENETUNREACH : 0;
	}
	if (!rc)
		scenario_print(&scenario);
	free(is_seen);
	free(queue);
	free(scenario.switches);
	free(scenario.cables);
	return rc;
}
