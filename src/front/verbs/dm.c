/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/dm.h"

#include <stdlib.h>

#include "base/arith.h"
#include "front/verbs/mr.h"
#include "front/verbs/result.h"
#include "nic/nic.h"
#include "peer/nic_import.h"

/* Copies are of whole words, as on adapters with device memory. */
#define WORD_BYTES    4
#define LOG_ALIGN_MAX 12

/* Flags that a region of device memory may have; it is always zero-based. */
#define ACCESS_ACCEPTED                                                                  \
	(IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |      \
		IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | \
		IBV_ACCESS_OPTIONAL_RANGE)

struct dm {
	struct ibv_dm verbs;
	struct object object;
	struct nic_dm nic; /* nic.owner is set: memory of another process */
};

/* Allocated memory per device. */
static _Atomic uint64_t allocated_bytes[DEVICE_COUNT_MAX];

/* False: the device has too little left. */
static bool bytes_take(const struct device *device, uint64_t bytes)
{
	_Atomic uint64_t *allocated = &allocated_bytes[device->index];

	if (atomic_fetch_add(allocated, bytes) + bytes <= DM_BYTES_MAX)
		return true;
	atomic_fetch_sub(allocated, bytes);
	return false;
}

static void bytes_give(const struct device *device, uint64_t bytes)
{
	atomic_fetch_sub(&allocated_bytes[device->index], bytes);
}

/*
 * The memory that a call names; undo with object_unref(). ENOENT: none; EIO: the parent's, in the
 * child of a fork.
 */
static int dm_ref(uint32_t handle, struct ibv_context *context, struct object **ret_object)
{
	struct object *object = object_ref(handle, OBJECT_DM, context_of(context));

	if (!object)
		return ENOENT;
	if (!nic_dm_is_alive(&container_of(object, struct dm, object)->nic)) {
		object_unref(object);
		return EIO;
	}
	*ret_object = object;
	return 0;
}

/* The destination of a copy, which is a range of words inside the memory. NULL: it is not. */
static uint8_t *place_of(struct object *object, uint64_t offset, uint64_t bytes)
{
	const struct nic_dm *nic = &container_of(object, struct dm, object)->nic;

	if (offset % WORD_BYTES || bytes % WORD_BYTES ||
		!range_inside(offset, bytes, 0, nic->bytes))
		return NULL;
	return nic->memory + offset;
}

static int dm_write(struct ibv_dm *dm, uint64_t dm_offset, const void *host_addr, size_t length)
{
	struct object *object;
	uint8_t *place;
	int error = dm_ref(dm->handle, dm->context, &object);

	if (error)
		return result_of("ibv_memcpy_to_dm", error);
	place = place_of(object, dm_offset, length);
	if (place)
		memcpy(place, host_addr, length);
	object_unref(object);
	return result_of("ibv_memcpy_to_dm", place ? 0 : EINVAL);
}

static int dm_read(void *host_addr, struct ibv_dm *dm, uint64_t dm_offset, size_t length)
{
	struct object *object;
	const uint8_t *place;
	int error = dm_ref(dm->handle, dm->context, &object);

	if (error)
		return result_of("ibv_memcpy_from_dm", error);
	place = place_of(object, dm_offset, length);
	if (place)
		memcpy(host_addr, place, length);
	object_unref(object);
	return result_of("ibv_memcpy_from_dm", place ? 0 : EINVAL);
}

static struct ibv_dm verbs_of(struct ibv_context *context, uint32_t handle)
{
	return (struct ibv_dm){
		.context = context,
		.memcpy_to_dm = dm_write,
		.memcpy_from_dm = dm_read,
		.comp_mask = IBV_DM_MASK_HANDLE,
		.handle = handle,
	};
}

struct ibv_dm *dm_alloc(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	const struct device *device = context_of(context)->device;
	struct dm *dm = NULL;
	int error = EINVAL;

	if (attr->comp_mask || !attr->length || attr->log_align_req > LOG_ALIGN_MAX)
		goto fail;
	error = ENOMEM;
	if (attr->length > DM_BYTES_MAX || !bytes_take(device, attr->length))
		goto fail;
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		goto fail_give;
	error = -nic_dm_create(attr->length, attr->log_align_req, &dm->nic);
	if (error)
		goto fail_free;
	error = object_add(&dm->object, OBJECT_DM, context_of(context));
	if (error)
		goto fail_destroy;
	dm->verbs = verbs_of(context, dm->object.handle);
	nic_export_dm(dm->object.handle, context_of(context)->opening, &dm->nic);
	return &dm->verbs;

fail_destroy:
	nic_dm_destroy(&dm->nic);
fail_free:
	free(dm);
fail_give:
	bytes_give(device, attr->length);
fail:
	errno = error;
	return NULL;
}

void dm_release(struct object *object)
{
	struct dm *dm = container_of(object, struct dm, object);

	nic_export_end(object->handle);
	nic_dm_destroy(&dm->nic);
	if (!dm->nic.owner)
		bytes_give(context_of(dm->verbs.context)->device, dm->nic.bytes);
	dm->verbs.handle = 0;
}

int dm_free(struct ibv_dm *dm)
{
	return result_of("ibv_free_dm",
		object_destroy(dm->handle, OBJECT_DM, context_of(dm->context), dm_release,
			offsetof(struct dm, object)));
}

struct ibv_mr *dm_register(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset, size_t length,
	unsigned int access)
{
	struct object *object;
	struct ibv_mr *mr = NULL;
	int error = dm_ref(dm->handle, dm->context, &object);

	if (error) {
		errno = error;
		return NULL;
	}
	errno = EINVAL;
	const struct nic_dm *nic = &container_of(object, struct dm, object)->nic;
	if ((access & IBV_ACCESS_ZERO_BASED) && !(access & ~(unsigned int)ACCESS_ACCEPTED) &&
		range_inside(dm_offset, length, 0, nic->bytes)) {
		struct mr made = {
			.verbs = {.addr = nic->memory + dm_offset, .length = length},
			.dm = object,
		};

		mr = mr_make(pd, &made, 0, access, false);
	}
	if (!mr)
		object_unref(object);
	return mr;
}

/* Map memory of another process. NULL with errno. */
static struct ibv_dm *import_foreign(struct ibv_context *context, uint32_t dm_handle)
{
	struct context *front = context_of(context);
	struct dm *dm = calloc(1, sizeof(*dm));
	int error;

	if (!dm)
		return NULL;
	error = -nic_import_dm(&front->owner, front->owner_opening, dm_handle, &dm->nic);
	if (!error) {
		error = object_add(&dm->object, OBJECT_DM, front);
		if (error)
			nic_dm_destroy(&dm->nic);
	}
	if (error) {
		free(dm);
		errno = error;
		return NULL;
	}
	dm->verbs = verbs_of(context, dm->object.handle);
	return &dm->verbs;
}

/* Make a second public structure for memory that stays its creator's. */
struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
	struct object *object;
	struct ibv_dm *imported;
	int error;

	if (context_is_foreign(context_of(context)))
		return import_foreign(context, dm_handle);
	error = dm_ref(dm_handle, context, &object);
	if (error) {
		errno = error;
		return NULL;
	}
	object_unref(object);
	imported = malloc(sizeof(*imported));
	if (imported)
		*imported = verbs_of(context, dm_handle);
	return imported;
}

/* Foreign memory in use goes with its context. */
void ibv_unimport_dm(struct ibv_dm *dm)
{
	if (context_is_foreign(context_of(dm->context)))
		dm_free(dm);
	else
		free(dm);
}
