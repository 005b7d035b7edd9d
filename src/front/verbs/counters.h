/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters objects: frames and bytes that flows have delivered.
 *
 * A program first chooses which value it reads at which index (a point). Then it creates flows with
 * the counters object; several flows add to the same values. The points cannot change while flows
 * use the object. The public structure has no handle, so its pointer is trusted.
 */
#ifndef URNIC_FRONT_VERBS_COUNTERS_H
#define URNIC_FRONT_VERBS_COUNTERS_H

#include "ether/flow.h"
#include "front/verbs/object.h"

/*
 * Bind the object to a flow that is being created. Returns the flow's counters; NULL when the
 * object belongs to another opening of the device or is destroyed. Undo with counters_unbind().
 */
struct flow_counters *counters_bind(struct ibv_counters *verbs, const struct context *context);
void counters_unbind(struct flow_counters *bound);

#endif
