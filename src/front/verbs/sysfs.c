/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attribute files. This file answers for urnic's devices, because no kernel driver has entries in
 * /sys for them. Other paths are read from /sys.
 */
#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/version.h"
#include "front/verbs/device.h"
#include "front/verbs/sysfs_ib.h"
#include "os/setting.h"
#include "wire/bth.h"

#define GUID_FORMAT           "%04x:%04x:%04x:%04x"
#define GUID_WORD(guid, word) ((unsigned int)(be64toh(guid) >> (48 - 16 * (word)) & 0xffff))
#define GUID_ARGUMENTS(guid) \
	GUID_WORD(guid, 0), GUID_WORD(guid, 1), GUID_WORD(guid, 2), GUID_WORD(guid, 3)

/* Returns the value's length, as snprintf(3) does; -1 if there is no such file. */
static int entry_value(struct device *device, const char *file, char *buf, size_t size)
{
	int bytes = -1;

/* clang-format off */
#define SYSFS(path, ...)                                                                       \
	if (strcmp(file, path) == 0)                                                           \
		bytes = snprintf(buf, size, __VA_ARGS__);
#include "front/verbs/sysfs.def"
#undef SYSFS
	/* clang-format on */
	return bytes;
}

/*
 * Write the value of the device's attribute `file`. Returns its length; -1 if there is no such
 * file.
 */
static int device_value(struct device *device, const char *file, char *buf, size_t size)
{
	bool is_ib = device_is_ib(device) && strncmp(file, "ports/", 6) == 0;
	int bytes = is_ib ? sysfs_ib_value(device, file, buf, size)
			  : entry_value(device, file, buf, size);

	if (bytes >= 0 && (size_t)bytes >= size)
		return size ? (int)size - 1 : 0;
	return bytes;
}

/* Write a GID as eight groups of four digits, leading zeros included. */
static int gid_text(const struct gid *gid, char *buf, size_t size)
{
	unsigned int word[8];

	for (size_t i = 0; i < 8; i++)
		word[i] = (unsigned int)(gid->raw[2 * i] << 8 | gid->raw[2 * i + 1]);
	return snprintf(buf, size, "%04x:%04x:%04x:%04x:%04x:%04x:%04x:%04x", word[0], word[1],
		word[2], word[3], word[4], word[5], word[6], word[7]);
}

/* Write the value of a file of one GID: ports/1/gids/N or ports/1/gid_attrs/{types,ndevs}/N. */
static int gid_value(struct device *device, const char *file, char *buf, size_t size)
{
	struct gid gid;
	unsigned int index;

	if (sscanf(file, "ports/1/gids/%u", &index) == 1 && device_gid(device, index, &gid))
		return gid_text(&gid, buf, size);
	if (sscanf(file, "ports/1/gid_attrs/types/%u", &index) == 1 &&
		device_gid(device, index, &gid))
		return snprintf(
			buf, size, "%s", device_is_iwarp(device) || device_is_ib(device) ? "IB/RoCE v1" : "RoCE v2");
	if (sscanf(file, "ports/1/gid_attrs/ndevs/%u", &index) == 1 &&
		device_gid(device, index, &gid))
		return snprintf(buf, size, "%s", device->ifname);
	return -1;
}

static int file_value(const char *dir, const char *file, char *buf, size_t size)
{
	char path[IBV_SYSFS_PATH_MAX * 2];
	ssize_t bytes;
	int fd;

	if (size == 0 || snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path))
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	bytes = read(fd, buf, size - 1);
	close(fd);
	if (bytes < 0)
		return -1;
	while (bytes > 0 && buf[bytes - 1] == '\n')
		bytes--;
	buf[bytes] = '\0';
	return (int)bytes;
}

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	struct device *device = device_lookup_path(dir);
	int bytes = -1;

	if (device)
		bytes = device_value(device, file, buf, size);
	if (device && bytes < 0)
		bytes = gid_value(device, file, buf, size);
	return bytes < 0 ? file_value(dir, file, buf, size) : bytes;
}

const char *ibv_get_sysfs_path(void)
{
	const char *path = setting_path("SYSFS_PATH");

	return path ? path : "/sys";
}
