/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs call pread() or pread64(), so each has a wrapper of its own here. */
#undef _FILE_OFFSET_BITS
#include "check/model/watch_calls.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "check/check.h"
#include "check/model/watch.h"
#include "check/site.h"

static _Atomic uint32_t call_count;

uint32_t watch_calls_count(void)
{
	return call_count;
}

/* The state of a thread, as proc(5) names it; 0: unknown. */
static char thread_state(const char *thread)
{
	char path[64], text[256];
	const char *name_end;
	FILE *file;
	size_t bytes;

	snprintf(path, sizeof(path), "/proc/self/task/%.20s/stat", thread);
	file = fopen(path, "re");
	if (!file)
		return 0;
	bytes = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[bytes] = '\0';
	name_end = strrchr(text, ')');
	return name_end && name_end[1] == ' ' ? name_end[2] : 0;
}

bool watch_others_run(void)
{
	DIR *threads = opendir("/proc/self/task");
	long own = syscall(SYS_gettid);
	const struct dirent *thread;
	bool is_found = false;

	check_depth++;
	while (threads && !is_found && (thread = readdir(threads)))
		is_found = thread->d_name[0] != '.' && strtol(thread->d_name, NULL, 10) != own &&
			thread_state(thread->d_name) == 'R';
	if (threads)
		closedir(threads);
	check_depth--;
	return is_found;
}

/*
 * Begin to count a call, if it is the program's. Calls from the library's own code are not counted.
 * Returns whether the call is counted.
 */
static bool call_begin(const void *address)
{
	if (!check_is_full || check_depth > 0 || site_address_is_library((uintptr_t)address))
		return false;
	call_count++;
	watch_leave();
	return true;
}

#define WRAPPER(type, function, parameters, arguments)                     \
	CHECK_EXPORT type function parameters;                             \
	CHECK_EXPORT type function parameters                              \
	{                                                                  \
		CHECK_REAL(function);                                      \
		bool is_counted = call_begin(__builtin_return_address(0)); \
		type result = real arguments;                              \
                                                                           \
		if (is_counted)                                            \
			call_count--;                                      \
		return result;                                             \
	}

WRAPPER(ssize_t, read, (int fd, void *to, size_t bytes), (fd, to, bytes))
WRAPPER(ssize_t, write, (int fd, const void *from, size_t bytes), (fd, from, bytes))
WRAPPER(ssize_t, readv, (int fd, const struct iovec *list, int count), (fd, list, count))
WRAPPER(ssize_t, writev, (int fd, const struct iovec *list, int count), (fd, list, count))
WRAPPER(ssize_t, pread, (int fd, void *to, size_t bytes, off_t at), (fd, to, bytes, at))
WRAPPER(ssize_t, pwrite, (int fd, const void *from, size_t bytes, off_t at), (fd, from, bytes, at))
WRAPPER(ssize_t, pread64, (int fd, void *to, size_t bytes, off64_t at), (fd, to, bytes, at))
WRAPPER(ssize_t, pwrite64, (int fd, const void *from, size_t bytes, off64_t at),
	(fd, from, bytes, at))
WRAPPER(ssize_t, recv, (int fd, void *to, size_t bytes, int flags), (fd, to, bytes, flags))
WRAPPER(ssize_t, send, (int fd, const void *from, size_t bytes, int flags),
	(fd, from, bytes, flags))
WRAPPER(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
WRAPPER(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
