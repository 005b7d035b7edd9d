/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program's threads, as a watch needs them (watch.h): which threads run, and which are inside
 * of a system call that accesses memory. Wrappers of these calls count the threads, and end a
 * watch.
 */
#ifndef URNIC_CHECK_MODEL_WATCH_CALLS_H
#define URNIC_CHECK_MODEL_WATCH_CALLS_H

#include <stdbool.h>
#include <stdint.h>

/* The number of threads that are inside of a wrapped call. */
uint32_t watch_calls_count(void);

/* Does another thread of this process run, or could it? */
bool watch_others_run(void);

#endif
