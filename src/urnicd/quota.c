/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/quota.h"

#include <stdio.h>

#include "urnicd/server.h"

static const char *const names[] = {
	[QUOTA_CONNECTIONS] = "connections",
	[QUOTA_FOREIGN] = "connections from other network namespaces",
	[QUOTA_SLOTS] = "slots (one for each lane of a program, kept for a minute after its end)",
	[QUOTA_CLAIMS] = "ports of rdma_cm",
	[QUOTA_GROUPS] = "addresses in 127.0.0.0/8",
	[QUOTA_CHANNELS] = "channels (one for each lane and address)",
};

struct use {
	uint32_t held; /* how many the user has */
	uint32_t free;
};

static struct use clients_use(const struct server *server, uid_t uid, bool is_foreign)
{
	struct use use = {.free = is_foreign ? SERVER_FOREIGN_MAX - server->foreign_count
					     : SERVER_CLIENTS_MAX - server->client_count};

	for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
		const struct client *client = &server->clients[i];

		use.held += client->fd >= 0 && client->uid == uid && !client->is_over_quota &&
			(client->is_foreign || !is_foreign);
	}
	return use;
}

static struct use claims_use(const struct server *server, uid_t uid)
{
	struct use use = {.free = AGENT_CLAIMS_MAX - server->claims.count};

	for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++)
		if (server->clients[i].fd >= 0 && server->clients[i].uid == uid)
			use.held += server->clients[i].claims;
	return use;
}

static struct use groups_use(const struct server *server, uid_t uid)
{
	struct use use = {.free = SERVER_GROUPS_MAX};

	for (uint32_t i = 0; i < server->group_count; i++) {
		use.free -= server->groups[i].count > 0;
		use.held += server->groups[i].count > 0 && server->groups[i].maker == uid;
	}
	return use;
}

static struct use channels_use(const struct server *server, uid_t uid)
{
	struct agent_slots slots = {{0}};

	for (unsigned slot = 1; slot < AGENT_SLOTS; slot++)
		if (server->slots.leases[slot].state != SLOT_FREE &&
			server->slots.leases[slot].uid == uid)
			agent_slots_add(&slots, (uint8_t)slot);
	return (struct use){
		.held = relay_count_of(server->relay, &slots),
		.free = RELAY_CHANNELS_MAX - relay_count(server->relay),
	};
}

static struct use use_of(const struct server *server, uid_t uid, enum quota what)
{
	switch (what) {
	case QUOTA_CONNECTIONS:
	case QUOTA_FOREIGN:
		return clients_use(server, uid, what == QUOTA_FOREIGN);
	case QUOTA_SLOTS:
		return (struct use){
			.held = slot_count_of(&server->slots, uid, server_now_ms()),
			.free = slot_count_free(&server->slots, server_now_ms()),
		};
	case QUOTA_CLAIMS:
		return claims_use(server, uid);
	case QUOTA_GROUPS:
		return groups_use(server, uid);
	case QUOTA_CHANNELS:
		return channels_use(server, uid);
	}
	return (struct use){0};
}

bool quota_is_reached(
	const struct server *server, uid_t uid, enum quota what, char *ret_why, size_t why_bytes)
{
	struct use use;

	if (server_gives_members(server, uid))
		return false;
	use = use_of(server, uid, what);
	if (use.held < use.free)
		return false;
	snprintf(ret_why, why_bytes,
		"user %u has %u of urnicd's %s, as many as one user may have while others have "
		"%u left: end some of that user's programs",
		uid, use.held, names[what], use.free);
	return true;
}
