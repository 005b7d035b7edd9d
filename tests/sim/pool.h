/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A shared receive queue in the simulator, with the buffers behind it.
 *
 * Which message gets which request is not known beforehand, so every buffer is large enough for
 * all. The pool counts the posted requests, resizes the queue, arms its limit, and requires one
 * signal for each time that it armed.
 */
#ifndef URNIC_TESTS_SIM_POOL_H
#define URNIC_TESTS_SIM_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "heap.h"
#include "world.h"

enum { POOL_BUFFER_COUNT_MAX = 32 };

struct pool {
	struct world *world;
	struct host *host;
	struct srq srq;
	uint64_t wr_id_base; /* of its requests; the low 16 bits are the buffer */
	struct heap heap;
	uint32_t buffer_count;
	struct piece_list buffer[POOL_BUFFER_COUNT_MAX];
	bool is_posted[POOL_BUFFER_COUNT_MAX];
	uint32_t limit; /* that is armed; 0 when none is */
	bool was_below; /* the limit, and its owner has not heard of it yet */
	uint32_t told_count; /* signals in the last step; world.c counts */
};

/* `init` but for the owner and the scatter/gather entries. */
void pool_init(struct pool *pool, struct world *world, struct host *host, struct srq_init init,
	uint64_t wr_id_base);
void pool_done(struct pool *pool);

/* Make the buffers, each for `bytes` at least. */
void pool_plan(struct pool *pool, uint32_t buffer_count, uint32_t bytes);

/* Post up to `count` buffers that are free. */
void pool_post(struct pool *pool, uint32_t count);

/* Resize the queue and arm its limit, at random. */
void pool_change(struct pool *pool);

/*
 * To be called after each step of the world: were the limit signals raised when they should be?
 * With `is_late` they may come later, because the owner has not yet collected what others took.
 */
void pool_check(struct pool *pool, bool is_late);

/* The one among `count` pools that posted this request, or NULL. */
struct pool *pool_of(struct pool *pools, uint32_t count, uint64_t wr_id);

/* The buffer of a completion was looked at: it may be posted again. */
void pool_release(struct pool *pool, uint32_t buffer);

#endif
