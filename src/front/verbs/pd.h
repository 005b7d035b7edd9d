/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains: a number that memory regions and queue pairs share. The number is the handle.
 */
#ifndef URNIC_FRONT_VERBS_PD_H
#define URNIC_FRONT_VERBS_PD_H

#include "front/verbs/context.h"
#include "front/verbs/object.h"

struct pd {
	struct ibv_pd verbs;
	struct object object;
};

/*
 * Use the protection domain that a program named, or the one behind the parent domain that it named. NULL when the handle is not
 * that of a living one on the context's device. Undo with object_unref().
 */
struct object *pd_ref(const struct ibv_pd *pd);

/* Nothing of a domain is outside of its structure, of which the object was taken out of the table. */
void pd_release(struct object *object);

#endif
