/* SPDX-License-Identifier: BSD-2-Clause */
/* The fabric's process: its loop, its clock, and what it waits for. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/arith.h"
#include "fabricd/fabric_name.h"
#include "fabricd/server/server_internal.h"
#include "os/clock.h"
#include "subnet/manager/manager.h"

enum {
	EVENTS_PER_TURN = 64,
	/* How long after the last frame the loop polls the channels before it sleeps. */
	SPIN_NS = 50000,
	/* How many turns pass between two polls of the descriptors, while frames flow. */
	TURNS_PER_POLL = 32,
	ARRIVALS_MAX = 1 << 16,
	LISTENER_REST_NS = 100000000,
	PARKED_RETRY_NS = 1000000, /* between two looks whether a receiver has room */
};

int server_watch(struct fabric_server *server, struct watch *watch, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = watch};
	int operation = watch->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (epoll_ctl(server->epoll, operation, watch->fd, &event) < 0)
		return -errno;
	watch->events = events;
	return 0;
}

void server_unwatch(struct fabric_server *server, struct watch *watch)
{
	epoll_ctl(server->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
	watch->events = 0;
}

/* --- the subnet and the MAD layer --- */

void server_arrivals_run(struct fabric_server *server)
{
	/* Before anyone hears that the subnet has changed, no flow is left of before. */
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

	return server->listener_rests_until_ns
		? min_u64(deadline_ns, server->listener_rests_until_ns)
		: deadline_ns;
}

/* --- the listener --- */

void server_rest_listener(struct fabric_server *server)
{
	server_unwatch(server, &server->listener_watch);
	server->listener_rests_until_ns = server->now_ns + LISTENER_REST_NS;
}

static void listener_go_on(struct fabric_server *server)
{
	if (!server->listener_rests_until_ns || server->now_ns < server->listener_rests_until_ns)
		return;
	server->listener_rests_until_ns = 0;
	if (server_watch(server, &server->listener_watch, EPOLLIN))
		server_rest_listener(server);
}

/* --- the loop --- */

static void watch_event(
	struct fabric_server *server, const struct epoll_event *event, struct watch *watch)
{
	switch (watch->kind) {
	case WATCH_LISTENER:
		client_accept(server);
		break;
	case WATCH_SIGNAL:
		server->is_ended = true;
		break;
	case WATCH_ISSM:
		issm_event(server);
		break;
	case WATCH_CLIENT:
		client_event(container_of(watch, struct client, watch));
		break;
	case WATCH_OPENING:
		opening_event(container_of(watch, struct opening, watch), event->events);
		break;
	case WATCH_CHANNEL:
		break; /* the loop looks at all channels */
	case WATCH_UPLINK:
		break; /* each turn runs it */
	}
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

/* Returns the number of events, or -errno. */
static int descriptors_poll(struct fabric_server *server, uint64_t until_ns)
{
	struct epoll_event events[EVENTS_PER_TURN];
	int count = epoll_wait(
		server->epoll, events, EVENTS_PER_TURN, until_ns ? clock_ms_until(until_ns) : 0);

	server->now_ns = clock_now_ns();
	if (count < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < count; i++)
		watch_event(server, &events[i], events[i].data.ptr);
	ended_free(server);
	return count;
}

/* Sleep until a descriptor is ready, a timer is due or a frame comes. */
static int server_sleep(struct fabric_server *server)
{
	int rc = 0;

	if (channels_wait_begin(server))
		rc = descriptors_poll(server, next_deadline_ns(server));
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
	listener_go_on(server);
	channels_wake(server);
	rc = server->turn++ % TURNS_PER_POLL ? 0 : descriptors_poll(server, 0);
	return rc < 0 ? rc : frames > 0;
}

int fabric_server_run(struct fabric_server *server)
{
	uint64_t busy_until_ns = 0;
	int rc = 0;

	while (!server->is_ended && rc >= 0) {
		rc = fabric_server_turn(server);
		if (rc > 0)
			busy_until_ns = server->now_ns + SPIN_NS;
		else if (rc == 0 && server->now_ns >= busy_until_ns)
			rc = server_sleep(server);
	}
	return rc < 0 ? rc : 0;
}

/* --- its life --- */

static int signals_watch(struct fabric_server *server)
{
	sigset_t signals;
	int fd;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &signals, NULL) < 0)
		return -errno;
	fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	server->signal_watch = (struct watch){.kind = WATCH_SIGNAL, .fd = fd};
	return server_watch(server, &server->signal_watch, EPOLLIN);
}

static int server_listen(struct fabric_server *server)
{
	int rc = place_listen_as(
		PLACE_FABRIC, fabric_name_number(server->name), false, &server->listener);

	if (rc)
		return rc;
	server->listener_watch =
		(struct watch){.kind = WATCH_LISTENER, .fd = server->listener.socket};
	return server_watch(server, &server->listener_watch, EPOLLIN);
}

static int uplink_watch(struct fabric_server *server)
{
	if (!server->uplink)
		return 0;
	server->uplink_watch =
		(struct watch){.kind = WATCH_UPLINK, .fd = server->uplink->descriptor};
	return server_watch(server, &server->uplink_watch, EPOLLIN);
}

static int server_init(struct fabric_server *server, const struct subnet_topology *topology)
{
	static const struct mad_calls calls = {.transmit = server_transmit, .deliver = server_take};
	const struct subnet_user user = {.deliver = server_deliver,
		.event = server_event,
		.count = flows_count,
		.context = server};
	int rc;

	server->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (server->epoll < 0)
		return -errno;
	rc = subnet_create(topology, &user, &subnet_embedded_manager, &server->subnet);
	if (rc == 0)
		rc = mad_layer_create(&calls, &server->mads);
	if (rc == 0)
		rc = server_nodes_create(server);
	if (rc == 0)
		rc = signals_watch(server);
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
	server->listener = (struct place_listener){.socket = -1, .lock = -1, .directory = -1};
	server->signal_watch.fd = server->issm_watch.fd = -1;
	server->now_ns = clock_now_ns();
	snprintf(server->name, sizeof(server->name), "%s", settings->name);
	server->console = settings->console;
	server->uplink = settings->uplink;
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
	place_leave(&server->listener);
	server_nodes_destroy(server);
	mad_layer_destroy(server->mads);
	subnet_destroy(server->subnet);
	if (server->signal_watch.fd >= 0)
		close(server->signal_watch.fd);
	if (server->epoll >= 0)
		close(server->epoll);
	free(server->message);
	free(server);
}
