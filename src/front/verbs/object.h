/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects and their handles.
 *
 * Each object that a program creates (protection domain, memory region, queue ...) has a handle, a
 * number in the public structure. A control call looks the handle up and works with the table's
 * entry. The table refuses an object that was destroyed, is of another kind, or belongs to another
 * opening of a device, whatever the program's pointer is. A handle is an index and a generation, so
 * that the handle of a former object does not match a later one.
 *
 * An object that others are built on (a protection domain, a completion queue) counts them as
 * users, and cannot be removed while it has any. A context counts its objects, and lives until they
 * are gone.
 *
 * The owner of a `struct object` is the object that embeds it. All functions take one lock of their
 * own; any thread may call.
 */
#ifndef URNIC_FRONT_VERBS_OBJECT_H
#define URNIC_FRONT_VERBS_OBJECT_H

#include <stdint.h>

#include "front/verbs/context.h"

enum object_kind {
	OBJECT_NONE,
	OBJECT_PD,
	OBJECT_DM,
	OBJECT_MR,
	OBJECT_MW,
	OBJECT_CHANNEL,
	OBJECT_CQ,
	OBJECT_SRQ,
	OBJECT_XRCD,
	OBJECT_QP,
	OBJECT_AH,
	OBJECT_TD,
	OBJECT_PARENT_DOMAIN,
	OBJECT_COUNTERS,
	OBJECT_FLOW,
	OBJECT_WQ,
	OBJECT_WQ_TABLE,
	OBJECT_KIND_COUNT
};

struct object {
	enum object_kind kind; /* OBJECT_NONE while not in the table */
	uint32_t handle; /* never 0 */
	struct context *context; /* it was created through; outlives it */
	uint32_t users; /* objects built on this one, and calls that are at work with it */
};

/*
 * Put an object into the table. `context` is the one that the program creates it through.
 *
 * Returns 0 and the handle in object->handle; or ENOMEM, also when the device has as many objects
 * of this kind as it says it may.
 */
int object_add(struct object *object, enum object_kind kind, struct context *context);

/*
 * Find an object and become its user: it stays until object_unref().
 *
 * `handle`  Any value.
 * `via`     The context that the program names it through: the one that it was created through, or
 *           one that shares its opening.
 *
 * NULL when the handle is not that of a living object of this kind of this opening; calls answer
 * that with ENOENT, as the kernel does.
 */
struct object *object_ref(uint32_t handle, enum object_kind kind, const struct context *via);

void object_unref(struct object *object);

/*
 * Find an object and take it out of the table; its handle is dead from then on, its memory is the
 * caller's.
 *
 * Returns 0; ENOENT when the handle is not that of a living object of this kind of this opening;
 * EBUSY when it has users.
 */
int object_remove(uint32_t handle, enum object_kind kind, const struct context *via,
	struct object **ret_object);

/*
 * Remove an object, have `release` give back what it has, and free the structure that it is
 * embedded in at `offset`. For those that nobody waits for. As object_remove().
 */
int object_destroy(uint32_t handle, enum object_kind kind, const struct context *via,
	void (*release)(struct object *object), size_t offset);

/*
 * The same as object_remove() for some object of this kind that was created through `context` and
 * has no users. NULL when there is none.
 */
struct object *object_remove_one(const struct context *context, enum object_kind kind);

/* Are there objects that were created through this context? */
bool object_context_is_used(const struct context *context);

#endif
