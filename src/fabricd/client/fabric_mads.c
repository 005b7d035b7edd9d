/* SPDX-License-Identifier: BSD-2-Clause */
/* A client's socket of MADs, from and to an opening of a port. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabricd/attach_mad.h"
#include "fabricd/client/fabric_client_internal.h"
#include "os/fd_pass.h"

int fabric_mads_open(struct fabric_client *client, uint32_t port, uint32_t *ret_opening)
{
	struct attach_message message = {.type = ATTACH_MADS_OPEN, .port.number = port};
	int socket;
	int rc = fabric_client_ask(client, &message, &socket, 1);

	if (rc)
		return rc;
	*ret_opening = message.port.opening;
	return socket;
}

int fabric_mads_agent_add(
	struct fabric_client *client, uint32_t opening, struct attach_agent *agent)
{
	struct attach_message message = {.type = ATTACH_AGENT_ADD};
	int rc;

	message.agent.opening = opening;
	message.agent.agent = *agent;
	rc = fabric_client_ask(client, &message, NULL, 0);
	if (rc == 0)
		agent->id = message.agent.agent.id;
	return rc;
}

int fabric_mads_agent_remove(struct fabric_client *client, uint32_t opening, uint32_t id)
{
	struct attach_message message = {.type = ATTACH_AGENT_REMOVE};

	message.agent.opening = opening;
	message.agent.agent.id = id;
	return fabric_client_ask(client, &message, NULL, 0);
}

int fabric_mads_send(int socket, struct attach_mad *mad, const uint8_t *bytes)
{
	return attach_mad_send(socket, mad, bytes, 0);
}

/* Read the length of the oldest MAD, which stays in the socket. */
static int mad_peek(int socket, struct attach_mad *ret_mad)
{
	struct iovec piece = {ret_mad, sizeof(*ret_mad)};
	struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
	ssize_t bytes = recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT);

	if (bytes < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	if (bytes == 0)
		return -EIO;
	return bytes == sizeof(*ret_mad) && ret_mad->mad_bytes <= ATTACH_MAD_BYTES_MAX ? 0
										       : -EPROTO;
}

/* Take a message that is no MAD off the socket. */
static void message_drop(int socket)
{
	uint8_t byte;

	recv(socket, &byte, sizeof(byte), MSG_DONTWAIT);
}

int fabric_mads_receive(int socket, struct attach_mad *ret_mad, uint8_t *bytes, uint32_t room)
{
	int rc = mad_peek(socket, ret_mad);

	if (rc == -EPROTO)
		message_drop(socket);
	if (rc)
		return rc;
	if (ret_mad->mad_bytes > room)
		return -ENOSPC;
	return attach_mad_receive(socket, ret_mad, bytes, room, MSG_DONTWAIT);
}
