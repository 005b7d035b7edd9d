/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a host was told is durable is durable: a target with a namespace in a file, whose system
 * calls the test sees, delays and breaks. The functions here hide those of libraries from the
 * target.
 */
#include "support/nvmf_tcp_client.h"

#include <dlfcn.h>
#include <liburing.h>

/* How the target's io_uring misbehaves. */
static struct {
	int refusals; /* calls of io_uring_submit() that fail for lack of memory */
} fault;

int io_uring_submit(struct io_uring *uring)
{
	int (*submit)(struct io_uring *) =
		(int (*)(struct io_uring *))dlsym(RTLD_NEXT, "io_uring_submit");

	if (fault.refusals && fault.refusals--)
		return -EAGAIN;
	return submit(uring);
}

/* --- the target, with namespace 2 in a file, and a host --- */

static char path[64];
static int file;
static struct client admin, io;

static int begin(void **state)
{
	struct target_namespace_settings file_settings = {.nsid = 2};
	struct backend_settings disk = {.path = path};
	char sentence[BACKEND_SENTENCE_BYTES];
	struct target_namespace *file_ns;

	setup(state);
	strcpy(path, "/tmp/test_nvmf_durability.XXXXXX");
	file = mkstemp(path);
	assert_true(file >= 0);
	assert_int_equal(ftruncate(file, DISK_BYTES), 0);
	assert_int_equal(backend_open(&disk, &file_settings.backend, sentence), 0);
	assert_int_equal(target_namespace_add(subsystem, &file_settings, &file_ns), 0);
	client_io(&io, client_admin(&admin, SUBSYSTEM_NQN, 0), 0, 0);
	return 0;
}

static int end(void **state)
{
	close(io.fd);
	client_close(&admin);
	memset(&fault, 0, sizeof(fault));
	teardown(state);
	close(file);
	unlink(path);
	return 0;
}

static struct nvme_sqe sqe_of(uint8_t opcode, uint32_t blocks)
{
	bool has_data = opcode == NVME_IO_WRITE;
	struct nvme_sqe sqe = io_sqe(opcode, 0, blocks, has_data ? blocks * 512 : 0);

	sqe.nsid = 2;
	if (has_data)
		sqe.sgl.type = NVME_SGL_IN_CAPSULE;
	return sqe;
}

static uint16_t run(struct nvme_sqe sqe)
{
	return client_command(&io, &sqe, data, sqe.sgl.length).status;
}

/* No request is under way whose end would wake the target. */
static void command_that_the_kernel_puts_off_ends(void **state)
{
	(void)state;
	fault.refusals = 5;
	assert_int_equal(run(sqe_of(NVME_IO_WRITE, 1)), NVME_SUCCESS);
	assert_int_equal(fault.refusals, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(command_that_the_kernel_puts_off_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
