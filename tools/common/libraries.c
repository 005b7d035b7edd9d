/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/libraries.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/command.h"

/* The file by which urnic's library directory is recognized. */
#define MARK "liburnic.so"

/*
 * Where the library directory may be, relative to the directory of this program: beside it in the
 * build tree, or, after an installation, the private directory of the same prefix. The prefix may
 * have been moved as a whole.
 */
static const char *const library_places[] = {
	"lib",
	"../" URNIC_LIBDIR,
};

static int directory_of_program(char *ret_path, size_t path_bytes)
{
	ssize_t bytes = readlink("/proc/self/exe", ret_path, path_bytes - 1);
	char *slash;

	if (bytes < 0)
		return -errno;
	ret_path[bytes] = '\0';
	slash = strrchr(ret_path, '/');
	if (!slash)
		return -ENOENT;
	*slash = '\0';
	return 0;
}

static char *place_check(const char *program_directory, const char *place)
{
	char *candidate, *mark, *found = NULL;

	if (asprintf(&candidate, "%s/%s", program_directory, place) < 0)
		return NULL;
	if (asprintf(&mark, "%s/" MARK, candidate) < 0)
		mark = NULL;
	if (mark && access(mark, R_OK) == 0)
		found = realpath(candidate, NULL);
	free(mark);
	free(candidate);
	return found;
}

char *libraries_find(const char *command)
{
	char program_directory[PATH_MAX];

	if (directory_of_program(program_directory, sizeof(program_directory)) < 0) {
		complain("%s: /proc/self/exe does not show where this program is", command);
		return NULL;
	}
	for (size_t i = 0; i < sizeof(library_places) / sizeof(library_places[0]); i++) {
		char *found = place_check(program_directory, library_places[i]);

		if (found)
			return found;
	}
	complain("%s: no " MARK " in lib/ beside this program, nor in ../" URNIC_LIBDIR, command);
	return NULL;
}

int path_list_prepend(const char *name, const char *first)
{
	const char *before = getenv(name);
	char *path;
	int result;

	if (!before || !before[0])
		return setenv(name, first, 1);
	if (asprintf(&path, "%s:%s", first, before) < 0)
		return -1;
	result = setenv(name, path, 1);
	free(path);
	return result;
}
