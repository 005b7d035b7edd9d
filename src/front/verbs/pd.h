/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains. A domain is a number that memory regions and queue pairs share. The number is
 * the handle of the domain. For a domain of another process, the number is `imported`.
 */
#ifndef URNIC_FRONT_VERBS_PD_H
#define URNIC_FRONT_VERBS_PD_H

#include "front/verbs/context.h"
#include "front/verbs/object.h"

struct pd {
	struct ibv_pd verbs;
	struct object object;
	uint32_t imported; /* number of a domain imported from another process, else 0 */
};

/* The domain's number in the NIC. */
static inline uint32_t pd_number(const struct object *object)
{
	const struct pd *pd = container_of(object, struct pd, object);

	return pd->imported ? pd->imported : object->handle;
}

/*
 * Find the protection domain that a program named, or the one behind the parent domain that the
 * program named, and become its user. NULL: the context's device has no such domain. Undo with
 * object_unref().
 */
struct object *pd_ref(const struct ibv_pd *pd);

#endif
