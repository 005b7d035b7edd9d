/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The common part of the unreliable transports (UC and UD). A request is complete when it was sent,
 * or executed through the memory of a peer on this host. So only the oldest request makes progress:
 * it is executed without packets, is sent, or waits.
 *
 * Everything runs under the lane's lock.
 */
#ifndef URNIC_IB_UNRELIABLE_H
#define URNIC_IB_UNRELIABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "qp/qp.h"

/* A transport's steps through its send queue. */
struct unreliable_steps {
	/* The oldest request, if it may be executed or sent now; else NULL. */
	struct send_wqe *(*next)(struct qp *qp, uint64_t now_ns);
	/*
	 * Execute the request without packets, if possible. After QP_LOCAL_DONE or QP_LOCAL_FAILED
	 * the caller completes the request. If the function has set *ret_fault, the request
	 * completes with that fault.
	 */
	enum qp_local_result (*execute)(
		struct qp *qp, struct send_wqe *wqe, uint64_t now_ns, enum fault *ret_fault);
};

/*
 * Execute and complete the requests that need no packet. Returns the request to send next, or NULL
 * when no request is ready to be sent.
 */
struct send_wqe *unreliable_next(
	struct qp *qp, const struct unreliable_steps *steps, uint64_t now_ns);

/*
 * Call unreliable_next() for newly posted requests, and schedule the queue pair if one needs
 * packets.
 */
void unreliable_posted(struct qp *qp, const struct unreliable_steps *steps, uint64_t now_ns);

/* For qp_transport.expire: retry the request that waited. */
void unreliable_expire(struct qp *qp, uint64_t now_ns);

/*
 * May the same-host transport execute this request? It may not if a packet of the request was sent.
 */
static inline bool unreliable_is_local(struct qp *qp, const struct send_wqe *wqe)
{
	return qp->local && !wqe->is_started && !wqe->goes_by_packets &&
		qp->local->ops->can_execute(qp, wqe);
}

/*
 * Act on `result`: execute the request without packets (QP_LOCAL_DONE), wait until `at_ns`
 * (QP_LOCAL_LATER), or fall back to packets (QP_LOCAL_PACKETS). Returns the final result, and sets
 * the deadline. The caller completes the request.
 */
enum qp_local_result unreliable_execute(struct qp *qp, struct send_wqe *wqe,
	enum qp_local_result result, uint64_t at_ns, uint64_t now_ns);

#endif
