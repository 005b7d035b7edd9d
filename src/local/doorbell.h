/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LOCAL_DOORBELL_H
#define URNIC_LOCAL_DOORBELL_H

/*
 * Doorbells: how other processes say that they have left something for a lane.
 *
 * A doorbell is the head of a ready list. What has something for the lane (a channel, a channel)
 * has a `struct ready`, by which it is on that list once, however often it rings. Any process
 * pushes; the owner takes the whole list at once. Offsets are those of the owner's NIC memory.
 *
 * Doorbell and `struct ready` lie on the peers' side of NIC memory (base/arena.h) and may say
 * anything: whoever walks the list checks each offset, and that what is there was ringing.
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
	uint64_t next_offset; /* of what is behind it there; 0: nothing */
};

/* Put what `ready` belongs to, which is at `offset`, on the list if it is not there. */
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

/* What is behind it on the list. It is to be read before ready_reset(). */
static inline uint64_t ready_next(const struct ready *ready)
{
	return READ_ONCE(ready->next_offset);
}

/*
 * It is off the list, and may ring again from here on: look at what it has after this. False when
 * it was not ringing, so the list is broken.
 */
static inline bool ready_reset(struct ready *ready)
{
	return atomic_exchange(&ready->is_rung, 0) != 0;
}

#endif
