/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LOCAL_INITIATOR_SHARED_H
#define URNIC_LOCAL_INITIATOR_SHARED_H

/*
 * Targets that receive from a shared receive queue.
 *
 * Several initiators and the responder take receive requests from a shared receive queue. So an
 * initiator takes a request by a compare-and-swap in the ring (queue/rq.h), before it fills the
 * buffer. (From a queue pair's own queue an initiator takes a request by publishing the record.)
 * The request is reserved from the compare-and-swap until its record is published. Meanwhile
 * channel_reservation names the request and the sequence of that record.
 *
 * If an initiator cannot fill the buffer of a request that it has taken, it hands the request over
 * by a record with CHANNEL_TAKEN. The message falls back to packets, and the responder receives it
 * with that request. If the channel is closed before that record, or the initiator dies, the owner
 * finds the reservation. Then the request completes as flushed when the queue pair is flushed. If
 * an initiator is killed between the compare-and-swap and the store of the reservation, the request
 * is lost; the queue continues with the next one.
 *
 * Threads: the caller holds the lane's lock.
 */

#include <stdbool.h>
#include <stdint.h>

#include "local/initiator/local_qp.h"

/* The value of local_qp.target_srqn when no queue is selected. No queue has this number. */
#define SHARED_NO_SRQN UINT32_MAX

/* --- the initiator --- */

/*
 * Select the receive queue that a request to an XRC target names. All keys of the request are
 * checked in that queue's protection domain. The initiator has a mark in the channel, so the owner
 * does not free the queue. Returns false when the target's process has no such queue; then the
 * request falls back to packets.
 */
bool shared_select(struct local_initiator *local, uint32_t srqn);

/*
 * Find the receive request that a message could take now. Returns false when there is none. If
 * other initiators have taken requests since the queue was last empty, the target does post
 * requests. Then this initiator's wait begins anew, because packets would have to wait for a
 * request, too.
 */
bool shared_peek(struct local_initiator *local, struct recv_wqe *receive);

/*
 * Take the request that shared_peek() has found. The initiator has a mark in the channel, which has
 * room for a record. Returns false when another initiator or the responder has taken the request
 * first.
 */
bool shared_take(struct local_initiator *local, const struct recv_wqe *receive);

/* Hand the last taken request, which has no record, over to the target's responder. */
void shared_hand_over(struct local_initiator *local);

/* --- the owner --- */

/* request_channel.rq_offset for this queue pair; 0: initiators may not take from its queue. */
uint64_t shared_rq_offset(const struct qp *qp);

/* The shared receive queue of a record of this queue pair; NULL: there is none. */
struct srq *shared_srq_of(const struct qp *qp, uint32_t srqn);

/* Collect a record with CHANNEL_TAKEN. */
void shared_collect(struct local_qp *local, uint64_t now_ns);

/*
 * The channel is closed and its records are collected. Take back the request that its initiator has
 * reserved without publishing a record for it.
 */
void shared_reclaim(struct local_qp *local, uint64_t now_ns);

#endif
