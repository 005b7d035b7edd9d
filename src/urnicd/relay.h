/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_RELAY_H
#define URNIC_URNICD_RELAY_H

/*
 * The relay of a system-wide urnicd: it keeps users apart.
 *
 * Any member of a SO_REUSEPORT group may replace the program that steers the group, or remove it,
 * and then packets of all slots reach that member. So a process of a user other than root never
 * gets a member. urnicd keeps the member of its slot, a thread reads it, and passes each datagram
 * on through a channel (port/udp_channel.h), which is the process's alone.
 *
 * The thread stops reading a member while its channel is half full, so a process that does not read
 * loses packets in the member's own queue, as it would with the socket in its own hands, and nobody
 * else's wait.
 *
 * The kernel may have merged packets for several slots of an address into one datagram, when their
 * sender used one source port. The thread then passes each on to the channel of its own slot, and
 * drops it where there is none.
 *
 * One thread calls. One lock guards the table. The thread takes it for one batch of one channel at
 * a time; callers are let in between two.
 */

#include <stdint.h>

#include "agent/agent_protocol.h"
#include "urnicd/group.h"

enum {
	RELAY_CHANNELS_MAX = 512,
	/* Asked for a channel; the kernel takes twice that, for its own share of each message */
	RELAY_BUFFER_BYTES = 1 << 20,
};

struct relay;

/* Create a relay without channels; its thread starts. Returns 0 or -errno. */
int relay_create(struct relay **ret_relay);

/* End the thread, close all channels. NULL is fine. */
void relay_destroy(struct relay *relay);

/*
 * Make a channel for (slot, address). One that was there before is closed.
 *
 * `member`      The slot's socket, of the group of this address; stays the caller's, open for as
 * long as the channel. `ret_ours`    urnicd's end, which stays the relay's. `ret_theirs`  The
 * process's end, which the caller owns.
 *
 * Returns 0, -ENOSPC when there are RELAY_CHANNELS_MAX, or another -errno.
 */
int relay_open(struct relay *relay, const struct agent_address *address, uint8_t slot, int member,
	int *ret_ours, int *ret_theirs);

/*
 * Go on with a channel that an earlier urnicd made. As relay_open(), but for `ours`: the relay's on
 * success, else the caller's. -EPIPE: nobody has the other end any more.
 */
int relay_adopt(struct relay *relay, const struct agent_address *address, uint8_t slot, int member,
	int ours);

/* Close all channels of a slot. Returns how many they were. */
uint32_t relay_close_slot(struct relay *relay, uint8_t slot);

/* How many channels are open. */
uint32_t relay_count(const struct relay *relay);

/* How many of them belong to these slots. */
uint32_t relay_count_of(const struct relay *relay, const struct agent_slots *slots);

/* Is this descriptor the relay's end of the channel of (slot, address), or a duplicate of it? */
bool relay_has(struct relay *relay, const struct agent_address *address, uint8_t slot, int fd);

/* Write what the relay has counted into urnicd's counters. */
void relay_count_up(struct relay *relay, struct agent_counters *counters);

#endif
