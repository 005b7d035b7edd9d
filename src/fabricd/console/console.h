/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The console of a fabric (urnic fabric console): what the fabric's process answers to a command.
 * The server calls console_run() through its settings. The commands look at the server's objects,
 * so they run in its thread.
 */
#ifndef URNIC_FABRICD_CONSOLE_CONSOLE_H
#define URNIC_FABRICD_CONSOLE_CONSOLE_H

#include "fabricd/server/fabric_server.h"

/* Run a command: a fabric_console_fn. */
int console_run(struct fabric_server *server, char *text, char why[ATTACH_TEXT_BYTES]);

#endif
