/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An open device.
 *
 * A program may open a device several times. Each context has descriptors of its own, but all contexts of a process share the one
 * NIC, so an object made through one context can be named, by its handle, through another of the same device.
 *
 * The structure that programs see lies inside of ours; context_of() goes from one to the other. A context has no handle to be
 * checked by: except for closing, its pointer is trusted, as in every libibverbs.
 */
#ifndef URNIC_FRONT_VERBS_CONTEXT_H
#define URNIC_FRONT_VERBS_CONTEXT_H

#include "base/arith.h"
#include "base/list.h"
#include "front/verbs/abi.h"
#include "front/verbs/device.h"
#include "runtime/event_queue.h"

struct context {
	struct verbs_context verbs; /* programs hold &verbs.context */
	struct device *device;
	struct event_queue async; /* its descriptor is verbs.context.async_fd */
	struct list node; /* in the list of open contexts */
	uint32_t object_count; /* created through it; under the lock of object.c */
};

static inline struct context *context_of(struct ibv_context *verbs)
{
	return container_of(verbs, struct context, verbs.context);
}

#endif
