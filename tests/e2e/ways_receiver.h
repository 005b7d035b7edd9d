/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_E2E_WAYS_RECEIVER_H
#define URNIC_TESTS_E2E_WAYS_RECEIVER_H

/*
 * The receiving half of an end's XRC connections, in a process of its own: the end itself has the
 * sending half, and the shared receive queue that the other end names. Both open the domain by one
 * file.
 */

#include "xrc_halves.h"

struct ways_receiver {
	int domain; /* the file */
	int socket;
	int process;
};

/* What it shows. */
struct ways_receiver_state {
	enum ibv_qp_state state;
	unsigned events[IBV_EVENT_WQ_FATAL + 1]; /* since this was asked for last */
};

/* Before the device is opened. */
void ways_receiver_start(struct ways_receiver *receiver, const struct peer_options *options);
void ways_receiver_stop(struct ways_receiver *receiver);

/* Make the queue pair, which returns its number; bring it to RTS; and destroy it. One at a time. */
uint32_t ways_receiver_make(struct ways_receiver *receiver);
void ways_receiver_connect(struct ways_receiver *receiver, const struct xrc_link *link);
void ways_receiver_unmake(struct ways_receiver *receiver);

/* Take its remote rights away. */
void ways_receiver_restrict(struct ways_receiver *receiver);

struct ways_receiver_state ways_receiver_show(struct ways_receiver *receiver);

#endif
