/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that wait for completions, and what a peer on this host has to do to wake them.
 *
 * A waiter is a thread that waits for an event of a completion channel. While it polls, it collects
 * by itself what peers leave for the channel's queues. A peer that has left something for an armed
 * queue then reads `state`. A polling waiter needs nothing more; a sleeping one is woken; without a
 * waiter the peer wakes the lane's thread.
 *
 * The waiter looks once more before it sleeps and after it has gone. Each side writes before it
 * reads the other's word (sequentially consistent), so at least one side sees the other's write.
 *
 * The table lies in NIC memory. Its entries are never recycled, so a late wake-up is merely
 * spurious.
 */
#ifndef URNIC_QUEUE_WAITER_H
#define URNIC_QUEUE_WAITER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

enum waiter_state {
	WAITER_NONE,
	WAITER_POLLS,
	WAITER_SLEEPS, /* on a futex: waiter_wakes() */
};

struct waiter {
	_Atomic uint32_t state; /* enum waiter_state; the owner writes it */
	uint32_t reserved[15];
};

/* In a process. Number 0 means that a channel has no waiter. */
enum { WAITER_COUNT = 256 };

struct waiter_table {
	struct waiter waiter[WAITER_COUNT];
};

/* On the peers' side (base/arena.h): the count of wake-ups. A futex; any process writes it. */
static inline _Atomic uint32_t *waiter_wakes(const struct waiter *waiter)
{
	return (_Atomic uint32_t *)arena_peers_side(waiter);
}

/* NULL when `number`, which may have any value, names no waiter, or `table` is NULL. */
static inline struct waiter *waiter_at(struct waiter_table *table, uint32_t number)
{
	return table && number && number < WAITER_COUNT ? &table->waiter[number] : NULL;
}

/* A peer reads this after it has left something. A waiter of NULL is WAITER_NONE. */
static inline enum waiter_state waiter_state(const struct waiter *waiter)
{
	return waiter ? (enum waiter_state)atomic_load(&waiter->state) : WAITER_NONE;
}

#endif
