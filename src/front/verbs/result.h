/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a call of the ABI returns that answers an error number.
 *
 * rdma-core's calls end in an ioctl, which sets errno; so errno says the error, too, for programs
 * that print that. With URNIC_LOG=info the log has a sentence. Which argument was wrong is said,
 * where it is not plain, by the check that found it.
 */
#ifndef URNIC_FRONT_VERBS_RESULT_H
#define URNIC_FRONT_VERBS_RESULT_H

#include <errno.h>

/*
 * Say that `call` failed with `error`, a positive errno. Any thread. Returns `error`, which is in
 * errno, too.
 */
int result_refused(const char *call, int error) __attribute__((cold));

/* The result of `call`: 0, or a positive errno. */
static inline int result_of(const char *call, int error)
{
	return error ? result_refused(call, error) : 0;
}

/* The same for posting. A full queue (ENOMEM) is normal and not logged. */
int result_of_post(const char *call, int error) __attribute__((cold));

#endif
