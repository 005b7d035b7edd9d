/* SPDX-License-Identifier: BSD-2-Clause */
/* The same-host transport, as a queue pair sees it. src/local has the operations. */
#ifndef URNIC_QP_QP_LOCAL_H
#define URNIC_QP_QP_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#include "lane/counter.h"
#include "queue/completion.h"
#include "queue/qp_type.h"
#include "queue/rq.h"
#include "queue/sq.h"
#include "wire/psn.h"

struct qp;

/* What the same-host transport has done with a request. */
enum qp_local_result {
	QP_LOCAL_DONE,
	QP_LOCAL_FAILED, /* the request was executed, and failed by a fault of the initiator */
	QP_LOCAL_LATER, /* not executed yet, because the peer is not ready */
	QP_LOCAL_PACKETS, /* fallback: packets execute it, or report its error */
};

/*
 * The operations of the same-host transport on a queue pair (src/local). If the peer is on this
 * host, the initiator's own thread executes requests. The requester calls execute() before it cuts
 * a request into packets.
 */
struct qp_local_ops {
	/*
	 * Can execute() probably execute a request like this one now? A hint: execute() may still
	 * refuse.
	 */
	bool (*can_execute)(struct qp *qp, const struct send_wqe *wqe);
	/*
	 * Execute a request; all requests before it are complete. If this process or the peer would
	 * refuse the request, it falls back to packets, and no bytes are moved. QP_LOCAL_LATER sets
	 * *ret_at_ns to the time of the next attempt, QP_LOCAL_FAILED sets *ret_fault.
	 */
	enum qp_local_result (*execute)(struct qp *qp, const struct send_wqe *wqe, uint64_t now_ns,
		uint64_t *ret_at_ns, enum fault *ret_fault);
	/*
	 * Complete the requests that the peer has executed without packets. The transport calls
	 * this before it executes a packet of the peer. The call may move the queue pair to the
	 * error state.
	 */
	void (*collect)(struct qp *qp, uint64_t now_ns);
	/*
	 * The state has changed from `old` to qp->state. Called after the transport's
	 * state_changed(), and before the queues are flushed.
	 */
	void (*state_changed)(struct qp *qp, enum qp_state old, uint64_t now_ns);
	/* Attributes have changed. Called before the state changes. */
	void (*modified)(struct qp *qp);
	/*
	 * For transports without acknowledgements. The initiator calls has_arrived(): has the peer
	 * processed all packets before `next`, and does the peer keep no receive request for a
	 * later packet? The receiver calls arrived(), which reports to the peer the PSN that the
	 * receiver expects, and whether the receiver keeps a receive request. For a datagram queue
	 * pair, arrived() only reports that another packet came.
	 */
	bool (*has_arrived)(const struct qp *qp, struct psn next);
	void (*arrived)(struct qp *qp, struct psn expected, bool keeps_receive);
	/*
	 * For datagram queue pairs from whose receive queue other processes take, too. First
	 * complete the requests that those processes have taken, then take one for `bytes` bytes.
	 * Returns COUNTER_COUNT on success; or, when there is no request that is long enough, the
	 * counter for the dropped packet. The call may move the queue pair to the error state.
	 */
	enum counter (*take)(
		struct qp *qp, uint64_t bytes, struct recv_wqe *ret_receive, uint64_t now_ns);
	/* A window's key was invalidated: wait until the peer no longer uses the key. */
	void (*quiesce)(struct qp *qp, uint32_t key);
};

struct qp_local {
	const struct qp_local_ops *ops;
};

#endif
