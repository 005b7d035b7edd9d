/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/view_counters.h"

static unsigned descriptors_count(void)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned count = 0;

	assert_non_null(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static void remove_counters(int device, const char *path)
{
	int fd = openat(device, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fdopendir(fd);
	const struct dirent *entry;

	assert_non_null(directory);
	while ((entry = readdir(directory)))
		(void)unlinkat(fd, entry->d_name, 0);
	closedir(directory);
	assert_int_equal(unlinkat(device, path, AT_REMOVEDIR), 0);
}

/* The files of ports/1/counters are open when those of ports/1/hw_counters fail. */
static void device_whose_files_fail_leaves_no_descriptor(void **state)
{
	static char path[] = "/tmp/urnic-counters-XXXXXX";
	const struct device_facts device = {.ifindex = 1};
	int directory;
	unsigned before;

	(void)state;
	assert_non_null(mkdtemp(path));
	directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(directory >= 0);
	assert_int_equal(mkdirat(directory, "ports", 0700), 0);
	assert_int_equal(mkdirat(directory, "ports/1", 0700), 0);
	assert_int_equal(mkdirat(directory, "ports/1/hw_counters", 0700), 0);
	before = descriptors_count();
	assert_int_equal(view_counters_add(directory, &device), -EEXIST);
	assert_int_equal(descriptors_count(), before);
	remove_counters(directory, "ports/1/counters");
	assert_int_equal(unlinkat(directory, "ports/1/hw_counters", AT_REMOVEDIR), 0);
	assert_int_equal(unlinkat(directory, "ports/1", AT_REMOVEDIR), 0);
	assert_int_equal(unlinkat(directory, "ports", AT_REMOVEDIR), 0);
	close(directory);
	assert_int_equal(rmdir(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device_whose_files_fail_leaves_no_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
