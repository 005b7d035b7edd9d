/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports that clients have opened for MADs, as by Linux umad: agents, sending, receiving. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arith.h"
#include "fabricd/attach_mad.h"
#include "fabricd/server/server_internal.h"

enum {
	MESSAGE_ROOM_MIN = 2 * ATTACH_MAD_BYTES_INLINE,
	MADS_PER_TURN = 64, /* from one client */
};

/* A MAD for which the client's socket had no room. */
struct waiting_mad {
	struct list link;
	struct attach_mad mad;
	uint8_t bytes[];
};

/* --- to the client --- */

static void opening_rearm(struct opening *opening)
{
	uint32_t events = EPOLLIN | (list_is_empty(&opening->waiting) ? 0 : EPOLLOUT);

	if (events != opening->watch.events)
		server_watch(opening->client->server, &opening->watch, events);
}

static void waiting_free(struct opening *opening, struct waiting_mad *waiting)
{
	opening->waiting_bytes -= waiting->mad.mad_bytes;
	list_remove(&waiting->link);
	free(waiting);
}

static void waiting_send(struct opening *opening)
{
	list_for_each_safe(waiting, &opening->waiting, struct waiting_mad, link) {
		int rc = attach_mad_send(
			opening->watch.fd, &waiting->mad, waiting->bytes, MSG_DONTWAIT);

		if (rc == -EAGAIN)
			break;
		waiting_free(opening, waiting);
	}
	opening_rearm(opening);
}

static void mad_wait(struct opening *opening, const struct attach_mad *mad, const uint8_t *bytes)
{
	struct waiting_mad *waiting = opening->waiting_bytes + mad->mad_bytes > OPENING_BYTES_MAX
		? NULL
		: malloc(sizeof(*waiting) + mad->mad_bytes);

	if (!waiting) {
		opening->client->server->counters.mads_dropped++;
		return;
	}
	waiting->mad = *mad;
	memcpy(waiting->bytes, bytes, mad->mad_bytes);
	list_append(&opening->waiting, &waiting->link);
	opening->waiting_bytes += mad->mad_bytes;
	opening_rearm(opening);
}

static void mad_take(struct agent_owner *owner, const struct mad_address *peer, int status,
	const uint8_t *bytes, uint32_t count)
{
	struct opening_agent *agent = container_of(owner, struct opening_agent, owner);
	struct opening *opening = agent->opening;
	struct attach_mad mad = {.agent = agent->id,
		.status = (uint32_t)status,
		.mad_bytes = count,
		.qpn = peer->qpn,
		.qkey = peer->qkey,
		.lid = peer->lid,
		.pkey_index = peer->pkey_index,
		.sl = peer->sl,
		.path_bits = peer->path_bits,
		.has_grh = peer->has_grh,
		.gid_index = peer->gid_index,
		.hop_limit = peer->hop_limit,
		.traffic_class = peer->traffic_class,
		.flow_label = peer->flow_label,
		.gid = peer->gid};

	if (opening->is_ended)
		return;
	if (list_is_empty(&opening->waiting) &&
		attach_mad_send(opening->watch.fd, &mad, bytes, MSG_DONTWAIT) == 0)
		return;
	mad_wait(opening, &mad, bytes);
}

/* --- from the client --- */

static bool message_reserve(struct fabric_server *server, uint32_t bytes)
{
	uint8_t *message;

	if (bytes <= server->message_room)
		return true;
	message = realloc(server->message, bytes);
	if (!message)
		return false;
	server->message = message;
	server->message_room = bytes;
	return true;
}

/* How much room does the next MAD need? Returns 0 or -errno; -EAGAIN: there is none. */
static int mad_measure(struct opening *opening, uint32_t *ret_bytes)
{
	struct attach_mad mad;
	ssize_t bytes = recv(opening->watch.fd, &mad, sizeof(mad), MSG_PEEK | MSG_DONTWAIT);

	if (bytes < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	*ret_bytes = MESSAGE_ROOM_MIN;
	if (bytes == sizeof(mad) && mad.is_in_memfd && mad.mad_bytes <= ATTACH_MAD_BYTES_MAX &&
		mad.mad_bytes > MESSAGE_ROOM_MIN)
		*ret_bytes = mad.mad_bytes;
	return 0;
}

static void mad_send(struct opening *opening, const struct attach_mad *mad)
{
	struct fabric_server *server = opening->client->server;
	struct opening_agent *agent =
		mad->agent < AGENTS_PER_OPENING_MAX ? opening->agents[mad->agent] : NULL;
	const struct mad_address to = {.qpn = mad->qpn,
		.qkey = mad->qkey,
		.lid = mad->lid,
		.pkey_index = mad->pkey_index,
		.sl = mad->sl & 15,
		.path_bits = mad->path_bits & 127,
		.has_grh = mad->has_grh,
		.gid_index = mad->gid_index,
		.hop_limit = mad->hop_limit,
		.traffic_class = mad->traffic_class,
		.flow_label = mad->flow_label,
		.gid = mad->gid};

	if (!agent ||
		mad_agent_send(agent->agent, &to, server->message, mad->mad_bytes, mad->timeout_ms,
			mad->retries, server->now_ns) != 0)
		server->counters.mads_malformed++;
	server_arrivals_run(server);
}

/* Receive a MAD of the client, and send it. Returns false when the client has closed its end. */
static bool mad_receive(struct opening *opening, bool *ret_is_more)
{
	struct fabric_server *server = opening->client->server;
	struct attach_mad mad = {0};
	uint32_t bytes = 0;
	int rc = mad_measure(opening, &bytes);

	*ret_is_more = false;
	if (rc == 0 && !message_reserve(server, bytes))
		rc = -ENOMEM;
	if (rc == 0)
		rc = attach_mad_receive(opening->watch.fd, &mad, server->message,
			server->message_room, MSG_DONTWAIT);
	if (rc == -EAGAIN || rc == -ENOMEM)
		return true;
	if (rc == -EPROTO || rc == -EMSGSIZE)
		server->counters.mads_malformed++;
	else if (rc)
		return false;
	else
		mad_send(opening, &mad);
	*ret_is_more = true;
	return true;
}

void opening_event(struct opening *opening, uint32_t events)
{
	bool is_more = true;

	if (opening->is_ended)
		return;
	if (events & EPOLLOUT)
		waiting_send(opening);
	for (unsigned i = 0; is_more && i < MADS_PER_TURN; i++)
		if (!mad_receive(opening, &is_more)) {
			opening_end(opening);
			return;
		}
}

/* --- openings and agents --- */

int opening_create(struct client *client, struct server_port *port, uint32_t *ret_id)
{
	struct opening *opening;
	int pair[2];
	int rc = server_port_mads(port);

	if (rc)
		return rc;
	if (client->opening_count == OPENINGS_PER_CLIENT_MAX)
		return -EMFILE;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	opening = calloc(1, sizeof(*opening));
	if (!opening) {
		rc = -ENOMEM;
		goto fail_close;
	}
	opening->watch = (struct watch){.kind = WATCH_OPENING, .fd = pair[0]};
	opening->client = client;
	opening->port = port;
	opening->id = ++client->opening_serial;
	list_init(&opening->waiting);
	rc = server_watch(client->server, &opening->watch, EPOLLIN);
	if (rc)
		goto fail_free;
	list_append(&client->openings, &opening->link);
	client->opening_count++;
	*ret_id = opening->id;
	return pair[1];
fail_free:
	free(opening);
fail_close:
	close(pair[0]);
	close(pair[1]);
	return rc;
}

static void agent_destroy(struct opening_agent *agent)
{
	agent->opening->agents[agent->id] = NULL;
	mad_agent_remove(agent->agent);
	free(agent);
}

void opening_end(struct opening *opening)
{
	if (opening->is_ended)
		return;
	opening->is_ended = true;
	for (uint32_t i = 0; i < AGENTS_PER_OPENING_MAX; i++)
		if (opening->agents[i])
			agent_destroy(opening->agents[i]);
	list_for_each_safe(waiting, &opening->waiting, struct waiting_mad, link)
		waiting_free(opening, waiting);
	server_unwatch(opening->client->server, &opening->watch);
	close(opening->watch.fd);
	opening->client->opening_count--;
	list_remove(&opening->link);
	list_append(&opening->client->server->ended_openings, &opening->link);
}

void opening_free(struct opening *opening)
{
	list_remove(&opening->link);
	free(opening);
}

static struct opening *opening_find(struct client *client, uint32_t id)
{
	list_for_each(opening, &client->openings, struct opening, link)
		if (opening->id == id)
			return opening;
	return NULL;
}

static uint32_t agent_id_unused(const struct opening *opening)
{
	uint32_t id = 0;

	while (id < AGENTS_PER_OPENING_MAX && opening->agents[id])
		id++;
	return id;
}

int opening_agent_add(struct client *client, uint32_t id, struct attach_agent *agent)
{
	struct opening *opening = opening_find(client, id);
	const struct mad_agent_spec spec = {.management_class = agent->management_class,
		.class_version = agent->class_version,
		.has_rmpp = agent->rmpp_version == 1,
		.qpn = agent->qpn,
		.oui = {agent->oui[0], agent->oui[1], agent->oui[2]},
		.method_mask = {agent->method_mask[0], agent->method_mask[1]}};
	struct opening_agent *added;
	int rc;

	if (!opening || agent->rmpp_version > 1)
		return -EINVAL;
	agent->id = agent_id_unused(opening);
	if (agent->id == AGENTS_PER_OPENING_MAX)
		return -ENOMEM;
	added = calloc(1, sizeof(*added));
	if (!added)
		return -ENOMEM;
	*added =
		(struct opening_agent){.owner.take = mad_take, .opening = opening, .id = agent->id};
	rc = mad_agent_add(opening->port->mads, &spec, &added->owner, &added->agent);
	if (rc)
		free(added);
	else
		opening->agents[agent->id] = added;
	return rc;
}

int opening_agent_remove(struct client *client, uint32_t id, uint32_t agent)
{
	struct opening *opening = opening_find(client, id);

	if (!opening || agent >= AGENTS_PER_OPENING_MAX || !opening->agents[agent])
		return -EINVAL;
	agent_destroy(opening->agents[agent]);
	return 0;
}
