/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tag-matching queues as objects: which may be created, and the operations on their lists.
 * test_tagged.c tests messages.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "os/setting.h"
#include "support/netns.h"

enum { SGE_MAX = 64 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_tm_caps caps;

static int open_context(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_device_attr_ex attr;

	(void)state;
	assert_non_null(list);
	assert_non_null(list[0]);
	context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	assert_int_equal(ibv_query_device_ex(context, NULL, &attr), 0);
	caps = attr.tm_caps;
	return pd && cq ? 0 : -1;
}

static int close_context(void **state)
{
	(void)state;
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(context), 0);
	return 0;
}

static struct ibv_srq_init_attr_ex usual(void)
{
	return (struct ibv_srq_init_attr_ex){
		.attr = {.max_wr = 8, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = pd,
		.cq = cq,
		.tm_cap = {.max_num_tags = 4, .max_ops = 4},
	};
}

static struct ibv_srq *make(struct ibv_srq_init_attr_ex init)
{
	struct ibv_srq *srq;

	errno = 0;
	srq = ibv_create_srq_ex(context, &init);
	assert_true(srq || errno);
	return srq;
}

static int add(struct ibv_srq *srq, uint32_t sge_count, uint32_t *ret_handle)
{
	struct ibv_sge sge[SGE_MAX] = {{0}};
	struct ibv_ops_wr wr = {.opcode = IBV_WR_TAG_ADD, .tm.add.sg_list = sge}, *bad = NULL;
	int error;

	wr.tm.add.num_sge = (int)sge_count;
	error = ibv_post_srq_ops(srq, &wr, &bad);
	assert_ptr_equal(bad, error ? &wr : NULL);
	if (ret_handle)
		*ret_handle = wr.tm.handle;
	return error;
}

static void tag_matching_queue_has_what_is_stated(void **state)
{
	struct ibv_srq_init_attr_ex init = usual();
	struct ibv_srq *srq;

	(void)state;
	init.tm_cap.max_num_tags = caps.max_num_tags;
	init.tm_cap.max_ops = caps.max_ops;
	srq = make(init);
	assert_non_null(srq);
	assert_int_equal(add(srq, caps.max_sge + 1, NULL), EINVAL);
	for (uint32_t i = 0; i < caps.max_num_tags; i++)
		assert_int_equal(add(srq, caps.max_sge, NULL), 0);
	assert_int_equal(add(srq, 1, NULL), ENOMEM);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	init.tm_cap.max_num_tags++;
	assert_null(make(init));
	assert_int_equal(errno, EINVAL);
	init.tm_cap.max_num_tags = 0;
	assert_null(make(init));
	init = usual();
	init.tm_cap.max_ops = caps.max_ops + 1;
	assert_null(make(init));
	assert_int_equal(errno, EINVAL);
}

static void tag_matching_queue_without_its_parts_is_refused(void **state)
{
	static const uint32_t parts[] = {
		IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_CQ, IBV_SRQ_INIT_ATTR_TM};

	(void)state;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		struct ibv_srq_init_attr_ex init = usual();

		init.comp_mask &= ~parts[i];
		assert_null(make(init));
		assert_int_equal(errno, EINVAL);
	}
}

static void expect(uint64_t wr_id, enum ibv_wc_opcode opcode, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	if (status == IBV_WC_SUCCESS)
		assert_int_equal(wc.opcode, opcode);
}

static void tag_matching_operations_complete_if_asked_for_or_failed(void **state)
{
	struct ibv_srq *srq = make(usual());
	struct ibv_ops_wr sync = {.wr_id = 3, .opcode = IBV_WR_TAG_SYNC, .flags = IBV_OPS_SIGNALED};
	struct ibv_ops_wr again = {.wr_id = 2, .opcode = IBV_WR_TAG_DEL, .next = &sync};
	struct ibv_ops_wr drop = {
		.wr_id = 1, .opcode = IBV_WR_TAG_DEL, .flags = IBV_OPS_SIGNALED, .next = &again};
	struct ibv_ops_wr *bad;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(add(srq, 1, &drop.tm.handle), 0);
	again.tm.handle = drop.tm.handle;
	assert_int_equal(ibv_post_srq_ops(srq, &drop, &bad), 0);
	expect(1, IBV_WC_TM_DEL, IBV_WC_SUCCESS);
	expect(2, IBV_WC_TM_DEL, IBV_WC_TM_ERR);
	expect(3, IBV_WC_TM_SYNC, IBV_WC_SUCCESS);
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	struct ibv_srq_init_attr basic = {.attr = {.max_wr = 1, .max_sge = 1}};
	srq = ibv_create_srq(pd, &basic);
	assert_int_equal(ibv_post_srq_ops(srq, &sync, &bad), EINVAL);
	assert_ptr_equal(bad, &sync);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void tag_matching_queue_takes_queue_pairs_without_sends(void **state)
{
	struct ibv_srq *srq = make(usual());
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC};
	struct ibv_pd *other = ibv_alloc_pd(context);
	struct ibv_qp *qp;

	(void)state;
	init.cap.max_send_wr = 1;
	assert_null(ibv_create_qp(pd, &init));
	assert_int_equal(errno, EINVAL);
	init.cap.max_send_wr = 0;
	assert_null(ibv_create_qp(other, &init));
	assert_int_equal(errno, EINVAL);
	init.qp_type = IBV_QPT_UC;
	assert_null(ibv_create_qp(pd, &init));
	assert_int_equal(errno, EOPNOTSUPP);
	init.qp_type = IBV_QPT_RC;
	qp = ibv_create_qp(pd, &init);
	assert_non_null(qp);
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tag_matching_queue_has_what_is_stated),
		cmocka_unit_test(tag_matching_queue_without_its_parts_is_refused),
		cmocka_unit_test(tag_matching_operations_complete_if_asked_for_or_failed),
		cmocka_unit_test(tag_matching_queue_takes_queue_pairs_without_sends),
	};
	int netns = netns_enter_new();

	if (netns < 0)
		return 77;
	unsetenv("URNIC_DEVICE_NAME");
	unsetenv("URNIC_INTERFACES");
	settings_read();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
