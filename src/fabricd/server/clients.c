/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients of the fabric: their control connections, and the requests on them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"
#include "fabricd/server/server_internal.h"
#include "os/fd_pass.h"

/* What an answer carries besides the message. */
struct answer_fds {
	int fds[ATTACH_DESCRIPTORS_MAX];
	uint32_t count;
	uint32_t to_close; /* how many of the first ones the server closes after the answer */
};

/* The result of a request that the server answers later. */
enum { REQUEST_WAITS = 1 };

typedef int request_fn(
	struct client *client, struct attach_message *message, struct answer_fds *fds);

/* --- requests; each returns 0, -errno or REQUEST_WAITS, and may set message->text --- */

static int request_hello(
	struct client *client, struct attach_message *message, struct answer_fds *fds)
{
	struct fabric_server *server = client->server;
	char name[ATTACH_NAME_BYTES];
	int node;

	(void)fds;
	if (client->has_node || client->is_console)
		return -EINVAL;
	if (!*message->text) {
		client->is_console = true;
		message->node = (struct attach_node){.index = UINT32_MAX};
		message->node.fabric_pid = getpid();
		return 0;
	}
	snprintf(name, sizeof(name), "%.*s", ATTACH_NAME_BYTES - 1, message->text);
	text_make_printable(name);
	node = subnet_find_node(server->subnet, message->text);
	if (node < 0 || !server->nodes[node].ports) {
		snprintf(message->text, sizeof(message->text),
			node < 0 ? "fabric \"%s\" has no node \"%s\""
				 : "in fabric \"%s\" \"%s\" is a switch, and programs run on hosts",
			server->name, name);
		return -ENODEV;
	}
	if (server->nodes[node].taker) {
		snprintf(message->text, sizeof(message->text),
			"in fabric \"%s\" \"%s\" is on another machine", server->name, name);
		return -EBUSY;
	}
	client->node = (uint32_t)node;
	client->has_node = true;
	server->nodes[node].client_count++;
	server_node_describe(server, client->node, &message->node);
	return 0;
}

static struct server_port *port_of(struct client *client, const struct attach_message *message)
{
	return client->has_node
		? server_port_find(client->server, client->node, message->port.number)
		: NULL;
}

static int request_port(
	struct client *client, struct attach_message *message, struct answer_fds *fds)
{
	const struct server_port *port = port_of(client, message);

	(void)fds;
	if (!port)
		return -ENODEV;
	server_port_describe(port, &message->port.info);
	return 0;
}

static int request_counters(
	struct client *client, struct attach_message *message, struct answer_fds *fds)
{
	struct attach_counters *values = &message->counters.values;
	struct subnet_port_view view;

	(void)fds;
	if (!client->has_node ||
		!server_port_find(client->server, client->node, message->counters.port) ||
		!subnet_port(client->server->subnet, client->node, message->counters.port, &view))
		return -ENODEV;
	flows_count(client->server);
#define SUBNET_COUNTER(name, is_of_drops, sentence) values->name = view.counters->name;
#include "subnet/counter.def"
#undef SUBNET_COUNTER
	return 0;
}

static int request_mads_open(
	struct client *client, struct attach_message *message, struct answer_fds *fds)
{
	struct server_port *port = port_of(client, message);
	int socket = port ? opening_create(client, port, &message->port.opening) : -ENODEV;

	if (socket < 0)
		return socket;
	*fds = (struct answer_fds){.fds = {socket}, .count = 1, .to_close = 1};
	return 0;
}

static int request_agent_add(
	struct client *client, struct attach_message *message, struct answer_fds *fds)
{
	(void)fds;
	return opening_agent_add(client, message->agent.opening, &message->agent.agent);
}

static int request_agent_remove(
	struct client *client, struct attach_message *message, struct answer_fds *fds)
{
	(void)fds;
	return opening_agent_remove(client, message->agent.opening, message->agent.agent.id);
}

static int request_issm_path(
	struct client *client, struct attach_message *message, struct answer_fds *fds)
{
	struct server_port *port = port_of(client, message);

	(void)fds;
	return port ? issm_path(port, message->text) : -ENODEV;
}

static int request_frames_open(
	struct client *client, struct attach_message *message, struct answer_fds *fds)
{
	int rc = client->has_node ? channel_create(client, &message->frames.lease, fds->fds)
				  : -ENODEV;

	if (rc)
		return rc;
	fds->count = ATTACH_CHANNEL_DESCRIPTORS;
	fds->to_close = 2;
	return 0;
}

static int request_host_take(
	struct client *client, struct attach_message *message, struct answer_fds *fds)
{
	int rc;

	if (client->has_node && client->server->nodes[client->node].client_count > 1) {
		snprintf(message->text, sizeof(message->text),
			"programs on the fabric's own machine use the host");
		return -EBUSY;
	}
	rc = request_frames_open(client, message, fds);
	if (rc == 0)
		taken_host_begin(channel_find(client, message->frames.lease));
	return rc;
}

static int request_frames_close(
	struct client *client, struct attach_message *message, struct answer_fds *fds)
{
	struct channel *channel = channel_find(client, message->frames.lease);

	(void)fds;
	if (!channel)
		return -EINVAL;
	channel_drain(channel);
	channel_end(channel);
	return 0;
}

static int request_of_channel(
	struct client *client, struct attach_message *message, struct answer_fds *fds)
{
	struct channel *channel = channel_find(client, message->frames.lease);
	uint32_t port = message->frames.port;
	uint16_t mlid = message->frames.mlid;
	uint64_t service_id = message->frames.service_id, mask = message->frames.service_mask;

	(void)fds;
	if (!channel)
		return -EINVAL;
	if (message->type == ATTACH_SERVICE_CLAIM)
		return channel_service_claim(channel, service_id, mask);
	if (message->type == ATTACH_SERVICE_RELEASE)
		return channel_service_release(channel, service_id, mask);
	if (!server_port_find(client->server, client->node, port))
		return -ENODEV;
	return message->type == ATTACH_MULTICAST_JOIN ? channel_join(channel, port, mlid)
						      : channel_leave(channel, port, mlid);
}

static int request_flow_ready(
	struct client *client, struct attach_message *message, struct answer_fds *fds)
{
	struct channel *channel = channel_find(client, message->flow.lease);

	(void)fds;
	if (!channel)
		return -EINVAL;
	flow_ready(channel, message->flow.slot, message->flow.serial);
	return 0;
}

static int request_of_membership(
	struct client *client, struct attach_message *message, struct answer_fds *fds)
{
	struct server_port *port = client->has_node
		? server_port_find(client->server, client->node, message->frames.port)
		: NULL;

	(void)fds;
	if (!port)
		return -ENODEV;
	return message->type == ATTACH_GROUP_HOLD
		? membership_hold(client, port, &message->frames.mgid, message->frames.join_state)
		: membership_release(
			  client, port, &message->frames.mgid, message->frames.join_state);
}

static int request_last_messages(
	struct client *client, struct attach_message *message, struct answer_fds *fds)
{
	struct channel *channel = channel_find(client, message->frames.lease);
	int memory = client->given;

	(void)fds;
	if (!channel || memory < 0)
		return -EINVAL;
	client->given = -1;
	return last_messages_keep(channel, memory, message->frames.offset);
}

static int request_events_open(
	struct client *client, struct attach_message *message, struct answer_fds *fds)
{
	int pair[2];

	(void)message;
	if (!client->has_node)
		return -ENODEV;
	if (client->events >= 0)
		return -EBUSY;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	client->events = pair[0];
	*fds = (struct answer_fds){.fds = {pair[1]}, .count = 1, .to_close = 1};
	return 0;
}

static int request_console(
	struct client *client, struct attach_message *message, struct answer_fds *fds)
{
	char command[ATTACH_TEXT_BYTES];
	int fd;

	if (!client->is_console)
		return -EPERM;
	if (!client->server->console)
		return -EOPNOTSUPP;
	/* The console changes its copy, so keep another one for a command that runs again. */
	memcpy(command, message->text, sizeof(command));
	memcpy(client->command, message->text, sizeof(client->command));
	flows_count(client->server);
	fd = client->server->console(client->server, command, message->text);
	flows_refresh(client->server);
	client->is_waiting = fd == -EAGAIN;
	if (fd < 0)
		return client->is_waiting ? REQUEST_WAITS : fd;
	*fds = (struct answer_fds){.fds = {fd}, .count = 1, .to_close = 1};
	return 0;
}

static request_fn *const requests[] = {
	[ATTACH_HELLO] = request_hello,
	[ATTACH_PORT] = request_port,
	[ATTACH_MADS_OPEN] = request_mads_open,
	[ATTACH_AGENT_ADD] = request_agent_add,
	[ATTACH_AGENT_REMOVE] = request_agent_remove,
	[ATTACH_ISSM_PATH] = request_issm_path,
	[ATTACH_FRAMES_OPEN] = request_frames_open,
	[ATTACH_FRAMES_CLOSE] = request_frames_close,
	[ATTACH_MULTICAST_JOIN] = request_of_channel,
	[ATTACH_MULTICAST_LEAVE] = request_of_channel,
	[ATTACH_SERVICE_CLAIM] = request_of_channel,
	[ATTACH_SERVICE_RELEASE] = request_of_channel,
	[ATTACH_EVENTS_OPEN] = request_events_open,
	[ATTACH_CONSOLE] = request_console,
	[ATTACH_FLOW_READY] = request_flow_ready,
	[ATTACH_COUNTERS] = request_counters,
	[ATTACH_LAST_MESSAGES] = request_last_messages,
	[ATTACH_GROUP_HOLD] = request_of_membership,
	[ATTACH_GROUP_RELEASE] = request_of_membership,
	[ATTACH_HOST_TAKE] = request_host_take,
};

/* --- the connection --- */

/* Returns false when the server has to end the client. */
static bool client_answer(
	struct client *client, const struct attach_message *message, struct answer_fds *fds)
{
	struct iovec piece = {(void *)(uintptr_t)message, sizeof(*message)};
	int rc = fd_pass_send(client->watch.fd, &piece, 1, fds->fds, fds->count, MSG_DONTWAIT);

	for (uint32_t i = 0; i < fds->to_close; i++)
		close(fds->fds[i]);
	/* A client that waits for each answer has room for it. One that does not, ends here. */
	return rc == 0;
}

static bool message_serve(struct client *client, struct attach_message *message)
{
	struct answer_fds fds = {0};
	request_fn *request = message->type < sizeof(requests) / sizeof(requests[0])
		? requests[message->type]
		: NULL;
	int rc;

	if (message->version != ATTACH_VERSION || !request)
		return false;
	message->text[sizeof(message->text) - 1] = '\0';
	rc = request(client, message, &fds);
	if (rc == REQUEST_WAITS)
		return true;
	message->status = -rc;
	return client_answer(client, message, &fds);
}

static bool client_receive(struct client *client)
{
	struct attach_message message;
	struct iovec piece = {&message, sizeof(message)};
	struct passed_fds fds;
	int flags;
	ssize_t bytes = fd_pass_receive(client->watch.fd, &piece, 1, 1, &fds, &flags, MSG_DONTWAIT);
	bool is_served;

	if (bytes < 0)
		return bytes == -EAGAIN;
	client->given = passed_fds_take(&fds, 0);
	passed_fds_close(&fds);
	/* A client asks one question at a time. */
	is_served =
		bytes == sizeof(message) && !client->is_waiting && message_serve(client, &message);
	if (client->given >= 0)
		close(client->given);
	return is_served;
}

void client_event(struct client *client)
{
	if (!client->is_ended && !client_receive(client))
		client_end(client);
}

void clients_run_commands(struct fabric_server *server)
{
	list_for_each_safe(client, &server->clients, struct client, link) {
		struct attach_message message = {.version = ATTACH_VERSION, .type = ATTACH_CONSOLE};

		if (!client->is_waiting)
			continue;
		memcpy(message.text, client->command, sizeof(message.text));
		if (!message_serve(client, &message))
			client_end(client);
	}
}

void client_end(struct client *client)
{
	struct fabric_server *server = client->server;

	client->is_ended = true;
	list_for_each_safe(opening, &client->openings, struct opening, link)
		opening_end(opening);
	list_for_each(channel, &client->channels, struct channel, link)
		channel_drain(channel);
	list_for_each_safe(channel, &client->channels, struct channel, link) {
		last_messages_send(channel);
		channel_end(channel);
	}
	memberships_drop(client);
	if (client->events >= 0)
		close(client->events);
	if (client->has_node)
		server->nodes[client->node].client_count--;
	server_unwatch(server, &client->watch);
	close(client->watch.fd);
	server->client_count--;
	list_remove(&client->link);
	list_append(&server->ended_clients, &client->link);
}

void client_free(struct client *client)
{
	list_remove(&client->link);
	free(client);
}

static bool is_welcome(const struct fabric_server *server, int fd, struct ucred *ret_peer)
{
	socklen_t bytes = sizeof(*ret_peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret_peer, &bytes) == 0 &&
		ret_peer->uid == geteuid() && server->client_count < SERVER_CLIENTS_MAX;
}

void client_accept(struct fabric_server *server)
{
	int fd = accept4(server->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct client *client;
	struct ucred peer;

	if (fd < 0) {
		fabric_listener_failed(&server->loop, &server->listener, errno);
		return;
	}
	client = is_welcome(server, fd, &peer) ? calloc(1, sizeof(*client)) : NULL;
	if (!client) {
		server->counters.clients_refused++;
		close(fd);
		return;
	}
	client->watch = (struct watch){.kind = WATCH_CLIENT, .fd = fd};
	client->server = server;
	client->pid = peer.pid;
	client->events = client->given = -1;
	list_init(&client->openings);
	list_init(&client->channels);
	list_init(&client->memberships);
	if (server_watch(server, &client->watch, EPOLLIN)) {
		close(fd);
		free(client);
		return;
	}
	list_append(&server->clients, &client->link);
	server->client_count++;
}
