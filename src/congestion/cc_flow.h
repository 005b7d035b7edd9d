/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_CONGESTION_CC_FLOW_H
#define URNIC_CONGESTION_CC_FLOW_H

/*
 * Congestion control of one queue pair. At the sender it sets the rate (the reaction point), and at
 * the receiver it answers marks (the notification point).
 *
 * The caller reports events, and asks for the rate before it sends. The parameters say which
 * algorithm computes the rate. A flow starts without limit, at the line's rate. A zeroed struct
 * with params, line_kbps and packet_bytes set is a new flow. A flow holds no resources.
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
	uint64_t cnp_from_ns; /* the earliest time of the notification point's next CNP */
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

/* The caller sends a packet of `bytes`. */
void cc_flow_on_sent(struct cc_flow *flow, uint32_t bytes, uint64_t now_ns);

/* An acknowledgement for `packets`, at least 1, has shown a round trip of `rtt_ns`. */
void cc_flow_on_ack(struct cc_flow *flow, uint64_t rtt_ns, uint32_t packets, uint64_t now_ns);

/* The rate now; 0: no limit. */
uint32_t cc_flow_rate_kbps(struct cc_flow *flow, uint64_t now_ns);

/*
 * A packet that a switch has marked arrived from the peer. Returns whether the caller has to send a
 * CNP now. While marks arrive, that is once in each np_min_time_between_cnps.
 */
static inline bool cc_flow_on_mark(struct cc_flow *flow, uint64_t now_ns)
{
	if (now_ns < flow->cnp_from_ns)
		return false;
	flow->cnp_from_ns = now_ns + flow->params->np_min_time_between_cnps * UINT64_C(1000);
	return true;
}

#endif
