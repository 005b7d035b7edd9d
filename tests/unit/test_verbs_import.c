/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices, domains, regions and device memory by way of a second descriptor: in the same process, in a forked child, and
 * in a process that has nothing to do with it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/netns.h"
#include "support/sanitizer.h"
#include "support/verbs_pair.h"

enum { DM_BYTES = 64 };

static struct ibv_context *context;

static void imported_objects_are_the_ones_of_the_first(void **state)
{
	struct ibv_context *imported = ibv_import_device(dup(context->cmd_fd));
	struct ibv_alloc_dm_attr attr = {.length = DM_BYTES};
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr), *dm_again;
	struct ibv_mr *mr_again;
	struct ibv_pd *pd;
	struct verbs_end end;
	uint64_t word = 4711;

	(void)state;
	assert_non_null(imported);
	assert_string_equal(
		ibv_get_device_name(imported->device), ibv_get_device_name(context->device));
	verbs_end_make(&end, context, NULL);
	assert_non_null(pd = ibv_import_pd(imported, end.pd->handle));
	assert_non_null(mr_again = ibv_import_mr(pd, end.mr->handle));
	assert_int_equal(mr_again->rkey, end.mr->rkey);
	assert_ptr_equal(mr_again->addr, end.mr->addr);
	assert_non_null(dm);
	assert_non_null(dm_again = ibv_import_dm(imported, dm->handle));
	assert_int_equal(ibv_memcpy_to_dm(dm, 8, &word, sizeof(word)), 0);
	word = 0;
	assert_int_equal(ibv_memcpy_from_dm(&word, dm_again, 8, sizeof(word)), 0);
	assert_int_equal(word, 4711);
	ibv_unimport_dm(dm_again);
	ibv_unimport_mr(mr_again);
	ibv_unimport_pd(pd);
	assert_int_equal(ibv_free_dm(dm), 0);
	verbs_end_unmake(&end);
	assert_int_equal(ibv_close_device(imported), 0);
}

static void handles_of_other_kinds_are_not_imported(void **state)
{
	struct ibv_context *imported = ibv_import_device(dup(context->cmd_fd));
	struct verbs_end end;

	(void)state;
	assert_non_null(imported);
	verbs_end_make(&end, context, NULL);
	assert_null(ibv_import_pd(imported, end.mr->handle));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_import_mr(end.pd, end.pd->handle));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_import_dm(imported, end.mr->handle));
	assert_int_equal(errno, EINVAL);
	verbs_end_unmake(&end);
	assert_int_equal(ibv_close_device(imported), 0);
}

static void descriptor_of_nothing_is_refused(void **state)
{
	int other = memfd_create("something", MFD_CLOEXEC);

	(void)state;
	errno = 0;
	assert_null(ibv_import_device(other));
	assert_int_equal(errno, EINVAL);
	close(other);
	errno = 0;
	assert_null(ibv_import_device(-1));
	assert_int_equal(errno, EBADF);
}

static void fd_send(int to, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr header;
	} control = {.bytes = {0}};
	struct iovec byte = {"", 1};
	struct msghdr message = {
		.msg_iov = &byte,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	MUST(sendmsg(to, &message, 0) == 1);
}

static int fd_receive(int from)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr header;
	} control;
	char text;
	struct iovec byte = {&text, 1};
	struct msghdr message = {
		.msg_iov = &byte,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	int fd;

	MUST(recvmsg(from, &message, 0) == 1 && message.msg_controllen);
	memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	return fd;
}

static void must_end_well(pid_t child)
{
	int status = -1;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void device_of_another_process_is_not_supported(void **state)
{
	int sockets[2], fd;
	pid_t child;

	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	child = fork();
	if (!child) {
		struct ibv_context *own = verbs_pair_open();
		char end;

		fd_send(sockets[1], own->cmd_fd);
		MUST(read(sockets[1], &end, 1) == 1);
		_exit(0);
	}
	fd = fd_receive(sockets[0]);
	errno = 0;
	assert_null(ibv_import_device(fd));
	assert_int_equal(errno, EOPNOTSUPP);
	close(fd);
	assert_int_equal(write(sockets[0], "", 1), 1);
	must_end_well(child);
	close(sockets[0]);
	close(sockets[1]);
}

/* The child has the device, and a domain to make its own things in; what is the NIC's stays with the parent. */
static void in_child(const struct verbs_end *end, struct ibv_dm *dm)
{
	struct ibv_context *imported = ibv_import_device(dup(context->cmd_fd));
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	uint64_t word;

	MUST(imported);
	MUST(pd = ibv_import_pd(imported, end->pd->handle));
	MUST(!ibv_import_mr(pd, end->mr->handle) && errno == EIO);
	errno = 0;
	MUST(!ibv_import_dm(imported, dm->handle) && errno == EIO);
	MUST(ibv_memcpy_from_dm(&word, dm, 0, sizeof(word)) == EIO);
	MUST(ibv_memcpy_to_dm(dm, 0, &word, sizeof(word)) == EIO);
	errno = 0;
	MUST(!ibv_reg_dm_mr(pd, dm, 0, DM_BYTES, IBV_ACCESS_ZERO_BASED) && errno == EIO);
	MUST(mr = ibv_reg_mr(pd, end->buffer, 10, 0));
	MUST(!ibv_dereg_mr(mr));
	_exit(0);
}

static void child_of_a_fork_imports_the_device(void **state)
{
	struct ibv_alloc_dm_attr attr = {.length = DM_BYTES};
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr);
	struct verbs_end end;
	pid_t child;

	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	verbs_end_make(&end, context, NULL);
	assert_non_null(dm);
	child = fork();
	if (!child)
		in_child(&end, dm);
	must_end_well(child);
	assert_int_equal(ibv_free_dm(dm), 0);
	verbs_end_unmake(&end);
}

static int open_context(void **state)
{
	(void)state;
	context = verbs_pair_open();
	return 0;
}

static int close_context(void **state)
{
	(void)state;
	return ibv_close_device(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(imported_objects_are_the_ones_of_the_first),
		cmocka_unit_test(handles_of_other_kinds_are_not_imported),
		cmocka_unit_test(descriptor_of_nothing_is_refused),
		cmocka_unit_test(device_of_another_process_is_not_supported),
		cmocka_unit_test(child_of_a_fork_imports_the_device),
	};

	if (netns_enter_new() < 0)
		return 77;
	return cmocka_run_group_tests(tests, open_context, close_context);
}
