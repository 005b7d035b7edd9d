/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_FUTEX_H
#define URNIC_OS_FUTEX_H

/* Sleeping on a word of memory that processes share. */

#include <stdatomic.h>
#include <stdint.h>

/*
 * Sleep while the word is `value`. Returns 0 after a wake-up, perhaps a spurious one; -EINTR after
 * a signal whose handler interrupts system calls. This is a cancellation point, so the caller holds
 * no lock.
 */
int futex_wait(_Atomic uint32_t *word, uint32_t value);

/* Wake one thread that sleeps on the word. */
void futex_wake(_Atomic uint32_t *word);

#endif
