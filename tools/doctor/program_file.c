/* SPDX-License-Identifier: BSD-2-Clause */
#include "doctor/program_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How many bytes of a script's first line the kernel reads. */
enum { SCRIPT_LINE_BYTES = 256 };

/* Check that the path is an executable file. Returns 0, -ENOENT or -EACCES. */
static int file_check(const char *path)
{
	struct stat status;

	if (stat(path, &status) < 0)
		return -ENOENT;
	return S_ISREG(status.st_mode) && access(path, X_OK) == 0 ? 0 : -EACCES;
}

static int path_take(const char *directory, size_t bytes, const char *name, char *ret_path)
{
	/* An empty directory in PATH is the current one. */
	int length = snprintf(ret_path, PATH_MAX, "%.*s%s%s", (int)bytes, directory,
		bytes > 0 ? "/" : "./", name);

	return length >= PATH_MAX ? -ENOENT : file_check(ret_path);
}

int program_find(const char *name, char *ret_path)
{
	const char *list = getenv("PATH");
	int result = -ENOENT;

	if (strchr(name, '/')) {
		snprintf(ret_path, PATH_MAX, "%s", name);
		return file_check(ret_path);
	}
	if (!list)
		list = "/bin:/usr/bin";
	for (const char *item = list; item;
		item = strchr(item, ':') ? strchr(item, ':') + 1 : NULL) {
		int found = path_take(item, strcspn(item, ":"), name, ret_path);

		if (found == 0)
			return 0;
		if (found == -EACCES)
			result = found;
	}
	return result;
}

/* Read the first line after its "#!". Returns whether the file is a script. */
static bool script_read(const char *path, char line[SCRIPT_LINE_BYTES])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t bytes;

	if (fd < 0)
		return false;
	bytes = read(fd, line, SCRIPT_LINE_BYTES - 1);
	close(fd);
	if (bytes < 2 || line[0] != '#' || line[1] != '!')
		return false;
	line[bytes] = '\0';
	line[strcspn(line, "\n")] = '\0';
	memmove(line, line + 2, strlen(line + 2) + 1);
	return true;
}

/* The program that env(1) runs: the first word that is neither an option nor a variable. */
static char *env_program(char **rest)
{
	char *word;

	while ((word = strtok_r(NULL, " \t", rest)))
		if (word[0] != '-' && !strchr(word, '='))
			return word;
	return NULL;
}

int program_follow_script(char *path)
{
	char line[SCRIPT_LINE_BYTES];
	int depth = 0;

	for (; script_read(path, line); depth++) {
		char *rest, *interpreter = strtok_r(line, " \t", &rest);
		const char *base = interpreter ? strrchr(interpreter, '/') : NULL;
		int result;

		if (depth == SCRIPT_DEPTH_MAX)
			return -ELOOP;
		if (base && strcmp(base, "/env") == 0)
			interpreter = env_program(&rest);
		if (!interpreter)
			return -ENOENT;
		result = program_find(interpreter, path);
		if (result < 0)
			return result;
	}
	return depth;
}
