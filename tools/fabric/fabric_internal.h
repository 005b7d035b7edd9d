/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_FABRIC_INTERNAL_H
#define TOOLS_FABRIC_INTERNAL_H

/* What the files of `urnic fabric` share. */

#include <stdbool.h>

struct fabric_options {
	const char *name;
	const char *key; /* a file's path; NULL: none */
	bool is_unmanaged;
	int first; /* index of the first word behind the options */
};

/* `argv` has the words behind the options. Returns the exit status. */
typedef int fabric_command(const struct fabric_options *options, int argc, char **argv);

/* --- fabric.c --- */

/* Allow this process as many files as the system does. */
void fabric_files_allow(void);

/* --- fabric_remote.c --- */

fabric_command fabric_listen_command;
fabric_command fabric_join_command;

#endif
