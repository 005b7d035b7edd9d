/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory for state that few objects use: zeroed, and without pages before its first use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/cold_pool.h"

struct object {
	uint64_t words[40];
};

enum { OBJECT_COUNT = 10000 };

static struct cold_pool pool = COLD_POOL_OF(struct object);
static struct object *objects[OBJECT_COUNT];

/* Is the page of this address in memory? */
static bool is_resident(const void *address)
{
	uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	unsigned char resident = 0;

	assert_int_equal(
		mincore((void *)((uintptr_t)address & ~(page_bytes - 1)), 1, &resident), 0);
	return resident & 1;
}

static uint32_t resident_count(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < OBJECT_COUNT; i++)
		count += is_resident(objects[i]);
	return count;
}

static bool is_zeroed(const struct object *object)
{
	static const struct object zeroed;

	return memcmp(object, &zeroed, sizeof(zeroed)) == 0;
}

static void object_takes_pages_from_its_first_use(void **state)
{
	uint32_t neighbours = (uint32_t)sysconf(_SC_PAGESIZE) / sizeof(struct object) + 1;

	(void)state;
	for (uint32_t i = 0; i < OBJECT_COUNT; i++) {
		objects[i] = cold_pool_take(&pool);
		assert_non_null(objects[i]);
	}
	assert_int_equal(resident_count(), 0);
	objects[OBJECT_COUNT / 2]->words[0] = 1;
	assert_in_range(resident_count(), 1, neighbours);
}

static void object_is_zeroed_after_another_has_used_it(void **state)
{
	(void)state;
	memset(objects[7], 0xff, sizeof(*objects[7]));
	cold_pool_give(&pool, objects[7], true);
	cold_pool_give(&pool, NULL, true);
	assert_ptr_equal(cold_pool_take(&pool), objects[7]);
	assert_true(is_zeroed(objects[7]));
}

static void all_objects_have_room_in_the_pool(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < OBJECT_COUNT; i++)
		cold_pool_give(&pool, objects[i], true);
	for (uint32_t i = OBJECT_COUNT; i-- > 0;) {
		assert_ptr_equal(cold_pool_take(&pool), objects[i]);
		assert_true(is_zeroed(objects[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(object_takes_pages_from_its_first_use),
		cmocka_unit_test(object_is_zeroed_after_another_has_used_it),
		cmocka_unit_test(all_objects_have_room_in_the_pool),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
