/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf/target/backend/disk.h"

#include <stdio.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A partition's folder in sysfs is in that of its disk. */
dev_t disk_number(const struct stat *status)
{
	dev_t number = S_ISBLK(status->st_mode) ? status->st_rdev : status->st_dev;
	unsigned disk_major = 0, disk_minor = 0;
	char name[64];
	FILE *file;

	(void)snprintf(
		name, sizeof(name), "/sys/dev/block/%u:%u/partition", major(number), minor(number));
	if (access(name, F_OK))
		return number;
	(void)snprintf(
		name, sizeof(name), "/sys/dev/block/%u:%u/../dev", major(number), minor(number));
	file = fopen(name, "re");
	if (!file)
		return number;
	if (fscanf(file, "%u:%u", &disk_major, &disk_minor) == 2)
		number = makedev(disk_major, disk_minor);
	(void)fclose(file);
	return number;
}
