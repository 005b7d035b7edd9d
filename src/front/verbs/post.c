/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting: convert the program's list of work requests to an array, a batch at a time, so that one
 * lock and one system call serve many requests.
 *
 * Pointers other than NULL are trusted, as in every libibverbs. The queue checks the contents of a
 * request (qp/qp.h).
 */
#include <assert.h>
#include <endian.h>

#include "front/verbs/ah.h"
#include "front/verbs/mw.h"
#include "front/verbs/qp.h"
#include "front/verbs/result.h"
#include "front/verbs/sge.h"
#include "front/verbs/srq.h"
#include "front/verbs/wq.h"

#define POST_BATCH 32

/*
 * Convert a request. An illegal request gets an invalid opcode, so that the queue refuses it in
 * order.
 */
static void send_wr_from_verbs(struct send_wr *to, const struct ibv_send_wr *from)
{
	*to = (struct send_wr){
		.wr_id = from->wr_id,
		.opcode = from->opcode,
		.flags = from->send_flags,
		.imm = be32toh(from->imm_data),
		.remote_address = from->wr.rdma.remote_addr,
		.rkey = from->wr.rdma.rkey,
		.sge = sge_list(from->sg_list),
		.sge_count = sge_count(from->sg_list, from->num_sge),
	};
	switch ((int)from->opcode) {
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		to->remote_address = from->wr.atomic.remote_addr;
		to->rkey = from->wr.atomic.rkey;
		to->compare_add = from->wr.atomic.compare_add;
		to->swap = from->wr.atomic.swap;
		break;
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_LOCAL_INV:
		to->imm = from->invalidate_rkey;
		break;
	case IBV_WR_BIND_MW:
		if (!mw_bind_2_from_verbs(
			    to, from->bind_mw.mw, from->bind_mw.rkey, &from->bind_mw.bind_info))
			to->opcode = WR_OPCODE_COUNT;
		break;
	case WR_FLUSH: /* refuse it, because struct ibv_send_wr has no fields for a FLUSH */
		to->opcode = WR_OPCODE_COUNT;
		break;
	}
}

/* Does the request have an address handle? Other requests have a key or an address in its place. */
static bool is_datagram(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
}

/*
 * Note why the request was refused. An illegal request has an invalid opcode
 * (send_wr_from_verbs()).
 */
static void send_explain(
	const struct qp_front *qp, const struct ibv_send_wr *wr, const struct send_wr *converted)
{
	bool is_illegal = converted->opcode == WR_OPCODE_COUNT;

	if (is_illegal && wr->opcode == IBV_WR_BIND_MW)
		result_cause(REASON_POST_BIND);
	else if (is_illegal && is_datagram(wr->opcode))
		result_cause(REASON_POST_ADDRESS);
	else
		nic_qp_explain_send(qp->nic, converted);
}

static int post_send_list(struct qp_front *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct send_wr batch[POST_BATCH];
	int error = 0;

	while (wr && !error) {
		struct ibv_send_wr *first = wr;
		uint32_t count = 0;
		uint32_t posted;

		for (; wr && count < POST_BATCH; wr = wr->next, count++) {
			send_wr_from_verbs(&batch[count], wr);
			if (qp->verbs.qp_type == IBV_QPT_XRC_SEND)
				batch[count].srqn = wr->qp_type.xrc.remote_srqn;
			if (qp->verbs.qp_type == IBV_QPT_UD && is_datagram(wr->opcode) &&
				!ah_target(&batch[count].datagram, wr->wr.ud.ah, qp,
					wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey))
				batch[count].opcode = WR_OPCODE_COUNT;
		}
		error = nic_qp_post_send(qp->nic, batch, count, &posted);
		if (error) {
			assert(posted < count);
			for (uint32_t i = 0; i < posted; i++)
				first = first->next;
			*bad_wr = first;
			if (error == -EINVAL)
				send_explain(qp, first, &batch[posted]);
		}
	}
	return error ? result_of_post("ibv_post_send", -error) : 0;
}

int qp_post_send_verbs(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct qp_front *front = qp_of(qp);
	int error;

	if (!front->has_builder)
		return post_send_list(front, wr, bad_wr);
	wr_builder_lock(&front->builder);
	error = post_send_list(front, wr, bad_wr);
	wr_builder_unlock(&front->builder);
	return error;
}

/* How receive requests are posted to a kind of queue. */
struct receive_queue {
	const char *call;
	int (*post)(void *queue, const struct recv_wr *wrs, uint32_t count, uint32_t *ret_posted);
	/* Notes why a request was refused */
	void (*explain)(void *queue, const struct recv_wr *wr);
};

static int post_recv_list(const struct receive_queue *kind, void *queue, struct ibv_recv_wr *wr,
	struct ibv_recv_wr **bad_wr)
{
	struct recv_wr batch[POST_BATCH];
	int error = 0;

	while (wr && !error) {
		struct ibv_recv_wr *first = wr;
		uint32_t count = 0;
		uint32_t posted;

		for (; wr && count < POST_BATCH; wr = wr->next)
			batch[count++] = (struct recv_wr){
				.wr_id = wr->wr_id,
				.sge = sge_list(wr->sg_list),
				.sge_count = sge_count(wr->sg_list, wr->num_sge),
			};
		error = kind->post(queue, batch, count, &posted);
		if (error) {
			assert(posted < count);
			for (uint32_t i = 0; i < posted; i++)
				first = first->next;
			*bad_wr = first;
			if (error == -EINVAL)
				kind->explain(queue, &batch[posted]);
		}
	}
	return error ? result_of_post(kind->call, -error) : 0;
}

static int post_to_qp(void *qp, const struct recv_wr *wrs, uint32_t count, uint32_t *ret_posted)
{
	return nic_qp_post_recv(qp, wrs, count, ret_posted);
}

static void explain_of_qp(void *qp, const struct recv_wr *wr)
{
	nic_qp_explain_recv(qp, wr);
}

int qp_post_recv_verbs(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	static const struct receive_queue kind = {"ibv_post_recv", post_to_qp, explain_of_qp};

	return post_recv_list(&kind, qp_of(qp)->nic, wr, bad_wr);
}

static int post_to_srq(void *srq, const struct recv_wr *wrs, uint32_t count, uint32_t *ret_posted)
{
	return nic_srq_post(srq, wrs, count, ret_posted);
}

static void explain_of_srq(void *srq, const struct recv_wr *wr)
{
	struct nic_srq_attr attr;

	nic_srq_query(srq, &attr);
	result_cause(wr->sge_count > attr.sge_count_max ? REASON_POST_ENTRIES : REASON_FORKED);
}

int srq_post_recv_verbs(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	static const struct receive_queue kind = {"ibv_post_srq_recv", post_to_srq, explain_of_srq};

	return post_recv_list(&kind, srq_of(srq)->nic, wr, bad_wr);
}

static int post_to_wq(void *wq, const struct recv_wr *wrs, uint32_t count, uint32_t *ret_posted)
{
	return nic_wq_post_recv(wq, wrs, count, ret_posted);
}

static void explain_of_wq(void *wq, const struct recv_wr *wr)
{
	(void)wr;
	result_cause(nic_wq_state(wq) == WQ_RESET ? REASON_POST_WQ_STATE : REASON_POST_ENTRIES);
}

int wq_post_recv_verbs(struct ibv_wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	static const struct receive_queue kind = {"ibv_post_wq_recv", post_to_wq, explain_of_wq};

	return post_recv_list(&kind, container_of(wq, struct wq_front, verbs)->nic, wr, bad_wr);
}
