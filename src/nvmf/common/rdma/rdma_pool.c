/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "nvmf/common/rdma/rdma_pool.h"

enum { WORD_BITS = 64 };

static uint32_t pages_of(uint64_t bytes)
{
	return (uint32_t)((bytes + RDMA_POOL_PAGE_BYTES - 1) / RDMA_POOL_PAGE_BYTES);
}

static bool page_is_used(const struct rdma_pool *pool, uint32_t page)
{
	return pool->used[page / WORD_BITS] >> page % WORD_BITS & 1;
}

static void pages_mark(struct rdma_pool *pool, uint32_t first, uint32_t count)
{
	for (uint32_t page = first; page < first + count; page++)
		pool->used[page / WORD_BITS] ^= 1ull << page % WORD_BITS;
}

int rdma_pool_init(struct rdma_pool *pool, struct ibv_pd *pd, uint64_t bytes, int access)
{
	uint32_t pages = pages_of(bytes);
	size_t length = (size_t)pages * RDMA_POOL_PAGE_BYTES;
	void *memory =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int error = 0;

	*pool = (struct rdma_pool){.page_count = pages};
	if (memory == MAP_FAILED)
		return -errno;
	pool->used = calloc((pages + WORD_BITS - 1) / WORD_BITS, sizeof(*pool->used));
	if (!pool->used) {
		error = -ENOMEM;
	} else {
		pool->mr = ibv_reg_mr(pd, memory, length, IBV_ACCESS_LOCAL_WRITE | access);
		if (!pool->mr)
			error = errno ? -errno : -ENOMEM;
	}
	if (error) {
		(void)munmap(memory, length);
		free(pool->used);
		*pool = (struct rdma_pool){0};
		return error;
	}
	pool->bytes = memory;
	return 0;
}

void rdma_pool_done(struct rdma_pool *pool)
{
	if (pool->mr)
		(void)ibv_dereg_mr(pool->mr);
	if (pool->bytes)
		(void)munmap(pool->bytes, (size_t)pool->page_count * RDMA_POOL_PAGE_BYTES);
	free(pool->used);
	*pool = (struct rdma_pool){0};
}

/* The first of `count` free pages within [from, to); `to` if there are none. */
static uint32_t find_pages(const struct rdma_pool *pool, uint32_t from, uint32_t to, uint32_t count)
{
	uint32_t run = 0;

	for (uint32_t page = from; page < to; page++) {
		run = page_is_used(pool, page) ? 0 : run + 1;
		if (run == count)
			return page + 1 - count;
	}
	return to;
}

void *rdma_pool_take(struct rdma_pool *pool, uint32_t bytes)
{
	uint32_t count = pages_of(bytes);
	uint32_t first = find_pages(pool, pool->search_page, pool->page_count, count);

	assert(bytes > 0);
	if (first == pool->page_count)
		first = find_pages(pool, 0, pool->page_count, count);
	if (first == pool->page_count)
		return NULL;
	pages_mark(pool, first, count);
	pool->search_page = first + count;
	return pool->bytes + (size_t)first * RDMA_POOL_PAGE_BYTES;
}

void rdma_pool_give(struct rdma_pool *pool, void *buffer, uint32_t bytes)
{
	uint32_t first = (uint32_t)(((uint8_t *)buffer - pool->bytes) / RDMA_POOL_PAGE_BYTES);
	uint32_t count = pages_of(bytes);

	for (uint32_t page = first; page < first + count; page++)
		assert(page_is_used(pool, page));
	pages_mark(pool, first, count);
	/* Take these pages next, because they are still in the processor's caches. */
	pool->search_page = first;
}
