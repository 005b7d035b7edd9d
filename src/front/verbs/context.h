/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An open device.
 *
 * A program may open a device several times. All contexts of a process share the one NIC, but each
 * has descriptors and objects of its own: a handle means something only to the context that it was
 * made through, and to those that were imported from that one.
 *
 * The structure that programs see lies inside of ours; context_of() goes from one to the other. A
 * context has no handle to be checked by: except for closing, its pointer is trusted, as in every
 * libibverbs.
 */
#ifndef URNIC_FRONT_VERBS_CONTEXT_H
#define URNIC_FRONT_VERBS_CONTEXT_H

#include "base/arith.h"
#include "base/list.h"
#include "event/event_queue.h"
#include "front/verbs/abi.h"
#include "front/verbs/device.h"
#include "peer/nic_locator.h"

enum context_event {
#define CONTEXT_EVENT(name, type, port) CONTEXT_EVENT_##name,
#include "front/verbs/context_event.def"
#undef CONTEXT_EVENT
	CONTEXT_EVENT_COUNT
};

/* The same as bits. */
enum context_event_bit {
#define CONTEXT_EVENT(name, type, port) CONTEXT_##name = 1 << CONTEXT_EVENT_##name,
#include "front/verbs/context_event.def"
#undef CONTEXT_EVENT
};

/* An asynchronous event that waits, or may come to wait, in a context's queue; async.h. */
struct async_event {
	struct event event;
	struct ibv_async_event verbs; /* what a program gets */
};

struct context {
	struct verbs_context verbs; /* programs hold &verbs.context */
	struct device *device;
	/* A number for each ibv_open_device(); imported contexts have that of the first */
	uint64_t opening;
	struct nic_locator
		owner; /* of one that was imported from another process; else its pid is 0 */
	uint64_t owner_opening; /* there */
	struct event_queue async; /* its descriptor is verbs.context.async_fd */
	struct list node; /* in the list of open contexts */
	struct async_event events[CONTEXT_EVENT_COUNT];
	uint32_t watch; /* from netdev_watch_start() */
	uint32_t object_count; /* created through it; under the lock of object.c */
};

static inline struct context *context_of(struct ibv_context *verbs)
{
	return container_of(verbs, struct context, verbs.context);
}

/*
 * Was it imported from another process? Handles that the program imports are those of that process
 * then.
 */
static inline bool context_is_foreign(const struct context *context)
{
	return context->owner.pid != 0;
}

/* Post events, enum context_event_bit, to all contexts of a device. Any thread. */
void contexts_post(const struct device *device, uint32_t events);

#endif
