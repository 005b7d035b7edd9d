/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/xrc_member.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "support/verbs_pair.h"

void xrc_post_receive(struct xrc_member *member)
{
	struct ibv_sge sge = {(uintptr_t)member->buffer, XRC_BYTES, member->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	MUST(!ibv_post_srq_recv(member->srq, &wr, &bad));
}

void xrc_member_make(struct xrc_member *member, int file)
{
	struct ibv_xrcd_init_attr xrcd = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = file,
		.oflags = O_CREAT,
	};

	member->context = verbs_pair_open();
	MUST(member->pd = ibv_alloc_pd(member->context));
	MUST(member->buffer = aligned_alloc(4096, XRC_BYTES));
	memset(member->buffer, 0, XRC_BYTES);
	MUST(member->mr = ibv_reg_mr(member->pd, member->buffer, XRC_BYTES,
		     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
			     IBV_ACCESS_REMOTE_ATOMIC));
	MUST(member->send_cq = ibv_create_cq(member->context, 4 * XRC_DEPTH, NULL, NULL, 0));
	MUST(member->recv_cq = ibv_create_cq(member->context, 4 * XRC_DEPTH, NULL, NULL, 0));
	MUST(member->xrcd = ibv_open_xrcd(member->context, &xrcd));
	struct ibv_srq_init_attr_ex srq = {
		.attr = {.max_wr = XRC_DEPTH, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = member->pd,
		.xrcd = member->xrcd,
		.cq = member->recv_cq,
	};
	MUST(member->srq = ibv_create_srq_ex(member->context, &srq));
	for (int i = 0; i < XRC_DEPTH; i++)
		xrc_post_receive(member);
}

void xrc_member_unmake(struct xrc_member *member)
{
	MUST(!ibv_destroy_srq(member->srq));
	MUST(!ibv_close_xrcd(member->xrcd));
	MUST(!ibv_destroy_cq(member->recv_cq));
	MUST(!ibv_destroy_cq(member->send_cq));
	MUST(!ibv_dereg_mr(member->mr));
	MUST(!ibv_dealloc_pd(member->pd));
	MUST(!ibv_close_device(member->context));
	free(member->buffer);
}

uint32_t xrc_srq_number(struct ibv_srq *srq)
{
	uint32_t number;

	MUST(!ibv_get_srq_num(srq, &number));
	return number;
}

struct ibv_qp *xrc_receiver_make(struct xrc_member *member)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = member->xrcd,
	};
	struct ibv_qp *qp;

	MUST(qp = ibv_create_qp_ex(member->context, &init));
	return qp;
}

struct ibv_qp *xrc_sender_make(struct xrc_member *member)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_SEND,
		.send_cq = member->send_cq,
		.cap = {.max_send_wr = XRC_DEPTH, .max_send_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = member->pd,
	};
	struct ibv_qp *qp;

	MUST(qp = ibv_create_qp_ex(member->context, &init));
	return qp;
}

uint32_t xrc_receive_all(struct xrc_member *member)
{
	struct ibv_wc wc;
	uint32_t count = 0;

	for (; ibv_poll_cq(member->recv_cq, 1, &wc) > 0; count++)
		xrc_post_receive(member);
	return count;
}

bool xrc_send(struct xrc_member *member, struct ibv_qp *sender, uint32_t srqn)
{
	struct ibv_sge sge = {(uintptr_t)member->buffer, XRC_BYTES, member->mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.qp_type.xrc.remote_srqn = srqn,
	};
	struct ibv_send_wr *bad;

	return !ibv_post_send(sender, &wr, &bad);
}
