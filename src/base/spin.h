/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A spin lock for the few instructions that move a queue entry.
 *
 * It lies in NIC memory as plain data: four bytes, zero when free. A holder never blocks, makes no
 * system call and touches no page that may be missing. So a waiter spins for the duration of a
 * queue operation, or of a time slice if the holder is preempted.
 */
#ifndef URNIC_BASE_SPIN_H
#define URNIC_BASE_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct spin {
	_Atomic uint32_t is_held;
};

static inline void spin_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static inline bool spin_try_lock(struct spin *lock)
{
	return atomic_exchange_explicit(&lock->is_held, 1, memory_order_acquire) == 0;
}

static inline void spin_lock(struct spin *lock)
{
	while (!spin_try_lock(lock))
		while (atomic_load_explicit(&lock->is_held, memory_order_relaxed))
			spin_pause();
}

static inline void spin_unlock(struct spin *lock)
{
	atomic_store_explicit(&lock->is_held, 0, memory_order_release);
}

#endif
