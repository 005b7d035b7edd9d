/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_VERBS_BUILDER_H
#define URNIC_TESTS_SUPPORT_VERBS_BUILDER_H

/*
 * Two connected queue pairs, one of which posts call by call (ibv_wr_*). main() calls
 * builder_begin().
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "os/setting.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

enum {
	TIMEOUT_HALF_A_SECOND = 17,
	DEPTH = 8,
	INLINE_BYTES = 64,
	OPS = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
		IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
		IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
		IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV |
		IBV_QP_EX_WITH_ATOMIC_WRITE,
};

static struct ibv_context *context;
static struct verbs_end a; /* its queue pair is extended */
static struct verbs_end b;
static struct ibv_qp_ex *qp;

static inline struct ibv_qp *qp_make(struct ibv_pd *pd, enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = type,
		.send_cq = a.cq,
		.recv_cq = a.cq,
		.cap = {DEPTH, DEPTH, 2, 2, INLINE_BYTES},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = ops,
	};

	return ibv_create_qp_ex(context, &init);
}

static inline int setup(void **state)
{
	(void)state;
	context = verbs_pair_open();
	verbs_end_make(&a, context, NULL);
	verbs_end_make(&b, context, NULL);
	MUST(!ibv_destroy_qp(a.qp));
	MUST(a.qp = qp_make(a.pd, IBV_QPT_RC, OPS));
	MUST(qp = ibv_qp_to_qp_ex(a.qp));
	MUST(&qp->qp_base == a.qp);
	verbs_ends_connect(&a, &b, TIMEOUT_HALF_A_SECOND);
	qp->wr_flags = IBV_SEND_SIGNALED;
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	verbs_end_unmake(&a);
	verbs_end_unmake(&b);
	return ibv_close_device(context);
}

static inline uint64_t far(uint32_t offset)
{
	return (uintptr_t)b.buffer + offset;
}

static inline void set_near(uint32_t offset, uint32_t bytes)
{
	ibv_wr_set_sge(qp, a.mr->lkey, (uintptr_t)a.buffer + offset, bytes);
}

static inline void completes(uint64_t wr_id)
{
	struct ibv_wc wc = verbs_poll_one(a.cq);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id);
}

#define PAIR(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

/* Make the namespace. Returns false if this machine cannot run the tests. */
static inline bool builder_begin(void)
{
	if (netns_enter_new() < 0)
		return false;
	unsetenv("URNIC_DEVICE_NAME");
	unsetenv("URNIC_INTERFACES");
	settings_read();
	return true;
}

#endif
