/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects and their handles.
 *
 * Each object that a program creates (protection domain, memory region, queue ...) has a handle: a
 * number in the public structure. A control call looks the handle up and uses the object of the
 * table's entry, not the program's pointer. The table refuses an object that was destroyed, is of
 * another kind, or belongs to another opening of the device. A handle consists of an index and a
 * generation, so the handle of a former object does not match a later object.
 *
 * An object on which other objects are built (a protection domain, a completion queue) counts them
 * as users, and cannot be removed while it has any. A context counts its objects, and is freed only
 * when they are gone.
 *
 * The structure that embeds a `struct object` owns it. object_kind.def has the functions that
 * release and free the objects of each kind. All functions of this header take object_lock; any
 * thread may call them.
 */
#ifndef URNIC_FRONT_VERBS_OBJECT_H
#define URNIC_FRONT_VERBS_OBJECT_H

#include <stdint.h>

#include "front/verbs/context.h"
#include "front/verbs/ops.h"

enum object_kind {
	OBJECT_NONE,
#define OBJECT_KIND(name, release, free, limit, is_shared, call) OBJECT_##name,
#include "front/verbs/object_kind.def"
	OBJECT_KIND_COUNT
};

struct object {
	enum object_kind kind; /* OBJECT_NONE while not in the table */
	uint32_t handle; /* never 0 */
	struct context *context; /* the context that created the object; it outlives the object */
	uint32_t users; /* number of objects built on this one, and of calls in progress */
	/* The place of the handle in the public structure; NULL: the structure has no handle */
	uint32_t *public_handle;
	struct object *parent; /* the parent domain through which the object was created, or NULL */
	bool is_by_program; /* the parent domain's allocator allocated this object's memory */
};

#define OBJECT_KIND(name, release, free, limit, is_shared, call) \
	void *release(struct object *object);
#include "front/verbs/object_kind.def"

/*
 * Put an object that `context` creates into the table. Until this call, all members of the object
 * but `parent` and `is_by_program` are zero.
 *
 * Returns 0, and sets object->handle. Returns ENOMEM when there is no memory, or when the limit of
 * such objects is reached.
 */
int object_add(struct object *object, enum object_kind kind, struct context *context);

/*
 * Finish the creation of an object: add it to the table, or release and free it after an error.
 *
 * `public_handle`  The handle in the public structure, which becomes 0 when the object leaves the
 *                  table; or NULL.
 * `error`          The result of the creation so far: 0 or a positive errno.
 *
 * Returns false with errno after an error, which may be an error of object_add().
 */
bool object_publish(struct object *object, enum object_kind kind, struct context *context,
	uint32_t *public_handle, int error);

/* object_publish() for a creation by another call than the one in object_kind.def. */
bool object_publish_as(const char *call, struct object *object, enum object_kind kind,
	struct context *context, uint32_t *public_handle, int error);

/*
 * Find an object and become its user, so that it stays until object_unref().
 *
 * `handle`  Any value.
 * `via`     The context that the program uses: the creating one, or one that shares its opening.
 *
 * NULL when no living object of this kind and opening has the handle. The program's call then
 * returns ENOENT, as the kernel does.
 */
struct object *object_ref(uint32_t handle, enum object_kind kind, const struct context *via);

/* Stop being a user of the object. `object` may be NULL. */
void object_unref(struct object *object);

/*
 * Find an object and take it out of the table. From then on its handle is invalid, and the caller
 * owns its memory.
 *
 * Returns 0; ENOENT when no living object of this kind and opening has the handle; EBUSY when it
 * has users.
 */
int object_remove(uint32_t handle, enum object_kind kind, const struct context *via,
	struct object **ret_object);

/* Remove, release and free an object. Returns the result of object_remove(). */
int object_destroy(uint32_t handle, enum object_kind kind, struct ibv_context *via);

/*
 * Release all objects of a context, users before the objects that they use. A kernel driver does
 * this too, for programs that close a device while it has objects. The structures stay allocated,
 * because the program has pointers to them. Objects that an importing context uses are not
 * released.
 */
void objects_release(const struct context *context);

/* Does the context have objects? */
bool object_context_is_used(const struct context *context);

#endif
