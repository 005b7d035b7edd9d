/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_BUSY_LOCK_H
#define URNIC_OS_BUSY_LOCK_H

/*
 * A lock that is taken for every request, mostly by the same thread, and held for less than a
 * microsecond: one atomic instruction to take it, none to give it back. A thread that finds it
 * taken spins for a moment, then sleeps until it is free. Within a process; zero when free.
 *
 * Threads that take it again and again would keep a sleeper out for seconds: the lock is taken
 * again before the sleeper has a processor. So a sleeper that has slept in vain once joins a queue.
 * While the queue has a thread, busy_lock_try() fails, and the holder does not free the lock but
 * hands it to the first in the queue. Threads that only try, of this lock and of all others in the
 * process, give their processors away while busy_locks_are_wanted(): the holder may be a thread
 * that was preempted, and waits for just these processors.
 *
 * Giving it back looks for sleepers without a fence, so it may miss one that is just lying down;
 * that one gets up by itself after BUSY_LOCK_NAP_NS.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"

#define BUSY_LOCK_NAP_NS 500000

struct busy_lock {
	_Atomic uint32_t is_held; /* also while it is handed over */
	_Atomic uint32_t sleepers; /* those in the queue included */
	_Atomic uint32_t queued; /* until they have run */
	_Atomic uint32_t ticket_next;
	_Atomic uint32_t ticket_served; /* tickets below it were handed the lock */
};

extern _Atomic uint32_t busy_locks_queued; /* threads in the queues of all locks */

/* Does a thread wait in the queue of any lock of the process? A hint. */
static inline bool busy_locks_are_wanted(void)
{
	return atomic_load_explicit(&busy_locks_queued, memory_order_relaxed);
}

/* Does a thread wait in the queue? A hint. */
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

/* Another thread has it: take it after that one. */
void busy_lock_wait(struct busy_lock *lock) URNIC_EXPORT_AS(busy_lock_wait);

/* Give it back, and wake a sleeper. */
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
