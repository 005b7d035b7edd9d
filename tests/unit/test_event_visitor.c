/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread that reads a non-blocking descriptor and drives a lane meanwhile. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "event/event_queue.h"
#include "support/arena_memory.h"

static struct place {
	struct event_queue queue;
	struct event_collector collector;
	struct event event;
	_Atomic uint32_t left; /* events that the next visit finds */
	_Atomic uint32_t visits;
	_Atomic bool is_held; /* visits do not return */
} place;

static void visit(struct event_collector *collector)
{
	assert_ptr_equal(collector, &place.collector);
	atomic_fetch_add(&place.visits, 1);
	for (uint32_t left = atomic_exchange(&place.left, 0); left; left--)
		event_queue_post(&place.queue, &place.event);
	while (atomic_load(&place.is_held))
		sched_yield();
}

static enum event_view collect_nothing(struct event_collector *collector)
{
	(void)collector;
	return EVENT_VIEW_NONE;
}

static int set_up(void **state)
{
	memset(&place, 0, sizeof(place));
	*state = &place;
	event_init(&place.event);
	place.collector.waiter = arena_memory_new(4096);
	place.collector.collect = collect_nothing;
	place.collector.visit = visit;
	atomic_store(&place.collector.is_visited, true);
	if (event_queue_init_set(&place.queue))
		return -1;
	event_queue_set_collector(&place.queue, &place.collector);
	return fcntl(place.queue.fd, F_SETFL, O_NONBLOCK);
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

static void visitor_takes_an_event_without_the_descriptor(void **state)
{
	(void)state;
	atomic_store(&place.left, 1);
	assert_int_equal(take(), 0);
	assert_false(is_readable());
	assert_int_equal(take(), -EAGAIN);
	assert_int_equal(place.visits, 2);
}

static void visitor_leaves_further_events_to_the_descriptor(void **state)
{
	(void)state;
	atomic_store(&place.left, 2);
	assert_int_equal(take(), 0);
	assert_true(is_readable());
	assert_int_equal(take(), 0);
	assert_false(is_readable());
	assert_int_equal(take(), -EAGAIN);
}

static void event_of_another_thread_makes_the_descriptor_readable(void **state)
{
	(void)state;
	event_queue_post(&place.queue, &place.event);
	assert_true(is_readable());
	assert_int_equal(take(), 0);
	assert_false(is_readable());
	assert_int_equal(take(), -EAGAIN);
}

static void *take_once(void *argument)
{
	atomic_store((_Atomic int *)argument, take());
	return NULL;
}

/* Both get one: the second reader comes while the first one visits. */
static void event_of_a_visit_is_left_to_the_visitor(void **state)
{
	_Atomic int result = 1;
	pthread_t thread;

	(void)state;
	atomic_store(&place.is_held, true);
	atomic_store(&place.left, 2);
	assert_int_equal(pthread_create(&thread, NULL, take_once, (void *)&result), 0);
	while (!atomic_load(&place.visits))
		sched_yield();
	event_queue_post(&place.queue, &place.event);
	assert_false(is_readable());
	assert_int_equal(take(), -EAGAIN);
	atomic_store(&place.is_held, false);
	pthread_join(thread, NULL);
	assert_int_equal(result, 0);
	assert_true(is_readable());
	assert_int_equal(take(), 0);
	assert_int_equal(take(), 0);
	assert_int_equal(take(), -EAGAIN);
}

static void blocking_reader_waits_after_its_visit(void **state)
{
	_Atomic int result = 1;
	pthread_t thread;

	(void)state;
	fcntl(place.queue.fd, F_SETFL, 0);
	assert_int_equal(pthread_create(&thread, NULL, take_once, (void *)&result), 0);
	while (!atomic_load(&place.queue.readers))
		sched_yield();
	assert_int_equal(place.visits, 1);
	event_queue_post(&place.queue, &place.event);
	pthread_join(thread, NULL);
	assert_int_equal(result, 0);
}

static void reader_of_a_channel_without_visits_does_not_visit(void **state)
{
	(void)state;
	atomic_store(&place.collector.is_visited, false);
	atomic_store(&place.left, 1);
	assert_int_equal(take(), -EAGAIN);
	assert_int_equal(place.visits, 0);
}

static void reader_that_finds_nothing_is_noted(void **state)
{
	(void)state;
	atomic_store(&place.collector.is_visited, false);
	event_queue_post(&place.queue, &place.event);
	assert_int_equal(take(), 0);
	assert_false(place.collector.has_missed);
	assert_int_equal(take(), -EAGAIN);
	assert_true(place.collector.has_missed);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(visitor_takes_an_event_without_the_descriptor),
		TEST(visitor_leaves_further_events_to_the_descriptor),
		TEST(event_of_another_thread_makes_the_descriptor_readable),
		TEST(event_of_a_visit_is_left_to_the_visitor),
		TEST(blocking_reader_waits_after_its_visit),
		TEST(reader_of_a_channel_without_visits_does_not_visit),
		TEST(reader_that_finds_nothing_is_noted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
