/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Results of ABI calls that return an error number.
 *
 * rdma-core's calls make an ioctl, which sets errno, and some programs print errno. So these calls
 * set errno, too. A failed call is reported as a failure (nic/nic_failure.h).
 *
 * A check that refuses a call names its reason, and the reason has the errno (queue/call.def):
 *
 *	if (!attr->length)
 *		return result_cause(REASON_DM_SHAPE);
 *
 * So no file of this room returns an error number of its own; tests/rooms/check-refusals checks
 * that. An error number of another room counts as an error of the system, unless result_as() gives
 * it a reason.
 *
 * Functions of this room return 0 or a positive errno, unless they say otherwise.
 */
#ifndef URNIC_FRONT_VERBS_RESULT_H
#define URNIC_FRONT_VERBS_RESULT_H

#include <errno.h>
#include <stddef.h>

#include "nic/nic_failure.h"

/* Note why the present call of this thread is about to fail. Returns the errno of `reason`. */
static inline int result_cause(enum reason reason)
{
	return nic_failure_cause(reason);
}

/* result_cause() for a value outside of its limits; `limit` is the highest value. */
static inline int result_cause_limit(enum reason reason, uint64_t given, uint64_t limit)
{
	return nic_failure_cause_limit(reason, given, limit);
}

/*
 * Another room has returned `error`, a positive errno or 0. If `reason` has this errno, note
 * `reason`. Returns `error`.
 */
static inline int result_as(int error, enum reason reason)
{
	return error ? nic_failure_cause_if(error, reason) : 0;
}

/*
 * Note why an import from another process fails with `error`, a positive errno or 0. Returns
 * `error`.
 */
int result_of_import(int error);

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

/* result_refused() for calls that return -1. */
static inline int result_minus_one(const char *call, int error)
{
	result_refused(call, error);
	return -1;
}

/*
 * Do what result_refused() does, for calls that post. A full queue (ENOMEM) is normal, so it is not
 * reported.
 */
int result_of_post(const char *call, int error) __attribute__((cold));

#endif
