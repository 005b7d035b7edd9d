/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hosts that are plain sources: each sends the frames of its flows in turn, at line rate or at the
 * flow's own rate, and receivers count. Without recovery nothing is acknowledged or sent again, so
 * a flow that loses a frame never finishes.
 *
 * With recovery a receiver takes frames in their order only. It answers the first one behind a gap
 * by a NAK, and the sender goes back: to the frame that is missing (go-back-N), or to the first one
 * of its message, as early adapters did (go-back-0). After its timeout, a sender that has sent all
 * goes back to what is missing. Acknowledgements take no frames; NAKs are frames, and may be lost.
 *
 * A multicast flow finishes when all of its receivers have all of it. It has no recovery.
 *
 * With congestion control, receivers answer marks by congestion notifications (CNPs), and senders
 * obey them (congestion/cc_flow.h). CNPs have a priority of their own, and a host sends them before
 * all else.
 *
 * Plain sources show what switches, PFC and DCQCN do without a transport, and cost little time.
 */
#ifndef URNIC_FABRIC_TRAFFIC_SOURCE_H
#define URNIC_FABRIC_TRAFFIC_SOURCE_H

#include "congestion/cc_params.h"
#include "fabric/fabric.h"
#include "fabric/traffic/flow.h"

/* A CNP and a NAK, from Ethernet header to FCS. */
#define SOURCE_CNP_BYTES (14 + 20 + 8 + 12 + 16 + 4 + 4)
#define SOURCE_NAK_BYTES (14 + 20 + 8 + 12 + 4 + 4 + 4)

struct sources;

enum source_recovery { SOURCE_NO_RECOVERY, SOURCE_GO_BACK_N, SOURCE_GO_BACK_0 };

struct sources_init {
	const struct cc_params *cc; /* the caller keeps it longer than the sources; NULL: none */
	uint8_t cnp_priority; /* of CNPs and of NAKs */
	enum source_recovery recovery;
	uint64_t message_bytes; /* of each message but a flow's last, with SOURCE_GO_BACK_0 */
	uint64_t timeout_ps; /* with recovery */
};

/*
 * Create the sources of all hosts of a network. A host's source sends those of `flows` that begin
 * at the host; they take turns in their order. The caller keeps `flows` until sources_destroy().
 * Sources get no acknowledgements, so an algorithm of congestion control that measures round trips
 * does not work with them. Returns NULL if there is no memory.
 */
struct sources *sources_create(struct fabric *fabric, const struct sources_init *init,
	struct fabric_flow *flows, uint32_t count);
void sources_destroy(struct sources *sources);

#endif
