/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs of identifiers, with the completion queues that the program has left out.
 */
#include "base/arith.h"
#include "front/rdmacm/device.h"
#include "front/rdmacm/id/id.h"

enum { INLINE_BYTES_MIN = 64 };

static void cq_destroy(struct ibv_cq **cq, struct ibv_comp_channel **channel)
{
	if (*cq)
		ibv_destroy_cq(*cq);
	if (*channel)
		ibv_destroy_comp_channel(*channel);
	*cq = NULL;
	*channel = NULL;
}

static void cqs_destroy(struct rdma_cm_id *id)
{
	cq_destroy(&id->recv_cq, &id->recv_cq_channel);
	cq_destroy(&id->send_cq, &id->send_cq_channel);
}

static int cq_create(struct rdma_cm_id *id, uint32_t depth, struct ibv_cq **ret_cq,
	struct ibv_comp_channel **ret_channel)
{
	*ret_channel = ibv_create_comp_channel(id->verbs);
	if (!*ret_channel)
		return errno;
	*ret_cq = ibv_create_cq(id->verbs, (int)max_u32(depth, 1), id, *ret_channel, 0);
	if (!*ret_cq) {
		int error = errno;

		cq_destroy(ret_cq, ret_channel);
		return error;
	}
	return 0;
}

/*
 * Create the completion queues that the program left out. The identifier owns them;
 * rdma_destroy_qp() destroys them.
 */
static int cqs_complete(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *init)
{
	int error = 0;

	if (!init->recv_cq) {
		error = cq_create(id, init->cap.max_recv_wr, &id->recv_cq, &id->recv_cq_channel);
		init->recv_cq = id->recv_cq;
	}
	if (!error && !init->send_cq) {
		error = cq_create(id, init->cap.max_send_wr, &id->send_cq, &id->send_cq_channel);
		init->send_cq = id->send_cq;
	}
	return error;
}

/*
 * A receiving XRC queue pair needs no completion queues, but an XRC domain. If the program has
 * given none, set the device's default domain.
 */
static int xrcd_complete(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *init)
{
	if (init->comp_mask & IBV_QP_INIT_ATTR_XRCD)
		return 0;
	init->xrcd = device_xrcd(id_of(id)->device);
	init->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
	return init->xrcd ? 0 : errno;
}

static int qp_initialize(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask;

	if (rdma_init_qp_attr(id, &attr, &mask))
		return errno;
	return ibv_modify_qp(qp, &attr, mask);
}

/* Move the queue pair to INIT. Move a datagram queue pair to RTS, because it needs no peer. */
static int qp_prepare(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	int error = qp_initialize(id, qp, IBV_QPS_INIT);

	if (id->qp_type != IBV_QPT_UD)
		return error;
	if (!error)
		error = qp_initialize(id, qp, IBV_QPS_RTR);
	if (!error)
		error = qp_initialize(id, qp, IBV_QPS_RTS);
	return error;
}

int rdma_create_qp_ex(struct rdma_cm_id *public, struct ibv_qp_init_attr_ex *init)
{
	struct ibv_qp *qp;
	int error;

	if (!id_find(public))
		return fail_errno(errno);
	if (public->qp || !public->verbs)
		return fail_errno(id_cause(REASON_CM_QP));
	if (!(init->comp_mask & IBV_QP_INIT_ATTR_PD)) {
		init->comp_mask |= IBV_QP_INIT_ATTR_PD;
		init->pd = public->pd;
	} else if (init->pd->context != public->verbs) {
		return fail_errno(id_cause(REASON_CM_QP_PD));
	}
	if (!init->srq && public->srq)
		init->srq = public->srq;
	/*
	 * Adapters round max_inline_data up. So some programs (rdma_xclient) send inline without
	 * requesting it.
	 */
	init->cap.max_inline_data = max_u32(init->cap.max_inline_data, INLINE_BYTES_MIN);
	error = init->qp_type == IBV_QPT_XRC_RECV ? xrcd_complete(public, init)
						  : cqs_complete(public, init);
	if (error)
		goto fail_cqs;
	qp = ibv_create_qp_ex(public->verbs, init);
	if (!qp) {
		error = errno;
		goto fail_cqs;
	}
	public->qp_type = init->qp_type;
	error = qp_prepare(public, qp);
	if (error) {
		ibv_destroy_qp(qp);
		goto fail_cqs;
	}
	public->pd = init->pd;
	public->qp = qp;
	return 0;
fail_cqs:
	cqs_destroy(public);
	return fail_quietly(error);
}

int rdma_create_qp(struct rdma_cm_id *public, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp_init_attr_ex extended = {0};
	int rc;

	if (!id_find(public))
		return fail_errno(errno);
	memcpy(&extended, init, sizeof(*init));
	extended.comp_mask = IBV_QP_INIT_ATTR_PD;
	extended.pd = pd ? pd : public->pd;
	rc = rdma_create_qp_ex(public, &extended);
	memcpy(init, &extended, sizeof(*init));
	return rc;
}

void rdma_destroy_qp(struct rdma_cm_id *public)
{
	if (!id_find(public) || !public->qp)
		return;
	ibv_destroy_qp(public->qp);
	public->qp = NULL;
	cqs_destroy(public);
}

/* --- shared receive queues --- */

int rdma_create_srq_ex(struct rdma_cm_id *public, struct ibv_srq_init_attr_ex *init)
{
	bool is_xrc = (init->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && init->srq_type == IBV_SRQT_XRC;
	struct ibv_srq *srq;
	int error = 0;

	if (!id_find(public))
		return fail_errno(errno);
	if (public->srq || !public->verbs)
		return fail_errno(id_cause(REASON_CM_QP));
	if (!(init->comp_mask & IBV_SRQ_INIT_ATTR_PD)) {
		init->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
		init->pd = public->pd;
	}
	if (is_xrc && !(init->comp_mask & IBV_SRQ_INIT_ATTR_XRCD)) {
		init->xrcd = device_xrcd(id_of(public)->device);
		init->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
		error = init->xrcd ? 0 : errno;
	}
	if (!error && is_xrc && !(init->comp_mask & IBV_SRQ_INIT_ATTR_CQ)) {
		error = cq_create(
			public, init->attr.max_wr, &public->recv_cq, &public->recv_cq_channel);
		init->cq = public->recv_cq;
		init->comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
	}
	if (error)
		return fail_quietly(error);
	srq = ibv_create_srq_ex(public->verbs, init);
	if (!srq)
		return -1;
	public->pd = public->pd ? public->pd : init->pd;
	public->srq = srq;
	return 0;
}

int rdma_create_srq(struct rdma_cm_id *public, struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	struct ibv_srq_init_attr_ex extended = {
		.srq_context = init->srq_context,
		.attr = init->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
	};
	int rc;

	if (!id_find(public))
		return fail_errno(errno);
	extended.srq_type = public->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
	extended.pd = pd ? pd : public->pd;
	rc = rdma_create_srq_ex(public, &extended);
	init->attr = extended.attr;
	return rc;
}

void rdma_destroy_srq(struct rdma_cm_id *public)
{
	if (!id_find(public) || !public->srq)
		return;
	ibv_destroy_srq(public->srq);
	public->srq = NULL;
	if (!public->qp)
		cqs_destroy(public);
}
