/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/place_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arith.h"

#define ROOTS_PARENT    "/run"
#define ROOTS_DIRECTORY ROOTS_PARENT "/urnic"

enum { OVERFLOW_UID = 65534 /* user number of unknown users in a user namespace */ };

/* Every user may make directories there, and only the owner may remove them. */
static const char *const shared_parents[] = {"/dev/shm", "/tmp"};

/* The number of the effective user outside this user namespace. */
static uid_t user_outside(void)
{
	uid_t uid = geteuid();
	FILE *map = fopen("/proc/self/uid_map", "re");
	unsigned inside, outside, count;
	uid_t found = uid;

	while (map && fscanf(map, "%u %u %u", &inside, &outside, &count) == 3)
		if (uid >= inside && uid - inside < count)
			found = outside + (uid - inside);
	if (map)
		fclose(map);
	return found;
}

/* Is the owner the only user that may write there? */
static bool is_closed(const struct stat *directory)
{
	return S_ISDIR(directory->st_mode) && !(directory->st_mode & (S_IWGRP | S_IWOTH));
}

/* Is it root's directory, and is the caller another user? */
static bool is_roots(const struct stat *directory)
{
	struct stat parent;

	if (!is_closed(directory))
		return false;
	if (directory->st_uid == 0)
		return geteuid() != 0;
	return directory->st_uid == OVERFLOW_UID && stat(ROOTS_PARENT, &parent) == 0 &&
		parent.st_uid == OVERFLOW_UID && is_closed(&parent);
}

static bool is_own(const char *path, const struct stat *directory)
{
	mode_t forbidden =
		strcmp(path, ROOTS_DIRECTORY) == 0 ? S_IWGRP | S_IWOTH : S_IRWXG | S_IRWXO;

	return directory->st_uid == geteuid() && !(directory->st_mode & forbidden);
}

/* Returns 0 or -errno; -EPERM: the directory exists and is not trusted. */
static int place_open(const char *path, enum place_whose whose, struct place *ret_place)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) ||
		!(whose == PLACE_ROOTS ? is_roots(&status) : is_own(path, &status))) {
		close(fd);
		return -EPERM;
	}
	ret_place->fd = fd;
	ret_place->owner = status.st_uid;
	snprintf(ret_place->path, sizeof(ret_place->path), "%s", path);
	return 0;
}

/*
 * The path of directory `index` of user `uid`; "" if only root has that directory. Returns false if
 * `index` is too large.
 */
static bool own_path(unsigned index, uid_t uid, char ret_path[DIRECTORY_BYTES])
{
	*ret_path = '\0';
	if (index == 0)
		snprintf(ret_path, DIRECTORY_BYTES, "%s", geteuid() ? "" : ROOTS_DIRECTORY);
	else if (index == 1)
		snprintf(ret_path, DIRECTORY_BYTES, "/run/user/%u/urnic", uid);
	else if (index < 2 + ARRAY_COUNT(shared_parents))
		snprintf(ret_path, DIRECTORY_BYTES, "%s/urnic-%u", shared_parents[index - 2], uid);
	else
		return false;
	return true;
}

/* Open a directory, making it if it is missing. */
static int place_make(const char *path, struct place *ret_place)
{
	if (mkdir(path, S_IRWXU) && errno != EEXIST)
		return -errno;
	return place_open(path, PLACE_OWN, ret_place);
}

/* Make a directory with a random name, which no other user can take first. */
static int place_make_random(const char *parent, uid_t uid, struct place *ret_place)
{
	char path[DIRECTORY_BYTES];

	snprintf(path, sizeof(path), "%s/urnic-%u.XXXXXX", parent, uid);
	if (!mkdtemp(path))
		return -errno;
	return place_open(path, PLACE_OWN, ret_place);
}

bool place_directory_is_shortage(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM;
}

int place_directory_make(bool is_for_all, struct place *ret_place)
{
	uid_t uid = user_outside();
	char path[DIRECTORY_BYTES];
	int error = -EACCES;

	for (unsigned i = 0; own_path(i, uid, path); i++) {
		if (*path)
			error = place_make(path, ret_place);
		if (!error || place_directory_is_shortage(error) || is_for_all)
			return error;
	}
	for (unsigned i = 0; i < ARRAY_COUNT(shared_parents); i++)
		if (place_make_random(shared_parents[i], uid, ret_place) == 0)
			return 0;
	return -EACCES;
}

static int visit_path(
	const char *path, enum place_whose whose, place_directory_visit_fn *visit, void *context)
{
	struct place place;
	int result = *path ? place_open(path, whose, &place) : -ENOENT;

	if (result)
		return place_directory_is_shortage(result) ? result : 0;
	result = visit(context, &place);
	close(place.fd);
	return result;
}

/*
 * Is the entry a directory of the user? Other users can make any number of files and directories
 * with such names.
 */
static bool is_candidate(int parent, const struct dirent *entry, const char *prefix)
{
	struct stat status;

	return (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN) &&
		strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
		strlen(entry->d_name) == strlen(prefix) + strlen("XXXXXX") &&
		fstatat(parent, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
		status.st_uid == geteuid();
}

/* Visit the user's directories with random names. */
static int visit_random(
	const char *parent, uid_t uid, place_directory_visit_fn *visit, void *context)
{
	DIR *entries = opendir(parent);
	int result = entries || !place_directory_is_shortage(-errno) ? 0 : -errno;
	char prefix[DIRECTORY_BYTES], path[PATH_MAX];
	struct dirent *entry;

	snprintf(prefix, sizeof(prefix), "urnic-%u.", uid);
	while (entries && !result && (entry = readdir(entries))) {
		if (!is_candidate(dirfd(entries), entry, prefix))
			continue;
		snprintf(path, sizeof(path), "%s/%s", parent, entry->d_name);
		result = visit_path(path, PLACE_OWN, visit, context);
	}
	if (entries)
		closedir(entries);
	return result;
}

int place_directory_visit(enum place_whose whose, place_directory_visit_fn *visit, void *context)
{
	uid_t uid = user_outside();
	char path[DIRECTORY_BYTES];
	int result = 0;

	if (whose == PLACE_ROOTS)
		return visit_path(ROOTS_DIRECTORY, PLACE_ROOTS, visit, context);
	for (unsigned i = 0; !result && own_path(i, uid, path); i++)
		result = visit_path(path, PLACE_OWN, visit, context);
	for (unsigned i = 0; !result && i < ARRAY_COUNT(shared_parents); i++)
		result = visit_random(shared_parents[i], uid, visit, context);
	return result;
}
