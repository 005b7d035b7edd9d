/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/event_heap.h"
#include "support/sim_random.h"

enum { EVENT_COUNT = 500 };

static void event_heap_without_events_has_no_first(void **state)
{
	struct event_heap heap = {0};

	(void)state;
	assert_int_equal(event_heap_first_at(&heap), UINT64_MAX);
	event_heap_done(&heap);
}

static void events_of_one_time_leave_in_the_order_of_their_push(void **state)
{
	struct event_heap heap = {0};

	(void)state;
	for (uint64_t i = 0; i < EVENT_COUNT; i++)
		assert_int_equal(event_heap_push(&heap, 7 + i % 2, i), 0);
	for (uint64_t i = 0; i < EVENT_COUNT; i++) {
		struct event event = event_heap_pop(&heap);
		uint64_t half = EVENT_COUNT / 2;

		assert_int_equal(event.at, i < half ? 7 : 8);
		assert_int_equal(event.what, i < half ? 2 * i : 2 * (i - half) + 1);
	}
	event_heap_done(&heap);
}

/* Pushes and pops in any order, beside a search through all events. */
static void event_heap_agrees_with_a_search(void **state)
{
	struct event_heap heap = {0};
	struct sim_random random = {3};
	uint64_t at[EVENT_COUNT];
	uint32_t count = 0;

	(void)state;
	for (uint32_t step = 0; step < 50000; step++) {
		if (count < EVENT_COUNT && sim_random_below(&random, 2)) {
			at[count] = sim_random_below(&random, 1000);
			assert_int_equal(event_heap_push(&heap, at[count], 0), 0);
			count++;
		} else if (count) {
			uint32_t first = 0;

			for (uint32_t i = 1; i < count; i++)
				if (at[i] < at[first])
					first = i;
			assert_int_equal(event_heap_first_at(&heap), at[first]);
			assert_int_equal(event_heap_pop(&heap).at, at[first]);
			at[first] = at[--count];
		}
		assert_int_equal(heap.count, count);
	}
	event_heap_done(&heap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(event_heap_without_events_has_no_first),
		cmocka_unit_test(events_of_one_time_leave_in_the_order_of_their_push),
		cmocka_unit_test(event_heap_agrees_with_a_search),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
