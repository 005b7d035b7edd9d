/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address handles: where a datagram goes.
 */
#ifndef URNIC_FRONT_VERBS_AH_H
#define URNIC_FRONT_VERBS_AH_H

#include "front/verbs/object.h"

/* Give back all but the structure, of which the object was taken out of the table. */
void ah_release(struct object *object);

#endif
