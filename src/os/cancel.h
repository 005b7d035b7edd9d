/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_CANCEL_H
#define URNIC_OS_CANCEL_H

/*
 * pthread_cancel() may end a thread in any function of the C library that is a cancellation point,
 * such as a system call that may block. A program may cancel its own threads while they run urnic's
 * code. A thread that holds a lock of urnic must not end in such a call, so it disables
 * cancellation first.
 *
 * The two system calls of the port, which every poll makes, bypass the C library, so they need no
 * protection.
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
