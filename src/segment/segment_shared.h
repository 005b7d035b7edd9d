/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SEGMENT_SEGMENT_SHARED_H
#define URNIC_SEGMENT_SEGMENT_SHARED_H

/* Shared memory of the program, and a descriptor of it. */

#include <stdbool.h>
#include <stdint.h>

struct shared_memory {
	uint64_t start;
	uint64_t bytes;
	uint64_t offset; /* in the file */
	int file; /* owned by the caller */
};

/*
 * The shared mapping with all of [start, start + bytes), if it is memory that cannot shrink: System
 * V or anonymous shared memory, or a sealed memfd. (Reading through a mapping of a truncated file
 * raises SIGBUS.) False: there is none, or no descriptor of it is available. The program may have
 * closed its own, and only root gets one from /proc/self/map_files.
 */
bool shared_memory_find(uint64_t start, uint64_t bytes, struct shared_memory *ret_memory);

#endif
