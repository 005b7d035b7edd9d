/* SPDX-License-Identifier: BSD-2-Clause */
#include "runtime/barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/bias.h"

static int membarrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

/*
 * A filter of system calls may have come since barrier_begin(). What a processor has stored is seen by all others in less than a
 * microsecond: time does the same.
 */
static void all_threads(void)
{
	const struct timespec moment = {.tv_nsec = 1000000};

	if (!membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
		return;
	if (!membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
		!membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
		return;
	clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
}

void barrier_begin(void)
{
	if (!membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
		!membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
		bias_begin(all_threads);
}
