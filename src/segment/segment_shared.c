/* SPDX-License-Identifier: BSD-2-Clause */
#include "segment/segment_shared.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/vma.h"

struct search {
	uint64_t start;
	uint64_t bytes;
	struct vma found;
	bool is_found;
	bool is_without_name; /* System V or anonymous: no process can truncate the file */
};

static bool search_see(void *user, const struct vma *vma)
{
	struct search *search = user;

	if (vma->end <= search->start)
		return true;
	search->is_found = vma->is_shared && vma->prot == (PROT_READ | PROT_WRITE) && vma->ino &&
		vma->start <= search->start && vma->end - search->start >= search->bytes;
	search->found = *vma;
	search->is_without_name = !strncmp(vma->name, "/SYSV", 5) ||
		!strncmp(vma->name, "/dev/zero (deleted)", 19) ||
		!strncmp(vma->name, "/anon_hugepage (deleted)", 24);
	return false;
}

static bool is_file_of(int file, const struct vma *vma)
{
	struct stat status;

	return !fstat(file, &status) && status.st_dev == vma->dev && status.st_ino == vma->ino;
}

static bool can_read_and_write(int file)
{
	int flags = fcntl(file, F_GETFL);

	return flags >= 0 && (flags & O_ACCMODE) == O_RDWR;
}

/* Duplicate a descriptor of the mapping's file, if this process has one. Returns it, or -1. */
static int file_among_open(const struct vma *vma)
{
	DIR *directory = opendir("/proc/self/fd");
	const struct dirent *entry;
	int file = -1;

	while (directory && file < 0 && (entry = readdir(directory))) {
		int fd = atoi(entry->d_name);

		if (*entry->d_name != '.' && is_file_of(fd, vma) && can_read_and_write(fd))
			file = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	}
	if (directory)
		closedir(directory);
	return file;
}

static int file_of(const struct vma *vma)
{
	char path[64];
	int file;

	snprintf(path, sizeof(path), "/proc/self/map_files/%llx-%llx",
		(unsigned long long)vma->start, (unsigned long long)vma->end);
	file = open(path, O_RDWR | O_CLOEXEC);
	return file >= 0 ? file : file_among_open(vma);
}

static bool cannot_shrink(int file)
{
	int seals = fcntl(file, F_GET_SEALS);

	return seals >= 0 && seals & F_SEAL_SHRINK;
}

bool shared_memory_find(uint64_t start, uint64_t bytes, struct shared_memory *ret_memory)
{
	struct search search = {.start = start, .bytes = bytes};
	int file;

	if (vmas_read(search_see, &search) || !search.is_found)
		return false;
	file = file_of(&search.found);
	if (file < 0)
		return false;
	/* The program may have replaced the mapping meanwhile. */
	if (!is_file_of(file, &search.found) || !(search.is_without_name || cannot_shrink(file))) {
		close(file);
		return false;
	}
	*ret_memory = (struct shared_memory){
		.start = search.found.start,
		.bytes = search.found.end - search.found.start,
		.offset = search.found.offset,
		.file = file,
	};
	return true;
}
