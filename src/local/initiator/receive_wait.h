/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LOCAL_INITIATOR_RECEIVE_WAIT_H
#define URNIC_LOCAL_INITIATOR_RECEIVE_WAIT_H

/*
 * How an initiator waits for a slow target: one that has posted no receive request, or one that has
 * too many records to collect. The initiator checks again at growing intervals. When the wait has
 * used up its budget, the request falls back to packets, and the peer's responder reports the
 * error.
 *
 * Threads: the caller holds the lane's lock.
 */

#include <stdbool.h>
#include <stdint.h>

#include "qp/qp.h"

/* The longest wait, which is also the first budget. */
#define RECEIVE_WAIT_NS_MAX 4000000u

struct receive_wait {
	uint64_t budget_ns;
	bool is_waiting;
	uint64_t since_ns; /* when the counted time begins; 0: at the next receive_wait_more() */
	bool gives_up; /* true if messages may be lost; then has_given_up may be set */
	bool has_given_up; /* do not wait again before the target posts a receive request */
	uint32_t given_up_posted; /* count of posted requests when has_given_up was set */
};

/*
 * From now on the target's receive queue is `rq`; NULL: the queue is not known. If `gives_up` is
 * set and the queue is empty, the initiator does not wait before the target posts a request.
 */
void receive_wait_begin(struct receive_wait *wait, const struct recv_queue *rq);

/*
 * Begin or continue to wait. Returns QP_LOCAL_LATER when the caller has to look again at
 * *ret_at_ns. Returns QP_LOCAL_PACKETS when the budget is used up; the next budget is half of it.
 */
enum qp_local_result receive_wait_more(
	struct receive_wait *wait, uint64_t now_ns, uint64_t *ret_at_ns);

/*
 * receive_wait_more() for a wait because `rq` is empty. Returns QP_LOCAL_PACKETS at once if
 * has_given_up is set and no receive request was posted since.
 */
enum qp_local_result receive_wait_for(struct receive_wait *wait, const struct recv_queue *rq,
	uint64_t now_ns, uint64_t *ret_at_ns);

/*
 * Is this the first look after the wait began, at `now_ns`? If so, the caller may wake the target.
 */
static inline bool receive_wait_is_new(const struct receive_wait *wait, uint64_t now_ns)
{
	return wait->is_waiting && wait->since_ns == now_ns;
}

#endif
