/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/gid_table.h"

#include <stddef.h>

static bool is_among(const struct gid *gid, const struct gid *gids, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (gid_is_equal(gid, &gids[i]))
			return true;
	return false;
}

static bool table_holds(const struct gid_table *table, const struct gid *gid)
{
	for (uint32_t i = 0; i < GID_TABLE_LENGTH; i++)
		if (table->is_used[i] && gid_is_equal(&table->gid[i], gid))
			return true;
	return false;
}

static void table_add(struct gid_table *table, const struct gid *gid)
{
	for (uint32_t i = 0; i < GID_TABLE_LENGTH; i++)
		if (!table->is_used[i]) {
			table->gid[i] = *gid;
			table->is_used[i] = true;
			return;
		}
}

void gid_table_update(struct gid_table *table, const struct gid *gids, size_t count)
{
	for (uint32_t i = 0; i < GID_TABLE_LENGTH; i++)
		table->is_used[i] = table->is_used[i] && is_among(&table->gid[i], gids, count);
	for (size_t i = 0; i < count; i++)
		if (!table_holds(table, &gids[i]))
			table_add(table, &gids[i]);
}

const struct gid *gid_table_at(const struct gid_table *table, uint32_t index)
{
	return index < GID_TABLE_LENGTH && table->is_used[index] ? &table->gid[index] : NULL;
}
