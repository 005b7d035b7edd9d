/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/user_namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int result = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		result = -errno;
	close(fd);
	return result;
}

int user_namespace_enter(uid_t uid, gid_t gid)
{
	uid_t uid_outside = geteuid();
	gid_t gid_outside = getegid();
	char map[64];
	int result;

	if (unshare(CLONE_NEWUSER) < 0)
		return -errno;
	/*
	 * The kernel refuses a group map while setgroups is allowed. Old kernels have neither this
	 * rule nor the file.
	 */
	(void)write_text("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "%u %u 1", uid, uid_outside);
	result = write_text("/proc/self/uid_map", map);
	if (result < 0)
		return result;
	snprintf(map, sizeof(map), "%u %u 1", gid, gid_outside);
	return write_text("/proc/self/gid_map", map);
}
