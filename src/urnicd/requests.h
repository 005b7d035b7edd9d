/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_REQUESTS_H
#define URNIC_URNICD_REQUESTS_H

#include <stdbool.h>

#include "urnicd/server.h"

/*
 * Read one message of a client and do what it says.
 *
 * Returns false when the connection has ended or must be cut.
 */
bool request_receive(struct server *server, struct client *client);

/* Handle the client's waiting request again. Returns false when the connection must be cut. */
bool request_retry(struct server *server, struct client *client);

#endif
