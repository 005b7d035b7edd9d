/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The check of the order of locks. This program contains the check in all builds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/lock_order.h"

static const char *const nic = "&lock", *const lane = "&worker->lock",
			 *const agent = "&nic_agent_lock";

/* Does taking these in this order abort? `count` of them. */
static bool aborts(const char *const *names, unsigned count)
{
	pid_t child = fork();
	int status;

	if (!child) {
		const struct rlimit no_core = {0, 0};

		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGABRT, SIG_DFL);
		if (!freopen("/dev/null", "w", stderr))
			_exit(2);
		for (unsigned i = 0; i < count; i++)
			lock_order_take(&names[i], names[i], "nic.c");
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	return WIFSIGNALED(status);
}

static void locks_in_order_are_taken(void **state)
{
	const char *names[] = {nic, lane, lane, agent};

	(void)state;
	assert_false(aborts(names, 4));
}

static void locks_out_of_order_abort(void **state)
{
	const char *inverted[] = {agent, lane}, *two_lanes[] = {lane, lane},
		   *unknown[] = {"&nobody"};

	(void)state;
	assert_true(aborts(inverted, 2));
	assert_true(aborts(two_lanes, 2));
	assert_true(aborts(unknown, 1));
}

static void lock_that_was_given_back_is_no_matter(void **state)
{
	int lock = 0;

	(void)state;
	lock_order_take(&lock, agent, "nic.c");
	lock_order_give(&lock);
	lock_order_take(&lock, lane, "nic.c");
	lock_order_give(&lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(locks_in_order_are_taken),
		cmocka_unit_test(locks_out_of_order_abort),
		cmocka_unit_test(lock_that_was_given_back_is_no_matter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
