/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "event/event_queue.h"

static int set_up(void **state)
{
	static struct event_queue queue;

	*state = &queue;
	if (event_queue_init(&queue))
		return -1;
	return fcntl(queue.fd, F_SETFL, O_NONBLOCK);
}

/* A completion channel's queue. */
static int set_up_set(void **state)
{
	static struct event_queue queue;

	*state = &queue;
	if (event_queue_init_set(&queue))
		return -1;
	return fcntl(queue.fd, F_SETFL, O_NONBLOCK);
}

static int tear_down(void **state)
{
	event_queue_done(*state);
	return 0;
}

static bool is_readable(struct event_queue *queue)
{
	struct pollfd poll_fd = {.fd = queue->fd, .events = POLLIN};

	return poll(&poll_fd, 1, 0) == 1;
}

static void keep(struct event *event, void *argument)
{
	struct event **kept = argument;

	*kept = event;
}

static void take_is(struct event_queue *queue, struct event *expected)
{
	struct event *taken = NULL;

	assert_int_equal(event_queue_take(queue, keep, &taken), expected ? 0 : -EAGAIN);
	assert_ptr_equal(taken, expected);
}

static void queue_without_events_is_not_readable(void **state)
{
	struct event_queue *queue = *state;

	assert_false(is_readable(queue));
	take_is(queue, NULL);
}

static void events_are_taken_as_often_as_they_were_posted(void **state)
{
	struct event_queue *queue = *state;
	struct event a;
	struct event b;

	event_init(&a);
	event_init(&b);
	event_queue_post(queue, &a);
	event_queue_post(queue, &b);
	event_queue_post(queue, &a);
	assert_true(is_readable(queue));
	take_is(queue, &a);
	take_is(queue, &b);
	assert_true(is_readable(queue));
	take_is(queue, &a);
	assert_false(is_readable(queue));
	take_is(queue, NULL);
	assert_int_equal(a.taken, 2);
	assert_int_equal(b.taken, 1);
	event_queue_forget(queue, &a);
	event_queue_forget(queue, &b);
}

static void many_events_lose_none(void **state)
{
	struct event_queue *queue = *state;
	struct event event;

	event_init(&event);
	for (int i = 0; i < 100000; i++)
		event_queue_post(queue, &event);
	for (int i = 0; i < 100000; i++)
		take_is(queue, &event);
	take_is(queue, NULL);
	event_queue_forget(queue, &event);
}

static void forgotten_event_does_not_leave_the_descriptor_readable(void **state)
{
	struct event_queue *queue = *state;
	struct event gone;
	struct event other;

	event_init(&gone);
	event_init(&other);
	event_queue_post(queue, &gone);
	event_queue_post(queue, &gone);
	event_queue_forget(queue, &gone);
	assert_int_equal(gone.taken, 0);
	assert_false(is_readable(queue));
	event_queue_post(queue, &gone);
	event_queue_post(queue, &other);
	event_queue_forget(queue, &gone);
	assert_true(is_readable(queue));
	take_is(queue, &other);
	assert_false(is_readable(queue));
}

enum { POSTS = 20000 };

static void *post_many(void *argument)
{
	struct event_queue *queue = argument;
	static struct event events[4];

	for (int i = 0; i < 4; i++)
		event_init(&events[i]);
	for (int i = 0; i < POSTS; i++)
		event_queue_post(queue, &events[i % 4]);
	return NULL;
}

static void blocking_taker_gets_every_event_of_another_thread(void **state)
{
	struct event_queue *queue = *state;
	struct event *taken;
	pthread_t thread;

	fcntl(queue->fd, F_SETFL, 0);
	assert_int_equal(pthread_create(&thread, NULL, post_many, queue), 0);
	for (int i = 0; i < POSTS; i++)
		assert_int_equal(event_queue_take(queue, keep, &taken), 0);
	pthread_join(thread, NULL);
	assert_false(is_readable(queue));
}

/* A child that tidies up has the same descriptors. */
static void event_forgotten_in_a_child_still_waits_in_the_parent(void **state)
{
	struct event_queue *queue = *state;
	struct event event;
	int status;
	pid_t child;

	event_init(&event);
	event_queue_post(queue, &event);
	child = fork();
	if (child == 0) {
		event_queue_forget(queue, &event);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	take_is(queue, &event);
}

static void edge_triggered_set_reports_each_batch_once(void **state)
{
	struct event_queue *queue = *state;
	struct epoll_event watch = {.events = EPOLLIN | EPOLLET};
	struct event event;
	int epoll = epoll_create1(0);

	event_init(&event);
	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, queue->fd, &watch), 0);
	assert_int_equal(epoll_wait(epoll, &watch, 1, 0), 0);
	for (int i = 0; i < 3; i++) {
		event_queue_post(queue, &event);
		event_queue_post(queue, &event);
		assert_int_equal(epoll_wait(epoll, &watch, 1, 0), 1);
		assert_int_equal(epoll_wait(epoll, &watch, 1, 0), 0);
		take_is(queue, &event);
		take_is(queue, &event);
		take_is(queue, NULL);
	}
	close(epoll);
}

static int signal_of(struct event_queue *queue, struct event *event, int awaited)
{
	const struct timespec none = {0, 0};
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, awaited);
	event_queue_post(queue, event);
	take_is(queue, event);
	return sigtimedwait(&signals, NULL, &none);
}

static void owner_of_the_descriptor_gets_its_signal(void **state)
{
	struct event_queue *queue = *state;
	struct event event;
	sigset_t signals;

	event_init(&event);
	sigemptyset(&signals);
	sigaddset(&signals, SIGIO);
	sigaddset(&signals, SIGRTMIN);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	assert_int_equal(signal_of(queue, &event, SIGIO), -1);
	fcntl(queue->fd, F_SETOWN, getpid());
	fcntl(queue->fd, F_SETFL, O_NONBLOCK | O_ASYNC);
	assert_int_equal(signal_of(queue, &event, SIGIO), SIGIO);
	fcntl(queue->fd, F_SETSIG, SIGRTMIN);
	assert_int_equal(signal_of(queue, &event, SIGRTMIN), SIGRTMIN);
	fcntl(queue->fd, F_SETOWN, 0);
	assert_int_equal(signal_of(queue, &event, SIGRTMIN), -1);
	pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

#define TEST_PLAIN(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TEST_SET(name)   cmocka_unit_test_setup_teardown(name, set_up_set, tear_down)
#define TESTS_BOTH(name) TEST_PLAIN(name), TEST_SET(name)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TESTS_BOTH(queue_without_events_is_not_readable),
		TESTS_BOTH(events_are_taken_as_often_as_they_were_posted),
		TESTS_BOTH(many_events_lose_none),
		TESTS_BOTH(forgotten_event_does_not_leave_the_descriptor_readable),
		TESTS_BOTH(blocking_taker_gets_every_event_of_another_thread),
		TESTS_BOTH(event_forgotten_in_a_child_still_waits_in_the_parent),
		TESTS_BOTH(edge_triggered_set_reports_each_batch_once),
		TESTS_BOTH(owner_of_the_descriptor_gets_its_signal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
