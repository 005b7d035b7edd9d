/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_CONGESTION_CC_FLOW_H
#define URNIC_CONGESTION_CC_FLOW_H

/*
 * Congestion control of one queue pair: at the sender the rate that it may send at (the reaction
 * point), at the receiver the answer to marks (the notification point).
 *
 * The caller reports what happens and asks for the rate before it sends. Which algorithm answers is
 * the parameters' matter. A flow starts without limit, at the line's rate. A zeroed struct with
 * params, line_kbps and packet_bytes is a new flow; it holds no resources.
 */

#include <stdbool.h>
#include <stdint.h>

#include "congestion/cc_params.h"
#include "congestion/dcqcn.h"
#include "congestion/swift.h"

struct cc_flow {
	const struct cc_params *params;
	uint32_t line_kbps; /* the rate of the interface, above 0 */
	uint32_t packet_bytes; /* length of a full packet on the wire; for Swift only */
	uint64_t cnp_from_ns; /* the notification point may send the next CNP */
	union {
		struct dcqcn dcqcn;
		struct swift swift;
	};
};

/*
 * A CNP from the peer. Returns whether the algorithm obeys CNPs. `now_ns`, here and below, is not
 * earlier than in any previous call on the flow.
 */
bool cc_flow_on_cnp(struct cc_flow *flow, uint64_t now_ns);

/* A packet of `bytes` is sent. */
void cc_flow_on_sent(struct cc_flow *flow, uint32_t bytes, uint64_t now_ns);

/* A round trip of `rtt_ns` was measured, by an acknowledgement for `packets`, at least 1. */
void cc_flow_on_ack(struct cc_flow *flow, uint64_t rtt_ns, uint32_t packets, uint64_t now_ns);

/* The rate now; 0: no limit. */
uint32_t cc_flow_rate_kbps(struct cc_flow *flow, uint64_t now_ns);

/*
 * A packet that a switch has marked arrived from the peer. Returns whether a CNP is to be sent now:
 * at most one in np_min_time_between_cnps, and at least one while marks arrive.
 */
static inline bool cc_flow_on_mark(struct cc_flow *flow, uint64_t now_ns)
{
	if (now_ns < flow->cnp_from_ns)
		return false;
	flow->cnp_from_ns = now_ns + flow->params->np_min_time_between_cnps * UINT64_C(1000);
	return true;
}

#endif
