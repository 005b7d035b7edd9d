/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

#include "fabricd/fabric_loop.h"

enum { REST_NS = 100000000, TURNS_PER_POLL = 32, POLL_MS = 1000, SLEEPS_MAX = 3 };

/* A user of the loop, and what the loop has called. */
struct user {
	struct fabric_loop loop;
	struct fabric_loop_user calls;
	uint64_t now_ns;
	int turn_result;
	unsigned turns, sleeps, ready, polled;
	void *tag;
};

static int user_turn(void *context)
{
	struct user *user = context;

	user->turns++;
	return user->turn_result;
}

static int user_sleep(void *context)
{
	struct user *user = context;

	return ++user->sleeps > SLEEPS_MAX ? -ETIMEDOUT : fabric_loop_poll(&user->loop, POLL_MS);
}

static void user_ready(void *context, void *tag, uint32_t events)
{
	struct user *user = context;

	(void)events;
	user->ready++;
	user->tag = tag;
}

static int user_polled(void *context)
{
	struct user *user = context;

	user->polled++;
	return 0;
}

static void user_begin(struct user *user)
{
	*user = (struct user){.calls = {.turn = user_turn,
				      .sleep = user_sleep,
				      .ready = user_ready,
				      .polled = user_polled,
				      .context = user,
				      .now_ns = &user->now_ns}};
	assert_int_equal(fabric_loop_init(&user->loop, &user->calls), 0);
}

static void loop_sleeps_without_frames_and_ends_with_a_signal(void **state)
{
	struct user user;

	(void)state;
	user_begin(&user);
	user.now_ns = 1;
	raise(SIGTERM);
	assert_int_equal(fabric_loop_run(&user.loop), 0);
	assert_int_equal(user.turns, 1);
	assert_int_equal(user.sleeps, 1);
	assert_int_equal(user.ready, 0);
	fabric_loop_done(&user.loop);
	signal(SIGTERM, SIG_IGN); /* it is still pending */
}

static void loop_ends_with_the_error_of_a_turn(void **state)
{
	struct user user;

	(void)state;
	user_begin(&user);
	user.turn_result = -EPROTO;
	assert_int_equal(fabric_loop_run(&user.loop), -EPROTO);
	assert_int_equal(user.turns, 1);
	fabric_loop_done(&user.loop);
}

static void descriptors_are_polled_in_one_turn_of_32(void **state)
{
	struct user user;
	int ends[2];

	(void)state;
	user_begin(&user);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "", 1), 1);
	assert_int_equal(
		fabric_loop_watch(user.loop.epoll, EPOLL_CTL_ADD, ends[0], EPOLLIN, ends), 0);
	for (unsigned i = 0; i < 2 * TURNS_PER_POLL; i++)
		assert_int_equal(fabric_loop_poll_rarely(&user.loop), 0);
	assert_int_equal(user.polled, 2);
	assert_int_equal(user.ready, 2);
	assert_ptr_equal(user.tag, ends);
	for (unsigned i = 0; i < 2; i++)
		close(ends[i]);
	fabric_loop_done(&user.loop);
}

/* Poll once. Returns whether the listener was ready. */
static bool is_reported(struct user *user, const struct fabric_listener *listener)
{
	uint64_t now_ns = user->now_ns;

	user->tag = NULL;
	assert_int_equal(fabric_loop_poll(&user->loop, 0), 0);
	user->now_ns = now_ns;
	return user->tag == listener;
}

static void listener_rests_only_without_descriptors_or_memory(void **state)
{
	struct fabric_listener listener = {0};
	struct user user;
	int ends[2];

	(void)state;
	user_begin(&user);
	user.now_ns = 1;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "", 1), 1);
	listener.fd = ends[0];
	assert_int_equal(fabric_listener_watch(&user.loop, &listener), 0);
	fabric_listener_failed(&user.loop, &listener, ECONNABORTED);
	assert_true(is_reported(&user, &listener));
	fabric_listener_failed(&user.loop, &listener, EMFILE);
	assert_false(is_reported(&user, &listener));
	user.now_ns += REST_NS - 1;
	fabric_listener_go_on(&user.loop, &listener);
	assert_false(is_reported(&user, &listener));
	user.now_ns++;
	fabric_listener_go_on(&user.loop, &listener);
	assert_true(is_reported(&user, &listener));
	assert_int_equal(listener.rests_until_ns, 0);
	for (unsigned i = 0; i < 2; i++)
		close(ends[i]);
	fabric_loop_done(&user.loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loop_ends_with_the_error_of_a_turn),
		cmocka_unit_test(descriptors_are_polled_in_one_turn_of_32),
		cmocka_unit_test(listener_rests_only_without_descriptors_or_memory),
		cmocka_unit_test(loop_sleeps_without_frames_and_ends_with_a_signal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
