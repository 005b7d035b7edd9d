/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/pd.h"

#include <stdlib.h>

#include "front/verbs/domain.h"

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct pd *pd = calloc(1, sizeof(*pd));
	int error;

	if (!pd)
		return NULL;
	error = object_add(&pd->object, OBJECT_PD, context_of(context));
	if (error) {
		free(pd);
		errno = error;
		return NULL;
	}
	pd->verbs = (struct ibv_pd){.context = context, .handle = pd->object.handle};
	return &pd->verbs;
}

void pd_release(struct object *object)
{
	container_of(object, struct pd, object)->verbs.handle = 0;
}

struct object *pd_ref(const struct ibv_pd *pd)
{
	const struct context *context = context_of(pd->context);
	struct object *object = object_ref(pd->handle, OBJECT_PD, context);
	struct object *parent;

	if (object)
		return object;
	parent = object_ref(pd->handle, OBJECT_PARENT_DOMAIN, context);
	if (!parent)
		return NULL;
	/* Alive as long as its parent domain is. */
	object = container_of(parent, struct parent_domain, object)->pd;
	object = object_ref(object->handle, OBJECT_PD, context);
	object_unref(parent);
	return object;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	int error = object_destroy(pd->handle, OBJECT_PD, context_of(pd->context), pd_release,
		offsetof(struct pd, object));

	return error == EINVAL ? parent_domain_dealloc(pd) : error;
}

/* An imported domain is a second public structure with the handle of the first; the domain stays its creator's. */
struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
	struct ibv_pd named = {.context = context, .handle = pd_handle};
	struct object *object = pd_ref(&named);
	struct ibv_pd *imported;

	if (!object) {
		errno = EINVAL;
		return NULL;
	}
	object_unref(object);
	imported = calloc(1, sizeof(*imported));
	if (!imported)
		return NULL;
	*imported = named;
	return imported;
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
	free(pd);
}
