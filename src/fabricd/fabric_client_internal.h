/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_FABRIC_CLIENT_INTERNAL_H
#define URNIC_FABRICD_FABRIC_CLIENT_INTERNAL_H

/* What the files of the fabric's client share. */

#include <pthread.h>

#include "fabricd/fabric_client.h"

struct fabric_client {
	int socket;
	pthread_mutex_t lock; /* one question at a time */
	struct attach_node node;
};

/*
 * Send a request and wait for its answer, which replaces it. `count` descriptors have to come along
 * with the answer. Returns 0, or -errno with a sentence in message->text.
 */
int fabric_client_ask(struct fabric_client *client, struct attach_message *message,
	int *ret_descriptors, uint32_t count);

#endif
