/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that cannot be posted or received, and objects that cannot be made or freed. */
#include "mistake.h"

static struct ibv_sge own_entry(const struct mistake *m, uint32_t bytes)
{
	return mistake_entry(m->memory, bytes,
		mistake_register(m, m->memory, NULL, IBV_ACCESS_LOCAL_WRITE)->lkey);
}

static struct ibv_sge target_entry(const struct mistake *m, uint32_t bytes)
{
	return mistake_entry(m->target_memory, bytes,
		mistake_register(m, m->target_memory, NULL, IBV_ACCESS_LOCAL_WRITE)->lkey);
}

void mistake_no_receive_posted(struct mistake *m)
{
	m->settings.rnr_retry = 0;
	mistake_connect(m);
	MUST(!mistake_post(m, IBV_WR_SEND, own_entry(m, MESSAGE_BYTES), 0, 0));
	MUST(mistake_poll(m->cq).status == IBV_WC_RNR_RETRY_EXC_ERR);
}

/* Two messages, and one receive request. */
void mistake_no_receive_as_the_receiver_sees_it(struct mistake *m)
{
	struct ibv_wc wc;

	m->settings.rnr_retry = 0;
	mistake_connect(m);
	MUST(!mistake_receive(m, target_entry(m, MESSAGE_BYTES)));
	for (int i = 0; i < 2; i++)
		MUST(!mistake_post(m, IBV_WR_SEND, own_entry(m, MESSAGE_BYTES), 0, 0));
	do
		wc = mistake_poll(m->cq);
	while (wc.status == IBV_WC_SUCCESS);
	MUST(wc.status == IBV_WC_RNR_RETRY_EXC_ERR);
}

void mistake_receive_too_short(struct mistake *m)
{
	mistake_connect(m);
	MUST(!mistake_receive(m, target_entry(m, MESSAGE_BYTES / 2)));
	MUST(!mistake_post(m, IBV_WR_SEND, own_entry(m, MESSAGE_BYTES), 0, 0));
	for (int i = 0; i < 2; i++)
		MUST(mistake_poll(m->cq).status != IBV_WC_SUCCESS);
}

void mistake_message_too_long_as_the_sender_sees_it(struct mistake *m)
{
	mistake_receive_too_short(m);
}

void mistake_send_before_rts(struct mistake *m)
{
	mistake_to_init(m->sender, 0);
	MUST(mistake_post(m, IBV_WR_SEND, own_entry(m, MESSAGE_BYTES), 0, 0));
}

void mistake_receive_in_reset(struct mistake *m)
{
	MUST(mistake_receive(m, target_entry(m, MESSAGE_BYTES)));
}

void mistake_too_many_entries(struct mistake *m)
{
	struct ibv_sge entry = own_entry(m, MESSAGE_BYTES);
	struct ibv_sge entries[8];
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = entries, .num_sge = 8};
	struct ibv_send_wr *bad;

	for (int i = 0; i < 8; i++)
		entries[i] = entry;
	mistake_connect(m);
	MUST(ibv_post_send(m->sender, &wr, &bad));
}

static void read_fails(struct mistake *m)
{
	struct ibv_mr *mr = mistake_register(m, m->target_memory, NULL, IBV_ACCESS_REMOTE_READ);

	mistake_connect(m);
	MUST(!mistake_post(m, IBV_WR_RDMA_READ, own_entry(m, MESSAGE_BYTES),
		(uintptr_t)m->target_memory, mr->rkey));
	MUST(mistake_poll(m->cq).status != IBV_WC_SUCCESS);
}

void mistake_read_without_rd_atomic(struct mistake *m)
{
	m->settings.max_rd_atomic = 0;
	read_fails(m);
}

void mistake_read_beyond_dest_rd_atomic(struct mistake *m)
{
	m->settings.max_dest_rd_atomic = 0;
	read_fails(m);
}

/* Only the last of three completions is looked at. */
void mistake_first_error_overlooked(struct mistake *m)
{
	struct ibv_sge entry = mistake_entry(m->memory, MESSAGE_BYTES, 0);

	mistake_connect(m);
	for (int i = 0; i < 3; i++)
		MUST(!mistake_post(m, IBV_WR_SEND, entry, 0, 0));
	for (int i = 0; i < 2; i++)
		mistake_poll(m->cq);
	MUST(mistake_poll(m->cq).status == IBV_WC_WR_FLUSH_ERR);
}

void mistake_completion_queue_too_small(struct mistake *m)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_mr *mr = mistake_register(
		m, m->target_memory, NULL, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct ibv_sge entry = own_entry(m, MESSAGE_BYTES);
	struct ibv_cq *small = ibv_create_cq(m->context, 1, NULL, NULL, 0);

	MUST(small);
	m->sender = mistake_qp(m, IBV_QPT_RC, small);
	MUST(m->sender);
	mistake_connect(m);
	do {
		mistake_post(m, IBV_WR_RDMA_WRITE, entry, (uintptr_t)m->target_memory, mr->rkey);
		MUST(!ibv_query_qp(m->sender, &attr, IBV_QP_STATE, &init));
	} while (attr.qp_state == IBV_QPS_RTS);
	MUST(attr.qp_state == IBV_QPS_ERR);
}

/* --- datagrams --- */

static void datagrams_begin(struct mistake *m)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1};

	m->sender = mistake_qp(m, IBV_QPT_UD, m->cq);
	MUST(m->sender);
	MUST(!ibv_modify_qp(
		m->sender, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	MUST(!ibv_modify_qp(m->sender, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	MUST(!ibv_modify_qp(m->sender, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static void datagram_fails(
	struct mistake *m, enum ibv_wr_opcode opcode, struct ibv_pd *pd, uint32_t bytes)
{
	struct ibv_qp_attr rtr = mistake_rtr(m, 0, 0);
	struct ibv_mr *mr;
	struct ibv_sge entry;
	struct ibv_send_wr wr = {.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &entry,
		.num_sge = 1,
		.wr = {.ud = {.remote_qkey = 1}}};
	struct ibv_send_wr *bad;

	datagrams_begin(m);
	wr.wr.ud.ah = ibv_create_ah(pd, &rtr.ah_attr);
	wr.wr.ud.remote_qpn = m->sender->qp_num;
	mr = ibv_reg_mr(m->pd, m->memory, bytes, 0);
	MUST(wr.wr.ud.ah && mr);
	entry = mistake_entry(m->memory, bytes, mr->lkey);
	MUST(!ibv_post_send(m->sender, &wr, &bad));
	MUST(mistake_poll(m->cq).status != IBV_WC_SUCCESS);
}

void mistake_write_on_datagrams(struct mistake *m)
{
	datagram_fails(m, IBV_WR_RDMA_WRITE, m->pd, MESSAGE_BYTES);
}

void mistake_datagram_too_long(struct mistake *m)
{
	datagram_fails(m, IBV_WR_SEND, m->pd, 2 * REGION_BYTES);
}

void mistake_address_of_another_domain(struct mistake *m)
{
	datagram_fails(m, IBV_WR_SEND, m->other_pd, MESSAGE_BYTES);
}

/* --- objects --- */

void mistake_remote_write_without_local_write(struct mistake *m)
{
	MUST(!ibv_reg_mr(m->pd, m->memory, REGION_BYTES, IBV_ACCESS_REMOTE_WRITE));
}

void mistake_queue_too_large(struct mistake *m)
{
	struct ibv_qp_init_attr init = {
		.send_cq = m->cq,
		.recv_cq = m->cq,
		.cap = {.max_send_wr = 100000000, .max_send_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	MUST(!ibv_create_qp(m->pd, &init));
}

void mistake_domain_in_use(struct mistake *m)
{
	MUST(ibv_dealloc_pd(m->pd));
}

void mistake_completion_queue_in_use(struct mistake *m)
{
	MUST(ibv_destroy_cq(m->cq));
}

void mistake_destroyed_twice(struct mistake *m)
{
	struct ibv_qp_attr rtr = mistake_rtr(m, 0, 0);
	struct ibv_ah *ah = ibv_create_ah(m->pd, &rtr.ah_attr);
	struct ibv_ah copy;

	MUST(ah);
	copy = *ah;
	MUST(!ibv_destroy_ah(ah));
	MUST(ibv_destroy_ah(&copy));
}

void mistake_objects_leaked(struct mistake *m)
{
	while (ibv_alloc_pd(m->context))
		;
}
