/* SPDX-License-Identifier: BSD-2-Clause */
#include "runtime/busy_lock.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/spin.h"

/* Attempts before it sleeps: about as long as one batch takes. */
enum { TRIES = 400 };

void busy_lock_wait(struct busy_lock *lock)
{
	const struct timespec nap = {.tv_nsec = BUSY_LOCK_NAP_NS};

	for (int tries = 0; tries < TRIES; tries++) {
		if (busy_lock_try(lock))
			return;
		spin_pause();
	}
	atomic_fetch_add(&lock->sleepers, 1);
	while (!busy_lock_try(lock))
		syscall(SYS_futex, &lock->is_held, FUTEX_WAIT_PRIVATE, 1, &nap, NULL, 0);
	atomic_fetch_sub(&lock->sleepers, 1);
}

void busy_lock_wake(struct busy_lock *lock)
{
	syscall(SYS_futex, &lock->is_held, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
