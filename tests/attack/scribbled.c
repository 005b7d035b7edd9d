/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes of one host that exchange data while a third process writes any words into their
 * NIC memory (scribble.c).
 *
 *   scribbled [OPTIONS] -w rc|srq|ud [-n ROUNDS] [SERVER]
 *
 * Each round has queue pairs of its own. Requests may fail, and messages may be lost. What is
 * checked: neither process crashes, each call returns, a completion has a wr_id that is
 * outstanding, and every object can be destroyed.
 */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "e2e/peer.h"

enum {
	ROUNDS = 40,
	ROUND_MS = 60,
	DEPTH = 64,
	BYTES = 8192, /* of each request */
	UD_BYTES = 1024,
	UD_HEADER = 40,
	QKEY = 0x1111,
	HANG_S = 30,
	FIRST_ID = 0x5eed0000,
};

struct round {
	struct peer *peer;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_ah *ah; /* of datagrams */
	uint32_t remote_qpn;
	struct ibv_mr *send_mr, *recv_mr, *open_mr;
	struct peer_buffer remote;
	bool is_posted[DEPTH]; /* receive requests, by the low part of their wr_id */
	uint32_t sent; /* outstanding */
	bool is_dead;
};

static uint64_t received, failed;

static struct ibv_qp *qp_create(struct round *round, bool is_datagram)
{
	struct ibv_qp_init_attr init = {
		.send_cq = round->send_cq,
		.recv_cq = round->recv_cq,
		.srq = round->srq,
		.qp_type = is_datagram ? IBV_QPT_UD : IBV_QPT_RC,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(round->peer->pd, &init);

	CHECK(qp, "ibv_create_qp");
	return qp;
}

static void datagram_connect(struct round *round)
{
	struct {
		union ibv_gid gid;
		uint32_t qpn;
	} ours = {round->peer->gid, round->qp->qp_num}, theirs;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	struct ibv_ah_attr ah = {
		.is_global = 1,
		.port_num = 1,
		.grh = {.sgid_index = round->peer->options.gid_index, .hop_limit = 4},
	};

	CHECK(!ibv_modify_qp(round->qp, &attr,
		      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		"INIT");
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(round->qp, &attr, IBV_QP_STATE), "RTR");
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(round->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
	peer_exchange(round->peer, &ours, &theirs, sizeof(ours));
	ah.grh.dgid = theirs.gid;
	round->remote_qpn = theirs.qpn;
	round->ah = ibv_create_ah(round->peer->pd, &ah);
	CHECK(round->ah, "ibv_create_ah");
}

static void receive_post(struct round *round, uint32_t slot)
{
	struct ibv_sge sge = peer_sge(round->recv_mr, (size_t)slot * BYTES, BYTES);
	struct ibv_recv_wr wr = {.wr_id = FIRST_ID + slot, .sg_list = &sge, .num_sge = 1}, *bad;
	int error = round->srq ? ibv_post_srq_recv(round->srq, &wr, &bad)
			       : ibv_post_recv(round->qp, &wr, &bad);

	if (!error)
		round->is_posted[slot] = true;
}

static void receive_take(struct round *round, const struct ibv_wc *wc)
{
	uint64_t slot = wc->wr_id - FIRST_ID;

	CHECK(slot < DEPTH && round->is_posted[slot], "a completion has the wr_id %llx",
		(unsigned long long)wc->wr_id);
	CHECK(wc->status != IBV_WC_SUCCESS || wc->byte_len <= BYTES ||
			!(wc->opcode & IBV_WC_RECV) || wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM,
		"%u bytes in a buffer of %u", wc->byte_len, BYTES);
	round->is_posted[slot] = false;
	if (wc->status == IBV_WC_SUCCESS) {
		received++;
		receive_post(round, (uint32_t)slot);
	} else {
		failed++;
		round->is_dead = true;
	}
}

static void send_post(struct round *round, uint32_t number)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE,
		IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_SEND, IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND};
	enum ibv_wr_opcode opcode = round->ah ? IBV_WR_SEND : opcodes[number % 8];
	bool is_atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ibv_sge sge = peer_sge(round->send_mr, 0,
		is_atomic           ? 8
			: round->ah ? UD_BYTES
				    : 1 + number * 97 % BYTES);
	struct ibv_send_wr wr = {.wr_id = number,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	if (round->ah) {
		wr.wr.ud.ah = round->ah;
		wr.wr.ud.remote_qpn = round->remote_qpn;
		wr.wr.ud.remote_qkey = QKEY;
	} else if (is_atomic) {
		wr.wr.atomic.remote_addr = round->remote.address;
		wr.wr.atomic.rkey = round->remote.rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = round->remote.address;
		wr.wr.rdma.rkey = round->remote.rkey;
	}
	if (!ibv_post_send(round->qp, &wr, &bad))
		round->sent++;
}

static void poll_both(struct round *round)
{
	struct ibv_wc wc[8];
	int count = ibv_poll_cq(round->send_cq, 8, wc);

	CHECK(count >= 0, "ibv_poll_cq");
	for (int i = 0; i < count; i++) {
		round->sent--;
		if (wc[i].status != IBV_WC_SUCCESS) {
			failed++;
			round->is_dead = true;
		}
	}
	count = ibv_poll_cq(round->recv_cq, 8, wc);
	CHECK(count >= 0, "ibv_poll_cq");
	for (int i = 0; i < count; i++)
		receive_take(round, &wc[i]);
}

static void round_begin(struct round *round, struct peer *peer, const char *what)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
	struct peer_buffer ours;

	*round = (struct round){.peer = peer};
	round->send_cq = peer_cq_create(peer, 2 * DEPTH, NULL);
	round->recv_cq = peer_cq_create(peer, 2 * DEPTH, NULL);
	round->send_mr = peer_memory(peer, BYTES);
	round->recv_mr = peer_memory(peer, (size_t)DEPTH * BYTES);
	round->open_mr = peer_memory(peer, 2 * BYTES);
	if (!strcmp(what, "srq")) {
		round->srq = ibv_create_srq(peer->pd, &srq);
		CHECK(round->srq, "ibv_create_srq");
	}
	round->qp = qp_create(round, !strcmp(what, "ud"));
	ours = peer_buffer_of(round->open_mr);
	peer_exchange(peer, &ours, &round->remote, sizeof(ours));
	if (!strcmp(what, "ud"))
		datagram_connect(round);
	else
		peer_qp_connect(peer, round->qp, &peer_link_full);
	for (uint32_t slot = 0; slot < DEPTH; slot++)
		receive_post(round, slot);
}

static void round_end(struct round *round)
{
	if (round->ah)
		CHECK(!ibv_destroy_ah(round->ah), "ibv_destroy_ah");
	CHECK(!ibv_destroy_qp(round->qp), "ibv_destroy_qp");
	if (round->srq)
		CHECK(!ibv_destroy_srq(round->srq), "ibv_destroy_srq");
	CHECK(!ibv_destroy_cq(round->send_cq) && !ibv_destroy_cq(round->recv_cq), "ibv_destroy_cq");
	peer_memory_free(round->send_mr);
	peer_memory_free(round->recv_mr);
	peer_memory_free(round->open_mr);
}

int main(int argc, char **argv)
{
	struct peer_options options;
	struct round round;
	struct peer peer;
	uint32_t dead = 0;

	peer_parse(&options, argc, argv);
	CHECK(options.what, "-w says what");
	peer_open(&peer, &options);
	peer_meet(&peer);
	uint32_t rounds = options.count ? options.count : ROUNDS;
	for (uint32_t i = 0; i < rounds; i++) {
		uint64_t until_ms;

		alarm(HANG_S);
		round_begin(&round, &peer, options.what);
		peer_barrier(&peer);
		until_ms = peer_now_ms() + ROUND_MS;
		for (uint32_t number = 0; peer_now_ms() < until_ms; number++) {
			if (!round.is_dead && round.sent < DEPTH / 2)
				send_post(&round, number);
			poll_both(&round);
		}
		peer_barrier(&peer);
		dead += round.is_dead;
		round_end(&round);
		peer_barrier(&peer);
	}
	printf("%s: %u rounds, %u of them ended with an error; %llu messages received\n",
		options.what, rounds, dead, (unsigned long long)received);
	return 0;
}
