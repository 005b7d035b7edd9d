/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/arena.h"

#include <assert.h>
#include <string.h>

#include "base/arith.h"

/* Offset 0 means "none", so the first chunk and its first block begin at this offset. */
#define FIRST_OFFSET ((uint64_t)ARENA_FIRST_OFFSET)

static unsigned block_class(uint64_t bytes)
{
	unsigned class = 0;

	while (((uint64_t)ARENA_BLOCK_BYTES_MIN << class) < bytes)
		class ++;
	return class;
}

void arena_init(struct arena *arena, void *base, uint64_t bytes)
{
	uint64_t class_bytes = bytes / ARENA_CHUNK_BYTES + 1;
	uint64_t live_bytes = bytes / ARENA_BLOCK_BYTES_MIN / 8 + 1;

	assert(base && bytes <= ARENA_SIDE_BYTES);
	assert(bytes >= FIRST_OFFSET + ARENA_CHUNK_BYTES + class_bytes + live_bytes);
	memset(arena, 0, sizeof(*arena));
	arena->base = base;
	arena->bytes = bytes;
	arena->used_bytes = FIRST_OFFSET;
	arena->tables = bytes - class_bytes - live_bytes;
	arena->chunk_class = arena_at(arena, arena->tables);
	arena->live = arena->chunk_class + class_bytes;
}

static uint8_t *chunk_class_of(const struct arena *arena, uint64_t offset)
{
	return &arena->chunk_class[(offset - FIRST_OFFSET) / ARENA_CHUNK_BYTES];
}

/*
 * Reserve `bytes`, a multiple of ARENA_CHUNK_BYTES, for blocks of `class`. Returns the offset of
 * these bytes, or 0 when the arena is full.
 */
static uint64_t chunks_take(struct arena *arena, unsigned class, uint64_t bytes)
{
	uint64_t offset = arena->used_bytes;

	if (bytes > arena->tables - offset)
		return 0;
	arena->used_bytes += bytes;
	*chunk_class_of(arena, offset) = (uint8_t)(class + 1);
	return offset;
}

/* Returns the offset of a block that was never used, or 0 when the arena is full. */
static uint64_t block_fresh(struct arena *arena, unsigned class)
{
	uint64_t block_bytes = (uint64_t)ARENA_BLOCK_BYTES_MIN << class;
	uint64_t offset;

	if (block_bytes > ARENA_CHUNK_BYTES / 4)
		return chunks_take(arena, class, align_up_u64(block_bytes, ARENA_CHUNK_BYTES));
	if (!arena->fresh_bytes[class]) {
		offset = chunks_take(arena, class, ARENA_CHUNK_BYTES);
		if (!offset)
			return 0;
		arena->fresh[class] = offset;
		arena->fresh_bytes[class] = ARENA_CHUNK_BYTES;
	}
	offset = arena->fresh[class];
	arena->fresh[class] += block_bytes;
	arena->fresh_bytes[class] -= block_bytes;
	return offset;
}

static bool is_live(const struct arena *arena, uint64_t offset)
{
	uint64_t index = offset / ARENA_BLOCK_BYTES_MIN;

	return arena->live[index / 8] >> index % 8 & 1;
}

static void live_flip(struct arena *arena, uint64_t offset)
{
	uint64_t index = offset / ARENA_BLOCK_BYTES_MIN;

	arena->live[index / 8] ^= (uint8_t)(1u << index % 8);
}

/*
 * Allocate a block with the contents that its last user left. *ret_is_used is false when the block
 * was never used, and is therefore zeroed. Returns the block's offset, or 0 when the arena is full.
 */
static uint64_t block_take(struct arena *arena, uint64_t bytes, bool *ret_is_used)
{
	assert(bytes > 0);
	if (bytes > arena->bytes)
		return 0;

	unsigned class = block_class(bytes);
	uint64_t offset = arena->free_list[class];

	*ret_is_used = offset != 0;
	if (offset)
		memcpy(&arena->free_list[class], arena_at(arena, offset), sizeof(uint64_t));
	else
		offset = block_fresh(arena, class);
	if (!offset)
		return 0;
	assert(!is_live(arena, offset));
	live_flip(arena, offset);
	arena->live_bytes += (uint64_t)ARENA_BLOCK_BYTES_MIN << class;
	return offset;
}

uint64_t arena_alloc(struct arena *arena, uint64_t bytes)
{
	bool is_used;
	uint64_t offset = block_take(arena, bytes, &is_used);

	if (offset && is_used)
		memset(arena_at(arena, offset), 0, bytes);
	return offset;
}

uint64_t arena_alloc_shared(struct arena *arena, uint64_t bytes)
{
	bool is_used;
	uint64_t offset = block_take(arena, bytes, &is_used);

	if (offset && is_used)
		memset(arena_peers_side(arena_at(arena, offset)), 0, bytes);
	return offset;
}

uint64_t arena_alloc_both(struct arena *arena, uint64_t bytes)
{
	bool is_used;
	uint64_t offset = block_take(arena, bytes, &is_used);

	if (offset && is_used) {
		memset(arena_at(arena, offset), 0, bytes);
		memset(arena_peers_side(arena_at(arena, offset)), 0, bytes);
	}
	return offset;
}

void arena_free(struct arena *arena, uint64_t offset)
{
	if (!offset)
		return;
	assert(offset % ARENA_BLOCK_BYTES_MIN == 0 && offset < arena->used_bytes);
	assert(is_live(arena, offset));

	unsigned class = *chunk_class_of(arena, offset) - 1u;

	assert(class < ARENA_CLASS_COUNT);
	live_flip(arena, offset);
	memcpy(arena_at(arena, offset), &arena->free_list[class], sizeof(uint64_t));
	arena->free_list[class] = offset;
	arena->live_bytes -= (uint64_t)ARENA_BLOCK_BYTES_MIN << class;
}
