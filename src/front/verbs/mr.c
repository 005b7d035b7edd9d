/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions. The NIC knows a region by its key and the number of its protection domain.
 */
#include "front/verbs/mr.h"

#include <stdlib.h>

#include "front/verbs/pd.h"
#include "front/verbs/probe.h"
#include "runtime/nic.h"

/* Flags that a registration may have. The optional range may be ignored by definition; what of it the NIC knows is passed on. */
#define ACCESS_NIC                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | MR_FLUSH_GLOBAL |    \
		IBV_ACCESS_RELAXED_ORDERING)
#define ACCESS_ACCEPTED (ACCESS_NIC | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE)

struct mr {
	struct ibv_mr verbs;
	struct object object;
	struct object *pd;
};

/* Flags that mean something which is not there. 0 or a positive errno. */
static int access_check(unsigned int access)
{
	if (access & (IBV_ACCESS_ON_DEMAND | IBV_ACCESS_ZERO_BASED))
		return EOPNOTSUPP;
	return access & ~(unsigned int)ACCESS_ACCEPTED ? EINVAL : 0;
}

/* Registers with the NIC. 0 or a positive errno. */
static int mr_register(struct mr *mr, uint64_t iova, unsigned int access)
{
	struct mr_region region = {
		.pd = mr->pd->handle,
		.access = access & ACCESS_NIC,
		.iova = iova,
		.bytes = mr->verbs.length,
		.address = mr->verbs.addr,
	};
	uint32_t key;
	int error = access_check(access);

	if (!error)
		error = memory_probe(
			mr->verbs.addr, mr->verbs.length, (access & IBV_ACCESS_LOCAL_WRITE) != 0);
	if (!error)
		error = -nic_mr_register(&region, &key);
	if (!error) {
		mr->verbs.lkey = key;
		mr->verbs.rkey = key;
	}
	return error;
}

struct ibv_mr *ibv_reg_mr_iova2(
	struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	struct object *pd_object = pd_ref(pd);
	struct mr *mr = NULL;
	int error = EINVAL;

	if (!pd_object)
		goto fail;
	error = ENOMEM;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		goto fail_unref_pd;
	mr->pd = pd_object;
	mr->verbs = (struct ibv_mr){
		.context = pd->context,
		.pd = pd,
		.addr = addr,
		.length = length,
	};
	error = mr_register(mr, iova, access);
	if (error)
		goto fail_free;
	error = object_add(&mr->object, OBJECT_MR, context_of(pd->context));
	if (error)
		goto fail_deregister;
	mr->verbs.handle = mr->object.handle;
	return &mr->verbs;

fail_deregister:
	nic_mr_deregister(mr->verbs.lkey, pd_object->handle);
fail_free:
	free(mr);
fail_unref_pd:
	object_unref(pd_object);
fail:
	errno = error;
	return NULL;
}

struct ibv_mr *ibv_reg_mr_iova(
	struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

int ibv_rereg_mr(
	struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	(void)mr;
	(void)flags;
	(void)pd;
	(void)addr;
	(void)length;
	(void)access;
	errno = EOPNOTSUPP;
	return IBV_REREG_MR_ERR_INPUT;
}

void mr_release(struct object *object)
{
	struct mr *mr = container_of(object, struct mr, object);

	nic_mr_deregister(mr->verbs.lkey, mr->pd->handle);
	object_unref(mr->pd);
	mr->verbs.handle = 0;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct object *object;
	int error = object_remove(mr->handle, OBJECT_MR, context_of(mr->context), &object);

	if (error)
		return error;
	mr_release(object);
	free(container_of(object, struct mr, object));
	return 0;
}

/* A second public structure for a region that stays its creator's. */
struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
	struct object *object = object_ref(mr_handle, OBJECT_MR, context_of(pd->context));
	struct ibv_mr *imported;

	if (!object) {
		errno = EINVAL;
		return NULL;
	}
	imported = calloc(1, sizeof(*imported));
	if (imported) {
		*imported = container_of(object, struct mr, object)->verbs;
		imported->context = pd->context;
		imported->pd = pd;
	}
	object_unref(object);
	return imported;
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	free(mr);
}
