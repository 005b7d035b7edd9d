/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directory of urnic's libraries, and the environment variables by which the dynamic loader
 * finds them.
 */
#ifndef TOOLS_LIBRARIES_H
#define TOOLS_LIBRARIES_H

/*
 * Find the library directory, starting from the directory of this program. Returns its absolute
 * path, which the caller frees; or NULL after a message that begins with `command`.
 */
char *libraries_find(const char *command);

/*
 * Put `first` before the list of paths in the environment variable `name`. Returns 0, or -1 with
 * errno set.
 */
int path_list_prepend(const char *name, const char *first);

#endif
