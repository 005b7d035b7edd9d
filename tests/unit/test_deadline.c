/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/deadline.h"
#include "support/sim_random.h"

enum { DEADLINE_COUNT = 100 };

static void deadline_heap_without_entries_has_no_first(void **state)
{
	struct deadline_heap heap;

	(void)state;
	deadline_heap_init(&heap);
	assert_null(deadline_heap_first(&heap));
	deadline_heap_done(&heap);
}

static void deadline_cleared_twice_stays_cleared(void **state)
{
	struct deadline_heap heap;
	struct deadline deadline = {0};

	(void)state;
	deadline_heap_init(&heap);
	assert_int_equal(deadline_heap_reserve(&heap, 1), 0);
	deadline_set(&heap, &deadline, 5);
	assert_ptr_equal(deadline_heap_first(&heap), &deadline);
	deadline_set(&heap, &deadline, DEADLINE_NEVER);
	deadline_set(&heap, &deadline, DEADLINE_NEVER);
	assert_null(deadline_heap_first(&heap));
	assert_int_equal(deadline.position, 0);
	deadline_heap_done(&heap);
}

/* The twin: look at all of them. */
static uint64_t earliest_of(const struct deadline *deadline)
{
	uint64_t earliest_ns = DEADLINE_NEVER;

	for (uint32_t i = 0; i < DEADLINE_COUNT; i++)
		if (deadline[i].position && deadline[i].at_ns < earliest_ns)
			earliest_ns = deadline[i].at_ns;
	return earliest_ns;
}

static void deadline_heap_agrees_with_a_search(void **state)
{
	struct deadline deadline[DEADLINE_COUNT] = {0};
	struct sim_random random = {1};
	struct deadline_heap heap;

	(void)state;
	deadline_heap_init(&heap);
	for (uint32_t count = 1; count <= DEADLINE_COUNT; count++)
		assert_int_equal(deadline_heap_reserve(&heap, count), 0);
	for (uint32_t step = 0; step < 50000; step++) {
		uint32_t i = (uint32_t)sim_random_below(&random, DEADLINE_COUNT);
		uint64_t at_ns = sim_random_below(&random, 4) ? sim_random_below(&random, 500)
							      : DEADLINE_NEVER;

		deadline_set(&heap, &deadline[i], at_ns);
		const struct deadline *first = deadline_heap_first(&heap);
		assert_int_equal(first ? first->at_ns : DEADLINE_NEVER, earliest_of(deadline));
		assert_int_equal(deadline[i].position != 0, at_ns != DEADLINE_NEVER);
	}
	deadline_heap_done(&heap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deadline_heap_without_entries_has_no_first),
		cmocka_unit_test(deadline_cleared_twice_stays_cleared),
		cmocka_unit_test(deadline_heap_agrees_with_a_search),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
