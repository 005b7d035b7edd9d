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
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "peer.h"

enum { PORT = 7473, TIMEOUT_MS = 60000, BYTES = 1 << 20, BACK_BYTES = 100, BACK_COUNT = 8 };

static struct rdma_event_channel *channel;
static uint8_t bytes[BYTES];

/* Take the next event, which is to be `wanted`. Returns its identifier. */
static struct rdma_cm_id *await(enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(!rdma_get_cm_event(channel, &event), "no event: %m");
	CHECK(event->event == wanted, "%s (%d) where %s was to come", rdma_event_str(event->event),
		event->status, rdma_event_str(wanted));
	id = event->id;
	rdma_ack_cm_event(event);
	return id;
}

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
	struct rdma_cm_id *id = await(RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_conn_param param = {.responder_resources = 1};
	struct ibv_mr *mr = prepare(id);

	CHECK(!rdma_post_recv(id, NULL, bytes, BYTES, mr), "no receive request: %m");
	CHECK(!rdma_accept(id, &param), "accept: %m");
	await(RDMA_CM_EVENT_ESTABLISHED);
	raise(SIGSTOP);
	for (unsigned i = 0; i < BACK_COUNT; i++)
		CHECK(!rdma_post_send(id, NULL, bytes, BACK_BYTES, mr, 0), "send: %m");
	peer_success(id->recv_cq);
	for (unsigned i = 0; i < BYTES; i++)
		CHECK(bytes[i] == (uint8_t)(i / 251), "byte %u", i);
	await(RDMA_CM_EVENT_DISCONNECTED);
}

/* Ends the process, after the queue pair or by exit(). */
static void leave(struct rdma_cm_id *id, struct ibv_mr *mr, const char *how)
{
	struct timespec start, end;

	if (strcmp(how, "exit") == 0)
		exit(0);
	clock_gettime(CLOCK_MONOTONIC, &start);
	if (strcmp(how, "disconnect") == 0)
		CHECK(!rdma_disconnect(id), "disconnect: %m");
	rdma_destroy_qp(id);
	rdma_dereg_mr(mr);
	clock_gettime(CLOCK_MONOTONIC, &end);
	CHECK((end.tv_sec - start.tv_sec) * 1000000000ll + end.tv_nsec - start.tv_nsec < 1000000000,
		"the end takes more than a second");
	_exit(0); /* no exit handler is to help */
}

static void send_and_leave(struct sockaddr *address, const char *how)
{
	struct rdma_conn_param param = {.responder_resources = 1, .retry_count = 7};
	struct rdma_cm_id *id;
	struct ibv_mr *mr;

	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "no identifier: %m");
	CHECK(!rdma_resolve_addr(id, NULL, address, TIMEOUT_MS), "resolve_addr: %m");
	await(RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(id, TIMEOUT_MS), "resolve_route: %m");
	await(RDMA_CM_EVENT_ROUTE_RESOLVED);
	mr = prepare(id);
	for (unsigned i = 0; i < BYTES; i++)
		bytes[i] = (uint8_t)(i / 251);
	CHECK(!rdma_connect(id, &param), "connect: %m");
	await(RDMA_CM_EVENT_ESTABLISHED);
	raise(SIGSTOP);
	CHECK(!rdma_post_send(id, NULL, bytes, BYTES, mr, IBV_SEND_SIGNALED), "send: %m");
	peer_success(id->send_cq);
	leave(id, mr, how);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	struct rdma_cm_id *listener;

	CHECK(argc >= 3 && inet_pton(AF_INET, argv[2], &address.sin_addr) == 1,
		"usage: parting receiver|sender ADDRESS");
	channel = rdma_create_event_channel();
	CHECK(channel, "no event channel: %m");
	if (argc == 4)
		send_and_leave((struct sockaddr *)&address, argv[3]);
	CHECK(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "no identifier: %m");
	CHECK(!rdma_bind_addr(listener, (struct sockaddr *)&address), "bind: %m");
	CHECK(!rdma_listen(listener, 4), "listen: %m");
	receive();
	return 0;
}
