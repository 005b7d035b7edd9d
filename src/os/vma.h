/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_VMA_H
#define URNIC_OS_VMA_H

/* The mappings of this process, from /proc/self/maps. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/export.h"

enum { VMA_LINE_BYTES_MAX = 4096 + 256 }; /* a path, and the fields before it */

struct vma {
	uint64_t start;
	uint64_t end;
	int prot; /* PROT_READ and so on */
	bool is_shared;
	uint64_t offset; /* in the file */
	dev_t dev;
	uint64_t ino; /* 0: no file */
	const char *name; /* "" when it has none; valid until the next mapping is read */
};

/* Parse a line of that file; `vma` refers to the line, which changes. False for any other line. */
bool vma_parse(char *line, struct vma *vma);

/* Called for each mapping, in the order of addresses, until the result is false. */
typedef bool vma_see_fn(void *user, const struct vma *vma);

/* Returns 0; -errno when the mappings cannot be read. */
int vmas_read(vma_see_fn *see, void *user);

/*
 * Is all memory from `first` to the byte `last` mapped with these rights? Touches no page. True
 * when the mappings cannot be read.
 */
bool vmas_have(uint64_t first, uint64_t last, int prot) URNIC_EXPORT_AS(vmas_have);

#endif
