/* SPDX-License-Identifier: BSD-2-Clause */
#include "os/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/text.h"

static void name_read_at(int directory, const char *path, char ret_name[PROCESS_NAME_BYTES])
{
	int fd = openat(directory, path, O_RDONLY | O_CLOEXEC);
	ssize_t bytes = fd < 0 ? -1 : read(fd, ret_name, PROCESS_NAME_BYTES);

	if (fd >= 0)
		close(fd);
	/* The kernel ends the name with a line feed; the final 0 replaces it. */
	ret_name[bytes > 0 ? bytes - 1 : 0] = '\0';
	text_make_printable(ret_name);
}

void process_name_read(pid_t pid, char ret_name[PROCESS_NAME_BYTES])
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	name_read_at(AT_FDCWD, path, ret_name);
}

void process_name_read_in(int directory, char ret_name[PROCESS_NAME_BYTES])
{
	name_read_at(directory, "comm", ret_name);
}
