/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_FUTEX_H
#define URNIC_OS_FUTEX_H

/*
 * Sleeping on a word of memory that processes share.
 */

#include <stdatomic.h>
#include <stdint.h>

/*
 * Sleep while the word is `value`. Returns 0 when there was reason to look again, or -EINTR after a
 * signal whose handler interrupts system calls. A cancellation point; no lock may be held.
 */
int futex_wait(_Atomic uint32_t *word, uint32_t value);

/* Wake one who sleeps on the word. */
void futex_wake(_Atomic uint32_t *word);

#endif
