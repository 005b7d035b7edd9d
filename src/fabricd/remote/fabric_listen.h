/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_REMOTE_FABRIC_LISTEN_H
#define URNIC_FABRICD_REMOTE_FABRIC_LISTEN_H

/*
 * The process by which other machines join a fabric. It runs beside the fabric's own process. For
 * each of a machine's hosts it is a client of the fabric that has taken the host
 * (ATTACH_HOST_TAKE), and passes frames between this client's channel and the machine. One thread
 * serves all machines.
 */

#include "fabricd/attach_protocol.h"
#include "fabricd/remote/remote_address.h"
#include "fabricd/remote/remote_key.h"

struct fabric_listen_settings {
	const char *name; /* the fabric's */
	const struct remote_address *address;
	const struct remote_key *key;
};

struct fabric_listen;

/*
 * Begin to listen. The settings are borrowed until fabric_listen_destroy(). Returns 0, or -errno
 * with a sentence in `why`.
 */
int fabric_listen_create(const struct fabric_listen_settings *settings,
	struct fabric_listen **ret_listen, char why[ATTACH_TEXT_BYTES]);

/* Serve until SIGINT or SIGTERM. Returns 0; or -errno: -ECONNRESET: the fabric has ended. */
int fabric_listen_run(struct fabric_listen *listen);

/* One turn, which does not sleep, for a test. Returns whether frames flow, or -errno. */
int fabric_listen_turn(struct fabric_listen *listen);

void fabric_listen_destroy(struct fabric_listen *listen);

#endif
