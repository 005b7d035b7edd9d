/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program does after a post sends the datagrams that wait (lane/post_policy.h), over the
 * loopback interface.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include <infiniband/verbs.h>

#include "nic/nic_internal.h"
#include "os/setting.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

enum { DEPTH = 64, BYTES = 512, QKEY = 0x11111111, POLLS = 200, ATTEMPTS = 1000 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *send_cq, *recv_cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct ibv_ah *ah;
static uint8_t buffer[BYTES];

static void state_set(enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr attr = {.qp_state = to, .port_num = 1, .qkey = QKEY};

	MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask));
}

/* The queue pair sends to a queue pair that does not exist, so nothing arrives. */
static int set_up(void **state)
{
	struct ibv_qp_init_attr init = {.cap = {DEPTH, 1, 1, 1, 0}, .qp_type = IBV_QPT_UD};
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 1};

	(void)state;
	context = verbs_pair_open();
	MUST(pd = ibv_alloc_pd(context));
	MUST(init.send_cq = send_cq = ibv_create_cq(context, DEPTH, NULL, NULL, 0));
	MUST(init.recv_cq = recv_cq = ibv_create_cq(context, DEPTH, NULL, NULL, 0));
	MUST(qp = ibv_create_qp(pd, &init));
	MUST(mr = ibv_reg_mr(pd, buffer, BYTES, 0));
	MUST(!ibv_query_gid(context, 1, 0, &attr.grh.dgid));
	MUST(ah = ibv_create_ah(pd, &attr));
	state_set(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	state_set(IBV_QPS_RTR, 0);
	state_set(IBV_QPS_RTS, IBV_QP_SQ_PSN);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	MUST(!ibv_destroy_ah(ah));
	MUST(!ibv_destroy_qp(qp));
	MUST(!ibv_dereg_mr(mr));
	MUST(!ibv_destroy_cq(send_cq));
	MUST(!ibv_destroy_cq(recv_cq));
	MUST(!ibv_dealloc_pd(pd));
	MUST(!ibv_close_device(context));
	return 0;
}

static void datagram_post(void)
{
	struct ibv_sge sge = {(uintptr_t)buffer, BYTES, mr->lkey};
	struct ibv_send_wr *bad,
		wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.ud = {.ah = ah, .remote_qpn = qp->qp_num ^ 1, .remote_qkey = QKEY},
		};

	MUST(!ibv_post_send(qp, &wr, &bad));
}

static uint32_t completions_take(uint32_t count)
{
	struct ibv_wc wc[DEPTH];
	int taken = ibv_poll_cq(send_cq, (int)count, wc);

	MUST(taken >= 0);
	return (uint32_t)taken;
}

static bool is_waiting(void)
{
	struct worker *worker;

	for (uint32_t i = 0; (worker = nic_worker_next(&i));)
		if (atomic_load(&worker->are_posts_waiting))
			return true;
	return false;
}

/* Forget waits that were too long, and let the lane's thread sleep for a tick at most. */
static void worker_prepare(struct worker *worker)
{
	worker_lock(worker);
	worker->posts = (struct post_policy){0};
	worker_rouse(worker);
	worker_unlock(worker);
}

/* Do as a program that polls, so that the lane's thread leaves the lane to it. */
static void polls_make(void)
{
	for (int i = 0; i < POLLS; i++)
		completions_take(DEPTH);
	nic_for_each_worker(worker_prepare);
}

/* The last one waits, unless the lane's thread sends it. */
static void datagrams_post(void)
{
	polls_make();
	for (uint32_t i = 0; i <= POST_STREAK_MIN; i++)
		datagram_post();
}

/* Several attempts, because the lane's thread may send the datagram. */
static void waiting_datagrams_post(void)
{
	datagrams_post();
	for (int i = 0; i < ATTEMPTS && !is_waiting(); i++)
		datagrams_post();
	assert_true(is_waiting());
}

static void datagram_does_not_wait_while_the_receive_queue_is_armed(void **state)
{
	(void)state;
	waiting_datagrams_post();
	MUST(!ibv_req_notify_cq(recv_cq, 0));
	for (int i = 0; i < ATTEMPTS; i++) {
		datagrams_post();
		assert_false(is_waiting());
	}
}

/* UCX arms its receive queue in this way, and polls all the same. */
static void datagram_waits_while_the_receive_queue_is_armed_for_solicited_ones(void **state)
{
	(void)state;
	MUST(!ibv_req_notify_cq(recv_cq, 1));
	waiting_datagrams_post();
}

static void poll_that_finds_fewer_than_asked_sends(void **state)
{
	(void)state;
	waiting_datagrams_post();
	completions_take(DEPTH);
	assert_false(is_waiting());
}

static void datagrams_posted_before_draining_leave(void **state)
{
	uint32_t taken = 0;

	(void)state;
	waiting_datagrams_post();
	state_set(IBV_QPS_SQD, 0);
	for (int i = 0; i < POLLS; i++)
		taken += completions_take(DEPTH);
	assert_int_equal(taken, POST_STREAK_MIN + 1);
}

static void packets_expect_none(struct worker *worker)
{
	worker_lock(worker);
	assert_false(engine_has_packets(&worker->lane, true));
	worker_unlock(worker);
}

static void datagram_posted_while_draining_leaves_with_the_next_state(void **state)
{
	(void)state;
	for (int i = 0; i < DEPTH; i++) {
		state_set(IBV_QPS_SQD, 0);
		datagram_post();
		state_set(IBV_QPS_RTS, 0);
		nic_for_each_worker(packets_expect_none);
	}
	assert_int_equal(completions_take(DEPTH), DEPTH);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(datagram_does_not_wait_while_the_receive_queue_is_armed),
		TEST(datagram_waits_while_the_receive_queue_is_armed_for_solicited_ones),
		TEST(poll_that_finds_fewer_than_asked_sends),
		TEST(datagrams_posted_before_draining_leave),
		TEST(datagram_posted_while_draining_leaves_with_the_next_state),
	};

	if (netns_enter_new() < 0)
		return 77;
	setenv("URNIC_LOCAL", "off", 1);
	setenv("URNIC_LANES", "1", 1);
	settings_read();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
