/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/gsi.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cm/cm.h"
#include "segment/nic_public.h"
#include "urnicd/lease/event_log.h"
#include "urnicd/server.h"

enum {
	TURNS_MAX = 16, /* batches per call, so that other sockets have their turn */
	LAST_MESSAGES_PER_READ = 64,
};

int gsi_port_open(struct gsi_port *gsi, struct server *server, const struct group *group)
{
	int fd, rc;

	gsi->server = server;
	gsi->group = group;
	gsi->has_logged_refusal = false;
	rc = port_udp_create(0, &gsi->counters, &gsi->port);
	if (rc)
		return rc;
	fd = fcntl(group->sockets[0], F_DUPFD_CLOEXEC, 0);
	rc = fd < 0 ? -errno
		    : port_udp_add_address(
			      gsi->port, &group->address.gid, group->address.scope_ifindex, fd);
	if (rc < 0) {
		gsi_port_close(gsi);
		return rc;
	}
	return 0;
}

void gsi_port_close(struct gsi_port *gsi)
{
	port_udp_destroy(gsi->port);
	gsi->port = NULL;
}

/*
 * May urnicd answer a message for which it knows no listener? After the death of an earlier urnicd,
 * it first gives survivors time to repeat their claims.
 */
static bool may_answer(const struct server *server)
{
	return !server->is_successor ||
		server_now_ms() >= server->started_at_ms + SERVER_SURVIVORS_MS;
}

/* Returns false when the message cannot be sent; it is dropped, as on a network. */
static bool send_message(
	struct gsi_port *gsi, const struct gid *to, const struct cm_message *message)
{
	const struct port_udp_path settings = {.remote = *to};
	uint32_t path, capacity;
	uint8_t *packet;
	bool has_room;

	if (port_udp_path_open(gsi->port, &settings, &path) != 0)
		return false;
	packet = port_udp_buffer(gsi->port, &capacity);
	has_room = capacity >= GSI_PACKET_BYTES;
	if (has_room) {
		gsi_packet_encode(gsi->psn++, packet);
		cm_message_encode(message, packet + GSI_PACKET_BYTES - MAD_BYTES);
		port_udp_stage(gsi->port, path, GSI_PACKET_BYTES);
	}
	/* Closing the path flushes the staged packet. */
	port_udp_path_close(gsi->port, path);
	return has_room;
}

static void answer_send(
	struct gsi_port *gsi, const struct gid *to, const struct cm_message *message)
{
	struct cm_message reply;

	if (may_answer(gsi->server) && cm_answer_unknown(message, &reply) &&
		send_message(gsi, to, &reply))
		gsi->server->counters.gsi_answered++;
	else
		gsi->server->counters.gsi_unanswered++;
}

static struct gsi_port *port_of_address(
	struct server *server, const struct gid *gid, uint32_t ifindex)
{
	for (uint32_t i = 0; i < server->group_count; i++) {
		const struct agent_address *address = &server->groups[i].address;

		if (server->gsi_ports[i].port && gid_is_equal(&address->gid, gid) &&
			(address->scope_ifindex == 0 || address->scope_ifindex == ifindex))
			return &server->gsi_ports[i];
	}
	return NULL;
}

static void last_message_send(struct server *server, const struct cm_last_message *last_message)
{
	struct gsi_port *gsi = port_of_address(server, &last_message->local, last_message->ifindex);
	struct cm_message message;

	if (gsi && cm_last_message_build(last_message, &message) &&
		send_message(gsi, &last_message->remote, &message))
		server->counters.gsi_last_messages++;
}

void gsi_send_last_messages(struct server *server, int memory, const struct agent_slots *slots)
{
	struct cm_last_message last_messages[LAST_MESSAGES_PER_READ];
	struct nic_public directory;
	uint64_t offset;

	if (pread(memory, &directory, sizeof(directory), NIC_PUBLIC_OFFSET) != sizeof(directory) ||
		!nic_public_is_current(&directory))
		return;
	offset = directory.last_messages_offset;
	if (offset == 0 || offset > INT64_MAX - CM_LAST_MESSAGES_MAX * sizeof(last_messages[0]))
		return;
	for (uint32_t i = 0; i < CM_LAST_MESSAGES_MAX; i += LAST_MESSAGES_PER_READ) {
		uint64_t at = offset + i * sizeof(last_messages[0]);

		if (pread(memory, last_messages, sizeof(last_messages), (off_t)at) !=
			sizeof(last_messages))
			return;
		for (uint32_t j = 0; j < LAST_MESSAGES_PER_READ; j++)
			if (agent_slots_has(slots, cm_comm_id_slot(last_messages[j].local_comm_id)))
				last_message_send(server, &last_messages[j]);
	}
}

/* Pass a packet on to a client. Returns false when the client has no socket for QP1. */
static bool pass_on(struct server *server, const struct client *client, uint32_t ifindex,
	const struct port_udp_packet *packet)
{
	const struct agent_message message = {
		.version = AGENT_VERSION,
		.type = AGENT_FORWARD,
		.forward =
			{
				.sgid = *packet->sgid,
				.dgid = *packet->dgid,
				.data_bytes = packet->data_bytes,
				.source_port = packet->source_port,
				.tos = packet->tos,
				.ifindex = ifindex,
			},
	};

	if (client->fd < 0 || client->gsi < 0)
		return false;
	if (agent_message_send(client->gsi, &message, packet->data, NULL, 0, MSG_DONTWAIT) == 0)
		server->counters.gsi_routed++;
	else
		server->counters.gsi_blocked++;
	return true;
}

static const struct client *client_of_slot(const struct server *server, uint8_t slot)
{
	const struct slot_lease *lease = &server->slots.leases[slot];

	return lease->state == SLOT_LEASED ? &server->clients[lease->client] : NULL;
}

/* Returns false when no process takes the message. */
static bool message_route(struct gsi_port *gsi, const struct cm_message *message,
	const struct port_udp_packet *packet)
{
	const struct agent_address address = {
		.gid = cm_request_address(message, packet->dgid, packet->sgid, NULL),
		.scope_ifindex = gsi->group->address.scope_ifindex,
	};
	struct server *server = gsi->server;
	const struct client *client = NULL;
	const struct claim *claim;
	uint64_t service_id = 0;
	uint32_t comm_id = 0;
	uint32_t ifindex = gsi->group->address.scope_ifindex;
	bool is_taken = false;

	switch (cm_route(message, &service_id, &comm_id)) {
	case CM_ROUTE_SERVICE:
		claim = claim_table_listener(&server->claims, service_id, &address);
		client = claim ? &server->clients[claim->client] : NULL;
		if (!claim && claim_table_expects(&server->claims, service_id, server_now_ms())) {
			server->counters.gsi_unanswered++;
			return true;
		}
		break;
	case CM_ROUTE_COMM_ID:
		client = client_of_slot(server, cm_comm_id_slot(comm_id));
		break;
	case CM_ROUTE_ALL:
		for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++)
			is_taken |= pass_on(server, &server->clients[i], ifindex, packet);
		return is_taken;
	}
	return client && pass_on(server, client, ifindex, packet);
}

static bool on_packet(void *context, const struct port_udp_packet *packet)
{
	struct gsi_port *gsi = context;
	const uint8_t *mad = gsi_packet_mad(packet->data, packet->data_bytes);
	struct cm_message message;

	if (!mad || !cm_message_decode(&message, mad)) {
		gsi->server->counters.gsi_malformed++;
		return false;
	}
	if (!message_route(gsi, &message, packet))
		answer_send(gsi, packet->sgid, &message);
	return false;
}

/* Log the port's first refused system call, once. */
static void refusal_log(struct gsi_port *gsi)
{
	const struct port_udp_refusal *refusal = port_udp_refusal(gsi->port);

	if (!refusal->call || gsi->has_logged_refusal)
		return;
	gsi->has_logged_refusal = true;
	log_line("messages to and from QP1 are lost: %s: %s", refusal->call,
		strerror(refusal->error));
}

void gsi_port_receive(struct gsi_port *gsi)
{
	if (!gsi->port)
		return;
	for (unsigned i = 0; i < TURNS_MAX; i++) {
		unsigned datagrams = port_udp_receive(gsi->port, on_packet, gsi);

		gsi->server->counters.datagrams_slot0 += datagrams;
		refusal_log(gsi);
		if (datagrams == 0)
			break;
	}
	port_udp_flush(gsi->port);
}
