/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_CONSOLE_CONSOLE_INTERNAL_H
#define URNIC_FABRICD_CONSOLE_CONSOLE_INTERNAL_H

/* What the files of the console share. */

#include <stdint.h>
#include <stdio.h>

#include "fabricd/server/server_internal.h"

/* --- console.c --- */

/* A node's name in the topology. */
const char *console_node_name(const struct fabric_server *server, uint32_t node);
/* "SDR" and so on. */
const char *console_speed_name(enum topology_speed speed);

/* --- console_paths.c --- */

enum { CONSOLE_GROUPS_MAX = 16 };

/* Paths between hosts that end at one place for one reason. `node` and `port` are of the first. */
struct console_group {
	enum subnet_route_end end;
	uint32_t node;
	uint32_t port;
	uint32_t count;
	uint32_t from;
	uint32_t to;
};

/* The paths between the active ports of all hosts. */
struct console_paths {
	uint32_t count;
	uint32_t unreached; /* those that do not arrive */
	uint32_t unknown; /* those of which the subnet administrator has no record */
	uint16_t levels; /* the service levels of all, a bit for each */
	uint32_t group_count;
	struct console_group groups[CONSOLE_GROUPS_MAX]; /* of the unreached paths */
};

/* Look up all paths. The server knows the service levels (service_levels_ask()). */
void console_paths_try(const struct fabric_server *server, struct console_paths *ret_paths);
/* A P_Key by which the first port may reach the second one; else the first port's own. */
uint16_t console_pkey_choose(
	const struct subnet_port_view *from, const struct subnet_port_view *to);
/* The lowest service level of which `levels` has the bit; 0: it has none. */
uint8_t console_level_lowest(uint16_t levels);
/* Where a route ends that does not arrive: the port that should send or receive the packet. */
void console_end_place(const struct subnet_route *route, uint32_t *ret_node, uint32_t *ret_port);

/* --- console_explain.c --- */

/* Why a port of a host is not active. */
const char *console_why_not_active(const struct subnet_port_view *view);

enum { CONSOLE_SL_OF_PATH = 16 };

/*
 * Print which ports and paths do not work, credit loops, drops and slow ports, with the reasons.
 * The server knows the service levels (service_levels_ask()).
 */
void console_explain(const struct fabric_server *server, FILE *out);
/*
 * Print the path of packets from a host's port to another one's, and where and why it ends.
 *
 * `sl`  The packets' service level. CONSOLE_SL_OF_PATH: that of the path, if the server knows the
 *       service levels.
 */
void console_explain_path(const struct fabric_server *server, uint32_t from, uint32_t from_port,
	uint32_t to, uint32_t to_port, uint32_t sl, FILE *out);

/* --- console_explain_json.c --- */

/* Print what console_explain() prints, without counters. The server knows the service levels. */
void console_explain_json(const struct fabric_server *server, FILE *out);

/* --- console_json.c --- */

/* Print a string in quotation marks. What is not printable ASCII becomes '?'. */
void console_json_string(FILE *out, const char *text);
/* Print the nodes, their ports and counters. */
void console_json_print(const struct fabric_server *server, FILE *out);

/* --- console_scenario.c --- */

/* Two hosts whose ports are active, without a way between them. */
struct console_split {
	uint32_t from;
	uint32_t to;
};

/*
 * Print the subnet as a scenario of `urnic sim` (docs/fabric.md). Service levels are known. Returns
 * 0; -ENOMEM; or -ENETUNREACH and a split, because `urnic sim` runs networks in one part.
 */
int console_scenario_print(
	const struct fabric_server *server, FILE *out, struct console_split *ret_split);

#endif
