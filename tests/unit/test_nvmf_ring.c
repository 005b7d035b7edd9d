/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the system calls of several files and disks share io_uring, and which of them may block.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <liburing.h>
#include <sys/stat.h>

#include "support/nvmf_backend.h"

/* Flushes wait until a byte for each is in the pipe; 0: there is none. */
static int hanging_pipe;
static char pipe_byte;

static void flush_hold(struct io_uring_sqe *sqe)
{
	uint64_t user_data = sqe->user_data;

	if (sqe->opcode != IORING_OP_FSYNC)
		return;
	io_uring_prep_read(sqe, hanging_pipe, &pipe_byte, 1, 0);
	sqe->rw_flags = 0; /* newer releases of liburing leave the flush's flags there */
	io_uring_sqe_set_data64(sqe, user_data);
}

/* Of the calls that io_uring got. */
static unsigned nowait_reads, thread_reads, inline_reads, thread_writes, inline_writes;

static void call_count(const struct io_uring_sqe *sqe)
{
	bool has_thread = sqe->flags & IOSQE_ASYNC;

	if (sqe->opcode == IORING_OP_WRITEV) {
		thread_writes += has_thread;
		inline_writes += !has_thread;
	} else if (sqe->opcode == IORING_OP_READV) {
		thread_reads += has_thread;
		nowait_reads += !has_thread && sqe->rw_flags & RWF_NOWAIT;
		inline_reads += !has_thread && !(sqe->rw_flags & RWF_NOWAIT);
	}
}

/* It hides that of liburing from the backend. */
int io_uring_submit(struct io_uring *uring)
{
	static int (*submit)(struct io_uring * uring);

	for (unsigned i = uring->sq.sqe_head; i != uring->sq.sqe_tail; i++) {
		struct io_uring_sqe *sqe = &uring->sq.sqes[i & *uring->sq.kring_mask];

		call_count(sqe);
		if (hanging_pipe)
			flush_hold(sqe);
	}
	if (!submit)
		submit = (int (*)(struct io_uring *))dlsym(RTLD_NEXT, "io_uring_submit");
	return submit(uring);
}

/* More flushes of a disk that hangs than the ring has entries leave room for another file. */
static void disk_that_hangs_stops_no_other_file(void **state)
{
	enum { ENTRIES = 8, FLUSHES = 16 };
	static struct pending flushes[FLUSHES], writing;
	char first[sizeof(path)], block[BLOCK_BYTES] = {0};
	struct backend *hanging, *other;
	struct backend_ring *ring;
	int ends[2];

	(void)state;
	assert_int_equal(backend_ring_create(ENTRIES, true, &ring), 0);
	if (backend_ring_fd(ring) < 0)
		skip();
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	make_file(SIZE_BYTES);
	memcpy(first, path, sizeof(path));
	assert_int_equal(
		backend_open(&(struct backend_settings){.path = first}, &hanging, sentence), 0);
	make_file(SIZE_BYTES);
	assert_int_equal(
		backend_open(&(struct backend_settings){.path = path}, &other, sentence), 0);
	hanging_pipe = ends[0];
	for (size_t i = 0; i < FLUSHES; i++)
		start(ring, hanging, &flushes[i], BACKEND_FLUSH, 0, NULL, 0);
	(void)backend_ring_poll(ring);
	for (unsigned i = 0; i < 3; i++) {
		start(ring, other, &writing, BACKEND_WRITE, 512 * i, block, 512);
		finish(ring, &writing);
		assert_int_equal(writing.status, BACKEND_OK);
	}
	for (size_t i = 0; i < FLUSHES; i++)
		assert_false(flushes[i].is_done);
	assert_int_equal(write(ends[1], path, FLUSHES), FLUSHES);
	for (size_t i = 0; i < FLUSHES; i++) {
		finish(ring, &flushes[i]);
		assert_int_equal(flushes[i].status, BACKEND_OK);
	}
	hanging_pipe = 0;
	backend_close(hanging);
	backend_close(other);
	backend_ring_destroy(ring);
	close(ends[0]);
	close(ends[1]);
	unlink(first);
	unlink(path);
}

/* A file that hangs leaves one entry, which two files with waiting requests take in turns. */
static void files_take_turns_at_the_last_entry(void **state)
{
	enum { ENTRIES = 8, HANGING = 1, FLUSHES = 8, WRITES = 8 };
	static struct pending flushes[HANGING][FLUSHES], writes[WRITES], other;
	char paths[HANGING + 2][sizeof(path)], block[BLOCK_BYTES] = {0};
	struct backend *backends[HANGING + 2];
	struct backend_ring *ring;
	int ends[2];

	(void)state;
	assert_int_equal(backend_ring_create(ENTRIES, true, &ring), 0);
	if (backend_ring_fd(ring) < 0)
		skip();
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	for (size_t i = 0; i < HANGING + 2; i++) {
		make_file(SIZE_BYTES);
		memcpy(paths[i], path, sizeof(path));
		assert_int_equal(backend_open(&(struct backend_settings){.path = paths[i]},
					 &backends[i], sentence),
			0);
	}
	hanging_pipe = ends[0];
	for (size_t i = 0; i < HANGING; i++)
		for (size_t k = 0; k < FLUSHES; k++)
			start(ring, backends[i], &flushes[i][k], BACKEND_FLUSH, 0, NULL, 0);
	for (size_t k = 0; k < WRITES; k++)
		start(ring, backends[HANGING], &writes[k], BACKEND_WRITE, 512 * k, block, 512);
	start(ring, backends[HANGING + 1], &other, BACKEND_WRITE, 0, block, 512);
	finish(ring, &other);
	assert_false(writes[WRITES - 1].is_done);
	finish(ring, &writes[WRITES - 1]);
	assert_int_equal(write(ends[1], path, HANGING * FLUSHES), HANGING * FLUSHES);
	for (size_t i = 0; i < HANGING; i++)
		finish(ring, &flushes[i][FLUSHES - 1]);
	hanging_pipe = 0;
	for (size_t i = 0; i < HANGING + 2; i++) {
		backend_close(backends[i]);
		unlink(paths[i]);
	}
	backend_ring_destroy(ring);
	close(ends[0]);
	close(ends[1]);
}

/* As many files of one disk hang as would take all entries, each with its share. */
static void disk_that_hangs_stops_no_other_disk(void **state)
{
	enum { ENTRIES = 16, HANGING = 8, FLUSHES = 16 };
	static struct pending flushes[HANGING][FLUSHES], writing;
	char paths[HANGING + 1][sizeof(path)], block[BLOCK_BYTES] = {0};
	struct backend *backends[HANGING + 1];
	struct backend_ring *ring;
	struct stat here, there;
	int ends[2];

	(void)state;
	if (stat("/tmp", &here) || stat("/dev/shm", &there) || here.st_dev == there.st_dev)
		skip();
	assert_int_equal(backend_ring_create(ENTRIES, true, &ring), 0);
	if (backend_ring_fd(ring) < 0)
		skip();
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	for (size_t i = 0; i < HANGING + 1; i++) {
		make_file_in(i < HANGING ? "/tmp" : "/dev/shm", SIZE_BYTES);
		memcpy(paths[i], path, sizeof(path));
		assert_int_equal(backend_open(&(struct backend_settings){.path = paths[i]},
					 &backends[i], sentence),
			0);
	}
	hanging_pipe = ends[0];
	for (size_t i = 0; i < HANGING; i++)
		for (size_t k = 0; k < FLUSHES; k++)
			start(ring, backends[i], &flushes[i][k], BACKEND_FLUSH, 0, NULL, 0);
	(void)backend_ring_poll(ring);
	start(ring, backends[HANGING], &writing, BACKEND_WRITE, 0, block, 512);
	finish(ring, &writing);
	assert_int_equal(write(ends[1], paths, HANGING * FLUSHES), HANGING * FLUSHES);
	for (size_t i = 0; i < HANGING; i++)
		finish(ring, &flushes[i][FLUSHES - 1]);
	hanging_pipe = 0;
	for (size_t i = 0; i < HANGING + 1; i++) {
		backend_close(backends[i]);
		unlink(paths[i]);
	}
	backend_ring_destroy(ring);
	close(ends[0]);
	close(ends[1]);
}

static void cache_drop(void)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fdatasync(fd), 0);
	assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	close(fd);
}

/*
 * The kernel may block the caller of io_uring_submit() while its queue for a disk is full. It reads
 * what is in the page cache at once; threads of the kernel read the rest, and make data durable.
 */
static void no_call_waits_for_a_disk_within_a_submission(void **state)
{
	enum { FILE_BYTES = 4 << 20, READ_BYTES = 65536 };
	static char written[READ_BYTES], bytes[READ_BYTES];
	struct pending writing = {.request.is_fua = true};
	struct backend_ring *ring;
	struct backend *backend;

	(void)state;
	assert_int_equal(backend_ring_create(8, true, &ring), 0);
	if (backend_ring_fd(ring) < 0)
		skip();
	make_file(FILE_BYTES);
	assert_int_equal(
		backend_open(&(struct backend_settings){.path = path}, &backend, sentence), 0);
	memset(written, 0x5a, sizeof(written));
	assert_int_equal(
		run(ring, backend, BACKEND_WRITE, 0, written, sizeof(written)), BACKEND_OK);
	inline_writes = thread_writes = 0;
	start(ring, backend, &writing, BACKEND_WRITE, FILE_BYTES / 2, written, sizeof(written));
	finish(ring, &writing);
	assert_int_equal(writing.status, BACKEND_OK);
	assert_int_equal(inline_writes, 0);
	assert_int_not_equal(thread_writes, 0);
	/* Every second read finds its data in the page cache. */
	for (int i = 0; i < 8; i++) {
		uint64_t offset = i % 4 < 2 ? FILE_BYTES / 2 : 0;

		if (i % 2 == 0)
			cache_drop();
		memset(bytes, 0, sizeof(bytes));
		assert_int_equal(
			run(ring, backend, BACKEND_READ, offset, bytes, sizeof(bytes)), BACKEND_OK);
		assert_memory_equal(bytes, written, sizeof(bytes));
	}
	assert_int_equal(inline_reads, 0);
	assert_int_not_equal(nowait_reads, 0);
	backend_close(backend);
	backend_ring_destroy(ring);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(disk_that_hangs_stops_no_other_file),
		cmocka_unit_test(files_take_turns_at_the_last_entry),
		cmocka_unit_test(disk_that_hangs_stops_no_other_disk),
		cmocka_unit_test(no_call_waits_for_a_disk_within_a_submission),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
