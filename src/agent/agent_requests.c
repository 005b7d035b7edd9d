/* SPDX-License-Identifier: BSD-2-Clause */
/* The requests that need one exchange with urnicd, and the packets that urnicd passes on. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/agent_exchange.h"

int agent_client_attach(struct agent_client *client, int memory, uint8_t *ret_slot)
{
	struct agent_message message = {.type = AGENT_ATTACH};
	int rc = agent_request(client, &message, &memory, memory >= 0 ? 1 : 0);

	if (rc)
		return rc;
	if (memory >= 0)
		client->memory = memory;
	*ret_slot = (uint8_t)message.attach.slot;
	agent_slots_add(&client->slots, *ret_slot);
	agent_slots_remove(&client->lost, *ret_slot);
	return 0;
}

void agent_client_detach(struct agent_client *client, uint8_t slot)
{
	struct agent_message message = {.type = AGENT_DETACH, .detach.slot = slot};

	if (!agent_slots_has(&client->slots, slot))
		return;
	agent_slots_remove(&client->slots, slot);
	agent_give_back(client, &message);
}

/* Make a request that urnicd answers with a socket. The caller owns the socket. */
static int request_socket(
	struct agent_client *client, struct agent_message *message, int *ret_socket)
{
	struct passed_fds descriptors;
	int rc = agent_exchange_or_resume(client, message, NULL, 0, &descriptors);
	int fd;

	if (rc)
		return rc;
	fd = passed_fds_take(&descriptors, 0);
	passed_fds_close(&descriptors);
	if (fd < 0)
		return agent_client_fail(client, -EMFILE,
			"the socket from urnicd did not arrive: too many open files");
	*ret_socket = fd;
	return 0;
}

int agent_client_open(struct agent_client *client, uint8_t slot,
	const struct agent_address *address, int *ret_socket)
{
	struct agent_message message = {
		.type = AGENT_OPEN,
		.open = {.address = *address, .slot = slot},
	};

	return request_socket(client, &message, ret_socket);
}

int agent_client_forward(
	struct agent_client *client, const struct agent_forward *head, const uint8_t *data)
{
	struct agent_message message = {
		.version = AGENT_VERSION,
		.type = AGENT_FORWARD,
		.forward = *head,
	};

	if (client->fd < 0)
		return -ENOTCONN;
	if (head->data_bytes > AGENT_PACKET_BYTES_MAX)
		return -EMSGSIZE;
	return agent_message_send(client->fd, &message, data, NULL, 0, MSG_DONTWAIT);
}

int agent_client_receive(struct agent_client *client, struct agent_packet *ret_packet)
{
	struct passed_fds descriptors;
	struct agent_message message;
	int rc;

	if (client->fd < 0)
		return -ECONNRESET;
	for (unsigned i = 0; i < ANSWER_MESSAGES_MAX; i++) {
		rc = agent_message_receive(
			client->fd, false, &message, ret_packet->data, &descriptors, MSG_DONTWAIT);
		if (rc == -EAGAIN)
			return rc;
		if (rc)
			return -ECONNRESET;
		client->is_silent = false;
		passed_fds_close(&descriptors);
		if (message.type == AGENT_FORWARD) {
			ret_packet->head = message.forward;
			return 0;
		}
		agent_late_answer(client, &message);
	}
	return -EAGAIN;
}

void agent_process_found(const struct agent_message *answer, struct passed_fds *descriptors,
	struct agent_process *ret_process)
{
	*ret_process = (struct agent_process){
		.pid = answer->find.pid,
		.uid = answer->find.uid,
		.memory = passed_fds_take(descriptors, 0),
	};
	passed_fds_close(descriptors);
}

int agent_client_list(
	struct agent_client *client, uint32_t *index, struct agent_process *ret_process)
{
	struct agent_message message = {.type = AGENT_LIST, .list.index = *index};
	struct passed_fds descriptors;
	int rc = agent_exchange_or_resume(client, &message, NULL, 0, &descriptors);

	if (rc)
		return rc;
	*index = message.list.index;
	*ret_process = (struct agent_process){
		.pid = message.list.pid,
		.uid = message.list.uid,
		.slots = message.list.slots,
		.memory = passed_fds_take(&descriptors, 0),
	};
	memcpy(ret_process->comm, message.list.comm, sizeof(ret_process->comm));
	passed_fds_close(&descriptors);
	return 0;
}

int agent_client_find(struct agent_client *client, uint8_t slot, struct agent_process *ret_process)
{
	struct agent_message message = {.type = AGENT_FIND, .find.slot = slot};
	struct passed_fds descriptors;
	int rc;

	/*
	 * A peer's queue pair number may have slot 0. urnicd disconnects a client that asks for
	 * slot 0, because no legal request names it.
	 */
	if (!slot)
		return agent_client_fail(client, -ENOENT, "slot 0 is urnicd's own");
	rc = agent_exchange_or_resume(client, &message, NULL, 0, &descriptors);
	if (rc)
		return rc;
	agent_process_found(&message, &descriptors, ret_process);
	return 0;
}

int agent_client_stat(struct agent_client *client, struct agent_counters *ret_counters)
{
	struct agent_message message = {.type = AGENT_STAT};
	int rc = agent_request(client, &message, NULL, 0);

	if (!rc)
		*ret_counters = message.stat;
	return rc;
}

int agent_client_gsi_open(struct agent_client *client, uint8_t slot, int *ret_socket)
{
	struct agent_message message = {.type = AGENT_GSI_OPEN, .gsi_open.slot = slot};

	return request_socket(client, &message, ret_socket);
}

int agent_client_gsi_address(struct agent_client *client, const struct agent_address *address)
{
	struct agent_message message = {.type = AGENT_GSI_ADDRESS, .gsi_address.address = *address};

	return agent_request(client, &message, NULL, 0);
}
