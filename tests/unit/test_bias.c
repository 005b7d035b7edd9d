/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/bias.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/spin.h"
#include "queue/cq.h"
#include "runtime/barrier.h"
#include "runtime/busy_lock.h"

static struct busy_lock lock;

static void hold_often(uint32_t times)
{
	for (uint32_t i = 0; i < times; i++) {
		busy_lock(&lock);
		busy_unlock(&lock);
	}
}

static bool is_mine(void)
{
	return atomic_load(&lock.bias.owner) == bias_self();
}

static int begin_anew(void **state)
{
	(void)state;
	memset(&lock, 0, sizeof(lock));
	return 0;
}

static void who_holds_it_many_times_in_a_row_becomes_the_owner(void **state)
{
	(void)state;
	hold_often(BIAS_STREAK_MIN);
	assert_false(is_mine());
	hold_often(1);
	assert_true(is_mine());
	busy_lock(&lock);
	assert_int_equal(atomic_load(&lock.is_held), 0);
	assert_int_equal(atomic_load(&lock.bias.is_inside), 1);
	busy_unlock(&lock);
	assert_int_equal(atomic_load(&lock.bias.is_inside), 0);
}

static void owner_inside_does_not_get_it_again(void **state)
{
	(void)state;
	hold_often(BIAS_STREAK_MIN + 1);
	busy_lock(&lock);
	assert_false(busy_lock_try(&lock));
	busy_unlock(&lock);
	assert_true(busy_lock_try(&lock));
	busy_unlock(&lock);
}

static void *try_it(void *argument)
{
	(void)argument;
	if (!busy_lock_try(&lock))
		return NULL;
	busy_unlock(&lock);
	return &lock;
}

static _Atomic bool is_taken;

static void *take_it(void *argument)
{
	busy_lock(&lock);
	is_taken = true;
	busy_unlock(&lock);
	return argument;
}

static void *in_another_thread(void *(*run)(void *))
{
	pthread_t thread;
	void *result;

	assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	return result;
}

static void another_thread_revokes_what_nobody_uses(void **state)
{
	(void)state;
	hold_often(BIAS_STREAK_MIN + 1);
	assert_non_null(in_another_thread(try_it));
	assert_int_equal(atomic_load(&lock.bias.owner), 0);
	assert_int_equal(lock.bias.streak_min, 2 * BIAS_STREAK_MIN);
	hold_often(BIAS_STREAK_MIN + 1);
	assert_false(is_mine());
	hold_often(BIAS_STREAK_MIN);
	assert_true(is_mine());
}

static void *hold_very_often(void *argument)
{
	hold_often(4 * BIAS_STREAK_MIN);
	return is_mine() ? &lock : argument;
}

/* It may be about to say that it is inside, and take that back. */
static void nobody_else_becomes_the_owner_after_it(void **state)
{
	(void)state;
	hold_often(BIAS_STREAK_MIN + 1);
	assert_null(in_another_thread(hold_very_often));
	assert_int_equal(atomic_load(&lock.bias.owner), 0);
	hold_often(2 * BIAS_STREAK_MIN + 1);
	assert_true(is_mine());
}

static void another_thread_waits_for_the_owner_inside(void **state)
{
	pthread_t thread;

	(void)state;
	is_taken = false;
	hold_often(BIAS_STREAK_MIN + 1);
	busy_lock(&lock);
	assert_null(in_another_thread(try_it));
	assert_int_equal(pthread_create(&thread, NULL, take_it, NULL), 0);
	usleep(5000);
	assert_false(is_taken);
	busy_unlock(&lock);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(is_taken);
}

enum { INTRUSIONS = 3000 };

static uint64_t holds; /* under the lock, and by plain instructions */
static _Atomic bool must_end;

static void *hold_all_the_time(void *argument)
{
	uint64_t *own = argument;

	while (!must_end) {
		busy_lock(&lock);
		holds++;
		busy_unlock(&lock);
		++*own;
	}
	return argument;
}

/* Takes it from its owner, as soon as that one has it back, and leaves time to be disturbed. */
static void intrude(void)
{
	for (int i = 0; i < 1000 && !atomic_load(&lock.bias.owner); i++)
		spin_pause();
	busy_lock(&lock);
	uint64_t before = holds;
	lock.bias.streak_min = 0;
	for (int i = 0; i < 5; i++)
		spin_pause();
	holds = before + 1;
	busy_unlock(&lock);
}

static void owner_and_who_revokes_never_meet(void **state)
{
	pthread_t thread;
	uint64_t own = 0;

	(void)state;
	holds = 0;
	must_end = false;
	assert_int_equal(pthread_create(&thread, NULL, hold_all_the_time, &own), 0);
	for (int i = 0; i < INTRUSIONS; i++)
		intrude();
	must_end = true;
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(holds, own + INTRUSIONS);
}

/* --- a completion queue --- */

enum { COMPLETIONS = 300000 };

static uint8_t memory[1 << 16] __attribute__((aligned(4096)));
static struct arena arena;
static struct cq cq;

/* In rows, so that it becomes the owner again and again. */
static void *push_all(void *argument)
{
	struct signal_queue signals = {0};

	for (uint64_t i = 0; i < COMPLETIONS; i++) {
		struct cqe cqe = {.wr_id = i};

		while (atomic_load(&cq.ring->head) - atomic_load(&cq.ring->tail) ==
			cq.ring->capacity)
			sched_yield();
		assert_true(cq_push(&cq, &arena, &cqe, false, &signals));
	}
	return argument;
}

static void completions_come_out_once_and_in_order(void **state)
{
	uint64_t next = 0;
	pthread_t thread;

	(void)state;
	arena_init(&arena, memory, sizeof(memory));
	assert_int_equal(cq_init(&cq, &arena, 256), 0);
	assert_int_equal(pthread_create(&thread, NULL, push_all, NULL), 0);
	while (next < COMPLETIONS) {
		struct cqe cqes[16];
		uint32_t count = cq_poll(&cq, &arena, 16, cqes);

		for (uint32_t i = 0; i < count; i++)
			assert_int_equal(cqes[i].wr_id, next++);
		if (!count)
			sched_yield();
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	cq_done(&cq, &arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
			who_holds_it_many_times_in_a_row_becomes_the_owner, begin_anew),
		cmocka_unit_test_setup(owner_inside_does_not_get_it_again, begin_anew),
		cmocka_unit_test_setup(another_thread_revokes_what_nobody_uses, begin_anew),
		cmocka_unit_test_setup(nobody_else_becomes_the_owner_after_it, begin_anew),
		cmocka_unit_test_setup(another_thread_waits_for_the_owner_inside, begin_anew),
		cmocka_unit_test_setup(owner_and_who_revokes_never_meet, begin_anew),
		cmocka_unit_test(completions_come_out_once_and_in_order),
	};

	barrier_begin();
	hold_often(BIAS_STREAK_MIN + 1);
	if (!is_mine()) {
		print_message("no membarrier(2), or a sanitizer: nothing is biased\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
