/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_ARENA_MEMORY_H
#define URNIC_TESTS_ARENA_MEMORY_H

/*
 * Address space for an arena (base/arena.h): zeros on both sides, which cost nothing until they are
 * touched.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/arena.h"

static inline void *arena_memory_map(uint64_t bytes, int flags)
{
	uint8_t *base = (uint8_t *)mmap(
		NULL, ARENA_SPAN(bytes), PROT_NONE, flags | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED || mprotect(base, bytes, PROT_READ | PROT_WRITE) ||
		mprotect(base + ARENA_SIDE_BYTES, bytes, PROT_READ | PROT_WRITE))
		abort();
	return base;
}

/* With `bytes`, whole pages, on either side. */
static inline void *arena_memory_new(uint64_t bytes)
{
	return arena_memory_map(bytes, MAP_PRIVATE);
}

static inline void arena_memory_free(void *base, uint64_t bytes)
{
	munmap(base, ARENA_SPAN(bytes));
}

#endif
