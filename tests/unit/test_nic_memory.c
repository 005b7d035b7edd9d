/* SPDX-License-Identifier: BSD-2-Clause */
/* What another process says is its NIC memory, and may be any descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "segment/nic_memory.h"

enum { BYTES = 1 << 20 };

static int memory_make(off_t bytes, int seals, unsigned flags)
{
	int fd = memfd_create("nic", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	if (fd < 0)
		return fd;
	assert_int_equal(ftruncate(fd, bytes), 0);
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void expect(int fd, uid_t owner, int error)
{
	uint64_t bytes = 0;
	int anew = nic_memory_open(fd, owner, &bytes);

	if (error) {
		assert_int_equal(anew, error);
	} else {
		assert_true(anew >= 0);
		assert_int_equal(bytes, BYTES);
		close(anew);
	}
	close(fd);
}

static void memory_of_its_owner_that_cannot_shrink_is_opened(void **state)
{
	(void)state;
	expect(memory_make(BYTES, F_SEAL_SHRINK, 0), geteuid(), 0);
	expect(memory_make(BYTES, F_SEAL_SHRINK | F_SEAL_GROW, 0), geteuid(), 0);
}

static void memory_that_may_shrink_is_refused(void **state)
{
	(void)state;
	expect(memory_make(BYTES, 0, 0), geteuid(), -EBADF);
	expect(memory_make(BYTES, F_SEAL_GROW, 0), geteuid(), -EBADF);
}

static void memory_of_another_user_is_refused(void **state)
{
	(void)state;
	expect(memory_make(BYTES, F_SEAL_SHRINK, 0), geteuid() + 1, -EACCES);
}

static void memory_of_no_possible_length_is_refused(void **state)
{
	(void)state;
	expect(memory_make(0, F_SEAL_SHRINK, 0), geteuid(), -EBADF);
	expect(memory_make(4096, F_SEAL_SHRINK, 0), geteuid(), -EBADF);
	expect(memory_make((off_t)1 << 40, F_SEAL_SHRINK, 0), geteuid(), -EBADF);
}

static void descriptor_of_another_kind_is_refused(void **state)
{
	int ends[2], huge = memory_make(1 << 21, F_SEAL_SHRINK, MFD_HUGETLB);

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	expect(ends[0], geteuid(), -EBADF);
	expect(ends[1], geteuid(), -EBADF);
	expect(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), geteuid(), -EBADF);
	expect(open("/dev/zero", O_RDWR | O_CLOEXEC), geteuid(), -EBADF);
	expect(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), geteuid(), -EBADF);
	if (huge >= 0)
		expect(huge, geteuid(), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_of_its_owner_that_cannot_shrink_is_opened),
		cmocka_unit_test(memory_that_may_shrink_is_refused),
		cmocka_unit_test(memory_of_another_user_is_refused),
		cmocka_unit_test(memory_of_no_possible_length_is_refused),
		cmocka_unit_test(descriptor_of_another_kind_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
