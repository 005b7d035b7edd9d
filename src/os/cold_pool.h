/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_COLD_POOL_H
#define URNIC_OS_COLD_POOL_H

/*
 * Memory for state that any object may need, but that few objects ever use. The pool hands out
 * zeroed objects of one size, in pages of their own. The kernel allocates no memory for a page
 * before its first use. So such state costs an idle object nothing, and its first use allocates
 * nothing that could fail.
 *
 * The pool keeps its memory for later objects. The caller serializes all calls on a pool.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/export.h"

struct cold_pool {
	size_t object_bytes; /* the size of an object, a multiple of 8 */
	void **free; /* free objects; the array has room for all objects */
	uint32_t free_count;
	uint32_t made_count; /* number of objects that were ever handed out */
	uint8_t *chunk; /* the unused rest of the newest chunk */
	size_t chunk_bytes;
};

#define COLD_POOL_OF(type)                   \
	{                                    \
		.object_bytes = sizeof(type) \
	}

/* Returns a zeroed object, or NULL when out of memory. */
void *cold_pool_take(struct cold_pool *pool) URNIC_EXPORT_AS(cold_pool_take);

/*
 * Give an object back. `is_used` says that its memory may not be zero any more. With NULL nothing
 * happens.
 */
void cold_pool_give(struct cold_pool *pool, void *object, bool is_used)
	URNIC_EXPORT_AS(cold_pool_give);

#endif
