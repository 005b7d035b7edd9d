/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directory of urnic's libraries, and the environment variables by which the dynamic loader
 * finds them.
 */
#ifndef TOOLS_LIBRARIES_H
#define TOOLS_LIBRARIES_H

/*
 * The absolute path of the library directory, for free(). It is found from the place of this
 * program. NULL, after a complaint in the name of `command`: there is none.
 */
char *libraries_find(const char *command);

/*
 * Put `first` before the list of paths in the environment variable `name`. Returns 0, or -1 and
 * errno.
 */
int path_list_prepend(const char *name, const char *first);

#endif
