/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_SLOT_H
#define URNIC_URNICD_SLOT_H

/*
 * The leases of slots. The functions are pure.
 *
 * urnicd draws a slot at random, so that an attacker who has seen no packet cannot guess the queue
 * pair numbers of a process. It does not draw the slots returned last while others are free,
 * because packets to their former owners may still arrive. For a minute after its return, urnicd
 * leases a slot to processes of its former user only. Slot 0 is urnicd's own and is never leased.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/agent_protocol.h"

enum {
	/* How many of the slots returned last are not drawn while others are free. */
	SLOT_RESTING_COUNT = 16,
	/* How long a returned slot is reserved for its user. Peers give up in that time. */
	SLOT_REST_MS = 60000,
};

enum slot_state {
	SLOT_FREE,
	SLOT_LEASED, /* by a client */
	SLOT_ORPHAN, /* leased when the last urnicd died; its process has not resumed it yet */
};

struct slot_lease {
	enum slot_state state;
	uint32_t client; /* index of the client, while leased */
	bool has_low_port; /* the process that leases the slot has had a port below 1024 */
	bool has_user; /* a process of `uid` leases or leased the slot */
	uid_t uid;
	uint64_t returned; /* sequence number of its return; 0: never returned */
	uint64_t returned_ms; /* time of its return, or of becoming an orphan */
};

struct slot_table {
	struct slot_lease leases[AGENT_SLOTS];
	uint64_t returns; /* number of returns so far */
};

/*
 * Lease a slot: a free one, drawn at random; else the free one that was returned longest ago; else
 * an orphan.
 *
 * `may_take_more`  Whether this user may have more slots than it has (slot_count_of()).
 * `random`         32 random bits.
 * `now_ms`         The time of any clock, but of the same clock in all calls.
 *
 * Returns the slot, or -ENOSPC.
 */
int slot_take(struct slot_table *table, uint32_t client, uid_t uid, bool may_take_more,
	uint32_t random, uint64_t now_ms);

/*
 * Lease a slot to the process that had it under the last urnicd. False: the slot is no orphan of
 * this user.
 */
bool slot_resume(struct slot_table *table, uint8_t slot, uint32_t client, uid_t uid);

/* Return a leased slot. */
void slot_return(struct slot_table *table, uint8_t slot, uint64_t now_ms);

/*
 * Mark a free slot as leased to a process of this user when the last urnicd died. `has_low_port`:
 * that process has had a port below 1024.
 */
void slot_orphan(
	struct slot_table *table, uint8_t slot, uid_t uid, bool has_low_port, uint64_t now_ms);

/*
 * The number of slots that this user leases or has returned less than SLOT_REST_MS ago, and the
 * number of slots that no user leases or has returned in that time.
 */
uint32_t slot_count_of(const struct slot_table *table, uid_t uid, uint64_t now_ms);
uint32_t slot_count_free(const struct slot_table *table, uint64_t now_ms);

#endif
