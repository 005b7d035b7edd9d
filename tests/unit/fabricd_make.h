/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests: the server of a fabric's process, without its loop. */
#ifndef URNIC_TESTS_FABRICD_MAKE_H
#define URNIC_TESTS_FABRICD_MAKE_H

#include <string.h>

#include "fabricd/server/fabric_server.h"

/* `topology` is ibnetdiscover's output. `console` may be NULL. Returns NULL if it fails. */
static inline struct fabric_server *fabricd_make(
	const char *name, const char *topology, fabric_console_fn *console)
{
	struct fabric_server_settings settings = {.name = name, .console = console};
	char why[ATTACH_TEXT_BYTES], topology_why[TOPOLOGY_WHY_BYTES];
	struct subnet_topology *read;
	struct fabric_server *server = NULL;
	uint32_t line;

	if (subnet_topology_read(topology, strlen(topology), &read, &line, topology_why))
		return NULL;
	if (fabric_server_create(&settings, read, &server, why))
		server = NULL;
	subnet_topology_destroy(read);
	return server;
}

#endif
