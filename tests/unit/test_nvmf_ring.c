/* SPDX-License-Identifier: BSD-2-Clause */
/* How the system calls of several files and disks share io_uring. */
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
	io_uring_sqe_set_data64(sqe, user_data);
}

/* It hides that of liburing from the backend. */
int io_uring_submit(struct io_uring *uring)
{
	static int (*submit)(struct io_uring * uring);

	for (unsigned i = uring->sq.sqe_head; hanging_pipe && i != uring->sq.sqe_tail; i++)
		flush_hold(&uring->sq.sqes[i & *uring->sq.kring_mask]);
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
	strcpy(first, path);
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
		strcpy(paths[i], path);
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
		strcpy(paths[i], path);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(disk_that_hangs_stops_no_other_file),
		cmocka_unit_test(files_take_turns_at_the_last_entry),
		cmocka_unit_test(disk_that_hangs_stops_no_other_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
