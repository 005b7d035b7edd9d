/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/probe.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arith.h"

/* Pages asked about in one call: the answer is a byte each. */
#define PAGES_PER_CALL 4096

static bool is_mapped(uintptr_t first, uintptr_t last, size_t page_bytes)
{
	unsigned char residency[PAGES_PER_CALL];
	size_t pages = (last - first) / page_bytes + 1;

	while (pages > 0) {
		size_t count = min_u64(pages, PAGES_PER_CALL);

		/* Which pages are in memory does not matter, only that the kernel knows them all. */
		if (mincore((void *)first, count * page_bytes, residency) && errno == ENOMEM)
			return false;
		first += count * page_bytes;
		pages -= count;
	}
	return true;
}

/* Makes the page present and writable as a write would. EINVAL is also what kernels before 5.14 say, to any page. */
static bool is_writable(uintptr_t page, size_t page_bytes)
{
	char known[1];
	uintptr_t known_page = (uintptr_t)known & ~(page_bytes - 1);

	if (madvise((void *)page, page_bytes, MADV_POPULATE_WRITE) == 0)
		return true;
	return errno == EINVAL && madvise((void *)known_page, page_bytes, MADV_POPULATE_WRITE) != 0;
}

int memory_probe(void *address, size_t bytes, bool is_written)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t start = (uintptr_t)address;
	uintptr_t first = start & ~(page_bytes - 1);
	uintptr_t last;

	if (bytes == 0)
		return 0;
	if (bytes - 1 > UINTPTR_MAX - start)
		return EFAULT;
	last = (start + bytes - 1) & ~(page_bytes - 1);
	if (!is_mapped(first, last, page_bytes))
		return EFAULT;
	if (is_written && (!is_writable(first, page_bytes) || !is_writable(last, page_bytes)))
		return EFAULT;
	return 0;
}
