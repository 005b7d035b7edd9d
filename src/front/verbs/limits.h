/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The limits of a device: the same for every device of the process, fixed before the first one is
 * seen.
 */
#ifndef URNIC_FRONT_VERBS_LIMITS_H
#define URNIC_FRONT_VERBS_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "front/verbs/abi.h"

/*
 * What every device says about itself, limits.def: all but names and identifiers. Written by
 * limits_configure(), read after.
 */
extern struct ibv_device_attr device_limits;

/* Take over URNIC_LIMITS, once. What it says wrong is said in the log, and has no effect. */
void limits_configure(void);

/*
 * Set one limit.
 *
 * `item`  "field=number".
 *
 * False, and nothing has changed, when there is no such settable field or the number is not within
 * its range; then *ret_highest is the range's end, or 0 when the field is the trouble.
 */
bool limits_set(
	struct ibv_device_attr *limits, const struct text_part *item, uint32_t *ret_highest);

#endif
