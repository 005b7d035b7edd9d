/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/failure_file.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

#define FILE_MAGIC  0x75726e69636661ull /* "urnicfa" */
#define FILE_PREFIX "failed-"

enum { FILE_REVISION = 1 };

static_assert(sizeof(struct failure_head) == 64, "no hidden padding");

/* A change of the structs, or of the number of facts, makes another version. */
static uint32_t file_version(void)
{
	return ((FILE_REVISION * 31u + (uint32_t)sizeof(struct failure)) * 31u + FACT_COUNT) * 31u +
		FAILURES_MAX;
}

static uint64_t wall_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- sweeping --- */

struct oldest {
	char name[256]; /* the longest that a directory has */
	uint64_t changed_ns; /* since 1970 */
};

/*
 * Remove the file if it has not changed for FAILURE_FILE_LIFE_S. Returns whether the file stays. If
 * it is older than *oldest, it becomes *oldest.
 */
static bool file_stays(int directory, const char *name, time_t now, struct oldest *oldest)
{
	struct stat status;
	uint64_t changed_ns;

	if (strncmp(name, FILE_PREFIX, strlen(FILE_PREFIX)) != 0 ||
		fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
		return false;
	if (now - status.st_mtime > FAILURE_FILE_LIFE_S) {
		unlinkat(directory, name, 0);
		return false;
	}
	changed_ns = (uint64_t)status.st_mtim.tv_sec * 1000000000u +
		(uint64_t)status.st_mtim.tv_nsec;
	if (!oldest->name[0] || changed_ns < oldest->changed_ns) {
		oldest->changed_ns = changed_ns;
		snprintf(oldest->name, sizeof(oldest->name), "%s", name);
	}
	return true;
}

static DIR *directory_list(int directory)
{
	int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = copy < 0 ? NULL : fdopendir(copy);

	if (!entries && copy >= 0)
		close(copy);
	return entries;
}

/* Go through the files once. Returns how many stay, and the oldest of them. */
static uint32_t files_count(int directory, struct oldest *ret_oldest)
{
	DIR *entries = directory_list(directory);
	time_t now = time(NULL);
	struct dirent *entry;
	uint32_t count = 0;

	ret_oldest->name[0] = '\0';
	while (entries && (entry = readdir(entries)))
		count += file_stays(directory, entry->d_name, now, ret_oldest);
	if (entries)
		closedir(entries);
	return count;
}

void failure_file_sweep(int directory, uint32_t kept)
{
	struct oldest oldest;

	/* Other processes remove files, too, so each pass counts anew. */
	while (files_count(directory, &oldest) > kept)
		if (unlinkat(directory, oldest.name, 0) && errno != ENOENT)
			return;
}

/* --- writing --- */

/*
 * May the program have files of this size? If a file exceeded RLIMIT_FSIZE, the kernel would end
 * the program by SIGXFSZ.
 */
static bool file_may_be_written(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur >= sizeof(struct failure_file);
}

static int bytes_write(int fd, const void *bytes, size_t count, off_t at)
{
	ssize_t written = pwrite(fd, bytes, count, at);

	if (written == (ssize_t)count)
		return 0;
	return written < 0 ? -errno : -ENOSPC;
}

/* A place_directory_visit_fn: keep the first directory open. */
static int place_take(void *context, const struct place *place)
{
	struct place *taken = context;

	*taken = *place;
	taken->fd = fcntl(place->fd, F_DUPFD_CLOEXEC, 0);
	return taken->fd < 0 ? -errno : 1;
}

/*
 * Open an existing directory of the user, or make one if there is none. If another user has taken
 * the usual names, the directory has a random name, so a process that did not look for it would
 * make one more.
 */
static int place_find(struct place *ret_place)
{
	int result = place_directory_visit(PLACE_OWN, place_take, ret_place);

	if (result == 1)
		return 0;
	return result ? result : place_directory_make(false, ret_place);
}

int failure_file_create(const struct failure *failures, char ret_path[FAILURE_PATH_BYTES])
{
	struct failure_head head = {
		.magic = FILE_MAGIC,
		.version = file_version(),
		.pid = (uint32_t)getpid(),
		.wall_ns = wall_now_ns(),
	};
	struct place place;
	int fd, error;

	if (!file_may_be_written())
		return -EFBIG;
	error = place_find(&place);
	if (error)
		return error;
	failure_file_sweep(place.fd, FAILURE_FILES_MAX - 1);
	process_name_read(getpid(), head.comm);
	snprintf(ret_path, FAILURE_PATH_BYTES, "%s/" FILE_PREFIX "%u-%llx", place.path, head.pid,
		(unsigned long long)head.wall_ns);
	fd = open(ret_path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	error = fd < 0 ? -errno : 0;
	if (!error)
		error = bytes_write(fd, failures, FAILURES_MAX * sizeof(*failures),
			(off_t)offsetof(struct failure_file, list));
	if (!error)
		error = bytes_write(fd, &head, sizeof(head), 0);
	if (fd >= 0)
		close(fd);
	close(place.fd);
	return error;
}

int failure_file_write(const char *path, const struct failure *failure, uint32_t place)
{
	int fd, error;

	if (!file_may_be_written())
		return -EFBIG;
	fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	error = bytes_write(fd, failure, sizeof(*failure),
		(off_t)(offsetof(struct failure_file, list) + place * sizeof(*failure)));
	close(fd);
	return error;
}

/* --- reading --- */

struct file_visit {
	failure_file_visit_fn *visit;
	void *context;
	struct failure_file file;
};

static void failure_check(struct failure *failure)
{
	failure->text[FAILURE_TEXT_BYTES - 1] = '\0';
	text_make_printable(failure->text);
	if (failure->facts.count > FAILURE_FACTS_MAX)
		failure->facts.count = 0;
	for (uint32_t i = 0; i < failure->facts.count; i++)
		if (failure->facts.fact[i] >= FACT_COUNT)
			failure->facts.count = 0;
}

/* Read a file of this user, whole. */
static bool file_read(int directory, const char *name, struct failure_file *ret_file)
{
	int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct failure_head *head = &ret_file->head;
	struct stat status;
	bool is_whole;

	if (fd < 0)
		return false;
	is_whole = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
		status.st_uid == geteuid() &&
		read(fd, ret_file, sizeof(*ret_file)) == (ssize_t)sizeof(*ret_file);
	close(fd);
	if (!is_whole || head->magic != FILE_MAGIC || head->version != file_version())
		return false;
	head->comm[sizeof(head->comm) - 1] = '\0';
	text_make_printable(head->comm);
	for (uint32_t i = 0; i < FAILURES_MAX; i++)
		failure_check(&ret_file->list[i]);
	return true;
}

/* A place_directory_visit_fn. */
static int files_visit(void *context, const struct place *place)
{
	struct file_visit *visit = context;
	DIR *entries = directory_list(place->fd);
	bool goes_on = true;
	struct dirent *entry;

	while (goes_on && entries && (entry = readdir(entries)))
		if (!strncmp(entry->d_name, FILE_PREFIX, strlen(FILE_PREFIX)) &&
			file_read(place->fd, entry->d_name, &visit->file))
			goes_on = visit->visit(visit->context, &visit->file);
	if (entries)
		closedir(entries);
	return goes_on ? 0 : 1;
}

void failure_file_visit(failure_file_visit_fn *visit, void *context)
{
	struct file_visit all = {.visit = visit, .context = context};

	place_directory_visit(PLACE_OWN, files_visit, &all);
}
