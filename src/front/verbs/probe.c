/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/vma.h"

/* A mapping of this process: [start, end) and its rights. */
struct mapping {
	uint64_t start;
	uint64_t end;
	bool is_readable;
	bool is_writable;
};

/*
 * PROCMAP_QUERY of linux/fs.h since 6.11, newer than the build's headers: the mapping that covers
 * an address, or the next one.
 */
struct procmap_query {
	uint64_t size;
	uint64_t query_flags;
	uint64_t query_addr;
	uint64_t vma_start;
	uint64_t vma_end;
	uint64_t vma_flags;
	uint64_t vma_page_size;
	uint64_t vma_offset;
	uint64_t inode;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint32_t vma_name_size;
	uint32_t build_id_size;
	uint64_t vma_name_addr;
	uint64_t build_id_addr;
};

#define PROCMAP_QUERY_IOCTL      _IOWR('f', 17, struct procmap_query)
#define PROCMAP_VMA_READABLE     0x01
#define PROCMAP_VMA_WRITABLE     0x02
#define PROCMAP_COVERING_OR_NEXT 0x10

/* A walk over the mappings from some address on, by the best interface of the kernel. */
struct walk {
	int fd;
	FILE *text; /* of /proc/self/maps, on kernels without PROCMAP_QUERY */
	uint64_t next;
};

static bool walk_begin(struct walk *walk, uint64_t address)
{
	*walk = (struct walk){.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), .next = address};
	return walk->fd >= 0;
}

static void walk_end(struct walk *walk)
{
	if (walk->text)
		fclose(walk->text);
	else
		close(walk->fd);
}

static bool text_next(struct walk *walk, struct mapping *mapping)
{
	char line[VMA_LINE_BYTES_MAX];
	struct vma vma;

	while (fgets(line, sizeof(line), walk->text)) {
		if (!vma_parse(line, &vma) || vma.end <= walk->next)
			continue;
		*mapping = (struct mapping){
			vma.start, vma.end, vma.prot & PROT_READ, vma.prot & PROT_WRITE};
		walk->next = vma.end;
		return true;
	}
	return false;
}

/* The mapping that covers the walk's address, or the next one. False at the end. */
static bool walk_next(struct walk *walk, struct mapping *mapping)
{
	struct procmap_query query = {
		.size = sizeof(query),
		.query_flags = PROCMAP_COVERING_OR_NEXT,
		.query_addr = walk->next,
	};

	if (!walk->text && ioctl(walk->fd, PROCMAP_QUERY_IOCTL, &query) == 0) {
		*mapping = (struct mapping){query.vma_start, query.vma_end,
			(query.vma_flags & PROCMAP_VMA_READABLE) != 0,
			(query.vma_flags & PROCMAP_VMA_WRITABLE) != 0};
		walk->next = query.vma_end;
		return true;
	}
	/*
	 * ENOENT: no mapping follows. Any other error: the kernel is too old, or a sandbox refuses
	 * the call.
	 */
	if (!walk->text && errno != ENOENT)
		walk->text = fdopen(walk->fd, "r");
	return walk->text && text_next(walk, mapping);
}

/* `last` is the last byte. */
static bool is_accessible(struct walk *walk, uint64_t first, uint64_t last, bool is_written)
{
	struct mapping mapping;

	while (walk_next(walk, &mapping)) {
		if (mapping.start > first || !mapping.is_readable ||
			(is_written && !mapping.is_writable))
			return false;
		if (mapping.end > last)
			return true;
		first = mapping.end;
	}
	return false;
}

int memory_probe(const void *address, size_t bytes, bool is_written)
{
	uint64_t first = (uintptr_t)address;
	struct walk walk;
	bool is_good;

	if (bytes == 0)
		return 0;
	if (bytes - 1 > UINT64_MAX - first)
		return EFAULT;
	if (!walk_begin(&walk, first))
		return 0;
	is_good = is_accessible(&walk, first, first + bytes - 1, is_written);
	walk_end(&walk);
	return is_good ? 0 : EFAULT;
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
