/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data that the target has reported as durable is durable. The target has a namespace in a file.
 * The test records, delays and fails its system calls: the functions here replace those of the C
 * library and liburing.
 */
#include "support/nvmf_tcp_client.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <liburing.h>

enum { FUA = 1 << 30, IDLE_STEPS = 50, LOG_BYTES = 64 };

/* How system calls misbehave. */
static struct {
	bool is_forbidden; /* there is no io_uring: the target makes the calls itself */
	int refusals; /* calls of io_uring_submit() that fail for lack of memory */
	bool holds; /* what makes data durable ends when the test writes to `pipe` */
	int failures; /* calls that make data durable, and fail */
} fault;

static int pipe_ends[2];
static bool has_uring;
static unsigned held, held_bytes; /* calls that wait for the pipe, and what they read from it */
static unsigned durable; /* calls that made data durable, or failed to */
static char order[LOG_BYTES]; /* w: written, s: made durable, r: a response has left */
static uint8_t sink[IN_CAPSULE];

static void note(char event)
{
	size_t length = strlen(order);

	if (length + 1 < sizeof(order))
		order[length] = event;
}

#define NEXT(name, type) ((type)dlsym(RTLD_NEXT, name))

int io_uring_queue_init(unsigned entries, struct io_uring *uring, unsigned flags)
{
	typedef int (*function)(unsigned, struct io_uring *, unsigned);

	int outcome = fault.is_forbidden
		? -EPERM
		: NEXT("io_uring_queue_init", function)(entries, uring, flags);

	has_uring = outcome == 0;
	return outcome;
}

static bool is_durable(const struct io_uring_sqe *sqe)
{
	return sqe->opcode == IORING_OP_FSYNC ||
		(sqe->opcode == IORING_OP_WRITEV && sqe->rw_flags & RWF_DSYNC);
}

static void disturb(struct io_uring_sqe *sqe)
{
	uint64_t user_data = sqe->user_data;
	unsigned bytes = 1;

	if (!is_durable(sqe))
		return;
	durable++;
	if (fault.failures) {
		fault.failures--;
		sqe->fd = -1;
	} else if (fault.holds) {
		if (sqe->opcode == IORING_OP_WRITEV)
			bytes = (unsigned)((struct iovec *)(uintptr_t)sqe->addr)->iov_len;
		/* Newer versions of liburing leave the flags alone. */
		memset(sqe, 0, sizeof(*sqe));
		io_uring_prep_read(sqe, pipe_ends[0], sink, bytes, 0);
		io_uring_sqe_set_data64(sqe, user_data);
		held_bytes += bytes;
		held++;
	}
}

int io_uring_submit(struct io_uring *uring)
{
	typedef int (*function)(struct io_uring *);

	if (fault.refusals && fault.refusals--)
		return -EAGAIN;
	for (unsigned i = uring->sq.sqe_head; i != uring->sq.sqe_tail; i++)
		disturb(&uring->sq.sqes[i & *uring->sq.kring_mask]);
	return NEXT("io_uring_submit", function)(uring);
}

int fdatasync(int fd)
{
	typedef int (*function)(int);

	note('s');
	durable++;
	if (fault.failures) {
		fault.failures--;
		errno = EIO;
		return -1;
	}
	return NEXT("fdatasync", function)(fd);
}

ssize_t pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	typedef ssize_t (*function)(int, const struct iovec *, int, off_t, int);

	note(flags & RWF_DSYNC ? 's' : 'w');
	if (flags & RWF_DSYNC && fault.failures) {
		fault.failures--;
		errno = EIO;
		return -1;
	}
	return NEXT("pwritev2", function)(fd, iov, count, offset, flags);
}

int fallocate(int fd, int mode, off_t offset, off_t length)
{
	typedef int (*function)(int, int, off_t, off_t);

	note('w');
	return NEXT("fallocate", function)(fd, mode, offset, length);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	typedef ssize_t (*function)(int, const struct msghdr *, int);

	note('r');
	return NEXT("sendmsg", function)(fd, message, flags);
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
	held = held_bytes = durable = 0;
	assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
	strcpy(path, "/tmp/test_nvmf_durability.XXXXXX");
	file = mkstemp(path);
	assert_true(file >= 0);
	assert_int_equal(ftruncate(file, DISK_BYTES), 0);
	assert_int_equal(backend_open(&disk, &file_settings.backend, sentence), 0);
	assert_int_equal(target_namespace_add(subsystem, &file_settings, &file_ns), 0);
	client_io(&io, client_admin(&admin, SUBSYSTEM_NQN, 0), 0, 0);
	return 0;
}

static int begin_without_uring(void **state)
{
	fault.is_forbidden = true;
	return begin(state);
}

static int end(void **state)
{
	close(io.fd);
	client_close(&admin);
	memset(&fault, 0, sizeof(fault));
	teardown(state);
	close(pipe_ends[0]);
	close(pipe_ends[1]);
	close(file);
	unlink(path);
	return 0;
}

/* Of one block; `flags` of dword 12. */
static struct nvme_sqe sqe_of(uint8_t opcode, uint32_t flags)
{
	bool is_dsm = opcode == NVME_IO_DATASET_MANAGEMENT, is_copy = opcode == NVME_IO_COPY;
	uint32_t bytes = opcode == NVME_IO_WRITE ? 512 : is_dsm ? 16 : is_copy ? 32 : 0;
	struct nvme_sqe sqe = io_sqe(opcode, 0, 1, bytes);

	sqe.nsid = 2;
	sqe.cdw12 |= flags;
	sqe.cdw11 = is_dsm ? 4 : 0;
	if (bytes)
		sqe.sgl.type = NVME_SGL_IN_CAPSULE;
	return sqe;
}

/* Data of a command; for Dataset Management and Copy, ranges of block 0. */
static const uint8_t *body_of(const struct nvme_sqe *sqe)
{
	static uint8_t range[32];

	memset(range, 0, sizeof(range));
	if (sqe->opcode == NVME_IO_DATASET_MANAGEMENT)
		range[4] = 1;
	return sqe->opcode == NVME_IO_WRITE ? data : range;
}

static uint16_t run(struct nvme_sqe sqe)
{
	return client_command(&io, &sqe, body_of(&sqe), sqe.sgl.length).status;
}

static void set_write_cache(bool is_on)
{
	struct nvme_sqe sqe = {.opcode = NVME_ADMIN_SET_FEATURES,
		.cdw10 = FEATURE_WRITE_CACHE,
		.cdw11 = is_on,
		.sgl = {.type = NVME_SGL_TRANSPORT}};

	assert_int_equal(client_command(&admin, &sqe, NULL, 0).status, NVME_SUCCESS);
}

/* No request is under way whose end would wake the target. */
static void command_that_the_kernel_puts_off_ends(void **state)
{
	(void)state;
	if (!has_uring)
		skip();
	fault.refusals = 5;
	assert_int_equal(run(sqe_of(NVME_IO_WRITE, 0)), NVME_SUCCESS);
	assert_int_equal(fault.refusals, 0);
}

static const struct {
	uint8_t opcode;
	uint32_t flags;
	bool has_write_cache;
	bool is_durable;
	const char *order; /* of calls, when the target makes them itself */
} rows[] = {
	{NVME_IO_FLUSH, 0, true, true, "sr"},
	{NVME_IO_FLUSH, 0, false, true, "sr"},
	{NVME_IO_WRITE, 0, true, false, "wr"},
	{NVME_IO_WRITE, FUA, true, true, "sr"},
	{NVME_IO_WRITE, 0, false, true, "sr"},
	{NVME_IO_WRITE_ZEROES, 0, true, false, "wr"},
	{NVME_IO_WRITE_ZEROES, FUA, true, true, "wsr"},
	{NVME_IO_WRITE_ZEROES, 0, false, true, "wsr"},
	{NVME_IO_COPY, 0, true, false, "wr"},
	{NVME_IO_COPY, FUA, true, true, "sr"},
	{NVME_IO_COPY, 0, false, true, "sr"},
	{NVME_IO_DATASET_MANAGEMENT, 0, true, false, "wr"},
	{NVME_IO_DATASET_MANAGEMENT, 0, false, true, "wsr"},
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* By io_uring: no response leaves while the call that makes the data durable is under way. */
static void response_waits_until_the_data_is_durable(void **state)
{
	(void)state;
	if (!has_uring)
		skip();
	for (size_t i = 0; i < ROWS; i++) {
		struct nvme_sqe sqe = sqe_of(rows[i].opcode, rows[i].flags);
		ssize_t bytes;

		set_write_cache(rows[i].has_write_cache);
		fault.holds = true;
		held = held_bytes = 0;
		client_capsule(&io, &sqe, body_of(&sqe), sqe.sgl.length);
		for (int j = 0; rows[i].is_durable && j < IDLE_STEPS; j++)
			loop_step(loop, 1000000);
		if ((held > 0) != rows[i].is_durable)
			fail_msg("row %zu: %u calls for durability", i, held);
		bytes = recv(io.fd, received, 1, MSG_PEEK | MSG_DONTWAIT);
		if (rows[i].is_durable && bytes >= 0)
			fail_msg("row %zu: the response has left early", i);
		fault.holds = false;
		assert_int_equal(write(pipe_ends[1], data, held_bytes), held_bytes);
		assert_true(client_receive(&io, received));
		assert_int_equal(nvme_cqe_decode(io.rx.pdu.cqe).status, NVME_SUCCESS);
	}
}

static void calls_of_a_target_without_io_uring_have_their_order(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS; i++) {
		set_write_cache(rows[i].has_write_cache);
		memset(order, 0, sizeof(order));
		assert_int_equal(run(sqe_of(rows[i].opcode, rows[i].flags)), NVME_SUCCESS);
		if (strcmp(order, rows[i].order) != 0)
			fail_msg("row %zu: %s", i, order);
	}
}

/* A call fails once: the kernel has forgotten the error, and perhaps the data. */
static void failed_sync_is_never_forgotten(void **state)
{
	(void)state;
	assert_int_equal(run(sqe_of(NVME_IO_WRITE, 0)), NVME_SUCCESS);
	fault.failures = 1;
	assert_int_equal(run(sqe_of(NVME_IO_FLUSH, 0)), NVME_WRITE_FAULT);
	assert_int_equal(fault.failures, 0);
	durable = 0;
	assert_int_equal(run(sqe_of(NVME_IO_FLUSH, 0)), NVME_WRITE_FAULT);
	assert_int_equal(run(sqe_of(NVME_IO_WRITE, FUA)), NVME_WRITE_FAULT);
	assert_int_equal(run(sqe_of(NVME_IO_WRITE_ZEROES, FUA)), NVME_WRITE_FAULT);
	assert_int_equal(run(sqe_of(NVME_IO_COPY, FUA)), NVME_WRITE_FAULT);
	set_write_cache(false);
	assert_int_equal(run(sqe_of(NVME_IO_WRITE, 0)), NVME_WRITE_FAULT);
	assert_int_equal(run(sqe_of(NVME_IO_DATASET_MANAGEMENT, 0)), NVME_WRITE_FAULT);
	assert_int_equal(durable, 0);
	/* Nothing was promised of these. */
	set_write_cache(true);
	assert_int_equal(run(sqe_of(NVME_IO_WRITE, 0)), NVME_SUCCESS);
}

/* It may have reported the error of another write, and no later call does. */
static void failed_durable_write_is_never_forgotten(void **state)
{
	(void)state;
	fault.failures = 1;
	assert_int_equal(run(sqe_of(NVME_IO_WRITE, FUA)), NVME_WRITE_FAULT);
	assert_int_equal(fault.failures, 0);
	assert_int_equal(run(sqe_of(NVME_IO_FLUSH, 0)), NVME_WRITE_FAULT);
	assert_int_equal(run(sqe_of(NVME_IO_WRITE, FUA)), NVME_WRITE_FAULT);
}

int main(void)
{
#define TEST(name)               cmocka_unit_test_setup_teardown(name, begin, end)
#define TEST_WITHOUT_URING(name) cmocka_unit_test_setup_teardown(name, begin_without_uring, end)
	const struct CMUnitTest tests[] = {
		TEST(command_that_the_kernel_puts_off_ends),
		TEST(response_waits_until_the_data_is_durable),
		TEST_WITHOUT_URING(calls_of_a_target_without_io_uring_have_their_order),
		TEST(failed_sync_is_never_forgotten),
		TEST_WITHOUT_URING(failed_sync_is_never_forgotten),
		TEST(failed_durable_write_is_never_forgotten),
		TEST_WITHOUT_URING(failed_durable_write_is_never_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
