/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the unreliable transports (UC and UD) have in common: a request is complete when it was
 * sent, or executed through the memory of a peer on this host. So each request in its turn is
 * executed without packets, or sent, or waits.
 *
 * All of this runs under the lane's lock.
 */
#ifndef URNIC_IB_UNRELIABLE_H
#define URNIC_IB_UNRELIABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "qp/qp.h"

/* How a transport goes through its send queue. */
struct unreliable_steps {
	/* The oldest request, if it may be executed or sent now; else NULL. */
	struct send_wqe *(*next)(struct qp *qp, uint64_t now_ns);
	/*
	 * Execute it without packets, if that is possible. DONE or FAILED completes it, with the
	 * fault of its own that *ret_fault was set to, if any.
	 */
	enum qp_local_result (*execute)(
		struct qp *qp, struct send_wqe *wqe, uint64_t now_ns, enum fault *ret_fault);
};

/*
 * Execute and complete the requests that need no packet. Returns the request to send next,
 * or NULL when no request is ready to be sent.
 */
struct send_wqe *unreliable_next(
	struct qp *qp, const struct unreliable_steps *steps, uint64_t now_ns);

/* The same when requests were posted: what needs packets is scheduled. */
void unreliable_posted(struct qp *qp, const struct unreliable_steps *steps, uint64_t now_ns);

/* For qp_transport.expire: the request that waited is tried again. */
void unreliable_expire(struct qp *qp, uint64_t now_ns);

/* May the same-host transport execute this request, of which nothing was sent? */
static inline bool unreliable_is_local(struct qp *qp, const struct send_wqe *wqe)
{
	return qp->local && !wqe->is_started && !wqe->goes_by_packets &&
		qp->local->ops->can_execute(qp, wqe);
}

/*
 * Execute it, if `way` is DONE; the transport may have found that it has to wait until `at_ns`
 * (LATER), or goes by packets. Returns what became of it, and sets the deadline.
 */
enum qp_local_result unreliable_execute(struct qp *qp, struct send_wqe *wqe,
	enum qp_local_result result, uint64_t at_ns, uint64_t now_ns);

#endif
