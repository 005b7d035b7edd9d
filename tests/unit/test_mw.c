/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <cmocka.h>

#include "memory/mw.h"
#include "support/permutation.h"
#include "support/sanitizer.h"
#include "support/sim_random.h"

enum {
	ARENA_BYTES = 8 << 20,
	PD = 4,
	QPN = 0x10001,
	REGION_BYTES = 1000,
	IOVA = 0x10000,
	ALL = MR_LOCAL_WRITE | MR_REMOTE_ANY | MR_WINDOW_BIND,
};

static const struct mr_user user = {PD, QPN};

static _Alignas(64) uint8_t arena_memory[ARENA_BYTES];
static uint8_t memory[REGION_BYTES];
static struct arena arena;
static struct mr_table table;
static uint32_t region_key;

static uint32_t region_add(uint32_t pd, uint32_t access)
{
	struct mr_region region = {pd, access, IOVA, REGION_BYTES, memory};
	uint32_t key;

	assert_int_equal(mr_table_add(&table, &region, 0x5a, &key), 0);
	return key;
}

static int setup(void **state)
{
	(void)state;
	memset(arena_memory, 0, sizeof(arena_memory));
	arena_init(&arena, arena_memory, sizeof(arena_memory));
	assert_int_equal(mr_table_init(&table, &arena, 8, test_permutation(11)), 0);
	region_key = region_add(PD, ALL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mr_table_done(&table);
	return 0;
}

static uint32_t window_add(enum mr_kind kind)
{
	uint32_t key;

	assert_int_equal(mw_add(&table, PD, kind, 7, &key), 0);
	return key;
}

/* 100 bytes from byte 50 on, to be written, for `user`. */
static struct mw_bind usual_bind(uint32_t key)
{
	return (struct mw_bind){
		.key = key,
		.region_key = region_key,
		.user = user,
		.access = MR_REMOTE_WRITE,
		.iova = IOVA + 50,
		.bytes = 100,
	};
}

static void bind(uint32_t key)
{
	struct mw_bind bind = usual_bind(key);

	assert_int_equal(mw_bind(&table, &bind), MR_OK);
}

static enum mr_fault resolve_as(
	struct mr_user who, uint32_t key, uint32_t access, uint64_t iova, uint64_t bytes)
{
	uint8_t *pointer = NULL;
	enum mr_fault fault = mr_resolve_for(&table, key, who, access, iova, bytes, &pointer);

	if (fault == MR_OK && bytes)
		assert_true(pointer >= memory && pointer + bytes <= memory + REGION_BYTES);
	return fault;
}

static enum mr_fault resolve(uint32_t key)
{
	return resolve_as(user, key, MR_REMOTE_WRITE, IOVA + 50, 100);
}

static void mw_unbound_grants_nothing(void **state)
{
	uint32_t key = window_add(MR_KIND_WINDOW_2);

	(void)state;
	assert_int_equal(resolve(key), MR_FAULT_KEY);
	assert_int_equal(mw_invalidate(&table, key, user), MR_FAULT_KEY);
}

static void mw_bound_is_a_part_of_its_region(void **state)
{
	uint32_t key = window_add(MR_KIND_WINDOW_2) + 1;
	uint8_t *pointer;

	(void)state;
	bind(key);
	assert_int_equal(
		mr_resolve_for(&table, key, user, MR_REMOTE_WRITE, IOVA + 60, 90, &pointer), MR_OK);
	assert_ptr_equal(pointer, memory + 60);
	assert_int_equal(resolve_as(user, key, MR_REMOTE_WRITE, IOVA + 49, 1), MR_FAULT_BOUNDS);
	assert_int_equal(resolve_as(user, key, MR_REMOTE_WRITE, IOVA + 60, 91), MR_FAULT_BOUNDS);
	assert_int_equal(resolve(key - 1), MR_FAULT_KEY);
	assert_int_equal(resolve(key + 1), MR_FAULT_KEY);
}

static void mw_zero_based_counts_from_its_first_byte(void **state)
{
	struct mw_bind bind = usual_bind(window_add(MR_KIND_WINDOW_2));
	uint8_t *pointer;

	(void)state;
	bind.access |= MR_ZERO_BASED;
	assert_int_equal(mw_bind(&table, &bind), MR_OK);
	assert_int_equal(
		mr_resolve_for(&table, bind.key, user, MR_REMOTE_WRITE, 3, 97, &pointer), MR_OK);
	assert_ptr_equal(pointer, memory + 53);
	assert_int_equal(resolve_as(user, bind.key, MR_REMOTE_WRITE, 3, 98), MR_FAULT_BOUNDS);
}

static void mw_grants_what_it_was_bound_with_and_nothing_local(void **state)
{
	static const uint32_t rights[] = {MR_REMOTE_WRITE, MR_REMOTE_READ, MR_REMOTE_ATOMIC};

	(void)state;
	for (uint32_t granted = 0; granted < 8; granted++) {
		struct mw_bind bind = usual_bind(window_add(MR_KIND_WINDOW_2));

		bind.access = granted << 1;
		assert_int_equal(mw_bind(&table, &bind), MR_OK);
		for (uint32_t i = 0; i < 3; i++)
			assert_int_equal(resolve_as(user, bind.key, rights[i], IOVA + 50, 8),
				bind.access & rights[i] ? MR_OK : MR_FAULT_ACCESS);
		assert_int_equal(
			resolve_as(user, bind.key, MR_LOCAL_READ, IOVA + 50, 8), MR_FAULT_ACCESS);
		assert_int_equal(
			resolve_as(user, bind.key, MR_LOCAL_WRITE, IOVA + 50, 8), MR_FAULT_ACCESS);
		assert_int_equal(mw_remove(&table, bind.key, PD), 0);
	}
}

static void mw_of_type_2_is_for_its_queue_pair_only(void **state)
{
	struct mr_user other = {PD, QPN + 1};
	uint32_t key = window_add(MR_KIND_WINDOW_2);

	(void)state;
	bind(key);
	assert_int_equal(resolve_as(other, key, MR_REMOTE_WRITE, IOVA + 50, 1), MR_FAULT_PD);
	assert_int_equal(mw_invalidate(&table, key, other), MR_FAULT_PD);
	assert_int_equal(resolve(key), MR_OK);
}

static void mw_of_type_1_is_for_its_protection_domain(void **state)
{
	uint32_t key = window_add(MR_KIND_WINDOW_1);

	(void)state;
	bind(key);
	assert_int_equal(
		resolve_as((struct mr_user){PD, QPN + 1}, key, MR_REMOTE_WRITE, IOVA + 50, 1),
		MR_OK);
	assert_int_equal(
		resolve_as((struct mr_user){PD + 1, QPN}, key, MR_REMOTE_WRITE, IOVA + 50, 1),
		MR_FAULT_PD);
	assert_int_equal(mw_invalidate(&table, key, user), MR_FAULT_ACCESS);
	assert_int_equal(resolve(key), MR_OK);
}

static void mw_of_type_1_bound_again_forgets_the_key_before(void **state)
{
	uint32_t key = window_add(MR_KIND_WINDOW_1);
	struct mw_bind unbind = usual_bind(key + 2);

	(void)state;
	bind(key);
	bind(key + 1);
	assert_int_equal(resolve(key), MR_FAULT_KEY);
	assert_int_equal(resolve(key + 1), MR_OK);
	unbind.bytes = 0;
	assert_int_equal(mw_bind(&table, &unbind), MR_OK);
	assert_int_equal(resolve(key + 1), MR_FAULT_KEY);
	assert_int_equal(resolve(key + 2), MR_FAULT_KEY);
	assert_int_equal(mr_table_remove(&table, region_key, PD), 0);
}

static void mw_of_type_2_is_bound_again_only_when_invalidated(void **state)
{
	uint32_t key = window_add(MR_KIND_WINDOW_2);
	struct mw_bind again = usual_bind(key + 1);

	(void)state;
	bind(key);
	assert_int_equal(mw_bind(&table, &again), MR_FAULT_STATE);
	assert_int_equal(mw_check(&table, key, user), MR_OK);
	assert_int_equal(mw_invalidate(&table, key, user), MR_OK);
	assert_int_equal(resolve(key), MR_FAULT_KEY);
	assert_int_equal(mw_invalidate(&table, key, user), MR_FAULT_KEY);
	again.bytes = 0;
	assert_int_equal(mw_bind(&table, &again), MR_FAULT_BOUNDS);
	again.bytes = 1;
	assert_int_equal(mw_bind(&table, &again), MR_OK);
}

static void mw_bind_is_refused_and_changes_nothing(void **state)
{
	uint32_t key = window_add(MR_KIND_WINDOW_1);
	uint32_t foreign = region_add(PD + 1, ALL);
	uint32_t closed = region_add(PD, ALL & ~(uint32_t)MR_WINDOW_BIND);
	uint32_t read_only = region_add(PD, MR_REMOTE_READ | MR_WINDOW_BIND);
	const struct {
		struct mw_bind bind;
		enum mr_fault fault;
	} cases[] = {
		{{key + 1, region_key ^ 1, user, 0, IOVA, 1}, MR_FAULT_KEY},
		{{key ^ 0x100, region_key, user, 0, IOVA, 1}, MR_FAULT_KEY},
		{{region_key, region_key, user, 0, IOVA, 1}, MR_FAULT_KEY},
		{{key + 1, key, user, 0, IOVA, 1}, MR_FAULT_KEY},
		{{key + 1, foreign, user, 0, IOVA, 1}, MR_FAULT_PD},
		{{key + 1, region_key, {PD + 1, QPN}, 0, IOVA, 1}, MR_FAULT_PD},
		{{key + 1, closed, user, MR_REMOTE_READ, IOVA, 1}, MR_FAULT_ACCESS},
		{{key + 1, read_only, user, MR_REMOTE_WRITE, IOVA, 1}, MR_FAULT_ACCESS},
		{{key + 1, read_only, user, MR_REMOTE_ATOMIC, IOVA, 1}, MR_FAULT_ACCESS},
		{{key + 1, region_key, user, 0, IOVA - 1, 1}, MR_FAULT_BOUNDS},
		{{key + 1, region_key, user, 0, IOVA + 1, REGION_BYTES}, MR_FAULT_BOUNDS},
		{{key + 1, region_key, user, 0, IOVA, UINT64_MAX}, MR_FAULT_BOUNDS},
	};

	(void)state;
	bind(key);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(mw_bind(&table, &cases[i].bind), cases[i].fault);
		assert_int_equal(resolve(key), MR_OK);
	}
}

static void mw_keeps_its_region_from_going(void **state)
{
	struct mr_region other = {PD, ALL, IOVA, 10, memory};
	uint32_t key = window_add(MR_KIND_WINDOW_2);

	(void)state;
	bind(key);
	assert_int_equal(mr_table_remove(&table, region_key, PD), -EBUSY);
	assert_int_equal(mr_table_change(&table, region_key, PD, &other), -EBUSY);
	assert_int_equal(mw_remove(&table, key, PD + 1), -EINVAL);
	assert_int_equal(mw_remove(&table, region_key, PD), -EINVAL);
	assert_int_equal(mw_remove(&table, key, PD), 0);
	assert_int_equal(resolve(key), MR_FAULT_KEY);
	assert_int_equal(mr_table_remove(&table, region_key, PD), 0);
}

static void mw_goes_with_its_queue_pair(void **state)
{
	uint32_t mine = window_add(MR_KIND_WINDOW_2);
	uint32_t shared = window_add(MR_KIND_WINDOW_1);
	struct mw_bind other = usual_bind(window_add(MR_KIND_WINDOW_2));

	(void)state;
	bind(mine);
	bind(shared);
	other.user.qpn = QPN + 1;
	assert_int_equal(mw_bind(&table, &other), MR_OK);
	mw_release(&table, QPN);
	assert_int_equal(resolve(mine), MR_FAULT_KEY);
	assert_int_equal(resolve(shared), MR_OK);
	assert_int_equal(resolve_as(other.user, other.key, MR_REMOTE_WRITE, IOVA + 50, 1), MR_OK);
}

static void mw_key_of_a_window_that_is_gone_names_no_later_one(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 200; i++) {
		uint32_t key = window_add(MR_KIND_WINDOW_2);
		struct mw_bind late = usual_bind(key);

		bind(key);
		assert_int_equal(mw_remove(&table, key, PD), 0);
		assert_int_equal(mw_bind(&table, &late), MR_FAULT_KEY);
		assert_int_equal(mw_remove(&table, key, PD), -EINVAL);
	}
}

/*
 * Regions, windows, binds and invalidations at random: a region with bound windows cannot be
 * removed, every other region can.
 */
static void mw_counts_of_bound_windows_are_right(void **state)
{
	enum { WINDOWS = 5 };
	struct sim_random random = {4};
	uint32_t key[WINDOWS];
	bool is_bound[WINDOWS] = {0};

	(void)state;
	for (uint32_t i = 0; i < WINDOWS; i++)
		key[i] = window_add(i % 2 ? MR_KIND_WINDOW_1 : MR_KIND_WINDOW_2);
	for (uint32_t step = 0; step < 20000; step++) {
		uint32_t i = (uint32_t)sim_random_below(&random, WINDOWS);
		struct mw_bind bind = usual_bind(key[i]);
		uint32_t bound = 0;

		if (sim_random_below(&random, 2)) {
			is_bound[i] |= mw_bind(&table, &bind) == MR_OK;
		} else if (i % 2) {
			bind.bytes = 0;
			assert_int_equal(mw_bind(&table, &bind), MR_OK);
			is_bound[i] = false;
		} else {
			assert_int_equal(mw_invalidate(&table, key[i], user) == MR_OK, is_bound[i]);
			is_bound[i] = false;
		}
		for (uint32_t j = 0; j < WINDOWS; j++)
			bound += is_bound[j];
		if (bound) {
			assert_int_equal(mr_table_remove(&table, region_key, PD), -EBUSY);
		} else {
			assert_int_equal(mr_table_remove(&table, region_key, PD), 0);
			region_key = region_add(PD, ALL);
		}
	}
}

static bool nothing_is_there(void *address, uint64_t bytes, bool is_written)
{
	(void)address;
	(void)bytes;
	(void)is_written;
	return false;
}

static void mw_of_an_on_demand_region_is_on_demand(void **state)
{
	struct mw_bind bind = usual_bind(window_add(MR_KIND_WINDOW_2));

	(void)state;
	table.touch = nothing_is_there;
	bind.region_key = region_add(PD, ALL | MR_ON_DEMAND);
	assert_int_equal(mw_bind(&table, &bind), MR_OK);
	assert_int_equal(resolve_as(user, bind.key, MR_REMOTE_WRITE, IOVA + 50, 8), MR_OK);
	assert_int_equal(resolve_as(user, bind.key, MR_REMOTE_WRITE | MR_TOUCH, IOVA + 50, 8),
		MR_FAULT_PAGE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* ThreadSanitizer's own instructions would trap, too. */
#if defined(__x86_64__) && !HAS_THREAD_SANITIZER
enum { SECOND_OFFSET = 900 };

static uint32_t rebound_key;
static bool is_first; /* how the window is bound */

/* Bind the window under its one key to the first bytes or, zero-based, to the last. */
static void rebind(bool to_first)
{
	struct mw_bind bind = usual_bind(rebound_key);

	if (to_first) {
		bind.iova = IOVA;
		bind.bytes = SECOND_OFFSET;
	} else {
		bind.access |= MR_ZERO_BASED;
		bind.iova = IOVA + SECOND_OFFSET;
		bind.bytes = REGION_BYTES - SECOND_OFFSET;
	}
	is_first = to_first;
	if (mw_bind(&table, &bind) != MR_OK)
		abort();
}

#define TRAP_FLAG 0x100 /* in the flags: SIGTRAP after each instruction */

static volatile bool looks_up;
static volatile uint32_t steps_left; /* until the window is bound again */

/* Instructions are counted from here on. */
static void steps_begin(int number, siginfo_t *info, void *context)
{
	ucontext_t *interrupted = context;

	(void)number, (void)info;
	interrupted->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void step_done(int number, siginfo_t *info, void *context)
{
	ucontext_t *interrupted = context;

	(void)number, (void)info;
	if (looks_up && steps_left && --steps_left)
		return;
	interrupted->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	if (looks_up)
		rebind(!is_first);
}

/* Look up bytes of the first bind. Returns false when that was over before so many instructions. */
static bool look_up_interrupted(uint32_t steps)
{
	uint8_t *pointer = NULL;

	steps_left = steps;
	looks_up = true;
	raise(SIGUSR1);
	enum mr_fault fault = mr_resolve_for(
		&table, rebound_key, user, MR_REMOTE_WRITE, IOVA + 500, 100, &pointer);
	looks_up = false;
	if (fault == MR_OK)
		assert_ptr_equal(pointer, memory + 500);
	return steps_left == 0;
}

/* The window is bound again after each instruction of a look-up, in turn. */
static void mw_bound_again_under_its_key_never_mixes_two_binds(void **state)
{
	const struct sigaction begin = {.sa_sigaction = steps_begin, .sa_flags = SA_SIGINFO};
	const struct sigaction done = {.sa_sigaction = step_done, .sa_flags = SA_SIGINFO};
	uint32_t steps = 0;

	(void)state;
	rebound_key = window_add(MR_KIND_WINDOW_1);
	assert_int_equal(sigaction(SIGUSR1, &begin, NULL), 0);
	assert_int_equal(sigaction(SIGTRAP, &done, NULL), 0);
	do {
		steps++;
		rebind(true);
		look_up_interrupted(steps);
		rebind(false);
	} while (look_up_interrupted(steps));
	print_message("%u instructions\n", steps);
	assert_true(steps > 10);
}
#else
static void mw_bound_again_under_its_key_never_mixes_two_binds(void **state)
{
	(void)state;
	skip(); /* it needs a processor that traps after each instruction when its flags say so */
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(mw_unbound_grants_nothing),
		TEST(mw_bound_is_a_part_of_its_region),
		TEST(mw_zero_based_counts_from_its_first_byte),
		TEST(mw_grants_what_it_was_bound_with_and_nothing_local),
		TEST(mw_of_type_2_is_for_its_queue_pair_only),
		TEST(mw_of_type_1_is_for_its_protection_domain),
		TEST(mw_of_type_1_bound_again_forgets_the_key_before),
		TEST(mw_of_type_2_is_bound_again_only_when_invalidated),
		TEST(mw_bind_is_refused_and_changes_nothing),
		TEST(mw_keeps_its_region_from_going),
		TEST(mw_goes_with_its_queue_pair),
		TEST(mw_key_of_a_window_that_is_gone_names_no_later_one),
		TEST(mw_of_an_on_demand_region_is_on_demand),
		TEST(mw_counts_of_bound_windows_are_right),
		TEST(mw_bound_again_under_its_key_never_mixes_two_binds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
