/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/pd.h"

#include <stdlib.h>

#include "front/verbs/domain.h"
#include "front/verbs/result.h"
#include "peer/nic_import.h"

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	int error = -nic_export_start();
	struct pd *pd;

	if (error)
		return result_null("ibv_alloc_pd", error);
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return result_null("ibv_alloc_pd", result_cause(REASON_NO_MEMORY));
	pd->verbs.context = context;
	if (!object_publish(&pd->object, OBJECT_PD, context_of(context), &pd->verbs.handle, 0))
		return NULL;
	nic_export_pd(pd->object.handle, context_of(context)->opening);
	return &pd->verbs;
}

void *pd_release(struct object *object)
{
	struct pd *pd = container_of(object, struct pd, object);

	if (pd->imported)
		nic_unimport_pd(pd->imported);
	else
		nic_export_end(object->handle);
	return pd;
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
	/* The parent domain keeps its protection domain alive. */
	object = container_of(parent, struct parent_domain, object)->pd;
	object = object_ref(object->handle, OBJECT_PD, context);
	object_unref(parent);
	return object;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	int error = object_destroy(pd->handle, OBJECT_PD, pd->context);

	if (error == ENOENT)
		error = object_destroy(pd->handle, OBJECT_PARENT_DOMAIN, pd->context);
	return result_of("ibv_dealloc_pd", error);
}

/*
 * Import a domain of another process; it gets a number in this process. NULL with errno on failure.
 */
static struct ibv_pd *import_foreign(struct ibv_context *context, uint32_t pd_handle)
{
	struct context *front = context_of(context);
	struct pd *pd = calloc(1, sizeof(*pd));
	int error;

	if (!pd)
		return result_null("ibv_import_pd", result_cause(REASON_NO_MEMORY));
	pd->verbs.context = context;
	error = result_of_import(
		-nic_import_pd(&front->owner, front->owner_opening, pd_handle, &pd->imported));
	return object_publish_as(
		       "ibv_import_pd", &pd->object, OBJECT_PD, front, &pd->verbs.handle, error)
		? &pd->verbs
		: NULL;
}

/*
 * For a domain of this process, make a second public structure with the same handle. The creator
 * still owns the domain.
 */
struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
	struct ibv_pd named = {.context = context, .handle = pd_handle};
	struct object *object;
	struct ibv_pd *imported;

	if (context_is_foreign(context_of(context)))
		return import_foreign(context, pd_handle);
	object = pd_ref(&named);
	if (!object)
		return result_null("ibv_import_pd", result_cause(REASON_NO_OBJECT));
	object_unref(object);
	imported = calloc(1, sizeof(*imported));
	if (!imported)
		return result_null("ibv_import_pd", result_cause(REASON_NO_MEMORY));
	*imported = named;
	return imported;
}

/* If a domain of another process is still in use, it lasts until the context is closed. */
void ibv_unimport_pd(struct ibv_pd *pd)
{
	if (context_is_foreign(context_of(pd->context)))
		ibv_dealloc_pd(pd);
	else
		free(pd);
}
