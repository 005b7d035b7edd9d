/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/plan.h"

#include "fabric/units.h"

uint64_t plan_headroom_bytes(
	uint32_t rate_mbps, uint64_t delay_ps, uint32_t frame_bytes, uint64_t response_ps)
{
	return fabric_bytes_in(2 * delay_ps, rate_mbps) + 2ull * frame_bytes +
		FABRIC_PAUSE_FRAME_BYTES + FABRIC_GAP_BYTES +
		fabric_bytes_in(response_ps, rate_mbps);
}

uint64_t plan_mlx5_xoff_bytes(uint32_t rate_mbps, uint32_t cable_m, uint32_t mtu_bytes)
{
	return (301 + 216ull * cable_m / 100) * rate_mbps / 1000 + 272ull * mtu_bytes / 100;
}

struct plan_thresholds plan_thresholds(uint64_t buffer_bytes, uint32_t ports, uint32_t priorities,
	uint64_t flight_bytes, uint32_t beta)
{
	uint64_t groups = (uint64_t)ports * priorities;
	uint64_t reserved_bytes = groups * flight_bytes;
	uint64_t left_bytes = buffer_bytes > reserved_bytes ? buffer_bytes - reserved_bytes : 0;

	return (struct plan_thresholds){
		.pause_bytes = left_bytes / groups,
		.mark_bytes = beta * left_bytes / (groups * (beta + 1ull)),
	};
}
