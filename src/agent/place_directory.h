/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_AGENT_PLACE_DIRECTORY_H
#define URNIC_AGENT_PLACE_DIRECTORY_H

/*
 * The directories of agent/place.h: which ones there are, and which are trusted. The files of
 * urnic's processes lie there.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "agent/place.h"

enum { DIRECTORY_BYTES = 64 /* the longest path of a directory, terminated */ };

/* A trusted directory. */
struct place {
	int fd;
	uid_t owner; /* as this user namespace shows it */
	char path[DIRECTORY_BYTES];
};

/*
 * Does `error` mean that the process or the machine lacks a resource? Then the directory may be
 * fine.
 */
bool place_directory_is_shortage(int error);

/*
 * Open the first of the user's directories that exists or can be made. If the directory is to be
 * open to all users, only the first of the list is tried. Returns 0 and a place, whose descriptor
 * the caller closes; or -errno.
 */
int place_directory_make(bool is_for_all, struct place *ret_place);

/* Returns 0 to go on; 1 or -errno ends the search. The search closes the place after the call. */
typedef int place_directory_visit_fn(void *context, const struct place *place);

/* Visit each existing directory. Returns the result of the last visit. */
int place_directory_visit(enum place_whose whose, place_directory_visit_fn *visit, void *context);

#endif
