/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock of a lane: one holder at a time, and a thread that waits is served however many others
 * take the lock again and again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "os/busy_lock.h"
#include "os/clock.h"

enum {
	TAKERS = 8,
	WAITERS = 4,
	ROUNDS = 60,
	HOLD_NS = 20000,
	PAUSE_NS = 100000,
	PAUSES_MAX = 100000,
	TURNS_MAX = 1000,
};

static struct busy_lock lock;
static _Atomic bool is_over;
static uint64_t taken; /* under the lock */
static uint64_t taken_by_waiters; /* likewise */
static _Atomic uint64_t turns_of_takers;

/* Hold the lock, which must be ours alone. */
static void hold(uint64_t ns)
{
	uint64_t until_ns = clock_now_ns() + ns, before = taken;

	while (clock_now_ns() < until_ns)
		;
	assert_true(taken == before);
	taken = before + 1;
}

/* As a thread that polls: it takes the lock when it is free, without a pause. */
static void *take_on(void *argument)
{
	(void)argument;
	while (!atomic_load(&is_over)) {
		if (busy_lock_try(&lock)) {
			hold(HOLD_NS);
			atomic_fetch_add(&turns_of_takers, 1);
			busy_unlock(&lock);
		} else {
			sched_yield();
		}
	}
	return NULL;
}

static void *wait_on(void *argument)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	uint64_t *turns = argument;

	for (unsigned i = 0; i < ROUNDS; i++) {
		nanosleep(&pause, NULL);
		uint64_t before = atomic_load(&turns_of_takers);
		busy_lock(&lock);
		turns[i] = atomic_load(&turns_of_takers) - before;
		hold(0);
		taken_by_waiters++;
		busy_unlock(&lock);
	}
	return NULL;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void busy_lock_taken_again_and_again_serves_waiters(void **state)
{
	static uint64_t turns[WAITERS * ROUNDS];
	pthread_t takers[TAKERS], waiters[WAITERS];

	(void)state;
	for (unsigned i = 0; i < TAKERS; i++)
		assert_int_equal(pthread_create(&takers[i], NULL, take_on, NULL), 0);
	for (unsigned i = 0; i < WAITERS; i++)
		assert_int_equal(pthread_create(&waiters[i], NULL, wait_on, &turns[i * ROUNDS]), 0);
	for (unsigned i = 0; i < WAITERS; i++)
		pthread_join(waiters[i], NULL);
	atomic_store(&is_over, true);
	for (unsigned i = 0; i < TAKERS; i++)
		pthread_join(takers[i], NULL);
	qsort(turns, WAITERS * ROUNDS, sizeof(turns[0]), compare);
	print_message("turns of others while a thread waits: median %u, most %u\n",
		(unsigned)turns[WAITERS * ROUNDS / 2], (unsigned)turns[WAITERS * ROUNDS - 1]);
	assert_true(taken_by_waiters == WAITERS * ROUNDS);
	assert_true(turns[WAITERS * ROUNDS - 1] <= TURNS_MAX);
}

static void *lock_once(void *argument)
{
	(void)argument;
	busy_lock(&lock);
	busy_unlock(&lock);
	return NULL;
}

static void busy_lock_with_a_queue_is_wanted_in_the_whole_process(void **state)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	pthread_t waiter;

	(void)state;
	assert_true(busy_lock_try(&lock));
	assert_false(busy_locks_are_wanted());
	assert_int_equal(pthread_create(&waiter, NULL, lock_once, NULL), 0);
	for (unsigned i = 0; i < PAUSES_MAX && !busy_locks_are_wanted(); i++)
		nanosleep(&pause, NULL);
	assert_true(busy_locks_are_wanted());
	busy_unlock(&lock);
	pthread_join(waiter, NULL);
	assert_false(busy_locks_are_wanted());
}

static _Atomic bool has_had_it;

static void *lock_and_say(void *argument)
{
	(void)argument;
	busy_lock(&lock);
	atomic_store(&has_had_it, true);
	busy_unlock(&lock);
	return NULL;
}

static void busy_lock_that_is_given_back_goes_to_the_queue_first(void **state)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	pthread_t waiter;

	(void)state;
	assert_true(busy_lock_try(&lock));
	assert_int_equal(pthread_create(&waiter, NULL, lock_and_say, NULL), 0);
	for (unsigned i = 0; i < PAUSES_MAX && !busy_lock_is_wanted(&lock); i++)
		nanosleep(&pause, NULL);
	assert_true(busy_lock_is_wanted(&lock));
	busy_unlock(&lock);
	while (!busy_lock_try(&lock))
		sched_yield();
	assert_true(atomic_load(&has_had_it));
	busy_unlock(&lock);
	pthread_join(waiter, NULL);
}

static void busy_lock_without_takers_leaves_nobody_queued(void **state)
{
	(void)state;
	assert_true(busy_lock_try(&lock));
	assert_false(busy_lock_try(&lock));
	busy_unlock(&lock);
	assert_int_equal(atomic_load(&lock.sleepers), 0);
	assert_int_equal(atomic_load(&lock.queued), 0);
	assert_true(atomic_load(&lock.ticket_served) == atomic_load(&lock.ticket_next));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(busy_lock_taken_again_and_again_serves_waiters),
		cmocka_unit_test(busy_lock_with_a_queue_is_wanted_in_the_whole_process),
		cmocka_unit_test(busy_lock_that_is_given_back_goes_to_the_queue_first),
		cmocka_unit_test(busy_lock_without_takers_leaves_nobody_queued),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
