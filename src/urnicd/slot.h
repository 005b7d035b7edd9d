/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_SLOT_H
#define URNIC_URNICD_SLOT_H

/*
 * Who leases which slot. Pure.
 *
 * A slot is drawn at random, so that nobody who has not seen a packet can name the queue pair
 * numbers of a process. Slots that were given back just now are not drawn while there are others:
 * packets may still be under way to their former owners. For a minute no other user is given them
 * at all. Slot 0 is urnicd's and never in the table's gift.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/agent_protocol.h"

enum {
	SLOT_RESTING_COUNT = 16, /* given back last of all, and not drawn while there are others */
	SLOT_REST_MS = 60000, /* until then it stays its user's: peers have given up by then */
};

enum slot_state {
	SLOT_FREE,
	SLOT_LEASED, /* by a client */
	SLOT_ORPHAN, /* leased when the last urnicd died; its owner has not claimed it yet */
};

struct slot_lease {
	enum slot_state state;
	uint32_t client; /* index, while leased */
	bool has_user; /* was leased before, or is: by a process of `uid` */
	uid_t uid;
	uint64_t returned; /* sequence number of its return; 0: never used */
	uint64_t returned_ms; /* when; or when it became an orphan */
};

struct slot_table {
	struct slot_lease leases[AGENT_SLOTS];
	uint64_t returns; /* so far */
};

/*
 * Lease a slot: a free one, drawn; when none may be drawn, the free one that was returned longest
 * ago; then an orphan.
 *
 * `may_take_more`  Than the slots that are this user's already (slot_count_of()).
 * `random`         All 32 bits are.
 * `now_ms`         Of any clock, the same in all calls.
 *
 * Returns the slot, or -ENOSPC.
 */
int slot_take(struct slot_table *table, uint32_t client, uid_t uid, bool may_take_more,
	uint32_t random, uint64_t now_ms);

/*
 * Lease a certain slot to the process that had it under the last urnicd. False: it is no orphan of
 * this user's.
 */
bool slot_resume(struct slot_table *table, uint8_t slot, uint32_t client, uid_t uid);

/* The slot is no longer leased. */
void slot_return(struct slot_table *table, uint8_t slot, uint64_t now_ms);

/*
 * The slot was leased to a process of this user when the last urnicd died. Nothing happens unless
 * it is free.
 */
void slot_orphan(struct slot_table *table, uint8_t slot, uid_t uid, uint64_t now_ms);

/*
 * How many slots are this user's: leased, or given back less than SLOT_REST_MS ago; how many are
 * nobody's.
 */
uint32_t slot_count_of(const struct slot_table *table, uid_t uid, uint64_t now_ms);
uint32_t slot_count_free(const struct slot_table *table, uint64_t now_ms);

#endif
