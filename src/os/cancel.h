/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_CANCEL_H
#define URNIC_OS_CANCEL_H

/*
 * pthread_cancel() ends a thread inside any system call of the C library that may block, and some
 * others. A program cancels its own threads, and they run urnic's code. A holder of a urnic lock
 * that makes such a call must not end there.
 *
 * The port's two calls, which every poll makes, bypass the C library and need no protection.
 */

#include <pthread.h>

/* Disable cancellation. Returns the argument for cancel_allow(). */
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
