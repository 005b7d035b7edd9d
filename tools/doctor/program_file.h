/* SPDX-License-Identifier: BSD-2-Clause */
/* The binary that a shell would run for a name: found on PATH, and as a script's interpreter. */
#ifndef TOOLS_PROGRAM_FILE_H
#define TOOLS_PROGRAM_FILE_H

#include <limits.h>

enum {
	SCRIPT_DEPTH_MAX = 4, /* how many scripts are followed, each the interpreter of the last */
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
 * `path`  PATH_MAX bytes; the path of a script is changed to that of the binary.
 *
 * Returns the number of scripts before the binary; -ENOENT or -EACCES as program_find(); or -ELOOP
 * if there are too many scripts.
 */
int program_follow_script(char *path);

#endif
