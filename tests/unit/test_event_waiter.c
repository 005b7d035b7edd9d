/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/list.h"
#include "event/event_queue.h"
#include "os/futex.h"
#include "support/arena_memory.h"

/* A queue whose collector sees what `left` counts: each is one event. */
struct place {
	struct event_queue queue;
	struct event_collector collector;
	struct waiter *waiter;
	struct event event;
	enum event_view view;
	_Atomic uint32_t left;
	_Atomic uint32_t seen;
	/* Of drive(): what it returns unless it has an event, its calls, and wake-ups */
	_Atomic int drive_result;
	_Atomic uint32_t drives;
	_Atomic uint32_t drive_wakes;
	_Atomic uint32_t shares;
};

static struct place place;

static enum event_view collect_left(struct event_collector *collector)
{
	uint32_t left = atomic_load(&place.left);

	assert_ptr_equal(collector, &place.collector);
	for (; atomic_load(&place.seen) != left; atomic_fetch_add(&place.seen, 1))
		event_queue_post(&place.queue, &place.event);
	return place.view;
}

/* Sleeps on `drive_wakes` until there is an event, unless it has another result. */
static int drive(struct event_collector *collector)
{
	uint32_t wakes = atomic_load(&place.drive_wakes);
	int error = place.drive_result;

	assert_ptr_equal(collector, &place.collector);
	atomic_fetch_add(&place.drives, 1);
	while (!error && !atomic_load(&place.queue.has_events)) {
		error = futex_wait(&place.drive_wakes, wakes);
		wakes = atomic_load(&place.drive_wakes);
	}
	return error;
}

static void drive_wake(struct event_collector *collector)
{
	assert_ptr_equal(collector, &place.collector);
	atomic_fetch_add(&place.drive_wakes, 1);
	futex_wake(&place.drive_wakes);
}

static void share(struct event_collector *collector)
{
	assert_ptr_equal(collector, &place.collector);
	atomic_fetch_add(&place.shares, 1);
}

static int set_up(void **state)
{
	memset(&place, 0, sizeof(place));
	*state = &place;
	event_init(&place.event);
	place.view = EVENT_VIEW_OPEN;
	place.waiter = arena_memory_new(4096);
	place.collector.waiter = place.waiter;
	place.collector.collect = collect_left;
	if (event_queue_init(&place.queue))
		return -1;
	event_queue_set_collector(&place.queue, &place.collector);
	return 0;
}

/* No peer uses the queue, so its waiter drives. */
static int set_up_driving(void **state)
{
	int error = set_up(state);

	place.view = EVENT_VIEW_EMPTY;
	place.collector.drive = drive;
	place.collector.wake = drive_wake;
	place.collector.share = share;
	return error;
}

static int tear_down(void **state)
{
	(void)state;
	event_queue_forget(&place.queue, &place.event);
	event_queue_done(&place.queue);
	return 0;
}

static bool is_readable(void)
{
	struct pollfd poll_fd = {.fd = place.queue.fd, .events = POLLIN};

	return poll(&poll_fd, 1, 0) == 1;
}

static void keep(struct event *event, void *argument)
{
	assert_ptr_equal(event, &place.event);
	*(int *)argument += 1;
}

static int take(void)
{
	int kept = 0;
	int error = event_queue_take(&place.queue, keep, &kept);

	assert_int_equal(kept, error ? 0 : 1);
	return error;
}

/* As a peer: leave something, and wake the waiter if it sleeps. Returns what the waiter did. */
static enum waiter_state leave_something(void)
{
	enum waiter_state state;

	atomic_fetch_add(&place.left, 1);
	state = waiter_state(place.waiter);
	if (state == WAITER_SLEEPS) {
		atomic_fetch_add(waiter_wakes(place.waiter), 1);
		futex_wake(waiter_wakes(place.waiter));
	}
	return state;
}

static void state_await(enum waiter_state state)
{
	while (waiter_state(place.waiter) != state)
		sched_yield();
}

static void *take_once(void *argument)
{
	atomic_store((_Atomic int *)argument, take());
	return NULL;
}

static void take_begin(pthread_t *thread, _Atomic int *result)
{
	assert_int_equal(pthread_create(thread, NULL, take_once, result), 0);
}

static void waiter_takes_an_event_without_the_descriptor(void **state)
{
	(void)state;
	leave_something();
	assert_int_equal(take(), 0);
	assert_false(is_readable());
	assert_int_equal(waiter_state(place.waiter), WAITER_NONE);
}

static void more_than_one_event_leaves_the_descriptor_readable(void **state)
{
	(void)state;
	leave_something();
	leave_something();
	assert_int_equal(take(), 0);
	assert_true(is_readable());
	assert_int_equal(take(), 0);
	assert_false(is_readable());
}

static void sleeper_is_woken_by_a_post(void **state)
{
	pthread_t thread;
	_Atomic int result = -1;

	(void)state;
	place.view = EVENT_VIEW_EMPTY; /* which is not looked at for long */
	take_begin(&thread, &result);
	state_await(WAITER_SLEEPS);
	event_queue_post(&place.queue, &place.event);
	pthread_join(thread, NULL);
	assert_int_equal(result, 0);
	assert_false(is_readable());
}

static void sleeper_is_woken_by_a_peer(void **state)
{
	pthread_t thread;
	_Atomic int result = -1;

	(void)state;
	take_begin(&thread, &result);
	state_await(WAITER_SLEEPS);
	assert_int_equal(leave_something(), WAITER_SLEEPS);
	pthread_join(thread, NULL);
	assert_int_equal(result, 0);
}

enum { ROUNDS = 10000 };

/* There is no waiter: the lane's thread would come. */
static void *leave_many(void *argument)
{
	(void)argument;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		if (leave_something() == WAITER_NONE)
			event_queue_post(&place.queue, &place.event);
		while (atomic_load(&place.seen) < i)
			sched_yield();
	}
	return NULL;
}

/*
 * The reader may also get the event that the NIC's thread posts. So there may be one event more,
 * and never one less.
 */
static void no_wake_up_is_lost(void **state)
{
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, leave_many, NULL), 0);
	while (atomic_load(&place.seen) < ROUNDS)
		assert_int_equal(take(), 0);
	pthread_join(thread, NULL);
}

static void second_reader_waits_at_the_descriptor(void **state)
{
	pthread_t first, second;
	_Atomic int results[2] = {-1, -1};

	(void)state;
	take_begin(&first, &results[0]);
	state_await(WAITER_SLEEPS);
	take_begin(&second, &results[1]);
	event_queue_post(&place.queue, &place.event);
	event_queue_post(&place.queue, &place.event);
	pthread_join(first, NULL);
	pthread_join(second, NULL);
	assert_int_equal(results[0], 0);
	assert_int_equal(results[1], 0);
	assert_false(is_readable());
}

static void cancelled_reader_is_no_waiter_any_more(void **state)
{
	pthread_t thread;
	void *result;
	_Atomic int error;

	(void)state;
	take_begin(&thread, &error);
	state_await(WAITER_SLEEPS);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_int_equal(waiter_state(place.waiter), WAITER_NONE);
	event_queue_post(&place.queue, &place.event);
	assert_true(is_readable());
	assert_int_equal(take(), 0);
}

static void *take_as_often_as_possible(void *argument)
{
	(void)argument;
	for (;;) {
		leave_something();
		take();
	}
	return NULL;
}

static void reader_that_never_sleeps_can_be_cancelled(void **state)
{
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, take_as_often_as_possible, NULL), 0);
	pthread_cancel(thread);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void on_signal(int number)
{
	(void)number;
}

static void signal_interrupts_the_wait(void **state)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct timespec pause = {.tv_nsec = 1000000};
	pthread_t thread;
	_Atomic int result = 1;

	(void)state;
	sigaction(SIGUSR1, &action, NULL);
	take_begin(&thread, &result);
	state_await(WAITER_SLEEPS);
	/* The waiter may be just about to sleep. */
	while (atomic_load(&result) == 1) {
		pthread_kill(thread, SIGUSR1);
		nanosleep(&pause, NULL);
	}
	pthread_join(thread, NULL);
	assert_int_equal(result, -EINTR);
	assert_int_equal(waiter_state(place.waiter), WAITER_NONE);
}

static void non_blocking_descriptor_does_not_wait(void **state)
{
	(void)state;
	fcntl(place.queue.fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(take(), -EAGAIN);
	event_queue_post(&place.queue, &place.event);
	assert_int_equal(take(), 0);
	assert_int_equal(take(), -EAGAIN);
}

static void where_nothing_can_be_seen_the_descriptor_is_waited_at(void **state)
{
	pthread_t thread;
	_Atomic int result = -1;

	(void)state;
	place.view = EVENT_VIEW_NONE;
	take_begin(&thread, &result);
	event_queue_post(&place.queue, &place.event);
	pthread_join(thread, NULL);
	assert_int_equal(result, 0);
	assert_false(is_readable());
}

static void driving_await(void)
{
	while (!atomic_load(&place.drives) || !atomic_load(&place.collector.is_driving))
		sched_yield();
}

static void driving_waiter_is_woken_by_a_post(void **state)
{
	pthread_t thread;
	_Atomic int result = -1;

	(void)state;
	take_begin(&thread, &result);
	driving_await();
	/* A peer on this host has to wake the lane's thread. */
	assert_int_equal(waiter_state(place.waiter), WAITER_NONE);
	event_queue_post(&place.queue, &place.event);
	pthread_join(thread, NULL);
	assert_int_equal(result, 0);
	assert_false(is_readable());
	assert_false(atomic_load(&place.collector.is_driving));
	assert_int_equal(place.shares, 0);
}

static void waiter_that_cannot_drive_sleeps(void **state)
{
	pthread_t thread;
	_Atomic int result = -1;

	(void)state;
	place.drive_result = -EAGAIN;
	take_begin(&thread, &result);
	state_await(WAITER_SLEEPS);
	assert_int_equal(place.drives, 1);
	event_queue_post(&place.queue, &place.event);
	pthread_join(thread, NULL);
	assert_int_equal(result, 0);
}

static void waiter_with_peers_on_this_host_does_not_drive(void **state)
{
	(void)state;
	place.view = EVENT_VIEW_OPEN;
	leave_something();
	assert_int_equal(take(), 0);
	assert_int_equal(place.drives, 0);
}

static void signal_interrupts_a_driving_waiter(void **state)
{
	(void)state;
	place.drive_result = -EINTR;
	assert_int_equal(take(), -EINTR);
	assert_false(atomic_load(&place.collector.is_driving));
	event_queue_post(&place.queue, &place.event);
	assert_true(is_readable());
	assert_int_equal(take(), 0);
}

static void waiter_that_leaves_another_reader_shares_the_lane(void **state)
{
	pthread_t first, second;
	_Atomic int results[2] = {-1, -1};

	(void)state;
	take_begin(&first, &results[0]);
	driving_await();
	take_begin(&second, &results[1]);
	while (!atomic_load(&place.queue.readers))
		sched_yield();
	event_queue_post(&place.queue, &place.event);
	pthread_join(first, NULL);
	assert_int_equal(place.shares, 1);
	event_queue_post(&place.queue, &place.event);
	pthread_join(second, NULL);
	assert_int_equal(results[0], 0);
	assert_int_equal(results[1], 0);
	assert_int_equal(place.queue.readers, 0);
}

static void cancelled_waiter_drives_no_more(void **state)
{
	pthread_t thread;
	void *result;
	_Atomic int error;

	(void)state;
	take_begin(&thread, &error);
	driving_await();
	pthread_cancel(thread);
	pthread_join(thread, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_false(atomic_load(&place.collector.is_driving));
	event_queue_post(&place.queue, &place.event);
	assert_true(is_readable());
	assert_int_equal(take(), 0);
}

static void queue_that_peers_watch_says_so_while_there_is_no_waiter(void **state)
{
	pthread_t thread;
	_Atomic int result = -1;

	(void)state;
	event_queue_watch(&place.queue, true);
	assert_int_equal(waiter_state(place.waiter), WAITER_WATCHES);
	take_begin(&thread, &result);
	state_await(WAITER_SLEEPS);
	event_queue_watch(&place.queue, false);
	event_queue_watch(&place.queue, true);
	assert_int_equal(waiter_state(place.waiter), WAITER_SLEEPS);
	leave_something();
	pthread_join(thread, NULL);
	assert_int_equal(waiter_state(place.waiter), WAITER_WATCHES);
	event_queue_watch(&place.queue, false);
	assert_int_equal(waiter_state(place.waiter), WAITER_NONE);
}

static void write_to_the_eventfd_is_pending_until_the_owner_has_read_it(void **state)
{
	(void)state;
	assert_false(waiter_is_raised(place.waiter, 0));
	assert_true(waiter_is_raised(place.waiter, 1));
	atomic_store(&place.waiter->cleared, 1);
	assert_false(waiter_is_raised(place.waiter, 1));
	assert_true(waiter_is_raised(place.waiter, 2));
	atomic_store(&place.waiter->cleared, UINT32_MAX);
	assert_true(waiter_is_raised(place.waiter, 0));
}

static void cancelled_reader_is_counted_no_more(void **state)
{
	pthread_t first, second;
	_Atomic int results[2] = {-1, -1};

	(void)state;
	take_begin(&first, &results[0]);
	driving_await();
	take_begin(&second, &results[1]);
	while (!atomic_load(&place.queue.readers))
		sched_yield();
	pthread_cancel(second);
	pthread_join(second, NULL);
	assert_int_equal(place.queue.readers, 0);
	event_queue_post(&place.queue, &place.event);
	pthread_join(first, NULL);
	assert_int_equal(place.shares, 0);
}

#define TEST(name)         cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TEST_DRIVING(name) cmocka_unit_test_setup_teardown(name, set_up_driving, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(waiter_takes_an_event_without_the_descriptor),
		TEST(more_than_one_event_leaves_the_descriptor_readable),
		TEST(sleeper_is_woken_by_a_post),
		TEST(sleeper_is_woken_by_a_peer),
		TEST(no_wake_up_is_lost),
		TEST(second_reader_waits_at_the_descriptor),
		TEST(cancelled_reader_is_no_waiter_any_more),
		TEST(reader_that_never_sleeps_can_be_cancelled),
		TEST(signal_interrupts_the_wait),
		TEST(non_blocking_descriptor_does_not_wait),
		TEST(write_to_the_eventfd_is_pending_until_the_owner_has_read_it),
		TEST(queue_that_peers_watch_says_so_while_there_is_no_waiter),
		TEST(where_nothing_can_be_seen_the_descriptor_is_waited_at),
		TEST_DRIVING(driving_waiter_is_woken_by_a_post),
		TEST_DRIVING(waiter_that_cannot_drive_sleeps),
		TEST_DRIVING(waiter_with_peers_on_this_host_does_not_drive),
		TEST_DRIVING(signal_interrupts_a_driving_waiter),
		TEST_DRIVING(waiter_that_leaves_another_reader_shares_the_lane),
		TEST_DRIVING(cancelled_waiter_drives_no_more),
		TEST_DRIVING(cancelled_reader_is_counted_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
