/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The checker's watch of a WRITE that a program polls for, without signals: the test calls
 * watch_fault() as the handler of SIGSEGV does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "check/check.h"
#include "check/model/placer.h"
#include "check/model/protect.h"
#include "check/model/region.h"
#include "check/model/request.h"
#include "check/model/watch.h"
#include "check/model/watch_calls.h"
#include "check/report.h"
#include "check/site.h"

enum { PAGE_BYTES = 4096, WRITE_BYTES = 64, WAITS_MAX = 50000, POLLS_MAX = 8 };

/* What the checker exports to urnic. */
const struct urnic_placer *urnic_check_placer(void);

__thread unsigned check_depth;
static struct region region = {.is_protectable = true};
static unsigned char *memory; /* a page */
static int protection; /* of the page */
static uint32_t lookups; /* questions to the loader */
static void (*on_lookup)(void);
static atomic_bool has_left, has_placed;
static bool is_polled, has_left_meanwhile;

/* --- what the watch calls -------------------------------------------------------------------- */

struct region *region_around(uintptr_t start, uint64_t bytes)
{
	(void)start;
	(void)bytes;
	return &region;
}

bool request_may_use(uintptr_t start, uint64_t bytes)
{
	(void)start;
	(void)bytes;
	return false;
}

uint32_t watch_calls_count(void)
{
	return 0;
}

bool watch_others_run(void)
{
	return true;
}

int protect_pages(uintptr_t start, uint64_t bytes, int wanted)
{
	assert_ptr_equal(start, memory);
	assert_int_equal(bytes, PAGE_BYTES);
	protection = wanted;
	return 0;
}

uint32_t site_of_fault(uintptr_t pc)
{
	(void)pc;
	return 1;
}

bool site_has_library(uint32_t site)
{
	(void)site;
	lookups++;
	if (on_lookup)
		on_lookup();
	return false;
}

void report_begin(struct report *report, enum check_kind kind)
{
	report->kind = kind;
}

void report_say(struct report *report, const char *format, ...)
{
	(void)report;
	(void)format;
}

void report_site(struct report *report, const char *what, uint32_t site)
{
	(void)report;
	(void)what;
	(void)site;
}

void report_end(const struct report *report)
{
	(void)report;
}

/* --- the lane and the program ---------------------------------------------------------------- */

static void pause_shortly(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* The lane places a WRITE. */
static void *lane_main(void *unused)
{
	const struct urnic_placer *placer = urnic_check_placer();

	is_polled = placer->begin(memory, WRITE_BYTES, 0);
	if (is_polled)
		placer->wait();
	atomic_store(&has_placed, true);
	return unused;
}

static bool fault_at(uint32_t offset)
{
	ucontext_t context = {0};

	return watch_fault((uintptr_t)memory + offset, &context);
}

/* Begin a WRITE, and read its first byte until the watch has noted it. */
static pthread_t write_begin(void)
{
	pthread_t lane;

	atomic_store(&has_placed, false);
	assert_int_equal(pthread_create(&lane, NULL, lane_main, NULL), 0);
	while (lookups == 0 && !atomic_load(&has_placed)) {
		fault_at(0);
		pause_shortly();
	}
	return lane;
}

static int set_up(void **state)
{
	(void)state;
	if (!memory) {
		memory = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
		assert_true(memory != MAP_FAILED);
		watch_start();
	}
	if (!urnic_check_placer())
		skip(); /* nothing is watched on this processor */
	region.writes = region.watched_next = region.watched = 0;
	lookups = 0;
	on_lookup = NULL;
	atomic_store(&has_left, false);
	has_left_meanwhile = false;
	return 0;
}

/* --- tests ----------------------------------------------------------------------------------- */

static void *leave_main(void *unused)
{
	watch_leave();
	atomic_store(&has_left, true);
	return unused;
}

/* A thread with the loader's lock, which the look-up takes, ends the watch. */
static void other_thread_leaves(void)
{
	uint32_t waited = 0;
	pthread_t other;

	if (pthread_create(&other, NULL, leave_main, NULL))
		return;
	while (!atomic_load(&has_left) && waited++ < WAITS_MAX)
		pause_shortly();
	has_left_meanwhile = atomic_load(&has_left);
	if (has_left_meanwhile)
		pthread_join(other, NULL);
	else
		pthread_detach(other);
}

static void loader_is_asked_without_the_lock_of_the_watch(void **state)
{
	pthread_t lane;

	(void)state;
	on_lookup = other_thread_leaves;
	lane = write_begin();
	assert_int_equal(pthread_join(lane, NULL), 0);
	assert_int_equal(lookups, 1);
	assert_true(has_left_meanwhile);
	assert_false(is_polled);
	assert_int_equal(protection, PROT_READ | PROT_WRITE);
}

/* The second read by one instruction asks nothing. */
static void loader_is_asked_once_for_an_instruction(void **state)
{
	pthread_t lane = write_begin();

	(void)state;
	for (uint32_t i = 0; i < POLLS_MAX && !atomic_load(&has_placed); i++)
		fault_at(0);
	watch_leave();
	assert_int_equal(pthread_join(lane, NULL), 0);
	assert_true(is_polled);
	assert_int_equal(lookups, 1);
	assert_int_equal(protection, PROT_READ | PROT_WRITE);
}

/* The program changes the protection of the pages, or maps others there. */
static void change_of_the_pages_ends_the_watch(void **state)
{
	pthread_t lane = write_begin();

	(void)state;
	watch_end_at((uintptr_t)memory + PAGE_BYTES, PAGE_BYTES);
	assert_true(fault_at(0));
	watch_end_at((uintptr_t)memory + PAGE_BYTES - 1, 1);
	protection = PROT_NONE; /* by the program */
	assert_int_equal(pthread_join(lane, NULL), 0);
	assert_false(is_polled);
	assert_int_equal(protection, PROT_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(loader_is_asked_without_the_lock_of_the_watch, set_up),
		cmocka_unit_test_setup(loader_is_asked_once_for_an_instruction, set_up),
		cmocka_unit_test_setup(change_of_the_pages_ends_the_watch, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
