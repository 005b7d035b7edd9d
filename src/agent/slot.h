/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_AGENT_SLOT_H
#define URNIC_AGENT_SLOT_H

/*
 * Who leases which slot.
 *
 * A slot that was given back is reused last of all free ones, so that packets still under way to
 * its former owner meet nobody. A slot stays with the user who had it first as long as urnicd
 * runs: that user's processes may still hold its sockets. Slot 0 is urnicd's and never in the
 * table's gift.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/agent_protocol.h"

enum slot_state {
	SLOT_FREE,
	SLOT_LEASED, /* by a client */
	SLOT_ORPHAN, /* leased when the last urnicd died; its owner has not claimed it yet */
};

struct slot_lease {
	enum slot_state state;
	uint32_t client; /* index, while leased */
	bool has_user;
	uid_t uid;
	uint64_t returned; /* sequence number of its return; 0: never used */
};

struct slot_table {
	struct slot_lease leases[AGENT_SLOTS];
	uint64_t returns; /* so far */
};

/*
 * Lease a slot: the free one that was returned longest ago; when none is free, an orphan.
 *
 * Returns the slot, or -ENOSPC.
 */
int slot_take(struct slot_table *table, uint32_t client, uid_t uid);

/*
 * Lease a certain slot to the process that had it under the last urnicd.
 *
 * Returns false when another client has it, or it is another user's.
 */
bool slot_claim(struct slot_table *table, uint8_t slot, uint32_t client, uid_t uid);

/* The slot is no longer leased. */
void slot_return(struct slot_table *table, uint8_t slot);

/* The slot was leased when the last urnicd died. Nothing happens unless it is free. */
void slot_orphan(struct slot_table *table, uint8_t slot);

/* The slot belongs to a user, as an earlier urnicd wrote down. The first word counts. */
void slot_assign_user(struct slot_table *table, uint8_t slot, uid_t uid);

#endif
