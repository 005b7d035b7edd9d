/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "nvmf/common/list.h"
#include "nvmf/target/ctl/ctl.h"

#define NS_PER_S 1000000000ull

struct ctl_server {
	struct loop *loop;
	struct loop_watch watch;
	struct list clients;
	unsigned client_count;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	void (*serve)(void *context, struct ctl_call *call);
	void *context;
};

enum ctl_state {
	CTL_READS, /* receives the request */
	CTL_WAITS, /* waits for ctl_answer() */
	CTL_WRITES, /* sends the answer */
};

struct ctl_client {
	struct ctl_call call;
	struct ctl_server *server; /* NULL: the connection is over */
	struct list node;
	enum ctl_state state;
	struct loop_watch watch;
	struct loop_timer timer;
	int fd;
	char request[CTL_REQUEST_BYTES_MAX];
	size_t request_bytes;
	char *answer;
	size_t answer_bytes, answer_sent;
};

/* Close the connection. A client that waits for ctl_answer() is freed there, other clients here. */
static void client_end(struct ctl_client *client)
{
	struct ctl_server *server = client->server;

	loop_timer_cancel(&client->timer);
	loop_unwatch(server->loop, &client->watch);
	close(client->fd);
	list_remove(&client->node);
	if (server->client_count-- == CTL_CLIENTS_MAX)
		(void)loop_watch(server->loop, &server->watch, server->watch.fd, EPOLLIN);
	client->server = NULL;
	if (client->state == CTL_WAITS)
		return;
	free(client->answer);
	free(client);
}

static void client_expired(struct loop_timer *timer)
{
	client_end(container_of(timer, struct ctl_client, timer));
}

static void client_set_timer(struct ctl_client *client)
{
	struct loop *loop = client->server->loop;

	loop_timer_set(loop, &client->timer, loop_now_ns(loop) + CTL_CLIENT_SECONDS * NS_PER_S);
}

static void client_write(struct ctl_client *client)
{
	while (client->answer_sent < client->answer_bytes) {
		ssize_t sent = send(client->fd, client->answer + client->answer_sent,
			client->answer_bytes - client->answer_sent, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno == EAGAIN &&
			loop_rewatch(client->server->loop, &client->watch, EPOLLOUT) == 0)
			return;
		if (sent < 0)
			break;
		client->answer_sent += (size_t)sent;
	}
	client_end(client);
}

/* Find the words, each of which ends with a NUL. Returns false if the request is malformed. */
static bool cut_words(struct ctl_client *client)
{
	const char *end = client->request + client->request_bytes;
	const char *word = client->request;

	while (word < end) {
		const char *nul = memchr(word, '\0', (size_t)(end - word));

		if (!nul || client->call.word_count == CTL_WORDS_MAX)
			return false;
		client->call.words[client->call.word_count++] = word;
		word = nul + 1;
	}
	return true;
}

static void client_complete(struct ctl_client *client)
{
	struct ctl_server *server = client->server;

	client->state = CTL_WAITS;
	loop_timer_cancel(&client->timer);
	/* The client has called shutdown(), so EPOLLIN would be reported all the time. */
	loop_unwatch(server->loop, &client->watch);
	if (!cut_words(client))
		ctl_answer(&client->call, false,
			"the request is malformed: use urnic-nvmf-target ctl");
	else
		server->serve(server->context, &client->call);
}

static void client_read(struct ctl_client *client)
{
	for (;;) {
		size_t room = sizeof(client->request) - client->request_bytes;
		ssize_t got = recv(client->fd, client->request + client->request_bytes, room, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return;
		if (got < 0 || (got > 0 && (size_t)got == room)) {
			client_end(client);
			return;
		}
		if (got == 0) {
			client_complete(client);
			return;
		}
		client->request_bytes += (size_t)got;
	}
}

static void client_ready(struct loop_watch *watch, uint32_t events)
{
	struct ctl_client *client = container_of(watch, struct ctl_client, watch);

	(void)events;
	if (client->state == CTL_READS)
		client_read(client);
	else
		client_write(client);
}

void ctl_answer(struct ctl_call *call, bool is_ok, const char *text)
{
	struct ctl_client *client = container_of(call, struct ctl_client, call);
	int bytes;

	client->state = CTL_WRITES;
	if (!client->server) {
		free(client);
		return;
	}
	bytes = asprintf(&client->answer, "%s\n%s", is_ok ? "ok" : "error", text);
	client->answer_bytes = bytes > 0 ? (size_t)bytes : 0;
	if (bytes < 0)
		client->answer = NULL;
	client_set_timer(client);
	if (loop_watch(client->server->loop, &client->watch, client->fd, EPOLLOUT))
		client_end(client);
}

static void client_create(struct ctl_server *server, int fd)
{
	struct ctl_client *client = calloc(1, sizeof(*client));

	if (!client) {
		close(fd);
		return;
	}
	client->server = server;
	client->fd = fd;
	client->watch.ready = client_ready;
	loop_timer_init(&client->timer, client_expired);
	if (loop_watch(server->loop, &client->watch, fd, EPOLLIN)) {
		close(fd);
		free(client);
		return;
	}
	list_append(&server->clients, &client->node);
	/* Further clients wait in the socket's backlog. */
	if (++server->client_count == CTL_CLIENTS_MAX)
		loop_unwatch(server->loop, &server->watch);
	client_set_timer(client);
}

static void server_ready(struct loop_watch *watch, uint32_t events)
{
	struct ctl_server *server = container_of(watch, struct ctl_server, watch);
	int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd >= 0)
		client_create(server, fd);
}

/* Returns false if the path is too long. */
static bool make_address(const char *path, struct sockaddr_un *ret_address)
{
	size_t bytes = strlen(path) + 1;

	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (bytes > sizeof(ret_address->sun_path))
		return false;
	memcpy(ret_address->sun_path, path, bytes);
	return true;
}

/* Whether the address is that of a socket on which no process listens any more. */
static bool is_left_over(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat status;
	bool is_dead = false;

	if (fd < 0)
		return false;
	if (lstat(address->sun_path, &status) == 0 && S_ISSOCK(status.st_mode))
		is_dead = connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0 &&
			errno == ECONNREFUSED;
	close(fd);
	return is_dead;
}

/* Returns a listening socket whose file has mode 0600 from its creation on; or -errno. */
static int open_listener(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error;

	if (fd < 0)
		return -errno;
	if (is_left_over(address))
		(void)unlink(address->sun_path);
	/* bind() gives the file the mode of the socket. */
	if (fchmod(fd, 0600) == 0 &&
		bind(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 &&
		listen(fd, CTL_CLIENTS_MAX) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

int ctl_server_create(struct loop *loop, const char *path,
	void (*serve)(void *context, struct ctl_call *call), void *context,
	struct ctl_server **ret_server, char *sentence)
{
	struct ctl_server *server = calloc(1, sizeof(*server));
	struct sockaddr_un address;
	int error = -ENOMEM, fd = -1;

	if (server && make_address(path, &address))
		error = fd = open_listener(&address);
	else if (server)
		error = -ENAMETOOLONG;
	if (fd >= 0) {
		memcpy(server->path, address.sun_path, sizeof(server->path));
		server->loop = loop;
		server->serve = serve;
		server->context = context;
		server->watch.ready = server_ready;
		list_init(&server->clients);
		error = loop_watch(loop, &server->watch, fd, EPOLLIN);
		if (error == 0) {
			*ret_server = server;
			return 0;
		}
		(void)unlink(path);
		close(fd);
	}
	free(server);
	snprintf(sentence, CTL_SENTENCE_BYTES,
		error == -EADDRINUSE
			? "%.200s: another target listens there (%s); end it or choose another path"
			: "%.200s: cannot listen there: %s; choose another path",
		path, strerror(-error));
	return error;
}

void ctl_server_destroy(struct ctl_server *server)
{
	if (!server)
		return;
	list_for_each_safe(client, &server->clients, struct ctl_client, node)
		client_end(client);
	int fd = server->watch.fd;

	loop_unwatch(server->loop, &server->watch);
	(void)unlink(server->path);
	close(fd);
	free(server);
}
