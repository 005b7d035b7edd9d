/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/nvmf_backend.h"

/* How many calls of io_uring_submit() fail, and with what. */
static int refusals, refusal;

/* It hides that of liburing from the backend. */
int io_uring_submit(struct io_uring *uring)
{
	static int (*submit)(struct io_uring * uring);

	if (refusals && refusals--)
		return refusal;
	if (!submit)
		submit = (int (*)(struct io_uring *))dlsym(RTLD_NEXT, "io_uring_submit");
	return submit(uring);
}

static bool has_no_fallocate, has_no_mremap;

int fallocate(int fd, int mode, off_t offset, off_t length)
{
	if (has_no_fallocate) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return (int)syscall(SYS_fallocate, fd, mode, offset, length);
}

void *mremap(void *bytes, size_t from, size_t to, int flags, ...)
{
	if (has_no_mremap) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mremap, bytes, from, to, flags);
}

static void random_requests_agree_with_a_model(struct backend_ring *ring, struct backend *backend)
{
	static char model[SIZE_BYTES], buffer[SIZE_BYTES];
	unsigned short seed[3] = {1, 2, 3};

	memset(model, 0, sizeof(model));
	for (unsigned i = 0; i < 3000; i++) {
		uint64_t first = (uint64_t)nrand48(seed) % BLOCK_COUNT;
		uint64_t count = 1 + (uint64_t)nrand48(seed) % (BLOCK_COUNT - first);
		uint64_t offset = first * BLOCK_BYTES, length = count * BLOCK_BYTES;
		struct pending pending = {.request.is_fua = nrand48(seed) % 50 == 0};
		unsigned kind = (unsigned)nrand48(seed) % 8;

		memset(buffer, (int)(nrand48(seed) & 0xff), length);
		if (kind < 3) {
			start(ring, backend, &pending, BACKEND_WRITE, offset, buffer, length);
			memcpy(model + offset, buffer, length);
		} else if (kind < 5) {
			start(ring, backend, &pending, BACKEND_WRITE_ZEROES, offset, NULL, length);
			memset(model + offset, 0, length);
		} else if (kind == 5 && i % 20 == 0) {
			start(ring, backend, &pending, BACKEND_FLUSH, 0, NULL, 0);
		} else {
			start(ring, backend, &pending, BACKEND_READ, offset, buffer, length);
		}
		finish(ring, &pending);
		assert_int_equal(pending.status, BACKEND_OK);
		if (pending.request.operation == BACKEND_READ)
			assert_memory_equal(buffer, model + offset, length);
	}
	assert_int_equal(run(ring, backend, BACKEND_DISCARD, 0, NULL, SIZE_BYTES), BACKEND_OK);
	assert_int_equal(backend_pending(backend), 0);
}

static void memory_agrees_with_a_model(void **state)
{
	struct backend_settings settings = {.size_bytes = SIZE_BYTES};
	struct backend *backend;

	(void)state;
	assert_int_equal(backend_open(&settings, &backend, sentence), 0);
	assert_int_equal(backend_block_bytes(backend), 512);
	random_requests_agree_with_a_model(NULL, backend);
	backend_close(backend);
}

static void file_agrees_with_a_model(bool allow_uring)
{
	struct backend_ring *ring;
	struct backend *backend;

	make_file(SIZE_BYTES + 100);
	assert_int_equal(backend_ring_create(4, allow_uring, &ring), 0);
	assert_int_equal(
		backend_open(&(struct backend_settings){.path = path}, &backend, sentence), 0);
	assert_int_equal(backend_size_bytes(backend), SIZE_BYTES);
	random_requests_agree_with_a_model(ring, backend);
	backend_close(backend);
	backend_ring_destroy(ring);
	unlink(path);
}

static void file_by_io_uring_agrees_with_a_model(void **state)
{
	(void)state;
	file_agrees_with_a_model(true);
}

static void file_without_io_uring_agrees_with_a_model(void **state)
{
	(void)state;
	file_agrees_with_a_model(false);
}

static void null_reads_zeroes_and_forgets_writes(void **state)
{
	struct backend_settings settings = {
		.is_null = true, .size_bytes = 1ULL << 50, .block_bytes = 4096};
	static char buffer[8192], zeroes[8192];
	struct backend *backend;

	(void)state;
	assert_int_equal(backend_open(&settings, &backend, sentence), 0);
	memset(buffer, 7, sizeof(buffer));
	assert_int_equal(run(NULL, backend, BACKEND_WRITE, 4096, buffer, 8192), BACKEND_OK);
	assert_int_equal(run(NULL, backend, BACKEND_READ, 4096, buffer, 8192), BACKEND_OK);
	assert_memory_equal(buffer, zeroes, sizeof(zeroes));
	backend_close(backend);
}

static void more_requests_than_the_ring_has_places_all_finish(void **state)
{
	enum { COUNT = 64 };
	static struct pending pending[COUNT];
	static char buffers[COUNT][BLOCK_BYTES];
	struct backend_ring *ring;
	struct backend *backend;

	(void)state;
	make_file(SIZE_BYTES);
	assert_int_equal(backend_ring_create(4, true, &ring), 0);
	assert_int_equal(
		backend_open(&(struct backend_settings){.path = path}, &backend, sentence), 0);
	for (unsigned i = 0; i < COUNT; i++) {
		memset(buffers[i], (int)i + 1, BLOCK_BYTES);
		start(ring, backend, &pending[i], BACKEND_WRITE, i * BLOCK_BYTES, buffers[i],
			BLOCK_BYTES);
	}
	for (unsigned i = 0; i < COUNT; i++) {
		finish(ring, &pending[i]);
		assert_int_equal(pending[i].status, BACKEND_OK);
	}
	for (unsigned i = 0; i < COUNT; i++) {
		char buffer[BLOCK_BYTES];

		assert_int_equal(
			run(ring, backend, BACKEND_READ, i * BLOCK_BYTES, buffer, BLOCK_BYTES),
			BACKEND_OK);
		assert_memory_equal(buffer, buffers[i], BLOCK_BYTES);
	}
	backend_close(backend);
	backend_ring_destroy(ring);
	unlink(path);
}

/* Nothing is under way whose end would wake the caller: the ring has to say that it waits. */
static void request_that_the_kernel_puts_off_is_submitted_again(void **state)
{
	static const int errors[] = {-EAGAIN, -EBUSY, -EINTR, -ENOMEM};
	char block[BLOCK_BYTES] = {1};
	struct backend_ring *ring;
	struct backend *backend;

	(void)state;
	make_file(SIZE_BYTES);
	assert_int_equal(backend_ring_create(4, true, &ring), 0);
	if (backend_ring_fd(ring) < 0)
		skip();
	assert_int_equal(
		backend_open(&(struct backend_settings){.path = path}, &backend, sentence), 0);
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		struct pending pending = {0};

		refusal = errors[i];
		refusals = 3;
		start(ring, backend, &pending, BACKEND_WRITE, 0, block, BLOCK_BYTES);
		while (refusals) {
			(void)backend_ring_poll(ring);
			assert_true(backend_ring_is_put_off(ring) || !refusals);
		}
		finish(ring, &pending);
		assert_int_equal(pending.status, BACKEND_OK);
		assert_false(backend_ring_is_put_off(ring));
	}
	backend_close(backend);
	backend_ring_destroy(ring);
	unlink(path);
}

static void request_beyond_the_end_is_out_of_range(void **state)
{
	struct backend_settings settings = {.size_bytes = SIZE_BYTES};
	struct backend *backend;
	char block[2 * BLOCK_BYTES];

	(void)state;
	assert_int_equal(backend_open(&settings, &backend, sentence), 0);
	assert_int_equal(
		run(NULL, backend, BACKEND_READ, SIZE_BYTES, block, 512), BACKEND_OUT_OF_RANGE);
	assert_int_equal(run(NULL, backend, BACKEND_WRITE, SIZE_BYTES - 512, block, 1024),
		BACKEND_OUT_OF_RANGE);
	assert_int_equal(run(NULL, backend, BACKEND_DISCARD, UINT64_MAX - 511, NULL, 1024),
		BACKEND_OUT_OF_RANGE);
	assert_int_equal(backend_status_nvme(BACKEND_OUT_OF_RANGE), 0x80);
	backend_close(backend);
}

static void read_only_backend_refuses_what_writes(void **state)
{
	struct backend_settings settings = {.size_bytes = SIZE_BYTES, .is_read_only = true};
	struct backend *backend;
	char block[BLOCK_BYTES];

	(void)state;
	assert_int_equal(backend_open(&settings, &backend, sentence), 0);
	assert_int_equal(run(NULL, backend, BACKEND_WRITE, 0, block, 512), BACKEND_READ_ONLY);
	assert_int_equal(run(NULL, backend, BACKEND_DISCARD, 0, NULL, 512), BACKEND_READ_ONLY);
	assert_int_equal(run(NULL, backend, BACKEND_READ, 0, block, 512), BACKEND_OK);
	backend_close(backend);
}

static void memory_that_shrinks_and_grows_again_reads_zeroes(void **state)
{
	struct backend_settings settings = {.size_bytes = SIZE_BYTES};
	struct backend *backend;
	char block[BLOCK_BYTES], zeroes[BLOCK_BYTES] = {0};

	(void)state;
	assert_int_equal(backend_open(&settings, &backend, sentence), 0);
	memset(block, 1, sizeof(block));
	assert_int_equal(
		run(NULL, backend, BACKEND_WRITE, SIZE_BYTES - 512, block, 512), BACKEND_OK);
	assert_int_equal(backend_resize(backend, SIZE_BYTES - 512, sentence), 0);
	assert_int_equal(run(NULL, backend, BACKEND_READ, SIZE_BYTES - 512, block, 512),
		BACKEND_OUT_OF_RANGE);
	assert_int_equal(backend_resize(backend, 4 * SIZE_BYTES, sentence), 0);
	assert_int_equal(
		run(NULL, backend, BACKEND_READ, SIZE_BYTES - 512, block, 512), BACKEND_OK);
	assert_memory_equal(block, zeroes, sizeof(zeroes));
	backend_close(backend);
}

static void memory_that_cannot_be_resized_keeps_its_blocks(void **state)
{
	struct backend_settings settings = {.size_bytes = SIZE_BYTES};
	struct backend *backend;
	char block[BLOCK_BYTES], same[BLOCK_BYTES];

	(void)state;
	assert_int_equal(backend_open(&settings, &backend, sentence), 0);
	memset(block, 1, sizeof(block));
	assert_int_equal(
		run(NULL, backend, BACKEND_WRITE, SIZE_BYTES - 512, block, 512), BACKEND_OK);
	has_no_mremap = true;
	assert_int_equal(backend_resize(backend, SIZE_BYTES - 512, sentence), -ENOMEM);
	has_no_mremap = false;
	assert_int_equal(backend_size_bytes(backend), SIZE_BYTES);
	assert_int_equal(run(NULL, backend, BACKEND_READ, SIZE_BYTES - 512, same, 512), BACKEND_OK);
	assert_memory_equal(block, same, sizeof(block));
	backend_close(backend);
}

static unsigned report_count;

static void count_report(void *context, const char *text)
{
	(void)context;
	assert_non_null(strstr(text, path));
	report_count++;
}

static void file_that_shrinks_refuses_requests_until_it_is_resized(void **state)
{
	struct backend_settings settings = {.path = path, .report = count_report};
	struct backend_ring *ring;
	struct backend *backend;
	struct stat status;
	char block[2 * BLOCK_BYTES] = {0};

	(void)state;
	make_file(SIZE_BYTES);
	assert_int_equal(backend_ring_create(4, true, &ring), 0);
	assert_int_equal(backend_open(&settings, &backend, sentence), 0);
	assert_int_equal(truncate(path, 700), 0);
	report_count = 0;
	assert_int_equal(run(ring, backend, BACKEND_READ, 512, block, 1024), BACKEND_NOT_READY);
	assert_int_equal(run(ring, backend, BACKEND_WRITE, 1024, block, 512), BACKEND_NOT_READY);
	assert_int_equal(
		run(ring, backend, BACKEND_WRITE_ZEROES, 1024, NULL, 512), BACKEND_NOT_READY);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_size, 700);
	assert_int_equal(report_count, 1);
	assert_int_equal(truncate(path, 1024), 0);
	assert_int_equal(backend_resize(backend, 0, sentence), 0);
	assert_int_equal(backend_size_bytes(backend), 1024);
	assert_int_equal(run(ring, backend, BACKEND_WRITE, 512, block, 512), BACKEND_OK);
	backend_close(backend);
	backend_ring_destroy(ring);
	unlink(path);
}

/* The file system has no fallocate(), so Write Zeroes is done by writing. */
static void written_zeroes_do_not_extend_a_file_that_has_shrunk(void **state)
{
	struct backend_ring *ring;
	struct backend *backend;
	struct stat status;

	(void)state;
	make_file(SIZE_BYTES);
	assert_int_equal(backend_ring_create(4, false, &ring), 0);
	assert_int_equal(
		backend_open(&(struct backend_settings){.path = path}, &backend, sentence), 0);
	has_no_fallocate = true;
	assert_int_equal(run(ring, backend, BACKEND_WRITE_ZEROES, 1024, NULL, 512), BACKEND_OK);
	assert_int_equal(truncate(path, 700), 0);
	assert_int_equal(
		run(ring, backend, BACKEND_WRITE_ZEROES, 1024, NULL, 512), BACKEND_NOT_READY);
	has_no_fallocate = false;
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_size, 700);
	backend_close(backend);
	backend_ring_destroy(ring);
	unlink(path);
}

static void full_disk_is_no_space_and_reported_once(void **state)
{
	struct backend_settings settings = {.path = path, .report = count_report};
	struct rlimit limit, less;
	struct backend_ring *ring;
	struct backend *backend;
	char block[BLOCK_BYTES] = {0};

	(void)state;
	make_file(SIZE_BYTES);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	less = limit;
	less.rlim_cur = 4096;
	assert_int_equal(backend_ring_create(4, true, &ring), 0);
	assert_int_equal(backend_open(&settings, &backend, sentence), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
	report_count = 0;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(
			run(ring, backend, BACKEND_WRITE, 8192, block, 512), BACKEND_NO_SPACE);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(report_count, 1);
	assert_int_equal(run(ring, backend, BACKEND_WRITE, 8192, block, 512), BACKEND_OK);
	backend_close(backend);
	backend_ring_destroy(ring);
	unlink(path);
}

/* A file system of 64 KiB of its own; false where the system does not allow one. */
static bool small_file_system(const char *directory)
{
	return unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
		mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		mount("none", directory, "tmpfs", 0, "size=65536") == 0;
}

static void full_file_system_is_no_space(void **state)
{
	static char directory[] = "/tmp/urnic-backend-XXXXXX";
	static char buffer[SIZE_BYTES];
	struct backend_ring *ring;
	struct backend *backend;

	(void)state;
	assert_non_null(mkdtemp(directory));
	if (!small_file_system(directory)) {
		rmdir(directory);
		skip();
	}
	(void)snprintf(path, sizeof(path), "%s/file", directory);
	assert_int_equal(mknod(path, S_IFREG | 0600, 0), 0);
	assert_int_equal(truncate(path, SIZE_BYTES), 0);
	assert_int_equal(backend_ring_create(4, true, &ring), 0);
	assert_int_equal(
		backend_open(&(struct backend_settings){.path = path}, &backend, sentence), 0);
	assert_int_equal(
		run(ring, backend, BACKEND_WRITE, 0, buffer, SIZE_BYTES), BACKEND_NO_SPACE);
	assert_int_equal(run(ring, backend, BACKEND_WRITE_ZEROES, 0, NULL, SIZE_BYTES), BACKEND_OK);
	assert_int_equal(run(ring, backend, BACKEND_FLUSH, 0, NULL, 0), BACKEND_OK);
	backend_close(backend);
	backend_ring_destroy(ring);
	assert_int_equal(umount2(directory, MNT_DETACH), 0);
	rmdir(directory);
}

static void refused(struct backend_settings settings, int error, const char *part)
{
	struct backend *backend = NULL;

	assert_int_equal(backend_open(&settings, &backend, sentence), -error);
	assert_null(backend);
	if (!strstr(sentence, part))
		fail_msg("no \"%s\" in: %s", part, sentence);
}

static void unusable_settings_are_refused_with_a_sentence(void **state)
{
	struct backend *backend;

	(void)state;
	make_file(1000);
	refused((struct backend_settings){.path = "/nowhere/at/all"}, ENOENT, "truncate -s");
	refused((struct backend_settings){.path = "/tmp"}, EINVAL, "neither a regular file");
	refused((struct backend_settings){.path = "/dev/null"}, EINVAL, "neither");
	refused((struct backend_settings){.path = path, .block_bytes = 1000}, EINVAL,
		"power of two");
	refused((struct backend_settings){.path = path, .block_bytes = 4096}, EINVAL,
		"shorter than one block");
	refused((struct backend_settings){.path = path, .size_bytes = 4096}, EINVAL,
		"fewer than the 4096");
	refused((struct backend_settings){.size_bytes = 100}, EINVAL, "less than a block");
	refused((struct backend_settings){.size_bytes = INT64_MAX}, ENOMEM, "no room");
	assert_int_equal(
		backend_open(&(struct backend_settings){.path = path}, &backend, sentence), 0);
	refused((struct backend_settings){.path = path}, EBUSY, "is in use");
	backend_close(backend);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_agrees_with_a_model),
		cmocka_unit_test(file_by_io_uring_agrees_with_a_model),
		cmocka_unit_test(file_without_io_uring_agrees_with_a_model),
		cmocka_unit_test(null_reads_zeroes_and_forgets_writes),
		cmocka_unit_test(more_requests_than_the_ring_has_places_all_finish),
		cmocka_unit_test(request_that_the_kernel_puts_off_is_submitted_again),
		cmocka_unit_test(request_beyond_the_end_is_out_of_range),
		cmocka_unit_test(read_only_backend_refuses_what_writes),
		cmocka_unit_test(memory_that_shrinks_and_grows_again_reads_zeroes),
		cmocka_unit_test(memory_that_cannot_be_resized_keeps_its_blocks),
		cmocka_unit_test(file_that_shrinks_refuses_requests_until_it_is_resized),
		cmocka_unit_test(written_zeroes_do_not_extend_a_file_that_has_shrunk),
		cmocka_unit_test(full_disk_is_no_space_and_reported_once),
		cmocka_unit_test(unusable_settings_are_refused_with_a_sentence),
		/* Last: it stays in its own mount namespace. */
		cmocka_unit_test(full_file_system_is_no_space),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
