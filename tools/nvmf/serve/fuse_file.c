/* SPDX-License-Identifier: BSD-2-Clause */
#define FUSE_USE_VERSION 314

#include "nvmf/serve/fuse_file.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nvmf/host/block/block_merge.h"
#include "nvmf/nvmf.h"

enum { PAGE_BYTES = 4096, IO_BYTES_MAX = 1 << 20 };

struct fuse_file {
	struct loop *loop;
	struct block_device *device;
	struct block_merger merger;
	struct fuse_session *session;
	struct fuse_buf buffer;
	struct loop_watch watch;
	struct loop_watch helper; /* on a pidfd of fusermount3, the process `helper_pid` */
	pid_t helper_pid;
	char *path;
	void (*unmounted)(void *context);
	void *context;
	bool is_unmounted;
	bool is_created; /* fuse_file_create() made the empty file at `path` */
};

/*
 * A request of the kernel. The device gets whole blocks only. Writes and zeroes go through the
 * merger, because the kernel has several of them pending: dirty pages of a mapping, and direct I/O.
 */
struct fuse_io {
	struct fuse_file *file;
	fuse_req_t request;
	struct block_request block; /* a read or a flush */
	struct block_change change; /* a write or zeroes */
	size_t bytes; /* the length of the kernel's request */
	size_t skip_bytes; /* a read: from the start of the first block to the first byte */
	uint8_t data[];
};

static struct stat file_attributes(const struct fuse_file *file)
{
	struct stat stat = {
		.st_ino = FUSE_ROOT_ID,
		.st_mode = S_IFREG | (file->device->is_read_only ? 0400 : 0600),
		.st_nlink = 1,
		.st_uid = getuid(),
		.st_gid = getgid(),
		.st_size = (off_t)file->device->size_bytes,
		.st_blksize = PAGE_BYTES,
		.st_blocks = (blkcnt_t)(file->device->size_bytes / 512),
	};

	return stat;
}

static void reply_error(struct fuse_io *io, int error)
{
	fuse_reply_err(io->request, error == -ENOTCONN ? EIO : -error);
}

static void block_done(struct block_request *block, int error)
{
	struct fuse_io *io = container_of(block, struct fuse_io, block);

	if (error || block->op != BLOCK_READ)
		reply_error(io, error);
	else
		fuse_reply_buf(io->request, (char *)io->data + io->skip_bytes, io->bytes);
	free(io);
}

static void change_done(struct block_change *change, int error)
{
	struct fuse_io *io = container_of(change, struct fuse_io, change);

	if (error || change->op != BLOCK_WRITE)
		reply_error(io, error);
	else
		fuse_reply_write(io->request, io->bytes);
	free(io);
}

/* Returns NULL if there is no memory; then the kernel has its answer. */
static struct fuse_io *io_create(fuse_req_t request, uint64_t bytes, uint64_t data_bytes)
{
	struct fuse_io *io = malloc(sizeof(*io) + data_bytes);

	if (!io) {
		fuse_reply_err(request, ENOMEM);
		return NULL;
	}
	io->file = fuse_req_userdata(request);
	io->request = request;
	io->bytes = bytes;
	io->skip_bytes = 0;
	return io;
}

/* Read the blocks that have these bytes. The device checks the range. */
static void io_read(fuse_req_t request, uint64_t offset, uint64_t length)
{
	struct fuse_file *file = fuse_req_userdata(request);
	uint64_t mask = file->device->block_bytes - 1;
	uint64_t from = offset & ~mask;
	uint64_t covered = ((offset + length + mask) & ~mask) - from;
	struct fuse_io *io = io_create(request, length, covered);

	if (!io)
		return;
	io->skip_bytes = offset - from;
	io->block = (struct block_request){.op = BLOCK_READ,
		.offset_bytes = from,
		.length_bytes = covered,
		.data = io->data,
		.done = block_done};
	block_submit(file->device, &io->block);
}

static void io_flush(fuse_req_t request)
{
	struct fuse_io *io = io_create(request, 0, 0);

	if (!io)
		return;
	io->block = (struct block_request){.op = BLOCK_FLUSH, .done = block_done};
	block_submit(io->file->device, &io->block);
}

/* Write `data`, or zeroes if it is NULL. The device checks the range. */
static void io_change(fuse_req_t request, uint64_t offset, uint64_t length, const void *data)
{
	struct fuse_file *file = fuse_req_userdata(request);
	uint64_t merge_bytes = data ? block_merge_bytes(file->device, offset, length) : 0;
	struct fuse_io *io = io_create(request, length, data ? merge_bytes + length : 0);

	if (!io)
		return;
	io->change = (struct block_change){.op = data ? BLOCK_WRITE : BLOCK_WRITE_ZEROES,
		.offset_bytes = offset,
		.length_bytes = length,
		.data = io->data + merge_bytes,
		.blocks = io->data,
		.done = change_done};
	if (data)
		memcpy(io->change.data, data, length);
	block_merge(&file->merger, &io->change);
}

static void file_getattr(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *info)
{
	struct stat stat = file_attributes(fuse_req_userdata(request));

	(void)inode;
	(void)info;
	fuse_reply_attr(request, &stat, 1.0);
}

/* Changes of times, owner and mode have no effect. A change of the size is refused. */
static void file_setattr(fuse_req_t request, fuse_ino_t inode, struct stat *wanted, int which,
	struct fuse_file_info *info)
{
	struct fuse_file *file = fuse_req_userdata(request);

	if ((which & FUSE_SET_ATTR_SIZE) && (uint64_t)wanted->st_size != file->device->size_bytes)
		fuse_reply_err(request, EPERM);
	else
		file_getattr(request, inode, info);
}

static void file_open(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *info)
{
	const struct fuse_file *file = fuse_req_userdata(request);

	(void)inode;
	if (file->device->is_read_only && (info->flags & O_ACCMODE) != O_RDONLY) {
		fuse_reply_err(request, EROFS);
		return;
	}
	fuse_reply_open(request, info);
}

static void file_read(fuse_req_t request, fuse_ino_t inode, size_t size, off_t offset,
	struct fuse_file_info *info)
{
	const struct fuse_file *file = fuse_req_userdata(request);
	uint64_t from = (uint64_t)offset;
	uint64_t left = from < file->device->size_bytes ? file->device->size_bytes - from : 0;

	(void)inode;
	(void)info;
	if (left == 0)
		fuse_reply_buf(request, NULL, 0);
	else
		io_read(request, from, size < left ? size : left);
}

static void file_write(fuse_req_t request, fuse_ino_t inode, const char *data, size_t size,
	off_t offset, struct fuse_file_info *info)
{
	const struct fuse_file *file = fuse_req_userdata(request);
	uint64_t from = (uint64_t)offset;

	(void)inode;
	(void)info;
	if (from > file->device->size_bytes || size > file->device->size_bytes - from)
		fuse_reply_err(request, ENOSPC);
	else
		io_change(request, from, size, data);
}

static void file_fsync(
	fuse_req_t request, fuse_ino_t inode, int only_data, struct fuse_file_info *info)
{
	(void)inode;
	(void)only_data;
	(void)info;
	io_flush(request);
}

/* The blocks of the range read as zeroes afterwards. The size of the file does not change. */
static void file_fallocate(fuse_req_t request, fuse_ino_t inode, int mode, off_t offset,
	off_t length, struct fuse_file_info *info)
{
	(void)inode;
	(void)info;
	if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		io_change(request, (uint64_t)offset, (uint64_t)length, NULL);
	else
		fuse_reply_err(request, EOPNOTSUPP);
}

static void file_init(void *context, struct fuse_conn_info *connection)
{
	(void)context;
	connection->max_write = IO_BYTES_MAX;
}

static const struct fuse_lowlevel_ops operations = {
	.init = file_init,
	.getattr = file_getattr,
	.setattr = file_setattr,
	.open = file_open,
	.read = file_read,
	.write = file_write,
	.fsync = file_fsync,
	.fallocate = file_fallocate,
};

static void file_unmounted(struct fuse_file *file)
{
	if (file->is_unmounted)
		return;
	file->is_unmounted = true;
	loop_unwatch(file->loop, &file->watch);
	file->unmounted(file->context);
}

static void kernel_ready(struct loop_watch *watch, uint32_t events)
{
	struct fuse_file *file = container_of(watch, struct fuse_file, watch);
	int got = fuse_session_receive_buf(file->session, &file->buffer);

	(void)events;
	if (got == -EINTR || got == -EAGAIN)
		return;
	if (got > 0)
		fuse_session_process_buf(file->session, &file->buffer);
	if (got <= 0 || fuse_session_exited(file->session))
		file_unmounted(file);
}

static int mount_file(struct fuse_file *file)
{
	char *words[] = {(char *)"urnic-nvmf", (char *)"-ofsname=urnic-nvmf", NULL};
	struct fuse_args arguments = FUSE_ARGS_INIT(2, words);
	int fd;

	file->session = fuse_session_new(&arguments, &operations, sizeof(operations), file);
	if (!file->session)
		return complain("cannot make a FUSE session");
	if (fuse_session_mount(file->session, file->path) != 0)
		return complain("cannot mount at '%s'; check that /dev/fuse exists, and that "
				"fusermount3 is installed",
			file->path);
	fd = fuse_session_fd(file->session);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	file->watch.ready = kernel_ready;
	return loop_watch(file->loop, &file->watch, fd, EPOLLIN) ? complain("no memory") : 0;
}

int fuse_file_create(struct loop *loop, struct block_device *device, const char *path,
	void (*unmounted)(void *context), void *context, struct fuse_file **ret_file)
{
	struct fuse_file *file;
	int fd;

	file = calloc(1, sizeof(*file));
	if (!file)
		return complain("no memory");
	file->loop = loop;
	file->device = device;
	block_merger_init(&file->merger, device);
	file->unmounted = unmounted;
	file->context = context;
	file->path = strdup(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	file->is_created = fd >= 0;
	if (fd < 0 && errno != EEXIST) {
		complain("cannot create '%s': %s", path, strerror(errno));
		fuse_file_destroy(file);
		return 1;
	}
	if (fd >= 0)
		close(fd);
	if (!file->path || mount_file(file)) {
		fuse_file_destroy(file);
		return 1;
	}
	*ret_file = file;
	return 0;
}

static int spawn_fusermount(const char *path, pid_t *ret_pid)
{
	char *words[] = {(char *)"fusermount3", (char *)"-u", (char *)path, NULL};

	return posix_spawnp(ret_pid, words[0], NULL, NULL, words, environ);
}

static void helper_ready(struct loop_watch *watch, uint32_t events)
{
	struct fuse_file *file = container_of(watch, struct fuse_file, helper);
	int fd = watch->fd;
	int status = 0;

	(void)events;
	loop_unwatch(file->loop, watch);
	close(fd);
	waitpid(file->helper_pid, &status, 0);
	/*
	 * fusermount3 has ended. After success the kernel has written the dirty pages. Copies of
	 * the mount in other mount namespaces may remain, so do not wait for the end of the FUSE
	 * session.
	 */
	if (status == 0)
		file_unmounted(file);
	else
		complain(
			"'%s' is in use: end the programs that use it, then try again", file->path);
}

bool fuse_file_unmount(struct fuse_file *file)
{
	int fd;

	if (file->is_unmounted || file->helper.events)
		return file->is_unmounted;
	if (spawn_fusermount(file->path, &file->helper_pid) != 0) {
		complain("cannot run fusermount3; install the package fuse3");
		return false;
	}
	fd = pidfd_open(file->helper_pid, 0);
	file->helper.ready = helper_ready;
	if (fd >= 0)
		loop_watch(file->loop, &file->helper, fd, EPOLLIN);
	return true;
}

void fuse_file_stop(struct fuse_file *file)
{
	loop_unwatch(file->loop, &file->watch);
	if (file->helper.events)
		close(file->helper.fd);
	loop_unwatch(file->loop, &file->helper);
}

void fuse_file_destroy(struct fuse_file *file)
{
	if (!file)
		return;
	fuse_file_stop(file);
	if (file->session) {
		fuse_session_unmount(file->session);
		fuse_session_destroy(file->session);
	}
	if (file->is_created && file->path)
		unlink(file->path);
	free(file->buffer.mem);
	free(file->path);
	free(file);
}
