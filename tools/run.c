/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnic run: put our libraries first on a program's library path.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

const char command_run_help[] =
	"usage: urnic run [--] PROGRAM [ARGUMENTS]\n"
	"       urnic run --print\n"
	"\n"
	"Runs PROGRAM with urnic's libibverbs.so.1 in place of the system's, by putting urnic's\n"
	"library directory first on LD_LIBRARY_PATH. PROGRAM and what it starts see one RDMA device\n"
	"per network interface that is up and has an address. Nothing is installed or changed.\n"
	"\n"
	"  --print    print the library directory and run nothing\n"
	"\n"
	"The dynamic loader ignores LD_LIBRARY_PATH for programs with file capabilities or set-user-id\n"
	"bits; such a program runs on the system's libraries.\n"
	"\n"
	"The exit status is PROGRAM's; 127 if it was not found, 126 if it could not be run.\n"
	"\n"
	"Examples:\n"
	"  urnic run ibv_devices\n"
	"  urnic run -- ib_write_bw -F 192.0.2.7\n";

/* What must be in a directory for it to be ours. */
#define MARK "liburnic.so"

/*
 * Where the libraries are, seen from the directory of this program: in the build tree beside it, or
 * installed in the private directory of the same prefix (which may have been moved as a whole).
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

/*
 * The absolute path of our library directory, to be freed; NULL if there is none.
 */
static char *find_libraries(void)
{
	char program_directory[PATH_MAX];

	if (directory_of_program(program_directory, sizeof(program_directory)) < 0)
		return NULL;
	for (size_t i = 0; i < sizeof(library_places) / sizeof(library_places[0]); i++) {
		char *candidate, *mark, *found = NULL;

		if (asprintf(&candidate, "%s/%s", program_directory, library_places[i]) < 0)
			return NULL;
		if (asprintf(&mark, "%s/" MARK, candidate) < 0)
			mark = NULL;
		if (mark && access(mark, R_OK) == 0)
			found = realpath(candidate, NULL);
		free(mark);
		free(candidate);
		if (found)
			return found;
	}
	return NULL;
}

static int prepend_library_path(const char *directory)
{
	const char *before = getenv("LD_LIBRARY_PATH");
	char *path;
	int result;

	if (!before || !before[0])
		return setenv("LD_LIBRARY_PATH", directory, 1);
	if (asprintf(&path, "%s:%s", directory, before) < 0)
		return -1;
	result = setenv("LD_LIBRARY_PATH", path, 1);
	free(path);
	return result;
}

int command_run(int argc, char **argv)
{
	int first = 1;
	char *libraries = find_libraries();

	if (!libraries) {
		complain("run: no " MARK " in lib/ beside this program, nor in ../" URNIC_LIBDIR);
		return EXIT_FAILED;
	}
	if (argc > 1 && strcmp(argv[1], "--print") == 0) {
		puts(libraries);
		free(libraries);
		return EXIT_OK;
	}
	if (first < argc && strcmp(argv[first], "--") == 0)
		first++;
	else if (first < argc && argv[first][0] == '-') {
		complain("run: no option %s; urnic run --help", argv[first]);
		free(libraries);
		return EXIT_USAGE;
	}
	if (first >= argc) {
		fputs(command_run_help, stderr);
		free(libraries);
		return EXIT_USAGE;
	}
	if (prepend_library_path(libraries) < 0) {
		complain("run: %s", strerror(errno));
		free(libraries);
		return EXIT_FAILED;
	}
	free(libraries);
	run_program(argv + first);
}
