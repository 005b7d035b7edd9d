/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnicd is stopped while a program needs it, and another flow of the program goes on.
 *
 *   urnicd_stopped [OPTIONS] -w GO-FILE [SERVER]
 *
 * The client READs memory of the server's, whose program sleeps: its NIC threads serve. When
 * GO-FILE is there, urnicd is stopped, and the server sends datagrams to unused queue pair numbers
 * on its own host, so that its NIC looks them up at urnicd. The client prints the longest gap
 * between two of its READs, and fails when one fails, or when the gap is longer than GAP_MS_MAX.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "e2e/peer.h"

enum { MEASURE_MS = 4000, GAP_MS_MAX = 400, DATAGRAMS = 8, QKEY = 0x1234, LATE = 75 };

static struct ibv_qp *datagram_qp(struct peer *peer, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	struct ibv_qp *qp = ibv_create_qp(peer->pd, &init);

	CHECK(qp, "a queue pair");
	CHECK(!ibv_modify_qp(
		      qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		"INIT");
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "RTR");
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
	return qp;
}

static struct ibv_ah *own_address(struct peer *peer)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = {.dgid = peer->gid, .sgid_index = peer->options.gid_index, .hop_limit = 64},
	};
	struct ibv_ah *ah = ibv_create_ah(peer->pd, &attr);

	CHECK(ah, "an address handle: %s", strerror(errno));
	return ah;
}

static void serve(struct peer *peer, struct ibv_mr *mr)
{
	struct ibv_cq *cq = peer_cq_create(peer, 64, NULL);
	struct ibv_qp *qp = datagram_qp(peer, cq);
	struct ibv_ah *ah = own_address(peer);
	struct ibv_sge sge = peer_sge(mr, 0, 8);
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = {.ah = ah, .remote_qkey = QKEY},
	};

	for (int i = 0; access(peer->options.what, F_OK) && i < 10000; i++)
		peer_sleep_ms(1);
	for (uint32_t i = 0; i < DATAGRAMS; i++) {
		wr.wr.ud.remote_qpn = 0xe00001 + (i << 8);
		peer_post_send(qp, &wr);
		peer_sleep_ms(10);
	}
}

static uint64_t longest_gap_ms(
	struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *mr, const struct peer_buffer *remote)
{
	struct ibv_sge sge = peer_sge(mr, 0, 8);
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {remote->address, remote->rkey},
	};
	uint64_t begin_ms = peer_now_ms(), last_ms = begin_ms, gap_ms = 0;

	while (last_ms - begin_ms < MEASURE_MS) {
		peer_post_send(qp, &wr);
		peer_success(cq);
		uint64_t now_ms = peer_now_ms();
		gap_ms = now_ms - last_ms > gap_ms ? now_ms - last_ms : gap_ms;
		last_ms = now_ms;
	}
	return gap_ms;
}

int main(int argc, char **argv)
{
	struct peer_options options;
	struct peer_buffer ours, theirs;
	struct peer peer;
	uint64_t gap_ms = 0;

	peer_parse(&options, argc, argv);
	CHECK(options.what, "-w names a file");
	peer_open(&peer, &options);
	peer_meet(&peer);
	struct ibv_mr *mr = peer_memory(&peer, 4096);
	struct ibv_cq *cq = peer_cq_create(&peer, 16, NULL);
	struct ibv_qp *qp = peer_qp_create(&peer, cq, 8, 1, 0);

	peer_qp_connect(&peer, qp, &peer_link_full);
	ours = peer_buffer_of(mr);
	peer_exchange(&peer, &ours, &theirs, sizeof(ours));
	if (peer_is_server(&peer)) {
		serve(&peer, mr);
	} else {
		gap_ms = longest_gap_ms(qp, cq, mr, &theirs);
		printf("longest gap: %u ms\n", (unsigned)gap_ms);
	}
	fflush(stdout);
	peer_barrier(&peer);
	_exit(gap_ms > GAP_MS_MAX ? LATE : 0); /* urnicd is stopped: nothing is given back */
}
