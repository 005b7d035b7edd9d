/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LOCAL_DOORBELL_H
#define URNIC_LOCAL_DOORBELL_H

/*
 * Doorbells tell a lane which request channels have something to collect. Other processes ring
 * them.
 *
 * A doorbell is the head of a lane's ready list. Each request channel (local/channel/channel.h) has
 * a `struct ready`, its link in the list. The channel is on the list at most once, however often
 * its initiator rings. Any process may add a channel; the owner takes the whole list in one step.
 * Offsets are in the owner's NIC memory.
 *
 * Doorbell and `struct ready` lie on the peers' side of NIC memory (base/arena.h), so a hostile
 * process may write anything there. The owner checks each offset on the list, and checks that
 * `is_rung` is set in the channel at that offset.
 */

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/once.h"

struct doorbell {
	_Atomic uint64_t first_offset; /* the first channel on the ready list; 0: it is empty */
	uint64_t reserved[7];
};

static_assert(sizeof(struct doorbell) == 64, "a cache line of its own");

struct ready {
	_Atomic uint32_t is_rung; /* the channel is on the list, or a process is adding it */
	uint32_t reserved;
	uint64_t next_offset; /* the next channel on the list; 0: this is the last one */
};

/* Put the channel at `offset`, to which `ready` belongs, on the list if it is not there. */
static inline void doorbell_ring(struct doorbell *doorbell, struct ready *ready, uint64_t offset)
{
	uint64_t first;

	if (atomic_exchange(&ready->is_rung, 1))
		return;
	first = atomic_load_explicit(&doorbell->first_offset, memory_order_relaxed);
	do {
		ready->next_offset = first;
	} while (!atomic_compare_exchange_weak(&doorbell->first_offset, &first, offset));
}

/* Is any channel on the list? The answer is a hint, because the list may change at any moment. */
static inline bool doorbell_is_rung(const struct doorbell *doorbell)
{
	return atomic_load_explicit(&doorbell->first_offset, memory_order_relaxed) != 0;
}

/* For the owner: take the list. Returns its first offset, unchecked; 0: the list was empty. */
static inline uint64_t doorbell_take(struct doorbell *doorbell)
{
	return doorbell_is_rung(doorbell) ? atomic_exchange(&doorbell->first_offset, 0) : 0;
}

/* The offset of the next channel on the list. Read it before ready_reset(). */
static inline uint64_t ready_next(const struct ready *ready)
{
	return READ_ONCE(ready->next_offset);
}

/*
 * The owner has taken the channel off the list. From this call on, its initiator may ring again.
 * The owner collects from the channel after this call. Returns false when `is_rung` was not set;
 * then the list is not valid.
 */
static inline bool ready_reset(struct ready *ready)
{
	return atomic_exchange(&ready->is_rung, 0) != 0;
}

#endif
