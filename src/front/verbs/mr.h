/* SPDX-License-Identifier: BSD-2-Clause */
/* The ABI's memory regions. Each stands for a region of the NIC, which has the same key. */
#ifndef URNIC_FRONT_VERBS_MR_H
#define URNIC_FRONT_VERBS_MR_H

#include "front/verbs/object.h"

struct mr {
	struct ibv_mr verbs;
	struct object object;
	pthread_mutex_t lock; /* guards is_retired, and the fields that ibv_rereg_mr() changes */
	struct object *pd;
	struct object *dm; /* the device memory that contains the region, or NULL */
	/* The handle with which the region was registered, or NULL */
	struct dma_handle *dma_handle;
	struct {
		void *address; /* start of a mapping made for this region, or NULL */
		size_t bytes;
		int fd; /* descriptor of the DMA-buf that is mapped there */
	} mapping;
	uint64_t iova;
	unsigned int access;
	/* ibv_rereg_mr() refuses the region, because it is not ordinary memory of the program */
	bool is_fixed;
	bool is_pinned; /* its pages are counted (strict_pin()) */
	/*
	 * The NIC has no region for this one any more, and another region may have the key now.
	 * Guarded by `lock`
	 */
	bool is_retired;
};

/*
 * Register a region of memory of any origin.
 *
 * `made`    The caller has set address, length, dm and mapping. On success the region owns dm and
 *           mapping.
 * `iova`    The address that peers use for the first byte, unless the region is zero-based.
 * `access`  enum ibv_access_flags, any bits.
 * `is_own`  The memory is the program's: check that it is mapped.
 *
 * NULL with errno on failure.
 */
struct ibv_mr *mr_make(
	struct ibv_pd *pd, const struct mr *made, uint64_t iova, unsigned int access, bool is_own);

void mr_free(void *memory);

/* Unmap what ibv_reg_dmabuf_mr() mapped. Close `fd`, its duplicate of the program's descriptor. */
void dmabuf_unmap(void *address, size_t bytes, int fd);

#endif
