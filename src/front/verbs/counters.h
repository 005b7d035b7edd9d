/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters objects: frames and bytes that flows have delivered.
 *
 * A program first chooses which value it reads at which index (a point). Then it creates flows with
 * the object; several flows add to the same values. The points cannot change while flows use the
 * object. The public structure has no handle, so its pointer is trusted.
 */
#ifndef URNIC_FRONT_VERBS_COUNTERS_H
#define URNIC_FRONT_VERBS_COUNTERS_H

#include "ether/flow.h"
#include "front/verbs/object.h"

struct ibv_counters *counters_create(
	struct ibv_context *context, struct ibv_counters_init_attr *attr);
int counters_destroy(struct ibv_counters *verbs);
int counters_attach(
	struct ibv_counters *verbs, struct ibv_counter_attach_attr *attr, struct ibv_flow *flow);
int counters_read(struct ibv_counters *verbs, uint64_t *values, uint32_t count, uint32_t flags);

/*
 * A flow is created with this object. Returns the flow's counters, or NULL when the object is of
 * another device or gone. Undo with counters_unbind().
 */
struct flow_counters *counters_bind(struct ibv_counters *verbs, const struct context *context);
void counters_unbind(struct flow_counters *bound);

#endif
