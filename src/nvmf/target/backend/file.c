/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The backend of regular files and block devices.
 *
 * The file is locked (flock) while it is open, and a device is opened exclusively. So two targets
 * cannot write to the same bytes. Reads and writes go through the page cache.
 *
 * While the kernel's queue for a disk is full, the kernel blocks threads that submit requests to
 * the disk. So the target's thread makes no system call that may need the disk. io_uring's threads
 * in the kernel make them: reads of what is not in the page cache, durable writes, flushes and
 * fallocate. The kernel moves other writes to these threads by itself. The target's thread reads
 * what is in the page cache at once, but only if none of these threads is at work for the disk,
 * because the read may cause readahead.
 *
 * If a regular file has become shorter than its namespace, writes fail. Otherwise a write beyond
 * the new end would extend the file, and the lost data before that write would read as zeroes.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nvmf/target/backend/disk.h"
#include "nvmf/target/backend/object.h"
#include "nvmf/target/backend/ring.h"

/* The ways to write zeroes. If the file system does not support a way, try the next one. */
enum zero_way { ZERO_BY_RANGE, ZERO_BY_HOLE, ZERO_BY_WRITING };

/* The number of cachestat(2), the same on every processor; below, its two structures. */
enum { SYS_CACHESTAT = 451 };

struct cache_range {
	uint64_t offset_bytes, length_bytes;
};

/* Numbers of pages. */
struct cache_counts {
	uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

struct file {
	struct backend backend;
	int fd;
	bool is_device;
	struct ring_file ring;
	atomic_uint zero_way;
	/* The file system does not support reads of the page cache only (RWF_NOWAIT). */
	atomic_bool reads_wait;
	/* A flush or an FUA write has failed. */
	atomic_bool has_lost_writes;
	/* A bit for each backend_status that was reported already. */
	atomic_uint reported;
	void (*report)(void *context, const char *sentence);
	void *report_context;
	char path[];
};

static const char zeroes[64 * 1024];

static struct file *file_of(struct backend *backend)
{
	return (struct file *)backend;
}

/* Whether the success of the request means that data is durable. */
static bool is_durable(const struct backend_request *request)
{
	return request->operation == BACKEND_FLUSH ||
		(request->operation == BACKEND_WRITE && request->is_fua);
}

static void request_report(struct file *file, enum backend_status status, int error)
{
	char sentence[BACKEND_SENTENCE_BYTES];

	if (!file->report || (atomic_fetch_or(&file->reported, 1U << status) & 1U << status))
		return;
	(void)snprintf(sentence, sizeof(sentence), "%s: %s%s%s", file->path,
		backend_status_sentence(status), error ? ": " : "", error ? strerror(error) : "");
	file->report(file->report_context, sentence);
}

static void step_zero(struct file *file, struct backend_request *request, struct file_step *step)
{
	enum zero_way way = atomic_load(&file->zero_way);
	uint64_t bytes = request->remaining_bytes;

	request->zero_way = (uint8_t)way;
	request->zeroes.iov_base = (void *)(uintptr_t)zeroes;
	request->zeroes.iov_len = bytes < sizeof(zeroes) ? bytes : sizeof(zeroes);
	step->call = way == ZERO_BY_WRITING ? FILE_WRITE : FILE_FALLOCATE;
	step->iov = &request->zeroes;
	step->iov_count = 1;
	step->has_thread = way != ZERO_BY_WRITING;
	if (way == ZERO_BY_RANGE)
		step->flags = FALLOC_FL_KEEP_SIZE | FALLOC_FL_ZERO_RANGE;
	else if (way == ZERO_BY_HOLE)
		step->flags = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE;
}

struct ring_file *file_ring(const struct backend_request *request)
{
	return &file_of(request->backend)->ring;
}

/*
 * Whether to read at once, with RWF_NOWAIT. Kernels without cachestat(2) start no I/O for such a
 * read. Kernels with it do, so ask them first whether all data is in the page cache.
 */
static bool may_read_at_once(const struct file *file, const struct backend_request *request)
{
	struct cache_range range = {request->position_bytes, request->remaining_bytes};
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t first = range.offset_bytes / page_bytes;
	uint64_t last = (range.offset_bytes + range.length_bytes - 1) / page_bytes;
	struct cache_counts counts = {0};

	if (request->has_missed || file->reads_wait || file->ring.disk->in_threads)
		return false;
	return syscall(SYS_CACHESTAT, file->fd, &range, &counts, 0) || counts.cached > last - first;
}

struct file_step file_step_next(struct backend_request *request)
{
	struct file *file = file_of(request->backend);
	struct file_step step = {
		.fd = file->fd,
		.has_thread = true,
		.iov = request->iov,
		.iov_count = request->iov_count,
		.offset_bytes = request->position_bytes,
		.length_bytes = request->remaining_bytes,
	};

	if (request->operation == BACKEND_FLUSH) {
		step.call = FILE_SYNC;
	} else if (request->operation == BACKEND_READ) {
		request->is_cached = may_read_at_once(file, request);
		step.call = FILE_READ;
		step.flags = request->is_cached ? RWF_NOWAIT : 0;
		step.has_thread = !request->is_cached;
	} else if (request->operation == BACKEND_WRITE) {
		step.call = FILE_WRITE;
		step.flags = request->is_fua ? RWF_DSYNC : 0;
		step.has_thread = request->is_fua;
	} else if (request->operation == BACKEND_DISCARD) {
		step.call = FILE_FALLOCATE;
		step.flags = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	} else {
		step_zero(file, request, &step);
	}
	return step;
}

/* `bytes` bytes of a transfer are done. Returns whether some bytes remain. */
static bool request_advance(struct backend_request *request, uint64_t bytes)
{
	assert(bytes <= request->remaining_bytes);
	request->position_bytes += bytes;
	request->remaining_bytes -= bytes;
	if (request->operation == BACKEND_WRITE_ZEROES)
		return request->remaining_bytes > 0;
	while (bytes) {
		uint64_t part = bytes < request->iov->iov_len ? bytes : request->iov->iov_len;

		request->iov->iov_base = (char *)request->iov->iov_base + part;
		request->iov->iov_len -= part;
		bytes -= part;
		if (!request->iov->iov_len) {
			request->iov++;
			request->iov_count--;
		}
	}
	return request->remaining_bytes > 0;
}

static enum backend_status status_of_error(const struct backend_request *request, int error)
{
	if (request->operation == BACKEND_READ)
		return BACKEND_READ_ERROR;
	if (error == ENOSPC || error == EDQUOT || error == EFBIG)
		return BACKEND_NO_SPACE;
	return BACKEND_WRITE_FAULT;
}

/* Returns true if the request is to be tried again, perhaps in another way. */
static bool step_failed(struct backend_request *request, int error, enum backend_status *ret_status)
{
	struct file *file = file_of(request->backend);

	if (request->is_cached && (error == EAGAIN || error == EOPNOTSUPP)) {
		request->has_missed = true;
		if (error == EOPNOTSUPP)
			file->reads_wait = true;
		return true;
	}
	if (error == EINTR || error == EAGAIN)
		return true;
	if (error == EOPNOTSUPP && request->operation == BACKEND_DISCARD) {
		*ret_status = BACKEND_OK;
		return false;
	}
	if (error == EOPNOTSUPP && request->operation == BACKEND_WRITE_ZEROES &&
		request->zero_way != ZERO_BY_WRITING) {
		unsigned way = request->zero_way;

		(void)atomic_compare_exchange_strong(&file->zero_way, &way, way + 1);
		return true;
	}
	*ret_status = status_of_error(request, error);
	if (is_durable(request))
		file->has_lost_writes = true;
	request_report(file, *ret_status, error);
	return false;
}

static bool transfer_ended(struct backend_request *request, enum backend_status *ret_status)
{
	*ret_status = request->operation == BACKEND_READ ? BACKEND_NOT_READY : BACKEND_WRITE_FAULT;
	request_report(file_of(request->backend), *ret_status, 0);
	return false;
}

bool file_step_done(
	struct backend_request *request, int64_t outcome, enum backend_status *ret_status)
{
	bool is_transfer = request->operation == BACKEND_READ ||
		request->operation == BACKEND_WRITE ||
		(request->operation == BACKEND_WRITE_ZEROES &&
			request->zero_way == ZERO_BY_WRITING);

	if (outcome < 0)
		return step_failed(request, (int)-outcome, ret_status);
	*ret_status = BACKEND_OK;
	if (is_transfer && outcome == 0)
		return transfer_ended(request, ret_status);
	return is_transfer && request_advance(request, (uint64_t)outcome);
}

/* Whether the request may write data. A Write Zeroes may, in the way ZERO_BY_WRITING. */
static bool writes_blocks(const struct backend_request *request)
{
	return request->operation == BACKEND_WRITE || request->operation == BACKEND_WRITE_ZEROES;
}

static bool has_shrunk(const struct file *file)
{
	struct stat status;

	return !file->is_device && fstat(file->fd, &status) == 0 &&
		(uint64_t)status.st_size < file->backend.size_bytes;
}

static void file_submit(
	struct backend *backend, struct backend_ring *ring, struct backend_request *request)
{
	struct file *file = file_of(backend);

	assert(ring);
	request->position_bytes = request->offset_bytes;
	request->remaining_bytes = request->length_bytes;
	request->is_cached = false;
	request->has_missed = false;
	if (is_durable(request) && file->has_lost_writes) {
		backend_finish(request, BACKEND_WRITE_FAULT);
	} else if (writes_blocks(request) && has_shrunk(file)) {
		request_report(file, BACKEND_NOT_READY, 0);
		backend_finish(request, BACKEND_NOT_READY);
	} else {
		backend_ring_start(ring, request);
	}
}

static int file_size(int fd, bool is_device, uint64_t *ret_bytes)
{
	struct stat status;

	if (is_device)
		return ioctl(fd, BLKGETSIZE64, ret_bytes) ? -errno : 0;
	if (fstat(fd, &status))
		return -errno;
	*ret_bytes = (uint64_t)status.st_size;
	return 0;
}

/* Set the size of the backend; a `size_bytes` of 0 means the whole file. */
static int take_size(struct file *file, uint64_t size_bytes, char *sentence)
{
	uint64_t actual_bytes = 0;
	int error = file_size(file->fd, file->is_device, &actual_bytes);

	if (error)
		return backend_refuse(sentence, -error, "%s: its size cannot be read: %s",
			file->path, strerror(-error));
	if (size_bytes > actual_bytes)
		return backend_refuse(sentence, EINVAL,
			"%s: has %llu bytes, fewer than the %llu of the namespace", file->path,
			(unsigned long long)actual_bytes, (unsigned long long)size_bytes);
	if (!size_bytes)
		size_bytes = actual_bytes;
	size_bytes -= size_bytes % file->backend.block_bytes;
	if (!size_bytes)
		return backend_refuse(sentence, EINVAL,
			"%s: is shorter than one block; give it its size with truncate -s SIZE",
			file->path);
	file->backend.size_bytes = size_bytes;
	return 0;
}

static int file_resize(struct backend *backend, uint64_t size_bytes, char *sentence)
{
	struct file *file = file_of(backend);
	int error = take_size(file, size_bytes, sentence);

	if (!error)
		file->reported = 0;
	return error;
}

static void close_file(struct backend *backend)
{
	struct file *file = file_of(backend);

	(void)close(file->fd);
	ring_file_done(&file->ring);
	free(file);
}

static const struct backend_kind file_kind = {file_submit, file_resize, close_file};

static int take_block_size(struct file *file, uint32_t block_bytes, char *sentence)
{
	int device_bytes = BACKEND_BLOCK_BYTES_MIN;

	if (file->is_device && ioctl(file->fd, BLKSSZGET, &device_bytes))
		return backend_refuse(sentence, errno, "%s: its block size cannot be read: %s",
			file->path, strerror(errno));
	if (block_bytes && block_bytes < (uint32_t)device_bytes)
		return backend_refuse(sentence, EINVAL,
			"%s: has blocks of %d bytes, larger than the %u of the namespace",
			file->path, device_bytes, block_bytes);
	file->backend.block_bytes = block_bytes ? block_bytes : (uint32_t)device_bytes;
	return 0;
}

static int refuse_open(const char *path, int error, char *sentence)
{
	if (error == ENOENT)
		return backend_refuse(sentence, error,
			"%s: no such file; create it with truncate -s SIZE %s", path, path);
	if (error == EBUSY)
		return backend_refuse(sentence, error,
			"%s: is in use; unmount it, or stop the program that uses it", path);
	return backend_refuse(sentence, error, "%s: cannot be opened: %s", path, strerror(error));
}

/* Get the disk from the open file, because its name may mean another file by now. */
static int take_disk(struct file *file, char *sentence)
{
	struct stat status;

	if (fstat(file->fd, &status))
		return refuse_open(file->path, errno, sentence);
	if (ring_file_init(&file->ring, disk_number(&status)))
		return backend_refuse(sentence, ENOMEM, "no memory for a namespace");
	return 0;
}

/* Check the type of the file before opening it, because opening a pipe or a terminal may block. */
static int open_file(struct file *file, char *sentence)
{
	struct stat status;
	int flags = (file->backend.is_read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC;

	if (stat(file->path, &status))
		return refuse_open(file->path, errno, sentence);
	if (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode))
		return backend_refuse(sentence, EINVAL,
			"%s: is neither a regular file nor a block device", file->path);
	file->is_device = S_ISBLK(status.st_mode);
	file->fd = open(file->path, flags | (file->is_device ? O_EXCL : 0));
	if (file->fd < 0)
		return refuse_open(file->path, errno, sentence);
	if (flock(file->fd, (file->backend.is_read_only ? LOCK_SH : LOCK_EX) | LOCK_NB)) {
		int error = errno == EWOULDBLOCK ? EBUSY : errno;

		(void)close(file->fd);
		return refuse_open(file->path, error, sentence);
	}
	return 0;
}

int backend_file_open(
	const struct backend_settings *settings, struct backend **ret_backend, char *sentence)
{
	size_t path_bytes = strlen(settings->path) + 1;
	struct file *file = calloc(1, sizeof(*file) + path_bytes);
	int error;

	if (!file)
		return backend_refuse(sentence, ENOMEM, "no memory for a namespace");
	memcpy(file->path, settings->path, path_bytes);
	file->backend.kind = &file_kind;
	file->backend.is_read_only = settings->is_read_only;
	file->report = settings->report;
	file->report_context = settings->report_context;
	error = open_file(file, sentence);
	if (error)
		goto fail_free;
	error = take_block_size(file, settings->block_bytes, sentence);
	if (!error)
		error = take_size(file, settings->size_bytes, sentence);
	if (!error)
		error = take_disk(file, sentence);
	if (error)
		goto fail_close;
	*ret_backend = &file->backend;
	return 0;
fail_close:
	(void)close(file->fd);
fail_free:
	free(file);
	return error;
}
