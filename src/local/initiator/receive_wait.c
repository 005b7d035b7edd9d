/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/initiator/receive_wait.h"

#include "base/arith.h"

/*
 * The initiator looks at the receive queue again after half of the time that it has waited so far,
 * within these limits.
 */
#define LOOK_NS_MIN 2000u
#define LOOK_NS_MAX 100000u

static uint32_t posted_of(const struct recv_queue *rq)
{
	return atomic_load_explicit(&rq->posted, memory_order_relaxed);
}

void receive_wait_begin(struct receive_wait *wait, const struct recv_queue *rq)
{
	wait->is_waiting = false;
	wait->has_given_up = wait->gives_up && rq && rq_count(rq) == 0;
	wait->given_up_posted = rq ? posted_of(rq) : 0;
}

enum qp_local_result receive_wait_more(
	struct receive_wait *wait, uint64_t now_ns, uint64_t *ret_at_ns)
{
	uint64_t waited_ns;

	/*
	 * In the first call `now_ns` may be old, because a posting thread does not read the clock
	 * for each post. So the wait counts from the second call, which a deadline causes.
	 */
	if (!wait->is_waiting) {
		wait->is_waiting = true;
		wait->since_ns = 0;
	} else if (!wait->since_ns) {
		wait->since_ns = now_ns;
	}
	waited_ns = wait->since_ns ? now_ns - wait->since_ns : 0;
	if (waited_ns >= wait->budget_ns) {
		wait->is_waiting = false;
		wait->budget_ns /= 2;
		return QP_LOCAL_PACKETS;
	}
	*ret_at_ns = now_ns + min_u64(max_u64(waited_ns / 2, LOOK_NS_MIN), LOOK_NS_MAX);
	return QP_LOCAL_LATER;
}

enum qp_local_result receive_wait_for(struct receive_wait *wait, const struct recv_queue *rq,
	uint64_t now_ns, uint64_t *ret_at_ns)
{
	uint32_t posted = posted_of(rq);
	enum qp_local_result result;

	if (wait->has_given_up && wait->given_up_posted == posted)
		return QP_LOCAL_PACKETS;
	result = receive_wait_more(wait, now_ns, ret_at_ns);
	wait->has_given_up = wait->gives_up && result == QP_LOCAL_PACKETS;
	wait->given_up_posted = posted;
	return result;
}
