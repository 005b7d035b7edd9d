/* SPDX-License-Identifier: BSD-2-Clause */
/* The refusing operations of unsupported.def. */
#ifndef URNIC_FRONT_VERBS_UNSUPPORTED_H
#define URNIC_FRONT_VERBS_UNSUPPORTED_H

#include "front/verbs/abi.h"

/* Set the slots of these operations. */
void unsupported_fill(struct verbs_context *context);

#endif
