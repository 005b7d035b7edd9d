/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/domain.h"

#include <stdlib.h>

#include "front/verbs/result.h"

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
	int error;

	if (attr->comp_mask) {
		errno = EINVAL;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td)
		return NULL;
	error = object_add(&td->object, OBJECT_TD, context_of(context));
	if (error) {
		free(td);
		errno = error;
		return NULL;
	}
	td->verbs.context = context;
	return &td->verbs;
}

void td_release(struct object *object)
{
	(void)object;
}

int td_dealloc(struct ibv_td *verbs)
{
	const struct td *td = container_of(verbs, struct td, verbs);

	return result_of("ibv_dealloc_td",
		object_destroy(td->object.handle, OBJECT_TD, context_of(verbs->context), td_release,
			offsetof(struct td, object)));
}

/* --- parent domains --- */

/* Reference the objects that the domain is built on. */
static int parent_domain_refer(struct parent_domain *domain)
{
	const struct ibv_parent_domain_init_attr *attr = &domain->attr;
	struct context *context = context_of(domain->verbs.context);

	/* A parent domain cannot be built on another one: two allocators would apply. */
	domain->pd = object_ref(attr->pd->handle, OBJECT_PD, context);
	if (!domain->pd) {
		struct object *known = pd_ref(attr->pd);

		if (known)
			object_unref(known);
		return known ? EINVAL : ENOENT;
	}
	if (attr->td) {
		const struct td *td = container_of(attr->td, struct td, verbs);

		domain->td = object_ref(td->object.handle, OBJECT_TD, context);
		if (!domain->td) {
			object_unref(domain->pd);
			return ENOENT;
		}
	}
	return 0;
}

static bool is_attr_allowed(const struct ibv_parent_domain_init_attr *attr)
{
	if (!attr->pd || attr->comp_mask & ~(uint32_t)COMP_MASK_KNOWN)
		return false;
	return !(attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) ||
		(attr->alloc && attr->free);
}

struct ibv_pd *parent_domain_alloc(
	struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
{
	struct parent_domain *domain = NULL;
	int error = is_attr_allowed(attr) ? 0 : EINVAL;

	if (!error) {
		domain = calloc(1, sizeof(*domain));
		error = domain ? 0 : ENOMEM;
	}
	if (error)
		goto fail;
	domain->verbs.context = context;
	domain->attr = *attr;
	error = parent_domain_refer(domain);
	if (error)
		goto fail_free;
	error = object_add(&domain->object, OBJECT_PARENT_DOMAIN, context_of(context));
	if (error)
		goto fail_release;
	domain->verbs.handle = domain->object.handle;
	return &domain->verbs;

fail_release:
	parent_domain_release(&domain->object);
fail_free:
	free(domain);
fail:
	errno = error;
	return NULL;
}

void parent_domain_release(struct object *object)
{
	struct parent_domain *domain = container_of(object, struct parent_domain, object);

	object_unref(domain->pd);
	if (domain->td)
		object_unref(domain->td);
	domain->verbs.handle = 0;
}

int parent_domain_dealloc(struct ibv_pd *pd)
{
	return object_destroy(pd->handle, OBJECT_PARENT_DOMAIN, context_of(pd->context),
		parent_domain_release, offsetof(struct parent_domain, object));
}

/* --- what is made through them --- */

/* Call the program's allocator. NULL: it has no memory; IBV_ALLOCATOR_USE_DEFAULT: it declines. */
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
	 * A wrong program may not have zeroed it, and a stray value would be a wild pointer later.
	 */
	if (memory && memory != IBV_ALLOCATOR_USE_DEFAULT)
		memset(memory, 0, bytes);
	return memory;
}

void *domain_alloc(const struct ibv_pd *pd, enum domain_resource resource, size_t bytes,
	struct domain *ret_domain)
{
	struct object *object =
		pd ? object_ref(pd->handle, OBJECT_PARENT_DOMAIN, context_of(pd->context)) : NULL;
	struct parent_domain *parent;
	void *memory;

	*ret_domain = (struct domain){.parent = object};
	if (!object)
		return calloc(1, bytes);
	parent = container_of(object, struct parent_domain, object);
	ret_domain->is_single_threaded = parent->td != NULL;
	bytes = align_up_u64(bytes, ALIGNMENT_BYTES);
	memory = alloc_by_program(parent, resource, bytes);
	if (memory == IBV_ALLOCATOR_USE_DEFAULT) {
		memory = calloc(1, bytes);
	} else {
		ret_domain->free = parent->attr.free;
		ret_domain->pd = &parent->verbs;
		ret_domain->pd_context = parent->attr.pd_context;
	}
	if (!memory)
		object_unref(object);
	return memory;
}

void domain_leave(struct domain *domain)
{
	if (domain->parent)
		object_unref(domain->parent);
	domain->parent = NULL;
}

void domain_free(const struct domain *domain, enum domain_resource resource, void *memory)
{
	struct domain left = *domain;

	if (left.free)
		left.free(left.pd, left.pd_context, memory, resource);
	else
		free(memory);
	domain_leave(&left);
}
