/* SPDX-License-Identifier: BSD-2-Clause */
#include "os/busy_lock.h"

#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/spin.h"
#include "os/clock.h"

/*
 * Attempts before a thread sleeps. They take about as long as a holder keeps the lock for a batch.
 */
enum { TRIES = 400 };

_Atomic uint32_t busy_locks_queued;

/*
 * Sleep while *word is `value`, for BUSY_LOCK_NAP_NS at most. Only a wake-up that has one of `bits`
 * ends the sleep early.
 */
static void word_sleep(_Atomic uint32_t *word, uint32_t value, uint32_t bits)
{
	uint64_t until_ns = clock_now_ns() + BUSY_LOCK_NAP_NS;
	const struct timespec until = {
		(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};

	syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, &until, NULL, bits);
}

/*
 * The futex bit of a ticket. With more than 32 waiters, tickets share bits, so a woken waiter
 * checks whether its ticket is served.
 */
static uint32_t bit_of(uint32_t ticket)
{
	return 1u << ticket % 32;
}

/* Pass the lock, which the caller holds, to the first thread in the queue. */
static void hand_over(struct busy_lock *lock)
{
	uint32_t ticket = atomic_load_explicit(&lock->ticket_served, memory_order_relaxed);

	atomic_store_explicit(&lock->ticket_served, ticket + 1, memory_order_release);
	syscall(SYS_futex, &lock->ticket_served, FUTEX_WAKE_BITSET_PRIVATE, INT32_MAX, NULL, NULL,
		bit_of(ticket));
}

/*
 * The holder may free the lock without seeing the queue. The lock is then free, but busy_lock_try()
 * fails because of the queue, so a queued thread takes it here.
 */
static bool take_unseen(struct busy_lock *lock)
{
	return !atomic_load_explicit(&lock->is_held, memory_order_relaxed) &&
		!atomic_exchange_explicit(&lock->is_held, 1, memory_order_acquire);
}

static void queue_up(struct busy_lock *lock)
{
	uint32_t ticket, served;

	atomic_fetch_add(&busy_locks_queued, 1);
	atomic_fetch_add(&lock->queued, 1);
	ticket = atomic_fetch_add(&lock->ticket_next, 1);
	for (;;) {
		served = atomic_load_explicit(&lock->ticket_served, memory_order_acquire);
		if ((int32_t)(served - ticket) > 0)
			break;
		if (take_unseen(lock))
			hand_over(lock); /* the first in the queue may be this thread */
		else
			word_sleep(&lock->ticket_served, served, bit_of(ticket));
	}
	atomic_fetch_sub(&lock->queued, 1);
	atomic_fetch_sub(&busy_locks_queued, 1);
}

void busy_lock_wait(struct busy_lock *lock)
{
	for (int tries = 0; tries < TRIES; tries++) {
		if (busy_lock_try(lock))
			return;
		spin_pause();
	}
	atomic_fetch_add(&lock->sleepers, 1);
	word_sleep(&lock->is_held, 1, FUTEX_BITSET_MATCH_ANY);
	if (!busy_lock_try(lock))
		queue_up(lock);
	atomic_fetch_sub(&lock->sleepers, 1);
}

void busy_unlock_wake(struct busy_lock *lock)
{
	if (atomic_load_explicit(&lock->queued, memory_order_acquire)) {
		hand_over(lock);
		sched_yield(); /* the next holder may need this processor to run */
		return;
	}
	atomic_store_explicit(&lock->is_held, 0, memory_order_release);
	syscall(SYS_futex, &lock->is_held, FUTEX_WAKE_BITSET_PRIVATE, 1, NULL, NULL,
		FUTEX_BITSET_MATCH_ANY);
}
