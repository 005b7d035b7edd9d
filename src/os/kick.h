/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_KICK_H
#define URNIC_OS_KICK_H

/*
 * An eventfd by which one thread wakes another. Any thread may call these functions. They do not
 * block, and are no cancellation points.
 */

#include <stdint.h>

/* Returns a descriptor, or -errno after it has logged the error. `what` as in log_refusal(). */
int kick_create(const char *what);

/* Make the descriptor readable. */
void kick_raise(int fd);

/* Make the descriptor unreadable. Returns how often it was raised. */
uint64_t kick_clear(int fd);

#endif
