/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hosts that are plain sources: each sends the frames of its flows in turn, at line rate or at the
 * flow's own rate, and receivers count. Nothing is acknowledged or sent again, so a flow that loses
 * a frame never finishes.
 *
 * With congestion control, receivers answer marks by congestion notifications (CNPs), and senders
 * obey them (congestion/cc_flow.h). CNPs have a priority of their own, and a host sends them before
 * all else.
 *
 * They show what switches, PFC and DCQCN do by themselves, and cost little time.
 */
#ifndef URNIC_FABRIC_SOURCE_H
#define URNIC_FABRIC_SOURCE_H

#include "congestion/cc_params.h"
#include "fabric/fabric.h"
#include "fabric/flow.h"

/* A CNP, from Ethernet header to FCS. */
#define SOURCE_CNP_BYTES (14 + 20 + 8 + 12 + 16 + 4 + 4)

struct sources;

struct sources_init {
	const struct cc_params *cc; /* the caller keeps it longer than the sources; NULL: none */
	uint8_t cnp_priority;
};

/*
 * Give all hosts of a network the flows `flows`, which the caller keeps as long as the sources.
 * Flows of a host take turns in their order. Algorithms that measure round trips have nothing to
 * measure here. Returns NULL without memory.
 */
struct sources *sources_create(struct fabric *fabric, const struct sources_init *init,
	struct fabric_flow *flows, uint32_t count);
void sources_destroy(struct sources *sources);

#endif
