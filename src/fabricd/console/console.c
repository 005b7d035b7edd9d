/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The console's commands, with ibsim's words. A node's name with blanks stands in quotation marks;
 * a port follows in brackets.
 *
 *	link "NODE"[PORT] "NODE"[PORT]   connect two ports that have no cable
 *	unlink "NODE"[PORT]              cut a cable; without a port, all cables of the node
 *	relink "NODE"[PORT]              connect the ends of a cut cable again
 *	error "NODE"[PORT] RATE [ATTRIBUTE]
 *	dump ["NODE"]                    the nodes, their ports, counters of the process
 *	dump --json                      the same for programs
 *	route FROM-LID TO-LID            the route of packets between two LIDs
 *	explain                          what does not work, and why
 *	explain --json                   the same for programs, without counters
 *	explain FROM TO [SL]             the path from a host to another one, and why it ends
 *	scenario                         the subnet for `urnic sim`
 *	clients                          the processes that are attached
 */
#include "fabricd/console/console.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/text.h"
#include "fabricd/console/console_internal.h"

enum { WORDS_MAX = 4, ROUTE_HOPS_MAX = 64, ALL_PORTS = UINT32_MAX };

/* A command, while it runs. */
struct console {
	struct fabric_server *server;
	FILE *out;
	char *why;
	unsigned word_count; /* words behind the command's name */
	char *words[WORDS_MAX];
};

/* An end of a cable, or a node. */
struct place_of_node {
	uint32_t node;
	uint32_t port; /* ALL_PORTS: none is named */
};

__attribute__((format(printf, 3, 4))) static int console_refuse(
	const struct console *console, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(console->why, ATTACH_TEXT_BYTES, format, arguments);
	va_end(arguments);
	text_make_printable(console->why);
	return error;
}

/* --- words --- */

/* Split off the next word. Blanks in quotation marks belong to the word, and so do the marks. */
static char *word_next(char **text)
{
	char *word = *text + strspn(*text, " \t");
	char *end = word;
	bool is_quoted = false;

	if (!*word)
		return NULL;
	while (*end && (is_quoted || !strchr(" \t", *end)))
		is_quoted ^= *end++ == '"';
	*text = *end ? end + 1 : end;
	*end = '\0';
	return word;
}

/* Parse NODE or NODE[PORT]; the name may stand in quotation marks. */
static int place_parse(const struct console *console, char *word, struct place_of_node *ret_place)
{
	char *name = word, *end = word + strlen(word);
	uint32_t port = ALL_PORTS;
	int node;

	if (end > word && end[-1] == ']' && strrchr(word, '[')) {
		char *bracket = strrchr(word, '[');

		end[-1] = '\0';
		if (!text_number(bracket + 1, 0, UINT8_MAX, &port))
			return console_refuse(
				console, -EINVAL, "\"%s\" is no port number", bracket + 1);
		*bracket = '\0';
		end = bracket;
	}
	if (*name == '"' && end > name + 1 && end[-1] == '"') {
		end[-1] = '\0';
		name++;
	}
	node = subnet_find_node(console->server->subnet, name);
	if (node < 0)
		return console_refuse(console, -ENOENT, "there is no node \"%s\"", name);
	*ret_place = (struct place_of_node){.node = (uint32_t)node, .port = port};
	return 0;
}

const char *console_node_name(const struct fabric_server *server, uint32_t node)
{
	struct subnet_node_view view;

	subnet_node(server->subnet, node, &view);
	return view.name;
}

static const char *node_name(const struct console *console, uint32_t node)
{
	return console_node_name(console->server, node);
}

static int cable_result(const struct console *console, const struct place_of_node *place, int rc)
{
	if (rc == -ENOENT && place->port != ALL_PORTS)
		return console_refuse(console, rc, "\"%s\" has no port %u with a cable",
			node_name(console, place->node), place->port);
	if (rc)
		return console_refuse(
			console, rc, "\"%s\": %s", node_name(console, place->node), strerror(-rc));
	return 0;
}

/* --- commands; each returns 0, -EAGAIN until it runs again, or -errno with a sentence --- */

typedef int command_fn(struct console *console);

/* Cut or join the cables of a node, or the cable at one port. */
static int cables_set(struct console *console, bool is_join)
{
	struct subnet *subnet = console->server->subnet;
	uint64_t now_ns = console->server->now_ns;
	struct place_of_node place = {0};
	int rc = place_parse(console, console->words[0], &place);

	if (rc)
		return rc;
	if (place.port == ALL_PORTS)
		rc = (is_join ? subnet_node_join : subnet_node_cut)(subnet, place.node, now_ns);
	else
		rc = (is_join ? subnet_cable_join : subnet_cable_cut)(
			subnet, place.node, place.port, now_ns);
	return cable_result(console, &place, rc);
}

static int command_unlink(struct console *console)
{
	return cables_set(console, false);
}

static int command_relink(struct console *console)
{
	return cables_set(console, true);
}

static int command_link(struct console *console)
{
	struct place_of_node one = {0}, other = {0};
	int rc = place_parse(console, console->words[0], &one);

	if (rc == 0)
		rc = place_parse(console, console->words[1], &other);
	if (rc)
		return rc;
	if (one.port == ALL_PORTS || other.port == ALL_PORTS)
		return console_refuse(console, -EINVAL, "link needs two ports: NODE[PORT]");
	rc = subnet_cable_move(console->server->subnet, one.node, one.port, other.node, other.port,
		console->server->now_ns);
	if (rc == -EBUSY)
		return console_refuse(
			console, rc, "one of the two ports has a cable: unlink it first");
	return cable_result(console, &one, rc);
}

/* Parse a rate in percent, with up to four decimals. */
static bool rate_parse(const char *text, uint32_t *ret_per_million)
{
	char *end;
	double percent = strtod(text, &end);

	if (end == text || (*end && strcmp(end, "%") != 0) || !(percent >= 0 && percent <= 100))
		return false;
	*ret_per_million = (uint32_t)(percent * 10000 + 0.5);
	return true;
}

static int command_error(struct console *console)
{
	uint32_t per_million, attribute = 0;
	struct place_of_node place = {0};
	int rc = place_parse(console, console->words[0], &place);

	if (rc)
		return rc;
	if (place.port == ALL_PORTS)
		return console_refuse(console, -EINVAL, "error needs a port: NODE[PORT]");
	if (!rate_parse(console->words[1], &per_million))
		return console_refuse(console, -EINVAL, "\"%s\" is no rate in percent, 0 to 100",
			console->words[1]);
	if (console->word_count > 2 &&
		!text_number_or_hex(console->words[2], 0, UINT16_MAX, &attribute))
		return console_refuse(
			console, -EINVAL, "\"%s\" is no attribute ID", console->words[2]);
	rc = subnet_port_error_rate(
		console->server->subnet, place.node, place.port, per_million, (uint16_t)attribute);
	return cable_result(console, &place, rc);
}

static const char *state_name(uint8_t state)
{
	static const char *const names[] = {"?", "Down", "Init", "Armed", "Active"};

	return names[state < ARRAY_COUNT(names) ? state : 0];
}

const char *console_speed_name(enum topology_speed speed)
{
	static const char *const names[] = {"SDR", "DDR", "QDR", "FDR", "EDR", "HDR", "NDR"};

	return names[speed];
}

static void dump_port(struct console *console, uint32_t node, uint32_t number)
{
	struct subnet_port_view port;

	if (!subnet_port(console->server->subnet, node, number, &port))
		return;
	fprintf(console->out, "  [%u]\t%s", number, state_name(port.info->port_state));
	if (number == 0 || port.guid_count > 0)
		fprintf(console->out, " lid %u lmc %u smlid %u", port.info->lid, port.info->lmc,
			port.info->sm_lid);
	if (port.peer_node != TOPOLOGY_NO_NODE)
		fprintf(console->out, " -> \"%s\"[%u] %ux%s%s", node_name(console, port.peer_node),
			port.peer_port, port.width, console_speed_name(port.speed),
			port.is_cut ? ", cut" : "");
	fprintf(console->out, "; %llu packets out, %llu in",
		(unsigned long long)port.counters->port_xmit_packets,
		(unsigned long long)port.counters->port_rcv_packets);
	if (port.counters->port_xmit_discards + port.counters->vl15_dropped +
			port.counters->port_rcv_switch_relay_errors >
		0)
		fprintf(console->out, ", %llu discarded, %llu VL15 dropped, %llu not relayed",
			(unsigned long long)port.counters->port_xmit_discards,
			(unsigned long long)port.counters->vl15_dropped,
			(unsigned long long)port.counters->port_rcv_switch_relay_errors);
	fputc('\n', console->out);
}

/* What the MAD layer of a host's port has done. */
static void dump_mads(struct console *console, const struct server_port *port)
{
	const struct mad_counters *counters;

	if (!port->mads)
		return;
	counters = mad_port_counters(port->mads);
	fprintf(console->out,
		"  [%u]\tMADs: %llu sent, %llu received, %llu retried, %llu timed out, "
		"%llu responses and %llu requests unmatched, %llu malformed, %llu aborted\n",
		port->number, (unsigned long long)counters->sent,
		(unsigned long long)counters->received, (unsigned long long)counters->retried,
		(unsigned long long)counters->timed_out,
		(unsigned long long)counters->unmatched_responses,
		(unsigned long long)counters->unmatched_requests,
		(unsigned long long)counters->malformed, (unsigned long long)counters->aborted);
}

static void dump_node(struct console *console, uint32_t index)
{
	const struct server_node *attached = &console->server->nodes[index];
	struct subnet_node_view node;

	subnet_node(console->server->subnet, index, &node);
	fprintf(console->out, "%s %u \"%s\" guid 0x%016llx \"%s\"",
		node.kind == TOPOLOGY_SWITCH ? "Switch" : "Ca", node.port_count, node.name,
		(unsigned long long)node.guid, node.description);
	if (attached->client_count > 0)
		fprintf(console->out, ", %u processes", attached->client_count);
	fputc('\n', console->out);
	for (uint32_t port = node.kind == TOPOLOGY_SWITCH ? 0 : 1; port <= node.port_count; port++)
		dump_port(console, index, port);
	for (uint32_t i = 0; attached->ports && i < attached->port_count; i++)
		dump_mads(console, &attached->ports[i]);
}

static int command_dump(struct console *console)
{
	const struct server_counters *counters = &console->server->counters;
	struct place_of_node place = {0};
	int rc;

	if (console->word_count > 0 && strcmp(console->words[0], "--json") == 0) {
		console_json_print(console->server, console->out);
		return 0;
	}
	if (console->word_count > 0) {
		rc = place_parse(console, console->words[0], &place);
		if (rc)
			return rc;
		dump_node(console, place.node);
		return 0;
	}
	for (uint32_t i = 0; i < console->server->node_count; i++)
		dump_node(console, i);
	fprintf(console->out,
		"dropped: %llu frames and %llu MADs that no process took, %llu frames to unknown "
		"queue pairs, %llu malformed frames, %llu malformed MADs\n",
		(unsigned long long)counters->frames_dropped,
		(unsigned long long)counters->mads_dropped,
		(unsigned long long)counters->frames_unknown,
		(unsigned long long)counters->frames_malformed,
		(unsigned long long)counters->mads_malformed);
	return 0;
}

/* Find the port that has the LID. Returns false if none has it. */
static bool lid_find(const struct console *console, uint32_t lid, struct place_of_node *ret_place)
{
	const struct subnet *subnet = console->server->subnet;
	struct subnet_port_view port;
	struct subnet_node_view node;

	for (uint32_t i = 0; i < console->server->node_count; i++) {
		subnet_node(subnet, i, &node);
		for (uint32_t j = 0; j <= node.port_count; j++) {
			if (!subnet_port(subnet, i, j, &port) || port.info->lid == 0 ||
				lid - port.info->lid >= 1u << port.info->lmc)
				continue;
			*ret_place = (struct place_of_node){.node = i, .port = j};
			return true;
		}
	}
	return false;
}

static int command_route(struct console *console)
{
	const struct subnet *subnet = console->server->subnet;
	uint32_t from_lid, to_lid, out;
	struct place_of_node at = {0}, to = {0};
	struct subnet_port_view port;
	struct subnet_node_view node;

	if (!text_number_or_hex(console->words[0], 1, UINT16_MAX, &from_lid) ||
		!text_number_or_hex(console->words[1], 1, UINT16_MAX, &to_lid))
		return console_refuse(console, -EINVAL, "route needs two LIDs");
	if (!lid_find(console, from_lid, &at) || !lid_find(console, to_lid, &to))
		return console_refuse(
			console, -ENOENT, "no port has LID %u or LID %u", from_lid, to_lid);
	out = at.port;
	for (unsigned hop = 0; hop < ROUTE_HOPS_MAX; hop++) {
		subnet_node(subnet, at.node, &node);
		if (at.node == to.node) {
			fprintf(console->out, "\"%s\" has LID %u\n", node.name, to_lid);
			return 0;
		}
		if (node.kind == TOPOLOGY_SWITCH)
			out = subnet_switch_route(subnet, at.node, (uint16_t)to_lid);
		else if (hop > 0)
			return console_refuse(console, -ENOENT,
				"the way to LID %u ends at \"%s\", which has another LID", to_lid,
				node.name);
		if (!subnet_port(subnet, at.node, out, &port) ||
			port.peer_node == TOPOLOGY_NO_NODE || port.is_cut)
			return console_refuse(
				console, -ENOENT, "\"%s\" has no way to LID %u", node.name, to_lid);
		fprintf(console->out, "\"%s\"[%u] -> [%u]\"%s\"\n", node.name, out, port.peer_port,
			node_name(console, port.peer_node));
		at.node = port.peer_node;
	}
	return console_refuse(console, -ELOOP, "the way to LID %u is a loop", to_lid);
}

/* Parse HOST or HOST[PORT]. */
static int host_parse(const struct console *console, char *word, struct place_of_node *ret_place)
{
	int rc = place_parse(console, word, ret_place);

	if (rc)
		return rc;
	if (ret_place->port == ALL_PORTS)
		ret_place->port = 1;
	return server_port_find(console->server, ret_place->node, ret_place->port)
		? 0
		: console_refuse(console, -ENOENT, "\"%s\" is no host with a port %u",
			  node_name(console, ret_place->node), ret_place->port);
}

static int command_explain(struct console *console)
{
	struct place_of_node from = {0}, to = {0};
	uint32_t sl = CONSOLE_SL_OF_PATH;
	bool is_json;
	int rc;

	is_json = console->word_count == 1 && strcmp(console->words[0], "--json") == 0;
	if (console->word_count == 0 || is_json) {
		if (!service_levels_ask(console->server))
			return -EAGAIN;
		(is_json ? console_explain_json : console_explain)(console->server, console->out);
		return 0;
	}
	if (console->word_count == 1)
		return console_refuse(console, -EINVAL, "explain needs two hosts, or none");
	rc = host_parse(console, console->words[0], &from);
	if (rc == 0)
		rc = host_parse(console, console->words[1], &to);
	if (rc)
		return rc;
	if (console->word_count > 2 && !text_number(console->words[2], 0, 15, &sl))
		return console_refuse(
			console, -EINVAL, "\"%s\" is no service level", console->words[2]);
	if (sl == CONSOLE_SL_OF_PATH && !service_levels_ask(console->server))
		return -EAGAIN;
	console_explain_path(
		console->server, from.node, from.port, to.node, to.port, sl, console->out);
	return 0;
}

static int command_scenario(struct console *console)
{
	struct console_split split;
	int error;

	if (!service_levels_ask(console->server))
		return -EAGAIN;
	error = console_scenario_print(console->server, console->out, &split);
	if (error == -ENETUNREACH)
		return console_refuse(console, error,
			"the subnet is split: no cables lead from \"%s\" to \"%s\", and urnic sim "
			"needs them; relink a cable, or unlink the hosts of one part",
			node_name(console, split.from), node_name(console, split.to));
	if (error)
		return console_refuse(console, error, "no memory for the scenario");
	return 0;
}

static int command_clients(struct console *console)
{
	list_for_each(client, &console->server->clients, struct client, link) {
		if (!client->has_node)
			continue;
		fprintf(console->out,
			"process %d on \"%s\": %u channels of frames, %u flows out, %u of MADs\n",
			client->pid, node_name(console, client->node), client->channel_count,
			flows_of_client(client), client->opening_count);
	}
	return 0;
}

static const struct console_command {
	const char *name;
	command_fn *run;
	unsigned words_min, words_max;
} commands[] = {
	{"link", command_link, 2, 2},
	{"unlink", command_unlink, 1, 1},
	{"relink", command_relink, 1, 1},
	{"error", command_error, 2, 3},
	{"dump", command_dump, 0, 1},
	{"route", command_route, 2, 2},
	{"explain", command_explain, 0, 3},
	{"scenario", command_scenario, 0, 0},
	{"clients", command_clients, 0, 0},
};

static int command_run(struct console *console, char *text)
{
	char *name = word_next(&text);
	char *word;

	for (size_t i = 0; name && i < ARRAY_COUNT(commands); i++) {
		if (strcasecmp(commands[i].name, name) != 0)
			continue;
		while ((word = word_next(&text))) {
			if (console->word_count == commands[i].words_max)
				return console_refuse(
					console, -EINVAL, "%s has too many words", name);
			console->words[console->word_count++] = word;
		}
		if (console->word_count < commands[i].words_min)
			return console_refuse(
				console, -EINVAL, "%s needs %u words", name, commands[i].words_min);
		return commands[i].run(console);
	}
	return console_refuse(console, -EINVAL,
		"there is no command \"%s\"; there are link, unlink, relink, error, dump, route, "
		"explain, scenario and clients",
		name ? name : "");
}

int console_run(struct fabric_server *server, char *text, char why[ATTACH_TEXT_BYTES])
{
	struct console console = {.server = server, .why = why};
	int fd = memfd_create("urnic-console", MFD_CLOEXEC);
	int copy = fd < 0 ? -1 : dup(fd);
	int rc;

	console.out = copy < 0 ? NULL : fdopen(copy, "w");
	if (!console.out) {
		rc = console_refuse(&console, -errno, "no memory for the output");
		if (copy >= 0)
			close(copy);
	} else {
		rc = command_run(&console, text);
		fclose(console.out);
	}
	if (rc && fd >= 0)
		close(fd);
	return rc ? rc : fd;
}
