/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits that a device reports and no other test reaches: the last legal value works, the next one
 * is refused.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "support/netns.h"
#include "support/verbs_pair.h"

static struct ibv_context *context;
static struct ibv_device_attr device;
static struct ibv_port_attr port;

static int open_context(void **state)
{
	(void)state;
	context = verbs_pair_open();
	MUST(!ibv_query_device(context, &device));
	MUST(!ibv_query_port(context, 1, &port));
	return 0;
}

static int close_context(void **state)
{
	(void)state;
	return ibv_close_device(context);
}

static void completion_vectors_are_as_many_as_stated(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, context->num_comp_vectors - 1);

	(void)state;
	assert_non_null(cq);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_null(ibv_create_cq(context, 1, NULL, NULL, context->num_comp_vectors));
	assert_int_equal(errno, EINVAL);
}

static void device_and_its_system_have_names(void **state)
{
	(void)state;
	assert_int_not_equal(device.node_guid, 0);
	assert_int_not_equal(device.sys_image_guid, 0);
	assert_int_equal(device.node_guid, ibv_get_device_guid(context->device));
	assert_int_equal(device.phys_port_cnt, 1);
	assert_int_equal(ibv_query_port(context, 2, &port), EINVAL);
}

static int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	return ibv_modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int to_rtr(struct ibv_qp *qp, enum ibv_mtu mtu, int dest_rd_atomic)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu,
		.dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = (uint8_t)dest_rd_atomic,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}},
	};

	MUST(!ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid));
	return ibv_modify_qp(qp, &attr,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct ibv_qp *qp, int rd_atomic)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.max_rd_atomic = (uint8_t)rd_atomic,
	};

	return ibv_modify_qp(qp, &attr,
		IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void queue_pair_takes_reads_and_mtu_as_stated_and_no_more(void **state)
{
	struct verbs_end end;

	(void)state;
	verbs_end_make(&end, context, NULL);
	assert_int_equal(to_init(end.qp), 0);
	assert_int_equal(to_rtr(end.qp, port.max_mtu + 1, device.max_qp_rd_atom), EINVAL);
	assert_int_equal(to_rtr(end.qp, port.max_mtu, device.max_qp_rd_atom + 1), EINVAL);
	assert_int_equal(to_rtr(end.qp, port.max_mtu, device.max_qp_rd_atom), 0);
	assert_int_equal(to_rts(end.qp, device.max_qp_init_rd_atom + 1), EINVAL);
	assert_int_equal(to_rts(end.qp, device.max_qp_init_rd_atom), 0);
	verbs_end_unmake(&end);
}

/*
 * Post a WRITE of this length, and abandon it. Returns 0, or the refusal: errno, or the status of
 * the completion.
 */
static int post_long(struct verbs_pair *pair, struct ibv_mr *mr, uint64_t bytes)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, (uint32_t)bytes, mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)mr->addr, .rkey = mr->rkey},
	};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_send_wr *bad;
	int error = ibv_post_send(pair->a.qp, &wr, &bad);
	struct ibv_wc wc;

	if (error)
		return error;
	MUST(!ibv_modify_qp(pair->a.qp, &attr, IBV_QP_STATE));
	wc = verbs_poll_one(pair->a.cq);
	return wc.status == IBV_WC_WR_FLUSH_ERR ? 0 : (int)wc.status;
}

static void message_is_as_long_as_stated_and_no_longer(void **state)
{
	size_t bytes = (size_t)port.max_msg_sz + 1;
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct verbs_pair pair;
	struct ibv_mr *mr;

	(void)state;
	assert_ptr_not_equal(memory, MAP_FAILED);
	for (int more = 0; more <= 1; more++) {
		int got;

		verbs_end_make(&pair.a, context, NULL);
		verbs_end_make(&pair.b, context, NULL);
		/* Of other domains than the memory: nothing is moved. */
		verbs_ends_connect(&pair.a, &pair.b, 10);
		mr = ibv_reg_mr(pair.a.pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
		assert_non_null(mr);
		got = post_long(&pair, mr, (uint64_t)port.max_msg_sz + (uint64_t)more);
		if (more)
			assert_true(got == EINVAL || got == (int)IBV_WC_LOC_LEN_ERR);
		else
			assert_true(got == 0 || got == (int)IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		verbs_pair_unmake(&pair);
	}
	munmap(memory, bytes);
}

static void work_queues_and_tables_are_as_many_as_stated(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_wq_init_attr init = {
		.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = pd, .cq = cq};
	struct ibv_rwq_ind_table_init_attr table_init = {0};
	struct ibv_device_attr_ex extended;
	struct ibv_rwq_ind_table **tables;
	struct ibv_wq **queues;
	uint32_t table_count = 0;
	uint32_t count = 0;

	(void)state;
	MUST(pd && cq);
	MUST(!ibv_query_device_ex(context, NULL, &extended));
	queues = calloc(extended.max_wq_type_rq + 1, sizeof(void *));
	tables = calloc(extended.rss_caps.max_rwq_indirection_tables + 1, sizeof(void *));
	MUST(queues && tables);
	while (count <= extended.max_wq_type_rq && (queues[count] = ibv_create_wq(context, &init)))
		count++;
	assert_int_equal(count, extended.max_wq_type_rq);
	assert_int_equal(errno, ENOMEM);
	table_init.ind_tbl = queues;
	while (1u << table_init.log_ind_tbl_size <=
		extended.rss_caps.max_rwq_indirection_table_size)
		table_init.log_ind_tbl_size++;
	assert_null(ibv_create_rwq_ind_table(context, &table_init));
	assert_int_equal(errno, EINVAL);
	table_init.log_ind_tbl_size--;
	while (table_count <= extended.rss_caps.max_rwq_indirection_tables &&
		(tables[table_count] = ibv_create_rwq_ind_table(context, &table_init)))
		table_count++;
	assert_int_equal(table_count, extended.rss_caps.max_rwq_indirection_tables);
	assert_int_equal(errno, ENOMEM);
	while (table_count)
		assert_int_equal(ibv_destroy_rwq_ind_table(tables[--table_count]), 0);
	while (count)
		assert_int_equal(ibv_destroy_wq(queues[--count]), 0);
	free(queues);
	free(tables);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* --- a queue pair that talks to itself --- */

enum { QKEY = 0x11111111, GRH_BYTES = 40, PAGES_BYTES = 8192, MESSAGE_BYTES = 1000 };

/* A queue pair that talks to itself. */
static void connect_to_itself(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	bool is_ud = qp->qp_type == IBV_QPT_UD;

	MUST(!ibv_modify_qp(qp, &attr,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			(is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}},
	};
	MUST(!ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid));
	MUST(!ibv_modify_qp(qp, &attr,
		is_ud ? IBV_QP_STATE
		      : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				IBV_QP_RQ_PSN));
	attr.qp_state = IBV_QPS_RTS;
	MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static void send_to_itself(struct ibv_qp *qp, struct ibv_sge sge, struct ibv_ah *ah)
{
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	if (ah) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = qp->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	}
	MUST(!ibv_post_send(qp, &wr, &bad));
	for (int i = 0; i < 2; i++)
		assert_int_equal(verbs_poll_one(qp->send_cq).status, IBV_WC_SUCCESS);
}

static void write_to_itself(struct ibv_qp *qp, struct ibv_sge sge, uint64_t remote, uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = remote, .rkey = rkey},
	};
	struct ibv_send_wr *bad;

	MUST(!ibv_post_send(qp, &wr, &bad));
	for (int i = 0; i < 2; i++)
		assert_int_equal(verbs_poll_one(qp->send_cq).status, IBV_WC_SUCCESS);
}

/* --- on-demand paging --- */

/* Receive into, send from and write to pages that do not exist when their address is registered. */
static void page_on_demand(enum ibv_qp_type type, bool is_shared)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = is_shared ? ibv_create_srq(pd, &srq_init) : NULL;
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .srq = srq, .cap = {4, 4, 1, 1, 0}, .qp_type = type};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_mr *mr = ibv_reg_mr(pd, NULL, SIZE_MAX,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ON_DEMAND);
	uint32_t skip = type == IBV_QPT_UD ? GRH_BYTES : 0;
	struct ibv_ah_attr address = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};
	struct ibv_ah *ah = NULL;
	uint8_t *pages;

	MUST(pd && cq && qp && mr && !is_shared == !srq);
	connect_to_itself(qp);
	MUST(!ibv_query_gid(context, 1, 0, &address.grh.dgid));
	if (skip)
		MUST(ah = ibv_create_ah(pd, &address));
	for (int round = 0; round < (skip ? 1 : 2); round++) {
		struct ibv_sge to;
		struct ibv_sge from;
		struct ibv_recv_wr wr = {.sg_list = &to, .num_sge = 1};
		struct ibv_recv_wr *bad;

		pages = mmap(NULL, PAGES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
		MUST(pages != MAP_FAILED);
		to = (struct ibv_sge){(uintptr_t)pages, MESSAGE_BYTES + skip, mr->lkey};
		from = (struct ibv_sge){
			(uintptr_t)pages + PAGES_BYTES / 2, MESSAGE_BYTES, mr->lkey};
		verbs_pattern_fill(pages + PAGES_BYTES / 2, MESSAGE_BYTES, (uint32_t)round);
		MUST(!(srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad)));
		if (round == 0)
			send_to_itself(qp, from, ah);
		else
			write_to_itself(qp, from, (uintptr_t)pages, mr->rkey);
		assert_true(verbs_pattern_is(pages + skip, MESSAGE_BYTES, (uint32_t)round));
		munmap(pages, PAGES_BYTES);
	}
	if (ah)
		MUST(!ibv_destroy_ah(ah));
	MUST(!ibv_destroy_qp(qp));
	if (srq)
		MUST(!ibv_destroy_srq(srq));
	MUST(!ibv_dereg_mr(mr));
	MUST(!ibv_destroy_cq(cq));
	MUST(!ibv_dealloc_pd(pd));
}

static void unreliable_queue_pairs_page_on_demand(void **state)
{
	(void)state;
	page_on_demand(IBV_QPT_UC, false);
	page_on_demand(IBV_QPT_UC, true);
	page_on_demand(IBV_QPT_UD, false);
	page_on_demand(IBV_QPT_UD, true);
}

/* --- rate limits --- */

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* 20 messages of 1,000 bytes at 2 Mbit/s take 80 ms, less what may go at once. */
static void pace(enum ibv_qp_type type)
{
	enum { MESSAGES = 20 };
	uint8_t buffer[MESSAGE_BYTES + GRH_BYTES];
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}, .qp_type = type};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_ah_attr address = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};
	struct ibv_qp_attr limit = {.qp_state = IBV_QPS_RTS, .rate_limit = 2000};
	struct ibv_ah *ah = NULL;
	uint64_t since;

	MUST(pd && cq && qp && mr);
	MUST(!ibv_query_gid(context, 1, 0, &address.grh.dgid));
	if (type == IBV_QPT_UD)
		MUST(ah = ibv_create_ah(pd, &address));
	connect_to_itself(qp);
	MUST(!ibv_modify_qp(qp, &limit, IBV_QP_STATE | IBV_QP_RATE_LIMIT));
	since = now_ms();
	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_sge sge = {(uintptr_t)buffer, sizeof(buffer), mr->lkey};
		struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
		struct ibv_recv_wr *bad;

		MUST(!ibv_post_recv(qp, &wr, &bad));
		sge.length = MESSAGE_BYTES;
		send_to_itself(qp, sge, ah);
	}
	assert_in_range(now_ms() - since, 40, 60000);
	if (ah)
		MUST(!ibv_destroy_ah(ah));
	MUST(!ibv_destroy_qp(qp));
	MUST(!ibv_dereg_mr(mr));
	MUST(!ibv_destroy_cq(cq));
	MUST(!ibv_dealloc_pd(pd));
}

static void unreliable_queue_pairs_keep_to_their_rate(void **state)
{
	(void)state;
	pace(IBV_QPT_UC);
	pace(IBV_QPT_UD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(completion_vectors_are_as_many_as_stated),
		cmocka_unit_test(device_and_its_system_have_names),
		cmocka_unit_test(queue_pair_takes_reads_and_mtu_as_stated_and_no_more),
		cmocka_unit_test(message_is_as_long_as_stated_and_no_longer),
		cmocka_unit_test(work_queues_and_tables_are_as_many_as_stated),
		cmocka_unit_test(unreliable_queue_pairs_page_on_demand),
		cmocka_unit_test(unreliable_queue_pairs_keep_to_their_rate),
	};

	if (netns_enter_new() < 0)
		return 77;
	return cmocka_run_group_tests(tests, open_context, close_context);
}
