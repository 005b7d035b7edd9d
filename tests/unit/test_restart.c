/* SPDX-License-Identifier: BSD-2-Clause */
/* What a signal does to a wait, by the handlers that the process has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>

#include "os/restart.h"

static void handle(int number)
{
	(void)number;
}

static void set_handler(int number, void (*handler)(int), int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

	assert_int_equal(sigaction(number, &action, NULL), 0);
}

/* No handlers, and a look that sees none. */
static int set_up(void **state)
{
	static const int numbers[] = {SIGUSR1, SIGUSR2, SIGSEGV};

	(void)state;
	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		set_handler(numbers[i], SIG_DFL, 0);
	restart_is_due();
	return 0;
}

static void wait_without_handlers_goes_on(void **state)
{
	(void)state;
	assert_true(restart_is_certain(0));
	assert_true(restart_is_due());
}

static void wait_goes_on_after_a_handler_that_restarts(void **state)
{
	(void)state;
	set_handler(SIGUSR1, handle, SA_RESTART);
	assert_true(restart_is_due());
	assert_true(restart_is_certain(0));
}

static void wait_ends_after_a_handler_that_interrupts(void **state)
{
	(void)state;
	set_handler(SIGUSR1, handle, 0);
	assert_false(restart_is_due());
	assert_true(restart_is_certain(0));
}

static void with_handlers_of_both_kinds_nothing_is_certain(void **state)
{
	(void)state;
	set_handler(SIGUSR1, handle, 0);
	set_handler(SIGUSR2, handle, SA_RESTART);
	assert_false(restart_is_due());
	assert_false(restart_is_certain(0));
	set_handler(SIGUSR2, SIG_IGN, SA_RESTART);
	assert_false(restart_is_due());
	assert_true(restart_is_certain(0));
}

static void handler_that_is_gone_after_its_signal_counts_once_more(void **state)
{
	(void)state;
	set_handler(SIGUSR1, handle, SA_RESETHAND);
	assert_true(restart_is_certain(RESTART_LOOK_NS));
	raise(SIGUSR1);
	assert_false(restart_is_due());
	assert_true(restart_is_due());
}

static void new_handler_is_seen_at_the_next_look(void **state)
{
	(void)state;
	assert_true(restart_is_certain(2 * RESTART_LOOK_NS));
	set_handler(SIGUSR1, handle, 0);
	set_handler(SIGUSR2, handle, SA_RESTART);
	assert_true(restart_is_certain(3 * RESTART_LOOK_NS - 1));
	assert_false(restart_is_certain(3 * RESTART_LOOK_NS));
}

static void handlers_of_faults_do_not_count(void **state)
{
	(void)state;
	set_handler(SIGUSR1, handle, SA_RESTART);
	set_handler(SIGSEGV, handle, 0);
	assert_true(restart_is_due());
	assert_true(restart_is_certain(0));
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(wait_without_handlers_goes_on),
		TEST(wait_goes_on_after_a_handler_that_restarts),
		TEST(wait_ends_after_a_handler_that_interrupts),
		TEST(with_handlers_of_both_kinds_nothing_is_certain),
		TEST(handler_that_is_gone_after_its_signal_counts_once_more),
		TEST(new_handler_is_seen_at_the_next_look),
		TEST(handlers_of_faults_do_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
