/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions. The NIC knows a region by its key and the number of its protection domain.
 *
 * This NIC uses the page tables of the process, so every region is paged on demand. With
 * IBV_ACCESS_ON_DEMAND, registration does not check that the memory is mapped: the NIC touches each
 * page before an access, and never moves the memory (docs/memory.md).
 */
#include "front/verbs/mr.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "front/verbs/newer.h"
#include "front/verbs/pd.h"
#include "front/verbs/result.h"
#include "front/verbs/strict.h"
#include "nic/object/nic.h"
#include "os/vma.h"
#include "peer/nic_import.h"

/* Flags that the NIC uses. */
#define ACCESS_NIC                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | MR_FLUSH_GLOBAL |    \
		IBV_ACCESS_ON_DEMAND | IBV_ACCESS_RELAXED_ORDERING)
/* Flags that a registration may have. Those of the optional range may be ignored by definition. */
#define ACCESS_ACCEPTED \
	(ACCESS_NIC | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE)
/* IBV_ACCESS_FLUSH_PERSISTENT of newer headers, which this NIC knows but does not support. */
#define ACCESS_FLUSH_PERSISTENT (1u << 9)

#define REREG_SUPPORTED (unsigned int)IBV_REREG_MR_FLAGS_SUPPORTED

static int access_check(unsigned int access)
{
	if (access & ACCESS_FLUSH_PERSISTENT)
		return result_cause(REASON_ACCESS_PERSISTENT);
	if (access & ~(unsigned int)ACCESS_ACCEPTED)
		return result_cause(REASON_ACCESS_BITS);
	if ((access & IBV_ACCESS_ON_DEMAND) && !strict_has(STRICT_HAS_ON_DEMAND))
		return strict_refuse_lack(STRICT_HAS_ON_DEMAND);
	return access & MR_FLUSH_GLOBAL ? strict_refuse_lack(STRICT_HAS_FLUSH) : 0;
}

/*
 * Check that all of [address, address + bytes) is mapped and readable, and if `is_written`,
 * writable. The check reads the list of mappings and touches no pages. An adapter's driver pins the
 * pages, which fails for unmapped or read-only addresses. This NIC pins nothing; without this check
 * it would meet the page fault in the middle of a peer's message.
 *
 * Returns 0 or EFAULT. Returns 0 if the kernel does not list mappings.
 */
static int memory_probe(const void *address, size_t bytes, bool is_written)
{
	uint64_t first = (uintptr_t)address;

	if (bytes == 0)
		return 0;
	if (bytes - 1 > UINT64_MAX - first)
		return result_cause(REASON_MEMORY_UNMAPPED);
	return vmas_have(first, first + bytes - 1, PROT_READ | (is_written ? PROT_WRITE : 0))
		? 0
		: result_cause(REASON_MEMORY_UNMAPPED);
}

/* Check the memory of a registration by memory_probe(), unless `access` has ON_DEMAND. */
static int memory_check(void *addr, size_t length, unsigned int access)
{
	bool is_written = (access & IBV_ACCESS_LOCAL_WRITE) != 0;

	return access & IBV_ACCESS_ON_DEMAND ? 0 : memory_probe(addr, length, is_written);
}

/* Count the region's pages as pinned, as a driver does. Refuse a region that exceeds the limit. */
static int mr_pin(struct mr *mr)
{
	int error;

	error = strict_refuse_beyond(
		REASON_MR_LENGTH, "length", mr->verbs.length, device_limits.max_mr_size);
	if (error || (mr->access & IBV_ACCESS_ON_DEMAND))
		return error;
	error = strict_pin(mr->verbs.addr, mr->verbs.length);
	mr->is_pinned = !error;
	return error;
}

static void mr_unpin(const struct mr *mr)
{
	if (mr->is_pinned)
		strict_unpin(mr->verbs.addr, mr->verbs.length);
}

static struct mr_region region_of(const struct mr *mr)
{
	return (struct mr_region){
		.pd = pd_number(mr->pd),
		.access = mr->access & ACCESS_NIC,
		.iova = mr->iova,
		.bytes = mr->verbs.length,
		.address = mr->verbs.addr,
	};
}

/* Give the region its handle and its keys. */
static int mr_publish(struct mr *mr, uint32_t key)
{
	int error = object_add(&mr->object, OBJECT_MR, context_of(mr->verbs.context));

	if (error) {
		nic_mr_deregister(key, pd_number(mr->pd));
		return error;
	}
	mr->object.public_handle = &mr->verbs.handle;
	mr->verbs.handle = mr->object.handle;
	mr->verbs.lkey = key;
	mr->verbs.rkey = key;
	nic_export_mr(
		mr->object.handle, context_of(mr->verbs.context)->opening, key, mr->verbs.length);
	return 0;
}

/*
 * Allocate a copy of `made` that uses the protection domain `pd`. NULL with errno on failure; the
 * caller then still owns what `made` contains.
 */
static struct mr *mr_new(struct ibv_pd *pd, const struct mr *made)
{
	struct object *pd_object = pd_ref(pd);
	struct mr *mr;

	if (!pd_object)
		return result_null("ibv_reg_mr", result_cause(REASON_NO_PARENT));
	mr = malloc(sizeof(*mr));
	if (!mr) {
		object_unref(pd_object);
		return result_null("ibv_reg_mr", result_cause(REASON_NO_MEMORY));
	}
	*mr = *made;
	pthread_mutex_init(&mr->lock, NULL);
	mr->pd = pd_object;
	mr->verbs.context = pd->context;
	mr->verbs.pd = pd;
	return mr;
}

void mr_free(void *memory)
{
	struct mr *mr = memory;

	mr_unpin(mr);
	if (mr->dma_handle)
		atomic_fetch_sub(&mr->dma_handle->users, 1);
	pthread_mutex_destroy(&mr->lock);
	free(mr);
}

/* Finish a registration: return the region for the program. After an error, free the region. */
static struct ibv_mr *mr_finish(struct mr *mr, int error, uint32_t key)
{
	if (!error)
		error = mr_publish(mr, key);
	if (!error)
		return &mr->verbs;
	object_unref(mr->pd);
	mr_free(mr);
	return result_null("ibv_reg_mr", error);
}

struct ibv_mr *mr_make(
	struct ibv_pd *pd, const struct mr *made, uint64_t iova, unsigned int access, bool is_own)
{
	struct mr *mr = mr_new(pd, made);
	uint32_t key = 0;
	int error;

	if (!mr)
		return NULL;
	mr->access = access;
	mr->iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
	/* A region of the whole address space (implicit on-demand paging) is fixed, too. */
	mr->is_fixed = !is_own ||
		((access & IBV_ACCESS_ON_DEMAND) && !mr->verbs.addr &&
			mr->verbs.length == SIZE_MAX);
	struct mr_region region = region_of(mr);
	error = access_check(access);
	if (!error && is_own)
		error = memory_check(mr->verbs.addr, mr->verbs.length, access);
	if (!error && is_own)
		error = mr_pin(mr);
	if (!error)
		error = result_as(-nic_mr_register(&region, &key), REASON_ACCESS_LOCAL_WRITE);
	return mr_finish(mr, error, key);
}

struct ibv_mr *ibv_reg_mr_iova2(
	struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	struct mr made = {.verbs = {.addr = addr, .length = length}};

	return mr_make(pd, &made, iova, access, true);
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

struct ibv_mr *mr_alloc_null(struct ibv_pd *pd)
{
	struct mr made = {.verbs = {.length = SIZE_MAX}, .is_fixed = true};
	uint32_t key = 0;
	struct mr *mr;
	int error;

	if (strict_lacks("ibv_alloc_null_mr", STRICT_HAS_NULL_REGION))
		return NULL;
	mr = mr_new(pd, &made);
	if (!mr)
		return NULL;
	error = -nic_mr_register_null(pd_number(mr->pd), &key);
	return mr_finish(mr, error, key);
}

/* --- registering again -------------------------------------------------------------------- */

/* Check for input errors, as the man page of ibv_rereg_mr() defines them. */
static int rereg_check(
	int flags, const struct ibv_pd *pd, const void *addr, size_t length, int access)
{
	if (!flags || flags & ~(int)REREG_SUPPORTED)
		return result_cause(REASON_REREG_FLAGS);
	if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!addr || !length))
		return result_cause(REASON_REREG_FLAGS);
	if ((flags & IBV_REREG_MR_CHANGE_PD) && !pd)
		return result_cause(REASON_REREG_FLAGS);
	if (!(flags & IBV_REREG_MR_CHANGE_ACCESS))
		return access ? result_cause(REASON_REREG_FLAGS) : 0;
	return access_check((unsigned int)access);
}

/*
 * Change the region to `changed`, which has a reference to its protection domain. On failure
 * nothing has changed.
 */
static int mr_rereg(struct mr *mr, struct mr *changed)
{
	struct mr_region region = region_of(changed);
	int error = memory_check(changed->verbs.addr, changed->verbs.length, changed->access);

	changed->is_pinned = false;
	if (!error)
		error = mr_pin(changed);
	if (!error)
		error = result_as(
			result_as(-nic_mr_change(mr->verbs.lkey, pd_number(mr->pd), &region),
				REASON_WINDOWS_BOUND),
			REASON_ACCESS_LOCAL_WRITE);
	if (error) {
		mr_unpin(changed);
		return error;
	}
	mr_unpin(mr);
	mr->is_pinned = changed->is_pinned;
	mr->verbs = changed->verbs;
	mr->pd = changed->pd;
	mr->iova = changed->iova;
	mr->access = changed->access;
	nic_export_mr(mr->object.handle, context_of(mr->verbs.context)->opening, mr->verbs.lkey,
		mr->verbs.length);
	return 0;
}

/* Do the work of ibv_rereg_mr() for a region that was found. Returns 0 or an errno. */
static int rereg_found(
	struct mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct mr changed = *mr;
	struct object *before;
	int error;

	if (mr->is_fixed)
		return result_cause(REASON_REREG_FIXED);
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		changed.access = (unsigned int)access;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		changed.verbs.addr = addr;
		changed.verbs.length = length;
		changed.iova = changed.access & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)addr;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		changed.pd = pd_ref(pd);
		changed.verbs.pd = pd;
		if (!changed.pd)
			return result_cause(REASON_NO_PARENT);
	}
	before = mr->pd;
	error = mr_rereg(mr, &changed);
	if (flags & IBV_REREG_MR_CHANGE_PD)
		object_unref(error ? changed.pd : before);
	return error;
}

int ibv_rereg_mr(
	struct ibv_mr *verbs, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	int error = rereg_check(flags, pd, addr, length, access);
	struct object *object;
	struct mr *mr;

	if (!error)
		error = strict_refuse_lack(STRICT_HAS_REREGISTRATION);
	if (error) {
		result_refused("ibv_rereg_mr", error);
		return IBV_REREG_MR_ERR_INPUT;
	}
	object = object_ref(verbs->handle, OBJECT_MR, context_of(verbs->context));
	if (!object) {
		result_refused("ibv_rereg_mr", result_cause(REASON_NO_OBJECT));
		return IBV_REREG_MR_ERR_INPUT;
	}
	mr = container_of(object, struct mr, object);
	pthread_mutex_lock(&mr->lock);
	error = rereg_found(mr, flags, pd, addr, length, access);
	pthread_mutex_unlock(&mr->lock);
	object_unref(object);
	if (!error)
		return 0;
	result_refused("ibv_rereg_mr", error);
	return error == EOPNOTSUPP ? IBV_REREG_MR_ERR_INPUT : IBV_REREG_MR_ERR_CMD;
}

/* --- the end ------------------------------------------------------------------------------ */

void *mr_release(struct object *object)
{
	struct mr *mr = container_of(object, struct mr, object);

	nic_export_end(object->handle);
	if (!mr->is_retired)
		nic_mr_deregister(mr->verbs.lkey, pd_number(mr->pd));
	if (mr->mapping.address)
		dmabuf_unmap(mr->mapping.address, mr->mapping.bytes, mr->mapping.fd);
	object_unref(mr->dm);
	object_unref(mr->pd);
	return mr;
}

/* Make the region's key invalid. Returns EBUSY while windows are bound to the region. */
static int mr_retire(const struct ibv_mr *verbs)
{
	struct object *object = object_ref(verbs->handle, OBJECT_MR, context_of(verbs->context));
	struct mr *mr;
	int error;

	if (!object)
		return result_cause(REASON_NO_OBJECT);
	mr = container_of(object, struct mr, object);
	pthread_mutex_lock(&mr->lock);
	error = mr->is_retired ? 0 : -nic_mr_deregister(mr->verbs.lkey, pd_number(mr->pd));
	mr->is_retired = error != EBUSY;
	pthread_mutex_unlock(&mr->lock);
	object_unref(object);
	return error == EBUSY ? result_cause(REASON_WINDOWS_BOUND) : 0;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	int error = mr_retire(mr);

	if (!error)
		error = object_destroy(mr->handle, OBJECT_MR, mr->context);
	return result_of("ibv_dereg_mr", error);
}

/* --- import ------------------------------------------------------------------------------- */

/*
 * Copy the region's public structure, if the NIC has the region. In a forked child, the NIC has
 * none of the parent's regions.
 */
static int mr_copy(struct mr *mr, struct ibv_mr *copy)
{
	void *address;
	int error;

	pthread_mutex_lock(&mr->lock);
	error = nic_mr_find(
		mr->verbs.lkey, pd_number(mr->pd), MR_LOCAL_READ, mr->iova, 0, &address);
	*copy = mr->verbs;
	pthread_mutex_unlock(&mr->lock);
	return error ? result_cause(REASON_GONE) : 0;
}

/*
 * Import a region of another process. The import makes no object in this process, because programs
 * can only use the region's key. NULL with errno on failure.
 */
static struct ibv_mr *import_foreign(struct ibv_pd *pd, uint32_t mr_handle)
{
	const struct context *context = context_of(pd->context);
	struct ibv_mr *imported = calloc(1, sizeof(*imported));
	uint64_t bytes = 0;
	int error;

	if (!imported)
		return result_null("ibv_import_mr", result_cause(REASON_NO_MEMORY));
	error = result_of_import(-nic_import_mr(
		&context->owner, context->owner_opening, mr_handle, &imported->lkey, &bytes));
	if (error) {
		free(imported);
		return result_null("ibv_import_mr", error);
	}
	imported->context = pd->context;
	imported->pd = pd;
	imported->length = bytes;
	imported->rkey = imported->lkey;
	return imported;
}

/*
 * For a region of this process, make a second public structure. The creator still owns the region.
 */
struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
	struct ibv_mr *imported;
	struct object *object;
	int error = 0;

	if (context_is_foreign(context_of(pd->context)))
		return import_foreign(pd, mr_handle);
	object = object_ref(mr_handle, OBJECT_MR, context_of(pd->context));
	if (!object)
		return result_null("ibv_import_mr", result_cause(REASON_NO_OBJECT));
	imported = calloc(1, sizeof(*imported));
	if (imported)
		error = mr_copy(container_of(object, struct mr, object), imported);
	else
		error = result_cause(REASON_NO_MEMORY);
	object_unref(object);
	if (error) {
		free(imported);
		return result_null("ibv_import_mr", error);
	}
	imported->context = pd->context;
	imported->pd = pd;
	return imported;
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	free(mr);
}

/* --- advice ------------------------------------------------------------------------------- */

/*
 * Bring pages in, as a read would, or if `is_written`, as a write would. If `is_awaited`, the pages
 * are present on return; otherwise the call is only a hint to the kernel.
 *
 * Returns 0, ENOMEM, or EFAULT when some page does not permit the access.
 */
static int memory_prefetch(void *address, size_t bytes, bool is_written, bool is_awaited)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = (uintptr_t)address & ~(page_bytes - 1);
	size_t span_bytes = (uintptr_t)address - first + bytes;
	int advice = is_written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
	int error = memory_probe(address, bytes, is_written);

	if (error)
		return error;
	if (madvise((void *)first, span_bytes, is_awaited ? advice : MADV_WILLNEED) == 0)
		return 0;
	/*
	 * Linux before 5.14 returns EINVAL. For WILLNEED on memory without a file, the kernel
	 * returns EBADF.
	 */
	if (errno == EINVAL || errno == EBADF || !is_awaited)
		return 0;
	return result_cause(errno == ENOMEM ? REASON_NO_MEMORY : REASON_MEMORY_UNMAPPED);
}

static int advise_range(
	uint32_t pd, enum ibv_advise_mr_advice advice, bool is_awaited, const struct ibv_sge *sge)
{
	bool is_written = advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	uint32_t access = MR_LOCAL_READ | MR_ON_DEMAND | (is_written ? MR_LOCAL_WRITE : 0);
	void *address;
	int error = -nic_mr_find(sge->lkey, pd, access, sge->addr, sge->length, &address);

	error = result_as(error, REASON_ADVISE_KEY);
	error = result_as(error, REASON_ADVISE_RIGHT);
	error = result_as(error, REASON_ADVISE_BOUNDS);
	if (error || !sge->length)
		return error;
	/*
	 * The advice NO_FAULT prepares an adapter for the pages that are present, and causes no
	 * page faults for the others. This NIC uses the page tables of the process, so it needs no
	 * preparation.
	 */
	if (advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return 0;
	return memory_prefetch(address, sge->length, is_written, is_awaited);
}

int mr_advise(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
	struct ibv_sge *sg_list, uint32_t num_sge)
{
	struct object *object;
	int error = 0;

	if (!strict_has(STRICT_HAS_ADVICE))
		return result_of("ibv_advise_mr", strict_refuse_lack(STRICT_HAS_ADVICE));
	if (advice > IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return result_of("ibv_advise_mr", result_cause(REASON_ADVICE));
	if (flags & ~(uint32_t)IB_UVERBS_ADVISE_MR_FLAG_FLUSH)
		return result_of("ibv_advise_mr", result_cause(REASON_UNKNOWN_BITS));
	if (!num_sge || !sg_list)
		return result_of("ibv_advise_mr", result_cause(REASON_ATTR_MISSING));
	object = pd_ref(pd);
	if (!object)
		return result_of("ibv_advise_mr", result_cause(REASON_NO_PARENT));
	for (uint32_t i = 0; i < num_sge && !error; i++)
		error = advise_range(pd_number(object), advice,
			flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH, &sg_list[i]);
	object_unref(object);
	return result_of("ibv_advise_mr", error);
}
