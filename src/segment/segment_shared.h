/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SEGMENT_SEGMENT_SHARED_H
#define URNIC_SEGMENT_SEGMENT_SHARED_H

/*
 * Shared memory that the program has made, and a descriptor of it.
 */

#include <stdbool.h>
#include <stdint.h>

struct shared_memory {
	uint64_t start;
	uint64_t bytes;
	uint64_t offset; /* in the file */
	int file; /* the caller's from now on */
};

/*
 * The shared mapping that has all of [start, start + bytes), if it is a file of memory that cannot
 * shrink: System V or anonymous shared memory, or a memfd that is sealed against it. A truncated
 * file would kill whoever reads through a mapping of it. False: there is none, or no way to a
 * descriptor of it: the program has closed its own, and only root gets one from
 * /proc/self/map_files.
 */
bool shared_memory_find(uint64_t start, uint64_t bytes, struct shared_memory *ret_memory);

#endif
