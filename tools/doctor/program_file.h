/* SPDX-License-Identifier: BSD-2-Clause */
/* Which file a shell would run for a name: on PATH, and through the interpreters of scripts. */
#ifndef TOOLS_PROGRAM_FILE_H
#define TOOLS_PROGRAM_FILE_H

#include <limits.h>

enum {
	SCRIPT_DEPTH_MAX = 4, /* interpreters that are scripts themselves */
};

/*
 * Find a program as execvp(3) does.
 *
 * `ret_path`  PATH_MAX bytes.
 *
 * Returns 0; -ENOENT; or -EACCES: it may not be executed.
 */
int program_find(const char *name, char *ret_path);

/*
 * Follow a script to the binary that interprets it, also by way of env(1).
 *
 * `path`  PATH_MAX bytes; changed to the binary's path. A binary stays.
 *
 * Returns the number of scripts on the way; or -ENOENT, -EACCES as program_find(); -ELOOP: too
 * many.
 */
int program_follow_script(char *path);

#endif
