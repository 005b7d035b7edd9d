/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An open device.
 *
 * A program may open a device several times. All contexts of a process share one NIC, but each has
 * its own descriptors and objects. A handle is valid only in the context in which it was created,
 * and in contexts imported from that one.
 *
 * struct context embeds the structure that programs see; context_of() converts. Contexts have no
 * handles, so calls trust a program's pointer to a context. Only ibv_close_device() looks it up.
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

/* The events of enum context_event, as bits. */
enum context_event_bit {
#define CONTEXT_EVENT(name, type, port) CONTEXT_##name = 1 << CONTEXT_EVENT_##name,
#include "front/verbs/context_event.def"
#undef CONTEXT_EVENT
};

/* An asynchronous event that can wait in a context's queue; see async.h. */
struct async_event {
	struct event event;
	struct ibv_async_event verbs; /* passed to the program */
};

struct context {
	struct verbs_context verbs; /* programs hold &verbs.context */
	struct device *device;
	/*
	 * The number of the opening. A context imported within this process has the original's
	 * number.
	 */
	uint64_t opening;
	/*
	 * The process from which this context was imported. If owner.pid is 0, the context is this
	 * process's
	 */
	struct nic_locator owner;
	uint64_t owner_opening; /* `opening` of the context in that process */
	struct event_queue async; /* its descriptor is verbs.context.async_fd */
	struct list node; /* in the list of open contexts */
	/*
	 * The events of each port; port 1 is at index 0. Events of the device are among those of
	 * port 1.
	 */
	struct async_event events[DEVICE_IB_PORTS_MAX][CONTEXT_EVENT_COUNT];
	uint32_t watch; /* the result of netdev_watch_start() */
	/* Objects created through this context; guarded by the lock of object.c */
	uint32_t object_count;
};

static inline struct context *context_of(struct ibv_context *verbs)
{
	return container_of(verbs, struct context, verbs.context);
}

/*
 * Was the context imported from another process? If so, the handles that a program imports are
 * handles of that process.
 */
static inline bool context_is_foreign(const struct context *context)
{
	return context->owner.pid != 0;
}

/*
 * Post `events`, bits of enum context_event_bit, to all contexts of a device. Any thread may call.
 */
void contexts_post(const struct device *device, uint32_t events);

/* contexts_post() for events of a port other than DEVICE_PORT. */
void contexts_post_port(const struct device *device, uint32_t events, uint32_t port);

#endif
