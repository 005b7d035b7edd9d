/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/domain.h"

#include <stdlib.h>

#include "front/verbs/result.h"
#include "front/verbs/strict.h"

enum {
	ALIGNMENT_BYTES = 64,
	/*
	 * IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC of newer headers: in confidential
	 * computing, buffers may lie in memory that the virtual machine shares with devices. This
	 * NIC is in the virtual machine, so the flag changes nothing.
	 */
	COMP_MASK_UNPROTECTED = 1 << 2,
	COMP_MASK_KNOWN = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
		IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | COMP_MASK_UNPROTECTED,
};

/* --- thread domains --- */

struct ibv_td *td_alloc(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct td *td;

	if (strict_lacks("ibv_alloc_td", STRICT_HAS_THREAD_DOMAINS))
		return NULL;
	if (attr->comp_mask)
		return result_null("ibv_alloc_td", result_cause(REASON_UNKNOWN_BITS));
	td = calloc(1, sizeof(*td));
	if (!td)
		return result_null("ibv_alloc_td", result_cause(REASON_NO_MEMORY));
	td->verbs.context = context;
	return object_publish(&td->object, OBJECT_TD, context_of(context), NULL, 0) ? &td->verbs
										    : NULL;
}

void *td_release(struct object *object)
{
	return container_of(object, struct td, object);
}

int td_dealloc(struct ibv_td *verbs)
{
	const struct td *td = container_of(verbs, struct td, verbs);

	return result_of(
		"ibv_dealloc_td", object_destroy(td->object.handle, OBJECT_TD, verbs->context));
}

/* --- parent domains --- */

/* Reference the objects that the domain is built on. */
static int parent_domain_refer(struct parent_domain *domain)
{
	const struct ibv_parent_domain_init_attr *attr = &domain->attr;
	struct context *context = context_of(domain->verbs.context);

	/*
	 * A parent domain cannot be built on another parent domain, because two allocators would
	 * apply.
	 */
	domain->pd = object_ref(attr->pd->handle, OBJECT_PD, context);
	if (!domain->pd) {
		struct object *known = pd_ref(attr->pd);

		object_unref(known);
		return result_cause(known ? REASON_DOMAIN_NESTED : REASON_NO_PARENT);
	}
	if (attr->td) {
		const struct td *td = container_of(attr->td, struct td, verbs);

		domain->td = object_ref(td->object.handle, OBJECT_TD, context);
		return domain->td ? 0 : result_cause(REASON_NO_PARENT);
	}
	return 0;
}

static int domain_attr_check(const struct ibv_parent_domain_init_attr *attr)
{
	bool has_allocators = attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;

	if (attr->comp_mask & ~(uint32_t)COMP_MASK_KNOWN)
		return result_cause(REASON_UNKNOWN_BITS);
	if (!attr->pd || (has_allocators && !(attr->alloc && attr->free)))
		return result_cause(REASON_ATTR_MISSING);
	return 0;
}

struct ibv_pd *parent_domain_alloc(
	struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
{
	struct parent_domain *domain;
	int error;

	if (strict_lacks("ibv_alloc_parent_domain", STRICT_HAS_THREAD_DOMAINS))
		return NULL;
	error = domain_attr_check(attr);
	if (error)
		return result_null("ibv_alloc_parent_domain", error);
	domain = calloc(1, sizeof(*domain));
	if (!domain)
		return result_null("ibv_alloc_parent_domain", result_cause(REASON_NO_MEMORY));
	domain->verbs.context = context;
	domain->attr = *attr;
	return object_publish(&domain->object, OBJECT_PARENT_DOMAIN, context_of(context),
		       &domain->verbs.handle, parent_domain_refer(domain))
		? &domain->verbs
		: NULL;
}

void *parent_domain_release(struct object *object)
{
	struct parent_domain *domain = container_of(object, struct parent_domain, object);

	object_unref(domain->pd);
	object_unref(domain->td);
	return domain;
}

/* --- what is made through them --- */

/*
 * Call the program's allocator. Returns NULL if the allocator has no memory, or
 * IBV_ALLOCATOR_USE_DEFAULT if it does not want to allocate.
 */
static void *alloc_by_program(
	const struct parent_domain *parent, enum domain_resource resource, size_t bytes)
{
	const struct ibv_parent_domain_init_attr *attr = &parent->attr;
	struct ibv_pd *pd = (struct ibv_pd *)&parent->verbs;
	void *memory;

	if (!(attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS))
		return IBV_ALLOCATOR_USE_DEFAULT;
	memory = attr->alloc(pd, attr->pd_context, bytes, ALIGNMENT_BYTES, resource);
	/*
	 * Zero the memory, because a faulty program may not have done so, and a leftover value
	 * would later be used as a pointer.
	 */
	if (memory && memory != IBV_ALLOCATOR_USE_DEFAULT)
		memset(memory, 0, bytes);
	return memory;
}

static const struct parent_domain *parent_of(const struct object *object)
{
	return container_of(object->parent, struct parent_domain, object);
}

void *domain_alloc(const struct ibv_pd *pd, enum domain_resource resource, size_t bytes,
	struct object *ret_object)
{
	void *memory = IBV_ALLOCATOR_USE_DEFAULT;

	*ret_object = (struct object){.kind = OBJECT_NONE};
	if (pd)
		ret_object->parent =
			object_ref(pd->handle, OBJECT_PARENT_DOMAIN, context_of(pd->context));
	bytes = align_up_u64(bytes, ALIGNMENT_BYTES);
	if (ret_object->parent)
		memory = alloc_by_program(parent_of(ret_object), resource, bytes);
	ret_object->is_by_program = memory != IBV_ALLOCATOR_USE_DEFAULT;
	if (!ret_object->is_by_program)
		memory = calloc(1, bytes);
	if (!memory)
		object_unref(ret_object->parent);
	return memory;
}

void domain_free(const struct object *object, enum domain_resource resource, void *memory)
{
	const struct parent_domain *parent;

	if (!object->is_by_program) {
		free(memory);
		return;
	}
	parent = parent_of(object);
	parent->attr.free(
		(struct ibv_pd *)&parent->verbs, parent->attr.pd_context, memory, resource);
}

bool domain_is_single_threaded(const struct object *object)
{
	return object->parent && parent_of(object)->td;
}
