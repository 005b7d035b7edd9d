/* SPDX-License-Identifier: BSD-2-Clause */
/* The queues of a program and their connection with the other end's. */
#include "ways_end.h"

/* Where an end's datagrams come to. */
struct whereabouts {
	union ibv_gid gid;
	uint32_t qpn;
};

static void datagrams_begin(struct ways *ways)
{
	const struct peer *peer = ways->peer;
	struct whereabouts theirs, ours = {peer->gid, ways->qp->qp_num};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = WAYS_QKEY};
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1};

	CHECK(!ibv_modify_qp(ways->qp, &attr,
		      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		"no INIT");
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(ways->qp, &attr, IBV_QP_STATE), "no RTR");
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(ways->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "no RTS");
	peer_exchange(ways->peer, &ours, &theirs, sizeof(ours));
	ah.grh.dgid = theirs.gid;
	ah.grh.sgid_index = peer->options.gid_index;
	CHECK(ways->ah = ibv_create_ah(peer->pd, &ah), "no address handle");
	ways->their_qpn = theirs.qpn;
}

/* What both halves of an end's extended connection are. */
struct halves {
	union ibv_gid gid;
	uint32_t sender_qpn, receiver_qpn, psn, srqn;
};

/* The first requests to a queue of another process go by packets anyhow, while it is looked for. */
static void acquaint(struct ways *ways)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.qp_type.xrc.remote_srqn = ways->their_srqn,
	};

	for (unsigned i = 0; i < 2; i++) {
		peer_post_send(ways->qp, &wr);
		peer_success(ways->send_cq);
		peer_sleep_ms(1);
	}
}

static void halves_connect(struct ways *ways, const struct ways_program *program)
{
	struct peer *peer = ways->peer;
	uint64_t random = ways->seed << 8 | ways->number << 1 | ways->end;
	const struct halves ours = {
		.gid = peer->gid,
		.sender_qpn = ways->qp->qp_num,
		.receiver_qpn = ways->receiver_qpn,
		.psn = (uint32_t)peer_random(&random) & 0xffffff,
		.srqn = xrc_queue_number(ways->srq),
	};
	struct halves theirs;
	struct xrc_link link = {
		.mtu = (enum ibv_mtu)(IBV_MTU_256 + __builtin_ctz(program->mtu_bytes / 256)),
		.sq_psn = ours.psn,
		.rd_atomic = program->rd_atomic,
	};

	peer->options.rnr_retry = program->rnr_retry;
	peer_exchange(peer, &ours, &theirs, sizeof(ours));
	ways->their_srqn = theirs.srqn;
	link.gid = theirs.gid;
	link.dest_qpn = theirs.sender_qpn;
	link.rq_psn = theirs.psn;
	ways_receiver_connect(ways->receiver, &link);
	link.dest_qpn = theirs.receiver_qpn;
	xrc_sender_connect(peer, ways->qp, &link);
	peer_barrier(peer);
	acquaint(ways);
	peer_barrier(peer);
}

void ways_connection_begin(struct ways *ways, const struct ways_program *program)
{
	const struct peer_link link = {
		peer_link_full.access, program->rd_atomic, program->rd_atomic};

	if (program->has_datagrams) {
		datagrams_begin(ways);
		return;
	}
	if (program->is_xrc) {
		halves_connect(ways, program);
		return;
	}
	ways->peer->options.rnr_retry = program->rnr_retry;
	ways->peer->options.mtu_bytes = program->mtu_bytes;
	peer_qp_connect(ways->peer, ways->qp, &link);
}

static enum ibv_qp_type type_of(const struct ways_program *program)
{
	if (program->has_datagrams)
		return IBV_QPT_UD;
	return program->is_unreliable ? IBV_QPT_UC : IBV_QPT_RC;
}

static void halves_create(struct ways *ways, const struct ways_program *program)
{
	struct peer *peer = ways->peer;

	ways->srq = xrc_queue(peer, ways->domain, ways->receive_cq,
		(struct ibv_srq_attr){WAYS_QUEUE_DEPTH, WAYS_PIECES_MAX, 0});
	ways->qp = xrc_sender(peer, ways->send_cq,
		(struct ibv_qp_cap){.max_send_wr = WAYS_QUEUE_DEPTH,
			.max_send_sge = WAYS_PIECES_MAX,
			.max_inline_data = WAYS_INLINE_BYTES},
		program->is_all_signaled);
	ways->receiver_qpn = ways_receiver_make(ways->receiver);
}

void ways_queues_create(struct ways *ways, const struct ways_program *program)
{
	struct ibv_srq_init_attr srq = {.attr = {WAYS_QUEUE_DEPTH, WAYS_PIECES_MAX, 0}};
	struct ibv_qp_init_attr init = {
		.send_cq = ways->send_cq,
		.recv_cq = ways->receive_cq,
		.cap = {WAYS_QUEUE_DEPTH, WAYS_QUEUE_DEPTH, WAYS_PIECES_MAX, WAYS_PIECES_MAX,
			WAYS_INLINE_BYTES},
		.qp_type = type_of(program),
		.sq_sig_all = program->is_all_signaled,
	};

	ways->is_xrc = program->is_xrc;
	if (ways->is_xrc) {
		halves_create(ways, program);
		return;
	}
	if (program->has_srq)
		CHECK(ways->srq = ibv_create_srq(ways->peer->pd, &srq), "no shared queue");
	init.srq = ways->srq;
	CHECK(ways->qp = ibv_create_qp(ways->peer->pd, &init), "no queue pair");
}

void ways_queues_destroy(struct ways *ways)
{
	if (ways->is_xrc)
		ways_receiver_unmake(ways->receiver);
	CHECK(!ibv_destroy_qp(ways->qp), "the queue pair stays");
	CHECK(!ways->srq || !ibv_destroy_srq(ways->srq), "the shared queue stays");
	ways->srq = NULL;
}
