/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files in the directories of the private view. The values are those of ibv_read_sysfs_file().
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/device_facts.h"
#include "front/verbs/abi.h"
#include "run/view.h"
#include "run/view_counters.h"
#include "run/view_fabric.h"

/* A kernel's abi_version: IB_USER_VERBS_ABI_VERSION. */
#define VERBS_ABI_VERSION "6"

enum { VALUE_BYTES = 256 };

static const char *const attributes[] = {
#define SYSFS(path, ...) path,
#include "front/verbs/sysfs.def"
#undef SYSFS
};

/* Make the parents of `path` below `directory`. */
static int make_parents(int directory, const char *path)
{
	char parent[PATH_MAX];

	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
		if (mkdirat(directory, parent, 0755) < 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

int view_write_line(int directory, const char *path, const char *value)
{
	int result = make_parents(directory, path);
	int fd;

	if (result < 0)
		return result;
	fd = openat(directory, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	if (fd < 0)
		return -errno;
	if (dprintf(fd, "%s\n", value) < 0)
		result = -errno;
	close(fd);
	return result;
}

static int write_attribute(int directory, const struct device_facts *device, const char *path)
{
	char sysfs_path[PATH_MAX], value[VALUE_BYTES];

	snprintf(sysfs_path, sizeof(sysfs_path), VIEW_DEVICES "/%s", device->name);
	if (ibv_read_sysfs_file(sysfs_path, path, value, sizeof(value)) < 0)
		return -ENODEV;
	return view_write_line(directory, path, value);
}

static int write_gid(int directory, const struct device_facts *device, uint32_t index)
{
	static const char *const tables[] = {
		"ports/1/gids",
		"ports/1/gid_attrs/types",
		"ports/1/gid_attrs/ndevs",
	};
	int result = 0;

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && result == 0; i++) {
		char path[64];

		snprintf(path, sizeof(path), "%s/%u", tables[i], index);
		result = write_attribute(directory, device, path);
	}
	return result;
}

/* Make device/net/<interface>, by which programs find the interface of a device. */
static int link_interface(int directory, const struct device_facts *device)
{
	char path[64], target[64];
	int result;

	snprintf(path, sizeof(path), "device/net/%s", device->interface);
	snprintf(target, sizeof(target), "/sys/class/net/%s", device->interface);
	result = make_parents(directory, path);
	if (result == 0 && symlinkat(target, directory, path) < 0)
		result = -errno;
	return result;
}

static int fill_device(int directory, const struct device_facts *device)
{
	int result = 0;

	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]) && result == 0; i++)
		result = write_attribute(directory, device, attributes[i]);
	for (uint32_t i = 0; i < device->gid_count && result == 0; i++)
		result = write_gid(directory, device, device->gids[i].index);
	if (result == 0)
		result = link_interface(directory, device);
	if (result == 0)
		result = view_counters_add(directory, device);
	return result;
}

static int fill_char_device(int directory, const struct device_facts *device)
{
	char target[PATH_MAX];
	int result = view_write_line(directory, "ibdev", device->name);

	if (result == 0)
		result = view_write_line(directory, "abi_version", VIEW_DRIVER_ABI_VERSION);
	snprintf(target, sizeof(target), VIEW_DEVICES "/%s/device", device->name);
	if (result == 0 && symlinkat(target, directory, "device") < 0)
		result = -errno;
	return result;
}

static int link_node(const struct device_facts *device)
{
	char path[sizeof(VIEW_NODES) + DEVICE_NAME_BYTES];

	snprintf(path, sizeof(path), VIEW_NODES "/%s", device->char_device);
	return symlink("../null", path) < 0 ? -errno : 0;
}

/* Make the directory `parent`/`name` and fill it. */
static int write_directory(const char *parent, const char *name, const struct device_facts *device,
	int (*fill)(int directory, const struct device_facts *device))
{
	char path[PATH_MAX];
	int directory, result;

	snprintf(path, sizeof(path), "%s/%s", parent, name);
	if (mkdir(path, 0755) < 0)
		return -errno;
	directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return -errno;
	result = fill(directory, device);
	close(directory);
	return result;
}

int view_write_files(void)
{
	struct device_facts *devices;
	uint32_t count;
	int result = device_facts_create(&devices, &count);

	if (result < 0)
		return result;
	result = view_write_line(AT_FDCWD, VIEW_CHAR_DEVICES "/abi_version", VERBS_ABI_VERSION);
	for (uint32_t i = 0; i < count && result == 0; i++) {
		const struct device_facts *device = &devices[i];

		result = write_directory(VIEW_DEVICES, device->name, device, fill_device);
		if (result == 0)
			result = write_directory(
				VIEW_CHAR_DEVICES, device->char_device, device, fill_char_device);
		if (result == 0)
			result = link_node(device);
	}
	free(devices);
	if (result == 0)
		result = view_fabric_write();
	if (result == 0)
		view_counters_keep();
	return result;
}
