/* SPDX-License-Identifier: BSD-2-Clause */
#include "subnet/topology/topology.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "subnet/topology/topology_internal.h"

enum {
	INDEX_SLOTS = 4 * TOPOLOGY_NODES_MAX,
	WIDTH_UNLESS_GIVEN = 4,
	GUID_NODE_SHIFT = 8, /* a node's GUID leaves room for those of its ports */
};
#define GUID_BASE 0x00fc010000000000u

/* What the name=value lines before a header line say about the node. */
struct values {
	uint64_t guid;
	uint64_t system_guid;
	uint64_t vendor_id;
	uint64_t device_id;
};

/* A reading in progress. */
struct reading {
	const char *text;
	const char *end;
	uint32_t line; /* the number of the present line */
	char *why;
	struct subnet_topology *topology;
	struct values values;
	uint32_t node; /* of the present record; TOPOLOGY_NO_NODE: none */
	uint32_t *names; /* hash tables of INDEX_SLOTS: a node's number + 1; 0: empty */
	uint32_t *guids;
};

/* --- why not --- */

static void why_append(char *why, const char *text, size_t bytes)
{
	const size_t used = strlen(why);
	const size_t room = TOPOLOGY_WHY_BYTES - 1 - used;

	if (bytes > room)
		bytes = room;
	memcpy(why + used, text, bytes);
	why[used + bytes] = '\0';
}

/* Fail the reading. `sentence` says why; its first %s stands for `word`. */
static int reading_fail(struct reading *reading, const char *sentence, struct topology_word word)
{
	const char *gap = strstr(sentence, "%s");

	reading->why[0] = '\0';
	if (!gap) {
		why_append(reading->why, sentence, strlen(sentence));
		return -EINVAL;
	}
	why_append(reading->why, sentence, (size_t)(gap - sentence));
	why_append(reading->why, word.text, word.bytes);
	why_append(reading->why, gap + 2, strlen(gap + 2));
	return -EINVAL;
}

static const struct topology_word no_word;

/* --- the index --- */

static uint64_t text_hash(const char *text, size_t bytes)
{
	uint64_t hash = 0;

	for (size_t i = 0; i < bytes; i++)
		hash = mix_u64(hash ^ (uint8_t)text[i]);
	return hash;
}

static bool node_is_named(const struct topology_node *node, struct topology_word word)
{
	return strlen(node->name) == word.bytes && memcmp(node->name, word.text, word.bytes) == 0;
}

/* The slot of the node with this name; else the empty slot where the name belongs. */
static uint32_t *name_slot(const struct reading *reading, struct topology_word word)
{
	uint64_t at = text_hash(word.text, word.bytes);

	while (true) {
		uint32_t *slot = &reading->names[at++ % INDEX_SLOTS];

		if (!*slot || node_is_named(&reading->topology->nodes[*slot - 1], word))
			return slot;
	}
}

static uint32_t *guid_slot(const struct reading *reading, uint64_t guid)
{
	uint64_t at = mix_u64(guid);

	while (true) {
		uint32_t *slot = &reading->guids[at++ % INDEX_SLOTS];

		if (!*slot || reading->topology->nodes[*slot - 1].guid == guid)
			return slot;
	}
}

/* --- nodes --- */

static void text_copy(char to[TOPOLOGY_NAME_BYTES], struct topology_word word)
{
	const size_t bytes = min_u32(word.bytes, TOPOLOGY_NAME_BYTES - 1);

	memcpy(to, word.text, bytes);
	to[bytes] = '\0';
}

static int node_check(struct reading *reading, const struct topology_line *line)
{
	const uint32_t limit =
		line->node_kind == TOPOLOGY_CA ? TOPOLOGY_CA_PORTS_MAX : TOPOLOGY_SWITCH_PORTS_MAX;

	if (line->name.bytes == 0 || line->name.bytes >= TOPOLOGY_NAME_BYTES)
		return reading_fail(reading, "a node's name has 1 to 63 letters", no_word);
	if (line->port == 0 || line->port > limit)
		return reading_fail(reading, "a node has 1 to 254 ports", no_word);
	if (reading->topology->node_count == TOPOLOGY_NODES_MAX)
		return reading_fail(reading, "a topology has at most 8192 nodes", no_word);
	if (*name_slot(reading, line->name))
		return reading_fail(reading, "there are two nodes named \"%s\"", line->name);
	return 0;
}

static int ports_add(struct subnet_topology *topology, uint32_t count)
{
	const uint32_t total = topology->port_count + count;
	struct topology_port *ports = realloc(topology->ports, total * sizeof(*ports));

	if (!ports)
		return -ENOMEM;
	topology->ports = ports;
	for (; topology->port_count < total; topology->port_count++)
		ports[topology->port_count] = (struct topology_port){
			.peer_node = TOPOLOGY_NO_NODE,
			.width = WIDTH_UNLESS_GIVEN,
			.speed = TOPOLOGY_EDR,
		};
	return 0;
}

static int node_read(struct reading *reading, const struct topology_line *line)
{
	struct subnet_topology *topology = reading->topology;
	const struct values *values = &reading->values;
	struct topology_node *node;
	int error = node_check(reading, line);

	if (error)
		return error;
	node = &topology->nodes[topology->node_count];
	*node = (struct topology_node){
		.kind = line->node_kind,
		.port_count = (uint8_t)line->port,
		.first_port = topology->port_count,
		.line = reading->line,
		.vendor_id = (uint32_t)values->vendor_id & 0xffffff,
		.device_id = (uint16_t)values->device_id,
		.guid = values->guid,
		.system_guid = values->system_guid,
	};
	error = ports_add(topology, line->port);
	if (error)
		return error;
	text_copy(node->name, line->name);
	text_copy(node->description, line->description.bytes ? line->description : line->name);
	reading->node = topology->node_count++;
	*name_slot(reading, line->name) = topology->node_count;
	reading->values = (struct values){0};
	return 0;
}

static bool word_is(struct topology_word word, const char *text)
{
	return word.bytes == strlen(text) && memcmp(word.text, text, word.bytes) == 0;
}

/* Read a name=value line. Ignore other names: they say nothing about the subnet. */
static void value_read(struct reading *reading, const struct topology_line *line)
{
	struct values *values = &reading->values;

	if (word_is(line->name, "caguid") || word_is(line->name, "switchguid"))
		values->guid = line->value;
	else if (word_is(line->name, "sysimgguid"))
		values->system_guid = line->value;
	else if (word_is(line->name, "vendid"))
		values->vendor_id = line->value;
	else if (word_is(line->name, "devid"))
		values->device_id = line->value;
}

/* --- cables --- */

static struct topology_port *port_find(const struct reading *reading, uint32_t node, uint32_t port)
{
	const struct topology_node *at = &reading->topology->nodes[node];

	return port && port <= at->port_count ? &reading->topology->ports[at->first_port + port - 1]
					      : NULL;
}

static bool is_connected_to(const struct topology_port *end, uint32_t node, uint32_t port)
{
	return end->peer_node == node && end->peer_port == port;
}

static void cable_set_rate(
	struct topology_port *here, struct topology_port *there, const struct topology_line *line)
{
	if (line->width)
		here->width = there->width = (uint8_t)line->width;
	if (line->has_speed)
		here->speed = there->speed = line->speed;
}

static int cable_read(struct reading *reading, const struct topology_line *line)
{
	const uint32_t peer = *name_slot(reading, line->name);
	struct topology_port *here, *there;

	if (reading->node == TOPOLOGY_NO_NODE)
		return reading_fail(reading, "a cable stands below the line of its node", no_word);
	if (!peer)
		return reading_fail(reading, "there is no node named \"%s\"", line->name);
	here = port_find(reading, reading->node, line->port);
	there = port_find(reading, peer - 1, line->peer_port);
	if (!here)
		return reading_fail(reading, "the node does not have this port", no_word);
	if (!there)
		return reading_fail(reading, "node \"%s\" does not have this port", line->name);
	if (here == there)
		return reading_fail(reading, "a cable connects a port to itself", no_word);
	if (is_connected_to(here, peer - 1, line->peer_port)) {
		cable_set_rate(here, there, line);
	} else {
		if (here->peer_node != TOPOLOGY_NO_NODE)
			return reading_fail(reading, "the port has another cable", no_word);
		if (there->peer_node != TOPOLOGY_NO_NODE)
			return reading_fail(
				reading, "the port of node \"%s\" has another cable", line->name);
		here->peer_node = peer - 1;
		here->peer_port = (uint8_t)line->peer_port;
		there->peer_node = reading->node;
		there->peer_port = (uint8_t)line->port;
		cable_set_rate(here, there, line);
	}
	if (line->guid)
		here->guid = line->guid;
	if (line->peer_guid)
		there->guid = line->peer_guid;
	return 0;
}

/* --- the file --- */

/*
 * Read all lines for the nodes or for the cables. Cables are read in a second pass, because a cable
 * may name a later node.
 */
static int lines_read(struct reading *reading, bool is_for_cables)
{
	const char *at = reading->text;
	uint32_t node = 0;
	int error = 0;

	reading->line = 0;
	reading->node = TOPOLOGY_NO_NODE;
	while (!error && at < reading->end) {
		const char *end = memchr(at, '\n', (size_t)(reading->end - at));
		struct topology_line line;

		if (!end)
			end = reading->end;
		reading->line++;
		topology_line_parse(&line, at, (size_t)(end - at));
		at = end + (end < reading->end);
		switch (line.kind) {
		case TOPOLOGY_LINE_COMMENT:
			break;
		case TOPOLOGY_LINE_EMPTY:
			reading->node = TOPOLOGY_NO_NODE;
			break;
		case TOPOLOGY_LINE_WRONG:
			error = reading_fail(reading, line.why, no_word);
			break;
		case TOPOLOGY_LINE_VALUE:
			value_read(reading, &line);
			break;
		case TOPOLOGY_LINE_NODE:
			if (is_for_cables)
				reading->node = node++;
			else
				error = node_read(reading, &line);
			break;
		case TOPOLOGY_LINE_CABLE:
			if (is_for_cables)
				error = cable_read(reading, &line);
			break;
		}
	}
	return error;
}

/* Give GUIDs to nodes and ports that have none. */
static int guids_make(struct reading *reading)
{
	struct subnet_topology *topology = reading->topology;

	for (uint32_t i = 0; i < topology->node_count; i++) {
		struct topology_node *node = &topology->nodes[i];
		uint32_t *slot;

		if (!node->guid)
			node->guid = GUID_BASE | (uint64_t)(i + 1) << GUID_NODE_SHIFT;
		if (!node->system_guid)
			node->system_guid = node->guid;
		reading->line = node->line;
		slot = guid_slot(reading, node->guid);
		if (*slot)
			return reading_fail(
				reading, "another node has the GUID of this one", no_word);
		*slot = i + 1;
		for (uint32_t port = 1; port <= node->port_count; port++) {
			struct topology_port *at = &topology->ports[node->first_port + port - 1];

			if (!at->guid && node->kind == TOPOLOGY_CA)
				at->guid = node->guid + port;
		}
	}
	return 0;
}

static int reading_run(struct reading *reading)
{
	int error = lines_read(reading, false);

	if (!error && reading->topology->node_count == 0)
		error = reading_fail(reading, "there is no node in it", no_word);
	if (!error)
		error = lines_read(reading, true);
	return error ? error : guids_make(reading);
}

int subnet_topology_read(const char *text, size_t bytes, struct subnet_topology **ret_topology,
	uint32_t *ret_line, char why[TOPOLOGY_WHY_BYTES])
{
	struct reading reading = {
		.text = text,
		.end = text + bytes,
		.why = why,
		.topology = calloc(1, sizeof(*reading.topology)),
		.names = calloc(INDEX_SLOTS, sizeof(*reading.names)),
		.guids = calloc(INDEX_SLOTS, sizeof(*reading.guids)),
	};
	int error = -ENOMEM;

	if (reading.topology)
		reading.topology->nodes =
			calloc(TOPOLOGY_NODES_MAX, sizeof(*reading.topology->nodes));
	if (reading.topology && reading.topology->nodes && reading.names && reading.guids)
		error = reading_run(&reading);
	free(reading.names);
	free(reading.guids);
	if (error) {
		subnet_topology_destroy(reading.topology);
		*ret_line = reading.line;
		return error;
	}
	*ret_topology = reading.topology;
	return 0;
}

void subnet_topology_destroy(struct subnet_topology *topology)
{
	if (!topology)
		return;
	free(topology->nodes);
	free(topology->ports);
	free(topology);
}
