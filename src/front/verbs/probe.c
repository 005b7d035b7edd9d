/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/probe.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/vma.h"

int memory_probe(const void *address, size_t bytes, bool is_written)
{
	uint64_t first = (uintptr_t)address;

	if (bytes == 0)
		return 0;
	if (bytes - 1 > UINT64_MAX - first)
		return EFAULT;
	return vmas_have(first, first + bytes - 1, PROT_READ | (is_written ? PROT_WRITE : 0))
		? 0
		: EFAULT;
}

int memory_prefetch(void *address, size_t bytes, bool is_written, bool is_awaited)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = (uintptr_t)address & ~(page_bytes - 1);
	size_t span_bytes = (uintptr_t)address - first + bytes;
	int advice = is_written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;

	if (memory_probe(address, bytes, is_written))
		return EFAULT;
	if (madvise((void *)first, span_bytes, is_awaited ? advice : MADV_WILLNEED) == 0)
		return 0;
	/* EINVAL: Linux before 5.14. EBADF: WILLNEED for memory of no file. */
	if (errno == EINVAL || errno == EBADF || !is_awaited)
		return 0;
	return errno == ENOMEM ? ENOMEM : EFAULT;
}
