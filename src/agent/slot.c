/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/slot.h"

#include <assert.h>
#include <errno.h>

static bool is_available(const struct slot_lease *lease, uid_t uid)
{
	return lease->state != SLOT_LEASED && (!lease->has_user || lease->uid == uid);
}

/* Is `a` to be leased before `b`? */
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

int slot_take(struct slot_table *table, uint32_t client, uid_t uid)
{
	int best = 0;

	for (int slot = 1; slot < AGENT_SLOTS; slot++) {
		if (is_available(&table->leases[slot], uid) &&
			(best == 0 || is_before(&table->leases[slot], &table->leases[best])))
			best = slot;
	}
	if (best == 0)
		return -ENOSPC;
	lease_to(&table->leases[best], client, uid);
	return best;
}

bool slot_claim(struct slot_table *table, uint8_t slot, uint32_t client, uid_t uid)
{
	struct slot_lease *lease = &table->leases[slot];

	if (slot == 0 || !is_available(lease, uid))
		return false;
	lease_to(lease, client, uid);
	return true;
}

void slot_return(struct slot_table *table, uint8_t slot)
{
	struct slot_lease *lease = &table->leases[slot];

	assert(lease->state == SLOT_LEASED);
	lease->state = SLOT_FREE;
	lease->returned = ++table->returns;
}

void slot_orphan(struct slot_table *table, uint8_t slot)
{
	struct slot_lease *lease = &table->leases[slot];

	if (slot != 0 && lease->state == SLOT_FREE)
		lease->state = SLOT_ORPHAN;
}

void slot_assign_user(struct slot_table *table, uint8_t slot, uid_t uid)
{
	struct slot_lease *lease = &table->leases[slot];

	if (lease->has_user)
		return;
	lease->has_user = true;
	lease->uid = uid;
}
