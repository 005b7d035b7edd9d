/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a connection has completed reaches the peer, however the connection ends.
 *
 *   parting receiver ADDRESS
 *   parting sender ADDRESS disconnect|destroy|exit
 *
 * Both stop themselves (SIGSTOP) when they are connected. The script lets the sender continue
 * first. Its socket takes a long message, which completes, and the sender ends: it disconnects and
 * destroys, or destroys, or exits without doing so. Then the script lets the receiver continue,
 * which sends messages itself while it receives.
 */
#include <arpa/inet.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "peer_cm.h"

enum { PORT = 7473, BYTES = 1 << 20, BACK_BYTES = 100, BACK_COUNT = 8, SEED = 1 };

static struct rdma_event_channel *channel;
static uint8_t bytes[BYTES];

static struct ibv_mr *prepare(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {.cap = {BACK_COUNT, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_mr *mr;

	CHECK(!rdma_create_qp(id, NULL, &init), "no queue pair: %m");
	mr = rdma_reg_msgs(id, bytes, sizeof(bytes));
	CHECK(mr, "no region: %m");
	return mr;
}

static void receive(void)
{
	struct rdma_cm_id *id = peer_cm_await(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_conn_param param = {.responder_resources = 1};
	struct ibv_mr *mr = prepare(id);

	CHECK(!rdma_post_recv(id, NULL, bytes, BYTES, mr), "no receive request: %m");
	CHECK(!rdma_accept(id, &param), "accept: %m");
	peer_cm_await(channel, RDMA_CM_EVENT_ESTABLISHED);
	raise(SIGSTOP);
	for (unsigned i = 0; i < BACK_COUNT; i++)
		CHECK(!rdma_post_send(id, NULL, bytes, BACK_BYTES, mr, 0), "send: %m");
	peer_success(id->recv_cq);
	peer_pattern_check(bytes, BYTES, SEED, "the message");
	peer_cm_await(channel, RDMA_CM_EVENT_DISCONNECTED);
}

/* Ends the process, after the queue pair or by exit(). */
static void leave(struct rdma_cm_id *id, struct ibv_mr *mr, const char *how)
{
	uint64_t start_ms;

	if (strcmp(how, "exit") == 0)
		exit(0);
	start_ms = peer_now_ms();
	if (strcmp(how, "disconnect") == 0)
		CHECK(!rdma_disconnect(id), "disconnect: %m");
	rdma_destroy_qp(id);
	rdma_dereg_mr(mr);
	CHECK(peer_now_ms() - start_ms < 1000, "the end takes more than a second");
	_exit(0); /* no exit handler is to help */
}

static void send_and_leave(struct sockaddr *address, const char *how)
{
	struct rdma_conn_param param = {.responder_resources = 1, .retry_count = 7};
	struct rdma_cm_id *id = peer_cm_resolve(channel, address);
	struct ibv_mr *mr = prepare(id);

	peer_pattern_fill(bytes, BYTES, SEED);
	CHECK(!rdma_connect(id, &param), "connect: %m");
	peer_cm_await(channel, RDMA_CM_EVENT_ESTABLISHED);
	raise(SIGSTOP);
	CHECK(!rdma_post_send(id, NULL, bytes, BYTES, mr, IBV_SEND_SIGNALED), "send: %m");
	peer_success(id->send_cq);
	leave(id, mr, how);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	CHECK(argc >= 3 && inet_pton(AF_INET, argv[2], &address.sin_addr) == 1,
		"usage: parting receiver|sender ADDRESS");
	channel = rdma_create_event_channel();
	CHECK(channel, "no event channel: %m");
	if (argc == 4)
		send_and_leave((struct sockaddr *)&address, argv[3]);
	peer_cm_listen(channel, (struct sockaddr *)&address);
	receive();
	return 0;
}
