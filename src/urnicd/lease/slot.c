/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/lease/slot.h"

#include <assert.h>
#include <errno.h>

/* Does a user have the slot: leased, or returned less than SLOT_REST_MS ago? */
static bool is_bound(const struct slot_lease *lease, uint64_t now_ms)
{
	return lease->state == SLOT_LEASED ||
		(lease->has_user && now_ms - lease->returned_ms < SLOT_REST_MS);
}

static bool is_available(
	const struct slot_lease *lease, uid_t uid, bool may_take_more, uint64_t now_ms)
{
	if (lease->state == SLOT_LEASED)
		return false;
	return is_bound(lease, now_ms) ? lease->uid == uid : may_take_more;
}

/* May the slot be drawn: is it free, and not among those returned last? */
static bool is_rested(const struct slot_table *table, const struct slot_lease *lease)
{
	return lease->state == SLOT_FREE &&
		(lease->returned == 0 || table->returns - lease->returned >= SLOT_RESTING_COUNT);
}

/* Of two slots that may not be drawn: does slot_take() prefer `a` to `b`? */
static bool is_before(const struct slot_lease *a, const struct slot_lease *b)
{
	if (a->state != b->state)
		return a->state == SLOT_FREE;
	return a->returned < b->returned;
}

static void lease_to(struct slot_lease *lease, uint32_t client, uid_t uid)
{
	lease->state = SLOT_LEASED;
	lease->client = client;
	lease->has_user = true;
	lease->uid = uid;
}

int slot_take(struct slot_table *table, uint32_t client, uid_t uid, bool may_take_more,
	uint32_t random, uint64_t now_ms)
{
	int rested[AGENT_SLOTS];
	uint32_t count = 0;
	int best = 0;

	for (int slot = 1; slot < AGENT_SLOTS; slot++) {
		const struct slot_lease *lease = &table->leases[slot];

		if (!is_available(lease, uid, may_take_more, now_ms))
			continue;
		if (is_rested(table, lease))
			rested[count++] = slot;
		if (best == 0 || is_before(lease, &table->leases[best]))
			best = slot;
	}
	if (count > 0)
		best = rested[random % count];
	if (best == 0)
		return -ENOSPC;
	lease_to(&table->leases[best], client, uid);
	table->leases[best].has_low_port = false;
	return best;
}

bool slot_resume(struct slot_table *table, uint8_t slot, uint32_t client, uid_t uid)
{
	struct slot_lease *lease = &table->leases[slot];

	if (lease->state != SLOT_ORPHAN || lease->uid != uid)
		return false;
	lease_to(lease, client, uid);
	return true;
}

void slot_return(struct slot_table *table, uint8_t slot, uint64_t now_ms)
{
	struct slot_lease *lease = &table->leases[slot];

	assert(lease->state == SLOT_LEASED);
	lease->state = SLOT_FREE;
	lease->returned = ++table->returns;
	lease->returned_ms = now_ms;
}

void slot_orphan(
	struct slot_table *table, uint8_t slot, uid_t uid, bool has_low_port, uint64_t now_ms)
{
	struct slot_lease *lease = &table->leases[slot];

	if (slot == 0 || lease->state != SLOT_FREE)
		return;
	lease->state = SLOT_ORPHAN;
	lease->has_low_port = has_low_port;
	lease->has_user = true;
	lease->uid = uid;
	lease->returned_ms = now_ms;
}

uint32_t slot_count_of(const struct slot_table *table, uid_t uid, uint64_t now_ms)
{
	uint32_t count = 0;

	for (int slot = 1; slot < AGENT_SLOTS; slot++)
		count += is_bound(&table->leases[slot], now_ms) && table->leases[slot].uid == uid;
	return count;
}

uint32_t slot_count_free(const struct slot_table *table, uint64_t now_ms)
{
	uint32_t count = 0;

	for (int slot = 1; slot < AGENT_SLOTS; slot++)
		count += !is_bound(&table->leases[slot], now_ms);
	return count;
}
