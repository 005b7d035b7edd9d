/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_FD_STORE_H
#define URNIC_URNICD_FD_STORE_H

/*
 * The fd store: a socket that keeps other sockets alive, and tells a later urnicd which they are.
 *
 * A SO_REUSEPORT group must never lose a member: the kernel moves its last socket into the hole,
 * and from then on steers two slots' packets wrongly. So every member also sits in the receive
 * queue of one unix datagram socket that is connected to itself, in SCM_RIGHTS messages, each with
 * a label. Every client holds a duplicate of that one descriptor. When urnicd is killed the
 * members live on in the queue; the next urnicd gets the fd store from a survivor and reads it
 * without emptying it (MSG_PEEK with SO_PEEK_OFF), so that a second death loses nothing either.
 *
 * Being connected to itself, the socket takes messages from nobody else, and no limit on its
 * queue's length applies but the send buffer: some 270 messages of up to 253 descriptors by
 * default, twice that with the buffer asked for here.
 *
 * Messages leave it only in a sweep, which moves those that are still needed from the queue's head
 * to its end, one by one. An urnicd that is killed in the middle leaves one message twice, and all
 * of them in another order.
 *
 * For one urnicd at a time: the peek offset belongs to the socket, not to a descriptor.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_protocol.h"

enum {
	FD_STORE_DESCRIPTORS_MAX = PASSED_FDS_MAX, /* in one message */
};

enum fd_store_label_kind {
	FD_STORE_SOCKETS = 1, /* members of an address's group, in their order */
	FD_STORE_LEDGER = 2, /* urnicd/ledger.h */
	FD_STORE_CHANNEL = 3, /* urnicd's end of a channel of the relay */
	FD_STORE_MARK = 4, /* of fd_store_sweep(): to where it has come; no sockets */
};

struct fd_store_label {
	uint32_t version; /* AGENT_VERSION */
	uint32_t kind; /* enum fd_store_label_kind */
	struct agent_address address;
	uint32_t first; /* number of the first socket among the members; or the slot of a channel */
	uint32_t count; /* sockets beside the label */
	uint32_t sweep; /* FD_STORE_MARK only: which */
};

/* Returns a new, empty fd store or -errno. */
int fd_store_create(void);

/*
 * Add a message. The fd store holds duplicates: `fds` stay the caller's.
 *
 * Returns 0, -ENOSPC when the fd store is full, -EMFILE when more sockets are in flight than
 * RLIMIT_NOFILE allows, or another -errno.
 */
int fd_store_put(int store, const struct fd_store_label *label, const int *fds);

/* `fds`: `label->count` new descriptors, owned by the callee. */
typedef void fd_store_visit_fn(void *context, const struct fd_store_label *label, const int *fds);

/*
 * Visit every message in order, leaving the fd store as it is.
 *
 * `store`  From anywhere: what is not labelled as ours is skipped.
 *
 * Returns 0 or -errno.
 */
int fd_store_visit(int store, fd_store_visit_fn *visit, void *context);

/* Is the message still needed? `fds` stay the caller's. */
typedef bool fd_store_keep_fn(void *context, const struct fd_store_label *label, const int *fds);

/*
 * Throw away the messages that are no longer needed, and all that are not labelled as ours.
 *
 * Returns 0 or -errno: then some that are not needed are still there, and nothing is lost.
 */
int fd_store_sweep(int store, fd_store_keep_fn *keep, void *context);

#endif
