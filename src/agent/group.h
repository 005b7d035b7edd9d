/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_AGENT_GROUP_H
#define URNIC_AGENT_GROUP_H

/*
 * The receive sockets of one local address: a SO_REUSEPORT group on (address, 4791), one per slot.
 *
 * A classic BPF program picks the socket by the top byte of the packet's destination QPN, which is
 * the slot. The kernel numbers sockets in the order in which they were bound, so they are opened
 * strictly in slot order, some at a time, and none is closed before all are. What is for a slot
 * that has no socket yet goes to slot 0, urnicd's own.
 *
 * The socket of a slot that nobody leases is barred: a filter drops what comes, so that nothing
 * queues up. The filter also tells a later urnicd which slots were free.
 */

#include <stdbool.h>
#include <stdint.h>

#include "runtime/agent_protocol.h"

enum { GROUP_STEP = 16 /* sockets opened, and put into the bag, at a time */ };

struct group {
	struct agent_address address;
	uint32_t count; /* sockets[count] and above are not open */
	int sockets[AGENT_SLOTS];
};

/* An address without sockets. */
void group_init(struct group *group, const struct agent_address *address);

/* Close all sockets. */
void group_done(struct group *group);

/* How many sockets group_grow() would open. */
uint32_t group_sockets_missing(const struct group *group, uint8_t slot);

/*
 * Open sockets, barred but for slot 0, until `slot` has one.
 *
 * `bag`  Where they are put as well.
 *
 * Returns 0; -EADDRINUSE when somebody else has the port, of whichever user; -EADDRNOTAVAIL when
 * the address is not this host's; or another -errno. Sockets opened so far stay, still in order.
 */
int group_grow(struct group *group, uint8_t slot, int bag);

/*
 * Take over sockets that an earlier urnicd opened.
 *
 * `fds`  `count` sockets; owned by the group on success, else by the caller.
 *
 * Returns false unless they continue the group, and each is a RoCEv2 socket of ours on its address.
 */
bool group_adopt(struct group *group, uint32_t first_slot, const int *fds, uint32_t count);

/*
 * After group_grow() said -EADDRINUSE: are they sockets of this very user that an earlier urnicd
 * opened, in the hands of a process that has not brought them back?
 */
bool group_has_survivors(const struct agent_address *address);

/* Is the socket barred? A filter of its owner's, which is longer than the bar's one instruction, is none. */
bool group_is_barred(const struct group *group, uint8_t slot);

/* Let nothing into a socket any more. Nothing happens if there is none. */
void group_bar(struct group *group, uint8_t slot);

/* Let packets in. `is_new_owner`: throw away what is queued, which was for another. */
void group_admit(struct group *group, uint8_t slot, bool is_new_owner);

#endif
