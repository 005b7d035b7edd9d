/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_RDMA_POOL_H
#define URNIC_NVMF_COMMON_RDMA_POOL_H

/*
 * A pool of registered buffers.
 *
 * A queue registers its memory once, when it is created. Each command takes contiguous pages of it,
 * and gives them back when it ends. The pool's size limits the commands of the queue: a command
 * that finds no room waits until another command ends. One thread at a time uses a pool.
 *
 * The memory is shared (MAP_SHARED), so that the adapter of a peer process on this host can map it.
 * The adapter would have to copy a private mapping to shared memory first, which it can do only in
 * a process without other threads and without io_uring.
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
	uint64_t *used; /* a bit for each page, set while the page is taken */
};

/*
 * Allocate and register a pool of `bytes` bytes, rounded up to whole pages. The memory is zero.
 *
 * `access`  IBV_ACCESS_* flags in addition to IBV_ACCESS_LOCAL_WRITE.
 *
 * Returns 0; or -errno, with nothing allocated.
 */
int rdma_pool_init(struct rdma_pool *pool, struct ibv_pd *pd, uint64_t bytes, int access);

/* Free a pool, whose memory no transfer uses any more. `*pool` may be all zero. */
void rdma_pool_done(struct rdma_pool *pool);

/*
 * Take a buffer of `bytes` bytes, not 0. Returns NULL if there is no room at present. The buffer
 * has old contents of other commands, so the caller writes each byte before a peer may read it.
 */
void *rdma_pool_take(struct rdma_pool *pool, uint32_t bytes);

/* Give back a buffer of rdma_pool_take(), with the same `bytes`. */
void rdma_pool_give(struct rdma_pool *pool, void *buffer, uint32_t bytes);

#endif
