/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A library to preload into Debian's perftest, whose programs measure the frequency of the time
 * stamp counter: at each end and for each row of figures, they call gettimeofday() in a loop for a
 * quarter of a second. Here such a loop sleeps. The counter runs on meanwhile, so the frequency is
 * the same, and other tests have the processor.
 *
 * A thread is in such a loop after LOOP_CALLS calls that follow each other by LOOP_NS at most. The
 * call after a sleep counts as the first. So the calls around a loop, which perftest takes for the
 * ends of a measured time, return at once.
 */
#include <stdint.h>
#include <sys/time.h>
#include <time.h>

enum { LOOP_CALLS = 4, LOOP_NS = 10000, SLEEP_NS = 50000 };

static uint64_t realtime_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* glibc's does not fail, either, and returns no time zone. */
__attribute__((visibility("default"))) int gettimeofday(
	struct timeval *restrict time, void *restrict zone)
{
	static _Thread_local uint64_t last_ns;
	static _Thread_local unsigned calls;
	uint64_t now_ns = realtime_ns();

	(void)zone;
	calls = now_ns - last_ns <= LOOP_NS ? calls + 1 : 1;
	if (calls > LOOP_CALLS) {
		nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
		now_ns = realtime_ns();
		calls = 0;
	}
	last_ns = now_ns;
	time->tv_sec = (time_t)(now_ns / 1000000000);
	time->tv_usec = (suseconds_t)(now_ns % 1000000000 / 1000);
	return 0;
}
