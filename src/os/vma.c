/* SPDX-License-Identifier: BSD-2-Clause */
#include "os/vma.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
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

/* Does the mapping go on at `first`, with all rights of `prot`? */
static bool vma_continues(const struct vma *vma, uint64_t first, int prot)
{
	return vma->start <= first && vma->end > first && (vma->prot & prot) == prot;
}

/* vmas_have() by the ioctl. Returns 0, or -errno when `fd` does not answer. */
static int query_have(int fd, uint64_t first, uint64_t last, int prot, bool *ret_has_all)
{
	struct vma vma;

	do {
		if (!query_next(fd, first, &vma)) {
			*ret_has_all = false;
			return errno == ENOENT ? 0 : -errno;
		}
		*ret_has_all = vma_continues(&vma, first, prot);
		first = vma.end;
	} while (*ret_has_all && vma.end <= last);
	return 0;
}

/* vmas_have() by the lines of the file. */
static bool text_have(FILE *text, uint64_t first, uint64_t last, int prot)
{
	char line[VMA_LINE_BYTES_MAX];
	struct vma vma;

	do {
		if (!text_next(text, first, line, &vma) || !vma_continues(&vma, first, prot))
			return false;
		first = vma.end;
	} while (vma.end <= last);
	return true;
}

/*
 * A descriptor of /proc/self/maps that answers queries, for the next call, because to open the file
 * takes several times as long as to ask; -1: none. If the program has closed it, its number may be
 * that of any file, which may answer anything. So only a yes counts. Before a no, the list is
 * opened again; the other file is left alone.
 */
static _Atomic int kept_fd = -1;

/* The descriptor tells the child of a fork about its parent. */
static void fork_child(void)
{
	int fd = atomic_exchange(&kept_fd, -1);
	struct vma vma;

	if (fd >= 0 && query_next(fd, 0, &vma))
		close(fd);
}

static void fork_watch(void)
{
	pthread_atfork(NULL, NULL, fork_child);
}

static void fd_keep(int fd, int before)
{
	static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

	pthread_once(&fork_once, fork_watch);
	if (!atomic_compare_exchange_strong(&kept_fd, &before, fd))
		close(fd);
}

/*
 * vmas_have() by opening the file. If the answer is yes, the descriptor replaces `kept` for later
 * calls.
 */
static bool maps_have(uint64_t first, uint64_t last, int prot, int kept)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	bool has_all;
	FILE *text;

	if (fd < 0)
		return true;
	/* The query fails on an old kernel, or when a sandbox refuses it. */
	if (!query_have(fd, first, last, prot, &has_all)) {
		if (has_all)
			fd_keep(fd, kept);
		else
			close(fd);
		return has_all;
	}
	text = fdopen(fd, "r");
	has_all = text && text_have(text, first, last, prot);
	if (text)
		fclose(text);
	else
		close(fd);
	return has_all;
}

bool vmas_have(uint64_t first, uint64_t last, int prot)
{
	int fd = atomic_load(&kept_fd);
	bool has_all;

	if (fd >= 0 && !query_have(fd, first, last, prot, &has_all) && has_all)
		return true;
	return maps_have(first, last, prot, fd);
}
