/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_CLIENT_FABRIC_CLIENT_INTERNAL_H
#define URNIC_FABRICD_CLIENT_FABRIC_CLIENT_INTERNAL_H

/* What the files of the fabric's client share. */

#include <pthread.h>

#include "fabricd/client/fabric_client.h"
#include "fabricd/client/fabric_flows.h"

struct fabric_client {
	int socket;
	pthread_mutex_t lock; /* one request at a time */
	struct attach_node node;
};

/* A channel of frames. */
struct fabric_frames {
	struct fabric_client *client;
	struct attach_frames *shared;
	uint32_t lease;
	int wake_fabric; /* an eventfd */
	int wait_fd; /* readable when the channel is woken */
	int wake_self; /* a write to it makes wait_fd readable */
	bool is_waiting; /* between wait_begin and wait_end */
	bool has_put; /* `to_fabric` has got records since the last flush */
	struct flow_list out;
	struct flow_list in;
};

/*
 * Send a request and wait for its answer, which replaces it in *message. The answer has to carry
 * `count` descriptors. Returns 0, or -errno with a sentence in message->text.
 */
int fabric_client_ask(struct fabric_client *client, struct attach_message *message,
	int *ret_descriptors, uint32_t count);

/* The same for a request with a descriptor, and an answer without one. */
int fabric_client_give(
	struct fabric_client *client, struct attach_message *message, int descriptor);

/*
 * Map a memfd of the fabric, which has to have this size and may not shrink. Returns 0, -EPROTO, or
 * another -errno.
 */
int fabric_memory_map(int fd, size_t bytes, void **ret_memory);

#endif
