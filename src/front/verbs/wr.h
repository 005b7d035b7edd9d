/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting call by call: the functions of struct ibv_qp_ex.
 *
 * wr_start opens a region that is closed by wr_complete or wr_abort. What is built in it is written
 * straight into the slots of the send queue behind the last posted one, where the NIC does not
 * look; wr_complete posts all of it at once, wr_abort forgets it. The first call that goes wrong
 * decides: wr_complete returns its error, and nothing is posted.
 *
 * One thread at a time is in the region of a queue pair, and meanwhile ibv_post_send() on it waits;
 * unless a thread domain says that only one thread posts. The NIC is not held up.
 */
#ifndef URNIC_FRONT_VERBS_WR_H
#define URNIC_FRONT_VERBS_WR_H

#include <stdbool.h>

#include "front/verbs/abi.h"
#include "os/busy_lock.h"
#include "queue/qp_type.h"
#include "queue/sq.h"

struct qp_front;

struct wr_builder {
	bool is_there; /* the queue pair was created with IBV_QP_INIT_ATTR_SEND_OPS_FLAGS */
	bool is_locking;
	bool is_target_said; /* requests say where they go: to an address or a queue */
	struct busy_lock lock;
	struct sq_batch batch;
	struct send_wqe
		*wqe; /* the request being built; `scratch` when there is none, or after an error */
	int error; /* the first, a positive errno; 0 while there is none */
	/* A datagram without an address, or an XRC request without a queue, so far */
	bool awaits_target;
	struct send_wqe scratch;
};

/*
 * The public structure as programs know it that were compiled against headers newer than rdma-core
 * 44's: it grows at its end, and a program calls only what it has asked for in send_ops_flags.
 */
struct wr_extended {
	struct ibv_qp_ex known;
	void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len,
		uint8_t type, uint8_t level);
};

/* IBV_QP_EX_WITH_FLUSH of those headers. */
#define WR_WITH_FLUSH (1u << 11)

/*
 * Has a queue pair of this type all of these operations, enum ibv_qp_create_send_ops_flags or any
 * other bits?
 */
bool wr_are_supported(enum qp_type type, uint64_t send_ops_flags);

/* Set the functions of the public structure. */
void wr_builder_init(struct qp_front *qp, uint64_t send_ops_flags);

/* The queue pair has its NIC's part. */
void wr_builder_start(struct qp_front *qp);

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
