/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_RUNTIME_AGENT_START_H
#define URNIC_RUNTIME_AGENT_START_H

/*
 * Starting urnicd from inside someone else's program.
 *
 * The program around us must not notice: no SIGCHLD, no child that its wait() could return, none of
 * its descriptors, signal handlers or preloaded libraries in urnicd. Any thread may call.
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
 * Run the program and wait until it listens.
 *
 * Returns 0 when an urnicd listens (this one, or one that was quicker), -errno when it could not
 * be run, -EMFILE when the limit on open files that it inherits is too low, -ECANCELED when it ran
 * and failed; by hand it says why.
 */
int agent_start(const char *path);

/* Say in the log what in the environment the urnicd that is started from here will not understand, and do without. */
void agent_settings_check(void);

#endif
