/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory as a program uses it: regions of all kinds, windows, device memory, advice.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#include <cmocka.h>

#include "os/setting.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

enum {
	TIMEOUT_HALF_A_SECOND = 17,
	PAGE_BYTES = 4096,
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		IBV_ACCESS_REMOTE_ATOMIC,
};

static struct ibv_context *context;
static struct verbs_end a, b;

static int setup(void **state)
{
	(void)state;
	context = verbs_pair_open();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return ibv_close_device(context);
}

static int pair_setup(void **state)
{
	(void)state;
	verbs_end_make(&a, context, NULL);
	verbs_end_make(&b, context, NULL);
	verbs_ends_connect(&a, &b, TIMEOUT_HALF_A_SECOND);
	return 0;
}

static int pair_teardown(void **state)
{
	(void)state;
	verbs_end_unmake(&a);
	verbs_end_unmake(&b);
	return 0;
}

/* a writes or reads 64 bytes of its buffer at `address` of b. */
static enum ibv_wc_status rdma(enum ibv_wr_opcode opcode, uint64_t address, uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)a.buffer, 64, a.mr->lkey};
	struct ibv_send_wr *bad,
		wr = {
			.opcode = opcode,
			.send_flags = IBV_SEND_SIGNALED,
			.sg_list = &sge,
			.num_sge = 1,
			.wr.rdma = {address, rkey},
		};

	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
	return verbs_poll_one(a.cq).status;
}

static enum ibv_wc_status write_to(uint64_t address, uint32_t rkey)
{
	return rdma(IBV_WR_RDMA_WRITE, address, rkey);
}

/* --- regions ------------------------------------------------------------------------------ */

static void region_of_zero_base_counts_from_its_first_byte(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(b.pd, b.buffer, 4096, ALL | IBV_ACCESS_ZERO_BASED);

	(void)state;
	assert_non_null(mr);
	verbs_pattern_fill(a.buffer, 64, 1);
	assert_int_equal(write_to(100, mr->rkey), IBV_WC_SUCCESS);
	assert_true(verbs_pattern_is(b.buffer + 100, 64, 1));
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void region_with_an_address_of_its_own_counts_from_there(void **state)
{
	const uint64_t iova = 0x123456789000;
	struct ibv_mr *mr = ibv_reg_mr_iova(b.pd, b.buffer, 4096, iova, ALL);

	(void)state;
	assert_non_null(mr);
	verbs_pattern_fill(a.buffer, 64, 2);
	assert_int_equal(write_to(iova + 100, mr->rkey), IBV_WC_SUCCESS);
	assert_true(verbs_pattern_is(b.buffer + 100, 64, 2));
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void region_of_everything_needs_nothing_to_be_there(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(b.pd, NULL, SIZE_MAX, ALL | IBV_ACCESS_ON_DEMAND);

	(void)state;
	assert_non_null(mr);
	verbs_pattern_fill(a.buffer, 64, 3);
	assert_int_equal(write_to((uintptr_t)b.buffer, mr->rkey), IBV_WC_SUCCESS);
	assert_true(verbs_pattern_is(b.buffer, 64, 3));
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL),
		IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_null(ibv_reg_mr(b.pd, NULL, SIZE_MAX, ALL));
}

static void region_on_demand_that_is_not_there_is_an_error_and_not_a_crash(void **state)
{
	uint8_t *hole = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *readable = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *fresh =
		mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static const int kinds[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
	struct ibv_sge sge;

	/* The peer's. */
	for (int i = 0; i < 3; i++) {
		struct ibv_mr *all = ibv_reg_mr(b.pd, NULL, SIZE_MAX, ALL | IBV_ACCESS_ON_DEMAND);
		uint64_t address = (uintptr_t)(i < 2 ? hole : readable) + 4000;

		assert_int_equal(write_to((uintptr_t)fresh, all->rkey), IBV_WC_SUCCESS);
		assert_int_equal(
			rdma(IBV_WR_RDMA_READ, (uintptr_t)readable, all->rkey), IBV_WC_SUCCESS);
		assert_int_equal(rdma((enum ibv_wr_opcode)kinds[i % 2], address, all->rkey),
			IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(ibv_dereg_mr(all), 0);
		pair_teardown(state);
		pair_setup(state);
	}
	/* One's own. */
	for (int i = 0; i < 2; i++) {
		struct ibv_mr *mr = ibv_reg_mr(a.pd, i ? hole : readable, PAGE_BYTES,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
		struct ibv_send_wr *bad,
			wr = {
				.opcode = i ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
				.send_flags = IBV_SEND_SIGNALED,
				.sg_list = &sge,
				.num_sge = 1,
				.wr.rdma = {(uintptr_t)b.buffer, b.mr->rkey},
			};

		assert_non_null(mr);
		sge = (struct ibv_sge){(uintptr_t)mr->addr, 64, mr->lkey};
		assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
		assert_int_equal(verbs_poll_one(a.cq).status, IBV_WC_LOC_PROT_ERR);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		pair_teardown(state);
		pair_setup(state);
	}
	munmap(hole, PAGE_BYTES);
	munmap(readable, PAGE_BYTES);
	munmap(fresh, PAGE_BYTES);
}

static void region_of_nothing_swallows_and_gives_zeros(void **state)
{
	struct ibv_mr *null = ibv_alloc_null_mr(a.pd);
	struct ibv_sge sge = {12345, 32, null->lkey};
	struct ibv_send_wr *bad,
		wr = {
			.opcode = IBV_WR_RDMA_READ,
			.send_flags = IBV_SEND_SIGNALED,
			.sg_list = &sge,
			.num_sge = 1,
			.wr.rdma = {(uintptr_t)b.buffer, b.mr->rkey},
		};

	(void)state;
	memset(b.buffer, 0xee, 64);
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
	assert_int_equal(verbs_poll_one(a.cq).status, IBV_WC_SUCCESS);
	wr.opcode = IBV_WR_RDMA_WRITE;
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
	assert_int_equal(verbs_poll_one(a.cq).status, IBV_WC_SUCCESS);
	for (int i = 0; i < 64; i++)
		assert_int_equal(b.buffer[i], i < 32 ? 0 : 0xee);
	assert_int_equal(ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL),
		IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_dereg_mr(null), 0);
}

static void region_with_flags_of_no_meaning(void **state)
{
	struct ibv_mr *mr;

	(void)state;
	/* The optional range may be ignored; the rest may not. */
	mr = ibv_reg_mr(a.pd, a.buffer, 10, IBV_ACCESS_OPTIONAL_RANGE | IBV_ACCESS_HUGETLB);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_null(ibv_reg_mr(a.pd, a.buffer, 10, 1 << 10));
	assert_int_equal(errno, EINVAL);
	/* FLUSH to everybody's eyes is offered, to persistence it is not. */
	mr = ibv_reg_mr(a.pd, a.buffer, 10, 1 << 8);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_null(ibv_reg_mr(a.pd, a.buffer, 10, 1 << 9));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void region_registered_again_is_what_was_asked_for(void **state)
{
	struct ibv_pd *other = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(b.pd, b.buffer, 1024, 0);
	uint64_t address = (uintptr_t)b.buffer + 2048;
	uint32_t rkey = mr->rkey;

	(void)state;
	assert_int_equal(
		ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
			b.buffer + 2048, 1024, ALL),
		0);
	assert_int_equal(mr->rkey, rkey);
	assert_ptr_equal(mr->addr, b.buffer + 2048);
	assert_int_equal(mr->length, 1024);
	assert_int_equal(write_to(address, mr->rkey), IBV_WC_SUCCESS);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
	assert_ptr_equal(mr->pd, other);
	/* To the same one is a change, too. */
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
	assert_int_equal(ibv_dealloc_pd(other), EBUSY);
	assert_int_equal(write_to(address, mr->rkey), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
}

static void region_registered_again_in_vain_is_what_it_was(void **state)
{
	void *hole = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_pd gone = {.context = context, .handle = 77};
	struct ibv_mr *mr = ibv_reg_mr(b.pd, b.buffer, 1024, ALL);
	const struct {
		int flags;
		struct ibv_pd *pd;
		void *addr;
		size_t length;
		int access;
		int error;
		int err_code;
	} cases[] = {
		{0, NULL, NULL, 0, 0, EINVAL, IBV_REREG_MR_ERR_INPUT},
		{8, NULL, NULL, 0, 0, EINVAL, IBV_REREG_MR_ERR_INPUT},
		{IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0, EINVAL, IBV_REREG_MR_ERR_INPUT},
		{IBV_REREG_MR_CHANGE_PD, b.pd, NULL, 0, ALL, EINVAL, IBV_REREG_MR_ERR_INPUT},
		{IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 10, 0, EINVAL,
			IBV_REREG_MR_ERR_INPUT},
		{IBV_REREG_MR_CHANGE_TRANSLATION, NULL, b.buffer, 0, 0, EINVAL,
			IBV_REREG_MR_ERR_INPUT},
		{IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 1 << 10, EINVAL,
			IBV_REREG_MR_ERR_INPUT},
		{IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE, EINVAL,
			IBV_REREG_MR_ERR_CMD},
		{IBV_REREG_MR_CHANGE_TRANSLATION, NULL, hole, 10, 0, EFAULT, IBV_REREG_MR_ERR_CMD},
		{IBV_REREG_MR_CHANGE_PD, &gone, NULL, 0, 0, ENOENT, IBV_REREG_MR_ERR_CMD},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		errno = 0;
		assert_int_equal(ibv_rereg_mr(mr, cases[i].flags, cases[i].pd, cases[i].addr,
					 cases[i].length, cases[i].access),
			cases[i].err_code);
		assert_int_equal(errno, cases[i].error);
		assert_int_equal(write_to((uintptr_t)b.buffer, mr->rkey), IBV_WC_SUCCESS);
	}
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(hole, PAGE_BYTES);
}

/* --- windows ------------------------------------------------------------------------------ */

static void bind_2(struct ibv_mw *mw, uint32_t rkey, struct ibv_mw_bind_info info, int expected)
{
	struct ibv_send_wr *bad,
		wr = {
			.opcode = IBV_WR_BIND_MW,
			.send_flags = IBV_SEND_SIGNALED,
			.bind_mw = {mw, rkey, info},
		};

	assert_int_equal(ibv_post_send(b.qp, &wr, &bad), expected);
}

static void window_is_bound_used_and_outlived(void **state)
{
	struct ibv_mr *mr =
		ibv_reg_mr(b.pd, b.buffer, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = {
		mr, (uintptr_t)b.buffer + 128, 64, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED};
	uint32_t rkey = ibv_inc_rkey(mw->rkey);

	(void)state;
	bind_2(mw, rkey, info, 0);
	assert_int_equal(verbs_poll_one(b.cq).opcode, IBV_WC_BIND_MW);
	verbs_pattern_fill(a.buffer, 64, 5);
	assert_int_equal(write_to(0, rkey), IBV_WC_SUCCESS);
	assert_true(verbs_pattern_is(b.buffer + 128, 64, 5));
	assert_int_equal(ibv_dereg_mr(mr), EBUSY);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL),
		IBV_REREG_MR_ERR_CMD);
	assert_int_equal(errno, EBUSY);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(write_to(0, rkey), IBV_WC_REM_ACCESS_ERR);
}

/*
 * Adapters take the index from the window and the tag from the request, and programs that know them
 * pass the tag alone.
 */
static void window_of_type_2_is_bound_by_its_tag(void **state)
{
	struct ibv_mr *mr =
		ibv_reg_mr(b.pd, b.buffer, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = {
		mr, (uintptr_t)b.buffer, 64, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED};
	struct ibv_send_wr *bad,
		inv = {.opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED};

	(void)state;
	assert_int_equal(mw->rkey & 0xff, 0);
	bind_2(mw, 7, info, 0);
	assert_int_equal(verbs_poll_one(b.cq).status, IBV_WC_SUCCESS);
	verbs_pattern_fill(a.buffer, 64, 6);
	assert_int_equal(write_to(0, mw->rkey | 7), IBV_WC_SUCCESS);
	assert_true(verbs_pattern_is(b.buffer, 64, 6));

	inv.invalidate_rkey = mw->rkey | 7;
	assert_int_equal(ibv_post_send(b.qp, &inv, &bad), 0);
	assert_int_equal(verbs_poll_one(b.cq).status, IBV_WC_SUCCESS);
	bind_2(mw, 0xabcdef08, info, 0);
	assert_int_equal(verbs_poll_one(b.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(write_to(0, mw->rkey | 8), IBV_WC_SUCCESS);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void window_of_type_1_is_bound_by_its_verb_only(void **state)
{
	struct ibv_mr *mr =
		ibv_reg_mr(b.pd, b.buffer, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {
		.wr_id = 99,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {mr, (uintptr_t)b.buffer, 64, IBV_ACCESS_REMOTE_WRITE},
	};
	uint32_t before = mw->rkey;

	(void)state;
	bind_2(mw, ibv_inc_rkey(mw->rkey), bind.bind_info, EINVAL);
	assert_int_equal(ibv_bind_mw(b.qp, mw, &bind), 0);
	assert_int_equal(mw->rkey, ibv_inc_rkey(before));
	assert_int_equal(verbs_poll_one(b.cq).wr_id, 99);
	assert_int_equal(write_to((uintptr_t)b.buffer, mw->rkey), IBV_WC_SUCCESS);
	bind.bind_info = (struct ibv_mw_bind_info){.mr = NULL};
	assert_int_equal(ibv_bind_mw(b.qp, mw, &bind), 0);
	assert_int_equal(verbs_poll_one(b.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_null(ibv_alloc_mw(b.pd, 3));
	assert_int_equal(errno, EINVAL);
}

/* --- device memory ------------------------------------------------------------------------ */

static void device_memory_is_as_much_as_advertised(void **state)
{
	struct ibv_device_attr_ex attr;
	struct ibv_alloc_dm_attr ask = {.length = 64, .log_align_req = 12};
	struct ibv_dm *small, *rest;

	(void)state;
	assert_int_equal(ibv_query_device_ex(context, NULL, &attr), 0);
	small = ibv_alloc_dm(context, &ask);
	assert_non_null(small);
	ask.length = attr.max_dm_size - 64;
	rest = ibv_alloc_dm(context, &ask);
	assert_non_null(rest);
	ask.length = 1;
	assert_null(ibv_alloc_dm(context, &ask));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(ibv_free_dm(rest), 0);
	assert_int_equal(ibv_free_dm(small), 0);
	ask.log_align_req = 13;
	assert_null(ibv_alloc_dm(context, &ask));
	ask = (struct ibv_alloc_dm_attr){.length = 0};
	assert_null(ibv_alloc_dm(context, &ask));
	assert_int_equal(errno, EINVAL);
}

static void device_memory_is_written_by_a_peer_and_read_by_copying(void **state)
{
	struct ibv_alloc_dm_attr ask = {.length = 256};
	struct ibv_dm *dm = ibv_alloc_dm(context, &ask);
	struct ibv_mr *mr;
	uint8_t copy[64];

	(void)state;
	assert_null(ibv_reg_dm_mr(b.pd, dm, 0, 256, ALL));
	assert_null(ibv_reg_dm_mr(b.pd, dm, 4, 256, ALL | IBV_ACCESS_ZERO_BASED));
	mr = ibv_reg_dm_mr(b.pd, dm, 64, 128, ALL | IBV_ACCESS_ZERO_BASED);
	assert_non_null(mr);
	assert_int_equal(ibv_free_dm(dm), EBUSY);
	verbs_pattern_fill(a.buffer, 64, 6);
	assert_int_equal(write_to(8, mr->rkey), IBV_WC_SUCCESS);
	assert_int_equal(ibv_memcpy_from_dm(copy, dm, 72, 64), 0);
	assert_true(verbs_pattern_is(copy, 64, 6));
	assert_int_equal(ibv_memcpy_from_dm(copy, dm, 73, 4), EINVAL);
	assert_int_equal(ibv_memcpy_to_dm(dm, 256, copy, 4), EINVAL);
	assert_int_equal(ibv_memcpy_to_dm(dm, UINT64_MAX - 3, copy, 8), EINVAL);
	assert_int_equal(write_to(128, mr->rkey), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
}

/* --- advice ------------------------------------------------------------------------------- */

static void advice_brings_pages_in(void **state)
{
	uint8_t *memory = mmap(
		NULL, 16 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(a.pd, memory, 16 * PAGE_BYTES, ALL | IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sge = {(uintptr_t)memory + 10, 8 * PAGE_BYTES, mr->lkey};
	unsigned char resident[16];

	(void)state;
	assert_int_equal(ibv_advise_mr(a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT,
				 IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
		0);
	assert_int_equal(mincore(memory, 16 * PAGE_BYTES, resident), 0);
	assert_int_equal(resident[0] & 1, 0);
	assert_int_equal(ibv_advise_mr(a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), 0);
	assert_int_equal(ibv_advise_mr(a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				 IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
		0);
	assert_int_equal(mincore(memory, 16 * PAGE_BYTES, resident), 0);
	for (int i = 0; i < 16; i++)
		assert_int_equal(resident[i] & 1, i < 9);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(memory, 16 * PAGE_BYTES);
}

static int advise(enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge sge)
{
	return ibv_advise_mr(a.pd, advice, flags, &sge, 1);
}

static void advice_that_is_wrong_is_refused(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(a.pd, a.buffer, 64, IBV_ACCESS_ON_DEMAND);
	struct ibv_sge good = {(uintptr_t)a.buffer, 64, mr->lkey};
	struct ibv_sge long_one = {(uintptr_t)a.buffer, 65, mr->lkey};
	struct ibv_sge unknown = {(uintptr_t)a.buffer, 64, mr->lkey ^ 1};
	struct ibv_sge foreign = {(uintptr_t)b.buffer, 64, b.mr->lkey};
	struct ibv_sge pinned = {(uintptr_t)a.buffer, 64, a.mr->lkey};

	(void)state;
	assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, good), 0);
	assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, long_one), EFAULT);
	assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, unknown), ENOENT);
	assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, foreign), EPERM);
	assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, pinned), EPERM);
	assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, good), EPERM);
	assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 2, good), EINVAL);
	assert_int_equal(ibv_advise_mr(a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &good, 0), EINVAL);
	assert_int_equal(advise((enum ibv_advise_mr_advice)9, 0, good), EOPNOTSUPP);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* --- DMA-bufs ----------------------------------------------------------------------------- */

/* A memory file that says it is a DMA-buf: this machine need not have a driver that makes one. */
static int dmabuf_fd = -1;
static int dmabuf_syncs;

int ioctl(int fd, unsigned long request, ...)
{
	static int (*next)(int, unsigned long, ...);
	va_list arguments;
	void *argument;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (request == DMA_BUF_IOCTL_SYNC) {
		off_t bytes = lseek(fd, 0, SEEK_END);

		if (dmabuf_fd >= 0 && bytes == 2 * PAGE_BYTES) {
			dmabuf_syncs += ((struct dma_buf_sync *)argument)->flags & DMA_BUF_SYNC_END
				? -1
				: 1;
			return 0;
		}
		errno = ENOTTY;
		return -1;
	}
	if (!next)
		next = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
	return next(fd, request, argument);
}

static void dmabuf_is_mapped_and_written_by_a_peer(void **state)
{
	uint8_t *view;
	struct ibv_mr *mr;

	(void)state;
	dmabuf_fd = memfd_create("buffer", MFD_CLOEXEC);
	assert_int_equal(ftruncate(dmabuf_fd, 2 * PAGE_BYTES), 0);
	mr = ibv_reg_dmabuf_mr(b.pd, PAGE_BYTES + 8, 512, 0x70008, dmabuf_fd,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(mr);
	assert_int_equal(dmabuf_syncs, 1);
	verbs_pattern_fill(a.buffer, 64, 7);
	assert_int_equal(write_to(0x70008, mr->rkey), IBV_WC_SUCCESS);
	view = mmap(NULL, 2 * PAGE_BYTES, PROT_READ, MAP_SHARED, dmabuf_fd, 0);
	assert_true(verbs_pattern_is(view + PAGE_BYTES + 8, 64, 7));
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(dmabuf_syncs, 0);
	/* An address with another place in its page; too long; flags that it may not have. */
	assert_null(ibv_reg_dmabuf_mr(b.pd, 8, 512, 0x70000, dmabuf_fd, 0));
	assert_null(ibv_reg_dmabuf_mr(b.pd, 0, 2 * PAGE_BYTES + 1, 0, dmabuf_fd, 0));
	assert_null(ibv_reg_dmabuf_mr(b.pd, 0, 512, 0, dmabuf_fd, IBV_ACCESS_ZERO_BASED));
	assert_null(ibv_reg_dmabuf_mr(b.pd, 0, 512, 0, dmabuf_fd, IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(dmabuf_syncs, 0);
	munmap(view, 2 * PAGE_BYTES);
	close(dmabuf_fd);
	dmabuf_fd = -1;
}

static void dmabuf_that_is_none_is_refused(void **state)
{
	int file = memfd_create("file", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(ftruncate(file, PAGE_BYTES), 0);
	assert_null(ibv_reg_dmabuf_mr(b.pd, 0, 512, 0, file, 0));
	assert_int_equal(errno, EINVAL);
	close(file);
	assert_null(ibv_reg_dmabuf_mr(b.pd, 0, 512, 0, file, 0));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, pair_setup, pair_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(region_of_zero_base_counts_from_its_first_byte),
		TEST(region_with_an_address_of_its_own_counts_from_there),
		TEST(region_of_everything_needs_nothing_to_be_there),
		TEST(region_on_demand_that_is_not_there_is_an_error_and_not_a_crash),
		TEST(region_of_nothing_swallows_and_gives_zeros),
		TEST(region_with_flags_of_no_meaning),
		TEST(region_registered_again_is_what_was_asked_for),
		TEST(region_registered_again_in_vain_is_what_it_was),
		TEST(window_is_bound_used_and_outlived),
		TEST(window_of_type_2_is_bound_by_its_tag),
		TEST(window_of_type_1_is_bound_by_its_verb_only),
		TEST(device_memory_is_as_much_as_advertised),
		TEST(device_memory_is_written_by_a_peer_and_read_by_copying),
		TEST(advice_brings_pages_in),
		TEST(advice_that_is_wrong_is_refused),
		TEST(dmabuf_is_mapped_and_written_by_a_peer),
		TEST(dmabuf_that_is_none_is_refused),
	};

	if (netns_enter_new() < 0)
		return 77;
	unsetenv("URNIC_DEVICE_NAME");
	unsetenv("URNIC_INTERFACES");
	settings_read();
	return cmocka_run_group_tests(tests, setup, teardown);
}
