/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_VERBS_ENDS_H
#define URNIC_TESTS_SUPPORT_VERBS_ENDS_H

/*
 * Two ends of a connection in one process, for tests of single calls: `a` and `b`, made and unmade
 * around each test. A test program includes this in its one source; calls that fail are assertions
 * of cmocka's. For tests with threads there is verbs_pair.h.
 */

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

enum {
	BUFFER_BYTES = 16384,
	DEPTH = 8,
	ACCESS_ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		IBV_ACCESS_REMOTE_ATOMIC,
	TIMEOUT_S = 120,
};

/* One end of a connection. */
struct end {
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buffer;
};

static struct ibv_context *context;
static struct end a;
static struct end b;

/* --- making and connecting ---------------------------------------------------------------- */

static inline struct ibv_qp *qp_make(struct end *end, struct ibv_qp_cap cap)
{
	struct ibv_qp_init_attr init = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.cap = cap,
		.qp_type = IBV_QPT_RC,
	};

	return ibv_create_qp(end->pd, &init);
}

static inline void end_make(struct end *end)
{
	struct ibv_qp_cap cap = {DEPTH, DEPTH, 2, 2, 64};

	end->pd = ibv_alloc_pd(context);
	assert_non_null(end->pd);
	end->channel = ibv_create_comp_channel(context);
	assert_non_null(end->channel);
	assert_int_equal(fcntl(end->channel->fd, F_SETFL, O_NONBLOCK), 0);
	end->cq = ibv_create_cq(context, 4 * DEPTH, end, end->channel, 0);
	assert_non_null(end->cq);
	end->buffer = aligned_alloc(4096, BUFFER_BYTES);
	assert_non_null(end->buffer);
	memset(end->buffer, 0, BUFFER_BYTES);
	end->mr = ibv_reg_mr(end->pd, end->buffer, BUFFER_BYTES, ACCESS_ALL);
	assert_non_null(end->mr);
	end->qp = qp_make(end, cap);
	assert_non_null(end->qp);
}

static inline void end_unmake(struct end *end)
{
	assert_int_equal(ibv_destroy_qp(end->qp), 0);
	assert_int_equal(ibv_destroy_cq(end->cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(end->channel), 0);
	assert_int_equal(ibv_dereg_mr(end->mr), 0);
	assert_int_equal(ibv_dealloc_pd(end->pd), 0);
	free(end->buffer);
}

static inline int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = ACCESS_ALL,
	};

	return ibv_modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static inline struct ibv_qp_attr rtr_attr(uint32_t dest_qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qpn,
		.rq_psn = 0xfffffe,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}},
	};

	assert_int_equal(ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid), 0);
	return attr;
}

static const int rtr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
	IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

static inline int to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 1,
		.sq_psn = 0xfffffe,
		.max_rd_atomic = 4,
	};

	return ibv_modify_qp(qp, &attr,
		IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static inline void connect_to(struct ibv_qp *qp, uint32_t dest_qpn)
{
	struct ibv_qp_attr attr = rtr_attr(dest_qpn);

	assert_int_equal(to_init(qp), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, rtr_mask), 0);
	assert_int_equal(to_rts(qp), 0);
}

static inline int make_ends(void **state)
{
	(void)state;
	end_make(&a);
	end_make(&b);
	return 0;
}

static inline int connect_ends(void **state)
{
	make_ends(state);
	connect_to(a.qp, b.qp->qp_num);
	connect_to(b.qp, a.qp->qp_num);
	return 0;
}

static inline int unmake_ends(void **state)
{
	(void)state;
	end_unmake(&a);
	end_unmake(&b);
	return 0;
}

/* --- posting and polling ------------------------------------------------------------------ */

static inline struct ibv_sge whole(const struct end *end, uint32_t bytes)
{
	return (struct ibv_sge){(uintptr_t)end->buffer, bytes, end->mr->lkey};
}

static inline void post_recv(struct end *end, uint32_t bytes)
{
	struct ibv_sge sge = whole(end, bytes);
	struct ibv_recv_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	assert_int_equal(ibv_post_recv(end->qp, &wr, &bad), 0);
}

/* A signaled request of `bytes` bytes from the beginning of a's buffer, to that of b's. */
static inline struct ibv_send_wr send_make(enum ibv_wr_opcode opcode, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = {
		.wr_id = 9,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)b.buffer, b.mr->rkey},
	};

	return wr;
}

static inline void post_send(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(a.qp, wr, &bad), 0);
}

static inline struct ibv_wc poll_one(struct end *end)
{
	time_t until = time(NULL) + TIMEOUT_S;
	struct ibv_wc wc;
	int got;

	do {
		got = ibv_poll_cq(end->cq, 1, &wc);
		assert_true(got >= 0);
	} while (got == 0 && time(NULL) < until);
	assert_int_equal(got, 1);
	return wc;
}

static inline void completion_is(struct end *end, enum ibv_wc_status status)
{
	struct ibv_wc wc = poll_one(end);

	assert_int_equal(wc.status, status);
	assert_int_equal(wc.qp_num, end->qp->qp_num);
}

static inline void state_is(struct ibv_qp *qp, enum ibv_qp_state expected)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, expected);
}

static inline bool is_readable(int fd, int timeout_ms)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	return poll(&poll_fd, 1, timeout_ms) == 1;
}

/* Takes one asynchronous event; it must come soon. */
static inline struct ibv_async_event async_take(void)
{
	struct ibv_async_event event;

	assert_true(is_readable(context->async_fd, TIMEOUT_S * 1000));
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	return event;
}

/* --- the program --- */

static inline int open_context(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	(void)state;
	if (!list || !list[0])
		return -1;
	context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	return context ? 0 : -1;
}

static inline int close_context(void **state)
{
	(void)state;
	return ibv_close_device(context);
}

#define UNCONNECTED(test) cmocka_unit_test_setup_teardown(test, make_ends, unmake_ends)
#define CONNECTED(test)   cmocka_unit_test_setup_teardown(test, connect_ends, unmake_ends)

#endif
