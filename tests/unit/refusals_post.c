/* SPDX-License-Identifier: BSD-2-Clause */
/* Refused posts. */
#include "refusals.h"

/* --- ibv_post_send --- */

static int send(struct ibv_qp *qp, struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(qp, &wr, &bad);
}

PROVOKE(ibv_post_send, POST_STATE)
{
	return send(refusals.qp, (struct ibv_send_wr){.opcode = IBV_WR_SEND});
}

PROVOKE(ibv_post_send, POST_OPCODE)
{
	return send(refusals.ready, (struct ibv_send_wr){.opcode = (enum ibv_wr_opcode)99});
}

PROVOKE(ibv_post_send, POST_ENTRIES)
{
	struct ibv_sge entries[3] = {{0}};

	return send(refusals.ready,
		(struct ibv_send_wr){
			.opcode = IBV_WR_SEND, .sg_list = entries, .num_sge = 3});
}

PROVOKE(ibv_post_send, POST_INLINE)
{
	struct ibv_sge entry = {(uintptr_t)refusals.memory, 4096, 0};

	return send(refusals.ready,
		(struct ibv_send_wr){.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_INLINE,
			.sg_list = &entry,
			.num_sge = 1});
}

PROVOKE(ibv_post_send, POST_LENGTH)
{
	struct ibv_sge entries[2] = {{0, UINT32_MAX, 0}, {0, UINT32_MAX, 0}};

	return send(refusals.ready,
		(struct ibv_send_wr){
			.opcode = IBV_WR_SEND, .sg_list = entries, .num_sge = 2});
}

PROVOKE(ibv_post_send, POST_ADDRESS)
{
	return send(refusals.ud, (struct ibv_send_wr){.opcode = IBV_WR_SEND}); /* no handle */
}

PROVOKE(ibv_post_send, POST_BIND)
{
	return send(refusals.ready, (struct ibv_send_wr){.opcode = IBV_WR_BIND_MW});
}

PROVOKE(ibv_post_send, FORKED)
{
	return send(refusals.ready, (struct ibv_send_wr){.opcode = IBV_WR_SEND});
}

/* --- receives --- */

static int receive(struct ibv_qp *qp, int num_sge)
{
	struct ibv_sge entries[8] = {{0}};
	struct ibv_recv_wr *bad, wr = {.sg_list = entries, .num_sge = num_sge};

	return ibv_post_recv(qp, &wr, &bad);
}

PROVOKE(ibv_post_recv, POST_STATE)
{
	return receive(refusals.qp, 0);
}

PROVOKE(ibv_post_recv, POST_ENTRIES)
{
	return receive(refusals.ready, 8);
}

PROVOKE(ibv_post_recv, POST_NO_QUEUE)
{
	return receive(refusals.with_srq, 0);
}

PROVOKE(ibv_post_recv, FORKED)
{
	return receive(refusals.ready, 0);
}

static int receive_shared(int num_sge)
{
	struct ibv_sge entries[8] = {{0}};
	struct ibv_recv_wr *bad, wr = {.sg_list = entries, .num_sge = num_sge};

	return ibv_post_srq_recv(refusals.srq, &wr, &bad);
}

PROVOKE(ibv_post_srq_recv, POST_ENTRIES)
{
	return receive_shared(8);
}

PROVOKE(ibv_post_srq_recv, FORKED)
{
	return receive_shared(0);
}

PROVOKE(ibv_post_srq_ops, POST_TAGS)
{
	struct ibv_ops_wr *bad, wr = {.opcode = IBV_WR_TAG_ADD};

	return ibv_post_srq_ops(refusals.srq, &wr, &bad);
}

/* --- binds --- */

static int bind_on(struct ibv_qp *qp, unsigned int access)
{
	struct ibv_mw *mw = ibv_alloc_mw(refusals.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {
		.bind_info = {.mr = refusals.mr,
			.addr = (uintptr_t)refusals.memory,
			.length = 8,
			.mw_access_flags = access},
	};
	int error = ibv_bind_mw(qp, mw, &bind);

	return ibv_dealloc_mw(mw) ? 0 : error;
}

PROVOKE(ibv_bind_mw, POST_BIND)
{
	return bind_on(refusals.ready, 1u << 30);
}

PROVOKE(ibv_bind_mw, POST_STATE)
{
	return bind_on(refusals.qp, 0);
}

PROVOKE(ibv_bind_mw, POST_OPCODE)
{
	return bind_on(refusals.ud, 0);
}

PROVOKE(ibv_bind_mw, FORKED)
{
	struct ibv_mw mw = {.context = refusals.context, .type = IBV_MW_TYPE_1};
	struct ibv_mw_bind bind = {.wr_id = 1};

	return ibv_bind_mw(refusals.ready, &mw, &bind);
}

/* --- requests that are built --- */

/* Calls `build` between start and complete, on a queue pair of the type in RTS. */
static int built_on(struct ibv_qp *qp, void (*build)(struct ibv_qp_ex *qp))
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	int error;

	ibv_wr_start(ex);
	build(ex);
	error = ibv_wr_complete(ex);
	return ibv_destroy_qp(qp) ? 0 : error;
}

static struct ibv_qp *builder(enum ibv_qp_type type, bool is_ready)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = type,
		.send_cq = refusals.cq,
		.recv_cq = refusals.cq,
		.cap = {4, 1, 2, 1, 64},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = refusals.pd,
		.send_ops_flags = type == IBV_QPT_UD
			? IBV_QP_EX_WITH_SEND
			: IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_BIND_MW,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(refusals.context, &init);

	if (is_ready)
		refusal_qp_fail(qp);
	return qp;
}

static int built(void (*build)(struct ibv_qp_ex *qp))
{
	return built_on(builder(IBV_QPT_RC, true), build);
}

static void build_send(struct ibv_qp_ex *qp)
{
	ibv_wr_send(qp);
}

static void build_setter_alone(struct ibv_qp_ex *qp)
{
	ibv_wr_set_sge(qp, 0, 0, 0);
}

static void build_many_entries(struct ibv_qp_ex *qp)
{
	struct ibv_sge entries[3] = {{0}};

	ibv_wr_send(qp);
	ibv_wr_set_sge_list(qp, 3, entries);
}

static void build_inline(struct ibv_qp_ex *qp)
{
	ibv_wr_send(qp);
	ibv_wr_set_inline_data(qp, refusals.memory, 4096);
}

static void build_long(struct ibv_qp_ex *qp)
{
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, 0, 0, UINT32_MAX);
}

static void build_bind(struct ibv_qp_ex *qp)
{
	struct ibv_mw_bind_info info = {.mr = refusals.mr};

	ibv_wr_bind_mw(qp, NULL, 0, &info);
}

static void build_many(struct ibv_qp_ex *qp)
{
	for (int i = 0; i < 10000; i++)
		ibv_wr_send(qp);
}

static void build_datagram(struct ibv_qp_ex *qp)
{
	ibv_wr_send(qp);
	ibv_wr_set_ud_addr(qp, NULL, 1, 1);
}

PROVOKE(ibv_wr_complete, POST_STATE)
{
	return built_on(builder(IBV_QPT_RC, false), build_send);
}

PROVOKE(ibv_wr_complete, POST_INCOMPLETE)
{
	return built(build_setter_alone);
}

PROVOKE(ibv_wr_complete, POST_ENTRIES)
{
	return built(build_many_entries);
}

PROVOKE(ibv_wr_complete, POST_INLINE)
{
	return built(build_inline);
}

PROVOKE(ibv_wr_complete, POST_LENGTH)
{
	return built(build_long);
}

PROVOKE(ibv_wr_complete, POST_BIND)
{
	return built(build_bind);
}

PROVOKE(ibv_wr_complete, POST_FULL)
{
	return built(build_many);
}

PROVOKE(ibv_wr_complete, POST_ADDRESS)
{
	return built_on(builder(IBV_QPT_UD, true), build_datagram);
}

/* --- limits that no attribute of the device has --- */

/* Make objects until one more is refused, and destroy them. */
static int made_until_refused(void *(*make)(void), int (*unmake)(void *object))
{
	static void *made[1 << 17];
	size_t count = 0;
	int error;

	while (count < ARRAY_COUNT(made) && (made[count] = make()))
		count++;
	error = errno;
	while (count)
		if (unmake(made[--count]))
			return 0;
	return error;
}

static struct ibv_wq *limited_wq;

static struct ibv_wq *wq_make(void)
{
	struct ibv_wq_init_attr init = {.wq_type = IBV_WQT_RQ,
		.max_wr = 1,
		.max_sge = 1,
		.pd = refusals.pd,
		.cq = refusals.cq};

	return ibv_create_wq(refusals.context, &init);
}

static void *table_make(void)
{
	struct ibv_rwq_ind_table_init_attr init = {.ind_tbl = &limited_wq};

	return ibv_create_rwq_ind_table(refusals.context, &init);
}

static int table_unmake(void *table)
{
	return ibv_destroy_rwq_ind_table(table);
}

static void *counter_make(void)
{
	return comp_counter_create(refusals.context, &(struct comp_counter_attr){.flags = 0});
}

static int counter_unmake(void *counter)
{
	return comp_counter_destroy(counter);
}

PROVOKE(ibv_create_rwq_ind_table, LIMIT)
{
	int error;

	limited_wq = wq_make();
	error = made_until_refused(table_make, table_unmake);
	return ibv_destroy_wq(limited_wq) ? 0 : error;
}

PROVOKE(ibv_create_comp_cntr, LIMIT)
{
	return made_until_refused(counter_make, counter_unmake);
}
