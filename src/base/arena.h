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
 * Two sides. The owner's side is what arena_alloc() hands out: in production other processes map it
 * read-only. Each byte of it has a twin on the peers' side, ARENA_SIDE_BYTES further on, which
 * other processes may write. An object that peers write has a part on either side, at the same
 * offset: each field lies on the side of who writes it. So the owner trusts what it reads on its
 * own side, and nothing that it reads on the peers'.
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

/* From a block to its twin on the peers' side; the most that the owner's side may have. */
#define ARENA_SIDE_BYTES (1ull << 35)

/* Both sides of an arena with so many bytes on the owner's. */
#define ARENA_SPAN(bytes) (ARENA_SIDE_BYTES + (bytes))

struct arena {
	uint8_t *base;
	uint64_t bytes; /* of the owner's side */
	uint64_t used_bytes; /* high-water mark of what was ever handed out */
	uint64_t live_bytes; /* what is handed out now, rounded to blocks */
	uint64_t free_list[ARENA_CLASS_COUNT]; /* offset of the first free block of each class */
};

/*
 * Take over ARENA_SPAN(bytes) of zeroed address space at `base` (aligned to 64), of which both
 * sides are memory: `bytes` at its start, and as many ARENA_SIDE_BYTES further on. Borrowed until
 * the last use of the arena.
 */
void arena_init(struct arena *arena, void *base, uint64_t bytes);

/*
 * Hand out a block of at least `bytes` (1 and up), aligned to 64 and zeroed on the owner's side.
 * What its twin holds is whatever was left there. Returns its offset, or 0 when the arena is full.
 */
uint64_t arena_alloc(struct arena *arena, uint64_t bytes);

/* The same for who uses the twin alone: that is zeroed, and the block may hold anything. */
uint64_t arena_alloc_shared(struct arena *arena, uint64_t bytes);

/* The same with both zeroed. */
uint64_t arena_alloc_both(struct arena *arena, uint64_t bytes);

/*
 * Give back what arena_alloc() returned for the same `bytes`. Offset 0 is fine.
 */
void arena_free(struct arena *arena, uint64_t offset, uint64_t bytes);

static inline void *arena_at(const struct arena *arena, uint64_t offset)
{
	return arena->base + offset;
}

/* The twin of what lies on one side. */
static inline void *arena_peers_side(const void *pointer)
{
	return (void *)((uintptr_t)pointer + ARENA_SIDE_BYTES);
}

static inline void *arena_owners_side(const void *pointer)
{
	return (void *)((uintptr_t)pointer - ARENA_SIDE_BYTES);
}

/* Can there be a block of so many bytes at this offset, any value? */
static inline bool arena_has_block(const struct arena *arena, uint64_t offset, uint64_t bytes)
{
	return offset != 0 && offset % ARENA_BLOCK_BYTES_MIN == 0 && offset < arena->bytes &&
		bytes <= arena->bytes - offset;
}

/*
 * Does a byte at this address lie in the arena's memory, on either side? Before arena_init(), none
 * does.
 */
static inline bool arena_contains(const struct arena *arena, const void *pointer)
{
	return (uint64_t)((uintptr_t)pointer - (uintptr_t)arena->base) < ARENA_SPAN(arena->bytes) &&
		arena->bytes;
}

static inline uint64_t arena_offset(const struct arena *arena, const void *pointer)
{
	return (uint64_t)((const uint8_t *)pointer - arena->base);
}

#endif
