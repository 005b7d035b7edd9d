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
#ifndef URNIC_QUEUE_ATTENTION_H
#define URNIC_QUEUE_ATTENTION_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

enum attention_state {
	ATTENTION_NONE,
	ATTENTION_LOOKS,
	ATTENTION_SLEEPS, /* on a futex: attention_wakes() */
};

struct attention {
	_Atomic uint32_t state; /* enum attention_state; the owner writes it */
	uint32_t reserved[15];
};

/* In a process. Number 0 means that a channel has no waiter. */
enum { ATTENTION_COUNT = 256 };

struct attention_table {
	struct attention attention[ATTENTION_COUNT];
};

/* On the peers' side (base/arena.h): the count of wake-ups. A futex; any process writes it. */
static inline _Atomic uint32_t *attention_wakes(const struct attention *attention)
{
	return (_Atomic uint32_t *)arena_peers_side(attention);
}

/* NULL when `number`, which may have any value, names no waiter, or `table` is NULL. */
static inline struct attention *attention_at(struct attention_table *table, uint32_t number)
{
	return table && number && number < ATTENTION_COUNT ? &table->attention[number] : NULL;
}

/* A peer reads this after it has left something. A waiter of NULL is ATTENTION_NONE. */
static inline enum attention_state attention_state(const struct attention *attention)
{
	return attention ? (enum attention_state)atomic_load(&attention->state) : ATTENTION_NONE;
}

#endif
