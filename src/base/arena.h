/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * NIC memory: a range of pages, from which the NIC allocates blocks. An offset names a block.
 *
 * Peers on the same host may map this memory (queues, the table of regions, public state of queue
 * pairs). So its contents refer to each other by offset, never by pointer. Offset 0 means "none". A
 * block that peers have no use for may hold pointers of its owner.
 * The caller brings the pages: a memfd in production, plain memory in tests. The kernel allocates
 * no memory for a page that is never touched.
 *
 * The sizes of blocks are powers of two, from 64 bytes up. Each size has a free list, so an
 * allocation takes a few instructions and never walks a list. Blocks are not split or merged,
 * because a NIC creates objects of few sizes again and again. Blocks of up to a quarter of a chunk
 * share chunks with blocks of the same size. So the headers of a thousand queue pairs share pages.
 * Their rings lie in other pages, which an idle queue pair does not touch.
 *
 * Two tables at the end of the owner's side record the size of each block, and which blocks are
 * allocated. arena_free() asserts that the block is allocated.
 *
 * The memory has two sides. arena_alloc() hands out the owner's side, which other processes map
 * read-only in production. Each byte of it has a twin on the peers' side, ARENA_SIDE_BYTES above
 * it, which other processes may write. An object that peers write has two parts at the same offset,
 * one on each side. Each field lies on the side of the process that writes it. So the owner trusts
 * what it reads on its own side, and nothing that it reads on the peers' side.
 *
 * Threads: the caller serializes alloc and free (set-up path). Any thread may call arena_at().
 */
#ifndef URNIC_BASE_ARENA_H
#define URNIC_BASE_ARENA_H

#include <stdbool.h>
#include <stdint.h>

enum {
	ARENA_BLOCK_BYTES_MIN = 64,
	/*
	 * The offset of the first block, which is one page. So each chunk takes whole pages.
	 * Otherwise two chunks would share a page, and a used chunk would take a page of an idle
	 * one.
	 */
	ARENA_FIRST_OFFSET = 4096,
	ARENA_CLASS_COUNT = 32,
	ARENA_CHUNK_BYTES = 16384,
};

/*
 * The distance from a block to its twin on the peers' side, and so the largest size of the owner's
 * side. Valgrind limits it: a program under Valgrind has 124 GiB of address space, and maps at most
 * 32 GiB at once.
 */
#define ARENA_SIDE_BYTES (1ull << 33)

/* The bytes of address space that both sides take, when each side has `bytes` of memory. */
#define ARENA_SPAN(bytes) (ARENA_SIDE_BYTES + (bytes))

struct arena {
	uint8_t *base;
	uint64_t bytes; /* the size of the owner's side */
	uint64_t used_bytes; /* offset of the end of all chunks that were ever reserved */
	uint64_t live_bytes; /* total size of the blocks that are allocated now */
	uint64_t free_list[ARENA_CLASS_COUNT]; /* offset of the first free block of each class */
	/* For each class: the offset of the unused rest of its newest chunk. */
	uint64_t fresh[ARENA_CLASS_COUNT];
	/* The size of that rest; 0: the class needs another chunk. */
	uint64_t fresh_bytes[ARENA_CLASS_COUNT];
	uint64_t tables; /* offset of the tables, which is the end of the blocks */
	uint8_t *chunk_class; /* for each chunk: the class of its blocks, plus 1; 0: never used */
	uint8_t *live; /* a bit for each 64 bytes: does an allocated block begin there? */
};

/*
 * Manage the ARENA_SPAN(bytes) of address space at `base`, which is aligned to 64. Two parts of it
 * are zeroed memory: `bytes` at `base`, and `bytes` at `base` + ARENA_SIDE_BYTES. The caller keeps
 * both mapped until the arena's last use.
 */
void arena_init(struct arena *arena, void *base, uint64_t bytes);

/*
 * Allocate a block of at least `bytes` (1 and up), aligned to 64 and zeroed on the owner's side.
 * Its twin has the contents that the twin's last user left. Returns the block's offset, or 0 when
 * the arena is full.
 */
uint64_t arena_alloc(struct arena *arena, uint64_t bytes);

/* arena_alloc() for a caller that uses only the twin: the twin is zeroed, the block is not. */
uint64_t arena_alloc_shared(struct arena *arena, uint64_t bytes);

/* arena_alloc() that zeroes both the block and its twin. */
uint64_t arena_alloc_both(struct arena *arena, uint64_t bytes);

/*
 * Free the block at `offset`. With offset 0 nothing happens. The function asserts that an allocated
 * block begins at any other offset.
 */
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

/* Can a block of `bytes` lie at `offset`? Both arguments may have any value. */
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
