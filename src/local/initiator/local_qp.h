/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same-host state of a connected queue pair, and the initiator, which executes its requests.
 *
 *     initiator.c     executes work requests
 *     receive_wait.h  waits for the target's receive request
 *     move.c          moves the bytes of requests
 *     batch.c         the fast path: executes plain requests, one or many at a time
 *     words.c         atomics and the requests of annex A19
 *     shared.h        targets with shared receive queues
 *     capture.h       captures executed requests, as if they had been packets
 *
 * Threads: everything here runs under the lane's lock.
 */
#ifndef URNIC_LOCAL_INITIATOR_LOCAL_QP_H
#define URNIC_LOCAL_INITIATOR_LOCAL_QP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arith.h"
#include "local/channel/channel.h"
#include "local/channel/peer.h"
#include "local/initiator/receive_wait.h"
#include "qp/qp.h"

struct local_lane;
struct local_watch;

/* Does a rate apply to the queue pair? Its requests then need packets. */
static inline bool local_is_paced(const struct qp *qp)
{
	return qp->pace && pace_has_rate(qp);
}

/* The numbers that a capture shows for executed requests (capture.h). */
struct local_captured {
	bool has_begun;
	struct psn next; /* PSN of the next captured packet */
	struct msn msn;
	uint64_t now_ns; /* when the request that is being captured was executed */
	/* The models for the key `model_key`: the request packet, and the response to a READ */
	uint64_t model_key;
	struct capture_model request, response;
};

/*
 * The same-host state of a connected queue pair. Room `peer` allocates it with the connection. Most
 * of many queue pairs are idle, so it has only what an idle one needs: to be a target, and to begin
 * as initiator.
 */
struct local_qp {
	struct qp_local base; /* qp->local */
	struct qp *qp;
	const struct local_owner *owner;
	struct request_channel *channel;
	struct channel_ring *ring; /* the ring of `channel` */
	uint64_t channel_offset;
	struct local_lane *lane;
	struct local_watch *watch; /* NULL: the channel is not watched */
	/* Records have taken receive requests that collect_all() has not counted yet */
	bool has_taken;
	bool is_unsound; /* the channel had an invalid record, so no more records are collected */
	uint32_t last_taken; /* channel_record.taken of the last record that set has_taken */
	struct peer *peer; /* NULL: unknown, or its process has ended */
	/* Channels of the peer's lane that has the peer's queue pair */
	const struct channel_table *table;
};

/*
 * The state of the queue pair as initiator (qp->initiator). It lies in pages that an idle queue
 * pair does not touch, and is zero until local_attach() is first called. All fields but `qp` and
 * `peer` are set when that function finds the target's channel.
 */
struct local_initiator {
	struct qp *qp; /* NULL: local_attach() was not called yet */
	struct peer *peer; /* local_qp.peer */
	/* The peer's channel for this queue pair; NULL: not attached */
	struct request_channel *target;
	struct channel_ring *target_ring; /* the ring of `target` */
	/*
	 * The target's receive queue; NULL: initiators may not take from it. If the target is XRC,
	 * the queue that the present request names.
	 */
	struct recv_queue *target_rq;
	struct cq_ring *target_cq;
	struct doorbell *target_doorbell;
	uint64_t target_offset;
	uint32_t generation; /* the generation of `target` when it was attached */
	bool is_inside; /* a request is being executed, and its in-use mark in `target` is set */
	uint32_t collected_seen; /* the value of target->collected that was last read */
	uint32_t posted_seen; /* the count of requests posted to target_rq that was last read */
	bool is_rq_shared; /* other queue pairs take from target_rq, too */
	const struct srq_directory *target_srqs; /* NULL unless the target is XRC */
	uint64_t target_serial; /* if the target is XRC, the serial of target_rq */
	uint32_t target_srqn; /* the number by which target_rq was found, or SHARED_NO_SRQN */
	uint32_t target_pd; /* the protection domain of the regions that remote keys name */
	uint32_t target_recv_pd;
	bool has_handed_over; /* the last record has opcode CHANNEL_TAKEN */
	uint32_t taken_seen; /* rq_taken() when the shared queue was last seen empty */
	/* The value that rq_take_peeked() needs to take the request that shared_peek() has found */
	uint64_t peeked;
	struct mr_cached own; /* the last lookup of an lkey of this queue pair's requests */
	struct mr_cached remote; /* the last lookup of a remote key */
	struct mr_cached receive; /* the last lookup of a key that a receive request names */
	struct receive_wait wait; /* the wait for a receive request */
	/* A SEND WITH INVALIDATE was executed, and the owner may not have collected it yet */
	bool is_invalidating;
	uint32_t invalidated_number; /* count of records up to and including that SEND */
	bool has_unmapped_atomics; /* an atomic named memory that this process has not mapped */
	uint32_t unmapped_key; /* the key that the last such atomic named */
	struct local_captured captured;
};

static inline struct local_qp *local_from_qp(const struct qp *qp)
{
	return container_of(qp->local, struct local_qp, base);
}

/* The functions `can_execute` and `execute` of struct qp_local_ops. */
bool local_can_execute(struct qp *qp, const struct send_wqe *wqe);
enum qp_local_result local_execute(struct qp *qp, const struct send_wqe *wqe, uint64_t now_ns,
	uint64_t *ret_at_ns, enum fault *ret_fault);

/*
 * The fast path (batch.c): execute and complete the plain requests at the head of the send queue.
 * The caller has just posted to `qp`, whose qp->initiator is set. Requests are executed only for an
 * RC queue pair whose requester has nothing under way. Returns false when requests remain for the
 * transport.
 */
bool local_execute_posted(struct qp *qp, uint64_t now_ns);

/*
 * Find the peer's channel for this queue pair, which has a struct local_initiator. Returns false
 * when the peer has not opened the channel.
 */
bool local_attach(struct qp *qp);

#endif
