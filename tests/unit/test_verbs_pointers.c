/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pointers in requests and attributes: a NULL pointer, or an object of another device, is refused
 * and not dereferenced.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "base/arith.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

enum { QKEY = 0x1234 };

static struct ibv_context *context;
static struct verbs_pair pair;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static int setup(void **state)
{
	(void)state;
	context = verbs_pair_open();
	verbs_pair_make(&pair, context);
	pd = pair.a.pd;
	cq = pair.a.cq;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	verbs_pair_unmake(&pair);
	return ibv_close_device(context);
}

static struct ibv_qp *qp_make(enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 4,
			.max_recv_wr = 4,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 16},
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = ops,
	};
	struct ibv_qp *qp;

	MUST(qp = ibv_create_qp_ex(context, &init));
	return qp;
}

static struct ibv_qp *datagram_qp_make(void)
{
	struct ibv_qp *qp = qp_make(IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

	MUST(!ibv_modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	return qp;
}

static int post(struct ibv_qp *qp, struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad = NULL;
	int error = ibv_post_send(qp, &wr, &bad);

	assert_true(!error == !bad);
	return error;
}

/* --- requests --- */

static void bind_without_a_window_is_refused(void **state)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW};

	(void)state;
	assert_int_equal(post(pair.a.qp, wr), EINVAL);
}

static void datagram_without_an_address_is_refused(void **state)
{
	struct ibv_qp *qp = datagram_qp_make();
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .wr.ud = {.remote_qkey = QKEY}};

	(void)state;
	assert_int_equal(post(qp, wr), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void list_that_is_missing_is_refused(void **state)
{
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND, .num_sge = 1};
	struct ibv_recv_wr recv = {.num_sge = 1}, *bad = NULL;
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);

	(void)state;
	assert_non_null(srq);
	assert_int_equal(post(pair.a.qp, send), EINVAL);
	send.send_flags = IBV_SEND_INLINE;
	assert_int_equal(post(pair.a.qp, send), EINVAL);
	assert_int_equal(ibv_post_recv(pair.a.qp, &recv, &bad), EINVAL);
	assert_ptr_equal(bad, &recv);
	assert_int_equal(ibv_post_srq_recv(srq, &recv, &bad), EINVAL);
	recv.num_sge = -1;
	assert_int_equal(ibv_post_recv(pair.a.qp, &recv, &bad), EINVAL);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static int build(struct ibv_qp_ex *qp, void (*request)(struct ibv_qp_ex *qp))
{
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(qp);
	request(qp);
	return ibv_wr_complete(qp);
}

static void bind_no_window(struct ibv_qp_ex *qp)
{
	struct ibv_mw_bind_info info = {.length = 0};

	ibv_wr_bind_mw(qp, NULL, 0, &info);
}

static void bind_nothing(struct ibv_qp_ex *qp)
{
	struct ibv_mw mw = {.type = IBV_MW_TYPE_2};

	ibv_wr_bind_mw(qp, &mw, 0, NULL);
}

static void send_no_list(struct ibv_qp_ex *qp)
{
	ibv_wr_send(qp);
	ibv_wr_set_sge_list(qp, 1, NULL);
}

static void send_no_inline_list(struct ibv_qp_ex *qp)
{
	ibv_wr_send(qp);
	ibv_wr_set_inline_data_list(qp, 1, NULL);
}

static void send_nowhere(struct ibv_qp_ex *qp)
{
	ibv_wr_send(qp);
	ibv_wr_set_ud_addr(qp, NULL, 1, QKEY);
}

static void request_built_without_what_it_names_is_refused(void **state)
{
	struct ibv_qp *connected =
		qp_make(IBV_QPT_RC, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_BIND_MW);
	struct ibv_qp *datagram = datagram_qp_make();

	(void)state;
	assert_int_equal(build(ibv_qp_to_qp_ex(connected), bind_no_window), EINVAL);
	assert_int_equal(build(ibv_qp_to_qp_ex(connected), bind_nothing), EINVAL);
	assert_int_equal(build(ibv_qp_to_qp_ex(connected), send_no_list), EINVAL);
	assert_int_equal(build(ibv_qp_to_qp_ex(connected), send_no_inline_list), EINVAL);
	assert_int_equal(build(ibv_qp_to_qp_ex(datagram), send_nowhere), EINVAL);
	assert_int_equal(ibv_destroy_qp(connected), 0);
	assert_int_equal(ibv_destroy_qp(datagram), 0);
}

static void tag_without_its_list_is_refused(void **state)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = {.max_wr = 8, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = pd,
		.cq = cq,
		.tm_cap = {.max_num_tags = 4, .max_ops = 4},
	};
	struct ibv_srq *srq = ibv_create_srq_ex(context, &init);
	struct ibv_ops_wr wr = {.opcode = IBV_WR_TAG_ADD, .tm.add.num_sge = 1}, *bad = NULL;

	(void)state;
	assert_non_null(srq);
	assert_int_equal(ibv_post_srq_ops(srq, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

/* --- attributes --- */

static void queue_of_a_parent_domain_that_is_missing_is_refused(void **state)
{
	struct ibv_cq_init_attr_ex init = {.cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD};

	(void)state;
	errno = 0;
	assert_null(ibv_create_cq_ex(context, &init));
	assert_int_equal(errno, EINVAL);
}

static void table_of_queues_that_are_missing_is_refused(void **state)
{
	struct ibv_wq *none = NULL;
	struct ibv_rwq_ind_table_init_attr init = {.log_ind_tbl_size = 0};

	(void)state;
	errno = 0;
	assert_null(ibv_create_rwq_ind_table(context, &init));
	assert_int_equal(errno, EINVAL);
	init.ind_tbl = &none;
	errno = 0;
	assert_null(ibv_create_rwq_ind_table(context, &init));
	assert_int_equal(errno, EINVAL);
}

static void queue_pair_without_what_it_is_built_on_is_refused(void **state)
{
	struct ibv_qp_init_attr_ex init = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	static const enum ibv_qp_type types[] = {
		IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_RAW_PACKET};
	struct ibv_qp_init_attr_ex target = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD};

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(types); i++) {
		init.qp_type = types[i];
		errno = 0;
		assert_null(ibv_create_qp_ex(context, &init));
		assert_int_equal(errno, EINVAL);
	}
	errno = 0;
	assert_null(ibv_create_qp_ex(context, &target));
	assert_int_equal(errno, EINVAL);
}

static void advice_on_nothing_is_refused(void **state)
{
	(void)state;
	assert_int_equal(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 1), EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(bind_without_a_window_is_refused),
		TEST(datagram_without_an_address_is_refused),
		TEST(list_that_is_missing_is_refused),
		TEST(request_built_without_what_it_names_is_refused),
		TEST(tag_without_its_list_is_refused),
		TEST(queue_of_a_parent_domain_that_is_missing_is_refused),
		TEST(table_of_queues_that_are_missing_is_refused),
		TEST(queue_pair_without_what_it_is_built_on_is_refused),
		TEST(advice_on_nothing_is_refused),
	};

	if (netns_enter_new() < 0)
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
