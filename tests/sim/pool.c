/* SPDX-License-Identifier: BSD-2-Clause */
#include "pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"

void pool_init(struct pool *pool, struct world *world, struct host *host, struct srq_init init,
	uint64_t wr_id_base)
{
	memset(pool, 0, sizeof(*pool));
	pool->world = world;
	pool->host = host;
	pool->wr_id_base = wr_id_base;
	init.sge_count_max = PIECE_COUNT_MAX;
	init.number = srq_table_number(
		host->srqs, (uint8_t)host->number, sim_random_next(&world->random));
	if (srq_init(&pool->srq, &host->arena, &init))
		abort();
	srq_table_add(host->srqs, &pool->srq);
}

void pool_done(struct pool *pool)
{
	srq_table_remove(pool->host->srqs, &pool->srq);
	srq_done(&pool->srq, &pool->host->arena);
	heap_done(&pool->heap);
}

void pool_plan(struct pool *pool, uint32_t buffer_count, uint32_t bytes)
{
	pool->buffer_count = buffer_count;
	heap_init(&pool->heap, pool->world, pool->host,
		buffer_count * (bytes + 64ull * (PIECE_COUNT_MAX + 1)));
	for (uint32_t i = 0; i < buffer_count; i++) {
		uint32_t more = (uint32_t)sim_random_below(&pool->world->random, 16);

		heap_take_pieces(&pool->heap, &pool->buffer[i], bytes + more, PIECE_COUNT_MAX);
	}
}

void pool_post(struct pool *pool, uint32_t count)
{
	uint32_t depth = pool->srq.rq->depth;

	pool->was_below |= rq_count(pool->srq.rq) < pool->limit;
	for (uint32_t i = 0; i < pool->buffer_count && count; i++) {
		struct recv_wr wr = {
			pool->wr_id_base | i, pool->buffer[i].sge, pool->buffer[i].count};

		if (pool->is_posted[i])
			continue;
		int error = srq_post(&pool->srq, &wr);
		bool is_full = rq_count(pool->srq.rq) == depth;
		WORLD_CHECK(pool->world, error == 0 || (error == -ENOMEM && is_full),
			"post to srq %06x: %d", pool->srq.number, error);
		if (error)
			break;
		pool->is_posted[i] = true;
		count--;
	}
}

struct pool *pool_of(struct pool *pools, uint32_t count, uint64_t wr_id)
{
	for (uint32_t i = 0; i < count; i++)
		if (pools[i].wr_id_base == (wr_id & ~(uint64_t)UINT16_MAX))
			return &pools[i];
	return NULL;
}

void pool_release(struct pool *pool, uint32_t buffer)
{
	WORLD_CHECK(pool->world, buffer < pool->buffer_count && pool->is_posted[buffer],
		"request %u of srq %06x completed twice", buffer, pool->srq.number);
	pool->is_posted[buffer] = false;
	for (uint32_t i = 0; i < pool->buffer[buffer].count; i++)
		heap_clear_piece(&pool->buffer[buffer].sge[i]);
}

void pool_change(struct pool *pool)
{
	struct sim_random *random = &pool->world->random;
	struct recv_queue *rq = pool->srq.rq;
	uint32_t waiting = rq_count(rq);
	uint32_t depth = (uint32_t)sim_random_between(random, 1, 2 * POOL_BUFFER_COUNT_MAX);
	int error = rq_resize(&pool->host->arena, rq, depth);

	WORLD_CHECK(pool->world, error == (waiting > depth ? -EINVAL : 0),
		"resize to %u with %u waiting: %d", depth, waiting, error);
	WORLD_CHECK(pool->world, rq_count(rq) == waiting, "resize lost requests");
	pool->limit = (uint32_t)sim_random_between(random, 0, rq->depth);
	pool->was_below = false;
	if (rq_set_limit(rq, pool->limit)) {
		WORLD_CHECK(pool->world, waiting < pool->limit, "limit told too early");
		pool->limit = 0;
	}
}

void pool_check(struct pool *pool, bool is_late)
{
	bool is_below = rq_count(pool->srq.rq) < pool->limit;
	bool is_told = pool->told_count != 0;

	pool->was_below |= is_below;
	WORLD_CHECK(pool->world,
		pool->told_count <= pool->was_below && (is_told || !is_below || is_late),
		"srq %06x: %u left, limit %u, told %u times", pool->srq.number,
		rq_count(pool->srq.rq), pool->limit, pool->told_count);
	/* Who hears of it late finds the queue filled again, perhaps. */
	pool->was_below &= is_late && !is_told;
	if (is_told)
		pool->limit = 0;
	pool->told_count = 0;
}
