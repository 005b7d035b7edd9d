/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/network_state.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The start time is field 22 of /proc/PID/stat. It follows the 20th space after the command name,
 * field 2, which may itself contain spaces.
 */
enum { FIELDS_FROM_NAME_TO_START = 20 };

/* When a process started, in clock ticks since boot; 0: there is no such process. */
static unsigned long long process_start_ticks(pid_t pid)
{
	char path[64], text[1024];
	const char *field;
	size_t bytes;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	bytes = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[bytes] = '\0';
	field = strrchr(text, ')');
	for (int i = 0; field && i < FIELDS_FROM_NAME_TO_START; i++)
		field = strchr(field + 1, ' ');
	return field ? strtoull(field, NULL, 10) : 0;
}

/* Make the directory if it is missing. Returns 0 or -errno; -EPERM: it belongs to another user. */
static int state_directory(char *ret_path, size_t path_bytes)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	struct stat status;
	int length;

	if (runtime && runtime[0] == '/' && access(runtime, W_OK) == 0)
		length = snprintf(ret_path, path_bytes, "%s/urnic-host", runtime);
	else
		length = snprintf(ret_path, path_bytes, "/tmp/urnic-host-%u", (unsigned)geteuid());
	if (length < 0 || (size_t)length >= path_bytes)
		return -ENAMETOOLONG;
	if (mkdir(ret_path, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (lstat(ret_path, &status) < 0)
		return -errno;
	if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid())
		return -EPERM;
	return 0;
}

static int state_path(const char *name, char *ret_path, size_t path_bytes)
{
	char directory[PATH_MAX / 2];
	int result = state_directory(directory, sizeof(directory));
	int length;

	if (result < 0)
		return result;
	length = snprintf(ret_path, path_bytes, "%s/%s", directory, name);
	return length < 0 || (size_t)length >= path_bytes ? -ENAMETOOLONG : 0;
}

pid_t network_state_holder(const char *name)
{
	unsigned long long ticks;
	char path[PATH_MAX], text[64] = "", *end;
	long pid;
	FILE *file;

	if (state_path(name, path, sizeof(path)) < 0)
		return 0;
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	pid = strtol(text, &end, 10);
	ticks = strtoull(end, NULL, 10);
	if (pid <= 0 || pid > INT_MAX || ticks == 0 || process_start_ticks((pid_t)pid) != ticks)
		return 0;
	return (pid_t)pid;
}

int network_state_write(const char *name, pid_t holder)
{
	char path[PATH_MAX];
	int result = state_path(name, path, sizeof(path));
	FILE *file;

	if (result < 0)
		return result;
	file = fopen(path, "we");
	if (!file)
		return -errno;
	fprintf(file, "%d %llu\n", (int)holder, process_start_ticks(holder));
	return fclose(file) == 0 ? 0 : -errno;
}

int network_state_remove(const char *name)
{
	char path[PATH_MAX];
	int result = state_path(name, path, sizeof(path));

	if (result < 0)
		return result;
	return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

void network_state_for_each(void (*visit)(const char *name, void *context), void *context)
{
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *directory;

	if (state_directory(path, sizeof(path)) < 0)
		return;
	directory = opendir(path);
	if (!directory)
		return;
	while ((entry = readdir(directory))) {
		if (entry->d_name[0] != '.' && network_state_holder(entry->d_name) > 0)
			visit(entry->d_name, context);
	}
	closedir(directory);
}
