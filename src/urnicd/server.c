/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/namespace_lookup.h"
#include "base/arith.h"
#include "os/clock.h"
#include "urnicd/fd_store_adopt.h"
#include "urnicd/lease/event_log.h"
#include "urnicd/lease/fd_store.h"
#include "urnicd/port_holder.h"
#include "urnicd/request_handlers.h"

enum { EVENTS_PER_TURN = 64 };

uint64_t server_now_ms(void)
{
	return clock_now_ns() / 1000000;
}

bool server_has_waited(const struct server *server)
{
	return server->has_adopted || server_now_ms() >= server->survivors_until_ms;
}

int server_epoll_watch(struct server *server, int operation, int fd, uint32_t events,
	enum watch what, uint64_t index)
{
	struct epoll_event event = {.events = events, .data.u64 = (uint64_t)what << 32 | index};

	return epoll_ctl(server->epoll, operation, fd, &event) ? -errno : 0;
}

void server_watch_group(struct server *server, struct group *group)
{
	uint32_t index = (uint32_t)(group - server->groups);
	int rc = gsi_port_open(&server->gsi_ports[index], server, group);

	if (rc)
		log_line("cannot listen to QP1 of an address: %s", strerror(-rc));
	server_epoll_watch(server, EPOLL_CTL_ADD, group->sockets[0], EPOLLIN, WATCH_GROUP, index);
}

static void client_event(struct server *server, struct client *client, uint32_t events)
{
	bool was_waiting = client->is_waiting;

	if (client->fd < 0)
		return;
	if (was_waiting ? (events & (EPOLLHUP | EPOLLERR)) != 0 : !request_receive(server, client))
		server_client_drop(server, client);
	else if (client->is_waiting != was_waiting)
		server_client_rearm(server, client);
}

static void process_event(struct server *server, struct client *client)
{
	struct pollfd fd = {.fd = client->pidfd, .events = POLLIN};

	/* A stale event may be about the former client of this entry. */
	if (client->fd >= 0 && client->pidfd >= 0 && poll(&fd, 1, 0) == 1)
		server_client_drop(server, client);
}

static void event_dispatch(struct server *server, const struct epoll_event *event)
{
	uint32_t index = (uint32_t)event->data.u64;

	switch ((enum watch)(event->data.u64 >> 32)) {
	case WATCH_LISTENER:
		server_accept(server);
		break;
	case WATCH_CLIENT:
		client_event(server, &server->clients[index], event->events);
		break;
	case WATCH_PROCESS:
		process_event(server, &server->clients[index]);
		break;
	case WATCH_GROUP:
		gsi_port_receive(&server->gsi_ports[index]);
		break;
	}
}

/* Retry the waiting requests. Returns how many clients still wait. */
static uint32_t retry_waiting(struct server *server)
{
	uint32_t waiting = 0;

	for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
		struct client *client = &server->clients[i];

		if (client->fd < 0 || !client->is_waiting)
			continue;
		if (!server_has_waited(server))
			waiting++;
		else if (!request_retry(server, client))
			server_client_drop(server, client);
		else if (client->is_waiting)
			waiting++;
		else
			server_client_rearm(server, client);
	}
	return waiting;
}

/* Milliseconds until the next deadline; -1: there is none. */
static int next_timeout(const struct server *server, uint32_t waiting)
{
	uint64_t now = server_now_ms();
	uint64_t due = UINT64_MAX;

	if (waiting > 0)
		due = server->survivors_until_ms;
	if (server->is_resting)
		due = min_u64(due, server->rests_until_ms);
	if (server->client_count == 0 && server->idle_ms > 0)
		due = min_u64(due, server->idle_since_ms + server->idle_ms);
	if (due == UINT64_MAX)
		return -1;
	return due > now ? (int)min_u64(due - now, INT32_MAX) : 0;
}

static bool is_idle(struct server *server)
{
	if (server->idle_ms == 0 || server->client_count > 0 ||
		server_now_ms() < server->idle_since_ms + server->idle_ms)
		return false;
	/*
	 * First accept the programs that have connected meanwhile. Later programs find no listener
	 * and start another urnicd.
	 */
	while (server_accept(server))
		;
	return server->client_count == 0;
}

int server_run(struct server *server)
{
	struct epoll_event events[EVENTS_PER_TURN];

	for (;;) {
		uint32_t waiting = retry_waiting(server);
		int count;

		server_listener_wake(server);
		if (is_idle(server)) {
			log_line("no program is connected: leaving");
			return 0;
		}
		if (server->is_useless) {
			log_line("no program is connected and none can connect: leaving");
			return 0;
		}
		count = epoll_wait(
			server->epoll, events, EVENTS_PER_TURN, next_timeout(server, waiting));
		if (count < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < count; i++)
			event_dispatch(server, &events[i]);
	}
}

/* Create a ledger in a new fd store. */
static int ledger_begin(struct server *server)
{
	const struct fd_store_label label = {
		.version = AGENT_VERSION, .kind = FD_STORE_LEDGER, .count = 1};

	server->generation = 1;
	server->ledger = ledger_create(server->generation);
	return server->ledger < 0 ? server->ledger
				  : fd_store_put(server->fd_store, &label, &server->ledger);
}

int server_create(const struct server_settings *settings, struct server **ret_server)
{
	struct server *server = calloc(1, sizeof(*server));
	struct namespace_id name;
	int rc;

	if (!server)
		return -ENOMEM;
	server->is_system = settings->is_system;
	server->idle_ms = settings->idle_ms;
	server->sockets_max = settings->sockets_max;
	server->listener = settings->listener;
	name = namespace_id_own();
	server->netns = name.netns;
	server->host = name.host;
	server->fd_store = settings->fd_store;
	server->ledger = -1;
	server->idle_since_ms = server_now_ms();
	for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++)
		server->clients[i].fd = -1;
	server->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
	server->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (server->epoll < 0) {
		rc = -errno;
		goto fail_destroy;
	}
	rc = server_epoll_watch(
		server, EPOLL_CTL_ADD, server->listener, EPOLLIN, WATCH_LISTENER, 0);
	if (rc)
		goto fail_destroy;
	if (server->is_system)
		rc = relay_create(&server->relay);
	if (rc)
		goto fail_destroy;
	server->started_at_ms = server_now_ms();
	fd_store_adopt(server, server->fd_store);
	if (server->ledger < 0)
		rc = ledger_begin(server);
	if (rc)
		goto fail_destroy;
	server->has_survivors = !server->has_adopted && port_holder_has_survivors();
	server->survivors_until_ms = server_now_ms() + SERVER_SURVIVORS_MS;
	server->is_successor = server->has_adopted || server->has_survivors;
	if (server->has_survivors)
		log_line("programs of an earlier urnicd are running: waiting for them");
	*ret_server = server;
	return 0;
fail_destroy:
	server_destroy(server);
	return rc;
}

void server_destroy(struct server *server)
{
	if (!server)
		return;
	for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
		if (server->clients[i].fd >= 0)
			server_client_drop(server, &server->clients[i]);
	}
	for (uint32_t i = 0; i < server->group_count; i++) {
		gsi_port_close(&server->gsi_ports[i]);
		group_done(&server->groups[i]);
	}
	if (server->reserve >= 0)
		close(server->reserve);
	relay_destroy(server->relay);
	if (server->ledger >= 0)
		close(server->ledger);
	if (server->epoll >= 0)
		close(server->epoll);
	free(server);
}
