/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guessed PEER: a program with a UC queue pair whose peer is at the IPv4 address PEER, and many
 * memory regions that the peer may write to, all of the same memory. Prints the queue pair's
 * number, waits until standard input ends, and prints whether a peer has written to the memory; the
 * exit status is then 1.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../e2e/peer.h"

enum { REGIONS = 49000, BYTES = 4096 };

static char memory[BYTES] __attribute__((aligned(BYTES)));

/* The index of an IPv4 address of the device. */
static int gid_index_find(struct ibv_context *context)
{
	static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};
	union ibv_gid gid;

	for (int i = 0; i < 64; i++)
		if (!ibv_query_gid(context, 1, i, &gid) && !memcmp(gid.raw, ipv4, sizeof(ipv4)))
			return i;
	return 0;
}

static void connect_to(struct ibv_qp *qp, int gid_index, const char *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};

	CHECK(!ibv_modify_qp(qp, &attr,
		      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		"no INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = 0x123456,
		.ah_attr = {.is_global = 1,
			.port_num = 1,
			.grh = {.sgid_index = (uint8_t)gid_index, .hop_limit = 64}},
	};
	attr.ah_attr.grh.dgid.raw[10] = attr.ah_attr.grh.dgid.raw[11] = 0xff;
	CHECK(inet_pton(AF_INET, peer, attr.ah_attr.grh.dgid.raw + 12) == 1, "%s", peer);
	CHECK(!ibv_modify_qp(qp, &attr,
		      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN),
		"no RTR");
}

int main(int argc, char **argv)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_pd *pd;
	struct ibv_qp *qp;
	char byte;

	CHECK(argc == 2 && context, "no device");
	pd = ibv_alloc_pd(context);
	CHECK(pd, "no protection domain");
	init.send_cq = init.recv_cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	for (int i = 0; i < REGIONS; i++)
		CHECK(ibv_reg_mr_iova(pd, memory, BYTES, 0,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
			"region %d", i);
	qp = ibv_create_qp(pd, &init);
	CHECK(qp, "no queue pair");
	connect_to(qp, gid_index_find(context), argv[1]);
	printf("0x%06x\n", qp->qp_num);
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	for (int i = 0; i < BYTES; i++)
		CHECK(!memory[i], "somebody has written \"%.8s\" to the memory", memory);
	puts("nobody has written to the memory");
	return 0;
}
