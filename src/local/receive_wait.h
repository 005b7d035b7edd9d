/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LOCAL_RECEIVE_WAIT_H
#define URNIC_LOCAL_RECEIVE_WAIT_H

/*
 * How an initiator waits for a slow target: one that has posted no receive request, or has many
 * records to collect. The initiator checks again at growing intervals. When the wait has used up
 * its budget, the request goes by packets, and the peer's responder reports the error.
 *
 * Threads: as local.h.
 */

#include <stdbool.h>
#include <stdint.h>

#include "qp/qp.h"

/* The longest wait, which is also the first budget. */
#define RECEIVE_WAIT_NS_MAX 4000000u

struct receive_wait {
	uint64_t budget_ns;
	bool is_waiting;
	uint64_t since_ns; /* 0: since the last post */
	bool gives_up; /* messages may be lost: after a fruitless wait, wait only for a new post */
	bool has_given_up;
	uint32_t given_up_posted; /* requests that were posted by then */
};

/*
 * The target's receive queue is `rq` from here on; NULL: not known. If `gives_up` is set, the wait
 * begins only after the target has posted its first request.
 */
void receive_wait_begin(struct receive_wait *wait, const struct recv_queue *rq);

/* LATER: look again at *ret_at_ns. PACKETS: the budget is used up, and is halved. */
enum qp_local_result receive_wait_more(
	struct receive_wait *wait, uint64_t now_ns, uint64_t *ret_at_ns);

/* receive_wait_more(), because `rq` has no request. */
enum qp_local_result receive_wait_for(struct receive_wait *wait, const struct recv_queue *rq,
	uint64_t now_ns, uint64_t *ret_at_ns);

/* Was this the first look after the wait began? The target may need to be woken. */
static inline bool receive_wait_is_new(const struct receive_wait *wait, uint64_t now_ns)
{
	return wait->is_waiting && wait->since_ns == now_ns;
}

#endif
