/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_BUSY_LOCK_H
#define URNIC_OS_BUSY_LOCK_H

/*
 * A lock for every request, mostly taken by the same thread, and held for less than a microsecond.
 * Taking costs one atomic instruction, freeing none. A thread that finds it taken spins for a
 * moment, then sleeps. For threads of one process; zero when free.
 *
 * Threads that take it again and again could keep a sleeper out for seconds, because they retake it
 * before the sleeper has a processor. So after its first fruitless sleep a sleeper joins a queue.
 * While a thread is queued, busy_lock_try() fails, and the holder hands the lock to the first in
 * the queue. A preempted holder may wait for the processors of other pollers. So threads that only
 * try any such lock of the process yield their processors while busy_locks_are_wanted().
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
	_Atomic uint32_t is_held; /* also during a hand-over */
	_Atomic uint32_t sleepers; /* including queued threads */
	_Atomic uint32_t queued; /* threads that have not run since they were queued */
	_Atomic uint32_t ticket_next;
	_Atomic uint32_t ticket_served; /* tickets below it have had the lock */
};

extern _Atomic uint32_t busy_locks_queued; /* queued threads of all locks */

/* A hint. */
static inline bool busy_locks_are_wanted(void)
{
	return atomic_load_explicit(&busy_locks_queued, memory_order_relaxed);
}

/* A hint. */
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

/* Another thread holds the lock: wait for it. */
void busy_lock_wait(struct busy_lock *lock) URNIC_EXPORT_AS(busy_lock_wait);

/* Free the lock, and wake a sleeper. */
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
