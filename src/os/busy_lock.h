/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_BUSY_LOCK_H
#define URNIC_OS_BUSY_LOCK_H

/*
 * A lock that a thread takes anew for each request, and holds for less than a microsecond. Mostly
 * the same thread takes it every time. To take the lock costs one atomic instruction; to free it
 * costs none. A thread that finds the lock taken spins for a moment, then sleeps. The lock serves
 * the threads of one process. Zeroed memory is a free lock.
 *
 * A thread that takes the lock again and again could keep a sleeper out for seconds, because it
 * retakes the lock before the sleeper has a processor. So after its first fruitless sleep a sleeper
 * joins a queue. While a thread is queued, busy_lock_try() fails, and the holder hands the lock to
 * the first thread in the queue. A preempted holder needs a processor, and pollers may occupy all
 * of them. So a poller, which only tries such locks, yields its processor while
 * busy_locks_are_wanted().
 *
 * busy_unlock() looks for sleepers without a fence, so it may miss a thread that is about to sleep.
 * That thread wakes up by itself after BUSY_LOCK_NAP_NS.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"

#define BUSY_LOCK_NAP_NS 500000

struct busy_lock {
	_Atomic uint32_t is_held; /* stays 1 during a hand-over */
	_Atomic uint32_t sleepers; /* threads that sleep until they get the lock, queued or not */
	/* Threads in the queue. A thread that has been handed the lock counts until it runs. */
	_Atomic uint32_t queued;
	_Atomic uint32_t ticket_next;
	_Atomic uint32_t ticket_served; /* all tickets below it have got the lock */
};

extern _Atomic uint32_t busy_locks_queued; /* queued threads of all locks of the process */

/* Is a thread queued for any busy lock? A hint. */
static inline bool busy_locks_are_wanted(void)
{
	return atomic_load_explicit(&busy_locks_queued, memory_order_relaxed);
}

/* Is a thread queued for the lock? A hint. */
static inline bool busy_lock_is_wanted(struct busy_lock *lock)
{
	return atomic_load_explicit(&lock->queued, memory_order_relaxed);
}

static inline bool busy_lock_try(struct busy_lock *lock)
{
	return !atomic_load_explicit(&lock->is_held, memory_order_relaxed) &&
		!busy_lock_is_wanted(lock) &&
		!atomic_exchange_explicit(&lock->is_held, 1, memory_order_acquire);
}

/* Take the lock, after busy_lock_try() has failed: spin, then sleep. */
void busy_lock_wait(struct busy_lock *lock) URNIC_EXPORT_AS(busy_lock_wait);

/* Free the lock and wake a sleeper, or hand the lock to the first queued thread. */
void busy_unlock_wake(struct busy_lock *lock) URNIC_EXPORT_AS(busy_unlock_wake);

static inline void busy_lock(struct busy_lock *lock)
{
	if (!busy_lock_try(lock))
		busy_lock_wait(lock);
}

static inline void busy_unlock(struct busy_lock *lock)
{
	if (atomic_load_explicit(&lock->sleepers, memory_order_relaxed))
		busy_unlock_wake(lock);
	else
		atomic_store_explicit(&lock->is_held, 0, memory_order_release);
}

#endif
