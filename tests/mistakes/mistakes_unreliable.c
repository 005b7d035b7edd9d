/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of unreliable types that the receiver drops. The sender learns nothing, so each program
 * ends when a later datagram has arrived: packets to the queue pairs of one completion queue come
 * in order.
 */
#include "mistake.h"

enum { QKEY = 1, GRH_BYTES = 40 };

static struct ibv_mr *region_make(const struct mistake *m)
{
	return mistake_register(m, m->memory, NULL, IBV_ACCESS_LOCAL_WRITE);
}

static void datagrams_to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

	MUST(!ibv_modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
}

static struct ibv_qp *datagrams_make(const struct mistake *m)
{
	struct ibv_qp *qp = mistake_qp(m, IBV_QPT_UD, m->cq);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};

	MUST(qp);
	datagrams_to_init(qp);
	MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	return qp;
}

static void receive_post(struct ibv_qp *qp, struct ibv_sge entry)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = 2, .sg_list = &entry, .num_sge = 1};

	MUST(!ibv_post_recv(qp, &wr, &bad));
}

/* Send MESSAGE_BYTES from a queue pair to the number `to` of the same device. */
static void datagram_send(
	const struct mistake *m, struct ibv_qp *from, uint32_t to, uint32_t qkey, struct ibv_mr *mr)
{
	struct ibv_qp_attr rtr = mistake_rtr(m, 0, 0);
	struct ibv_sge entry = mistake_entry(m->memory, MESSAGE_BYTES, mr->lkey);
	struct ibv_send_wr *bad,
		wr = {.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED,
			.sg_list = &entry,
			.num_sge = 1,
			.wr = {.ud = {.remote_qpn = to, .remote_qkey = qkey}}};

	wr.wr.ud.ah = ibv_create_ah(m->pd, &rtr.ah_attr);
	MUST(wr.wr.ud.ah && !ibv_post_send(from, &wr, &bad));
}

/* Wait until the packets that were sent are received. */
static void packets_await(const struct mistake *m, struct ibv_mr *mr)
{
	struct ibv_qp *qp = datagrams_make(m);
	struct ibv_wc wc;

	receive_post(qp, mistake_entry(m->memory + 2048, MESSAGE_BYTES + GRH_BYTES, mr->lkey));
	datagram_send(m, qp, qp->qp_num, QKEY, mr);
	do {
		wc = mistake_poll(m->cq);
		MUST(wc.status == IBV_WC_SUCCESS);
	} while (!(wc.opcode & IBV_WC_RECV));
}

/* Send a datagram to `to`, which is dropped. */
static void datagram_is_lost(const struct mistake *m, uint32_t to, uint32_t qkey, struct ibv_mr *mr)
{
	datagram_send(m, datagrams_make(m), to, qkey, mr);
	packets_await(m, mr);
}

void mistake_datagram_without_receive(struct mistake *m)
{
	datagram_is_lost(m, datagrams_make(m)->qp_num, QKEY, region_make(m));
}

void mistake_datagram_with_another_qkey(struct mistake *m)
{
	datagram_is_lost(m, datagrams_make(m)->qp_num, QKEY + 1, region_make(m));
}

void mistake_datagram_without_room_for_the_grh(struct mistake *m)
{
	struct ibv_qp *receiver = datagrams_make(m);
	struct ibv_mr *mr = region_make(m);

	receive_post(receiver, mistake_entry(m->memory + 1024, MESSAGE_BYTES, mr->lkey));
	datagram_is_lost(m, receiver->qp_num, QKEY, mr);
}

void mistake_datagram_to_no_queue_pair(struct mistake *m)
{
	struct ibv_qp *destroyed = datagrams_make(m);
	uint32_t number = destroyed->qp_num;

	MUST(!ibv_destroy_qp(destroyed));
	datagram_is_lost(m, number, QKEY, region_make(m));
}

void mistake_datagram_before_rtr(struct mistake *m)
{
	struct ibv_qp *late = mistake_qp(m, IBV_QPT_UD, m->cq);

	datagrams_to_init(late);
	datagram_is_lost(m, late->qp_num, QKEY, region_make(m));
}

/* --- unreliable connections --- */

enum {
	RTR_MASK = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
};

static void unreliable_connect(struct mistake *m, uint32_t target_rq_psn)
{
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS}, rtr;

	m->sender = mistake_qp(m, IBV_QPT_UC, m->cq);
	m->target = mistake_qp(m, IBV_QPT_UC, m->cq);
	MUST(m->sender && m->target);
	mistake_to_init(m->sender, 0);
	mistake_to_init(m->target, IBV_ACCESS_REMOTE_WRITE);
	rtr = mistake_rtr(m, m->target->qp_num, 0);
	MUST(!ibv_modify_qp(m->sender, &rtr, RTR_MASK));
	rtr = mistake_rtr(m, m->sender->qp_num, target_rq_psn);
	MUST(!ibv_modify_qp(m->target, &rtr, RTR_MASK));
	MUST(!ibv_modify_qp(m->sender, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static void message_is_lost(const struct mistake *m, enum ibv_wr_opcode opcode, uint32_t rkey)
{
	struct ibv_mr *mr = region_make(m);
	struct ibv_sge entry = mistake_entry(m->memory, MESSAGE_BYTES, mr->lkey);

	MUST(!mistake_post(m, opcode, entry, (uintptr_t)m->target_memory, rkey));
	packets_await(m, mr);
}

void mistake_unreliable_send_without_receive(struct mistake *m)
{
	unreliable_connect(m, 0);
	message_is_lost(m, IBV_WR_SEND, 0);
}

void mistake_unreliable_write_by_wrong_rkey(struct mistake *m)
{
	unreliable_connect(m, 0);
	message_is_lost(m, IBV_WR_RDMA_WRITE, 0x1234567);
}

void mistake_unreliable_sequence_differs(struct mistake *m)
{
	unreliable_connect(m, 0x555);
	message_is_lost(m, IBV_WR_SEND, 0);
}
