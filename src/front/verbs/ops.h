/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The operations that programs call through the tables in a context, not by name.
 *
 * The inline functions of the public header refuse an operation whose slot is NULL (EOPNOTSUPP).
 * Each operation is documented by its verb: query_port() is ibv_query_port() with the
 * size of the caller's structure. Operations of an object are declared in the object's header.
 */
#ifndef URNIC_FRONT_VERBS_OPS_H
#define URNIC_FRONT_VERBS_OPS_H

#include <stdbool.h>

#include "front/verbs/abi.h"

/* Fill both tables, but for operations that this NIC, or an iWARP device, lacks. */
void ops_fill(struct verbs_context *context, bool is_iwarp);

int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
	struct ibv_device_attr_ex *attr, size_t attr_bytes);
int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);
int query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
	size_t attr_bytes);

#endif
