/* SPDX-License-Identifier: BSD-2-Clause */
#include "os/cold_pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { CHUNK_BYTES = 1 << 20 };

/* Take a chunk of new pages. Returns false when out of memory. */
static bool chunk_take(struct cold_pool *pool)
{
	void *chunk =
		mmap(NULL, CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (chunk == MAP_FAILED)
		return false;
	/*
	 * With a huge page, the first use of one object would allocate memory for all its
	 * neighbours.
	 */
	madvise(chunk, CHUNK_BYTES, MADV_NOHUGEPAGE);
	pool->chunk = chunk;
	pool->chunk_bytes = CHUNK_BYTES;
	return true;
}

/* Make room for one more object in `free`. Returns false when out of memory. */
static bool free_grow(struct cold_pool *pool)
{
	void **grown;

	if (pool->made_count & (pool->made_count - 1))
		return true;
	grown = realloc(pool->free, (2 * (size_t)pool->made_count + 1) * sizeof(*grown));
	if (grown)
		pool->free = grown;
	return grown != NULL;
}

void *cold_pool_take(struct cold_pool *pool)
{
	void *object;

	assert(pool->object_bytes % sizeof(uint64_t) == 0 && pool->object_bytes <= CHUNK_BYTES);
	if (pool->free_count)
		return pool->free[--pool->free_count];
	if (!free_grow(pool) || (pool->chunk_bytes < pool->object_bytes && !chunk_take(pool)))
		return NULL;
	object = pool->chunk;
	pool->chunk += pool->object_bytes;
	pool->chunk_bytes -= pool->object_bytes;
	pool->made_count++;
	return object;
}

void cold_pool_give(struct cold_pool *pool, void *object, bool is_used)
{
	if (!object)
		return;
	if (is_used)
		memset(object, 0, pool->object_bytes);
	pool->free[pool->free_count++] = object;
}
