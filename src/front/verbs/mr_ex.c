/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registration with all of its options, and handles for hints about DMA. A hint tells an adapter to
 * which processor's cache to write. The thread that runs this NIC copies on its current processor,
 * so a handle has no effect.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/arith.h"
#include "front/verbs/mr.h"
#include "front/verbs/newer.h"
#include "front/verbs/result.h"

/* A processing hint of PCI Express has two bits. */
enum { HINT_MAX = 3 };

struct dma_handle *dma_handle_alloc(struct ibv_context *context, const struct dma_handle_attr *attr)
{
	uint32_t mask = attr->comp_mask;
	struct dma_handle *handle;

	if (mask & ~(uint32_t)DMA_HANDLE_KNOWN)
		return result_null("ibv_alloc_dmah", result_cause(REASON_UNSUPPORTED_BITS));
	if (((mask & DMA_HANDLE_MEMORY_TYPE) && attr->memory_type > 1) ||
		((mask & DMA_HANDLE_PROCESSING_HINT) && attr->processing_hint > HINT_MAX) ||
		((mask & DMA_HANDLE_CPU_ID) && attr->cpu_id >= sysconf(_SC_NPROCESSORS_CONF)))
		return result_null("ibv_alloc_dmah", result_cause(REASON_DMAH_VALUE));
	handle = malloc(sizeof(*handle));
	if (!handle)
		return result_null("ibv_alloc_dmah", result_cause(REASON_NO_MEMORY));
	handle->context = context;
	atomic_init(&handle->users, 0);
	return handle;
}

int dma_handle_dealloc(struct dma_handle *handle)
{
	uint32_t users = atomic_load(&handle->users);

	if (users)
		return result_of("ibv_dealloc_dmah",
			nic_failure_cause_fact(REASON_IN_USE, FACT_users, users));
	free(handle);
	return 0;
}

/* Check that the man page permits this combination of attributes. Returns 0 or a positive errno. */
static int mr_attr_check(const struct mr_attr *attr)
{
	uint64_t mask = attr->comp_mask;
	uint64_t of_fd = MR_ATTR_FD | MR_ATTR_FD_OFFSET | MR_ATTR_IOVA;

	if (mask & ~(uint64_t)MR_ATTR_KNOWN)
		return result_cause(REASON_UNSUPPORTED_BITS);
	if ((mask & MR_ATTR_DMA_HANDLE) && (attr->access & IBV_ACCESS_ON_DEMAND))
		return result_cause(REASON_MR_EX_SOURCE);
	if (mask & (MR_ATTR_FD | MR_ATTR_FD_OFFSET))
		return (mask & of_fd) == of_fd && !(mask & (MR_ATTR_ADDRESS | MR_ATTR_BUFFER))
			? 0
			: result_cause(REASON_MR_EX_SOURCE);
	return mask & MR_ATTR_ADDRESS ? 0 : result_cause(REASON_MR_EX_SOURCE);
}

struct ibv_mr *mr_register_ex(struct ibv_pd *pd, const struct mr_attr *attr)
{
	int error = mr_attr_check(attr);
	struct ibv_mr *mr;

	if (!error && (attr->comp_mask & MR_ATTR_BUFFER) &&
		!buffer_contains(attr->buffer, pd, attr->address, attr->length))
		error = result_cause(REASON_BUFFER_RANGE);
	if (error)
		return result_null("ibv_reg_mr_ex", error);
	if (attr->comp_mask & MR_ATTR_FD)
		mr = ibv_reg_dmabuf_mr(
			pd, attr->fd_offset, attr->length, attr->iova, attr->fd, attr->access);
	else
		mr = ibv_reg_mr_iova2(pd, attr->address, attr->length,
			attr->comp_mask & MR_ATTR_IOVA ? attr->iova : (uintptr_t)attr->address,
			(unsigned int)attr->access);
	if (mr && (attr->comp_mask & MR_ATTR_DMA_HANDLE)) {
		container_of(mr, struct mr, verbs)->dma_handle = attr->dma_handle;
		atomic_fetch_add(&attr->dma_handle->users, 1);
	}
	return mr;
}
