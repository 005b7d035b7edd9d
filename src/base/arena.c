/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/arena.h"

#include <assert.h>
#include <string.h>

#include "base/arith.h"

static unsigned block_class(uint64_t bytes)
{
	unsigned class = 0;

	while (((uint64_t)ARENA_BLOCK_BYTES_MIN << class) < bytes)
		class ++;
	return class;
}

void arena_init(struct arena *arena, void *base, uint64_t bytes)
{
	assert(base && bytes > ARENA_BLOCK_BYTES_MIN && bytes <= ARENA_SIDE_BYTES);
	memset(arena, 0, sizeof(*arena));
	arena->base = base;
	arena->bytes = bytes;
	arena->used_bytes = ARENA_BLOCK_BYTES_MIN; /* so that no block has offset 0 */
}

/* A block as its last user left it; *ret_is_used is false when the block is still zeroed. */
static uint64_t block_take(struct arena *arena, uint64_t bytes, bool *ret_is_used)
{
	assert(bytes > 0);
	if (bytes > arena->bytes)
		return 0;

	unsigned class = block_class(bytes);
	if (class >= ARENA_CLASS_COUNT)
		return 0;
	uint64_t block_bytes = (uint64_t)ARENA_BLOCK_BYTES_MIN << class;
	uint64_t offset = arena->free_list[class];

	*ret_is_used = offset != 0;
	if (offset) {
		memcpy(&arena->free_list[class], arena_at(arena, offset), sizeof(uint64_t));
	} else {
		if (block_bytes > arena->bytes - arena->used_bytes)
			return 0;
		offset = arena->used_bytes;
		arena->used_bytes += block_bytes;
	}
	arena->live_bytes += block_bytes;
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

void arena_free(struct arena *arena, uint64_t offset, uint64_t bytes)
{
	if (!offset)
		return;

	unsigned class = block_class(bytes);
	assert(class < ARENA_CLASS_COUNT);
	assert(range_inside(offset, bytes, 0, arena->used_bytes));
	memcpy(arena_at(arena, offset), &arena->free_list[class], sizeof(uint64_t));
	arena->free_list[class] = offset;
	arena->live_bytes -= (uint64_t)ARENA_BLOCK_BYTES_MIN << class;
}
