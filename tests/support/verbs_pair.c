/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/verbs_pair.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	ACCESS_ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		IBV_ACCESS_REMOTE_ATOMIC,
};

void verbs_pair_give_up(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: not so: %s (%s)\n", file, line, what, strerror(errno));
	_exit(1);
}

struct ibv_context *verbs_pair_open(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;

	MUST(list);
	MUST(list[0]);
	context = ibv_open_device(list[0]);
	MUST(context);
	ibv_free_device_list(list);
	return context;
}

void verbs_end_make(struct verbs_end *end, struct ibv_context *context, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.cap = {PAIR_DEPTH, PAIR_DEPTH, 1, 1, 64},
		.qp_type = IBV_QPT_RC,
	};

	memset(end, 0, sizeof(*end));
	MUST(end->pd = ibv_alloc_pd(context));
	if (!cq) {
		MUST(end->channel = ibv_create_comp_channel(context));
		MUST(cq = ibv_create_cq(context, 4 * PAIR_DEPTH, end, end->channel, 0));
	}
	end->cq = cq;
	MUST(end->buffer = aligned_alloc(4096, PAIR_BYTES));
	memset(end->buffer, 0, PAIR_BYTES);
	MUST(end->mr = ibv_reg_mr(end->pd, end->buffer, PAIR_BYTES, ACCESS_ALL));
	init.send_cq = cq;
	init.recv_cq = cq;
	MUST(end->qp = ibv_create_qp(end->pd, &init));
}

void verbs_end_unmake(struct verbs_end *end)
{
	MUST(!ibv_destroy_qp(end->qp));
	if (end->channel) {
		MUST(!ibv_destroy_cq(end->cq));
		MUST(!ibv_destroy_comp_channel(end->channel));
	}
	MUST(!ibv_dereg_mr(end->mr));
	MUST(!ibv_dealloc_pd(end->pd));
	free(end->buffer);
}

void verbs_qp_connect(struct ibv_qp *qp, uint32_t dest_qpn, uint8_t timeout)
{
	union ibv_gid own;

	MUST(!ibv_query_gid(qp->context, 1, 0, &own));
	verbs_qp_connect_to(qp, &own, dest_qpn, timeout);
}

void verbs_qp_connect_to(
	struct ibv_qp *qp, const union ibv_gid *gid, uint32_t dest_qpn, uint8_t timeout)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = ACCESS_ALL,
	};

	MUST(!ibv_modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qpn,
		.rq_psn = 0xfffff0,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .hop_limit = 1}},
	};
	MUST(!ibv_modify_qp(qp, &attr,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.timeout = timeout,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.sq_psn = 0xfffff0,
		.max_rd_atomic = 4,
	};
	MUST(!ibv_modify_qp(qp, &attr,
		IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

void verbs_ends_connect(struct verbs_end *a, struct verbs_end *b, uint8_t timeout)
{
	verbs_qp_connect(a->qp, b->qp->qp_num, timeout);
	verbs_qp_connect(b->qp, a->qp->qp_num, timeout);
}

void verbs_pair_make(struct verbs_pair *pair, struct ibv_context *context)
{
	enum { TIMEOUT_HALF_A_SECOND = 17 };

	verbs_end_make(&pair->a, context, NULL);
	verbs_end_make(&pair->b, context, NULL);
	verbs_ends_connect(&pair->a, &pair->b, TIMEOUT_HALF_A_SECOND);
}

void verbs_pair_unmake(struct verbs_pair *pair)
{
	verbs_end_unmake(&pair->a);
	verbs_end_unmake(&pair->b);
}

static int post(struct verbs_end *end, enum ibv_wr_opcode opcode, const struct verbs_end *to,
	uint32_t offset, uint32_t bytes, unsigned flags)
{
	struct ibv_sge sge = {(uintptr_t)end->buffer + offset, bytes, end->mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = offset,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = flags,
	};
	struct ibv_send_wr *bad;

	if (to) {
		wr.wr.rdma.remote_addr = (uintptr_t)to->buffer + offset;
		wr.wr.rdma.rkey = to->mr->rkey;
	}
	return ibv_post_send(end->qp, &wr, &bad);
}

int verbs_post(struct verbs_end *end, enum ibv_wr_opcode opcode, const struct verbs_end *to,
	uint32_t offset, uint32_t bytes)
{
	return post(end, opcode, to, offset, bytes, IBV_SEND_SIGNALED);
}

int verbs_post_unsignaled(struct verbs_end *end, enum ibv_wr_opcode opcode,
	const struct verbs_end *to, uint32_t offset, uint32_t bytes)
{
	return post(end, opcode, to, offset, bytes, 0);
}

void verbs_post_recv(struct verbs_end *end, uint64_t id, uint32_t offset, uint32_t bytes)
{
	struct ibv_sge sge = {(uintptr_t)end->buffer + offset, bytes, end->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	MUST(!ibv_post_recv(end->qp, &wr, &bad));
}

struct ibv_wc verbs_poll_one(struct ibv_cq *cq)
{
	time_t until = time(NULL) + PAIR_TIMEOUT_S;
	struct ibv_wc wc;
	int got;

	do
		got = ibv_poll_cq(cq, 1, &wc);
	while (got == 0 && time(NULL) < until);
	MUST(got == 1);
	return wc;
}

struct ibv_wc verbs_wait_one(struct verbs_end *end)
{
	struct pollfd readable = {.fd = end->channel->fd, .events = POLLIN};
	struct ibv_wc wc;

	MUST(!ibv_req_notify_cq(end->cq, 0));
	while (!ibv_poll_cq(end->cq, 1, &wc)) {
		struct ibv_cq *cq;
		void *cq_context;

		MUST(poll(&readable, 1, PAIR_TIMEOUT_S * 1000) == 1);
		MUST(!ibv_get_cq_event(end->channel, &cq, &cq_context));
		MUST(cq == end->cq && cq_context == end);
		ibv_ack_cq_events(cq, 1);
		MUST(!ibv_req_notify_cq(end->cq, 0));
	}
	return wc;
}

static uint8_t pattern_byte(uint32_t index, uint32_t seed)
{
	return (uint8_t)((index * 2654435761u ^ seed * 2246822519u) >> 13);
}

void verbs_pattern_fill(uint8_t *bytes, uint32_t count, uint32_t seed)
{
	for (uint32_t i = 0; i < count; i++)
		bytes[i] = pattern_byte(i, seed);
}

bool verbs_pattern_is(const uint8_t *bytes, uint32_t count, uint32_t seed)
{
	for (uint32_t i = 0; i < count; i++)
		if (bytes[i] != pattern_byte(i, seed))
			return false;
	return true;
}
