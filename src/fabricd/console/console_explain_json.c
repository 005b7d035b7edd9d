/* SPDX-License-Identifier: BSD-2-Clause */
/* What `explain` finds about ports, paths and loops, as JSON (docs/schema/fabric-explain.json). */
#include <stdio.h>

#include "base/arith.h"
#include "fabricd/console/console_internal.h"

static void place_print(const struct fabric_server *server, FILE *out, uint32_t node, uint32_t port)
{
	fputs("\"node\": ", out);
	console_json_string(out, console_node_name(server, node));
	fprintf(out, ", \"port\": %u", port);
}

static void ports_print(const struct fabric_server *server, FILE *out)
{
	struct subnet_port_view view;
	const char *separator = "";

	fputs("\"inactive_ports\": [", out);
	for (struct server_port *port = NULL; (port = server_port_next(server, port));) {
		if (!subnet_port(server->subnet, port->node, port->number, &view) ||
			view.info->port_state == IB_PORT_ACTIVE)
			continue;
		fprintf(out, "%s\n\t{", separator);
		place_print(server, out, port->node, port->number);
		fputs(", \"reason\": ", out);
		console_json_string(out, console_why_not_active(&view));
		fputc('}', out);
		separator = ",";
	}
	fputs("],\n", out);
}

static void paths_print(
	const struct fabric_server *server, FILE *out, const struct console_paths *paths)
{
	fprintf(out,
		"\"paths\": {\"count\": %u, \"missing\": %u, \"without_record\": %u, \"ends\": [",
		paths->count, paths->unreached, paths->unknown);
	for (uint32_t i = 0; i < paths->group_count; i++) {
		const struct console_group *group = &paths->groups[i];

		fprintf(out, "%s\n\t{\"count\": %u, \"from\": ", i ? "," : "", group->count);
		console_json_string(out, console_node_name(server, group->from));
		fputs(", \"to\": ", out);
		console_json_string(out, console_node_name(server, group->to));
		fputs(", ", out);
		place_print(server, out, group->node, group->port);
		fputs(", \"reason\": ", out);
		console_json_string(out, subnet_route_end_text(group->end));
		fputc('}', out);
	}
	fputs("]},\n", out);
}

static void levels_print(FILE *out, uint16_t levels)
{
	const char *separator = "";

	fputs("\"service_levels\": [", out);
	for (uint32_t sl = 0; sl < 16; sl++)
		if (levels >> sl & 1) {
			fprintf(out, "%s%u", separator, sl);
			separator = ", ";
		}
	fputc(']', out);
}

static void loop_print(const struct fabric_server *server, FILE *out)
{
	struct subnet_loop loop;
	const int result = subnet_loop_find(server->subnet, service_levels_of, server, &loop);

	fprintf(out, "\"is_searched\": %s, \"credit_loop\": ", result < 0 ? "false" : "true");
	if (result != 1) {
		fputs("null", out);
		return;
	}
	fprintf(out, "{\"length\": %u, ", loop.length);
	levels_print(out, loop.levels);
	fputs(", \"ports\": [", out);
	for (uint32_t i = 0; i < min_u32(loop.length, SUBNET_LOOP_MAX); i++) {
		fprintf(out, "%s\n\t{", i ? "," : "");
		place_print(server, out, loop.hops[i].node, loop.hops[i].port);
		fprintf(out, ", \"lane\": %u}", loop.hops[i].vl);
	}
	fputs("]}", out);
}

void console_explain_json(const struct fabric_server *server, FILE *out)
{
	struct console_paths paths;

	console_paths_try(server, &paths);
	fputc('{', out);
	ports_print(server, out);
	paths_print(server, out, &paths);
	levels_print(out, paths.levels);
	fputs(", \"assumption\": ", out);
	if (server->levels.is_answered)
		fputs("null", out);
	else
		console_json_string(out, server->levels.why);
	fputs(",\n", out);
	loop_print(server, out);
	fputs("}\n", out);
}
