/* SPDX-License-Identifier: BSD-2-Clause */
/* The file of failures: what is written is read, garbage is not, and there are not many files. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/failure_file.h"
#include "support/netns.h"

static struct failure list[FAILURES_MAX];

struct search {
	uint32_t pid;
	uint32_t count;
	struct failure_file file;
};

static bool file_keep(void *context, const struct failure_file *file)
{
	struct search *search = context;

	if (file->head.pid != search->pid)
		return true;
	search->count++;
	search->file = *file;
	return true;
}

/* How many files this process has, and the last one that was found. */
static uint32_t files_find(struct search *ret_search)
{
	*ret_search = (struct search){.pid = (uint32_t)getpid()};
	failure_file_visit(file_keep, ret_search);
	return ret_search->count;
}

static void file_make(char path[FAILURE_PATH_BYTES])
{
	assert_int_equal(failure_file_create(list, path), 0);
}

static void file_has_what_was_written(void **state)
{
	struct failure failure = {.number = 65, .reason = 7, .wr_id = 9, .text = "a call"};
	char path[FAILURE_PATH_BYTES];
	struct search search;
	struct stat status;

	(void)state;
	file_make(path);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
	assert_int_equal(failure_file_write(path, &failure, 3), 0);
	assert_int_equal(files_find(&search), 1);
	assert_memory_equal(&search.file.list[3], &failure, sizeof(failure));
	unlink(path);
	assert_int_equal(failure_file_write(path, &failure, 3), -ENOENT);
	assert_int_equal(files_find(&search), 0);
}

static void file_with_garbage_is_made_harmless(void **state)
{
	struct failure failure;
	char path[FAILURE_PATH_BYTES];
	struct search search;

	(void)state;
	file_make(path);
	memset(&failure, 0xff, sizeof(failure));
	memset(failure.text, '\n', sizeof(failure.text));
	assert_int_equal(failure_file_write(path, &failure, 0), 0);
	assert_int_equal(files_find(&search), 1);
	assert_int_equal(search.file.list[0].facts.count, 0);
	assert_int_equal(strlen(search.file.list[0].text), FAILURE_TEXT_BYTES - 1);
	assert_null(strchr(search.file.list[0].text, '\n'));
	/* Too many facts, each of which exists. */
	memset(&failure, 0, sizeof(failure));
	failure.facts.count = FAILURE_FACTS_MAX + 1;
	assert_int_equal(failure_file_write(path, &failure, 0), 0);
	assert_int_equal(files_find(&search), 1);
	assert_int_equal(search.file.list[0].facts.count, 0);
	unlink(path);
}

static void file_that_is_no_such_file_is_skipped(void **state)
{
	char path[FAILURE_PATH_BYTES], moved[FAILURE_PATH_BYTES];
	struct search search;
	int fd;

	(void)state;
	file_make(path);
	assert_int_equal(truncate(path, 100), 0);
	assert_int_equal(files_find(&search), 0);
	assert_int_equal(truncate(path, sizeof(struct failure_file)), 0);
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, "garbage", 7, 0), 7);
	close(fd);
	assert_int_equal(files_find(&search), 0);
	unlink(path);
	/* A link, even to such a file. */
	file_make(path);
	snprintf(moved, sizeof(moved), "%.*s/moved", (int)(strrchr(path, '/') - path), path);
	assert_int_equal(rename(path, moved), 0);
	assert_int_equal(symlink(moved, path), 0);
	assert_int_equal(files_find(&search), 0);
	unlink(path);
}

static void files_are_bounded_in_number_and_time(void **state)
{
	const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	char path[FAILURE_PATH_BYTES], old[FAILURE_PATH_BYTES];
	struct search search;

	(void)state;
	file_make(old);
	assert_int_equal(utimensat(AT_FDCWD, old, long_ago, 0), 0);
	file_make(path);
	assert_int_equal(access(old, F_OK), -1);
	for (int i = 0; i < 2 * FAILURE_FILES_MAX; i++)
		file_make(path);
	assert_int_equal(access(path, F_OK), 0);
	assert_in_range(files_find(&search), 1, FAILURE_FILES_MAX);
	*strrchr(path, '/') = '\0';
	int directory = open(path, O_RDONLY | O_DIRECTORY);
	failure_file_sweep(directory, 0);
	close(directory);
	assert_int_equal(files_find(&search), 0);
}

/* Otherwise the kernel would end the program by SIGXFSZ. */
static void file_is_not_made_beyond_the_limit_on_files(void **state)
{
	struct rlimit before, limit;
	char path[FAILURE_PATH_BYTES];

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = before;
	limit.rlim_cur = 1024;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(failure_file_create(list, path), -EFBIG);
	assert_int_equal(failure_file_write("/tmp/x", list, 1), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_has_what_was_written),
		cmocka_unit_test(file_with_garbage_is_made_harmless),
		cmocka_unit_test(file_that_is_no_such_file_is_skipped),
		cmocka_unit_test(files_are_bounded_in_number_and_time),
		cmocka_unit_test(file_is_not_made_beyond_the_limit_on_files),
	};

	/* Directories of its own, because the test removes what it finds. */
	if (netns_enter_new() < 0)
		return 77;
	if (unshare(CLONE_NEWNS) ||
		netns_run("mount --make-rprivate / && mount -t tmpfs none /run && "
			  "mount -t tmpfs none /dev/shm && mount -t tmpfs none /tmp")) {
		printf("this system refuses mount namespaces\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
