/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_AGENT_AGENT_START_H
#define URNIC_AGENT_AGENT_START_H

/*
 * Start urnicd from inside a program that uses the libraries.
 *
 * The program sees no effect: no SIGCHLD and no child that its wait() could return. urnicd gets
 * none of the program's descriptors, signal handlers and preloaded libraries. Any thread may call.
 *
 * The caller of a setuid program has no influence on urnicd. urnicd's real and saved users are the
 * program's effective user, so that only that user may signal it. urnicd has a session of its own.
 * When a setuid program starts urnicd, the environment of urnicd is empty, and its limits, priority
 * and processors are reset where the kernel permits it; the control group stays the program's.
 */

#include <stddef.h>

/*
 * Find the program urnicd: $URNIC_URNICD, else the file urnicd in this library's directory.
 *
 * `ret_path`  `path_bytes` long.
 *
 * Returns 0 or -ENOENT.
 */
int agent_find(char *ret_path, size_t path_bytes);

/*
 * Call `run` in a child process, while this thread waits. The child shares our memory, but changes
 * of its resource limits (RLIMIT_*) do not affect us. `run` makes system calls only, and calls no
 * other function of the C library.
 *
 * Returns 0 when the child has ended, or -errno when it could not be created.
 */
int agent_in_child(int (*run)(void *context), void *context);

/*
 * Run the program urnicd at `path`, and wait until it listens.
 *
 * Returns 0 when an urnicd listens, this one or one that another process started first. -EMFILE:
 * the limit on open files that urnicd inherits is too low; -ENOTDIR: there is no directory for its
 * socket; -ECANCELED: urnicd ran and failed (run by hand, it prints the reason); or another -errno:
 * urnicd could not be run.
 */
int agent_start(const char *path);

/*
 * Check the variables of the environment that an urnicd started from here will read. Log each one
 * whose value urnicd will ignore.
 */
void agent_settings_check(void);

#endif
