/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether memory is mapped with given rights, asked again and again by one descriptor. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/vma.h"

enum { PAGES = 4, FD_MAX = 256 };

static uint8_t *pages;
static uint64_t page_bytes;

static int setup(void **state)
{
	(void)state;
	page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	pages = mmap(NULL, PAGES * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		-1, 0);
	return pages == MAP_FAILED ? -1 : 0;
}

static int teardown(void **state)
{
	(void)state;
	return munmap(pages, PAGES * page_bytes);
}

/* Are `bytes` bytes from `offset` on mapped with these rights? */
static bool has(uint64_t offset, uint64_t bytes, int prot)
{
	uint64_t first = (uintptr_t)pages + offset;

	return vmas_have(first, first + bytes - 1, prot);
}

/* The descriptor of /proc/self/maps that this process has open; -1: none. */
static int maps_fd(void)
{
	char link[64], name[64], own[64];

	snprintf(own, sizeof(own), "/proc/%d/maps", (int)getpid());
	for (int fd = 3; fd < FD_MAX; fd++) {
		ssize_t length;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		length = readlink(link, name, sizeof(name) - 1);
		if (length < 0)
			continue;
		name[length] = '\0';
		if (!strcmp(name, own))
			return fd;
	}
	return -1;
}

static void range_is_had_only_where_all_of_it_has_the_rights(void **state)
{
	(void)state;
	assert_true(has(0, PAGES * page_bytes, PROT_READ | PROT_WRITE));
	assert_int_equal(mprotect(pages + page_bytes, page_bytes, PROT_READ), 0);
	assert_true(has(0, PAGES * page_bytes, PROT_READ));
	assert_true(has(0, page_bytes, PROT_READ | PROT_WRITE));
	assert_false(has(0, page_bytes + 1, PROT_READ | PROT_WRITE));
	assert_false(has(2 * page_bytes - 1, 2, PROT_READ | PROT_WRITE));
	assert_true(has(2 * page_bytes, 2 * page_bytes, PROT_READ | PROT_WRITE));
	assert_int_equal(munmap(pages + 2 * page_bytes, page_bytes), 0);
	assert_true(has(page_bytes, page_bytes, PROT_READ));
	assert_false(has(2 * page_bytes, 1, PROT_READ));
	assert_false(has(page_bytes, 2 * page_bytes, PROT_READ));
	assert_true(has(3 * page_bytes, page_bytes, PROT_READ));
}

static void descriptor_that_the_program_closed_is_opened_again(void **state)
{
	int fd;

	(void)state;
	assert_true(has(0, page_bytes, PROT_READ));
	fd = maps_fd();
	if (fd < 0)
		skip(); /* Linux before 6.11 */
	close(fd);
	assert_true(has(0, page_bytes, PROT_READ));
	assert_true(maps_fd() >= 0);
}

static void file_with_the_number_of_a_closed_descriptor_is_left_alone(void **state)
{
	int fd, other;

	(void)state;
	assert_true(has(0, page_bytes, PROT_READ));
	fd = maps_fd();
	if (fd < 0)
		skip();
	other = open("/dev/null", O_WRONLY | O_CLOEXEC);
	assert_true(other >= 0);
	assert_int_equal(dup2(other, fd), fd);
	assert_true(has(0, page_bytes, PROT_READ));
	assert_false(has(0, PAGES * page_bytes, PROT_EXEC));
	assert_int_equal(write(fd, "x", 1), 1);
	close(fd);
	close(other);
}

/* In the child of a fork. Returns its exit status. */
static int child_check(int parent_fd)
{
	if (parent_fd >= 0 && fcntl(parent_fd, F_GETFD) >= 0)
		return 2;
	if (munmap(pages, page_bytes))
		return 3;
	if (has(0, page_bytes, PROT_READ))
		return 4;
	return has(page_bytes, page_bytes, PROT_READ) ? 0 : 5;
}

static void child_of_a_fork_sees_its_own_mappings(void **state)
{
	int status, fd;
	pid_t child;

	(void)state;
	assert_true(has(0, page_bytes, PROT_READ));
	fd = maps_fd();
	child = fork();
	assert_true(child >= 0);
	if (!child)
		_exit(child_check(fd));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(maps_fd(), fd);
	assert_true(has(0, page_bytes, PROT_READ));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(range_is_had_only_where_all_of_it_has_the_rights),
		TEST(descriptor_that_the_program_closed_is_opened_again),
		TEST(file_with_the_number_of_a_closed_descriptor_is_left_alone),
		TEST(child_of_a_fork_sees_its_own_mappings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
