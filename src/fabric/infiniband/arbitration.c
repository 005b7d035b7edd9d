/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/infiniband/arbitration.h"

#include "fabric/infiniband/credit.h"

static bool entry_is_ready(const struct arbitration_entry *entry, uint16_t ready)
{
	return entry->weight && (ready >> entry->vl & 1);
}

/* The lanes of a table that may send. */
static uint16_t table_ready(const struct arbitration_table *table, uint16_t ready)
{
	uint16_t vls = 0;

	for (uint32_t i = 0; i < table->count; i++)
		if (entry_is_ready(&table->entries[i], ready))
			vls |= (uint16_t)(1u << table->entries[i].vl);
	return vls;
}

/* Choose the lane of an entry. At least one entry of the table is ready. */
static uint32_t table_choose(const struct arbitration_table *table, struct arbiter_turn *turn,
	uint16_t ready, const uint32_t *head_bytes)
{
	const struct arbitration_entry *entry = &table->entries[turn->entry];

	while (turn->left_blocks <= 0 || !entry_is_ready(entry, ready)) {
		turn->entry = (turn->entry + 1) % table->count;
		entry = &table->entries[turn->entry];
		turn->left_blocks = entry->weight;
	}
	turn->left_blocks -= (int32_t)credit_blocks(head_bytes[entry->vl]);
	return entry->vl;
}

/*
 * The high table has sent a packet. Its limit counts only while the low table has a packet: a low
 * table without one lets its chance pass, and the count begins again.
 */
static void high_count(struct arbiter *arbiter, uint32_t bytes, bool has_low)
{
	arbiter->high_bytes = has_low ? arbiter->high_bytes + bytes : 0;
	arbiter->is_high_over = has_low && arbiter->config->high_limit != ARBITRATION_UNLIMITED &&
		arbiter->high_bytes >=
			(uint32_t)arbiter->config->high_limit * ARBITRATION_LIMIT_BYTES;
}

uint32_t arbiter_choose(
	struct arbiter *arbiter, uint16_t ready, const uint32_t head_bytes[IB_VL_COUNT])
{
	const struct arbitration *config = arbiter->config;
	bool has_high = table_ready(&config->high, ready);
	bool has_low = table_ready(&config->low, ready);
	uint32_t vl;

	if (has_high && !(has_low && arbiter->is_high_over)) {
		vl = table_choose(&config->high, &arbiter->high, ready, head_bytes);
		high_count(arbiter, head_bytes[vl], has_low);
		return vl;
	}
	if (!has_low)
		return ARBITRATION_NONE;
	arbiter->high_bytes = 0;
	arbiter->is_high_over = false;
	return table_choose(&config->low, &arbiter->low, ready, head_bytes);
}
