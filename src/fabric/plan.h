/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buffer sizes and thresholds of a lossless network, by formula.
 */
#ifndef URNIC_FABRIC_PLAN_H
#define URNIC_FABRIC_PLAN_H

#include <stdint.h>

/*
 * The headroom that a priority group needs, so that no frame is dropped between the decision to
 * pause and the end of the flow: what is on the cable in both directions, a frame that the peer has
 * begun, a frame of the port's own that delays the PFC frame, that frame itself, and what the peer
 * sends within its response time.
 */
uint64_t plan_headroom_bytes(
	uint32_t rate_mbps, uint64_t delay_ps, uint32_t frame_bytes, uint64_t response_ps);

/* The same as the mlx5 driver of Linux computes it, from the cable's length and the MTU. */
uint64_t plan_mlx5_xoff_bytes(uint32_t rate_mbps, uint32_t cable_m, uint32_t mtu_bytes);

/*
 * Thresholds that guarantee that a switch marks frames before it pauses a sender (Zhu et al.,
 * SIGCOMM 2015, section 4).
 */
struct plan_thresholds {
	uint64_t pause_bytes; /* of an ingress queue; with a higher one frames may be lost */
	uint64_t mark_bytes; /* of an egress queue; with a higher one a pause may come first */
};

/*
 * `flight_bytes`  The headroom of each port and priority.
 * `beta`          pause = beta * (free buffer) / priorities, the switch's dynamic threshold.
 */
struct plan_thresholds plan_thresholds(uint64_t buffer_bytes, uint32_t ports, uint32_t priorities,
	uint64_t flight_bytes, uint32_t beta);

#endif
