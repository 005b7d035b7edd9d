/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that are posted in SQD leave with the transition to RTS, though the program neither
 * posts nor polls afterwards, and the lane's thread sleeps. Two queue pairs of this process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "os/setting.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

enum {
	BYTES = 512,
	GRH_BYTES = 40,
	QKEY = 0x11111111,
	IDLE_US = 300000, /* after which the lane's thread sleeps without limit */
	WAIT_S = 10,
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp, *peer;
static struct ibv_mr *mr;
static union ibv_gid gid;
static uint8_t memory[2][GRH_BYTES + BYTES]; /* of `qp`, and of `peer` */

static struct ibv_qp *qp_make(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}, .qp_type = type};
	struct ibv_qp *made = ibv_create_qp(pd, &init);

	MUST(made);
	return made;
}

static void change(struct ibv_qp *changed, struct ibv_qp_attr attr, int mask)
{
	MUST(!ibv_modify_qp(changed, &attr, IBV_QP_STATE | mask));
}

/* To RTS; `to` is its peer. */
static void qp_start(struct ibv_qp *started, const struct ibv_qp *to)
{
	struct ibv_ah_attr ah = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 1}};
	bool is_rc = started->qp_type == IBV_QPT_RC, is_ud = started->qp_type == IBV_QPT_UD;

	change(started,
		(struct ibv_qp_attr){.qp_state = IBV_QPS_INIT,
			.port_num = 1,
			.qkey = QKEY,
			.qp_access_flags = IBV_ACCESS_REMOTE_WRITE},
		IBV_QP_PKEY_INDEX | IBV_QP_PORT | (is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
	change(started,
		(struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
			.ah_attr = ah,
			.path_mtu = IBV_MTU_1024,
			.dest_qp_num = to->qp_num,
			.max_dest_rd_atomic = 1,
			.min_rnr_timer = 1},
		(is_ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
			(is_rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
	change(started,
		(struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
			.timeout = 14,
			.retry_cnt = 7,
			.rnr_retry = 7,
			.max_rd_atomic = 1},
		IBV_QP_SQ_PSN |
			(is_rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						IBV_QP_MAX_QP_RD_ATOMIC
			       : 0));
}

static void request_post(struct ibv_ah *ah)
{
	struct ibv_sge sge = {(uintptr_t)memory[0], BYTES, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
		.num_sge = 1,
		.opcode = ah ? IBV_WR_SEND : IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	if (ah) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = peer->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)memory[1] + GRH_BYTES;
		wr.wr.rdma.rkey = mr->rkey;
	}
	MUST(!ibv_post_send(qp, &wr, &bad));
}

static void receive_post(void)
{
	struct ibv_sge sge = {(uintptr_t)memory[1], sizeof(memory[1]), mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	MUST(!ibv_post_recv(peer, &wr, &bad));
}

/* Without a call of verbs. */
static bool has_arrived(void)
{
	const volatile uint8_t *last = &memory[1][GRH_BYTES + BYTES - 1];
	const time_t until = time(NULL) + WAIT_S;

	while (!*last && time(NULL) < until)
		usleep(1000);
	return *last;
}

static void request_is_resumed(enum ibv_qp_type type)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 1}};
	struct ibv_ah *ah = type == IBV_QPT_UD ? ibv_create_ah(pd, &attr) : NULL;

	memset(memory, 0, sizeof(memory));
	memset(memory[0], 1, BYTES);
	qp = qp_make(type);
	peer = qp_make(type);
	qp_start(qp, peer);
	qp_start(peer, qp);
	receive_post();
	change(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_SQD}, 0);
	request_post(ah);
	usleep(IDLE_US);
	assert_int_equal(memory[1][GRH_BYTES + BYTES - 1], 0);
	change(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS}, 0);
	assert_true(has_arrived());
	MUST(!ibv_destroy_qp(qp) && !ibv_destroy_qp(peer));
	if (ah)
		MUST(!ibv_destroy_ah(ah));
}

static void reliable_connection_sends_what_was_posted_in_sqd(void **state)
{
	(void)state;
	request_is_resumed(IBV_QPT_RC);
}

static void unreliable_connection_sends_what_was_posted_in_sqd(void **state)
{
	(void)state;
	request_is_resumed(IBV_QPT_UC);
}

static void datagrams_are_sent_that_were_posted_in_sqd(void **state)
{
	(void)state;
	request_is_resumed(IBV_QPT_UD);
}

static int set_up(void **state)
{
	(void)state;
	context = verbs_pair_open();
	MUST(pd = ibv_alloc_pd(context));
	MUST(cq = ibv_create_cq(context, 16, NULL, NULL, 0));
	MUST(mr = ibv_reg_mr(
		     pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	MUST(!ibv_query_gid(context, 1, 0, &gid));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	MUST(!ibv_dereg_mr(mr));
	MUST(!ibv_destroy_cq(cq));
	MUST(!ibv_dealloc_pd(pd));
	MUST(!ibv_close_device(context));
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(reliable_connection_sends_what_was_posted_in_sqd),
		TEST(unreliable_connection_sends_what_was_posted_in_sqd),
		TEST(datagrams_are_sent_that_were_posted_in_sqd),
	};
	int failed, status;
	pid_t child;

	if (netns_enter_new() < 0)
		return 77;
	/* Each process has one NIC: the child's exchanges packets, the parent's does without. */
	child = fork();
	setenv("URNIC_LOCAL", child ? "on" : "off", 1);
	settings_read();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	return child && (waitpid(child, &status, 0) != child || status) ? 1 : failed;
}
