/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "front/verbs/object.h"

static struct device device_a;
static struct device device_b;
static struct context context_a = {.device = &device_a, .opening = 1};
static struct context imported = {.device = &device_a, .opening = 1};
static struct context same_device = {.device = &device_a, .opening = 2};
static struct context other_device = {.device = &device_b, .opening = 3};

static void remove_is(uint32_t handle, enum object_kind kind, int expected)
{
	struct object *removed;

	assert_int_equal(object_remove(handle, kind, &context_a, &removed), expected);
}

static void object_is_found_by_handle_kind_and_opening(void **state)
{
	struct object object = {0};

	(void)state;
	assert_int_equal(object_add(&object, OBJECT_PD, &context_a), 0);
	assert_int_not_equal(object.handle, 0);
	assert_null(object_ref(object.handle, OBJECT_CQ, &context_a));
	assert_null(object_ref(object.handle, OBJECT_PD, &same_device));
	assert_null(object_ref(object.handle, OBJECT_PD, &other_device));
	assert_null(object_ref(object.handle ^ 1, OBJECT_PD, &context_a));
	assert_null(object_ref(0, OBJECT_PD, &context_a));
	assert_null(object_ref(UINT32_MAX, OBJECT_PD, &context_a));
	assert_ptr_equal(object_ref(object.handle, OBJECT_PD, &context_a), &object);
	assert_ptr_equal(object_ref(object.handle, OBJECT_PD, &imported), &object);
	object_unref(&object);
	object_unref(&object);
	remove_is(object.handle, OBJECT_PD, 0);
}

static void object_in_use_is_not_removed(void **state)
{
	struct object object = {0};

	(void)state;
	assert_int_equal(object_add(&object, OBJECT_PD, &context_a), 0);
	object_ref(object.handle, OBJECT_PD, &context_a);
	remove_is(object.handle, OBJECT_PD, EBUSY);
	object_unref(&object);
	remove_is(object.handle, OBJECT_PD, 0);
}

static void object_removed_twice_is_refused(void **state)
{
	struct object object = {0};

	(void)state;
	assert_int_equal(object_add(&object, OBJECT_MR, &context_a), 0);
	remove_is(object.handle, OBJECT_MR, 0);
	remove_is(object.handle, OBJECT_MR, ENOENT);
}

static void handle_of_a_former_object_does_not_match_a_later_one(void **state)
{
	struct object first = {0};
	struct object second = {0};
	uint32_t former;

	(void)state;
	assert_int_equal(object_add(&first, OBJECT_MR, &context_a), 0);
	former = first.handle;
	remove_is(former, OBJECT_MR, 0);
	/* A freed slot is reused last, so make more objects than there are slots. */
	for (int i = 0; i < 10000; i++) {
		assert_int_equal(object_add(&second, OBJECT_MR, &context_a), 0);
		assert_int_not_equal(second.handle, former);
		assert_null(object_ref(former, OBJECT_MR, &context_a));
		remove_is(second.handle, OBJECT_MR, 0);
	}
}

static void context_is_used_while_an_object_of_it_lives(void **state)
{
	struct object object = {0};

	(void)state;
	assert_false(object_context_is_used(&context_a));
	assert_int_equal(object_add(&object, OBJECT_PD, &context_a), 0);
	assert_true(object_context_is_used(&context_a));
	assert_false(object_context_is_used(&same_device));
	remove_is(object.handle, OBJECT_PD, 0);
	assert_false(object_context_is_used(&context_a));
}

static void table_grows_and_keeps_every_object(void **state)
{
	enum { COUNT = 5000 };
	struct object *objects = calloc(COUNT, sizeof(*objects));

	(void)state;
	assert_non_null(objects);
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(object_add(&objects[i], OBJECT_CQ, &context_a), 0);
	for (int i = 0; i < COUNT; i++) {
		assert_ptr_equal(object_ref(objects[i].handle, OBJECT_CQ, &context_a), &objects[i]);
		object_unref(&objects[i]);
	}
	for (int i = 0; i < COUNT; i++)
		remove_is(objects[i].handle, OBJECT_CQ, 0);
	free(objects);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(object_is_found_by_handle_kind_and_opening),
		cmocka_unit_test(object_in_use_is_not_removed),
		cmocka_unit_test(object_removed_twice_is_refused),
		cmocka_unit_test(handle_of_a_former_object_does_not_match_a_later_one),
		cmocka_unit_test(context_is_used_while_an_object_of_it_lives),
		cmocka_unit_test(table_grows_and_keeps_every_object),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
