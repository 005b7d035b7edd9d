/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Results of ABI calls that return an error number.
 *
 * rdma-core's calls make an ioctl, which sets errno, and some programs print errno. So these calls
 * set errno, too. A failed call is reported as a failure (nic/nic_failure.h), unless the check that
 * refused it has reported a better reason.
 *
 * Functions of this room return 0 or a positive errno, unless they say otherwise.
 */
#ifndef URNIC_FRONT_VERBS_RESULT_H
#define URNIC_FRONT_VERBS_RESULT_H

#include <errno.h>
#include <stddef.h>

#include "nic/nic_failure.h"

/*
 * A check has refused the call of this thread that is about to fail: result_refused() reports it
 * with `reason`, of kind CALL, and this sentence.
 */
void result_because(enum reason reason, const char *format, ...)
	__attribute__((cold, format(printf, 2, 3)));

/*
 * Report that `call` failed with `error`, a positive errno, which is also stored in errno. Returns
 * `error`. Any thread may call.
 */
int result_refused(const char *call, int error) __attribute__((cold));

static inline int result_of(const char *call, int error)
{
	return error ? result_refused(call, error) : 0;
}

/* result_refused() for calls that return NULL. */
static inline void *result_null(const char *call, int error)
{
	result_refused(call, error);
	return NULL;
}

/* Set errno to `error`, a positive errno, and return -1. */
static inline int result_minus_one(int error)
{
	errno = error;
	return -1;
}

/*
 * Do what result_refused() does, for calls that post. A full queue (ENOMEM) is normal, so it is not
 * logged.
 */
int result_of_post(const char *call, int error) __attribute__((cold));

#endif
