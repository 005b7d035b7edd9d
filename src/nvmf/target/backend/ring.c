/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf/target/backend/ring.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdlib.h>
#include <unistd.h>

#include "nvmf/target/backend/object.h"

struct backend_ring {
	bool has_uring;
	struct io_uring uring;
	/* The number of system calls that io_uring is executing; at most `entries`. */
	unsigned in_flight;
	unsigned entries;
	/* struct ring_file with requests that wait for room in io_uring. */
	struct list files;
	struct list disks;
};

int ring_file_init(struct ring_file *file, dev_t disk)
{
	file->disk = calloc(1, sizeof(*file->disk));
	if (!file->disk)
		return -ENOMEM;
	list_init(&file->disk->node);
	file->disk->number = disk;
	file->disk->files = 1;
	list_init(&file->node);
	file->waiting_end = &file->waiting;
	return 0;
}

static void disk_release(struct ring_disk *disk)
{
	if (--disk->files)
		return;
	list_remove(&disk->node);
	free(disk);
}

void ring_file_done(struct ring_file *file)
{
	if (file->disk)
		disk_release(file->disk);
}

/* Let the file share one struct ring_disk with the ring's other files on the same disk. */
static void disk_join(struct backend_ring *ring, struct ring_file *file)
{
	if (list_is_linked(&file->disk->node))
		return;
	list_for_each(disk, &ring->disks, struct ring_disk, node) {
		if (disk->number != file->disk->number)
			continue;
		disk_release(file->disk);
		disk->files++;
		file->disk = disk;
		return;
	}
	list_append(&ring->disks, &file->disk->node);
}

/*
 * Allow the kernel a thread for each entry. A system call that blocks needs a thread of the kernel.
 * By default there are up to four for each processor, and a disk that hangs would take all of them.
 */
static void threads_allow(struct backend_ring *ring)
{
	/* [0] is the limit of threads for calls on files. The 0 in [1] keeps the other limit. */
	unsigned most[2] = {ring->entries};

	(void)io_uring_register_iowq_max_workers(&ring->uring, most);
}

int backend_ring_create(unsigned entries, bool allow_uring, struct backend_ring **ret_ring)
{
	struct backend_ring *ring = calloc(1, sizeof(*ring));

	assert(entries > 0);
	if (!ring)
		return -ENOMEM;
	ring->entries = entries;
	list_init(&ring->files);
	list_init(&ring->disks);
	ring->has_uring = allow_uring && io_uring_queue_init(entries, &ring->uring, 0) == 0;
	if (ring->has_uring)
		threads_allow(ring);
	*ret_ring = ring;
	return 0;
}

void backend_ring_destroy(struct backend_ring *ring)
{
	if (!ring)
		return;
	assert(!ring->in_flight && list_is_empty(&ring->files));
	list_for_each_safe(disk, &ring->disks, struct ring_disk, node)
		list_remove(&disk->node);
	if (ring->has_uring)
		io_uring_queue_exit(&ring->uring);
	free(ring);
}

int backend_ring_fd(const struct backend_ring *ring)
{
	return ring->has_uring ? ring->uring.ring_fd : -1;
}

static void sqe_prepare(struct io_uring_sqe *sqe, const struct file_step *step)
{
	switch (step->call) {
	case FILE_READ:
		io_uring_prep_readv2(
			sqe, step->fd, step->iov, step->iov_count, step->offset_bytes, step->flags);
		return;
	case FILE_WRITE:
		io_uring_prep_writev2(
			sqe, step->fd, step->iov, step->iov_count, step->offset_bytes, step->flags);
		return;
	case FILE_FALLOCATE:
		io_uring_prep_fallocate(sqe, step->fd, step->flags, (off_t)step->offset_bytes,
			(off_t)step->length_bytes);
		return;
	case FILE_SYNC:
		io_uring_prep_fsync(sqe, step->fd, IORING_FSYNC_DATASYNC);
		return;
	}
}

static int64_t call_at_once(const struct file_step *step)
{
	off_t offset = (off_t)step->offset_bytes;
	ssize_t outcome = -1;

	switch (step->call) {
	case FILE_READ:
		outcome = preadv(step->fd, step->iov, (int)step->iov_count, offset);
		break;
	case FILE_WRITE:
		outcome = pwritev2(step->fd, step->iov, (int)step->iov_count, offset, step->flags);
		break;
	case FILE_FALLOCATE:
		outcome = fallocate(step->fd, step->flags, offset, (off_t)step->length_bytes);
		break;
	case FILE_SYNC:
		outcome = fdatasync(step->fd);
		break;
	}
	return outcome < 0 ? -errno : outcome;
}

static void do_at_once(struct backend_request *request)
{
	enum backend_status status = BACKEND_OK;
	struct file_step step;

	do
		step = file_step_next(request);
	while (file_step_done(request, call_at_once(&step), &status));
	backend_finish(request, status);
}

static void wait_for_place(struct backend_ring *ring, struct backend_request *request)
{
	struct ring_file *file = file_ring(request);

	request->next = NULL;
	*file->waiting_end = request;
	file->waiting_end = &request->next;
	if (!list_is_linked(&file->node))
		list_append(&ring->files, &file->node);
}

/*
 * The ring starts a system call only while its disk has fewer pending calls than there are free
 * entries, and its file fewer than the difference of these two numbers. So a file that is alone
 * gets a third of the entries. Up to nine disks whose calls hang do not stop the others, nor do a
 * few files that hang stop the others of their disk.
 */
static bool has_share(const struct backend_ring *ring, const struct ring_file *file)
{
	unsigned left = ring->entries - ring->in_flight;
	unsigned of_disk = file->disk->in_flight;

	return of_disk < left && file->in_flight < left - of_disk;
}

/* Start the oldest request of the file. Returns false if io_uring has no room for it. */
static bool start_step(struct backend_ring *ring, struct ring_file *file)
{
	struct backend_request *request = file->waiting;
	struct io_uring_sqe *sqe = has_share(ring, file) ? io_uring_get_sqe(&ring->uring) : NULL;
	struct file_step step;

	if (!sqe)
		return false;
	file->waiting = request->next;
	if (!file->waiting)
		file->waiting_end = &file->waiting;
	step = file_step_next(request);
	sqe_prepare(sqe, &step);
	if (step.has_thread)
		io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
	io_uring_sqe_set_data(sqe, request);
	file->in_flight++;
	request->has_thread = step.has_thread;
	file->disk->in_threads += request->has_thread;
	file->disk->in_flight++;
	ring->in_flight++;
	return true;
}

static void start_waiting(struct backend_ring *ring)
{
	list_for_each_safe(file, &ring->files, struct ring_file, node) {
		while (file->waiting && start_step(ring, file))
			;
		if (!file->waiting)
			list_remove(&file->node);
	}
}

void backend_ring_start(struct backend_ring *ring, struct backend_request *request)
{
	if (!ring->has_uring) {
		do_at_once(request);
		return;
	}
	disk_join(ring, file_ring(request));
	wait_for_place(ring, request);
	start_waiting(ring);
}

/* Returns whether the request is done. Its `done` may submit further requests. */
static bool take_completion(struct backend_ring *ring, struct io_uring_cqe *cqe)
{
	struct backend_request *request = io_uring_cqe_get_data(cqe);
	struct ring_file *file = file_ring(request);
	int64_t outcome = cqe->res;
	enum backend_status status = BACKEND_OK;

	io_uring_cqe_seen(&ring->uring, cqe);
	ring->in_flight--;
	file->disk->in_flight--;
	file->disk->in_threads -= request->has_thread;
	file->in_flight--;
	/* The files take turns: this file's next request waits behind those of other files. */
	if (list_is_linked(&file->node)) {
		list_remove(&file->node);
		list_append(&ring->files, &file->node);
	}
	if (file_step_done(request, outcome, &status)) {
		wait_for_place(ring, request);
		return false;
	}
	backend_finish(request, status);
	return true;
}

static void submit_prepared(struct backend_ring *ring)
{
	int count = 1;

	start_waiting(ring);
	while (io_uring_sq_ready(&ring->uring) && (count > 0 || count == -EINTR))
		count = io_uring_submit(&ring->uring);
}

unsigned backend_ring_poll(struct backend_ring *ring)
{
	unsigned finished = 0;
	struct io_uring_cqe *cqe;

	if (!ring->has_uring)
		return 0;
	submit_prepared(ring);
	/* Requests for data in the page cache have finished within io_uring_submit(). */
	for (unsigned i = 0; i < ring->entries && !io_uring_peek_cqe(&ring->uring, &cqe); i++) {
		finished += take_completion(ring, cqe);
		submit_prepared(ring);
	}
	return finished;
}

bool backend_ring_is_put_off(const struct backend_ring *ring)
{
	return ring->has_uring && io_uring_sq_ready(&ring->uring) > 0;
}
