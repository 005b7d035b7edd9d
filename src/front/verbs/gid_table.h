/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The GID table of a port.
 *
 * It has no empty entries: programs take the first one, or all of them up to the length that the
 * port states. So the entries behind an address that goes move up, and a new address comes last;
 * the others keep their order, and those before keep their index. Programs hear of each change
 * (IBV_EVENT_GID_CHANGE). What was made of an entry holds the address and not the index: a queue
 * pair or an address handle goes on as before. The first filling keeps the order it is given.
 *
 * Plain data; the caller serializes.
 */
#ifndef URNIC_FRONT_VERBS_GID_TABLE_H
#define URNIC_FRONT_VERBS_GID_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/gid.h"

/*
 * One interface rarely has more addresses; those beyond are not offered. An index fits the 8 bits
 * of sgid_index.
 */
#define GID_TABLE_LENGTH 32

/* Zeroed, it is an empty table. */
struct gid_table {
	uint32_t count;
	struct gid gid[GID_TABLE_LENGTH];
};

/* Bring the table in line with the addresses that exist now. Returns whether it changed. */
bool gid_table_update(struct gid_table *table, const struct gid *gids, size_t count);

/* The entry at `index`, any number; NULL when there is none. */
const struct gid *gid_table_at(const struct gid_table *table, uint32_t index);

#endif
