/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that wait for completions, and what a peer on this host has to do to wake them.
 *
 * A waiter is a thread that waits for an event of a completion channel. While the waiter polls, it
 * collects the records that peers leave for the channel's queues. A peer that has left a record for
 * an armed queue reads `state`. If the waiter polls, the peer does nothing more. If the waiter
 * sleeps, the peer wakes it. If the channel has no waiter, the peer wakes the lane's thread.
 *
 * A program may poll(2) the channel's descriptor instead. Then an eventfd makes that descriptor
 * readable, and the peer writes to the eventfd. Each entry has one eventfd, which is created when
 * it is first needed, and is not closed while the NIC exists.
 *
 * The waiter checks for records once more after it has set `state`: before it sleeps, and after it
 * has left the table. The waiter writes `state` and then reads the records; the peer writes a
 * record and then reads `state`. All four accesses are sequentially consistent, so the waiter or
 * the peer, or both, sees the write of the other.
 *
 * The table lies in NIC memory. Its entries are never recycled, so a late wake-up is merely
 * spurious.
 */
#ifndef URNIC_QUEUE_WAITER_H
#define URNIC_QUEUE_WAITER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

enum waiter_state {
	WAITER_NONE,
	WAITER_POLLS,
	WAITER_SLEEPS, /* the waiter sleeps on the futex waiter_wakes() */
	WAITER_WATCHES, /* the program polls the channel's epoll set, which contains `eventfd` */
};

struct waiter {
	_Atomic uint32_t state; /* enum waiter_state; the owner writes it */
	/* A descriptor of the owner's process; the owner writes it before the state */
	_Atomic int32_t eventfd;
	/*
	 * The owner reads the eventfd, stores the value of waiter_raises() here, and then collects.
	 */
	_Atomic uint32_t cleared;
	uint32_t reserved[13];
};

/*
 * The number of entries in the table of a process. Entry 0 is not used, because the number 0 says
 * that a channel has no waiter.
 */
enum { WAITER_COUNT = 256 };

struct waiter_table {
	struct waiter waiter[WAITER_COUNT];
};

/*
 * The count of wake-ups, on the peers' side (base/arena.h). It is a futex, and any process writes
 * it.
 */
static inline _Atomic uint32_t *waiter_wakes(const struct waiter *waiter)
{
	return (_Atomic uint32_t *)arena_peers_side(waiter);
}

/*
 * The count of writes to the eventfd, on the peers' side. A peer counts before it writes the
 * eventfd.
 */
static inline _Atomic uint32_t *waiter_raises(const struct waiter *waiter)
{
	return waiter_wakes(waiter) + 1;
}

/*
 * Get the waiter with `number`, which may have any value. Returns NULL when there is no such
 * waiter, or `table` is NULL.
 */
static inline struct waiter *waiter_at(struct waiter_table *table, uint32_t number)
{
	return table && number && number < WAITER_COUNT ? &table->waiter[number] : NULL;
}

/*
 * A peer has written to the eventfd, as the write number `raised`, counted from 1. Is the eventfd
 * still readable because of that write? A peer calls this after it has left a record. If the answer
 * is true, the owner will collect the record without another write.
 */
static inline bool waiter_is_raised(const struct waiter *waiter, uint32_t raised)
{
	return (int32_t)(raised - atomic_load(&waiter->cleared)) > 0;
}

/* A peer calls this after it has left a record. `waiter` NULL gives WAITER_NONE. */
static inline enum waiter_state waiter_state(const struct waiter *waiter)
{
	return waiter ? (enum waiter_state)atomic_load(&waiter->state) : WAITER_NONE;
}

#endif
