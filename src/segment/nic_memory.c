/* SPDX-License-Identifier: BSD-2-Clause */
#include "segment/nic_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "segment/nic_public.h"

static int memory_check(int fd, struct stat *ret_status)
{
	struct statfs system;
	int seals = fcntl(fd, F_GET_SEALS); /* -1 unless it is a memfd */

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, ret_status) || fstatfs(fd, &system))
		return -EBADF;
	/* tmpfs only: access to hugetlbfs raises SIGBUS if the host has no free huge page. */
	if (!S_ISREG(ret_status->st_mode) || system.f_type != TMPFS_MAGIC ||
		ret_status->st_size < (off_t)(NIC_PUBLIC_OFFSET + sizeof(struct nic_public)) ||
		ret_status->st_size > (off_t)ARENA_SIDE_BYTES)
		return -EBADF;
	return 0;
}

int nic_memory_check(int fd)
{
	struct stat status;

	return memory_check(fd, &status);
}

int nic_memory_open(int fd, uid_t owner, uint64_t *ret_bytes)
{
	struct stat status;
	char path[64];
	int error = memory_check(fd, &status);
	int anew;

	if (error)
		return error;
	if (status.st_uid != owner)
		return -EACCES;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	anew = open(path, O_RDWR | O_CLOEXEC);
	if (anew < 0)
		return -errno;
	*ret_bytes = (uint64_t)status.st_size;
	return anew;
}

int nic_memory_check_side(int fd, uint64_t bytes)
{
	struct stat status;
	int error = memory_check(fd, &status);

	return !error && (uint64_t)status.st_size != bytes ? -EBADF : error;
}

int nic_memory_get_shared(int pidfd, int fd, uint64_t bytes)
{
	int shared = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	int error;

	if (shared < 0)
		return -errno;
	error = nic_memory_check_side(shared, bytes);
	if (error)
		close(shared);
	return error ? error : shared;
}

static int side_map(uint8_t *at, uint64_t bytes, int protection, int memory)
{
	return mmap(at, (size_t)bytes, protection, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, memory,
		       0) == MAP_FAILED
		? -errno
		: 0;
}

int nic_memory_map(int memory, uint64_t bytes, uint8_t **ret_base)
{
	uint8_t *base = mmap(NULL, ARENA_SPAN(bytes), PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int error;

	if (base == MAP_FAILED)
		return -errno;
	*ret_base = base;
	error = side_map(base, bytes, PROT_READ, memory);
	if (error)
		return error;
	return nic_public_is_current(nic_public_at(base)) ? 0 : -EPROTO;
}

int nic_memory_map_shared(uint8_t *base, uint64_t bytes, int shared)
{
	return side_map(base + ARENA_SIDE_BYTES, bytes, PROT_READ | PROT_WRITE, shared);
}
