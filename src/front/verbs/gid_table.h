/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The GID table of a port.
 *
 * Programs hold indices into it for as long as they run, so an entry keeps its index while its address exists: an address that
 * goes leaves an empty entry, a new one takes the first empty entry. The first filling keeps the order it is given.
 * Plain data; the caller serializes.
 */
#ifndef URNIC_FRONT_VERBS_GID_TABLE_H
#define URNIC_FRONT_VERBS_GID_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/gid.h"

/* One interface rarely has more addresses; those beyond are not offered. An index fits the 8 bits of sgid_index. */
#define GID_TABLE_LENGTH 32

/* Zeroed, it is an empty table. */
struct gid_table {
	struct gid gid[GID_TABLE_LENGTH];
	bool is_used[GID_TABLE_LENGTH];
};

/* Bring the table in line with the addresses that exist now. */
void gid_table_update(struct gid_table *table, const struct gid *gids, size_t count);

/* The entry at `index`, any number; NULL when there is none. */
const struct gid *gid_table_at(const struct gid_table *table, uint32_t index);

#endif
