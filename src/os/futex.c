/* SPDX-License-Identifier: BSD-2-Clause */
#include "os/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * A bare system call is no cancellation point. Asynchronous cancellation makes this one
 * cancellable, like the blocking calls of the C library.
 */
int futex_wait(_Atomic uint32_t *word, uint32_t value)
{
	int before, error;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
	error = syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0) ? -errno : 0;
	pthread_setcanceltype(before, &before);
	return error == -EINTR ? error : 0;
}

void futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}
