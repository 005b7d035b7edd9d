/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_CLOCK_H
#define URNIC_OS_CLOCK_H

/* The engine's clock: monotonic nanoseconds. On common machines a reading takes no system call. */

#include <stdint.h>
#include <time.h>

#include "base/arith.h"

static inline uint64_t clock_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The time since 1970 at the engine's time 0. It changes when the system's clock is set. */
static inline uint64_t clock_epoch_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec - clock_now_ns();
}

/* The timeout in ms, rounded up, for a poll(2) that ends at `until_ns`. UINT64_MAX: -1, never. */
static inline int clock_ms_until(uint64_t until_ns)
{
	uint64_t now_ns = clock_now_ns();

	if (until_ns == UINT64_MAX)
		return -1;
	return until_ns <= now_ns
		? 0
		: (int)min_u64(div_ceil_u64(until_ns - now_ns, 1000000), INT32_MAX);
}

/*
 * Read a tick counter. A tick is 0.2 to 1 ns, and a reading takes a third of the time of
 * clock_now_ns(). The counters of two processors may differ. So a reading is no time; it serves
 * only to find out whether an earlier reading is recent.
 */
static inline uint64_t clock_ticks(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	return clock_now_ns();
#endif
}

#endif
