/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The answer to each message. A handler gets the request and turns it into the answer; it returns
 * 0, a negative errno with a sentence in `why`, or LATER.
 */
#include "urnicd/requests.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arith.h"
#include "netdev/netdev.h"
#include "port/address.h"
#include "urnicd/event_log.h"
#include "urnicd/fd_store.h"
#include "urnicd/fd_store_adopt.h"
#include "urnicd/port_holder.h"
#include "urnicd/privilege.h"
#include "urnicd/quota.h"
#include "wire/cm_message.h"

/* Not a result: the request can only be answered when the server has settled. */
enum { LATER = 1 };

enum {
	GSI_BUFFER_BYTES = 4 << 20, /* of packets for QP1 that a process has not read yet */
	SURVIVOR_MS = 10000, /* in which those who outlived an urnicd say what they have */
};

struct request {
	struct server *server;
	struct client *client;
	struct agent_message message;
	struct passed_fds descriptors; /* that came; closed after the handler */
	int answer_fd; /* to go with the answer, or -1 */
	bool is_answer_fd_ours; /* and to be closed then */
};

__attribute__((format(printf, 3, 4))) static int request_refuse(
	struct request *request, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(request->message.why, sizeof(request->message.why), format, arguments);
	va_end(arguments);
	return error;
}

/* `why`: from quota_is_reached(). */
static int refuse_quota(struct request *request, const char *why)
{
	request->server->counters.quota_refused++;
	return request_refuse(request, -EDQUOT, "%s", why);
}

/* The body of the answer, all zero. */
static struct agent_message *answer_begin(struct request *request)
{
	memset(request->message.why, 0, sizeof(request->message.why));
	return &request->message;
}

static int handle_hello(struct request *request)
{
	struct server *server = request->server;
	struct agent_message *message = answer_begin(request);

	message->hello.pid = (uint32_t)getpid();
	message->hello.is_system = server->is_system;
	/* Who has the fd store can read everybody's packets. */
	if (request->client->uid == geteuid())
		request->answer_fd = server->fd_store;
	request->client->is_greeted = true;
	return 0;
}

/*
 * Remember the memfd that came at `index`, in place of an earlier one. Returns false if it is none.
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

	/* Without it a slot is merely easier to guess. */
	if (getrandom(&value, sizeof(value), GRND_NONBLOCK) != sizeof(value))
		value = (uint32_t)(server_now_ms() * 0x9e3779b1u >> 8);
	return value;
}

static int handle_attach(struct request *request)
{
	struct server *server = request->server;
	struct client *client = request->client;
	char why[AGENT_WHY_BYTES];
	bool is_full;
	int slot;

	if (!take_memory(request, 0))
		return request_refuse(
			request, -EINVAL, "the descriptor of NIC memory is not a memfd");
	if (server->has_survivors && !server_is_settled(server))
		return LATER;
	is_full = quota_is_reached(server, client->uid, QUOTA_SLOTS, why, sizeof(why));
	slot = slot_take(&server->slots, (uint32_t)(client - server->clients), client->uid,
		!is_full, random_u32(), server_now_ms());
	if (slot < 0 && is_full)
		return refuse_quota(request, why);
	if (slot < 0)
		return request_refuse(request, slot,
			"all %d slots are in use: `urnic stat` shows by whom", AGENT_SLOTS - 1);
	/* An orphan's sockets are still open: they begin empty when this process opens them. */
	server_clear_slot(server, (uint8_t)slot);
	server_note_lease(server, (uint8_t)slot);
	agent_slots_add(&client->slots, (uint8_t)slot);
	server->counters.slots_leased++;
	answer_begin(request)->attach.slot = (uint32_t)slot;
	return 0;
}

static int handle_detach(struct request *request)
{
	uint8_t slot = (uint8_t)request->message.detach.slot;

	if (!agent_slots_has(&request->client->slots, slot))
		return request_refuse(
			request, -EINVAL, "slot %u is not leased to this process", slot);
	agent_slots_remove(&request->client->slots, slot);
	server_release_slot(request->server, slot);
	answer_begin(request);
	return 0;
}

/* Why a group could not grow, for the user. */
static int refuse_open(struct request *request, const struct agent_address *address, int rc)
{
	char text[ADDRESS_TEXT_BYTES];

	gid_to_text(&address->gid, address->scope_ifindex, text);
	switch (-rc) {
	case EADDRINUSE:
		if (group_has_survivors(address))
			return request_refuse(request, rc,
				"UDP port 4791 of %s belongs to an urnicd that has died, and a "
				"program that still uses it does not answer (stopped?): end it",
				text);
		port_holder_describe(address, request->message.why, sizeof(request->message.why));
		return rc;
	case EADDRNOTAVAIL:
		return request_refuse(
			request, rc, "%s is not an address of this host, or not usable yet", text);
	case EMFILE:
	case ENFILE:
		return request_refuse(request, rc,
			"urnicd may not open enough sockets for %s: raise the limit on open files",
			text);
	case EUSERS:
		return request_refuse(request, rc,
			"urnicd serves its maximum of %d addresses: end programs on "
			"others",
			SERVER_GROUPS_MAX);
	case ENOSPC:
		return request_refuse(request, rc,
			"urnicd has as many sockets open as the limit on open files lets it share");
	default:
		return request_refuse(
			request, rc, "cannot open UDP port 4791 of %s: %s", text, strerror(-rc));
	}
}

/* Sockets in the fd store count against all of a user's programs that pass descriptors. */
static bool has_room(
	const struct server *server, const struct group *group, uint8_t slot, uid_t uid)
{
	uint32_t sockets = server_group_missing(server, group, slot, uid);

	for (uint32_t i = 0; i < server->group_count; i++)
		sockets += server->groups[i].count;
	return sockets <= server->sockets_max;
}

/*
 * The group of an address, where a slot may have a socket more. Returns 0 or an error with its
 * sentence.
 */
static int group_for(struct request *request, const struct agent_address *address, uint8_t slot,
	struct group **ret_group)
{
	struct server *server = request->server;
	uid_t uid = request->client->uid;
	struct group *group = server_group(server, address);
	char why[AGENT_WHY_BYTES];

	if (!group)
		return refuse_open(request, address, -EUSERS);
	if (!has_room(server, group, slot, uid) &&
		(server_drop_groups(server) == 0 || !has_room(server, group, slot, uid)))
		return refuse_open(request, address, -ENOSPC);
	if (server->is_system && group->count == 0 && !server_address_lasts(address)) {
		server_drop_groups(server);
		if (quota_is_reached(server, uid, QUOTA_GROUPS, why, sizeof(why)))
			return refuse_quota(request, why);
	}
	*ret_group = group;
	return 0;
}

/* A member would let its holder have every user's packets. */
static int open_channel(struct request *request, struct group *group, uint8_t slot)
{
	struct server *server = request->server;
	const struct fd_store_label label = {
		.version = AGENT_VERSION,
		.kind = FD_STORE_CHANNEL,
		.address = group->address,
		.first = slot,
		.count = 1,
	};
	char why[AGENT_WHY_BYTES];
	int ours, theirs, rc;

	if (quota_is_reached(server, request->client->uid, QUOTA_CHANNELS, why, sizeof(why)))
		return refuse_quota(request, why);
	rc = relay_open(
		server->relay, &group->address, slot, group_socket(group, slot), &ours, &theirs);

	if (rc == -ENOSPC)
		return request_refuse(
			request, rc, "all %d channels of urnicd are in use", RELAY_CHANNELS_MAX);
	if (rc)
		return request_refuse(request, rc, "cannot make a channel: %s", strerror(-rc));
	if (fd_store_put(server->fd_store, &label, &ours) != 0)
		log_line(
			"the fd store is full: a channel would not survive the end of this urnicd");
	group_admit(group, slot, group_is_barred(group, slot));
	answer_begin(request);
	request->answer_fd = theirs;
	request->is_answer_fd_ours = true;
	return 0;
}

static int handle_open(struct request *request)
{
	struct server *server = request->server;
	struct agent_address address = request->message.open.address;
	uint8_t slot = (uint8_t)request->message.open.slot;
	struct group *group;
	uid_t uid = request->client->uid;
	int rc;

	if (!agent_slots_has(&request->client->slots, slot))
		return request_refuse(
			request, -EINVAL, "slot %u is not leased to this process", slot);
	if (!gid_is_link_local(&address.gid))
		address.scope_ifindex = 0;
	rc = group_for(request, &address, slot, &group);
	if (rc)
		return rc;
	rc = server_group_assign(server, group, slot, uid);
	/* The port may be in the hands of a survivor that is about to bring it. */
	if (rc == -EADDRINUSE && !server_is_settled(server))
		return LATER;
	if (rc)
		return refuse_open(request, &address, rc);
	if (!server_gives_members(server, uid))
		return open_channel(request, group, slot);
	group_admit(group, slot, group_is_barred(group, slot));
	group_give(group, slot);
	server_note_group(server, group);
	answer_begin(request);
	request->answer_fd = group_socket(group, slot);
	return 0;
}

static int handle_resume(struct request *request)
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
	/* Another user could label sockets as it likes. */
	if (has_fd_store && client->uid == geteuid())
		fd_store_adopt(server, request->descriptors.fds[0]);
	message = answer_begin(request);
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
		server->counters.slots_resumed++;
	}
	return 0;
}

/* Its memory goes with the answer, if the client may look into it. Returns whether it does. */
static bool show_memory(struct request *request, const struct client *found)
{
	bool is_shown = found->memory >= 0 &&
		(found->uid == request->client->uid || request->client->uid == 0);

	if (is_shown)
		request->answer_fd = found->memory;
	return is_shown;
}

static int handle_list(struct request *request)
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
	message = answer_begin(request);
	message->list.index = index + 1;
	message->list.pid = (uint32_t)found->pid;
	message->list.uid = found->uid;
	memcpy(message->list.comm, found->comm, sizeof(found->comm));
	message->list.slots = found->slots;
	message->list.has_memory = show_memory(request, found);
	return 0;
}

static int handle_find(struct request *request)
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
	if (lease->state != SLOT_LEASED && server->has_survivors && !server_is_settled(server))
		return LATER;
	if (lease->state != SLOT_LEASED)
		return request_refuse(request, -ENOENT, "no process leases slot %u", slot);
	message = answer_begin(request);
	message->find.pid = (uint32_t)found->pid;
	message->find.uid = found->uid;
	message->find.has_memory = show_memory(request, found);
	return 0;
}

static int handle_stat(struct request *request)
{
	struct server *server = request->server;

	server->counters.claims_held = server->claims.count;
	if (server->relay)
		relay_count_up(server->relay, &server->counters);
	answer_begin(request)->stat = server->counters;
	return 0;
}

/*
 * The client's end of a new socket pair goes with the answer; ours is where packets for QP1 go. One
 * that the client had before is closed.
 */
static int handle_gsi_open(struct request *request)
{
	const int bytes = GSI_BUFFER_BYTES;
	struct client *client = request->client;
	uint8_t slot = (uint8_t)request->message.gsi_open.slot;
	int fds[2];

	if (!agent_slots_has(&client->slots, slot))
		return request_refuse(
			request, -EINVAL, "slot %u is not leased to this process", slot);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
		return request_refuse(
			request, -errno, "cannot make a socket pair: %s", strerror(errno));
	/* As large as we are allowed to: a thousand connections may be made at once. */
	if (setsockopt(fds[0], SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)))
		setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	if (client->gsi >= 0)
		close(client->gsi);
	client->gsi = fds[0];
	answer_begin(request);
	request->answer_fd = fds[1];
	request->is_answer_fd_ours = true;
	return 0;
}

static int handle_gsi_address(struct request *request)
{
	struct server *server = request->server;
	struct agent_address address = request->message.gsi_address.address;
	struct group *group;
	int rc;

	if (!gid_is_link_local(&address.gid))
		address.scope_ifindex = 0;
	rc = group_for(request, &address, 0, &group);
	if (rc)
		return rc;
	rc = server_group_assign(server, group, 0, request->client->uid);
	if (rc == -EADDRINUSE && !server_is_settled(server))
		return LATER;
	if (rc)
		return refuse_open(request, &address, rc);
	answer_begin(request);
	return 0;
}

/*
 * What a process had claimed before urnicd died it has still, though it may have dropped its
 * privileges.
 */
static bool may_claim_low_ports(const struct server *server, const struct client *client)
{
	return (client->is_survivor && server_now_ms() < server->started_at_ms + SURVIVOR_MS) ||
		privilege_has_low_ports(client->pid, client->uid, client->pidfd);
}

static int handle_claim(struct request *request)
{
	struct server *server = request->server;
	const struct claim wanted = {
		.client = (uint32_t)(request->client - server->clients),
		.id = request->message.claim.id,
		.service_id = request->message.claim.service_id,
		.address = request->message.claim.address,
		.flags = request->message.claim.flags,
		.made_ms = server_now_ms(),
	};
	uint16_t port = ip_cm_service_port(wanted.service_id);
	uint32_t before = server->claims.count;
	char why[AGENT_WHY_BYTES];
	uint64_t service_id;
	bool is_new;
	int rc;

	if (server->has_survivors && !server_is_settled(server))
		return LATER;
	is_new = !claim_table_has(&server->claims, wanted.client, wanted.id);
	if (is_new && port && port < PRIVILEGED_PORTS &&
		!may_claim_low_ports(server, request->client))
		return request_refuse(request, -EACCES,
			"port %u is below %d: it needs CAP_NET_BIND_SERVICE in the user namespace "
			"that owns the network namespace",
			port, PRIVILEGED_PORTS);
	if (is_new &&
		quota_is_reached(server, request->client->uid, QUOTA_CLAIMS, why, sizeof(why)))
		return refuse_quota(request, why);
	rc = claim_table_put(&server->claims, &wanted, &service_id);
	if (rc) {
		server->counters.claims_refused++;
		return request_refuse(request, rc,
			rc == -ENOSPC ? "all ports are in use"
				      : "another program has port %u already",
			(unsigned)(uint16_t)wanted.service_id);
	}
	request->client->claims += server->claims.count - before;
	server->counters.claims_made++;
	answer_begin(request)->claim.service_id = service_id;
	return 0;
}

static int handle_unclaim(struct request *request)
{
	struct server *server = request->server;
	uint32_t before = server->claims.count;

	claim_table_drop(&server->claims, (uint32_t)(request->client - server->clients),
		request->message.unclaim.id, server_now_ms());
	request->client->claims -= before - server->claims.count;
	answer_begin(request);
	return 0;
}

/*
 * Pass a packet on. Nobody waits for an answer: what cannot be delivered is lost, as on a network.
 */
static void packet_forward(struct request *request, const uint8_t *packet)
{
	struct server *server = request->server;
	const struct slot_lease *lease = &server->slots.leases[request->message.forward.slot];

	/* One user does not speak in another's name, but for root. */
	if (lease->state != SLOT_LEASED ||
		(lease->uid != request->client->uid && request->client->uid != 0))
		server->counters.packets_unowned++;
	else if (agent_message_send(server->clients[lease->client].fd, &request->message, packet,
			 NULL, 0, MSG_DONTWAIT) != 0)
		server->counters.packets_blocked++;
	else
		server->counters.packets_forwarded++;
}

static int request_handle(struct request *request)
{
	switch ((enum agent_message_type)request->message.type) {
	case AGENT_HELLO:
		return handle_hello(request);
	case AGENT_ATTACH:
		return handle_attach(request);
	case AGENT_DETACH:
		return handle_detach(request);
	case AGENT_OPEN:
		return handle_open(request);
	case AGENT_RESUME:
		return handle_resume(request);
	case AGENT_LIST:
		return handle_list(request);
	case AGENT_STAT:
		return handle_stat(request);
	case AGENT_GSI_OPEN:
		return handle_gsi_open(request);
	case AGENT_GSI_ADDRESS:
		return handle_gsi_address(request);
	case AGENT_CLAIM:
		return handle_claim(request);
	case AGENT_UNCLAIM:
		return handle_unclaim(request);
	case AGENT_FIND:
		return handle_find(request);
	case AGENT_FORWARD:
		break;
	}
	return -EPROTO;
}

/* Returns false when the client does not take its answer. */
static bool handle_and_answer(struct request *request)
{
	struct client *client = request->client;
	struct agent_message asked = request->message;
	int rc = request_handle(request);

	client->is_waiting = rc == LATER;
	if (rc == LATER) {
		client->waiting = asked;
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

/* The head of our answer is the same in each version, and says which is ours. */
static void refuse_version(struct server *server, struct client *client, uint32_t version)
{
	struct agent_message message = {
		.version = AGENT_VERSION, .type = AGENT_HELLO, .status = EPROTONOSUPPORT};

	agent_message_send(client->fd, &message, NULL, NULL, 0, MSG_DONTWAIT);
	server->counters.clients_faulted++;
	log_line("process %d (%s) is of another version of urnic: its protocol is %u, ours %u",
		client->pid, client->comm, version, AGENT_VERSION);
}

/* Answer whatever an unwanted client asks. Its descriptor is needed for the next one. */
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

/* Who comes from another network namespace is not greeted, as that would give it the fd store. */
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
