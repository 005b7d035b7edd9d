/* SPDX-License-Identifier: BSD-2-Clause */
/* The fabric's state as JSON (docs/schema/fabric.json). */
#include <stdio.h>

#include "fabricd/console/console_internal.h"

void console_json_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc(*text >= ' ' && *text <= '~' ? *text : '?', out);
	}
	fputc('"', out);
}

static void counters_print(FILE *out, const struct subnet_counters *counters)
{
	const char *separator = "";

	fputs("\"counters\": {", out);
#define SUBNET_COUNTER(name, is_of_drops, sentence)                                           \
	fprintf(out, "%s\"" #name "\": %llu", separator, (unsigned long long)counters->name); \
	separator = ", ";
#include "subnet/counter.def"
#undef SUBNET_COUNTER
	fputc('}', out);
}

static void peer_print(
	const struct fabric_server *server, FILE *out, const struct subnet_port_view *port)
{
	if (port->peer_node == TOPOLOGY_NO_NODE) {
		fputs("\"cable\": null, ", out);
		return;
	}
	fputs("\"cable\": {\"node\": ", out);
	console_json_string(out, console_node_name(server, port->peer_node));
	fprintf(out, ", \"port\": %u, \"width\": %u, \"speed\": \"%s\", \"is_cut\": %s}, ",
		port->peer_port, port->width, console_speed_name(port->speed),
		port->is_cut ? "true" : "false");
}

static void port_print(
	const struct fabric_server *server, FILE *out, uint32_t node, uint32_t number)
{
	static const char *const states[] = {"none", "down", "init", "armed", "active"};
	struct subnet_port_view port;

	if (!subnet_port(server->subnet, node, number, &port))
		return;
	fprintf(out,
		"{\"number\": %u, \"state\": \"%s\", \"lid\": %u, \"lmc\": %u, \"sm_lid\": %u, ",
		number, states[port.info->port_state], port.info->lid, port.info->lmc,
		port.info->sm_lid);
	peer_print(server, out, &port);
	counters_print(out, port.counters);
	fputc('}', out);
}

static void node_print(const struct fabric_server *server, FILE *out, uint32_t index)
{
	struct subnet_node_view node;
	uint32_t first;

	subnet_node(server->subnet, index, &node);
	first = node.kind == TOPOLOGY_SWITCH ? 0 : 1;
	fputs("{\"name\": ", out);
	console_json_string(out, node.name);
	fputs(", \"description\": ", out);
	console_json_string(out, node.description);
	fprintf(out, ", \"kind\": \"%s\", \"guid\": \"0x%016llx\", \"processes\": %u, \"ports\": [",
		node.kind == TOPOLOGY_SWITCH ? "switch" : "host", (unsigned long long)node.guid,
		server->nodes[index].client_count);
	for (uint32_t port = first; port <= node.port_count; port++) {
		if (port > first)
			fputs(",\n\t\t", out);
		port_print(server, out, index, port);
	}
	fputs("]}", out);
}

void console_json_print(const struct fabric_server *server, FILE *out)
{
	const struct server_counters *counters = &server->counters;

	fputs("{\"name\": ", out);
	console_json_string(out, server->name);
	fprintf(out,
		", \"frames_dropped\": %llu, \"mads_dropped\": %llu, \"frames_unknown\": %llu, "
		"\"frames_malformed\": %llu, \"mads_malformed\": %llu,\n\"nodes\": [",
		(unsigned long long)counters->frames_dropped,
		(unsigned long long)counters->mads_dropped,
		(unsigned long long)counters->frames_unknown,
		(unsigned long long)counters->frames_malformed,
		(unsigned long long)counters->mads_malformed);
	for (uint32_t i = 0; i < server->node_count; i++) {
		fputs(i ? ",\n\t" : "\n\t", out);
		node_print(server, out, i);
	}
	fputs("]}\n", out);
}
