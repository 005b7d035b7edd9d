/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One side of a connection by rdma_cm, which proceeds to a given state and stays there.
 *
 *   connect_states server|client ADDRESS STATE FILE
 *
 * It stays in STATE until FILE exists, then goes on to the end: the client disconnects. Prints the
 * state, and each event with its status. Exits with 0 when the connection has ended for any reason.
 *
 *     state        client                        server
 *     route        route resolved                listening
 *     req          request sent                  request received
 *     rep          accepted, no event yet        accepted
 *     established  connected                     connected
 *     dreq         disconnect requested          disconnect received
 *     none         does not stop in any state
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "peer.h"

enum { PORT = 7471, TIMEOUT_MS = 60000, LOOK_MS = 20 };

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id; /* of the connection */
static const char *stay_in;
static const char *go_file;
static bool is_seen[RDMA_CM_EVENT_TIMEWAIT_EXIT + 1]; /* each comes once */

static bool has_event(int timeout_ms)
{
	struct pollfd fd = {.fd = channel->fd, .events = POLLIN};

	return poll(&fd, 1, timeout_ms) == 1;
}

/* Print the next event and say which it is. One that ends everything ends the program. */
static enum rdma_cm_event_type take(void)
{
	enum rdma_cm_event_type type;
	struct rdma_cm_event *event;

	CHECK(rdma_get_cm_event(channel, &event) == 0, "no event: %m");
	type = event->event;
	printf("%s %d\n", rdma_event_str(type) + strlen("RDMA_CM_EVENT_"), event->status);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		id = event->id;
	rdma_ack_cm_event(event);
	is_seen[type] = true;
	if (type == RDMA_CM_EVENT_REJECTED || type == RDMA_CM_EVENT_UNREACHABLE ||
		type == RDMA_CM_EVENT_CONNECT_ERROR || type == RDMA_CM_EVENT_ADDR_ERROR)
		exit(0);
	return type;
}

static void await(enum rdma_cm_event_type wanted)
{
	while (!is_seen[wanted])
		if (take() == RDMA_CM_EVENT_DISCONNECTED && wanted != RDMA_CM_EVENT_DISCONNECTED)
			exit(0);
}

static void stay(const char *state)
{
	if (strcmp(state, stay_in) != 0)
		return;
	printf("stays in %s\n", state);
	while (access(go_file, F_OK) != 0)
		if (has_event(LOOK_MS) && take() == RDMA_CM_EVENT_DISCONNECTED)
			exit(0);
}

static void run_client(struct sockaddr *address)
{
	struct rdma_conn_param param = {.qp_num = 1, .retry_count = 7};

	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0, "no identifier: %m");
	CHECK(rdma_resolve_addr(id, NULL, address, TIMEOUT_MS) == 0, "resolve_addr: %m");
	await(RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(rdma_resolve_route(id, TIMEOUT_MS) == 0, "resolve_route: %m");
	await(RDMA_CM_EVENT_ROUTE_RESOLVED);
	stay("route");
	CHECK(rdma_connect(id, &param) == 0, "connect: %m");
	stay("req");
	await(RDMA_CM_EVENT_CONNECT_RESPONSE);
	stay("rep");
	CHECK(rdma_establish(id) == 0, "establish: %m");
	stay("established");
	CHECK(rdma_disconnect(id) == 0, "disconnect: %m");
	stay("dreq");
	await(RDMA_CM_EVENT_DISCONNECTED);
}

static void run_server(struct sockaddr *address)
{
	struct rdma_conn_param param = {.qp_num = 2};
	struct rdma_cm_id *listener;

	CHECK(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0, "no identifier: %m");
	CHECK(rdma_bind_addr(listener, address) == 0, "bind: %m");
	CHECK(rdma_listen(listener, 1) == 0, "listen: %m");
	printf("listens\n");
	stay("route");
	await(RDMA_CM_EVENT_CONNECT_REQUEST);
	stay("req");
	/* Of a request whose client is gone there is no event. */
	if (rdma_accept(id, &param)) {
		printf("ACCEPT %d\n", -errno);
		exit(0);
	}
	stay("rep");
	await(RDMA_CM_EVENT_ESTABLISHED);
	stay("established");
	await(RDMA_CM_EVENT_DISCONNECTED);
	stay("dreq");
	rdma_disconnect(id);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(argc == 5 && inet_pton(AF_INET, argv[2], &address.sin_addr) == 1,
		"usage: connect_states server|client ADDRESS STATE FILE");
	stay_in = argv[3];
	go_file = argv[4];
	channel = rdma_create_event_channel();
	CHECK(channel, "no event channel: %m");
	if (strcmp(argv[1], "server") == 0)
		run_server((struct sockaddr *)&address);
	else
		run_client((struct sockaddr *)&address);
	return 0;
}
