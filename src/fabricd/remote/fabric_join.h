/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_REMOTE_FABRIC_JOIN_H
#define URNIC_FABRICD_REMOTE_FABRIC_JOIN_H

/*
 * The process of a machine that has joined the fabric of another one (fabric_listen.h). It serves
 * programs as the fabric's own process does, by a struct fabric_server with some of the fabric's
 * hosts. The server's uplink leads to the listener.
 *
 * When the connection is lost, the ports of its hosts go down, and programs keep what they have.
 * The process tries to join again once a second.
 */

#include "fabricd/attach_protocol.h"
#include "fabricd/remote/remote_address.h"
#include "fabricd/remote/remote_key.h"
#include "fabricd/remote/remote_message.h"

struct fabric_join_settings {
	const char *name; /* of the fabric, on this machine */
	const struct remote_address *address; /* the listener's */
	const struct remote_key *key;
	const char *const *hosts; /* names, as the listener's fabric knows them */
	uint32_t host_count; /* 1 to REMOTE_HOSTS_MAX */
};

struct fabric_join;

/*
 * Join, within ten seconds, and begin to listen for programs. The settings are borrowed until
 * fabric_join_destroy(). Returns 0, or -errno with a sentence in `why`.
 */
int fabric_join_create(const struct fabric_join_settings *settings, struct fabric_join **ret_join,
	char why[ATTACH_TEXT_BYTES]);

/* Serve until SIGINT or SIGTERM. Returns 0, or -errno with a sentence in `why`. */
int fabric_join_run(struct fabric_join *join, char why[ATTACH_TEXT_BYTES]);

/* One turn, which does not sleep, for a test. Returns whether frames flow, or -errno. */
int fabric_join_turn(struct fabric_join *join);

void fabric_join_destroy(struct fabric_join *join);

#endif
