/* SPDX-License-Identifier: BSD-2-Clause */
#include "os/vma.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

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

int vmas_read(vma_see_fn *see, void *user)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[VMA_LINE_BYTES_MAX];
	struct vma vma;

	if (!maps)
		return -errno;
	while (fgets(line, sizeof(line), maps))
		if (vma_parse(line, &vma) && !see(user, &vma))
			break;
	fclose(maps);
	return 0;
}
