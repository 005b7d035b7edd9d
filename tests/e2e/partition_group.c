/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A multicast group in the partition of an identifier, on InfiniBand.
 *
 *   partition_group receiver|sender PEER GROUP
 *
 * The path to PEER has a P_Key, which the identifier takes over. Then it joins the group and prints
 * its GID. The receiver ends with the first datagram, and the sender sends some, with pauses.
 */
#include <arpa/inet.h>
#include <string.h>
#include <time.h>

#include "peer_cm.h"

enum { BYTES = 64, HEADER_BYTES = 40, DATAGRAMS = 50, PAUSE_MS = 100 };

static struct rdma_event_channel *channel;
static uint8_t bytes[HEADER_BYTES + BYTES];

static struct sockaddr_in address_of(const char *text)
{
	struct sockaddr_in address = {.sin_family = AF_INET};

	CHECK(inet_pton(AF_INET, text, &address.sin_addr) == 1, "%s", text);
	return address;
}

static struct rdma_cm_id *identifier_make(const char *peer)
{
	struct ibv_qp_init_attr init = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_UD};
	struct sockaddr_in to = address_of(peer);
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), "no identifier: %m");
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, PEER_CM_TIMEOUT_MS),
		"resolve_addr: %m");
	peer_cm_await(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_create_qp(id, NULL, &init), "no queue pair: %m");
	return id;
}

/* Join, and print the group's GID. Returns what a datagram to the group needs. */
static struct rdma_ud_param group_join(struct rdma_cm_id *id, const char *text)
{
	struct sockaddr_in group = address_of(text);
	char gid[INET6_ADDRSTRLEN];
	struct rdma_cm_event *event;
	struct rdma_ud_param param;

	CHECK(!rdma_join_multicast(id, (struct sockaddr *)&group, NULL), "join: %m");
	CHECK(!rdma_get_cm_event(channel, &event), "no event: %m");
	CHECK(event->event == RDMA_CM_EVENT_MULTICAST_JOIN, "%s (%d)", rdma_event_str(event->event),
		event->status);
	param = event->param.ud;
	rdma_ack_cm_event(event);
	CHECK(inet_ntop(AF_INET6, param.ah_attr.grh.dgid.raw, gid, sizeof(gid)), "no text");
	printf("joined %s\n", gid);
	fflush(stdout);
	return param;
}

static void completion_await(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int count;

	while ((count = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	CHECK(count == 1 && wc.status == IBV_WC_SUCCESS, "status %d", wc.status);
}

static void datagram_receive(struct rdma_cm_id *id, const struct ibv_mr *mr, const char *group)
{
	struct ibv_sge entry = {(uintptr_t)bytes, sizeof(bytes), mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &entry, .num_sge = 1}, *bad;

	CHECK(!ibv_post_recv(id->qp, &wr, &bad), "no receive request: %m");
	group_join(id, group);
	completion_await(id->recv_cq);
}

static void datagrams_send(struct rdma_cm_id *id, const struct ibv_mr *mr, const char *group)
{
	const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000};
	struct rdma_ud_param param = group_join(id, group);
	struct ibv_sge entry = {(uintptr_t)bytes, BYTES, mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED,
				   .sg_list = &entry,
				   .num_sge = 1},
			   *bad;

	wr.wr.ud.ah = ibv_create_ah(id->pd, &param.ah_attr);
	CHECK(wr.wr.ud.ah, "no address handle: %m");
	wr.wr.ud.remote_qpn = param.qp_num;
	wr.wr.ud.remote_qkey = param.qkey;
	for (int i = 0; i < DATAGRAMS; i++) {
		CHECK(!ibv_post_send(id->qp, &wr, &bad), "send: %m");
		completion_await(id->send_cq);
		nanosleep(&pause, NULL);
	}
}

int main(int argc, char **argv)
{
	struct rdma_cm_id *id;
	struct ibv_mr *mr;

	CHECK(argc == 4, "usage: partition_group receiver|sender PEER GROUP");
	channel = rdma_create_event_channel();
	CHECK(channel, "no channel: %m");
	id = identifier_make(argv[2]);
	mr = ibv_reg_mr(id->pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr, "no region: %m");
	if (strcmp(argv[1], "receiver") == 0)
		datagram_receive(id, mr, argv[3]);
	else
		datagrams_send(id, mr, argv[3]);
	return EXIT_SUCCESS;
}
