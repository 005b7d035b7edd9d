/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_RDMA_POOL_H
#define URNIC_NVMF_COMMON_RDMA_POOL_H

/*
 * A pool of registered buffers.
 *
 * A queue registers its memory once, when it is made. Then each command takes pages that are
 * contiguous, and gives them back. The pool's size is the queue's limit: a command that finds no
 * room waits for another one to end. One thread at a time.
 *
 * The memory is shared (MAP_SHARED), so that the adapter of a peer process on this host can map it.
 * A private mapping would have to be moved first, which needs a process without other threads and
 * without io_uring.
 */

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

enum { RDMA_POOL_PAGE_BYTES = 4096 };

struct rdma_pool {
	struct ibv_mr *mr;
	uint8_t *bytes; /* page-aligned */
	uint32_t page_count;
	uint32_t search_page; /* where the next search begins */
	uint64_t *used; /* a bit for each page */
};

/*
 * Make and register a pool of `bytes`, rounded up to pages, which are zero.
 *
 * `access`  IBV_ACCESS_*, beside IBV_ACCESS_LOCAL_WRITE.
 *
 * 0 or -errno, with nothing left behind.
 */
int rdma_pool_init(struct rdma_pool *pool, struct ibv_pd *pd, uint64_t bytes, int access);

/* Free a pool, or do nothing for one that is all zero. No transfer uses its memory any more. */
void rdma_pool_done(struct rdma_pool *pool);

/*
 * Take `bytes`, not 0. NULL if there is no room at present. The pages have the contents of an
 * earlier command: write each byte before a peer may read it.
 */
void *rdma_pool_take(struct rdma_pool *pool, uint32_t bytes);

/* Give back what rdma_pool_take() returned for the same number of bytes. */
void rdma_pool_give(struct rdma_pool *pool, void *buffer, uint32_t bytes);

#endif
