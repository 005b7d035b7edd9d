/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_QP_EVENT_H
#define URNIC_QP_EVENT_H

/*
 * Events of a queue pair for a capture that asks for them (struct capture_public). While there is
 * no capture, an event reads one word. The caller holds the lane's lock.
 */

#include "lane/lane.h"

struct qp;

/* Record the event. The capture asks for events. */
void qp_event_put(const struct qp *qp, const struct captured_event *event);

/* Record the event, if a capture asks for events. `lane` is the queue pair's. */
static inline void qp_event(const struct lane *lane, const struct qp *qp,
	enum captured_event_kind kind, uint64_t wr_id, uint32_t number, uint32_t bytes,
	uint32_t count)
{
	if (__builtin_expect(lane_is_captured(lane), 0) &&
		atomic_load_explicit(&lane->capture_public->with_events, memory_order_relaxed))
		qp_event_put(qp, &(struct captured_event){wr_id, kind, number, bytes, count});
}

#endif
