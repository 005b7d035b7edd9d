/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects and their handles.
 *
 * Each object that a program creates (protection domain, memory region, queue ...) has a handle: a
 * number in the public structure. A control call looks the handle up and uses the table's entry,
 * whatever the program's pointer is. The table refuses an object that was destroyed, is of another
 * kind, or belongs to another opening of the device. A handle is an index and a generation, so a
 * handle of a former object does not match a later one.
 *
 * An object that others are built on (a protection domain, a completion queue) counts them as
 * users, and cannot be removed while it has any. A context counts its objects, and lives until they
 * are gone.
 *
 * The structure that embeds a `struct object` owns it. Each kind has a function `<kind>_release`:
 * it releases everything but the structure, after the object has left the table. All functions here
 * take one lock of their own; any thread may call.
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
	struct context *context; /* the context that created it; outlives it */
	uint32_t users; /* objects built on this one, and calls in progress */
};

/*
 * Put an object into the table. `context` creates it.
 *
 * Returns 0 and the handle in object->handle; or ENOMEM, also when the device has its limit of such
 * objects.
 */
int object_add(struct object *object, enum object_kind kind, struct context *context);

/*
 * Find an object and become its user, so that it stays until object_unref().
 *
 * `handle`  Any value.
 * `via`     The context that the program uses: the creating one, or one that shares its opening.
 *
 * NULL when no living object of this kind and opening has the handle. Calls then return ENOENT, as
 * the kernel does.
 */
struct object *object_ref(uint32_t handle, enum object_kind kind, const struct context *via);

void object_unref(struct object *object);

/*
 * Find an object and take it out of the table. Its handle is invalid from now on, and the caller
 * owns its memory.
 *
 * Returns 0; ENOENT when no living object of this kind and opening has the handle; EBUSY when it
 * has users.
 */
int object_remove(uint32_t handle, enum object_kind kind, const struct context *via,
	struct object **ret_object);

/*
 * Remove an object as object_remove(), release it with `release`, and free the structure, in which
 * it is at `offset`. For objects that no thread waits for.
 */
int object_destroy(uint32_t handle, enum object_kind kind, const struct context *via,
	void (*release)(struct object *object), size_t offset);

/*
 * Remove any object of this kind that was created through `context` and has no users. NULL: there
 * is none.
 */
struct object *object_remove_one(const struct context *context, enum object_kind kind);

/* Does the context have objects? */
bool object_context_is_used(const struct context *context);

#endif
