/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_AGENT_AGENT_START_H
#define URNIC_AGENT_AGENT_START_H

/*
 * Starting urnicd from inside someone else's program.
 *
 * The program around us must not notice: no SIGCHLD, no child that its wait() could return, none of
 * its descriptors, signal handlers or preloaded libraries in urnicd. Any thread may call.
 *
 * Nor may a setuid program's caller have a hand in it: urnicd's real and saved users are the
 * effective one, so that only that user may signal it; its session is its own; and its environment
 * is empty. Priority, processors and control group stay as the caller left them.
 */

#include <stddef.h>

/*
 * Find the program: $URNIC_URNICD, else beside the library that this code is in, in a build tree
 * or installed.
 *
 * `ret_path`  `path_bytes` long.
 *
 * Returns 0 or -ENOENT.
 */
int agent_find(char *ret_path, size_t path_bytes);

/*
 * Call `run` in a child process that shares our memory and has its own limits, while this thread
 * waits. The child makes system calls and nothing else of the C library.
 *
 * Returns 0 when it has ended, or -errno when there was none.
 */
int agent_in_child(int (*run)(void *context), void *context);

/*
 * Run the program and wait until it listens.
 *
 * Returns 0 when an urnicd listens (this one, or one that was quicker), -errno when it could not be
 * run, -EMFILE when the limit on open files that it inherits is too low, -ENOTDIR when there is no
 * directory for its socket, -ECANCELED when it ran and failed; by hand it says why.
 */
int agent_start(const char *path);

/*
 * Say in the log what in the environment the urnicd that is started from here will not understand,
 * and do without.
 */
void agent_settings_check(void);

#endif
