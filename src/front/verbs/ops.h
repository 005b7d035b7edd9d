/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions of op.def, with the types that the public header has for their slots. */
#ifndef URNIC_FRONT_VERBS_OPS_H
#define URNIC_FRONT_VERBS_OPS_H

#include "front/verbs/abi.h"

#define OP(slot, function)      __typeof__(*((struct verbs_context *)0)->slot) function;
#define ROCE_OP(slot, function) OP(slot, function)
#include "front/verbs/op.def"

#endif
