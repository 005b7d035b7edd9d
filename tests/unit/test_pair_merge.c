/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pair/pair_merge.h"

#define NOW_NS   1000000000000u
#define NO_FRAME UINT64_MAX

static struct pair_merge merge;

static int setup(void **state)
{
	(void)state;
	return pair_merge_init(&merge, 2) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	pair_merge_done(&merge);
	return 0;
}

static void add(uint64_t time_ns)
{
	const struct pair_event event = {.time_ns = time_ns, .text = "state RESET to INIT"};

	assert_true(pair_merge_has_room(&merge));
	pair_merge_event_add(&merge, &event);
}

static void mark(uint32_t reporter, uint64_t time_ns)
{
	const struct pair_event event = {.time_ns = time_ns, .reporter = reporter};

	pair_merge_event_add(&merge, &event);
}

static void assert_takes(uint64_t time_ns)
{
	assert_int_equal(pair_merge_event_take(&merge)->time_ns, time_ns);
}

static void nothing_is_next_without_frames_and_events(void **state)
{
	(void)state;
	assert_int_equal(pair_merge_next(&merge, NO_FRAME, NOW_NS), PAIR_MERGE_NONE);
	assert_int_equal(pair_merge_next(&merge, NO_FRAME, UINT64_MAX), PAIR_MERGE_NONE);
}

/* An event of an earlier time may come, until both reporters have marked a later time. */
static void frame_waits_for_events(void **state)
{
	(void)state;
	assert_int_equal(pair_merge_next(&merge, NOW_NS, NOW_NS), PAIR_MERGE_NONE);
	mark(0, NOW_NS);
	assert_int_equal(pair_merge_next(&merge, NOW_NS, NOW_NS), PAIR_MERGE_NONE);
	mark(1, NOW_NS - 1);
	assert_int_equal(pair_merge_next(&merge, NOW_NS, NOW_NS), PAIR_MERGE_NONE);
	assert_int_equal(pair_merge_next(&merge, NOW_NS - 1, NOW_NS), PAIR_MERGE_FRAME);
	mark(1, NOW_NS);
	assert_int_equal(pair_merge_next(&merge, NOW_NS, NOW_NS), PAIR_MERGE_FRAME);
	assert_int_equal(merge.count, 0);
}

static void nothing_waits_for_long(void **state)
{
	const uint64_t late_ns = NOW_NS + PAIR_MERGE_WAIT_NS;

	(void)state;
	assert_int_equal(pair_merge_next(&merge, NOW_NS, late_ns - 1), PAIR_MERGE_NONE);
	assert_int_equal(pair_merge_next(&merge, NOW_NS, late_ns), PAIR_MERGE_FRAME);
	assert_int_equal(pair_merge_next(&merge, NOW_NS, UINT64_MAX), PAIR_MERGE_FRAME);
	add(NOW_NS);
	assert_int_equal(pair_merge_next(&merge, NO_FRAME, late_ns - 1), PAIR_MERGE_NONE);
	assert_int_equal(pair_merge_next(&merge, NO_FRAME, late_ns), PAIR_MERGE_EVENT);
	assert_int_equal(pair_merge_next(&merge, NO_FRAME, UINT64_MAX), PAIR_MERGE_EVENT);
}

static void event_waits_for_frames(void **state)
{
	const uint64_t then_ns = NOW_NS + PAIR_MERGE_FRAMES_NS;

	(void)state;
	add(NOW_NS);
	pair_merge_events_end(&merge);
	assert_int_equal(pair_merge_next(&merge, NO_FRAME, then_ns - 1), PAIR_MERGE_NONE);
	assert_int_equal(pair_merge_next(&merge, NO_FRAME, then_ns), PAIR_MERGE_EVENT);
	assert_int_equal(pair_merge_next(&merge, NOW_NS, NOW_NS), PAIR_MERGE_EVENT);
}

/* Once a later frame has come, only other events may be earlier. */
static void earlier_one_of_both_is_next(void **state)
{
	(void)state;
	add(NOW_NS);
	mark(1, NOW_NS + 5);
	assert_int_equal(pair_merge_next(&merge, NOW_NS + 1, NOW_NS + 9), PAIR_MERGE_NONE);
	mark(0, NOW_NS);
	assert_int_equal(pair_merge_next(&merge, NOW_NS + 1, NOW_NS + 9), PAIR_MERGE_EVENT);
	assert_int_equal(pair_merge_next(&merge, NOW_NS, NOW_NS + 9), PAIR_MERGE_EVENT);
	assert_int_equal(pair_merge_next(&merge, NOW_NS - 1, NOW_NS + 9), PAIR_MERGE_FRAME);
}

/* Two processes, each of which writes its events in order. The ring begins again meanwhile. */
static void events_come_out_by_their_times(void **state)
{
	uint64_t taken_ns = 0;

	(void)state;
	for (uint64_t i = 0; i < 2 * PAIR_MERGE_EVENTS_MAX; i += 10) {
		for (uint64_t j = 0; j < 10; j++) {
			add(NOW_NS + 2 * (i + j));
			if (j % 2)
				add(NOW_NS + 2 * (i + j) - 19);
		}
		for (uint64_t j = 0; i > 0 && j < 15; j++) {
			const struct pair_event *event = pair_merge_event_take(&merge);

			assert_true(event->time_ns >= taken_ns);
			taken_ns = event->time_ns;
		}
	}
}

static void full_ring_has_no_room(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < PAIR_MERGE_EVENTS_MAX; i++)
		add(NOW_NS + i);
	assert_false(pair_merge_has_room(&merge));
	assert_takes(NOW_NS);
	add(NOW_NS);
	assert_takes(NOW_NS);
	assert_takes(NOW_NS + 1);
}

#define MERGE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		MERGE_TEST(nothing_is_next_without_frames_and_events),
		MERGE_TEST(frame_waits_for_events),
		MERGE_TEST(nothing_waits_for_long),
		MERGE_TEST(event_waits_for_frames),
		MERGE_TEST(earlier_one_of_both_is_next),
		MERGE_TEST(events_come_out_by_their_times),
		MERGE_TEST(full_ring_has_no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
