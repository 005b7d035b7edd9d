/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/adopt.h"
#include "agent/log.h"
#include "agent/owner.h"
#include "agent/requests.h"
#include "base/arith.h"
#include "port/address.h"

enum {
	EVENTS_PER_TURN = 64,
};

/* What an epoll event is about: the kind in the upper half of its data, an index in the lower. */
enum watch { WATCH_LISTENER, WATCH_RENDEZVOUS, WATCH_CLIENT, WATCH_PROCESS, WATCH_GROUP };

uint64_t server_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

bool server_is_settled(const struct server *server)
{
	return server->has_adopted || server_now_ms() >= server->settled_at_ms;
}

static int watch(struct server *server, int operation, int fd, uint32_t events, enum watch what,
	uint64_t index)
{
	struct epoll_event event = {.events = events, .data.u64 = (uint64_t)what << 32 | index};

	return epoll_ctl(server->epoll, operation, fd, &event) ? -errno : 0;
}

struct group *server_group(struct server *server, const struct agent_address *address)
{
	struct group *unused = NULL;

	for (uint32_t i = 0; i < server->group_count; i++) {
		struct group *group = &server->groups[i];

		if (group->count == 0)
			unused = group;
		else if (gid_is_equal(&group->address.gid, &address->gid) &&
			group->address.scope_ifindex == address->scope_ifindex)
			return group;
	}
	if (!unused) {
		if (server->group_count == SERVER_GROUPS_MAX)
			return NULL;
		unused = &server->groups[server->group_count++];
	}
	group_init(unused, address);
	return unused;
}

void server_watch_group(struct server *server, struct group *group)
{
	uint32_t index = (uint32_t)(group - server->groups);
	int rc = gsi_port_open(&server->gsi_ports[index], server, group);

	if (rc)
		log_line("cannot listen to QP1 of an address: %s", strerror(-rc));
	watch(server, EPOLL_CTL_ADD, group->sockets[0], EPOLLIN, WATCH_GROUP, index);
}

void server_release_slot(struct server *server, uint8_t slot)
{
	for (uint32_t i = 0; i < server->group_count; i++)
		group_bar(&server->groups[i], slot);
	slot_return(&server->slots, slot);
}

/* Or was it cut off, and lives? Its end of the connection is closed when it ends, or executes another program. */
static bool has_ended(const struct client *client)
{
	struct pollfd fds[] = {{.fd = client->fd}, {.fd = client->pidfd, .events = POLLIN}};

	return poll(fds, ARRAY_COUNT(fds), 0) > 0;
}

static void client_drop(struct server *server, struct client *client)
{
	log_line("process %d (%s) has left", client->pid, client->comm);
	if (client->memory >= 0 && has_ended(client))
		gsi_execute_testaments(server, client->memory, &client->slots);
	for (unsigned slot = 1; slot < AGENT_SLOTS; slot++) {
		if (agent_slots_has(&client->slots, (uint8_t)slot))
			server_release_slot(server, (uint8_t)slot);
	}
	close(client->fd);
	if (client->pidfd >= 0)
		close(client->pidfd);
	if (client->memory >= 0)
		close(client->memory);
	if (client->gsi >= 0)
		close(client->gsi);
	claim_table_drop_client(&server->claims, (uint32_t)(client - server->clients));
	client->fd = -1;
	server->foreign_count -= client->is_foreign;
	if (--server->client_count == 0)
		server->idle_since_ms = server_now_ms();
}

static void read_comm(struct client *client)
{
	char path[64];
	ssize_t bytes;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/comm", client->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	bytes = fd < 0 ? -1 : read(fd, client->comm, sizeof(client->comm) - 1);
	if (fd >= 0)
		close(fd);
	client->comm[bytes > 0 ? bytes : 0] = '\0';
	client->comm[strcspn(client->comm, "\n")] = '\0';
}

/*
 * A forked child of the client may hold the connection open after the client's death, so its
 * process is watched too, where it can be (another PID namespace shows no number).
 */
static void watch_process(struct server *server, struct client *client)
{
	client->pidfd = client->pid > 0 ? (int)syscall(SYS_pidfd_open, client->pid, 0) : -1;
	if (client->pidfd >= 0)
		watch(server, EPOLL_CTL_ADD, client->pidfd, EPOLLIN, WATCH_PROCESS,
			(uint64_t)(client - server->clients));
}

static struct client *unused_client(struct server *server)
{
	for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
		if (server->clients[i].fd < 0)
			return &server->clients[i];
	}
	return NULL;
}

/* Returns false when nobody else waits to be accepted. */
static bool client_accept(struct server *server, bool is_foreign)
{
	int fd = accept4(is_foreign ? server->rendezvous : server->listener, NULL, NULL,
		SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct client *client = unused_client(server);
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	if (fd < 0)
		return errno == EINTR || errno == ECONNABORTED;
	if (!client || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 ||
		(!server->is_system && peer.uid != geteuid()) ||
		(is_foreign && server->foreign_count == SERVER_FOREIGN_MAX)) {
		server->counters.clients_refused++;
		close(fd);
		return true;
	}
	*client = (struct client){.fd = fd,
		.memory = -1,
		.gsi = -1,
		.pid = peer.pid,
		.uid = peer.uid,
		.is_foreign = is_foreign};
	if (watch(server, EPOLL_CTL_ADD, fd, EPOLLIN, WATCH_CLIENT,
		    (uint64_t)(client - server->clients)) != 0) {
		close(fd);
		client->fd = -1;
		return true;
	}
	read_comm(client);
	watch_process(server, client);
	server->client_count++;
	server->foreign_count += is_foreign;
	server->counters.clients_accepted++;
	log_line("process %d (%s) of user %u has come", client->pid, client->comm, client->uid);
	return true;
}

/* While a request waits nothing more is read: a client has one request in hand at most. */
static void client_rearm(struct server *server, struct client *client)
{
	watch(server, EPOLL_CTL_MOD, client->fd, client->is_waiting ? 0 : EPOLLIN, WATCH_CLIENT,
		(uint64_t)(client - server->clients));
}

static void client_event(struct server *server, struct client *client, uint32_t events)
{
	bool was_waiting = client->is_waiting;

	if (client->fd < 0)
		return;
	if (was_waiting ? (events & (EPOLLHUP | EPOLLERR)) != 0 : !request_receive(server, client))
		client_drop(server, client);
	else if (client->is_waiting != was_waiting)
		client_rearm(server, client);
}

static void process_event(struct server *server, struct client *client)
{
	struct pollfd fd = {.fd = client->pidfd, .events = POLLIN};

	/* The event may be about the former user of this place in the table. */
	if (client->fd >= 0 && client->pidfd >= 0 && poll(&fd, 1, 0) == 1)
		client_drop(server, client);
}

static void dispatch(struct server *server, const struct epoll_event *event)
{
	uint32_t index = (uint32_t)event->data.u64;

	switch ((enum watch)(event->data.u64 >> 32)) {
	case WATCH_LISTENER:
		client_accept(server, false);
		break;
	case WATCH_RENDEZVOUS:
		client_accept(server, true);
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

/* Returns how many clients still wait. */
static uint32_t retry_waiting(struct server *server)
{
	uint32_t waiting = 0;

	for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
		struct client *client = &server->clients[i];

		if (client->fd < 0 || !client->is_waiting)
			continue;
		if (!server_is_settled(server))
			waiting++;
		else if (!request_retry(server, client))
			client_drop(server, client);
		else if (client->is_waiting)
			waiting++;
		else
			client_rearm(server, client);
	}
	return waiting;
}

/* Milliseconds until something is due, or -1. */
static int next_timeout(const struct server *server, uint32_t waiting)
{
	uint64_t now = server_now_ms();
	uint64_t due = UINT64_MAX;

	if (waiting > 0)
		due = server->settled_at_ms;
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
	/* Whoever is just coming in is served. Later ones meet a closed door and start another. */
	while (client_accept(server, false))
		;
	return server->client_count == 0;
}

int server_run(struct server *server)
{
	struct epoll_event events[EVENTS_PER_TURN];

	for (;;) {
		uint32_t waiting = retry_waiting(server);
		int count;

		if (is_idle(server)) {
			log_line("nobody needs me: good bye");
			return 0;
		}
		count = epoll_wait(
			server->epoll, events, EVENTS_PER_TURN, next_timeout(server, waiting));
		if (count < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < count; i++)
			dispatch(server, &events[i]);
	}
}

int server_create(const struct server_settings *settings, struct server **ret_server)
{
	struct server *server = calloc(1, sizeof(*server));
	int rc;

	if (!server)
		return -ENOMEM;
	server->is_system = settings->is_system;
	server->idle_ms = settings->idle_ms;
	server->sockets_max = settings->sockets_max;
	server->listener = settings->listener;
	server->rendezvous = settings->rendezvous;
	server->bag = settings->bag;
	server->idle_since_ms = server_now_ms();
	for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++)
		server->clients[i].fd = -1;
	server->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (server->epoll < 0) {
		rc = -errno;
		goto fail_destroy;
	}
	rc = watch(server, EPOLL_CTL_ADD, server->listener, EPOLLIN, WATCH_LISTENER, 0);
	if (!rc && server->rendezvous >= 0)
		rc = watch(server, EPOLL_CTL_ADD, server->rendezvous, EPOLLIN, WATCH_RENDEZVOUS, 0);
	if (rc)
		goto fail_destroy;
	server->started_at_ms = server_now_ms();
	adopt_bag(server, server->bag);
	server->has_survivors = !server->has_adopted && owner_has_survivors();
	server->settled_at_ms = server_now_ms() + SERVER_SETTLE_MS;
	server->is_successor = server->has_adopted || server->has_survivors;
	if (server->has_survivors)
		log_line("an earlier urnicd has left survivors: waiting for them");
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
			client_drop(server, &server->clients[i]);
	}
	for (uint32_t i = 0; i < server->group_count; i++) {
		gsi_port_close(&server->gsi_ports[i]);
		group_done(&server->groups[i]);
	}
	if (server->epoll >= 0)
		close(server->epoll);
	free(server);
}
