/* SPDX-License-Identifier: BSD-2-Clause */
#include "runtime/busy_lock.h"

#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/spin.h"

/* Attempts before it sleeps: about as long as one batch takes. */
enum { TRIES = 400 };

static void word_give_back(struct busy_lock *lock)
{
	atomic_store_explicit(&lock->is_held, 0, memory_order_release);
	if (atomic_load_explicit(&lock->sleepers, memory_order_relaxed))
		busy_lock_wake(lock);
}

bool busy_lock_take_over(struct busy_lock *lock)
{
	if (bias_revoke(&lock->bias))
		return true;
	word_give_back(lock);
	return false;
}

void busy_lock_wait(struct busy_lock *lock)
{
	const struct timespec nap = {.tv_nsec = BUSY_LOCK_NAP_NS};

	for (int tries = 0; tries < TRIES; tries++) {
		if (busy_lock_try(lock))
			return;
		spin_pause();
	}
	atomic_fetch_add(&lock->sleepers, 1);
	/* The word may be free, and who was the owner inside still. */
	while (!busy_lock_try(lock))
		if (syscall(SYS_futex, &lock->is_held, FUTEX_WAIT_PRIVATE, 1, &nap, NULL, 0))
			sched_yield();
	atomic_fetch_sub(&lock->sleepers, 1);
}

void busy_lock_wake(struct busy_lock *lock)
{
	syscall(SYS_futex, &lock->is_held, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
