/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow steering: which Ethernet frames a raw packet queue pair gets.
 */
#ifndef URNIC_FRONT_VERBS_FLOW_H
#define URNIC_FRONT_VERBS_FLOW_H

#include "front/verbs/object.h"

/* ibv_create_flow and ibv_destroy_flow of the table in the context. */
struct ibv_flow *flow_create(struct ibv_qp *qp, struct ibv_flow_attr *attr);
int flow_destroy(struct ibv_flow *verbs);

/* Release all but the structure; the object is already out of the table. */
void flow_release(struct object *object);

#endif
