/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that the peer has acknowledged before it disconnects are complete when the program gets
 * DISCONNECTED.
 *
 *   farewell server|client ADDRESS ROUNDS MESSAGES
 *
 * In each of ROUNDS connections the server sends a message. The client receives it. If MESSAGES is
 * 2, the client sends one and waits until that is complete. Then the client disconnects. The server
 * sleeps in rdma_get_cm_event(), and then polls each of its queues once. It fails unless it finds
 * the completions of all MESSAGES.
 */
#include <arpa/inet.h>
#include <rdma/rdma_verbs.h>
#include <string.h>

#include "peer_cm.h"

enum { PORT = 7472, BYTES = 64 };

static struct rdma_event_channel *channel;
static uint8_t bytes[2 * BYTES];
static unsigned rounds, messages; /* as the command line says */

/* A queue pair with queues of its own, and a receive request. Returns the memory's region. */
static struct ibv_mr *prepare(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_mr *mr;

	CHECK(!rdma_create_qp(id, NULL, &init), "no queue pair: %m");
	mr = rdma_reg_msgs(id, bytes, sizeof(bytes));
	CHECK(mr, "no region: %m");
	CHECK(!rdma_post_recv(id, NULL, bytes + BYTES, BYTES, mr), "no receive request: %m");
	return mr;
}

static void finish(struct rdma_cm_id *id, struct ibv_mr *mr)
{
	rdma_dereg_mr(mr);
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id), "the identifier stays: %m");
}

/* Returns whether a poll does not find the completion. */
static bool is_missing(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(cq, 1, &wc) != 1)
		return true;
	CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
	return false;
}

/* Returns how many completions were missing. */
static unsigned serve(void)
{
	struct rdma_cm_id *id = peer_cm_await(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_conn_param param = {.responder_resources = 1};
	struct ibv_mr *mr = prepare(id);
	unsigned missing = 0;

	CHECK(!rdma_accept(id, &param), "accept: %m");
	peer_cm_await(channel, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(!rdma_post_send(id, NULL, bytes, BYTES, mr, IBV_SEND_SIGNALED), "send: %m");
	peer_cm_await(channel, RDMA_CM_EVENT_DISCONNECTED);
	missing += is_missing(id->send_cq);
	if (messages > 1)
		missing += is_missing(id->recv_cq);
	rdma_disconnect(id);
	finish(id, mr);
	return missing;
}

static void ask(struct sockaddr *address)
{
	struct rdma_conn_param param = {.responder_resources = 1, .retry_count = 7};
	struct rdma_cm_id *id = peer_cm_resolve(channel, address);
	struct ibv_mr *mr = prepare(id);

	CHECK(!rdma_connect(id, &param), "connect: %m");
	peer_cm_await(channel, RDMA_CM_EVENT_ESTABLISHED);
	peer_success(id->recv_cq);
	if (messages > 1) {
		CHECK(!rdma_post_send(id, NULL, bytes, BYTES, mr, IBV_SEND_SIGNALED), "send: %m");
		peer_success(id->send_cq);
	}
	CHECK(!rdma_disconnect(id), "disconnect: %m");
	peer_cm_await(channel, RDMA_CM_EVENT_DISCONNECTED);
	finish(id, mr);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	unsigned missing = 0;

	CHECK(argc == 5 && inet_pton(AF_INET, argv[2], &address.sin_addr) == 1,
		"usage: farewell server|client ADDRESS ROUNDS MESSAGES");
	rounds = (unsigned)atoi(argv[3]);
	messages = (unsigned)atoi(argv[4]);
	channel = rdma_create_event_channel();
	CHECK(channel, "no event channel: %m");
	if (strcmp(argv[1], "client") == 0) {
		for (unsigned i = 0; i < rounds; i++)
			ask((struct sockaddr *)&address);
		return 0;
	}
	peer_cm_listen(channel, (struct sockaddr *)&address);
	for (unsigned i = 0; i < rounds; i++)
		missing += serve();
	printf("%u of %u completions were missing when DISCONNECTED was heard\n", missing,
		messages * rounds);
	return missing > 0;
}
