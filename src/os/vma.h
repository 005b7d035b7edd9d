/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_VMA_H
#define URNIC_OS_VMA_H

/* The mappings of this process, from /proc/self/maps. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/export.h"

enum { VMA_LINE_BYTES_MAX = 4096 + 256 }; /* a path of 4096 and the fields before it */

struct vma {
	uint64_t start;
	uint64_t end;
	int prot; /* PROT_READ and so on */
	bool is_shared;
	uint64_t offset; /* in the file */
	dev_t dev;
	uint64_t ino; /* 0: no file */
	/* "" for a mapping without a name. Valid until the next mapping is read. */
	const char *name;
};

/*
 * Parse a line of /proc/self/maps. vma->name then points into the line, whose line feed is replaced
 * by 0. Returns false for a line that is no mapping.
 */
bool vma_parse(char *line, struct vma *vma);

/* vmas_read() calls this for each mapping in the order of addresses, until it returns false. */
typedef bool vma_see_fn(void *user, const struct vma *vma);

/* Call `see` for the mappings. Returns 0, or -errno when the mappings cannot be read. */
int vmas_read(vma_see_fn *see, void *user);

/*
 * Is all memory from the byte `first` to the byte `last` mapped with the rights `prot`? Touches no
 * page. Returns true when the mappings cannot be read.
 */
bool vmas_have(uint64_t first, uint64_t last, int prot) URNIC_EXPORT_AS(vmas_have);

#endif
