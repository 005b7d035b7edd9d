/* SPDX-License-Identifier: BSD-2-Clause */
#include "congestion/cc_flow.h"

#include "base/arith.h"

#define NS_PER_MS     UINT64_C(1000000)
#define KBPS_PER_MBPS UINT64_C(1000)

/* Longer round trips count as this one: they show a pause of the machine, not congestion. */
#define RTT_NS_MAX UINT64_C(1000000000)

bool cc_flow_on_cnp(struct cc_flow *flow, uint64_t now_ns)
{
	if (flow->params->algorithm != CC_DCQCN)
		return false;
	dcqcn_on_cnp(&flow->dcqcn, flow->params, flow->line_kbps, now_ns);
	return true;
}

void cc_flow_on_sent(struct cc_flow *flow, uint32_t bytes, uint64_t now_ns)
{
	if (flow->params->algorithm == CC_DCQCN)
		dcqcn_on_sent(&flow->dcqcn, flow->params, flow->line_kbps, bytes, now_ns);
}

void cc_flow_on_ack(struct cc_flow *flow, uint64_t rtt_ns, uint32_t packets, uint64_t now_ns)
{
	uint64_t line_packets;

	if (flow->params->algorithm != CC_SWIFT)
		return;
	rtt_ns = min_u64(max_u64(rtt_ns, 1), RTT_NS_MAX);
	line_packets = flow->line_kbps * rtt_ns / NS_PER_MS / 8 / flow->packet_bytes + 1;
	swift_on_ack(&flow->swift, flow->params, (uint32_t)min_u64(line_packets, UINT32_MAX),
		rtt_ns, packets, now_ns);
}

/*
 * The rate that sends one window in each round trip. A kilobit per second is a bit per millisecond.
 */
static uint64_t swift_rate_kbps(const struct cc_flow *flow)
{
	uint64_t window_bits = (uint64_t)flow->swift.window * flow->packet_bytes * 8;

	return window_bits / SWIFT_PACKET * NS_PER_MS / flow->swift.rtt_ns;
}

uint32_t cc_flow_rate_kbps(struct cc_flow *flow, uint64_t now_ns)
{
	uint64_t rate_kbps;

	switch (flow->params->algorithm) {
	case CC_OFF:
	case CC_ALGORITHM_COUNT:
		break;
	case CC_DCQCN:
		dcqcn_advance(&flow->dcqcn, flow->params, flow->line_kbps, now_ns);
		return flow->dcqcn.is_limited ? flow->dcqcn.current_kbps : 0;
	case CC_SWIFT:
		if (!flow->swift.is_limited)
			break;
		rate_kbps =
			max_u64(swift_rate_kbps(flow), flow->params->rp_min_rate * KBPS_PER_MBPS);
		return rate_kbps < flow->line_kbps ? (uint32_t)rate_kbps : 0;
	}
	return 0;
}
