/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * NIC memory: one contiguous stretch of pages, handed out by offset.
 *
 * Everything that a peer on the same host may one day map (rings, the memory-region table, the
 * public state of queue pairs) lies here, so it refers to its neighbours by offset, never by
 * pointer. Offset 0 means "none". The pages come from outside (a memfd in production, plain memory
 * in tests); untouched pages cost nothing.
 *
 * Blocks are powers of two from 64 bytes up, each size with its own free list, so that an
 * allocation is a few instructions and never walks. Blocks are not split or merged: a NIC makes few
 * sizes of objects, again and again.
 *
 * Threads: the caller serializes alloc and free (set-up path). arena_at() may be called by anyone.
 */
#ifndef URNIC_BASE_ARENA_H
#define URNIC_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ARENA_BLOCK_BYTES_MIN = 64,
	ARENA_CLASS_COUNT = 32,
};

struct arena {
	uint8_t *base;
	uint64_t bytes;
	uint64_t used_bytes; /* high-water mark of what was ever handed out */
	uint64_t live_bytes; /* what is handed out now, rounded to blocks */
	uint64_t free_list[ARENA_CLASS_COUNT]; /* offset of the first free block of each class */
};

/*
 * Take over `bytes` of zeroed memory at `base` (aligned to 64). Borrowed until the last use of the
 * arena.
 */
void arena_init(struct arena *arena, void *base, uint64_t bytes);

/*
 * Hand out a zeroed block of at least `bytes` (1 and up), aligned to 64. Returns its offset, or 0
 * when the arena is full.
 */
uint64_t arena_alloc(struct arena *arena, uint64_t bytes);

/*
 * Give back what arena_alloc() returned for the same `bytes`. Offset 0 is fine.
 */
void arena_free(struct arena *arena, uint64_t offset, uint64_t bytes);

static inline void *arena_at(const struct arena *arena, uint64_t offset)
{
	return arena->base + offset;
}

/* Does a byte at this address lie in the arena's memory? Before arena_init(), none does. */
static inline bool arena_contains(const struct arena *arena, const void *pointer)
{
	return (uint64_t)((uintptr_t)pointer - (uintptr_t)arena->base) < arena->bytes;
}

static inline uint64_t arena_offset(const struct arena *arena, const void *pointer)
{
	return (uint64_t)((const uint8_t *)pointer - arena->base);
}

#endif
