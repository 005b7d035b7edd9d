/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of rdma-core 45 to 65: registration with all of its options, handles for hints, memory that
 * the library allocates, the port's speed, and the refusals of what this device does not have.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arith.h"
#include "front/verbs/newer.h"
#include "os/setting.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

enum { BYTES = 8192, ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ };

static struct ibv_context *context;
static struct ibv_pd *pd, *other_pd;
static uint8_t memory[BYTES];

static int set_up(void **state)
{
	(void)state;
	context = verbs_pair_open();
	pd = ibv_alloc_pd(context);
	other_pd = ibv_alloc_pd(context);
	return !pd || !other_pd;
}

static int tear_down(void **state)
{
	(void)state;
	return ibv_dealloc_pd(other_pd) || ibv_dealloc_pd(pd) || ibv_close_device(context);
}

static struct mr_attr attr_of(uint64_t comp_mask)
{
	return (struct mr_attr){.length = BYTES,
		.access = ACCESS,
		.comp_mask = comp_mask,
		.address = memory,
		.fd = -1};
}

static void assert_refused(const struct mr_attr *attr, int error)
{
	errno = 0;
	assert_null(mr_register_ex(pd, attr));
	assert_int_equal(errno, error);
}

static void region_is_registered_by_its_attributes(void **state)
{
	struct mr_attr attr = attr_of(MR_ATTR_ADDRESS);
	struct ibv_mr *mr = mr_register_ex(pd, &attr);

	(void)state;
	assert_non_null(mr);
	assert_ptr_equal(mr->addr, memory);
	assert_int_equal(mr->length, BYTES);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	attr.comp_mask |= MR_ATTR_IOVA;
	attr.iova = 0x10000;
	mr = mr_register_ex(pd, &attr);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void attributes_that_do_not_fit_are_refused(void **state)
{
	const uint64_t bad[] = {0, MR_ATTR_IOVA, MR_ATTR_FD, MR_ATTR_FD | MR_ATTR_FD_OFFSET,
		MR_ATTR_FD_OFFSET | MR_ATTR_ADDRESS,
		MR_ATTR_FD | MR_ATTR_FD_OFFSET | MR_ATTR_IOVA | MR_ATTR_ADDRESS};
	struct mr_attr attr;

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
		attr = attr_of(bad[i]);
		assert_refused(&attr, EINVAL);
	}
	attr = attr_of(MR_ATTR_ADDRESS | (MR_ATTR_KNOWN + 1));
	assert_refused(&attr, EOPNOTSUPP);
	/* No DMA-buf. */
	attr = attr_of(MR_ATTR_FD | MR_ATTR_FD_OFFSET | MR_ATTR_IOVA);
	assert_refused(&attr, EINVAL);
}

static void hint_is_busy_while_a_region_uses_it(void **state)
{
	struct dma_handle_attr hint = {.comp_mask = DMA_HANDLE_CPU_ID | DMA_HANDLE_MEMORY_TYPE};
	struct dma_handle *handle = dma_handle_alloc(context, &hint);
	struct mr_attr attr = attr_of(MR_ATTR_ADDRESS | MR_ATTR_DMA_HANDLE);
	struct ibv_mr *mr;

	(void)state;
	assert_non_null(handle);
	assert_ptr_equal(handle->context, context);
	attr.dma_handle = handle;
	mr = mr_register_ex(pd, &attr);
	assert_non_null(mr);
	assert_int_equal(dma_handle_dealloc(handle), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	attr.access |= IBV_ACCESS_ON_DEMAND;
	assert_refused(&attr, EINVAL);
	assert_int_equal(dma_handle_dealloc(handle), 0);
}

static void assert_hint_refused(const struct dma_handle_attr *hint, int error)
{
	errno = 0;
	assert_null(dma_handle_alloc(context, hint));
	assert_int_equal(errno, error);
}

static void hint_that_no_adapter_takes_is_refused(void **state)
{
	struct dma_handle_attr hint = {.comp_mask = DMA_HANDLE_MEMORY_TYPE, .memory_type = 2};

	(void)state;
	assert_hint_refused(&hint, EINVAL);
	hint = (struct dma_handle_attr){
		.comp_mask = DMA_HANDLE_PROCESSING_HINT, .processing_hint = 4};
	assert_hint_refused(&hint, EINVAL);
	hint = (struct dma_handle_attr){.comp_mask = DMA_HANDLE_CPU_ID, .cpu_id = 0xffff};
	assert_hint_refused(&hint, EINVAL);
	hint = (struct dma_handle_attr){.comp_mask = DMA_HANDLE_KNOWN + 1};
	assert_hint_refused(&hint, EOPNOTSUPP);
}

static void buffer_is_registered_within_its_bounds_and_domain(void **state)
{
	struct mr_attr attr = attr_of(MR_ATTR_ADDRESS | MR_ATTR_BUFFER);
	struct buffer *buffer = NULL;
	uint8_t *start = buffer_alloc(pd, BYTES - 1, &buffer);
	struct ibv_mr *mr;

	(void)state;
	assert_non_null(start);
	assert_int_equal((uintptr_t)start % 4096, 0);
	memset(start, 1, BYTES - 1);
	mr = buffer_register(pd, buffer, start + 16, BYTES - 17, ACCESS);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_null(buffer_register(pd, buffer, start + 16, BYTES - 16, ACCESS));
	assert_int_equal(errno, EINVAL);
	assert_null(buffer_register(other_pd, buffer, start, 16, ACCESS));
	assert_int_equal(errno, EINVAL);
	attr.buffer = buffer;
	attr.address = start;
	assert_refused(&attr, EINVAL); /* one byte too long */
	attr.length--;
	mr = mr_register_ex(pd, &attr);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(buffer_export_dmabuf(buffer), -1);
	assert_int_equal(errno, ENODATA);
	buffer_free(buffer);
	buffer_free(NULL);
	assert_null(buffer_alloc(pd, 0, &buffer));
	assert_int_equal(errno, EINVAL);
	assert_null(buffer_alloc(pd, SIZE_MAX, &buffer));
}

/* As ibv_query_port says: one lane of 25 Gb/s. */
static void speed_is_in_units_of_100_megabits(void **state)
{
	uint64_t speed = 0;

	(void)state;
	assert_int_equal(port_speed_query(context, 1, &speed), 0);
	assert_int_equal(speed, 250);
	assert_int_equal(port_speed_query(context, 2, &speed), EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(region_is_registered_by_its_attributes),
		cmocka_unit_test(attributes_that_do_not_fit_are_refused),
		cmocka_unit_test(hint_is_busy_while_a_region_uses_it),
		cmocka_unit_test(hint_that_no_adapter_takes_is_refused),
		cmocka_unit_test(buffer_is_registered_within_its_bounds_and_domain),
		cmocka_unit_test(speed_is_in_units_of_100_megabits),
	};

	if (netns_enter_new() < 0)
		return 77;
	settings_read();
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
