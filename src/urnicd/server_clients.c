/* SPDX-License-Identifier: BSD-2-Clause */
/* The server's connections: accept, refuse, watch and drop clients. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/place.h"
#include "base/arith.h"
#include "os/process.h"
#include "urnicd/lease/event_log.h"
#include "urnicd/quota.h"
#include "urnicd/server.h"

enum {
	REST_MS = 100, /* between attempts to accept while no descriptor is free */
	/* How long to wait for an unwanted client's first request, which follows its connect(). */
	UNWANTED_MS = 50,
};

/*
 * Has the client ended or executed another program, so that its end of the connection is closed? If
 * not, urnicd itself disconnects the client, whose connections may live on.
 */
static bool has_ended(const struct client *client)
{
	struct pollfd fds[] = {{.fd = client->fd}, {.fd = client->pidfd, .events = POLLIN}};

	return poll(fds, ARRAY_COUNT(fds), 0) > 0;
}

void server_client_drop(struct server *server, struct client *client)
{
	log_line("process %d (%s) has disconnected", client->pid, client->comm);
	if (client->memory >= 0 && has_ended(client))
		gsi_send_last_messages(server, client->memory, &client->slots);
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
	if (client->is_unwanted)
		server->rests_until_ms = 0;
	server->foreign_count -= client->is_foreign;
	if (--server->client_count == 0)
		server->idle_since_ms = server_now_ms();
}

/*
 * Watch the client's process, too: a forked child may keep the connection open after the client's
 * death. A client in another PID namespace has no number here and cannot be watched.
 */
static void watch_process(struct server *server, struct client *client)
{
	client->pidfd = client->pid > 0 ? (int)syscall(SYS_pidfd_open, client->pid, 0) : -1;
	if (client->pidfd >= 0)
		server_epoll_watch(server, EPOLL_CTL_ADD, client->pidfd, EPOLLIN, WATCH_PROCESS,
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

/*
 * Stop watching the listener for `ms`. While no descriptor is free the listener stays readable, so
 * the loop would spin.
 */
static void listener_rest(struct server *server, unsigned ms)
{
	server_epoll_watch(server, EPOLL_CTL_MOD, server->listener, 0, WATCH_LISTENER, 0);
	server->is_resting = true;
	server->rests_until_ms = server_now_ms() + ms;
}

static void drop_unwanted(struct server *server)
{
	for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++)
		if (server->clients[i].fd >= 0 && server->clients[i].is_unwanted)
			server_client_drop(server, &server->clients[i]);
}

void server_listener_wake(struct server *server)
{
	if (!server->is_resting || server_now_ms() < server->rests_until_ms)
		return;
	drop_unwanted(server);
	if (server->reserve < 0)
		server->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (server->reserve < 0) {
		server->rests_until_ms = server_now_ms() + REST_MS;
		return;
	}
	server->is_resting = server_epoll_watch(server, EPOLL_CTL_MOD, server->listener, EPOLLIN,
				     WATCH_LISTENER, 0) != 0;
}

static int listener_accept(const struct server *server)
{
	int fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static bool is_shortage(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOBUFS || error == -ENOMEM;
}

/*
 * accept4() has failed. Returns whether to call it again now. If urnicd has no client and lacks the
 * resources to accept the first one, it exits. The program that waits then gets an error at once.
 */
static bool accept_failed(struct server *server, int error)
{
	if (error == -EINTR || error == -ECONNABORTED)
		return true;
	if (error == -EAGAIN)
		return false;
	if (!server->is_resting)
		log_line("no program can connect: accept4: %s", strerror(-error));
	listener_rest(server, REST_MS);
	server->is_useless = server->client_count == 0;
	return false;
}

/*
 * A connection over the user's quota stays until its first request is refused. Each user has at
 * most one such connection; a new one closes the old one.
 */
static bool is_over_quota(struct server *server, uid_t uid, bool is_foreign)
{
	char why[AGENT_WHY_BYTES];

	if (!quota_is_reached(
		    server, uid, is_foreign ? QUOTA_FOREIGN : QUOTA_CONNECTIONS, why, sizeof(why)))
		return false;
	for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++)
		if (server->clients[i].fd >= 0 && server->clients[i].is_over_quota &&
			server->clients[i].uid == uid)
			server_client_drop(server, &server->clients[i]);
	server->counters.quota_refused++;
	return true;
}

bool server_accept(struct server *server)
{
	int fd = listener_accept(server);
	struct client *client = unused_client(server);
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	bool is_unwanted = false;
	bool is_foreign, is_over;

	if (is_shortage(fd) && server->reserve >= 0) {
		close(server->reserve);
		server->reserve = -1;
		is_unwanted = true;
		fd = listener_accept(server);
		listener_rest(server, UNWANTED_MS);
	}
	if (fd < 0)
		return accept_failed(server, fd);
	is_foreign = place_netns_of(fd) != server->netns;
	if (!client || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 ||
		(!server->is_system && peer.uid != geteuid()) ||
		(is_foreign && server->foreign_count == SERVER_FOREIGN_MAX)) {
		server->counters.clients_refused++;
		close(fd);
		return true;
	}
	is_over = is_over_quota(server, peer.uid, is_foreign);
	*client = (struct client){.fd = fd,
		.memory = -1,
		.gsi = -1,
		.pid = peer.pid,
		.uid = peer.uid,
		.is_over_quota = is_over,
		.is_unwanted = is_unwanted,
		.is_foreign = is_foreign};
	if (server_epoll_watch(server, EPOLL_CTL_ADD, fd, EPOLLIN, WATCH_CLIENT,
		    (uint64_t)(client - server->clients)) != 0) {
		close(fd);
		client->fd = -1;
		return true;
	}
	process_name_read(client->pid, client->comm);
	watch_process(server, client);
	server->client_count++;
	server->foreign_count += is_foreign;
	server->counters.clients_accepted++;
	log_line(
		"process %d (%s) of user %u has connected", client->pid, client->comm, client->uid);
	return !is_unwanted;
}

void server_client_rearm(struct server *server, struct client *client)
{
	server_epoll_watch(server, EPOLL_CTL_MOD, client->fd, client->is_waiting ? 0 : EPOLLIN,
		WATCH_CLIENT, (uint64_t)(client - server->clients));
}
