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

/* Paths between hosts that end at one place for one reason, and the first of them. */
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
	struct console_group groups[CONSOLE_GROUPS_MAX]; /* of unreached ones */
};

/* Look up all paths. Service levels are known (service_levels_ask()). */
void console_paths_try(const struct fabric_server *server, struct console_paths *ret_paths);
/* A P_Key by which the first port may reach the second one; else the first port's own. */
uint16_t console_pkey_choose(
	const struct subnet_port_view *from, const struct subnet_port_view *to);
/* The lowest one of some service levels; 0: there is none. */
uint8_t console_level_lowest(uint16_t levels);
/* Where a route ends that does not arrive: at the port that would have sent, or received. */
void console_end_place(const struct subnet_route *route, uint32_t *ret_node, uint32_t *ret_port);

/* --- console_explain.c --- */

/* Why a port of a host is not active. */
const char *console_why_not_active(const struct subnet_port_view *view);

enum { CONSOLE_SL_OF_PATH = 16 };

/*
 * Print which ports and paths do not work, credit loops, drops and slow ports, with the reasons.
 * Service levels are known (service_levels_ask()).
 */
void console_explain(const struct fabric_server *server, FILE *out);
/*
 * Print the path of packets from a host's port to another one's, and where and why it ends.
 *
 * `sl`  The packets' service level; CONSOLE_SL_OF_PATH: the one that the path has. Then service
 *       levels are known.
 */
void console_explain_path(const struct fabric_server *server, uint32_t from, uint32_t from_port,
	uint32_t to, uint32_t to_port, uint32_t sl, FILE *out);

/* --- console_explain_json.c --- */

/* Print what console_explain() does, without counters. Service levels are known. */
void console_explain_json(const struct fabric_server *server, FILE *out);

/* --- console_json.c --- */

/* Print a string in quotation marks. What is not printable ASCII becomes '?'. */
void console_json_string(FILE *out, const char *text);
/* Print the nodes, their ports and counters. */
void console_json_print(const struct fabric_server *server, FILE *out);

/* --- console_scenario.c --- */

/*
 * Print the subnet as a scenario of `urnic sim` (docs/fabric.md). Service levels are known. Returns
 * 0, or -ENOMEM.
 */
int console_scenario_print(const struct fabric_server *server, FILE *out);

#endif
