/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions, as objects of the ABI around the NIC's.
 */
#ifndef URNIC_FRONT_VERBS_MR_H
#define URNIC_FRONT_VERBS_MR_H

#include "front/verbs/object.h"

/* Give back all but the structure, of which the object was taken out of the table. */
void mr_release(struct object *object);

#endif
