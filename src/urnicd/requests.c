/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads a client's message, calls its handler and sends the answer. */
#include "urnicd/request_handlers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netdev/netdev.h"
#include "urnicd/fd_store_adopt.h"
#include "urnicd/lease/event_log.h"

int request_refuse(struct request *request, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(request->message.why, sizeof(request->message.why), format, arguments);
	va_end(arguments);
	return error;
}

int request_check_quota(struct request *request, enum quota what)
{
	if (!quota_is_reached(request->server, request->client->uid, what, request->message.why,
		    sizeof(request->message.why)))
		return 0;
	request->server->counters.quota_refused++;
	return -EDQUOT;
}

int request_check_slot(struct request *request, uint32_t slot)
{
	if (agent_slots_has(&request->client->slots, (uint8_t)slot))
		return 0;
	return request_refuse(request, -EINVAL, "slot %u is not leased to this process", slot);
}

struct agent_message *request_answer(struct request *request)
{
	memset(request->message.why, 0, sizeof(request->message.why));
	return &request->message;
}

int request_handle_hello(struct request *request)
{
	struct server *server = request->server;
	struct agent_message *message = request_answer(request);

	message->hello.pid = (uint32_t)getpid();
	message->hello.is_system = server->is_system;
	/*
	 * A process with the fd store can read all processes' packets, so only urnicd's own user
	 * gets it.
	 */
	if (request->client->uid == geteuid())
		request->answer_fd = server->fd_store;
	request->client->is_greeted = true;
	return 0;
}

/*
 * Store the client's memfd, the descriptor at `index`, in place of an earlier one. Returns false if
 * the descriptor is no memfd.
 */
static bool take_memory(struct request *request, uint32_t index)
{
	struct client *client = request->client;
	int fd = passed_fds_take(&request->descriptors, index);

	if (fd < 0)
		return true;
	if (fcntl(fd, F_GET_SEALS) < 0) {
		close(fd);
		return false;
	}
	if (client->memory >= 0)
		close(client->memory);
	client->memory = fd;
	return true;
}

static uint32_t random_u32(void)
{
	uint32_t value;

	/* Without random numbers a slot is merely easier to guess. */
	if (getrandom(&value, sizeof(value), GRND_NONBLOCK) != sizeof(value))
		value = (uint32_t)(server_now_ms() * 0x9e3779b1u >> 8);
	return value;
}

int request_handle_attach(struct request *request)
{
	struct server *server = request->server;
	struct client *client = request->client;
	bool is_full;
	int slot;

	if (!take_memory(request, 0))
		return request_refuse(
			request, -EINVAL, "the descriptor of NIC memory is not a memfd");
	if (server->has_survivors && !server_has_waited(server))
		return REQUEST_LATER;
	is_full = quota_is_reached(server, client->uid, QUOTA_SLOTS, request->message.why,
		sizeof(request->message.why));
	slot = slot_take(&server->slots, (uint32_t)(client - server->clients), client->uid,
		!is_full, random_u32(), server_now_ms());
	if (slot < 0 && is_full) {
		server->counters.quota_refused++;
		return -EDQUOT;
	}
	if (slot < 0)
		return request_refuse(request, slot,
			"all %d slots are in use: `urnic stat` shows by whom", AGENT_SLOTS - 1);
	/* An orphan's sockets are still open: bar them, so that this process finds them empty. */
	server_clear_slot(server, (uint8_t)slot);
	server_note_lease(server, (uint8_t)slot);
	agent_slots_add(&client->slots, (uint8_t)slot);
	server->counters.slots_leased++;
	request_answer(request)->attach.slot = (uint32_t)slot;
	return 0;
}

int request_handle_detach(struct request *request)
{
	uint8_t slot = (uint8_t)request->message.detach.slot;
	int rc = request_check_slot(request, slot);

	if (rc)
		return rc;
	agent_slots_remove(&request->client->slots, slot);
	server_release_slot(request->server, slot);
	request_answer(request);
	return 0;
}

int request_handle_resume(struct request *request)
{
	struct server *server = request->server;
	struct client *client = request->client;
	struct agent_slots wanted = request->message.resume.slots;
	bool has_fd_store = request->message.resume.has_fd_store;
	struct agent_message *message;

	if (request->descriptors.count != has_fd_store + request->message.resume.has_memory ||
		!take_memory(request, has_fd_store))
		return request_refuse(
			request, -EINVAL, "the descriptors are not those that were announced");
	/*
	 * Use only an fd store of urnicd's own user: another user could have forged the labels in
	 * it.
	 */
	if (has_fd_store && client->uid == geteuid())
		fd_store_adopt(server, request->descriptors.fds[0]);
	message = request_answer(request);
	for (unsigned slot = 1; slot < AGENT_SLOTS; slot++) {
		if (!agent_slots_has(&wanted, (uint8_t)slot))
			continue;
		if (!slot_resume(&server->slots, (uint8_t)slot,
			    (uint32_t)(client - server->clients), client->uid)) {
			server->counters.slots_lost++;
			continue;
		}
		server_note_lease(server, (uint8_t)slot);
		agent_slots_add(&client->slots, (uint8_t)slot);
		agent_slots_add(&message->resume.slots, (uint8_t)slot);
		client->is_survivor = true;
		client->had_low_port |= server->slots.leases[slot].has_low_port;
		server->counters.slots_resumed++;
	}
	return 0;
}

/* Pass the memory of `found` with the answer, if the client may read it. Returns whether it may. */
static bool show_memory(struct request *request, const struct client *found)
{
	bool is_shown = found->memory >= 0 &&
		(found->uid == request->client->uid || request->client->uid == 0);

	if (is_shown)
		request->answer_fd = found->memory;
	return is_shown;
}

int request_handle_list(struct request *request)
{
	struct server *server = request->server;
	uint32_t index = request->message.list.index;
	const struct client *found;
	struct agent_message *message;

	while (index < SERVER_CLIENTS_MAX &&
		(server->clients[index].fd < 0 || !server->clients[index].is_greeted))
		index++;
	if (index >= SERVER_CLIENTS_MAX)
		return request_refuse(request, -ENOENT, "there are no more processes");
	found = &server->clients[index];
	message = request_answer(request);
	message->list.index = index + 1;
	message->list.pid = (uint32_t)found->pid;
	message->list.uid = found->uid;
	memcpy(message->list.comm, found->comm, sizeof(found->comm));
	message->list.slots = found->slots;
	message->list.has_memory = show_memory(request, found);
	return 0;
}

int request_handle_find(struct request *request)
{
	struct server *server = request->server;
	const struct gid gid = request->message.find.gid;
	uint8_t slot = (uint8_t)request->message.find.slot;
	const struct slot_lease *lease = &server->slots.leases[slot];
	const struct client *found = &server->clients[lease->client];
	struct agent_message *message;

	if (request->client->is_foreign && request->message.find.host != server->host)
		return request_refuse(
			request, -ENOENT, "this network namespace belongs to another host");
	if (!gid_is_zero(&gid) && !netdev_has_address(&gid, 0))
		return request_refuse(
			request, -ENOENT, "the address is not of this network namespace");
	if (lease->state != SLOT_LEASED && server->has_survivors && !server_has_waited(server))
		return REQUEST_LATER;
	if (lease->state != SLOT_LEASED)
		return request_refuse(request, -ENOENT, "no process leases slot %u", slot);
	message = request_answer(request);
	message->find.pid = (uint32_t)found->pid;
	message->find.uid = found->uid;
	message->find.has_memory = show_memory(request, found);
	return 0;
}

int request_handle_stat(struct request *request)
{
	struct server *server = request->server;

	server->counters.claims_held = server->claims.count;
	if (server->relay)
		relay_count_up(server->relay, &server->counters);
	request_answer(request)->stat = server->counters;
	return 0;
}

/*
 * Pass a packet on, without an answer. If that fails the packet is dropped, as on a network.
 */
static void packet_forward(struct request *request, const uint8_t *packet)
{
	struct server *server = request->server;
	const struct slot_lease *lease = &server->slots.leases[request->message.forward.slot];

	/* Only root may send packets to another user's process. */
	if (lease->state != SLOT_LEASED ||
		(lease->uid != request->client->uid && request->client->uid != 0))
		server->counters.packets_unowned++;
	else if (agent_message_send(server->clients[lease->client].fd, &request->message, packet,
			 NULL, 0, MSG_DONTWAIT) != 0)
		server->counters.packets_blocked++;
	else
		server->counters.packets_forwarded++;
}

/* Never called, because request_receive() itself passes packets on. */
int request_handle_forward(struct request *request)
{
	(void)request;
	return -EPROTO;
}

static int (*const handlers[])(struct request *request) = {
#define AGENT_MESSAGE(NAME, name, number, descriptors, sentence) [number] = request_handle_##name,
#include "agent/agent_messages.def"
#undef AGENT_MESSAGE
};

/*
 * Handle the request and send the answer. Returns false when the client does not read its answer.
 */
static bool handle_and_answer(struct request *request)
{
	struct client *client = request->client;
	struct agent_message original = request->message;
	int rc = handlers[request->message.type](request);

	client->is_waiting = rc == REQUEST_LATER;
	if (rc == REQUEST_LATER) {
		client->waiting = original;
		passed_fds_close(&request->descriptors);
		return true;
	}
	passed_fds_close(&request->descriptors);
	request->message.status = -rc;
	if (rc && rc != -ENOENT)
		log_line("process %d (%s): %s", client->pid, client->comm, request->message.why);
	rc = agent_message_send(client->fd, &request->message, NULL, &request->answer_fd,
		request->answer_fd >= 0 ? 1 : 0, MSG_DONTWAIT);
	if (request->is_answer_fd_ours)
		close(request->answer_fd);
	return rc == 0;
}

/* Refuse a client of another version. It can read the head of the answer, which has our version. */
static void refuse_version(struct server *server, struct client *client, uint32_t version)
{
	struct agent_message message = {
		.version = AGENT_VERSION, .type = AGENT_HELLO, .status = EPROTONOSUPPORT};

	agent_message_send(client->fd, &message, NULL, NULL, 0, MSG_DONTWAIT);
	server->counters.clients_faulted++;
	log_line("process %d (%s) is of another version of urnic: its protocol is %u, ours %u",
		client->pid, client->comm, version, AGENT_VERSION);
}

/*
 * Refuse the request of an unwanted client. The caller then closes the connection, because urnicd
 * needs the descriptor.
 */
static void refuse_unwanted(struct request *request)
{
	struct rlimit files = {0};
	enum quota quota = request->client->is_foreign ? QUOTA_FOREIGN : QUOTA_CONNECTIONS;

	if (request->client->is_over_quota) {
		quota_is_reached(request->server, request->client->uid, quota, request->message.why,
			sizeof(request->message.why));
		request->message.status = EDQUOT;
		agent_message_send(
			request->client->fd, &request->message, NULL, NULL, 0, MSG_DONTWAIT);
		return;
	}
	getrlimit(RLIMIT_NOFILE, &files);
	request_refuse(request, -EMFILE,
		"urnicd (process %d) has reached its limit of %llu open files: end programs, or end it and "
		"raise the limit (ulimit -Hn) of the program that starts it",
		getpid(), (unsigned long long)files.rlim_cur);
	request->message.status = EMFILE;
	agent_message_send(request->client->fd, &request->message, NULL, NULL, 0, MSG_DONTWAIT);
	request->server->counters.clients_refused++;
	log_line("process %d is refused: no descriptors are left", request->client->pid);
}

/*
 * May the client send a message of this type now? A client from another network namespace may not
 * even send HELLO, because the answer has the fd store.
 */
static bool is_in_order(const struct client *client, uint32_t type)
{
	if (client->is_foreign)
		return type == AGENT_FIND;
	return client->is_greeted == (type != AGENT_HELLO);
}

bool request_receive(struct server *server, struct client *client)
{
	struct request request = {.server = server, .client = client, .answer_fd = -1};
	uint8_t packet[AGENT_PACKET_BYTES_MAX];
	bool is_fine;
	int rc = agent_message_receive(
		client->fd, true, &request.message, packet, &request.descriptors, MSG_DONTWAIT);

	if (rc == -EAGAIN)
		return true;
	if (rc == -ECONNRESET)
		return false;
	if (rc == -EPROTONOSUPPORT) {
		refuse_version(server, client, request.message.version);
		return false;
	}
	if (rc == 0 && (client->is_unwanted || client->is_over_quota)) {
		passed_fds_close(&request.descriptors);
		refuse_unwanted(&request);
		return false;
	}
	if (rc == 0 && request.message.type == AGENT_FORWARD && client->is_greeted) {
		packet_forward(&request, packet);
		return true;
	}
	is_fine = rc == 0 && is_in_order(client, request.message.type);
	if (is_fine)
		is_fine = handle_and_answer(&request);
	else if (rc == 0)
		passed_fds_close(&request.descriptors);
	if (!is_fine) {
		server->counters.clients_faulted++;
		log_line("process %d (%s) is disconnected: its message is not of urnicd's protocol",
			client->pid, client->comm);
	}
	return is_fine;
}

bool request_retry(struct server *server, struct client *client)
{
	struct request request = {
		.server = server, .client = client, .message = client->waiting, .answer_fd = -1};

	return handle_and_answer(&request);
}
