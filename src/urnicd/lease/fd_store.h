/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_FD_STORE_H
#define URNIC_URNICD_FD_STORE_H

/*
 * The fd store: a socket whose queue keeps other sockets open, with a label for each.
 *
 * A SO_REUSEPORT group must never lose a member: the kernel would move the last socket into the gap
 * and steer the packets of two slots wrongly. So each member also lies in the receive queue of one
 * unix datagram socket that is connected to itself, in SCM_RIGHTS messages with labels. Every
 * client has a duplicate of that socket. When urnicd is killed, the members stay open in the queue.
 * The next urnicd gets the fd store from a survivor. It reads the queue without emptying it
 * (MSG_PEEK with SO_PEEK_OFF), so a second death loses no socket either.
 *
 * A socket that is connected to itself accepts no messages of other sockets. Only the send buffer
 * limits its queue: some 270 messages by default, and twice as many with the buffer that
 * fd_store_create() requests. The kernel allows 253 descriptors in a message.
 *
 * Only a sweep removes messages. It moves each needed message from the queue's head to its end. An
 * urnicd that is killed during a sweep leaves one message twice, and the messages in another order.
 *
 * Only one urnicd at a time may use a fd store, because the peek offset belongs to the socket, not
 * to a descriptor.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_protocol.h"

enum {
	FD_STORE_DESCRIPTORS_MAX = PASSED_FDS_MAX, /* the most in one message */
};

enum fd_store_label_kind {
	FD_STORE_SOCKETS = 1, /* members of an address's group, in their order */
	FD_STORE_LEDGER = 2, /* urnicd/lease/ledger.h */
	FD_STORE_CHANNEL = 3, /* urnicd's end of a channel of the relay */
	/* No sockets. A sweep appends this mark when it begins, and ends at the mark. */
	FD_STORE_MARK = 4,
};

struct fd_store_label {
	uint32_t version; /* AGENT_VERSION */
	uint32_t kind; /* enum fd_store_label_kind */
	struct agent_address address;
	uint32_t first; /* number of the first socket among the members; or the slot of a channel */
	uint32_t count; /* sockets beside the label */
	uint32_t sweep; /* FD_STORE_MARK only: the number of the sweep */
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
 * Visit every message in order. The fd store does not change.
 *
 * `store`  Of any origin: messages without a legal label are skipped.
 *
 * Returns 0 or -errno.
 */
int fd_store_visit(int store, fd_store_visit_fn *visit, void *context);

/* Is the message still needed? `fds` stay the caller's. */
typedef bool fd_store_keep_fn(void *context, const struct fd_store_label *label, const int *fds);

/*
 * Remove the messages that are no longer needed, and those without a legal label.
 *
 * Returns 0 or -errno; after a failure some unneeded messages remain, but no needed one is lost.
 */
int fd_store_sweep(int store, fd_store_keep_fn *keep, void *context);

#endif
