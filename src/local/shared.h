/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LOCAL_SHARED_H
#define URNIC_LOCAL_SHARED_H

/*
 * Targets that receive from a shared receive queue.
 *
 * Several initiators and the responder take receive requests from it. So a request is not taken by
 * the publication of its record, as one of a queue pair's own queue is, but by a compare-and-swap
 * in the ring (queue/rq.h), before its buffer is written. From then on it is reserved until its
 * record is published: channel_reservation names the request and the number of that record.
 *
 * An initiator that cannot fill the buffer after all hands the request over, by a record with
 * CHANNEL_TAKEN: the responder receives the message, which falls back to packets, with it. If the
 * channel is closed first, or the initiator has died, the owner finds the reservation, and the
 * request completes as flushed with the queue pair. An initiator that is killed between the
 * compare-and-swap and the next store loses the request; the queue goes on.
 *
 * Threads: as local.h.
 */

#include <stdbool.h>
#include <stdint.h>

#include "local/local.h"

/* No queue has this number. */
#define SHARED_NO_SRQN UINT32_MAX

/* --- the initiator --- */

/*
 * Select the receive queue that a request to an XRC target names. Its protection domain is that of
 * all checks of the request. The initiator has a mark in the channel, so the queue stays. False:
 * the target's process has no such queue, and the request falls back to packets.
 */
bool shared_select(struct local_qp *local, uint32_t srqn);

/*
 * The receive request that a message could take now. False: there is none. When other initiators
 * have taken requests since the last call, the wait for one begins anew: the target is alive, and a
 * message in packets would have to wait, too.
 */
bool shared_peek(struct local_qp *local, struct recv_wqe *receive);

/*
 * Take it. The initiator has a mark in the channel, which has room for a record. False when another
 * initiator or the responder was faster.
 */
bool shared_take(struct local_qp *local, const struct recv_wqe *receive);

/* Hand the request that was taken last, and has no record, over to the target's responder. */
void shared_hand_over(struct local_qp *local);

/* --- the owner --- */

/* The offset of this queue pair's receive queue; 0: initiators may not take from it. */
uint64_t shared_rq_offset(const struct qp *qp);

/* The queue that a record names; NULL when it is gone. */
struct srq *shared_srq_of(const struct qp *qp, uint32_t srqn);

/* Collect a record with CHANNEL_TAKEN. */
void shared_collect(struct local_qp *local, uint64_t now_ns);

/*
 * The channel is closed and its records are collected: take back the request that its initiator had
 * still reserved.
 */
void shared_reclaim(struct local_qp *local, uint64_t now_ns);

#endif
