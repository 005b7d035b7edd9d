/* SPDX-License-Identifier: BSD-2-Clause */
/* Flow steering: which Ethernet frames a raw packet queue pair receives. */
#ifndef URNIC_FRONT_VERBS_FLOW_H
#define URNIC_FRONT_VERBS_FLOW_H

#include "front/verbs/object.h"

struct ibv_flow *flow_create(struct ibv_qp *qp, struct ibv_flow_attr *attr);
int flow_destroy(struct ibv_flow *verbs);

#endif
