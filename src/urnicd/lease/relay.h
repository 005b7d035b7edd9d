/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_RELAY_H
#define URNIC_URNICD_RELAY_H

/*
 * The relay of a system-wide urnicd, which isolates users from each other.
 *
 * The holder of any member of a SO_REUSEPORT group may replace the program that steers the group,
 * and so receive the packets of all slots. So a process of a user other than root never gets a
 * member. urnicd keeps the member of its slot. The relay's thread reads this member, and passes
 * each datagram on through a channel (port/udp/udp_channel.h), which belongs to that process alone.
 *
 * The thread stops reading a member while its channel is half full. A process that does not read
 * loses packets in the member's own queue, as with a socket of its own; other processes lose none.
 *
 * The kernel may merge packets for several slots of an address into one datagram, if their sender
 * used one source port. The thread then passes each packet on to the channel of its own slot, and
 * drops a packet whose slot has no channel.
 *
 * Only the server's thread calls these functions. One lock guards the table. The relay's thread
 * takes the lock for one batch of one channel at a time, and the caller gets it in between.
 */

#include <stdint.h>

#include "agent/agent_protocol.h"

enum {
	RELAY_CHANNELS_MAX = 512,
	/*
	 * The send buffer of a channel. The kernel doubles the value, to allow for its overhead per
	 * message.
	 */
	RELAY_BUFFER_BYTES = 1 << 20,
};

struct relay;

/* Create a relay without channels; its thread starts. Returns 0 or -errno. */
int relay_create(struct relay **ret_relay);

/* End the thread, close all channels. NULL is fine. */
void relay_destroy(struct relay *relay);

/*
 * Create a channel for (slot, address), and close an earlier one.
 *
 * `member`      The slot's socket in the group of this address. The caller keeps it open for as
 *               long as the channel.
 * `ret_ours`    urnicd's end, which stays the relay's.
 * `ret_theirs`  The process's end, which the caller owns.
 *
 * Returns 0; -ENOSPC when there are RELAY_CHANNELS_MAX channels; -EPERM without CAP_NET_ADMIN, for
 * the channel's buffer; or another -errno.
 */
int relay_open(struct relay *relay, const struct agent_address *address, uint8_t slot, int member,
	int *ret_ours, int *ret_theirs);

/*
 * Adopt a channel of an earlier urnicd. As relay_open(), except that `ours` becomes the relay's on
 * success and else stays the caller's. -EPIPE: the other end is closed.
 */
int relay_adopt(struct relay *relay, const struct agent_address *address, uint8_t slot, int member,
	int ours);

/* Close all channels of a slot. Returns their number. */
uint32_t relay_close_slot(struct relay *relay, uint8_t slot);

/* How many channels are open. */
uint32_t relay_count(const struct relay *relay);

/* How many open channels belong to `slots`. */
uint32_t relay_count_of(const struct relay *relay, const struct agent_slots *slots);

/* Is this descriptor the relay's end of the channel of (slot, address), or a duplicate of it? */
bool relay_has(struct relay *relay, const struct agent_address *address, uint8_t slot, int fd);

/* Copy the relay's counters into urnicd's. */
void relay_count_up(struct relay *relay, struct agent_counters *counters);

#endif
