/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_LEDGER_H
#define URNIC_URNICD_LEDGER_H

/*
 * The ledger: the leases and the groups' tables, for the next urnicd.
 *
 * It is a memfd in the fd store. urnicd writes each change into it before it answers the request.
 * So a successor finds the leased slots, their users, and the slot of each member of each group.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_protocol.h"

enum { LEDGER_GROUPS_MAX = 64 };

/* A group's members by number; member 0 is slot 0's. */
struct ledger_group {
	struct agent_address address;
	uint32_t is_used; /* 0: the entry is empty */
	uint8_t slot_of_member[AGENT_SLOTS]; /* 0: no slot */
	uint8_t is_given[AGENT_SLOTS]; /* 1: a process has received the member */
};

enum ledger_lease_flags {
	LEDGER_LEASED = 1 << 0,
	LEDGER_LOW_PORT = 1 << 1, /* the process with the lease has claimed a port below 1024 */
};

struct ledger_lease {
	uint32_t flags; /* enum ledger_lease_flags */
	uint32_t uid;
};

struct ledger {
	uint32_t version; /* AGENT_VERSION */
	uint32_t generation; /* one more than the generation of the previous ledger */
	struct ledger_lease leases[AGENT_SLOTS];
	struct ledger_group groups[LEDGER_GROUPS_MAX];
};

/* Returns the descriptor of a new, empty ledger or -errno. */
int ledger_create(uint32_t generation);

/* Write one part of a ledger. */
void ledger_put_generation(int fd, uint32_t generation);
void ledger_put_lease(int fd, uint8_t slot, const struct ledger_lease *lease);
void ledger_put_group(int fd, uint32_t index, const struct ledger_group *group);

/*
 * Read a ledger of any origin. Returns false if it is not of our version. The caller checks its
 * entries.
 */
bool ledger_read(int fd, struct ledger *ret_ledger);

#endif
