/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DMA-bufs: memory of another device's driver, named by a descriptor. For this NIC, mapped memory
 * of a DMA-buf is ordinary memory. An ioctl tells the driver that the CPU accesses the memory
 * (linux/dma-buf.h).
 */

#include <fcntl.h>
#include <linux/dma-buf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arith.h"
#include "front/verbs/mr.h"
#include "front/verbs/result.h"
#include "os/log.h"

/* Flags that a region of a DMA-buf may have. Those of the optional range may be ignored. */
#define ACCESS_ACCEPTED                                                              \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_OPTIONAL_RANGE)

/*
 * Tell the driver of the DMA-buf that the CPU's access begins or ends. Returns 0, or -1 with errno:
 * ENOTTY if the descriptor is no DMA-buf.
 */
static int sync_cpu(int fd, uint64_t edge)
{
	struct dma_buf_sync sync = {.flags = edge | DMA_BUF_SYNC_RW};

	return ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync);
}

void dmabuf_unmap(void *address, size_t bytes, int fd)
{
	munmap(address, bytes);
	sync_cpu(fd, DMA_BUF_SYNC_END);
	close(fd);
}

static const char not_registered[] = "a DMA-buf is not registered";

/* Map whole pages around [offset, offset + length) of the DMA-buf into made->mapping. */
static int dmabuf_map(struct mr *made, uint64_t offset, size_t length, int fd, bool is_written)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	size_t skip_bytes = offset % page_bytes;
	int protection = PROT_READ | (is_written ? PROT_WRITE : 0);
	void *address;
	int own_fd;

	if (length == 0 || length > SIZE_MAX - skip_bytes || offset > INT64_MAX)
		return result_cause(REASON_DMABUF_RANGE);
	own_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own_fd < 0)
		return -log_refusal(not_registered, "fcntl");
	if (sync_cpu(own_fd, DMA_BUF_SYNC_START)) {
		int error = errno == ENOTTY ? result_cause(REASON_DMABUF_FILE)
					    : -log_refusal(not_registered, "ioctl");

		close(own_fd);
		return error;
	}
	address = mmap(NULL, skip_bytes + length, protection, MAP_SHARED, own_fd,
		(off_t)(offset - skip_bytes));
	if (address == MAP_FAILED) {
		/* EACCES: the program requests access that its descriptor does not permit. */
		int error = errno == EACCES ? errno : -log_refusal(not_registered, "mmap");

		sync_cpu(own_fd, DMA_BUF_SYNC_END);
		close(own_fd);
		return error;
	}
	made->mapping.address = address;
	made->mapping.bytes = skip_bytes + length;
	made->mapping.fd = own_fd;
	made->verbs.addr = (uint8_t *)address + skip_bytes;
	made->verbs.length = length;
	return 0;
}

/* Does the buffer have all these bytes? Bytes behind its end can be mapped, but not accessed. */
static bool has_bytes(int fd, uint64_t offset, size_t length)
{
	off_t bytes = lseek(fd, 0, SEEK_END);

	return bytes >= 0 && range_inside(offset, length, 0, (uint64_t)bytes);
}

struct ibv_mr *ibv_reg_dmabuf_mr(
	struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	uint64_t page_mask = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
	struct mr made = {0};
	struct ibv_mr *mr;
	int error;

	if (access & ~(int)ACCESS_ACCEPTED)
		error = result_cause(REASON_ACCESS_BITS);
	else if ((offset & page_mask) != (iova & page_mask) || !has_bytes(fd, offset, length))
		error = result_cause(REASON_DMABUF_RANGE);
	else
		error = dmabuf_map(
			&made, offset, length, fd, (access & IBV_ACCESS_LOCAL_WRITE) != 0);
	if (error)
		return result_null("ibv_reg_dmabuf_mr", error);
	mr = mr_make(pd, &made, iova, (unsigned int)access, false);
	if (!mr) {
		error = errno;
		dmabuf_unmap(made.mapping.address, made.mapping.bytes, made.mapping.fd);
		errno = error;
	}
	return mr;
}
