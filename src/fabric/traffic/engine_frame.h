/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The frames of hosts that are engines (engine_host.h), in fabric_packet.data: on Ethernet from the
 * BTH to the ICRC of a RoCEv2 packet, on InfiniBand from the LRH to the ICRC.
 */
#ifndef URNIC_FABRIC_TRAFFIC_ENGINE_FRAME_H
#define URNIC_FABRIC_TRAFFIC_ENGINE_FRAME_H

#include "fabric/fabric.h"
#include "wire/icrc.h"

/* Where the engine's packet, which begins with its BTH, is in the data. */
uint32_t engine_frame_offset(const struct fabric *fabric);

/*
 * Make a frame of a packet of `bytes` that is in its place, whose destination and priority are set.
 *
 * `source`   The host.
 * `headers`  Of the flow and direction, for RoCEv2.
 */
void engine_frame_seal(const struct fabric *fabric, struct fabric_packet *packet, uint32_t source,
	const struct icrc_flow *headers, uint32_t bytes);

/* Check a frame that has arrived. *ret_bytes is the length of its packet, from the BTH on. */
bool engine_frame_verify(const struct fabric *fabric, const struct fabric_packet *packet,
	const struct icrc_flow *headers, uint32_t *ret_bytes);

#endif
