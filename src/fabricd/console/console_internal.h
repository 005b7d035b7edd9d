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

/* --- console_explain.c --- */

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

/* --- console_json.c --- */

/* Print the nodes, their ports and counters. */
void console_json_print(const struct fabric_server *server, FILE *out);

#endif
