/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of rdma-core 45 to 65, and their structures. The installed header may not have these calls,
 * or may have structures with fewer members. So this header gives them other names; EXPORTED_AS
 * sets a call's name in the ABI. A structure's comp_mask says which of its members the program has
 * set; the calls read no other members.
 *
 * A call returns 0, or a positive errno, which it also stores in errno. A call whose result is a
 * pointer or a descriptor returns NULL or -1 instead, and sets errno.
 */
#ifndef URNIC_FRONT_VERBS_NEWER_H
#define URNIC_FRONT_VERBS_NEWER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "front/verbs/abi.h"

#define EXPORTED_AS(name) __asm__(name) __attribute__((visibility("default")))

/* --- IBVERBS_1.15: handles for hints about DMA, and registration with all of its options --- */

/* The ABI's struct ibv_dmah_init_attr. */
struct dma_handle_attr {
	uint32_t comp_mask; /* bits DMA_HANDLE_... */
	uint32_t cpu_id;
	uint8_t processing_hint;
	uint8_t memory_type; /* 0: volatile, 1: persistent */
};

enum {
	DMA_HANDLE_CPU_ID = 1 << 0,
	DMA_HANDLE_PROCESSING_HINT = 1 << 1,
	DMA_HANDLE_MEMORY_TYPE = 1 << 2,
	DMA_HANDLE_KNOWN = (1 << 3) - 1,
};

/* The ABI's struct ibv_dmah. Programs see only the context. */
struct dma_handle {
	struct ibv_context *context;
	atomic_uint users; /* number of regions registered with the handle */
};

/*
 * Fails with EINVAL for a hint above 3, a processor that the machine does not have, or an unknown
 * memory type.
 */
struct dma_handle *dma_handle_alloc(struct ibv_context *context, const struct dma_handle_attr *attr)
	EXPORTED_AS("ibv_alloc_dmah");

/* Returns EBUSY while a region uses the handle. */
int dma_handle_dealloc(struct dma_handle *handle) EXPORTED_AS("ibv_dealloc_dmah");

/* The ABI's struct ibv_buf. */
struct buffer {
	struct ibv_pd *pd;
	void *address;
	size_t bytes;
};

/* The ABI's struct ibv_mr_init_attr. */
struct mr_attr {
	size_t length;
	int access; /* bits of enum ibv_access_flags */
	uint64_t comp_mask; /* bits MR_ATTR_... */
	uint64_t iova; /* valid with MR_ATTR_IOVA; otherwise `address` is the iova */
	void *address;
	int fd; /* DMA-buf; needs MR_ATTR_FD_OFFSET and MR_ATTR_IOVA, excludes MR_ATTR_ADDRESS */
	uint64_t fd_offset;
	struct dma_handle *dma_handle; /* excludes IBV_ACCESS_ON_DEMAND */
	struct buffer *buffer; /* the buffer that contains the region; needs MR_ATTR_ADDRESS */
};

enum {
	MR_ATTR_IOVA = 1 << 0,
	MR_ATTR_ADDRESS = 1 << 1,
	MR_ATTR_FD = 1 << 2,
	MR_ATTR_FD_OFFSET = 1 << 3,
	MR_ATTR_DMA_HANDLE = 1 << 4,
	MR_ATTR_BUFFER = 1 << 5,
	MR_ATTR_KNOWN = (1 << 6) - 1,
};

struct ibv_mr *mr_register_ex(struct ibv_pd *pd, const struct mr_attr *attr)
	EXPORTED_AS("ibv_reg_mr_ex");

/* --- IBVERBS_1.16 --- */

/* The speed of the port in units of 100 Mb/s. */
int port_speed_query(struct ibv_context *context, uint32_t port, uint64_t *ret_speed)
	EXPORTED_AS("ibv_query_port_speed");

/* Fails with EOPNOTSUPP, because device memory of this NIC is no DMA-buf. */
int dm_export_dmabuf(struct ibv_dm *dm) EXPORTED_AS("ibv_dm_export_dmabuf_fd");

/* --- IBVERBS_1.17 and 1.18: memory that the library allocates --- */

/* Allocate whole pages of zeroes. The caller frees *ret_buffer before it deallocates `pd`. */
void *buffer_alloc(struct ibv_pd *pd, size_t bytes, struct buffer **ret_buffer)
	EXPORTED_AS("ibv_alloc_buf");
void buffer_free(struct buffer *buffer) EXPORTED_AS("ibv_free_buf");

/*
 * Fails with EINVAL if `pd` is not the domain of the buffer, or the range is not within the buffer.
 */
struct ibv_mr *buffer_register(struct ibv_pd *pd, struct buffer *buffer, void *address,
	size_t length, int access) EXPORTED_AS("ibv_reg_buf_mr");

/* Is the range within the buffer, which was allocated in `pd`? */
bool buffer_contains(
	const struct buffer *buffer, const struct ibv_pd *pd, const void *address, size_t length);

/* Fails with ENODATA, because the memory is no DMA-buf. */
int buffer_export_dmabuf(struct buffer *buffer) EXPORTED_AS("ibv_export_buf_dmabuf_fd");

/* --- IBVERBS_1.18: completion counters (queue/completion_counter.h) --- */

/* The ABI's struct ibv_comp_cntr_caps. */
struct comp_counter_caps {
	uint64_t max_value;
	uint32_t max_counters;
	uint32_t supported_operations; /* bits of enum counted_operation */
};

/* The ABI's struct ibv_comp_cntr_init_attr. */
struct comp_counter_attr {
	uint32_t comp_mask; /* must be 0 */
	uint32_t type; /* COMP_COUNTER_... */
	uint32_t flags; /* must be 0 */
};

enum { COMP_COUNTER_REQUESTS, COMP_COUNTER_BYTES };

/* The ABI's struct ibv_comp_cntr. */
struct comp_counter {
	struct ibv_context *context;
	uint32_t handle;
};

/* The ABI's struct ibv_qp_attach_comp_cntr_attr. */
struct comp_counter_attach_attr {
	uint32_t comp_mask; /* must be 0 */
	uint32_t operations; /* bits of enum counted_operation */
};

/* Writes `bytes` bytes, the size of the structure as the program knows it. */
int comp_counter_query_caps(struct ibv_context *context, struct comp_counter_caps *ret_caps,
	size_t bytes) EXPORTED_AS("_ibv_query_comp_cntr_caps");

/* Fails with EINVAL, with EOPNOTSUPP for an unknown type, or with ENOMEM. */
struct comp_counter *comp_counter_create(struct ibv_context *context,
	const struct comp_counter_attr *attr) EXPORTED_AS("ibv_create_comp_cntr");

/*
 * Returns EBUSY while a queue pair uses the counter. All calls with a destroyed counter return
 * ENOENT.
 */
int comp_counter_destroy(struct comp_counter *counter) EXPORTED_AS("ibv_destroy_comp_cntr");

/*
 * Let `counter` count completions of the queue pair until the queue pair is destroyed. Returns
 * EINVAL for a queue pair that is neither in RESET nor in INIT; EBUSY when another counter has one
 * of the operations; EOPNOTSUPP for operations of the peer, for raw packets and for XRC_RECV.
 */
int comp_counter_attach(struct ibv_qp *qp, struct comp_counter *counter,
	const struct comp_counter_attach_attr *attr) EXPORTED_AS("ibv_qp_attach_comp_cntr");

/* Read the number of requests, or of bytes, that have completed successfully. */
int comp_counter_read(struct comp_counter *counter, uint64_t *ret_value)
	EXPORTED_AS("ibv_read_comp_cntr");
/* Read the number of requests that have completed with an error. */
int comp_counter_read_errors(struct comp_counter *counter, uint64_t *ret_value)
	EXPORTED_AS("ibv_read_err_comp_cntr");

int comp_counter_set(struct comp_counter *counter, uint64_t value) EXPORTED_AS("ibv_set_comp_cntr");
int comp_counter_set_errors(struct comp_counter *counter, uint64_t value)
	EXPORTED_AS("ibv_set_err_comp_cntr");
int comp_counter_add(struct comp_counter *counter, uint64_t amount)
	EXPORTED_AS("ibv_inc_comp_cntr");
int comp_counter_add_errors(struct comp_counter *counter, uint64_t amount)
	EXPORTED_AS("ibv_inc_err_comp_cntr");

#endif
