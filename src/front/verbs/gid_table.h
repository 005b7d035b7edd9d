/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The GID table of a port.
 *
 * The table has no empty entries, because programs read the first entry, or all entries up to the
 * length of the table. When an interface loses an address, the entries behind it move up. A new
 * address comes last. Programs get IBV_EVENT_GID_CHANGE for each change. Queue pairs and address
 * handles contain the address, not its index, so a change of the table does not affect them. The
 * first gid_table_update() keeps the order of `gids`.
 *
 * The functions take no lock; the caller serializes the calls.
 */
#ifndef URNIC_FRONT_VERBS_GID_TABLE_H
#define URNIC_FRONT_VERBS_GID_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/gid.h"

/*
 * An interface rarely has more addresses; further addresses get no entry. Indexes must fit the 8
 * bits of sgid_index.
 */
#define GID_TABLE_LENGTH 32

/* A zeroed table is empty. */
struct gid_table {
	uint32_t count;
	struct gid gid[GID_TABLE_LENGTH];
};

/* Update the table from the existing addresses. Returns whether the table has changed. */
bool gid_table_update(struct gid_table *table, const struct gid *gids, size_t count);

/* The entry at `index`, which may be any number. NULL: there is none. */
const struct gid *gid_table_at(const struct gid_table *table, uint32_t index);

#endif
