/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The frames of hosts that are engines (engine_host.h), in fabric_packet.data: on Ethernet from the
 * BTH to the ICRC of a RoCEv2 packet, on InfiniBand from the LRH to the ICRC.
 */
#ifndef URNIC_FABRIC_TRAFFIC_ENGINE_FRAME_H
#define URNIC_FABRIC_TRAFFIC_ENGINE_FRAME_H

#include "fabric/fabric.h"
#include "fabric/traffic/flow.h"
#include "wire/icrc.h"

/*
 * The P_Key of packets that a host, one of the flow's two, sends. The source's is that of the flow,
 * that of its peer the peer's own one of the same partition.
 */
uint16_t engine_frame_pkey(
	const struct fabric *fabric, const struct fabric_flow *flow, uint32_t host);

/* Where the engine's packet, which begins with its BTH, is in the data. */
uint32_t engine_frame_offset(const struct fabric *fabric);

/*
 * Make a frame of a packet of `bytes` that is in its place, whose destination and priority are set.
 * Over InfiniBand its P_Key is set, too.
 *
 * `source`   The sending host.
 * `headers`  The IP and UDP headers of the flow in this direction. InfiniBand does not use them.
 */
void engine_frame_seal(const struct fabric *fabric, struct fabric_packet *packet, uint32_t source,
	const struct icrc_flow *headers, uint32_t bytes);

/* Check a frame that has arrived. *ret_bytes is the length of its packet, from the BTH on. */
bool engine_frame_verify(const struct fabric *fabric, const struct fabric_packet *packet,
	const struct icrc_flow *headers, uint32_t *ret_bytes);

#endif
