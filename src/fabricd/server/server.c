/* SPDX-License-Identifier: BSD-2-Clause */
/* The fabric's process: its loop, its clock, and what it waits for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/arith.h"
#include "fabricd/fabric_name.h"
#include "fabricd/server/server_internal.h"
#include "os/clock.h"
#include "subnet/manager/manager.h"

enum {
	ARRIVALS_MAX = 1 << 16,
	PARKED_RETRY_NS = 1000000, /* how often to look whether a receiver has room again */
};

int server_watch(struct fabric_server *server, struct watch *watch, uint32_t events)
{
	int rc = fabric_loop_watch(server->loop.epoll,
		watch->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, watch->fd, events, watch);

	if (rc == 0)
		watch->events = events;
	return rc;
}

void server_unwatch(struct fabric_server *server, struct watch *watch)
{
	epoll_ctl(server->loop.epoll, EPOLL_CTL_DEL, watch->fd, NULL);
	watch->events = 0;
}

/* --- the subnet and the MAD layer --- */

void server_arrivals_run(struct fabric_server *server)
{
	/* Close the flows of changed routes before a MAD tells a client of the change. */
	flows_refresh(server);
	while (!list_is_empty(&server->arrivals)) {
		struct arrival *arrival = list_first(&server->arrivals, struct arrival, link);
		struct server_port *port = server_port_find(server, arrival->node, arrival->port);

		list_remove(&arrival->link);
		server->arrival_count--;
		if (port && !server_answer_cm(port, arrival) && server_port_mads(port) == 0)
			mad_port_receive(port->mads, arrival->own_qpn, &arrival->from, arrival->mad,
				server->now_ns);
		free(arrival);
	}
}

bool server_arrival_add(struct fabric_server *server, const struct arrival *arrival)
{
	struct arrival *added =
		server->arrival_count < ARRIVALS_MAX ? malloc(sizeof(*added)) : NULL;

	if (!added)
		return false;
	*added = *arrival;
	list_append(&server->arrivals, &added->link);
	server->arrival_count++;
	return true;
}

static void timers_run(struct fabric_server *server)
{
	subnet_advance(server->subnet, server->now_ns);
	server_arrivals_run(server);
	mad_layer_advance(server->mads, server->now_ns);
	server_arrivals_run(server);
	if (server->flows_at_ns <= server->now_ns)
		flows_advance(server);
}

static uint64_t next_deadline_ns(const struct fabric_server *server)
{
	uint64_t deadline_ns =
		min_u64(subnet_deadline_ns(server->subnet), mad_layer_deadline_ns(server->mads));

	deadline_ns = min_u64(deadline_ns, server->flows_at_ns);
	if (server->has_reregistered || service_levels_are_due(server))
		deadline_ns = server->now_ns;
	if (server->parked_count)
		deadline_ns = min_u64(deadline_ns, server->now_ns + PARKED_RETRY_NS);

	return server->listener.rests_until_ns
		? min_u64(deadline_ns, server->listener.rests_until_ns)
		: deadline_ns;
}

/* --- the loop --- */

static void watch_event(struct fabric_server *server, struct watch *watch, uint32_t events)
{
	switch (watch->kind) {
	case WATCH_ISSM:
		issm_event(server);
		break;
	case WATCH_CLIENT:
		client_event(container_of(watch, struct client, watch));
		break;
	case WATCH_OPENING:
		opening_event(container_of(watch, struct opening, watch), events);
		break;
	case WATCH_CHANNEL:
		break; /* the loop looks at all channels */
	case WATCH_UPLINK:
		break; /* each turn runs it */
	}
}

static void watch_ready(void *context, void *tag, uint32_t events)
{
	struct fabric_server *server = context;

	if (tag == &server->listener)
		client_accept(server);
	else
		watch_event(server, tag, events);
}

static void ended_free(struct fabric_server *server)
{
	list_for_each_safe(opening, &server->ended_openings, struct opening, link)
		opening_free(opening);
	list_for_each_safe(channel, &server->ended_channels, struct channel, link)
		channel_free(channel);
	list_for_each_safe(client, &server->ended_clients, struct client, link)
		client_free(client);
}

static int server_polled(void *context)
{
	ended_free(context);
	return 0;
}

/* Sleep until a descriptor is ready, a timer is due or a frame comes. */
static int server_sleep(void *context)
{
	struct fabric_server *server = context;
	int rc = 0;

	if (channels_wait_begin(server))
		rc = fabric_loop_poll(&server->loop, clock_ms_until(next_deadline_ns(server)));
	channels_wait_end(server);
	return rc;
}

int fabric_server_turn(struct fabric_server *server)
{
	uint32_t frames;
	int rc = 0;

	server->now_ns = clock_now_ns();
	if (server->uplink)
		rc = server->uplink->run(server->uplink->context);
	if (rc < 0)
		return rc;
	frames = channels_run(server) + (uint32_t)rc;
	server_arrivals_run(server);
	memberships_renew(server);
	service_levels_advance(server);
	if (next_deadline_ns(server) <= server->now_ns)
		timers_run(server);
	fabric_listener_go_on(&server->loop, &server->listener);
	channels_wake(server);
	rc = fabric_loop_poll_rarely(&server->loop);
	return rc < 0 ? rc : frames > 0;
}

static int server_turn(void *context)
{
	return fabric_server_turn(context);
}

int fabric_server_run(struct fabric_server *server)
{
	return fabric_loop_run(&server->loop);
}

/* --- its life --- */

static int server_listen(struct fabric_server *server)
{
	int rc = place_listen_as(
		PLACE_FABRIC, fabric_name_number(server->name), false, &server->place);

	if (rc)
		return rc;
	server->listener.fd = server->place.socket;
	return fabric_listener_watch(&server->loop, &server->listener);
}

static int uplink_watch(struct fabric_server *server)
{
	if (!server->uplink)
		return 0;
	server->uplink_watch =
		(struct watch){.kind = WATCH_UPLINK, .fd = server->uplink->descriptor};
	return server_watch(server, &server->uplink_watch, EPOLLIN);
}

static void server_trace(
	void *context, uint32_t node, uint32_t port, const uint8_t *frame, uint32_t frame_bytes)
{
	const struct fabric_server *server = context;

	server->trace(server->trace_context, node, port, frame, frame_bytes);
}

static int server_init(struct fabric_server *server, const struct subnet_topology *topology)
{
	static const struct mad_calls calls = {.transmit = server_transmit, .deliver = server_take};
	const struct subnet_user user = {.deliver = server_deliver,
		.event = server_event,
		.trace = server->trace ? server_trace : NULL,
		.count = flows_count,
		.context = server};
	int rc;

	server->loop_user = (struct fabric_loop_user){.turn = server_turn,
		.sleep = server_sleep,
		.ready = watch_ready,
		.polled = server_polled,
		.context = server,
		.now_ns = &server->now_ns};
	rc = fabric_loop_init(&server->loop, &server->loop_user);
	if (rc == 0)
		rc = subnet_create(topology, &user, &subnet_embedded_manager, &server->subnet);
	if (rc == 0)
		rc = mad_layer_create(&calls, &server->mads);
	if (rc == 0)
		rc = server_nodes_create(server);
	if (rc == 0)
		rc = issm_create(server);
	if (rc == 0)
		rc = uplink_watch(server);
	if (rc == 0)
		rc = server_listen(server);
	return rc;
}

int fabric_server_create(const struct fabric_server_settings *settings,
	const struct subnet_topology *topology, struct fabric_server **ret_server,
	char why[ATTACH_TEXT_BYTES])
{
	struct fabric_server *server = calloc(1, sizeof(*server));
	int rc;

	if (!server) {
		snprintf(why, ATTACH_TEXT_BYTES, "no memory");
		return -ENOMEM;
	}
	server->place = (struct place_listener){.socket = -1, .lock = -1, .directory = -1};
	server->issm_watch.fd = -1;
	server->now_ns = clock_now_ns();
	snprintf(server->name, sizeof(server->name), "%s", settings->name);
	server->console = settings->console;
	server->uplink = settings->uplink;
	server->trace = settings->trace;
	server->trace_context = settings->trace_context;
	list_init(&server->arrivals);
	list_init(&server->clients);
	list_init(&server->channels);
	list_init(&server->flows);
	server->flows_at_ns = UINT64_MAX;
	list_init(&server->ended_clients);
	list_init(&server->ended_openings);
	list_init(&server->ended_channels);
	rc = server_init(server, topology);
	if (rc) {
		snprintf(why, ATTACH_TEXT_BYTES,
			rc == -EADDRINUSE ? "a fabric named \"%s\" runs already"
					  : "fabric \"%s\" cannot begin: %s",
			settings->name, strerror(-rc));
		fabric_server_destroy(server);
		return rc;
	}
	subnet_manager_enable(server->subnet, !settings->is_unmanaged);
	timers_run(server);
	*ret_server = server;
	return 0;
}

void fabric_server_destroy(struct fabric_server *server)
{
	if (!server)
		return;
	list_for_each_safe(client, &server->clients, struct client, link)
		client_end(client);
	ended_free(server);
	list_for_each_safe(arrival, &server->arrivals, struct arrival, link) {
		list_remove(&arrival->link);
		free(arrival);
	}
	issm_destroy(server);
	place_leave(&server->place);
	server_nodes_destroy(server);
	mad_layer_destroy(server->mads);
	subnet_destroy(server->subnet);
	fabric_loop_done(&server->loop);
	free(server->message);
	free(server);
}
