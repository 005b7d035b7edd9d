/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LOCAL_SHARED_H
#define URNIC_LOCAL_SHARED_H

/*
 * Targets that receive from a shared receive queue.
 *
 * Several initiators take from it, and packets do. So a request is not taken by its record, as one
 * of a queue pair's own is, but by a compare-and-swap in the ring (queue/rq.h), before its buffer
 * is touched. From then on until its record is published it is held, as a responder holds one in
 * the middle of a message: the channel names it, and the number of the record that is to come.
 *
 * An initiator that cannot fill the buffer after all hands the request over: a record says so, and
 * the message that comes by packets is received with it. If the channel is closed first, or the
 * initiator has died, then the owner finds what is held, and it completes as flushed with the queue
 * pair. Who is killed between the compare-and-swap and the next store takes one request with it;
 * the queue goes on.
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
 * An XRC target: the request that is executed names this queue of its domain, with whose protection
 * domain all of it is checked. We are in the channel, and stay there: the queue does not go away
 * meanwhile. False: the target's process has no such queue, and the request goes by packets.
 */
bool shared_select(struct local_qp *local, uint32_t srqn);

/*
 * The request that a message could take now. False: there is none. Who waits for one begins to
 * count anew when others have had some meanwhile: the target is there, and packets would have to
 * wait, too.
 */
bool shared_peek(struct local_qp *local, struct recv_wqe *receive);

/*
 * Take it. We are in the channel, and it has room for a record. False when somebody else was
 * faster.
 */
bool shared_take(struct local_qp *local, const struct recv_wqe *receive);

/*
 * What was taken last has no record and gets none of its own: let the target's responder have it.
 */
void shared_hand_over(struct local_qp *local);

/* --- the owner --- */

/* Where the receive requests of this queue pair are for initiators; 0: they are not. */
uint64_t shared_rq_offset(const struct qp *qp);

/* The queue that this record is about; NULL when it is gone. */
struct srq *shared_srq_of(const struct qp *qp, uint32_t srqn);

/* A record says that a request was taken and nothing else. */
void shared_collect(struct local_qp *local, uint64_t now_ns);

/*
 * The channel is closed and its records are collected: what its initiator still held is ours again.
 */
void shared_reclaim(struct local_qp *local, uint64_t now_ns);

#endif
