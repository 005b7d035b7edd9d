/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a watch (watch.h) has to know of the program's threads: whether they run, and how many are
 * inside a system call that accesses memory. Wrappers of these calls count the threads, and end the
 * watch.
 */
#ifndef URNIC_CHECK_MODEL_WATCH_CALLS_H
#define URNIC_CHECK_MODEL_WATCH_CALLS_H

#include <stdbool.h>
#include <stdint.h>

/* The number of threads that are inside a wrapped call. */
uint32_t watch_calls_count(void);

/* Does another thread of this process run, or is one ready to run? */
bool watch_others_run(void);

#endif
