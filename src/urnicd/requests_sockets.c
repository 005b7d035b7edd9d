/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests for sockets: the receive socket of a slot, a channel in its place, and QP1. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "port/address.h"
#include "port/socket.h"
#include "urnicd/lease/event_log.h"
#include "urnicd/lease/fd_store.h"
#include "urnicd/port_holder.h"
#include "urnicd/request_handlers.h"

enum { GSI_BUFFER_BYTES = 4 << 20 /* for packets to QP1 that a process has not read yet */ };

/* Tell the user why urnicd could not open another socket of this address. Returns `rc`. */
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

/*
 * May urnicd open the sockets that the slot needs? A program cannot pass a descriptor while more
 * descriptors of its user are in messages than the program may open. Sockets in the fd store are in
 * messages, so urnicd limits their number.
 */
static bool has_room(
	const struct server *server, const struct group *group, uint8_t slot, uid_t uid)
{
	uint32_t sockets = server_group_missing(server, group, slot, uid);

	for (uint32_t i = 0; i < server->group_count; i++)
		sockets += server->groups[i].count;
	return sockets <= server->sockets_max;
}

/*
 * Get the group of an address, with room for one more slot. Returns 0, or an error with a sentence.
 */
static int group_for(struct request *request, const struct agent_address *address, uint8_t slot,
	struct group **ret_group)
{
	struct server *server = request->server;
	uid_t uid = request->client->uid;
	struct group *group = server_group(server, address);
	int rc;

	if (!group)
		return refuse_open(request, address, -EUSERS);
	if (!has_room(server, group, slot, uid) &&
		(server_drop_groups(server, SERVER_DROP_GONE) == 0 ||
			!has_room(server, group, slot, uid)))
		return refuse_open(request, address, -ENOSPC);
	if (server->is_system && group->count == 0 && !server_address_lasts(address)) {
		server_drop_groups(server, SERVER_DROP_GONE);
		rc = request_check_quota(request, QUOTA_GROUPS);
		if (rc)
			return rc;
	}
	*ret_group = group;
	return 0;
}

/*
 * Give the process a channel instead of a member, because the holder of a member could receive
 * every user's packets.
 */
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
	int ours, theirs, rc;

	rc = request_check_quota(request, QUOTA_CHANNELS);
	if (rc)
		return rc;
	rc = relay_open(
		server->relay, &group->address, slot, group_socket(group, slot), &ours, &theirs);
	if (rc == -ENOSPC)
		return request_refuse(
			request, rc, "all %d channels of urnicd are in use", RELAY_CHANNELS_MAX);
	if (rc == -EPERM)
		return request_refuse(request, rc,
			"urnicd --system lacks CAP_NET_ADMIN, which it needs for the buffer of "
			"another user's packets: start it with this capability");
	if (rc)
		return request_refuse(request, rc, "cannot make a channel: %s", strerror(-rc));
	if (fd_store_put(server->fd_store, &label, &ours) != 0)
		log_line(
			"the fd store is full: a channel would not survive the end of this urnicd");
	group_admit(group, slot, group_is_barred(group, slot));
	request_answer(request);
	request->answer_fd = theirs;
	request->is_answer_fd_ours = true;
	return 0;
}

/*
 * Get the group of an address, with a socket for the slot (0: for QP1). Returns 0, REQUEST_LATER,
 * or an error with a sentence.
 */
static int group_open(struct request *request, struct agent_address address, uint8_t slot,
	struct group **ret_group)
{
	int rc;

	if (!gid_is_link_local(&address.gid))
		address.scope_ifindex = 0;
	rc = group_for(request, &address, slot, ret_group);
	if (rc)
		return rc;
	assert(*ret_group);
	rc = server_group_assign(request->server, *ret_group, slot, request->client->uid);
	/* A survivor that has the port may still pass on the fd store. */
	if (rc == -EADDRINUSE && !server_has_waited(request->server))
		return REQUEST_LATER;
	return rc ? refuse_open(request, &address, rc) : 0;
}

int request_handle_open(struct request *request)
{
	struct server *server = request->server;
	uint8_t slot = (uint8_t)request->message.open.slot;
	struct group *group = NULL;
	int rc = request_check_slot(request, slot);

	if (!rc)
		rc = group_open(request, request->message.open.address, slot, &group);
	if (rc)
		return rc;
	if (!server_gives_members(server, request->client->uid))
		return open_channel(request, group, slot);
	group_admit(group, slot, group_is_barred(group, slot));
	group->is_given[group->member_of_slot[slot]] = true;
	server_note_group(server, group);
	request_answer(request);
	request->answer_fd = group_socket(group, slot);
	return 0;
}

/*
 * Create a socket pair for the client's packets for QP1. The answer passes the client's end. An
 * earlier pair is closed.
 */
int request_handle_gsi_open(struct request *request)
{
	struct client *client = request->client;
	uint8_t slot = (uint8_t)request->message.gsi_open.slot;
	int rc = request_check_slot(request, slot), fds[2];

	if (rc)
		return rc;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
		return request_refuse(
			request, -errno, "cannot make a socket pair: %s", strerror(errno));
	/*
	 * The buffer is as large as the limit allows, because a program may make a thousand
	 * connections at once.
	 */
	socket_grow_send_buffer(fds[0], GSI_BUFFER_BYTES);
	if (client->gsi >= 0)
		close(client->gsi);
	client->gsi = fds[0];
	request_answer(request);
	request->answer_fd = fds[1];
	request->is_answer_fd_ours = true;
	return 0;
}

int request_handle_gsi_address(struct request *request)
{
	struct group *group = NULL;
	int rc = group_open(request, request->message.gsi_address.address, 0, &group);

	if (rc)
		return rc;
	server_note_listener(request->server, request->client, group);
	request_answer(request);
	return 0;
}
