/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LOCAL_DOORBELL_H
#define URNIC_LOCAL_DOORBELL_H

/*
 * Doorbells: how other processes say that they have left something for a lane.
 *
 * A doorbell is the head of a lane's ready list. Each request channel (local/channel/channel.h) has
 * a `struct ready`, which is on a list at most once, however often the channel rings. Any process
 * pushes; the owner takes the whole list at once. Offsets are those of the owner's NIC memory.
 *
 * Doorbell and `struct ready` lie on the peers' side of NIC memory (base/arena.h), so a hostile
 * process may write anything there. The owner checks each offset on the list, and that the channel
 * at that offset was ringing.
 */

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/once.h"

struct doorbell {
	_Atomic uint64_t first_offset; /* of the ready list; 0: it is empty */
	uint64_t reserved[7];
};

static_assert(sizeof(struct doorbell) == 64, "a cache line of its own");

struct ready {
	_Atomic uint32_t is_rung; /* it is, or is about to be, on the list */
	uint32_t reserved;
	uint64_t next_offset; /* of the next channel on the list; 0: it is the last */
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

/* Is something on the list? A hint. */
static inline bool doorbell_is_rung(const struct doorbell *doorbell)
{
	return atomic_load_explicit(&doorbell->first_offset, memory_order_relaxed) != 0;
}

/* For the owner: take the list. Returns its first offset, any value; 0: it was empty. */
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
 * The channel is off the list and may ring again: collect from it after this call. Returns false
 * when the channel was not ringing, so the list is broken.
 */
static inline bool ready_reset(struct ready *ready)
{
	return atomic_exchange(&ready->is_rung, 0) != 0;
}

#endif
