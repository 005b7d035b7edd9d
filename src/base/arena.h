/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * NIC memory: one contiguous stretch of pages, handed out by offset.
 *
 * Peers on the same host may map this memory (queues, the table of regions, public state of queue
 * pairs). So its contents refer to each other by offset, never by pointer. Offset 0 means "none".
 * The caller brings the pages: a memfd in production, plain memory in tests. Untouched pages cost
 * nothing.
 *
 * Blocks are powers of two from 64 bytes up, each size with its own free list, so an allocation
 * takes a few instructions and never walks. Blocks are not split or merged, because a NIC makes few
 * sizes of objects again and again. Blocks of up to a quarter of a chunk share chunks with others
 * of their size. So the headers of a thousand queue pairs are neighbours, and the rings between
 * them, which an idle queue pair does not touch, cost no pages.
 *
 * The arena keeps the size of each block, and which blocks are allocated, in a table of its own at
 * the end of the owner's side. arena_free() asserts that the block is allocated.
 *
 * The memory has two sides. arena_alloc() hands out the owner's side, which other processes map
 * read-only in production. Each byte of it has a twin on the peers' side, ARENA_SIDE_BYTES further
 * on, which other processes may write. An object that peers write has a part on either side, at the
 * same offset, and each field lies on its writer's side. So the owner trusts what it reads on its
 * own side, and nothing that it reads on the peers' side.
 *
 * Threads: the caller serializes alloc and free (set-up path). Any thread may call arena_at().
 */
#ifndef URNIC_BASE_ARENA_H
#define URNIC_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ARENA_BLOCK_BYTES_MIN = 64,
	ARENA_CLASS_COUNT = 32,
	ARENA_CHUNK_BYTES = 16384,
};

/*
 * From a block to its twin on the peers' side; also the largest size of the owner's side. Valgrind
 * has 124 GiB of address space, and maps at most 32 GiB at once.
 */
#define ARENA_SIDE_BYTES (1ull << 33)

/* The address space of both sides, with `bytes` on the owner's. */
#define ARENA_SPAN(bytes) (ARENA_SIDE_BYTES + (bytes))

struct arena {
	uint8_t *base;
	uint64_t bytes; /* of the owner's side */
	uint64_t used_bytes; /* high-water mark of allocations, in whole chunks */
	uint64_t live_bytes; /* allocated now, rounded to blocks */
	uint64_t free_list[ARENA_CLASS_COUNT]; /* offset of the first free block of each class */
	uint64_t fresh[ARENA_CLASS_COUNT]; /* offset of the part of a chunk that was never used */
	uint64_t fresh_bytes[ARENA_CLASS_COUNT]; /* of it; 0: the class needs another chunk */
	uint64_t tables; /* offset of the tables, which is the end of the blocks */
	uint8_t *chunk_class; /* one for each chunk: its class, counted from 1; 0: never used */
	uint8_t *live; /* a bit for each ARENA_BLOCK_BYTES_MIN: an allocated block begins here */
};

/*
 * Manage ARENA_SPAN(bytes) of zeroed address space at `base`, which is aligned to 64. Both sides
 * are memory: `bytes` at `base`, and as many ARENA_SIDE_BYTES further on. The arena borrows them
 * until its last use.
 */
void arena_init(struct arena *arena, void *base, uint64_t bytes);

/*
 * Allocate a block of at least `bytes` (1 and up), aligned to 64 and zeroed on the owner's side.
 * Its twin keeps what the last user left there. Returns its offset, or 0 when the arena is full.
 */
uint64_t arena_alloc(struct arena *arena, uint64_t bytes);

/* arena_alloc() for a caller that uses the twin alone: the twin is zeroed, the block is not. */
uint64_t arena_alloc_shared(struct arena *arena, uint64_t bytes);

/* arena_alloc_shared() with both zeroed. */
uint64_t arena_alloc_both(struct arena *arena, uint64_t bytes);

/* Free a block. Offset 0 is fine; any other that is not an allocated block's ends the program. */
void arena_free(struct arena *arena, uint64_t offset);

static inline void *arena_at(const struct arena *arena, uint64_t offset)
{
	return arena->base + offset;
}

static inline void *arena_peers_side(const void *pointer)
{
	return (void *)((uintptr_t)pointer + ARENA_SIDE_BYTES);
}

static inline void *arena_owners_side(const void *pointer)
{
	return (void *)((uintptr_t)pointer - ARENA_SIDE_BYTES);
}

/* Can a block of `bytes` be at `offset`? Both may have any value. */
static inline bool arena_has_block(const struct arena *arena, uint64_t offset, uint64_t bytes)
{
	return offset != 0 && offset % ARENA_BLOCK_BYTES_MIN == 0 && offset < arena->bytes &&
		bytes <= arena->bytes - offset;
}

/* Does `pointer` lie in the arena's memory, on either side? False before arena_init(). */
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
