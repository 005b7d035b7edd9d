/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One lock (`object_lock`) guards the table and the fields of every object in it. With it locked, a
 * thread takes no other lock.
 *
 * Freed slots are reused in the order in which they were freed, so that it takes long until a slot
 * has had all generations, and a former handle matches again.
 */
#include "front/verbs/object.h"

#include <assert.h>
#include <stdlib.h>

#include "front/verbs/comp_counter.h"
#include "front/verbs/cq.h"
#include "front/verbs/fork.h"
#include "front/verbs/mr.h"
#include "front/verbs/qp.h"
#include "front/verbs/result.h"
#include "front/verbs/srq.h"
#include "front/verbs/wq.h"

#define INDEX_BITS       20
#define SLOT_COUNT_MAX   (1u << INDEX_BITS)
#define GENERATION_MAX   ((1u << (32 - INDEX_BITS)) - 1)
#define SLOT_COUNT_FIRST 64

struct slot {
	struct object *object; /* NULL: free */
	uint32_t generation; /* 1 to GENERATION_MAX, so that no handle is 0 */
	uint32_t next_free;
};

pthread_mutex_t object_lock = PTHREAD_MUTEX_INITIALIZER;
static struct slot *object_slots;
static uint32_t slot_count;
/* The queue of free slots. While it is empty, `first_free` is slot_count. */
static uint32_t first_free;
static uint32_t last_free;

/*
 * The number of objects of each kind, at the index of their device. Kinds with one limit for all
 * devices are counted at index 0.
 */
static uint32_t object_counts[DEVICE_COUNT_MAX][OBJECT_KIND_COUNT];

/* Limits without a field in struct ibv_device_attr. */
static const int wq_table_count_max = WQ_TABLE_COUNT_MAX, wq_count_max = NIC_WQ_COUNT_MAX,
		 comp_counter_count_max = COMP_COUNTER_COUNT_MAX;

static const struct {
	void *(*release)(struct object *object);
	void (*free)(void *memory);
	const int *max; /* the limit on the number of objects; NULL: none */
	bool is_shared; /* all devices share one limit; otherwise each has this limit */
	const char *call; /* the call that creates an object */
} kinds[OBJECT_KIND_COUNT] = {
#define OBJECT_KIND(name, ...) [OBJECT_##name] = {__VA_ARGS__},
#include "front/verbs/object_kind.def"
};

/* object_lock is locked. */
static uint32_t *count_of(const struct context *context, enum object_kind kind)
{
	return &object_counts[kinds[kind].is_shared ? 0 : context->device->index][kind];
}

static bool is_at_limit(const struct context *context, enum object_kind kind)
{
	const int *max = kinds[kind].max;

	return max && *count_of(context, kind) >= (uint32_t)*max;
}

/* Double the table. Returns false if the table has its largest size, or there is no memory. */
static bool table_grow(void)
{
	uint32_t count = slot_count ? slot_count * 2 : SLOT_COUNT_FIRST;
	struct slot *grown;

	if (count > SLOT_COUNT_MAX)
		return false;
	grown = realloc(object_slots, count * sizeof(*object_slots));
	if (!grown)
		return false;
	object_slots = grown;
	for (uint32_t i = slot_count; i < count; i++)
		object_slots[i] = (struct slot){.generation = 1, .next_free = i + 1};
	first_free = slot_count;
	last_free = count - 1;
	slot_count = count;
	return true;
}

int object_add(struct object *object, enum object_kind kind, struct context *context)
{
	struct slot *slot;
	int error = 0;

	pthread_mutex_lock(&object_lock);
	if (is_at_limit(context, kind)) {
		error = nic_failure_cause_fact(
			REASON_LIMIT, FACT_limit, (uint64_t)*kinds[kind].max);
	} else if (first_free == slot_count && !table_grow()) {
		error = result_cause(REASON_NO_MEMORY);
	} else {
		slot = &object_slots[first_free];
		object->kind = kind;
		object->handle = slot->generation << INDEX_BITS | first_free;
		object->context = context;
		slot->object = object;
		context->object_count++;
		++*count_of(context, kind);
		first_free = slot->next_free;
	}
	pthread_mutex_unlock(&object_lock);
	return error;
}

/* object_lock is locked. */
static struct slot *slot_lookup(uint32_t handle, enum object_kind kind, const struct context *via)
{
	uint32_t index = handle & (SLOT_COUNT_MAX - 1);
	struct slot *slot;

	if (index >= slot_count)
		return NULL;
	slot = &object_slots[index];
	if (!slot->object || slot->object->handle != handle || slot->object->kind != kind ||
		slot->object->context->opening != via->opening)
		return NULL;
	return slot;
}

struct object *object_ref(uint32_t handle, enum object_kind kind, const struct context *via)
{
	struct object *object = NULL;
	struct slot *slot;

	pthread_mutex_lock(&object_lock);
	slot = slot_lookup(handle, kind, via);
	if (slot) {
		object = slot->object;
		object->users++;
	}
	pthread_mutex_unlock(&object_lock);
	return object;
}

void object_unref(struct object *object)
{
	if (!object)
		return;
	pthread_mutex_lock(&object_lock);
	assert(object->users > 0);
	object->users--;
	pthread_mutex_unlock(&object_lock);
}

/* Take the object out of its slot. object_lock is locked. */
static struct object *slot_free(struct slot *slot)
{
	uint32_t index = (uint32_t)(slot - object_slots);
	struct object *object = slot->object;

	if (object->public_handle)
		*object->public_handle = 0;
	--*count_of(object->context, object->kind);
	object->kind = OBJECT_NONE;
	object->context->object_count--;
	slot->object = NULL;
	slot->generation = slot->generation == GENERATION_MAX ? 1 : slot->generation + 1;
	slot->next_free = slot_count;
	if (first_free == slot_count)
		first_free = index;
	else
		object_slots[last_free].next_free = index;
	last_free = index;
	return object;
}

int object_remove(uint32_t handle, enum object_kind kind, const struct context *via,
	struct object **ret_object)
{
	struct slot *slot;
	int error = 0;

	pthread_mutex_lock(&object_lock);
	slot = slot_lookup(handle, kind, via);
	if (!slot) {
		error = result_cause(REASON_NO_OBJECT);
	} else if (slot->object->users) {
		error = nic_failure_cause_fact(REASON_IN_USE, FACT_users, slot->object->users);
	} else {
		*ret_object = slot_free(slot);
	}
	pthread_mutex_unlock(&object_lock);
	return error;
}

/* Release and free an object that is not in the table. */
static void object_end(struct object *object, enum object_kind kind)
{
	struct object *parent = object->parent;

	kinds[kind].free(kinds[kind].release(object));
	/* Do this last, because free() above may have called the parent domain's allocator. */
	object_unref(parent);
}

bool object_publish(struct object *object, enum object_kind kind, struct context *context,
	uint32_t *public_handle, int error)
{
	return object_publish_as(kinds[kind].call, object, kind, context, public_handle, error);
}

bool object_publish_as(const char *call, struct object *object, enum object_kind kind,
	struct context *context, uint32_t *public_handle, int error)
{
	if (!error)
		error = object_add(object, kind, context);
	if (error) {
		object_end(object, kind);
		result_refused(call, error);
		return false;
	}
	object->public_handle = public_handle;
	if (public_handle)
		*public_handle = object->handle;
	return true;
}

int object_destroy(uint32_t handle, enum object_kind kind, struct ibv_context *via)
{
	struct object *object;
	int error = object_remove(handle, kind, context_of(via), &object);

	if (!error)
		object_end(object, kind);
	return error;
}

/* Remove any object of this kind that `context` created and that has no users. NULL: none. */
static struct object *object_remove_one(const struct context *context, enum object_kind kind)
{
	struct object *object = NULL;

	pthread_mutex_lock(&object_lock);
	for (uint32_t i = 0; i < slot_count && !object; i++) {
		const struct object *found = object_slots[i].object;

		if (found && found->context == context && found->kind == kind && !found->users)
			object = slot_free(&object_slots[i]);
	}
	pthread_mutex_unlock(&object_lock);
	return object;
}

void objects_release(const struct context *context)
{
	struct object *object;

	for (int i = OBJECT_NONE + 1; i < OBJECT_KIND_COUNT; i++)
		while ((object = object_remove_one(context, (enum object_kind)i))) {
			kinds[i].release(object);
			object_unref(object->parent);
		}
}

bool object_context_is_used(const struct context *context)
{
	bool is_used;

	pthread_mutex_lock(&object_lock);
	is_used = context->object_count != 0;
	pthread_mutex_unlock(&object_lock);
	return is_used;
}
