/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_CONGESTION_SWIFT_H
#define URNIC_CONGESTION_SWIFT_H

/*
 * Swift: a window that follows the delay (Kumar et al., SIGCOMM 2020).
 *
 * While the delay is below its target, the window grows by swift_ai packets in a round trip. While
 * the delay is above, the window shrinks, at most once in a round trip, by swift_beta times the
 * excess's share of the delay. A small window has a longer target, so that many flows share a link
 * fairly. Swift needs no marks.
 *
 * The sender is paced at one window in each round trip, so a window may be less than a packet.
 *
 * Integers only: windows in 2^-16 packets, time in ns.
 */

#include <stdbool.h>
#include <stdint.h>

#include "congestion/cc_params.h"

#define SWIFT_PACKET 65536u /* a window of one packet */

enum { SWIFT_WINDOW_PACKETS_MAX = 4096 };

/* Zeroed at first. */
struct swift {
	bool is_limited; /* the window is below its maximum, and does not fill the line */
	uint32_t window; /* 0: nothing was acknowledged yet */
	uint64_t rtt_ns; /* smoothed */
	uint64_t decrease_from_ns; /* the earliest time at which the window may shrink again */
};

/*
 * An acknowledgement for `packets`, at least 1, shows a round trip of `rtt_ns`, above 0.
 *
 * `line_packets`  The window that fills the line in this time; a larger one has no effect.
 */
void swift_on_ack(struct swift *swift, const struct cc_params *params, uint32_t line_packets,
	uint64_t rtt_ns, uint32_t packets, uint64_t now_ns);

/* The target delay of a window, above 0. */
uint64_t swift_target_ns(const struct cc_params *params, uint32_t window);

#endif
