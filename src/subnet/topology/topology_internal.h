/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SUBNET_TOPOLOGY_TOPOLOGY_INTERNAL_H
#define URNIC_SUBNET_TOPOLOGY_TOPOLOGY_INTERNAL_H

/*
 * The reader of topologies, in two parts: topology_line.c takes a line apart, topology.c makes
 * nodes and cables of the lines.
 */

#include <stdbool.h>

#include "subnet/topology/topology.h"

enum topology_line_kind {
	TOPOLOGY_LINE_EMPTY,
	TOPOLOGY_LINE_COMMENT,
	TOPOLOGY_LINE_VALUE, /* name=value */
	TOPOLOGY_LINE_NODE,
	TOPOLOGY_LINE_CABLE,
	TOPOLOGY_LINE_WRONG, /* `why` says what is wrong */
};

/* Part of a line. */
struct topology_word {
	const char *text;
	uint32_t bytes;
};

struct topology_line {
	enum topology_line_kind kind;
	const char *why;
	struct topology_word name; /* VALUE: its name; NODE: the node's; CABLE: the peer's */
	uint64_t value; /* VALUE */
	enum topology_node_kind node_kind; /* NODE */
	struct topology_word description; /* NODE; 0 bytes: none */
	uint32_t port; /* NODE: the number of ports; CABLE: the node's own port */
	uint32_t peer_port; /* CABLE */
	uint64_t guid; /* CABLE: of the own port; 0: not given */
	uint64_t peer_guid;
	uint32_t width; /* CABLE: in lanes; 0: not given */
	bool has_speed;
	enum topology_speed speed;
};

/* Take a line apart; `text` has no line break. */
void topology_line_parse(struct topology_line *line, const char *text, size_t bytes);

#endif
