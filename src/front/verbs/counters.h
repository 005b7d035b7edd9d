/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters objects: what the flows that name one have delivered, frames and bytes.
 *
 * A program says at which index it wants to read what (a point), then creates flows with the
 * object; several flows add to the same values. While flows use it, its points stay as they are.
 * The public structure has no handle, so its pointer is trusted.
 */
#ifndef URNIC_FRONT_VERBS_COUNTERS_H
#define URNIC_FRONT_VERBS_COUNTERS_H

#include "ether/flow.h"
#include "front/verbs/object.h"

/*
 * create_counters, destroy_counters, attach_counters_point_flow and read_counters of the table in
 * the context.
 */
struct ibv_counters *counters_create(
	struct ibv_context *context, struct ibv_counters_init_attr *attr);
int counters_destroy(struct ibv_counters *verbs);
int counters_attach(
	struct ibv_counters *verbs, struct ibv_counter_attach_attr *attr, struct ibv_flow *flow);
int counters_read(struct ibv_counters *verbs, uint64_t *values, uint32_t count, uint32_t flags);

/*
 * A flow is made with this object. Returns what it shall count in, or NULL when the object is of
 * another device or gone. Undo with counters_unbind().
 */
struct flow_counters *counters_bind(struct ibv_counters *verbs, const struct context *context);
void counters_unbind(struct flow_counters *bound);

/* Release all but the structure; the object is already out of the table. */
void counters_release(struct object *object);

#endif
