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

bool gid_table_update(struct gid_table *table, const struct gid *gids, size_t count)
{
	uint32_t kept = 0;
	bool has_changed;

	for (uint32_t i = 0; i < table->count; i++)
		if (is_among(&table->gid[i], gids, count))
			table->gid[kept++] = table->gid[i];
	has_changed = kept != table->count;
	table->count = kept;
	for (size_t i = 0; i < count && table->count < GID_TABLE_LENGTH; i++)
		if (!is_among(&gids[i], table->gid, table->count)) {
			table->gid[table->count++] = gids[i];
			has_changed = true;
		}
	return has_changed;
}

const struct gid *gid_table_at(const struct gid_table *table, uint32_t index)
{
	return index < table->count ? &table->gid[index] : NULL;
}
