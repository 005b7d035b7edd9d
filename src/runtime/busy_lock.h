/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_RUNTIME_BUSY_LOCK_H
#define URNIC_RUNTIME_BUSY_LOCK_H

/*
 * A lock that is taken for every request, mostly by the same thread, and held for less than a microsecond: one atomic instruction to take
 * it, none to give it back. Who finds it taken spins for a moment, and then sleeps until it is free. Within a process; zero when free.
 *
 * Giving it back looks for sleepers without a fence, so it may miss one that is just lying down; that one gets up by itself after
 * BUSY_LOCK_NAP_NS.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"

#define BUSY_LOCK_NAP_NS 500000

struct busy_lock {
	_Atomic uint32_t is_held;
	_Atomic uint32_t sleepers;
};

static inline bool busy_lock_try(struct busy_lock *lock)
{
	return !atomic_load_explicit(&lock->is_held, memory_order_relaxed) &&
		!atomic_exchange_explicit(&lock->is_held, 1, memory_order_acquire);
}

/* Somebody has it: take it after that one. */
void busy_lock_wait(struct busy_lock *lock) URNIC_EXPORT_AS(busy_lock_wait);

/* Wake one who sleeps. */
void busy_lock_wake(struct busy_lock *lock) URNIC_EXPORT_AS(busy_lock_wake);

static inline void busy_lock(struct busy_lock *lock)
{
	if (!busy_lock_try(lock))
		busy_lock_wait(lock);
}

static inline void busy_unlock(struct busy_lock *lock)
{
	atomic_store_explicit(&lock->is_held, 0, memory_order_release);
	if (atomic_load_explicit(&lock->sleepers, memory_order_relaxed))
		busy_lock_wake(lock);
}

#endif
