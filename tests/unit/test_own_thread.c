/* SPDX-License-Identifier: BSD-2-Clause */
#include "os/own_thread.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/sanitizer.h"

enum { OWN_NICE = 7 };

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

/* The slice of the calling thread by sched_getattr(2); 0 before Linux 6.12. */
static uint64_t slice_ns(void)
{
	struct {
		uint32_t head[6];
		uint64_t runtime_ns, deadline_ns, period_ns;
	} attr = {.runtime_ns = 0};

	assert_int_equal(syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0), 0);
	return attr.runtime_ns;
}

static void *slice_shorten(void *argument)
{
	const struct sched_param param = {.sched_priority = 0};
	uint64_t before_ns = slice_ns();
	bool *was_right = argument;

	sched_setscheduler(0, SCHED_BATCH, &param);
	own_thread_shorten_slice();
	*was_right = sched_getscheduler(0) == SCHED_BATCH && slice_ns() == before_ns;
	sched_setscheduler(0, SCHED_OTHER, &param);
	own_thread_shorten_slice();
	*was_right &= sched_getscheduler(0) == SCHED_OTHER &&
		getpriority(PRIO_PROCESS, 0) == OWN_NICE &&
		slice_ns() == (before_ns ? OWN_THREAD_SLICE_NS : 0);
	return NULL;
}

/* The last test: its process stays at that priority. */
static void slice_of_an_ordinary_thread_is_shortened_and_nothing_else(void **state)
{
	pthread_t thread;
	bool was_right = false;

	(void)state;
	assert_int_equal(setpriority(PRIO_PROCESS, 0, OWN_NICE), 0);
	assert_int_equal(pthread_create(&thread, NULL, slice_shorten, &was_right), 0);
	pthread_join(thread, NULL);
	assert_true(was_right);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parked_threads_of_ours_stand_still),
		cmocka_unit_test(another_thread_of_the_program_nothing_is_parked),
		cmocka_unit_test(child_of_a_fork_is_alone),
		cmocka_unit_test(slice_of_an_ordinary_thread_is_shortened_and_nothing_else),
	};

	if (HAS_THREAD_SANITIZER) {
		printf("skipped: TSan has a thread of its own, of which nobody knows what it does\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
