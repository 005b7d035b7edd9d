/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_RDMA_CHAIN_H
#define URNIC_NVMF_COMMON_RDMA_CHAIN_H

/*
 * Send requests that one call of ibv_post_send() posts. An adapter in software then sends them
 * together, so that the peer wakes up only once.
 *
 * The caller sets `count` to 0, adds up to RDMA_CHAIN_MAX requests, and posts them. A chain may be
 * on the stack, because ibv_post_send() keeps no pointer to it. One thread at a time uses a chain.
 */

#include <stdint.h>

#include <infiniband/verbs.h>

enum { RDMA_CHAIN_MAX = 32 };

struct rdma_chain {
	uint32_t count;
	struct ibv_send_wr wrs[RDMA_CHAIN_MAX];
	struct ibv_sge sges[RDMA_CHAIN_MAX];
};

/*
 * Add a request for the `length` bytes at `bytes`, which lie in `mr`, to a chain that has room.
 * The caller sets the other members of the request: flags, the remote address, the key to
 * invalidate.
 */
static inline struct ibv_send_wr *rdma_chain_add(struct rdma_chain *chain, uint64_t wr_id,
	enum ibv_wr_opcode opcode, const void *bytes, uint32_t length, const struct ibv_mr *mr)
{
	struct ibv_send_wr *wr = &chain->wrs[chain->count];
	struct ibv_sge *sge = &chain->sges[chain->count];

	*sge = (struct ibv_sge){.addr = (uintptr_t)bytes, .length = length, .lkey = mr->lkey};
	*wr = (struct ibv_send_wr){.wr_id = wr_id, .sg_list = sge, .num_sge = 1, .opcode = opcode};
	if (chain->count)
		wr[-1].next = wr;
	chain->count++;
	return wr;
}

#endif
