/* SPDX-License-Identifier: BSD-2-Clause */
/* Wrong state transitions, addresses and numbers of a connection. */
#include "mistake.h"

enum { ABSENT_QPN = 0x123456 };

void mistake_transition_left_out(struct mistake *m)
{
	struct ibv_qp_attr rtr = mistake_rtr(m, m->target->qp_num, 0);

	MUST(ibv_modify_qp(m->sender, &rtr, MISTAKE_RTR_MASK));
}

void mistake_rts_before_rtr(struct mistake *m)
{
	struct ibv_qp_attr rts = mistake_rts(m);

	mistake_to_init(m->sender, 0);
	MUST(ibv_modify_qp(m->sender, &rts, MISTAKE_RTS_MASK));
}

/* Go to RTR with these attributes, which has to fail. */
static void rtr_fails(const struct mistake *m, struct ibv_qp_attr rtr, int mask)
{
	mistake_to_init(m->sender, 0);
	MUST(ibv_modify_qp(m->sender, &rtr, mask));
}

void mistake_dest_qpn_missing(struct mistake *m)
{
	rtr_fails(m, mistake_rtr(m, m->target->qp_num, 0), MISTAKE_RTR_MASK & ~IBV_QP_DEST_QPN);
}

void mistake_retry_count_too_early(struct mistake *m)
{
	rtr_fails(m, mistake_rtr(m, m->target->qp_num, 0), MISTAKE_RTR_MASK | IBV_QP_RETRY_CNT);
}

void mistake_mtu_in_bytes(struct mistake *m)
{
	struct ibv_qp_attr rtr = mistake_rtr(m, m->target->qp_num, 0);

	rtr.path_mtu = (enum ibv_mtu)1024;
	rtr_fails(m, rtr, MISTAKE_RTR_MASK);
}

void mistake_wrong_gid_index(struct mistake *m)
{
	struct ibv_qp_attr rtr = mistake_rtr(m, m->target->qp_num, 0);

	rtr.ah_attr.grh.sgid_index = 77;
	rtr_fails(m, rtr, MISTAKE_RTR_MASK);
}

void mistake_no_global_route(struct mistake *m)
{
	struct ibv_qp_attr rtr = mistake_rtr(m, m->target->qp_num, 0);

	rtr.ah_attr.is_global = 0;
	rtr_fails(m, rtr, MISTAKE_RTR_MASK);
}

/* Go from RTR to RTS with these attributes, which has to fail. */
static void rts_fails(const struct mistake *m, struct ibv_qp_attr rts, int mask)
{
	struct ibv_qp_attr rtr = mistake_rtr(m, m->target->qp_num, 0);

	mistake_to_init(m->sender, 0);
	MUST(!ibv_modify_qp(m->sender, &rtr, MISTAKE_RTR_MASK));
	MUST(ibv_modify_qp(m->sender, &rts, mask));
}

void mistake_timeout_missing(struct mistake *m)
{
	rts_fails(m, mistake_rts(m), MISTAKE_RTS_MASK & ~IBV_QP_TIMEOUT);
}

void mistake_retry_count_too_large(struct mistake *m)
{
	struct ibv_qp_attr rts = mistake_rts(m);

	rts.retry_cnt = 10;
	rts_fails(m, rts, MISTAKE_RTS_MASK);
}

void mistake_access_flags_missing(struct mistake *m)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	MUST(ibv_modify_qp(m->sender, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT));
}

void mistake_port_zero(struct mistake *m)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};

	MUST(ibv_modify_qp(m->sender, &attr,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

/* Post a SEND to a peer that cannot answer. */
static void send_unanswered(struct mistake *m)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, 0);

	mistake_connect(m);
	MUST(!mistake_post(
		m, IBV_WR_SEND, mistake_entry(m->memory, MESSAGE_BYTES, own->lkey), 0, 0));
	MUST(mistake_poll(m->cq).status == IBV_WC_RETRY_EXC_ERR);
}

void mistake_short_retry(struct mistake *m)
{
	m->settings.target_qpn = ABSENT_QPN;
	m->settings.timeout = 1;
	m->settings.retry_cnt = 0;
	send_unanswered(m);
}

void mistake_peer_that_is_not_there(struct mistake *m)
{
	m->settings.target_gid = m->gid;
	m->settings.target_gid.raw[15] = 0xfe; /* an address that no machine of the network has */
	m->settings.timeout = 8;
	m->settings.retry_cnt = 1;
	send_unanswered(m);
}

/* Host b of the network is there, and no program on it. */
void mistake_peer_without_urnicd(struct mistake *m)
{
	m->settings.target_gid = m->gid;
	m->settings.target_gid.raw[15] = 2;
	m->settings.timeout = 8;
	m->settings.retry_cnt = 1;
	send_unanswered(m);
}

void mistake_packet_sequence_numbers_differ(struct mistake *m)
{
	m->settings.target_rq_psn = 0x555555;
	m->settings.timeout = 8;
	m->settings.retry_cnt = 1;
	send_unanswered(m);
}
