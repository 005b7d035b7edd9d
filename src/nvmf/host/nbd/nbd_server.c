/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf/host/nbd/nbd_server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

struct client {
	struct nbd_server *server;
	struct list node;
	struct loop_watch watch;
	struct loop_timer negotiation;
	struct loop_work work; /* sends the replies of requests that are done */
	struct nbd_session *session;
};

struct nbd_server {
	struct loop *loop;
	const struct nbd_export *export;
	struct loop_watch watch;
	struct loop_timer retry; /* listens again after a failed accept4() */
	struct list clients;
	uint32_t client_count;
	void (*ended)(void *context, enum nbd_end end);
	void *context;
};

enum {
	READS_MAX = 8, /* reads from one client before other clients have their turn */
	RETRY_NS = 100000000,
};

static void listen_again(struct nbd_server *server)
{
	loop_timer_cancel(&server->retry);
	if (!server->watch.events)
		(void)loop_watch(server->loop, &server->watch, server->watch.fd, EPOLLIN);
}

static void client_end(struct client *client, enum nbd_end end)
{
	struct nbd_server *server = client->server;

	loop_unwatch(server->loop, &client->watch);
	loop_timer_cancel(&client->negotiation);
	loop_defer_cancel(&client->work);
	close(client->watch.fd);
	list_remove(&client->node);
	nbd_session_destroy(client->session);
	free(client);
	server->client_count--;
	listen_again(server);
	if (server->ended)
		server->ended(server->context, end);
}

/* Send until all is sent or the socket is full. Returns false if the connection is broken. */
static bool client_send(struct client *client)
{
	struct iovec parts[NBD_OUTPUT_PARTS_MAX];
	struct msghdr message = {.msg_iov = parts};
	int count;

	while ((count = nbd_session_output(client->session, parts, NBD_OUTPUT_PARTS_MAX)) > 0) {
		ssize_t sent;

		message.msg_iovlen = (size_t)count;
		sent = sendmsg(client->watch.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0)
			return errno == EAGAIN || errno == EINTR;
		nbd_session_sent(client->session, (size_t)sent);
	}
	return true;
}

/* Read the received bytes. Returns false if the connection has ended. */
static bool client_receive(struct client *client)
{
	for (int i = 0; i < READS_MAX; i++) {
		struct iovec room = nbd_session_room(client->session);
		ssize_t got;

		if (!room.iov_len)
			return true;
		got = recv(client->watch.fd, room.iov_base, room.iov_len, MSG_DONTWAIT);
		if (got < 0)
			return errno == EAGAIN || errno == EINTR;
		if (got == 0)
			return false;
		nbd_session_received(client->session, (size_t)got);
		if ((size_t)got < room.iov_len)
			return true;
	}
	return true;
}

/* After input or output: end the session, or watch the events that the session needs next. */
static void client_continue(struct client *client, bool is_connected)
{
	struct iovec part[2];
	enum nbd_end end;
	uint32_t events = 0;

	is_connected = is_connected && client_send(client);
	end = nbd_session_end(client->session);
	if (end != NBD_GOES_ON || !is_connected) {
		client_end(client, end == NBD_GOES_ON ? NBD_DISCONNECTED : end);
		return;
	}
	if (nbd_session_is_transmitting(client->session))
		loop_timer_cancel(&client->negotiation);
	if (nbd_session_room(client->session).iov_len > 0)
		events |= EPOLLIN;
	if (nbd_session_output(client->session, part, 2) > 0)
		events |= EPOLLOUT;
	if (!client->watch.events && events)
		(void)loop_watch(client->server->loop, &client->watch, client->watch.fd, events);
	else if (!events)
		loop_unwatch(client->server->loop, &client->watch);
	else
		(void)loop_rewatch(client->server->loop, &client->watch, events);
}

static void client_ready(struct loop_watch *watch, uint32_t events)
{
	struct client *client = container_of(watch, struct client, watch);

	client_continue(client, !(events & (EPOLLIN | EPOLLHUP)) || client_receive(client));
}

static void client_work(struct loop_work *work)
{
	client_continue(container_of(work, struct client, work), true);
}

static void client_request_done(struct nbd_session *session, void *context)
{
	struct client *client = context;

	(void)session;
	loop_defer(client->server->loop, &client->work);
}

static void client_is_late(struct loop_timer *timer)
{
	client_end(container_of(timer, struct client, negotiation), NBD_ABORTED);
}

static void client_begin(struct nbd_server *server, int fd)
{
	struct client *client = calloc(1, sizeof(*client));
	int one = 1;

	if (!client) {
		close(fd);
		return;
	}
	client->server = server;
	client->session = nbd_session_create(server->export, client_request_done, client);
	client->watch.ready = client_ready;
	if (!client->session || loop_watch(server->loop, &client->watch, fd, EPOLLIN) != 0) {
		nbd_session_destroy(client->session);
		free(client);
		close(fd);
		return;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	loop_timer_init(&client->negotiation, client_is_late);
	loop_timer_set(
		server->loop, &client->negotiation, loop_now_ns(server->loop) + NBD_NEGOTIATION_NS);
	loop_work_init(&client->work, client_work);
	list_append(&server->clients, &client->node);
	server->client_count++;
	client_continue(client, true);
}

static void retry_expired(struct loop_timer *timer)
{
	listen_again(container_of(timer, struct nbd_server, retry));
}

/*
 * If descriptors or memory are missing, do not watch the socket for RETRY_NS: the loop would report
 * the waiting connection in each step.
 */
static void accept_failed(struct nbd_server *server, int error)
{
	if (error != EMFILE && error != ENFILE && error != ENOMEM && error != ENOBUFS)
		return;
	loop_unwatch(server->loop, &server->watch);
	loop_timer_set(server->loop, &server->retry, loop_now_ns(server->loop) + RETRY_NS);
}

static void server_ready(struct loop_watch *watch, uint32_t events)
{
	struct nbd_server *server = container_of(watch, struct nbd_server, watch);
	int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd < 0) {
		accept_failed(server, errno);
		return;
	}
	client_begin(server, fd);
	if (server->client_count >= NBD_CLIENTS_MAX)
		loop_unwatch(server->loop, &server->watch);
}

int nbd_server_create(struct loop *loop, const struct nbd_export *export, int fd,
	void (*ended)(void *context, enum nbd_end end), void *context,
	struct nbd_server **ret_server)
{
	struct nbd_server *server = calloc(1, sizeof(*server));
	int error;

	if (!server)
		return -ENOMEM;
	server->loop = loop;
	server->export = export;
	server->ended = ended;
	server->context = context;
	server->watch.ready = server_ready;
	loop_timer_init(&server->retry, retry_expired);
	list_init(&server->clients);
	error = loop_watch(loop, &server->watch, fd, EPOLLIN);
	if (error) {
		free(server);
		return error;
	}
	*ret_server = server;
	return 0;
}

void nbd_server_destroy(struct nbd_server *server)
{
	if (!server)
		return;
	list_for_each_safe(client, &server->clients, struct client, node)
		client_end(client, NBD_GOES_ON);
	loop_timer_cancel(&server->retry);
	loop_unwatch(server->loop, &server->watch);
	close(server->watch.fd);
	free(server);
}
