/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrc_halves.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

struct ibv_xrcd *xrc_domain(struct peer *peer, int file)
{
	struct ibv_xrcd_init_attr init = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = file,
		.oflags = O_CREAT,
	};
	struct ibv_xrcd *domain = ibv_open_xrcd(peer->context, &init);

	CHECK(domain, "no domain: %s", strerror(errno));
	return domain;
}

struct ibv_srq *xrc_queue(
	struct peer *peer, struct ibv_xrcd *domain, struct ibv_cq *cq, struct ibv_srq_attr attr)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = peer->pd,
		.xrcd = domain,
		.cq = cq,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(peer->context, &init);

	CHECK(srq, "no shared queue: %s", strerror(errno));
	return srq;
}

uint32_t xrc_queue_number(struct ibv_srq *srq)
{
	uint32_t number;

	CHECK(!ibv_get_srq_num(srq, &number), "the queue has no number");
	return number;
}

struct ibv_qp *xrc_receiver(struct peer *peer, struct ibv_xrcd *domain)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = domain,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(peer->context, &init);

	CHECK(qp, "no receiving queue pair: %s", strerror(errno));
	return qp;
}

struct ibv_qp *xrc_sender(
	struct peer *peer, struct ibv_cq *cq, struct ibv_qp_cap cap, bool is_all_signaled)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.cap = cap,
		.qp_type = IBV_QPT_XRC_SEND,
		.sq_sig_all = is_all_signaled,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = peer->pd,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(peer->context, &init);

	CHECK(qp, "no sending queue pair: %s", strerror(errno));
	return qp;
}

/* The sending half answers nothing, the receiving half waits for nothing. */
static void connect_half(
	struct peer *peer, struct ibv_qp *qp, const struct xrc_link *link, bool is_sender)
{
	const struct peer_options *options = &peer->options;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = is_sender ? 0 : (unsigned)peer_link_full.access,
		.path_mtu = link->mtu,
		.dest_qp_num = link->dest_qpn,
		.rq_psn = link->rq_psn,
		.max_dest_rd_atomic = link->rd_atomic,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1},
		.sq_psn = link->sq_psn,
		.timeout = options->timeout,
		.retry_cnt = options->retry_cnt,
		.rnr_retry = options->rnr_retry,
		.max_rd_atomic = link->rd_atomic,
	};

	attr.ah_attr.grh.dgid = link->gid;
	attr.ah_attr.grh.sgid_index = options->gid_index;
	attr.ah_attr.grh.hop_limit = 64;
	CHECK(!ibv_modify_qp(qp, &attr,
		      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		"no INIT");
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &attr,
		      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			      (is_sender ? 0 : IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)),
		"no RTR");
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr,
		      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
			      (is_sender ? IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						      IBV_QP_MAX_QP_RD_ATOMIC
					 : 0)),
		"no RTS");
}

void xrc_receiver_connect(struct peer *peer, struct ibv_qp *qp, const struct xrc_link *link)
{
	connect_half(peer, qp, link, false);
}

void xrc_sender_connect(struct peer *peer, struct ibv_qp *qp, const struct xrc_link *link)
{
	connect_half(peer, qp, link, true);
}
