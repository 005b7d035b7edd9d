/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_CANCEL_H
#define URNIC_OS_CANCEL_H

/*
 * pthread_cancel() ends a thread inside any system call of the C library's that may block, and some
 * that do not. A program cancels its own threads, in which we run; whoever holds a lock of ours
 * while it makes such a call must not end there.
 *
 * The port's two calls, which every poll makes, go around the C library and need none of this.
 */

#include <pthread.h>

/* No cancellation from here on. Returns what to give to cancel_allow(). */
static inline int cancel_forbid(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void cancel_allow(int before)
{
	pthread_setcancelstate(before, &before);
}

#endif
