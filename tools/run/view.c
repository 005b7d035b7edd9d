/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/view.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/user_namespace.h"

#define CLASSES   "/sys/class"
#define DEVICES   "/dev"
#define HOST_NAME ".host" /* below the new /dev: where the real /dev is mounted */

/* The system call that failed last. */
static const char *failed_call = "";

/* Note the call that has just failed. Returns -errno. */
static int call_failed(const char *call)
{
	failed_call = call;
	return -errno;
}

static int enter_namespace(bool may_change_users)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int result;

	if (unshare(CLONE_NEWNS) == 0)
		return 0;
	if (errno != EPERM || !may_change_users)
		return call_failed("unshare(CLONE_NEWNS)");
	result = user_namespace_enter(uid, gid);
	if (result < 0) {
		failed_call = "unshare(CLONE_NEWUSER)";
		return result;
	}
	return unshare(CLONE_NEWNS) < 0 ? call_failed("unshare(CLONE_NEWNS)") : 0;
}

/*
 * Hide later mounts of this process below `path` from other namespaces; their later mounts still
 * appear here. `path` is a mount point of its own, except in a bare chroot.
 */
static int cut_off(const char *path)
{
	if (mount(NULL, path, NULL, MS_SLAVE, NULL) == 0)
		return 0;
	if (errno == EINVAL && mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0)
		return 0;
	return call_failed("mount(MS_SLAVE)");
}

static int mount_tmpfs(const char *path)
{
	if (mount("urnic", path, "tmpfs", MS_NOSUID, "mode=755") < 0)
		return call_failed("mount(tmpfs)");
	return 0;
}

static int make_directory(const char *path)
{
	return mkdir(path, 0755) < 0 ? call_failed("mkdir") : 0;
}

static bool is_directory(const char *path)
{
	struct stat file;

	return stat(path, &file) == 0 && S_ISDIR(file.st_mode);
}

/*
 * Cover /sys/class by an overlay: the real directory, and a tmpfs with the missing directories. The
 * tmpfs is mounted first and covers the real directory, to which `fd` still refers.
 */
static int overlay_classes(int fd)
{
	char options[64 + PATH_MAX];
	int result = mount_tmpfs(CLASSES);

	if (result == 0)
		result = make_directory(VIEW_DEVICES);
	if (result == 0)
		result = make_directory(VIEW_CHAR_DEVICES);
	if (result < 0)
		return result;
	snprintf(options, sizeof(options), "lowerdir=" CLASSES ":/proc/self/fd/%d", fd);
	if (mount("urnic", CLASSES, "overlay", MS_RDONLY, options) < 0)
		return call_failed("mount(overlay)");
	return 0;
}

/* Provide the mount points in /sys/class, where no process can make directories. */
static int provide_classes(void)
{
	int fd, result;

	if (is_directory(VIEW_DEVICES) && is_directory(VIEW_CHAR_DEVICES))
		return 0;
	fd = open(CLASSES, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return call_failed("open(" CLASSES ")");
	result = overlay_classes(fd);
	close(fd);
	if (result < 0)
		umount2(CLASSES, MNT_DETACH);
	return result;
}

/* Make DEVICES/name a link to `name` in the real /dev; if `name` is a link itself, copy it. */
static int link_to_host(int host_fd, const struct dirent *entry)
{
	char path[sizeof(DEVICES) + NAME_MAX + 1], target[PATH_MAX];
	ssize_t bytes = -1;

	if (entry->d_type == DT_LNK)
		bytes = readlinkat(host_fd, entry->d_name, target, sizeof(target) - 1);
	if (bytes >= 0)
		target[bytes] = '\0';
	else
		snprintf(target, sizeof(target), HOST_NAME "/%s", entry->d_name);
	snprintf(path, sizeof(path), DEVICES "/%s", entry->d_name);
	return symlink(target, path) < 0 ? call_failed("symlink") : 0;
}

static int link_all_to_host(void)
{
	DIR *host = opendir(DEVICES "/" HOST_NAME);
	struct dirent *entry;
	int result = 0;

	if (!host)
		return call_failed("open(" DEVICES "/" HOST_NAME ")");
	while (result == 0 && (entry = readdir(host))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			result = link_to_host(dirfd(host), entry);
	}
	closedir(host);
	return result;
}

/*
 * Replace /dev by links to the real one. `host_fd` is a detached copy of the real /dev with all
 * mounts in it.
 */
static int replace_devices(int host_fd)
{
	int result = mount_tmpfs(DEVICES);

	if (result < 0)
		return result;
	result = make_directory(DEVICES "/" HOST_NAME);
	if (result == 0 &&
		move_mount(host_fd, "", AT_FDCWD, DEVICES "/" HOST_NAME, MOVE_MOUNT_F_EMPTY_PATH) <
			0)
		result = call_failed("move_mount");
	if (result == 0)
		result = link_all_to_host();
	if (result == 0)
		result = make_directory(VIEW_NODES);
	if (result < 0)
		umount2(DEVICES, MNT_DETACH);
	return result;
}

/*
 * Provide the mount point /dev/infiniband. Replace /dev for that, because the whole system would
 * see a directory in the real /dev.
 */
static int provide_nodes(void)
{
	int fd, result;

	if (is_directory(VIEW_NODES))
		return 0;
	fd = open_tree(AT_FDCWD, DEVICES, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (fd < 0)
		return call_failed("open_tree");
	result = replace_devices(fd);
	close(fd);
	return result;
}

int view_enter(bool may_change_users, const char **ret_call)
{
	static const char *const directories[] = {VIEW_DEVICES, VIEW_CHAR_DEVICES, VIEW_NODES};
	int result = enter_namespace(may_change_users);

	if (result == 0)
		result = cut_off("/sys");
	if (result == 0)
		result = cut_off(DEVICES);
	if (result == 0)
		result = provide_classes();
	if (result == 0)
		result = provide_nodes();
	for (int i = 0; i < 3 && result == 0; i++)
		result = mount_tmpfs(directories[i]);
	if (result == 0) {
		failed_call = "the view's files";
		result = view_write_files();
	}
	*ret_call = failed_call;
	return result;
}
