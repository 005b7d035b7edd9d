/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_KICK_H
#define URNIC_OS_KICK_H

/*
 * An eventfd by which a thread wakes another one. Any thread; nothing blocks, and no thread is
 * cancelled in here.
 */

#include <stdint.h>

/* Returns a descriptor, or -errno, which is in the log. `what` as in log_refusal(). */
int kick_create(const char *what);

/* Make the descriptor readable. */
void kick_raise(int fd);

/* Make the descriptor unreadable. Returns how often it was raised. */
uint64_t kick_clear(int fd);

#endif
