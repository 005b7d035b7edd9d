/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The limits of a device: equal for all devices of the process, and fixed before the first device
 * exists.
 */
#ifndef URNIC_FRONT_VERBS_LIMITS_H
#define URNIC_FRONT_VERBS_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "front/verbs/abi.h"

/* The most device memory of one process on one device. Common adapters have the same amount. */
#define DM_BYTES_MAX (1u << 20)

/*
 * The attributes that limits.def has; GUIDs and the firmware version are not set.
 * limits_configure() writes this structure; afterwards it is only read.
 */
extern struct ibv_device_attr device_limits;

/*
 * The most requests of a send or receive queue of a queue pair. This is max_qp_wr of device_limits,
 * or more if the adapters of URNIC_STRICT accept more than they state. limits_configure() writes
 * it, too; afterwards it is only read.
 */
extern uint32_t queue_depth_max;

/* Apply URNIC_LIMITS, once. Mistakes in the variable's value are logged and have no effect. */
void limits_configure(void);

/*
 * Set one limit.
 *
 * `item`  "field=number".
 *
 * Returns false without a change if there is no such settable field, or the number is out of range.
 * *ret_highest is then the end of the range, or 0 for an unknown field.
 */
bool limits_set(
	struct ibv_device_attr *limits, const struct text_part *item, uint32_t *ret_highest);

#endif
