/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hosts that are plain sources: each sends the frames of its flows in turn, at line rate or at the
 * flow's own rate, and receivers count. Nothing is acknowledged or sent again, so a flow that loses
 * a frame never finishes.
 *
 * They show what switches and PFC do by themselves, and cost little time.
 */
#ifndef URNIC_FABRIC_SOURCE_H
#define URNIC_FABRIC_SOURCE_H

#include "fabric/fabric.h"
#include "fabric/flow.h"

struct sources;

/*
 * Give all hosts of a network the flows `flows`, which the caller keeps as long as the sources.
 * Flows of a host take turns in their order. Returns NULL without memory.
 */
struct sources *sources_create(struct fabric *fabric, struct fabric_flow *flows, uint32_t count);
void sources_destroy(struct sources *sources);

#endif
