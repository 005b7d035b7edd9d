/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LOCAL_HOSTED_H
#define URNIC_LOCAL_HOSTED_H

/*
 * XRC targets whose shared receive queue belongs to a third process.
 *
 * The queue pair is the target's, the queue and the memory are the host's. Whoever sends to such a queue by packets has the target
 * place them, as a guest of the host (local/far.h). What the target has found out for that it tells in NIC
 * memory (struct srq_hosted): that the queue is of its domain, and which process has it. So the initiator can be a guest there as well. It is in the
 * target's inbox while it executes a request, so that the target's queue pair stays what it is, and marks what it uses in a seat of
 * the host's. The record goes there, too; the target gets none, and counts.
 *
 * A receive request that was taken is held in the target's inbox until its record is published (local/shared.h). The target is a guest of the
 * same host, so it can do with what was handed over, or left behind, what it does with one of its own queues.
 *
 * Who the host is takes system calls to see: the queue pair asks, requests go by packets meanwhile, and somebody answers. So do
 * all requests to a queue whose host cannot be reached.
 *
 * Threads: as local.h.
 */

#include <stdbool.h>
#include <stdint.h>

#include "local/far.h"
#include "local/local.h"

/* A queue of a third process, as the initiator sees it. The runtime makes it for a queue pair that asks. */
struct hosted_srq {
	struct list link; /* in local_qp.hosted */
	const struct srq_hosted *told; /* by the target */
	uint32_t number;
	uint64_t serial;
	bool is_reached; /* else there is no more to it */
	struct far_srq far;
	struct guest_seat *seat; /* ours at the host, of the two lanes */
};

/* See shared_select(). Marks the seat; guest_leave() undoes it. */
bool hosted_select(struct local_qp *local, uint32_t srqn);

/* Can a record be published? If not, the host was woken. */
bool hosted_has_room(struct local_qp *local);

/*
 * The receive request, which was taken from the queue at hand, was filled: complete it. False when the target's inbox was closed: nothing was
 * published.
 */
bool hosted_deliver(struct local_qp *local, const struct send_wqe *wqe, uint32_t opcode,
	const struct recv_wqe *receive);

/* --- who may make system calls --- */

/*
 * Answer a queue pair that asks (local_lane.asking) for the queue `asked_srqn`, which `asked_host` is said to have. `srq` is zeroed but for
 * `is_reached`, `far` and `seat`, and the queue pair's until it is taken back.
 */
void hosted_answer(struct local_qp *local, struct hosted_srq *srq);

/* Take back one of which `is_it` says so; NULL: there is none. */
struct hosted_srq *hosted_take(struct local_qp *local,
	bool (*is_it)(const struct hosted_srq *srq, const void *context), const void *context);

/* The queue pair asks no more, and uses none of them. */
void hosted_end(struct local_qp *local);

#endif
