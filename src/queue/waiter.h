/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that wait for completions, and what a peer on this host has to do to wake them.
 *
 * A waiter is a thread that waits for an event of a completion channel. While it polls, it collects
 * by itself what peers leave for the channel's queues. A peer that has left something for an armed
 * queue then reads `state`. A polling waiter needs nothing more; a sleeping one is woken; without a
 * waiter the peer wakes the lane's thread.
 *
 * A program that polls the channel's descriptor instead has an eventfd in it, which the peer
 * writes. Each entry has one, made when it is first needed, and not closed while the NIC lives.
 *
 * The waiter checks for records once more before it sleeps, and after it has left the table. Each
 * side writes before it reads the other's word (sequentially consistent), so at least one side sees
 * the other's write.
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
	WAITER_SLEEPS, /* on a futex: waiter_wakes() */
	WAITER_WATCHES, /* a descriptor that has `eventfd` */
};

struct waiter {
	_Atomic uint32_t state; /* enum waiter_state; the owner writes it */
	_Atomic int32_t eventfd; /* in the owner's process; the owner writes it before the state */
	/* waiter_raises() after the owner has last read the eventfd, and before it has collected */
	_Atomic uint32_t cleared;
	uint32_t reserved[13];
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

/* Likewise: the count of writes to the eventfd, each counted before it is made. */
static inline _Atomic uint32_t *waiter_raises(const struct waiter *waiter)
{
	return waiter_wakes(waiter) + 1;
}

/* NULL when `number`, which may have any value, names no waiter, or `table` is NULL. */
static inline struct waiter *waiter_at(struct waiter_table *table, uint32_t number)
{
	return table && number && number < WAITER_COUNT ? &table->waiter[number] : NULL;
}

/*
 * Is the eventfd still readable by a write that has ended, and that was number `raised`, from 1 on?
 * A peer reads this after it has left something: the owner will collect that.
 */
static inline bool waiter_is_raised(const struct waiter *waiter, uint32_t raised)
{
	return (int32_t)(raised - atomic_load(&waiter->cleared)) > 0;
}

/* A peer reads this after it has left something. A waiter of NULL is WAITER_NONE. */
static inline enum waiter_state waiter_state(const struct waiter *waiter)
{
	return waiter ? (enum waiter_state)atomic_load(&waiter->state) : WAITER_NONE;
}

#endif
