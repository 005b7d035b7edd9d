/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A recursive lock that costs one atomic operation while no other thread has it. A waiting thread
 * yields the processor, because the owner may be inside a long call of the library.
 */
#ifndef URNIC_CHECK_MODEL_OWNED_LOCK_H
#define URNIC_CHECK_MODEL_OWNED_LOCK_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "check/check.h"

struct owned_lock {
	_Atomic uintptr_t owner; /* address of the owner's check_depth; 0: unlocked */
	uint32_t depth; /* how often the owner has locked the lock again */
};

static inline bool owned_lock_is_mine(const struct owned_lock *lock)
{
	return atomic_load_explicit(&lock->owner, memory_order_relaxed) == (uintptr_t)&check_depth;
}

/* Lock `lock`, unless another thread has locked it. */
static inline bool owned_lock_try(struct owned_lock *lock)
{
	uintptr_t own = (uintptr_t)&check_depth; /* this address is different in each thread */
	uintptr_t nobody = 0;

	if (owned_lock_is_mine(lock)) {
		lock->depth++;
		return true;
	}
	return atomic_compare_exchange_strong_explicit(
		&lock->owner, &nobody, own, memory_order_acquire, memory_order_relaxed);
}

static inline void owned_lock_take(struct owned_lock *lock)
{
	while (!owned_lock_try(lock))
		sched_yield();
}

static inline void owned_lock_leave(struct owned_lock *lock)
{
	if (lock->depth > 0)
		lock->depth--;
	else
		atomic_store_explicit(&lock->owner, 0, memory_order_release);
}

#endif
