/* SPDX-License-Identifier: BSD-2-Clause */
#include "congestion/swift.h"

#include "base/arith.h"

#define NS_PER_US UINT64_C(1000)

enum {
	THOUSAND = 1000,
	SWIFT_WINDOW_MIN = SWIFT_PACKET / THOUSAND,
	SMOOTHING = 8, /* the last round trip's part in rtt_ns is 1 / SMOOTHING */
};

/* The square root, rounded down. */
static uint64_t square_root(uint64_t value)
{
	uint64_t root = 0;

	for (uint64_t bit = UINT64_C(1) << 31; bit; bit >>= 1)
		if ((root | bit) * (root | bit) <= value)
			root |= bit;
	return root;
}

/* 1 / sqrt(window in packets), in 2^-16. `window` is at least SWIFT_WINDOW_MIN. */
static uint64_t inverse_root(uint64_t window)
{
	return (UINT64_C(1) << 32) / square_root(window << 16);
}

uint64_t swift_target_ns(const struct cc_params *params, uint32_t window)
{
	uint64_t smallest = max_u64(
		(uint64_t)params->swift_min_window * SWIFT_PACKET / THOUSAND, SWIFT_WINDOW_MIN);
	uint64_t largest = (uint64_t)params->swift_max_window * SWIFT_PACKET;
	uint64_t base_ns = params->swift_base_delay * NS_PER_US;
	uint64_t range_ns = params->swift_range_delay * NS_PER_US;
	uint64_t least, most;

	if (window >= largest)
		return base_ns;
	if (window <= smallest)
		return base_ns + range_ns;
	least = inverse_root(largest);
	most = inverse_root(smallest);
	if (least == most) /* the parameters' windows are nearly equal */
		return base_ns;
	return base_ns + range_ns * (inverse_root(window) - least) / (most - least);
}

static uint64_t window_grow(const struct cc_params *params, uint32_t window, uint32_t packets)
{
	uint64_t step = (uint64_t)params->swift_ai * SWIFT_PACKET / THOUSAND * packets;

	return window < SWIFT_PACKET ? window + step : window + step * SWIFT_PACKET / window;
}

static uint64_t window_shrink(
	const struct cc_params *params, uint32_t window, uint64_t rtt_ns, uint64_t target_ns)
{
	uint64_t excess = (rtt_ns - target_ns) * SWIFT_PACKET / rtt_ns;
	uint64_t share = min_u64(excess * params->swift_beta / THOUSAND,
		(uint64_t)params->swift_max_mdf * SWIFT_PACKET / THOUSAND);

	return window - (window * share >> 16);
}

void swift_on_ack(struct swift *swift, const struct cc_params *params, uint32_t line_packets,
	uint64_t rtt_ns, uint32_t packets, uint64_t now_ns)
{
	uint32_t window_max =
		min_u32(max_u32(line_packets, 1), SWIFT_WINDOW_PACKETS_MAX) * SWIFT_PACKET;
	uint64_t window, target_ns;

	if (!swift->window) {
		swift->window = window_max;
		swift->rtt_ns = rtt_ns;
	}
	swift->rtt_ns = swift->rtt_ns - swift->rtt_ns / SMOOTHING + rtt_ns / SMOOTHING;
	swift->rtt_ns = max_u64(swift->rtt_ns, 1);
	window = swift->window;
	target_ns = swift_target_ns(params, swift->window);
	if (rtt_ns < target_ns) {
		window = window_grow(
			params, swift->window, min_u32(packets, SWIFT_WINDOW_PACKETS_MAX));
	} else if (now_ns >= swift->decrease_from_ns) {
		window = window_shrink(params, swift->window, rtt_ns, target_ns);
		swift->decrease_from_ns = now_ns + rtt_ns;
	}
	swift->window = (uint32_t)min_u64(max_u64(window, SWIFT_WINDOW_MIN), window_max);
	swift->is_limited = swift->window < window_max;
}
