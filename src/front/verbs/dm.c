/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory: a part of NIC memory. Programs copy to it and from it; peers access it through a
 * memory region.
 */

#include <stdlib.h>

#include "base/arith.h"
#include "front/verbs/mr.h"
#include "front/verbs/newer.h"
#include "front/verbs/result.h"
#include "front/verbs/strict.h"
#include "nic/object/nic.h"
#include "peer/nic_import.h"

/* A copy consists of whole words, as on adapters with device memory. */
#define WORD_BYTES    4
#define LOG_ALIGN_MAX 12

/* Flags that a region of device memory may have; the region is always zero-based. */
#define ACCESS_ACCEPTED                                                                  \
	(IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |      \
		IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | \
		IBV_ACCESS_OPTIONAL_RANGE)

struct dm {
	struct ibv_dm verbs;
	struct object object;
	struct nic_dm nic; /* if nic.owner is set, the memory belongs to another process */
};

/* The bytes of device memory that are allocated, by the device's index. */
static _Atomic uint64_t allocated_bytes[DEVICE_COUNT_MAX];

/* Count `bytes` more bytes as allocated. Returns false if the device has fewer left. */
static bool bytes_take(const struct device *device, uint64_t bytes)
{
	_Atomic uint64_t *allocated = &allocated_bytes[device->index];

	if (bytes > DM_BYTES_MAX)
		return false;
	if (atomic_fetch_add(allocated, bytes) + bytes <= DM_BYTES_MAX)
		return true;
	atomic_fetch_sub(allocated, bytes);
	return false;
}

/*
 * Find the memory that a call names, and become its user; undo with object_unref(). Returns 0;
 * ENOENT when there is no such memory; or EIO in a forked child for memory of the parent.
 */
static int dm_ref(uint32_t handle, struct ibv_context *context, struct object **ret_object)
{
	struct object *object = object_ref(handle, OBJECT_DM, context_of(context));

	if (!object)
		return result_cause(REASON_NO_OBJECT);
	if (!nic_dm_is_alive(&container_of(object, struct dm, object)->nic)) {
		object_unref(object);
		return result_cause(REASON_GONE);
	}
	*ret_object = object;
	return 0;
}

/*
 * The place of a copy in the memory. NULL: the range is not of whole words, or not in the memory.
 */
static uint8_t *place_of(struct object *object, uint64_t offset, uint64_t bytes)
{
	const struct nic_dm *nic = &container_of(object, struct dm, object)->nic;

	if (offset % WORD_BYTES || bytes % WORD_BYTES ||
		!range_inside(offset, bytes, 0, nic->bytes))
		return NULL;
	return nic->memory + offset;
}

/* Copy to the device memory if `to` is NULL, or from the device memory if `from` is NULL. */
static int dm_copy(const char *call, const struct ibv_dm *dm, uint64_t dm_offset, void *to,
	const void *from, size_t length)
{
	struct object *object;
	uint8_t *place;
	int error = dm_ref(dm->handle, dm->context, &object);

	if (error)
		return result_of(call, error);
	place = place_of(object, dm_offset, length);
	if (place)
		memcpy(to ? to : place, from ? from : place, length);
	object_unref(object);
	return result_of(call, place ? 0 : result_cause(REASON_DM_RANGE));
}

static int dm_write(struct ibv_dm *dm, uint64_t dm_offset, const void *host_addr, size_t length)
{
	return dm_copy("ibv_memcpy_to_dm", dm, dm_offset, NULL, host_addr, length);
}

static int dm_read(void *host_addr, struct ibv_dm *dm, uint64_t dm_offset, size_t length)
{
	return dm_copy("ibv_memcpy_from_dm", dm, dm_offset, host_addr, NULL, length);
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
	struct context *front = context_of(context);
	struct dm *dm;
	int error;

	if (strict_lacks("ibv_alloc_dm", STRICT_HAS_DEVICE_MEMORY))
		return NULL;
	if (attr->comp_mask || !attr->length || attr->log_align_req > LOG_ALIGN_MAX)
		return result_null("ibv_alloc_dm", result_cause(REASON_DM_SHAPE));
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return result_null("ibv_alloc_dm", result_cause(REASON_NO_MEMORY));
	dm->verbs = verbs_of(context, 0);
	if (bytes_take(front->device, attr->length)) {
		dm->nic.bytes = attr->length; /* dm_release() subtracts these bytes again */
		error = -nic_dm_create(attr->length, attr->log_align_req, &dm->nic);
	} else {
		error = result_cause_limit(REASON_DM_SPACE, attr->length, DM_BYTES_MAX);
	}
	if (!object_publish(&dm->object, OBJECT_DM, front, &dm->verbs.handle, error))
		return NULL;
	nic_export_dm(dm->object.handle, front->opening, &dm->nic);
	return &dm->verbs;
}

void *dm_release(struct object *object)
{
	struct dm *dm = container_of(object, struct dm, object);
	const struct device *device = context_of(dm->verbs.context)->device;

	nic_export_end(object->handle);
	nic_dm_destroy(&dm->nic);
	if (!dm->nic.owner)
		atomic_fetch_sub(&allocated_bytes[device->index], dm->nic.bytes);
	return dm;
}

int dm_free(struct ibv_dm *dm)
{
	return result_of("ibv_free_dm", object_destroy(dm->handle, OBJECT_DM, dm->context));
}

struct ibv_mr *dm_register(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset, size_t length,
	unsigned int access)
{
	struct object *object;
	struct ibv_mr *mr = NULL;
	int error = dm_ref(dm->handle, dm->context, &object);

	if (error)
		return result_null("ibv_reg_dm_mr", error);
	const struct nic_dm *nic = &container_of(object, struct dm, object)->nic;
	if ((access & IBV_ACCESS_ZERO_BASED) && !(access & ~(unsigned int)ACCESS_ACCEPTED) &&
		range_inside(dm_offset, length, 0, nic->bytes)) {
		struct mr made = {
			.verbs = {.addr = nic->memory + dm_offset, .length = length},
			.dm = object,
		};

		mr = mr_make(pd, &made, 0, access, false);
	} else {
		result_refused("ibv_reg_dm_mr", result_cause(REASON_DM_ACCESS));
	}
	if (!mr)
		object_unref(object);
	return mr;
}

/* Map memory of another process. NULL with errno on failure. */
static struct ibv_dm *import_foreign(struct ibv_context *context, uint32_t dm_handle)
{
	struct context *front = context_of(context);
	struct dm *dm = calloc(1, sizeof(*dm));
	int error;

	if (!dm)
		return result_null("ibv_import_dm", result_cause(REASON_NO_MEMORY));
	dm->verbs = verbs_of(context, 0);
	error = result_of_import(
		-nic_import_dm(&front->owner, front->owner_opening, dm_handle, &dm->nic));
	return object_publish_as(
		       "ibv_import_dm", &dm->object, OBJECT_DM, front, &dm->verbs.handle, error)
		? &dm->verbs
		: NULL;
}

/* For memory of this process, make a second public structure. The creator still owns the memory. */
struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
	struct object *object;
	struct ibv_dm *imported;
	int error;

	if (context_is_foreign(context_of(context)))
		return import_foreign(context, dm_handle);
	error = dm_ref(dm_handle, context, &object);
	if (error)
		return result_null("ibv_import_dm", error);
	object_unref(object);
	imported = malloc(sizeof(*imported));
	if (!imported)
		return result_null("ibv_import_dm", result_cause(REASON_NO_MEMORY));
	*imported = verbs_of(context, dm_handle);
	return imported;
}

/* If memory of another process is still in use, its mapping lasts until the context is closed. */
void ibv_unimport_dm(struct ibv_dm *dm)
{
	if (context_is_foreign(context_of(dm->context)))
		dm_free(dm);
	else
		free(dm);
}

int dm_export_dmabuf(struct ibv_dm *dm)
{
	(void)dm;
	return result_minus_one("ibv_dm_export_dmabuf_fd", result_cause(REASON_NO_DMABUF));
}
