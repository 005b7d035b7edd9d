/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting call by call: the functions of struct ibv_qp_ex.
 *
 * wr_start opens a critical region, and wr_complete or wr_abort closes it. In between, requests are
 * built in the slots of the send queue behind the last posted request; the NIC does not read these
 * slots yet. wr_complete posts all the requests at once, wr_abort discards them. If any call in the
 * region had an error, wr_complete returns the first error and posts nothing.
 *
 * One thread at a time is in the critical region of a queue pair. Meanwhile ibv_post_send() in
 * another thread waits, unless a thread domain promises that only one thread posts. The NIC never
 * waits for the region.
 */
#ifndef URNIC_FRONT_VERBS_WR_H
#define URNIC_FRONT_VERBS_WR_H

#include <stdbool.h>
#include <stddef.h>

#include "front/verbs/abi.h"
#include "os/busy_lock.h"
#include "queue/qp_type.h"
#include "queue/sq.h"

struct qp_front;

struct wr_builder {
	bool is_locking;
	/* Each request must name a destination: an address handle or a shared receive queue */
	bool is_target_said;
	struct busy_lock lock;
	struct sq_batch batch;
	/* The current request; &scratch: there is none, or a call had an error */
	struct send_wqe *wqe;
	int error; /* the first error, a positive errno; 0: none */
	bool awaits_target; /* the current request has no destination yet */
	struct send_wqe scratch;
};

/*
 * The public structure in headers newer than rdma-core 44's, which add a member at its end. The
 * installed headers may or may not have that member. A program calls only operations that it has
 * named in send_ops_flags.
 */
struct wr_extended {
	char before_flush[offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void *)];
	void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len,
		uint8_t type, uint8_t level);
};

/* IBV_QP_EX_WITH_FLUSH of newer headers. */
#define WR_WITH_FLUSH (1u << 11)

/*
 * Does a queue pair of this type have all these operations? `send_ops_flags` has bits of enum
 * ibv_qp_create_send_ops_flags, or any other bits.
 */
bool wr_are_supported(enum qp_type type, uint64_t send_ops_flags);

/* Set the functions of the public structure. */
void wr_builder_init(struct qp_front *qp, uint64_t send_ops_flags);

static inline void wr_builder_lock(struct wr_builder *builder)
{
	if (builder->is_locking)
		busy_lock(&builder->lock);
}

static inline void wr_builder_unlock(struct wr_builder *builder)
{
	if (builder->is_locking)
		busy_unlock(&builder->lock);
}

#endif
