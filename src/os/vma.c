/* SPDX-License-Identifier: BSD-2-Clause */
#include "os/vma.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/*
 * The argument of the ioctl PROCMAP_QUERY, which finds the mapping that covers an address, or else
 * the next one. Linux has the ioctl since 6.11, but the linux/fs.h of the build may be older.
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

bool vma_parse(char *line, struct vma *vma)
{
	unsigned long long start, end, offset, ino;
	unsigned major, minor;
	char rights[8];
	int name_at = 0;

	if (sscanf(line, "%llx-%llx %7s %llx %x:%x %llu %n", &start, &end, rights, &offset, &major,
		    &minor, &ino, &name_at) != 7)
		return false;
	line[strcspn(line, "\n")] = '\0';
	*vma = (struct vma){
		.start = start,
		.end = end,
		.prot = (rights[0] == 'r' ? PROT_READ : 0) | (rights[1] == 'w' ? PROT_WRITE : 0) |
			(rights[2] == 'x' ? PROT_EXEC : 0),
		.is_shared = rights[3] == 's',
		.offset = offset,
		.dev = makedev(major, minor),
		.ino = ino,
		.name = line + name_at,
	};
	return true;
}

/* Read the next mapping that ends above `address`; vma->name points into `line`. */
static bool text_next(FILE *text, uint64_t address, char line[VMA_LINE_BYTES_MAX], struct vma *vma)
{
	while (fgets(line, VMA_LINE_BYTES_MAX, text))
		if (vma_parse(line, vma) && vma->end > address)
			return true;
	return false;
}

int vmas_read(vma_see_fn *see, void *user)
{
	FILE *text = fopen("/proc/self/maps", "re");
	char line[VMA_LINE_BYTES_MAX];
	struct vma vma;

	if (!text)
		return -errno;
	while (text_next(text, 0, line, &vma) && see(user, &vma))
		;
	fclose(text);
	return 0;
}

/*
 * Get the mapping that covers `address`, or else the next one. Returns false with errno; ENOENT
 * says that there is none.
 */
static bool query_next(int fd, uint64_t address, struct vma *vma)
{
	struct procmap_query query = {
		.size = sizeof(query),
		.query_flags = PROCMAP_COVERING_OR_NEXT,
		.query_addr = address,
	};

	if (ioctl(fd, PROCMAP_QUERY_IOCTL, &query))
		return false;
	*vma = (struct vma){
		.start = query.vma_start,
		.end = query.vma_end,
		.prot = (query.vma_flags & PROCMAP_VMA_READABLE ? PROT_READ : 0) |
			(query.vma_flags & PROCMAP_VMA_WRITABLE ? PROT_WRITE : 0),
	};
	return true;
}

bool vmas_have(uint64_t first, uint64_t last, int prot)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	FILE *text = NULL;
	char line[VMA_LINE_BYTES_MAX];
	struct vma vma = {.end = first};
	bool has_all = fd < 0;

	while (!has_all) {
		first = vma.end;
		/*
		 * The query fails with another error than ENOENT on an old kernel, or when a
		 * sandbox refuses it.
		 */
		if (!text && !query_next(fd, first, &vma) && errno != ENOENT)
			text = fdopen(fd, "r");
		if (text && !text_next(text, first, line, &vma))
			break;
		if (vma.start > first || vma.end <= first || (vma.prot & prot) != prot)
			break;
		has_all = vma.end > last;
	}
	if (text)
		fclose(text);
	else if (fd >= 0)
		close(fd);
	return has_all;
}
