/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_SERVER_FABRIC_SERVER_H
#define URNIC_FABRICD_SERVER_FABRIC_SERVER_H

/*
 * The process of an InfiniBand fabric: one subnet, and the processes that are attached to its
 * nodes. One thread serves them all; it never waits for a client.
 */

#include <stdbool.h>

#include "fabricd/attach_protocol.h"
#include "subnet/subnet.h"

struct fabric_server;

/*
 * Run a console's command.
 *
 * `text`  The command; the function may change it.
 * `why`   A sentence after a failure.
 *
 * Returns a memfd with the output, or -errno. -EAGAIN: the command waits for service levels, for
 * which the function has asked (server_internal.h); the server runs it again.
 */
typedef int fabric_console_fn(
	struct fabric_server *server, char *text, char why[ATTACH_TEXT_BYTES]);

struct fabric_server_settings {
	const char *name; /* the fabric's (fabricd/fabric_name.h) */
	fabric_console_fn *console; /* NULL: no command runs */
	bool is_unmanaged; /* the embedded subnet manager is off */
};

/*
 * Begin to listen for clients.
 *
 * `topology`  Copied.
 * `why`       A sentence after a failure.
 *
 * Returns 0; -EADDRINUSE when a fabric of this name runs; or another -errno.
 */
int fabric_server_create(const struct fabric_server_settings *settings,
	const struct subnet_topology *topology, struct fabric_server **ret_server,
	char why[ATTACH_TEXT_BYTES]);

/* Serve until SIGINT or SIGTERM. Returns 0 or -errno. */
int fabric_server_run(struct fabric_server *server);

/*
 * One turn of fabric_server_run(), which does not sleep, for a test. Returns whether frames flow,
 * or -errno.
 */
int fabric_server_turn(struct fabric_server *server);

void fabric_server_destroy(struct fabric_server *server);

#endif
