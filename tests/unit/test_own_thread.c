/* SPDX-License-Identifier: BSD-2-Clause */
#include "os/own_thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/sanitizer.h"

static _Atomic bool must_end;
static _Atomic uint64_t steps; /* of the library's thread, while it is awake */

static void pause_short(void)
{
	usleep(200);
}

static void *own_run(void *argument)
{
	(void)argument;
	own_thread_wake();
	while (!must_end) {
		steps++;
		own_thread_sleep();
		pause_short();
		own_thread_wake();
	}
	own_thread_end();
	return NULL;
}

static void *own_spin(void *argument)
{
	(void)argument;
	own_thread_wake();
	while (!must_end) {
		steps++;
		own_thread_yield();
	}
	own_thread_end();
	return NULL;
}

static void *foreign_run(void *argument)
{
	(void)argument;
	while (!must_end)
		pause_short();
	return NULL;
}

/* A thread that was joined may be counted by the kernel for another moment. */
static bool parks_soon(void)
{
	for (int i = 0; i < 1000; i++) {
		if (own_threads_park())
			return true;
		pause_short();
	}
	return false;
}

static void parked_threads_of_ours_stand_still(void **state)
{
	void *(*const runs[])(void *) = {own_run, own_spin};

	(void)state;
	for (int i = 0; i < 2; i++) {
		pthread_t thread;
		uint64_t before;

		must_end = false;
		assert_int_equal(own_thread_start(&thread, "test", runs[i], NULL), 0);
		assert_true(parks_soon());
		before = steps;
		for (int pause = 0; pause < 20; pause++)
			pause_short();
		assert_int_equal(steps, before);
		own_threads_unpark();
		while (steps == before)
			pause_short();
		must_end = true;
		pthread_join(thread, NULL);
	}
}

static void another_thread_of_the_program_nothing_is_parked(void **state)
{
	pthread_t thread;

	(void)state;
	must_end = false;
	assert_int_equal(pthread_create(&thread, NULL, foreign_run, NULL), 0);
	for (int i = 0; i < 100; i++)
		assert_false(own_threads_park());
	must_end = true;
	pthread_join(thread, NULL);
	assert_true(parks_soon());
	own_threads_unpark();
}

static void child_of_a_fork_is_alone(void **state)
{
	pthread_t thread;
	int status;
	pid_t pid;

	(void)state;
	must_end = false;
	assert_int_equal(own_thread_start(&thread, "test", own_spin, NULL), 0);
	pid = fork();
	if (!pid)
		_exit(own_threads_park() ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	must_end = true;
	pthread_join(thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parked_threads_of_ours_stand_still),
		cmocka_unit_test(another_thread_of_the_program_nothing_is_parked),
		cmocka_unit_test(child_of_a_fork_is_alone),
	};

	if (HAS_THREAD_SANITIZER) {
		printf("skipped: TSan has a thread of its own, of which nobody knows what it does\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
