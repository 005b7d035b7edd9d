/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server that accepts every request for a connection.
 *
 *   acceptor ADDRESS PORT FILE
 *
 * It runs until FILE exists. Then it prints how many connections were accepted and not established:
 * the maximum over the run, and the number at the end.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include "e2e/peer.h"

enum { LOOK_MS = 100 };

static struct rdma_event_channel *channel;
static unsigned held, held_most;

static void take(void)
{
	struct rdma_conn_param param = {.qp_num = 2};
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;

	CHECK(!rdma_get_cm_event(channel, &event), "no event: %m");
	type = event->event;
	id = event->id;
	rdma_ack_cm_event(event);
	switch ((int)type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		CHECK(!rdma_accept(id, &param), "accept: %m");
		held++;
		held_most = held > held_most ? held : held_most;
		return;
	case RDMA_CM_EVENT_ESTABLISHED:
		held--;
		return;
	case RDMA_CM_EVENT_DISCONNECTED:
		rdma_disconnect(id);
		return;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default: /* it was not to be */
		held--;
	}
	rdma_destroy_id(id);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	struct rdma_cm_id *listener;
	struct pollfd fd;

	CHECK(argc == 4 && inet_pton(AF_INET, argv[1], &address.sin_addr) == 1,
		"usage: acceptor ADDRESS PORT FILE");
	address.sin_port = htons((uint16_t)atoi(argv[2]));
	channel = rdma_create_event_channel();
	CHECK(channel, "no event channel: %m");
	CHECK(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "no identifier: %m");
	CHECK(!rdma_bind_addr(listener, (struct sockaddr *)&address), "bind: %m");
	CHECK(!rdma_listen(listener, 0), "listen: %m");
	fd = (struct pollfd){.fd = channel->fd, .events = POLLIN};
	while (access(argv[3], F_OK))
		if (poll(&fd, 1, LOOK_MS) == 1)
			take();
	printf("at most %u held, %u now\n", held_most, held);
	return 0;
}
