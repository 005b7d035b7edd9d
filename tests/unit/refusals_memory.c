/* SPDX-License-Identifier: BSD-2-Clause */
/* Refused calls about domains, regions, windows, device memory and buffers. */
#include "refusals.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static struct ibv_pd no_pd(void)
{
	return (struct ibv_pd){.context = refusals.context, .handle = 0x77777};
}

/* --- domains --- */

static int made_ibv_alloc_pd(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(refusals.context);

	return pd ? ibv_dealloc_pd(pd) : errno;
}

WITHOUT_MEMORY(ibv_alloc_pd)
AT_LIMIT(ibv_alloc_pd, max_pd)
NEVER_MADE(ibv_dealloc_pd, struct ibv_pd, ibv_dealloc_pd(&gone))

PROVOKE(ibv_dealloc_pd, IN_USE)
{
	return ibv_dealloc_pd(refusals.pd);
}

PROVOKE(ibv_import_pd, NO_OBJECT)
{
	return refusal_of(ibv_import_pd(refusals.context, 0x77777));
}

static int made_ibv_import_pd(void)
{
	struct ibv_pd *pd = ibv_import_pd(refusals.context, refusals.pd->handle);

	if (!pd)
		return errno;
	ibv_unimport_pd(pd);
	return 0;
}

WITHOUT_MEMORY(ibv_import_pd)

static int made_ibv_alloc_td(void)
{
	struct ibv_td_init_attr attr = {0};
	struct ibv_td *td = ibv_alloc_td(refusals.context, &attr);

	return td ? ibv_dealloc_td(td) : errno;
}

WITHOUT_MEMORY(ibv_alloc_td)

PROVOKE(ibv_alloc_td, UNKNOWN_BITS)
{
	struct ibv_td_init_attr attr = {.comp_mask = 1};

	return refusal_of(ibv_alloc_td(refusals.context, &attr));
}

static struct ibv_pd *parent_make(struct ibv_pd *pd, struct ibv_td *td, uint32_t comp_mask)
{
	struct ibv_parent_domain_init_attr attr = {.pd = pd, .td = td, .comp_mask = comp_mask};

	return ibv_alloc_parent_domain(refusals.context, &attr);
}

PROVOKE(ibv_dealloc_td, IN_USE)
{
	struct ibv_td_init_attr attr = {0};
	struct ibv_td *td = ibv_alloc_td(refusals.context, &attr);
	struct ibv_pd *parent = parent_make(refusals.pd, td, 0);
	int error = ibv_dealloc_td(td);

	return ibv_dealloc_pd(parent) || ibv_dealloc_td(td) ? 0 : error;
}

static int made_ibv_alloc_parent_domain(void)
{
	struct ibv_pd *parent = parent_make(refusals.pd, NULL, 0);

	return parent ? ibv_dealloc_pd(parent) : errno;
}

WITHOUT_MEMORY(ibv_alloc_parent_domain)

PROVOKE(ibv_alloc_parent_domain, UNKNOWN_BITS)
{
	return refusal_of(parent_make(refusals.pd, NULL, 1u << 31));
}

PROVOKE(ibv_alloc_parent_domain, ATTR_MISSING)
{
	return refusal_of(parent_make(NULL, NULL, 0));
}

PROVOKE(ibv_alloc_parent_domain, NO_PARENT)
{
	struct ibv_pd pd = no_pd();

	return refusal_of(parent_make(&pd, NULL, 0));
}

PROVOKE(ibv_alloc_parent_domain, DOMAIN_NESTED)
{
	struct ibv_pd *parent = parent_make(refusals.pd, NULL, 0);
	int error = refusal_of(parent_make(parent, NULL, 0));

	return ibv_dealloc_pd(parent) ? 0 : error;
}

/* --- regions --- */

static int register_with(unsigned int access)
{
	return refusal_of(ibv_reg_mr_iova2(
		refusals.pd, refusals.memory, 64, (uintptr_t)refusals.memory, access));
}

static int made_ibv_reg_mr(void)
{
	struct ibv_mr *mr = ibv_reg_mr(refusals.pd, refusals.memory, 64, 0);

	return mr ? ibv_dereg_mr(mr) : errno;
}

WITHOUT_MEMORY(ibv_reg_mr)
AT_LIMIT(ibv_reg_mr, max_mr)

PROVOKE(ibv_reg_mr, ACCESS_BITS)
{
	return register_with(1u << 30);
}

PROVOKE(ibv_reg_mr, ACCESS_PERSISTENT)
{
	return register_with(1u << 9);
}

PROVOKE(ibv_reg_mr, ACCESS_LOCAL_WRITE)
{
	return register_with(IBV_ACCESS_REMOTE_WRITE);
}

PROVOKE(ibv_reg_mr, MEMORY_UNMAPPED)
{
	return refusal_of(ibv_reg_mr(refusals.pd, (void *)4096, 64, 0));
}

/* Calls `make` of a region on a device whose regions have one byte at most. */
static int with_tiny_regions(int (*make)(void))
{
	uint64_t before = device_limits.max_mr_size;
	int error;

	device_limits.max_mr_size = 1;
	error = make();
	device_limits.max_mr_size = before;
	return error;
}

static int rereg_longer(void)
{
	return ibv_rereg_mr(refusals.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, refusals.memory,
		       64, 0)
		? errno
		: 0;
}

PROVOKE(ibv_reg_mr, MR_LENGTH)
{
	return with_tiny_regions(made_ibv_reg_mr);
}

PROVOKE(ibv_rereg_mr, MR_LENGTH)
{
	return with_tiny_regions(rereg_longer);
}

PROVOKE(ibv_reg_mr, NO_PARENT)
{
	struct ibv_pd pd = no_pd();

	return refusal_of(ibv_reg_mr(&pd, refusals.memory, 64, 0));
}

PROVOKE(ibv_rereg_mr, REREG_FLAGS)
{
	return ibv_rereg_mr(refusals.mr, 0, NULL, NULL, 0, 0) ? errno : 0;
}

static int rereg_access(struct ibv_mr *mr, int access)
{
	return ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, access) ? errno : 0;
}

PROVOKE(ibv_rereg_mr, ACCESS_BITS)
{
	return rereg_access(refusals.mr, 1 << 30);
}

PROVOKE(ibv_rereg_mr, ACCESS_PERSISTENT)
{
	return rereg_access(refusals.mr, 1 << 9);
}

PROVOKE(ibv_rereg_mr, ACCESS_LOCAL_WRITE)
{
	return rereg_access(refusals.mr, IBV_ACCESS_REMOTE_WRITE);
}

NEVER_MADE(ibv_rereg_mr, struct ibv_mr, rereg_access(&gone, 0))

PROVOKE(ibv_rereg_mr, NO_PARENT)
{
	struct ibv_pd pd = no_pd();

	return ibv_rereg_mr(refusals.mr, IBV_REREG_MR_CHANGE_PD, &pd, NULL, 0, 0) ? errno : 0;
}

PROVOKE(ibv_rereg_mr, MEMORY_UNMAPPED)
{
	return ibv_rereg_mr(refusals.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)4096, 64, 0)
		? errno
		: 0;
}

PROVOKE(ibv_rereg_mr, REREG_FIXED)
{
	struct ibv_mr *null_region = ibv_alloc_null_mr(refusals.pd);
	int error = rereg_access(null_region, 0);

	return ibv_dereg_mr(null_region) ? 0 : error;
}

NEVER_MADE(ibv_dereg_mr, struct ibv_mr, ibv_dereg_mr(&gone))

/* Calls `refused` while a window is bound to the region. */
static int with_bound_window(int (*refused)(struct ibv_mr *mr))
{
	struct ibv_mw *mw = ibv_alloc_mw(refusals.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {
		.bind_info = {.mr = refusals.mr,
			.addr = (uintptr_t)refusals.memory,
			.length = 64,
			.mw_access_flags = IBV_ACCESS_REMOTE_READ},
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_wc wc = {0};
	int error;

	if (!mw || ibv_bind_mw(refusals.ready, mw, &bind))
		return 0;
	while (!ibv_poll_cq(refusals.cq, 1, &wc))
		;
	error = wc.status == IBV_WC_SUCCESS ? refused(refusals.mr) : 0;
	return ibv_dealloc_mw(mw) ? 0 : error;
}

static int rereg_whole(struct ibv_mr *mr)
{
	return rereg_access(mr, IBV_ACCESS_LOCAL_WRITE);
}

PROVOKE(ibv_rereg_mr, WINDOWS_BOUND)
{
	return with_bound_window(rereg_whole);
}

PROVOKE(ibv_dereg_mr, WINDOWS_BOUND)
{
	return with_bound_window(ibv_dereg_mr);
}

PROVOKE(ibv_import_mr, NO_OBJECT)
{
	return refusal_of(ibv_import_mr(refusals.pd, 0x77777));
}

static int made_ibv_import_mr(void)
{
	struct ibv_mr *mr = ibv_import_mr(refusals.pd, refusals.mr->handle);

	if (!mr)
		return errno;
	ibv_unimport_mr(mr);
	return 0;
}

WITHOUT_MEMORY(ibv_import_mr)

PROVOKE(ibv_import_mr, GONE)
{
	return refusal_of(ibv_import_mr(refusals.pd, refusals.mr->handle));
}

/* --- advice --- */

static int advise(struct ibv_pd *pd, enum ib_uverbs_advise_mr_advice advice, uint32_t flags,
	struct ibv_sge entry)
{
	return ibv_advise_mr(pd, advice, flags, &entry, 1);
}

#define PREFETCH IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH

static struct ibv_sge known_entry(uint32_t bytes)
{
	return (struct ibv_sge){(uintptr_t)refusals.memory, bytes, refusals.mr->lkey};
}

PROVOKE(ibv_advise_mr, ADVICE)
{
	return advise(refusals.pd, (enum ib_uverbs_advise_mr_advice)99, 0, known_entry(8));
}

PROVOKE(ibv_advise_mr, UNKNOWN_BITS)
{
	return advise(refusals.pd, PREFETCH, 1u << 31, known_entry(8));
}

PROVOKE(ibv_advise_mr, ATTR_MISSING)
{
	return ibv_advise_mr(refusals.pd, PREFETCH, 0, NULL, 0);
}

PROVOKE(ibv_advise_mr, NO_PARENT)
{
	struct ibv_pd pd = no_pd();

	return advise(&pd, PREFETCH, 0, known_entry(8));
}

PROVOKE(ibv_advise_mr, ADVISE_KEY)
{
	struct ibv_sge entry = known_entry(8);

	entry.lkey ^= 0x10101;
	return advise(refusals.pd, PREFETCH, 0, entry);
}

PROVOKE(ibv_advise_mr, ADVISE_RIGHT)
{
	return advise(refusals.pd, PREFETCH, 0, known_entry(8)); /* it is not on demand */
}

static int advise_on_demand(void *address, size_t region_bytes, uint32_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(refusals.pd, address, region_bytes, IBV_ACCESS_ON_DEMAND);
	struct ibv_sge entry = {(uintptr_t)address, bytes, mr->lkey};
	int error = advise(refusals.pd, PREFETCH, IB_UVERBS_ADVISE_MR_FLAG_FLUSH, entry);

	return ibv_dereg_mr(mr) ? 0 : error;
}

PROVOKE(ibv_advise_mr, ADVISE_BOUNDS)
{
	return advise_on_demand(refusals.memory, 64, 128);
}

PROVOKE(ibv_advise_mr, MEMORY_UNMAPPED)
{
	return advise_on_demand((void *)4096, 64, 64);
}

/* --- windows --- */

static int made_ibv_alloc_mw(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(refusals.pd, IBV_MW_TYPE_1);

	return mw ? ibv_dealloc_mw(mw) : errno;
}

WITHOUT_MEMORY(ibv_alloc_mw)
AT_LIMIT(ibv_alloc_mw, max_mw)
NEVER_MADE(ibv_dealloc_mw, struct ibv_mw, ibv_dealloc_mw(&gone))

PROVOKE(ibv_alloc_mw, MW_TYPE)
{
	return refusal_of(ibv_alloc_mw(refusals.pd, (enum ibv_mw_type)9));
}

PROVOKE(ibv_alloc_mw, NO_PARENT)
{
	struct ibv_pd pd = no_pd();

	return refusal_of(ibv_alloc_mw(&pd, IBV_MW_TYPE_1));
}

/* --- device memory --- */

static struct ibv_dm *dm_make(size_t length, uint32_t log_align)
{
	struct ibv_alloc_dm_attr attr = {.length = length, .log_align_req = log_align};

	return ibv_alloc_dm(refusals.context, &attr);
}

static int made_ibv_alloc_dm(void)
{
	struct ibv_dm *dm = dm_make(64, 0);

	return dm ? ibv_free_dm(dm) : errno;
}

WITHOUT_MEMORY(ibv_alloc_dm)

PROVOKE(ibv_alloc_dm, DM_SHAPE)
{
	return refusal_of(dm_make(0, 0));
}

PROVOKE(ibv_alloc_dm, DM_SPACE)
{
	return refusal_of(dm_make(DM_BYTES_MAX + 4, 0));
}

static struct ibv_dm no_dm(void)
{
	struct ibv_dm *known = dm_make(64, 0), gone = *known;

	ibv_free_dm(known);
	return gone;
}

PROVOKE(ibv_free_dm, NO_OBJECT)
{
	struct ibv_dm dm = no_dm();

	return ibv_free_dm(&dm);
}

/* Calls `refused` with device memory of 64 bytes. */
static int with_dm(int (*refused)(struct ibv_dm *dm))
{
	struct ibv_dm *dm = dm_make(64, 0);
	int error = refused(dm);

	return ibv_free_dm(dm) ? 0 : error;
}

static int free_used_dm(struct ibv_dm *dm)
{
	struct ibv_mr *mr = ibv_reg_dm_mr(refusals.pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED);
	int error = ibv_free_dm(dm);

	return ibv_dereg_mr(mr) ? 0 : error;
}

PROVOKE(ibv_free_dm, IN_USE)
{
	return with_dm(free_used_dm);
}

static int copy_beyond_to(struct ibv_dm *dm)
{
	return ibv_memcpy_to_dm(dm, 60, refusals.memory, 8);
}

static int copy_beyond_from(struct ibv_dm *dm)
{
	return ibv_memcpy_from_dm(refusals.memory, dm, 60, 8);
}

PROVOKE(ibv_memcpy_to_dm, DM_RANGE)
{
	return with_dm(copy_beyond_to);
}

PROVOKE(ibv_memcpy_from_dm, DM_RANGE)
{
	return with_dm(copy_beyond_from);
}

PROVOKE(ibv_memcpy_to_dm, NO_OBJECT)
{
	struct ibv_dm dm = no_dm();

	return ibv_memcpy_to_dm(&dm, 0, refusals.memory, 8);
}

PROVOKE(ibv_memcpy_from_dm, NO_OBJECT)
{
	struct ibv_dm dm = no_dm();

	return ibv_memcpy_from_dm(refusals.memory, &dm, 0, 8);
}

static int register_plain(struct ibv_dm *dm)
{
	return refusal_of(ibv_reg_dm_mr(refusals.pd, dm, 0, 64, 0)); /* not zero-based */
}

PROVOKE(ibv_reg_dm_mr, DM_ACCESS)
{
	return with_dm(register_plain);
}

PROVOKE(ibv_reg_dm_mr, NO_OBJECT)
{
	struct ibv_dm dm = no_dm();

	return register_plain(&dm);
}

static struct ibv_dm *kept_dm;

static int made_ibv_import_dm(void)
{
	struct ibv_dm *dm = ibv_import_dm(refusals.context, kept_dm->handle);

	if (!dm)
		return errno;
	ibv_unimport_dm(dm);
	return 0;
}

PROVOKE(ibv_import_dm, NO_MEMORY)
{
	int error;

	kept_dm = dm_make(64, 0);
	error = refusal_without_memory(made_ibv_import_dm);
	return ibv_free_dm(kept_dm) ? 0 : error;
}

PROVOKE(ibv_import_dm, NO_OBJECT)
{
	return refusal_of(ibv_import_dm(refusals.context, 0x77777));
}

PROVOKE(ibv_dm_export_dmabuf_fd, NO_DMABUF)
{
	return dm_export_dmabuf(NULL) < 0 ? errno : 0;
}

/* --- DMA-bufs and buffers --- */

static int register_dmabuf(uint64_t offset, size_t length, int access)
{
	int fd = memfd_create("refusals", MFD_CLOEXEC);
	int error;

	if (fd < 0 || ftruncate(fd, 4096))
		return 0;
	error = refusal_of(ibv_reg_dmabuf_mr(refusals.pd, offset, length, offset, fd, access));
	close(fd);
	return error;
}

PROVOKE(ibv_reg_dmabuf_mr, ACCESS_BITS)
{
	return register_dmabuf(0, 64, 1 << 30);
}

PROVOKE(ibv_reg_dmabuf_mr, DMABUF_RANGE)
{
	return register_dmabuf(4000, 200, 0);
}

PROVOKE(ibv_reg_dmabuf_mr, DMABUF_FILE)
{
	return register_dmabuf(0, 64, 0); /* a memfd */
}

PROVOKE(ibv_reg_mr_ex, UNSUPPORTED_BITS)
{
	return refusal_of(mr_register_ex(refusals.pd, &(struct mr_attr){.comp_mask = 1u << 31}));
}

PROVOKE(ibv_reg_mr_ex, MR_EX_SOURCE)
{
	return refusal_of(mr_register_ex(refusals.pd, &(struct mr_attr){.comp_mask = 0}));
}

/* Calls `refused` with a buffer of a page. */
static int with_buffer(int (*refused)(struct buffer *buffer, uint8_t *memory))
{
	struct buffer *buffer;
	uint8_t *memory = buffer_alloc(refusals.pd, 4096, &buffer);
	int error = refused(buffer, memory);

	buffer_free(buffer);
	return error;
}

static int register_beyond(struct buffer *buffer, uint8_t *memory)
{
	return refusal_of(buffer_register(refusals.pd, buffer, memory, 8192, 0));
}

static int register_beyond_ex(struct buffer *buffer, uint8_t *memory)
{
	const struct mr_attr attr = {
		.comp_mask = MR_ATTR_ADDRESS | MR_ATTR_BUFFER,
		.address = memory,
		.length = 8192,
		.buffer = buffer,
	};

	return refusal_of(mr_register_ex(refusals.pd, &attr));
}

PROVOKE(ibv_reg_buf_mr, BUFFER_RANGE)
{
	return with_buffer(register_beyond);
}

PROVOKE(ibv_reg_mr_ex, BUFFER_RANGE)
{
	return with_buffer(register_beyond_ex);
}

PROVOKE(ibv_export_buf_dmabuf_fd, BUFFER_PRIVATE)
{
	return buffer_export_dmabuf(NULL) < 0 ? errno : 0;
}

PROVOKE(ibv_alloc_buf, BUFFER_LENGTH)
{
	struct buffer *buffer;

	return refusal_of(buffer_alloc(refusals.pd, 0, &buffer));
}

static int made_ibv_alloc_buf(void)
{
	struct buffer *buffer;

	if (!buffer_alloc(refusals.pd, 4096, &buffer))
		return errno;
	buffer_free(buffer);
	return 0;
}

WITHOUT_MEMORY(ibv_alloc_buf)

/* --- handles of hints --- */

static int made_ibv_alloc_dmah(void)
{
	struct dma_handle *handle =
		dma_handle_alloc(refusals.context, &(struct dma_handle_attr){.comp_mask = 0});

	return handle ? dma_handle_dealloc(handle) : errno;
}

WITHOUT_MEMORY(ibv_alloc_dmah)

PROVOKE(ibv_alloc_dmah, UNSUPPORTED_BITS)
{
	return refusal_of(dma_handle_alloc(
		refusals.context, &(struct dma_handle_attr){.comp_mask = 1u << 31}));
}

PROVOKE(ibv_alloc_dmah, DMAH_VALUE)
{
	const struct dma_handle_attr attr = {
		.comp_mask = DMA_HANDLE_PROCESSING_HINT, .processing_hint = 9};

	return refusal_of(dma_handle_alloc(refusals.context, &attr));
}

PROVOKE(ibv_dealloc_dmah, IN_USE)
{
	struct mr_attr attr = {
		.comp_mask = MR_ATTR_ADDRESS | MR_ATTR_DMA_HANDLE,
		.address = refusals.memory,
		.length = 64,
		.dma_handle = dma_handle_alloc(
			refusals.context, &(struct dma_handle_attr){.comp_mask = 0}),
	};
	struct ibv_mr *mr = mr_register_ex(refusals.pd, &attr);
	int error = dma_handle_dealloc(attr.dma_handle);

	return ibv_dereg_mr(mr) || dma_handle_dealloc(attr.dma_handle) ? 0 : error;
}
