/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SEGMENT_SEGMENT_SHARED_H
#define URNIC_SEGMENT_SEGMENT_SHARED_H

/* Finding shared memory of the program, and a descriptor of its file. */

#include <stdbool.h>
#include <stdint.h>

struct shared_memory {
	uint64_t start;
	uint64_t bytes;
	uint64_t offset; /* in the file */
	int file; /* owned by the caller */
};

/*
 * Find the shared mapping that contains all of [start, start + bytes), if its file cannot shrink:
 * System V or anonymous shared memory, or a sealed memfd. (Reading through a mapping of a truncated
 * file raises SIGBUS.) False: there is no such mapping, or no descriptor of its file is available.
 * The latter happens when the program has closed its descriptor, and this process is not root, so
 * that it cannot open the file in /proc/self/map_files.
 */
bool shared_memory_find(uint64_t start, uint64_t bytes, struct shared_memory *ret_memory);

#endif
