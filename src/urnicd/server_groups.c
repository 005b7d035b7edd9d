/* SPDX-License-Identifier: BSD-2-Clause */
/* The server's groups, leases and channels, and their entries in the ledger. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "netdev/netdev.h"
#include "urnicd/lease/event_log.h"
#include "urnicd/lease/fd_store.h"
#include "urnicd/server.h"

enum { CLOSED_CHANNELS_MAX = 64 /* see sweep_channels() */ };

struct group *server_group_find(struct server *server, const struct agent_address *address)
{
	for (uint32_t i = 0; i < server->group_count; i++) {
		struct group *group = &server->groups[i];

		if (group->count > 0 && agent_address_is_equal(&group->address, address))
			return group;
	}
	return NULL;
}

struct group *server_group(struct server *server, const struct agent_address *address)
{
	struct group *unused = server_group_find(server, address);

	if (unused)
		return unused;
	for (uint32_t i = 0; i < server->group_count && !unused; i++)
		if (server->groups[i].count == 0)
			unused = &server->groups[i];
	if (!unused) {
		if (server->group_count == SERVER_GROUPS_MAX)
			return server_drop_groups(server, SERVER_DROP_GONE) ||
					server_drop_groups(server, SERVER_DROP_UNUSED)
				? server_group(server, address)
				: NULL;
		unused = &server->groups[server->group_count++];
	}
	*unused = (struct group){.address = *address};
	return unused;
}

void server_note_group(struct server *server, const struct group *group)
{
	struct ledger_group noted;

	if (server->ledger < 0)
		return;
	group_note(group, &noted);
	ledger_put_group(server->ledger, (uint32_t)(group - server->groups), &noted);
}

void server_note_lease(struct server *server, uint8_t slot)
{
	const struct slot_lease *lease = &server->slots.leases[slot];
	const struct ledger_lease noted = {
		.flags = (lease->state != SLOT_FREE ? LEDGER_LEASED : 0) |
			(lease->has_low_port ? LEDGER_LOW_PORT : 0),
		.uid = lease->uid,
	};

	if (server->ledger >= 0)
		ledger_put_lease(server->ledger, slot, &noted);
}

/* The slots that are leased or orphans, which keep their sockets. */
static struct agent_slots slots_leased(const struct server *server)
{
	struct agent_slots slots = {{0}};

	for (unsigned slot = 1; slot < AGENT_SLOTS; slot++)
		if (server->slots.leases[slot].state != SLOT_FREE)
			agent_slots_add(&slots, (uint8_t)slot);
	return slots;
}

int server_group_assign(struct server *server, struct group *group, uint8_t slot, uid_t uid)
{
	const struct agent_slots leased = slots_leased(server);
	const struct group_need need = {
		.slot = slot, .is_kept = !server_gives_members(server, uid), .leased = &leased};
	bool is_new = group->count == 0;
	int rc = group_assign(group, &need, server->fd_store);

	server_note_group(server, group);
	if (is_new && group->count > 0) {
		group->maker = uid;
		server_watch_group(server, group);
	}
	return rc;
}

uint32_t server_group_missing(
	const struct server *server, const struct group *group, uint8_t slot, uid_t uid)
{
	const struct agent_slots leased = slots_leased(server);
	const struct group_need need = {
		.slot = slot, .is_kept = !server_gives_members(server, uid), .leased = &leased};

	return group_sockets_missing(group, &need);
}

static uint64_t group_bit(const struct server *server, const struct group *group)
{
	static_assert(SERVER_GROUPS_MAX <= 64, "client.gsi_groups has a bit for each");
	return (uint64_t)1 << (group - server->groups);
}

void server_note_listener(
	const struct server *server, struct client *client, const struct group *group)
{
	client->gsi_groups |= group_bit(server, group);
}

bool server_gives_members(const struct server *server, uid_t uid)
{
	return !server->is_system || uid == geteuid();
}

static bool is_needed(void *context, const struct fd_store_label *label, const int *fds)
{
	struct server *server = context;

	if (label->kind == FD_STORE_SOCKETS)
		return server_group_find(server, &label->address) != NULL;
	return label->kind != FD_STORE_CHANNEL ||
		relay_has(server->relay, &label->address, (uint8_t)label->first, fds[0]);
}

/*
 * Remove closed channels from the fd store, once they outnumber the open ones by
 * CLOSED_CHANNELS_MAX.
 */
static void sweep_channels(struct server *server)
{
	int rc;

	if (server->closed_channels <= relay_count(server->relay) + CLOSED_CHANNELS_MAX)
		return;
	rc = fd_store_sweep(server->fd_store, is_needed, server);
	if (rc)
		log_line("cannot sweep the fd store: %s", strerror(-rc));
	server->closed_channels = 0;
}

bool server_address_lasts(const struct agent_address *address)
{
	static const uint8_t loopback[4] = {127, 0, 0, 1};
	const uint8_t *ipv4 = address->gid.raw + 12;

	/* The kernel allows a bind() to any address of 127.0.0.0/8. */
	if (gid_is_ipv4(&address->gid) && ipv4[0] == loopback[0])
		return memcmp(ipv4, loopback, sizeof(loopback)) == 0;
	return netdev_has_address(&address->gid, address->scope_ifindex);
}

/*
 * May a process listen to QP1 at the group's address? A survivor of an earlier urnicd does not
 * repeat its requests, so it counts as a listener everywhere.
 */
static bool has_listeners(const struct server *server, const struct group *group)
{
	for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
		const struct client *client = &server->clients[i];

		if (client->fd >= 0 && client->gsi >= 0 &&
			(client->is_survivor || client->gsi_groups & group_bit(server, group)))
			return true;
	}
	return false;
}

static bool is_unused(const struct server *server, const struct group *group)
{
	if (claim_table_has_address(&server->claims, &group->address))
		return false;
	for (unsigned slot = 1; slot < AGENT_SLOTS; slot++)
		if (group->member_of_slot[slot] && server->slots.leases[slot].state != SLOT_FREE)
			return false;
	return true;
}

static bool may_drop(const struct server *server, const struct group *group, enum server_drop which)
{
	if (group->count == 0 || !is_unused(server, group))
		return false;
	return which == SERVER_DROP_UNUSED ? !has_listeners(server, group)
					   : !server_address_lasts(&group->address);
}

/*
 * Remove the sockets from the fd store before closing them. If urnicd dies in between, no process
 * has these sockets any more, and the kernel closes them.
 */
uint32_t server_drop_groups(struct server *server, enum server_drop which)
{
	struct group *dropped = calloc(SERVER_GROUPS_MAX, sizeof(*dropped));
	uint32_t count = 0;
	int rc;

	for (uint32_t i = 0; dropped && i < server->group_count; i++) {
		struct group *group = &server->groups[i];

		if (!may_drop(server, group, which))
			continue;
		for (uint32_t client = 0; client < SERVER_CLIENTS_MAX; client++)
			server->clients[client].gsi_groups &= ~group_bit(server, group);
		gsi_port_close(&server->gsi_ports[i]);
		epoll_ctl(server->epoll, EPOLL_CTL_DEL, group->sockets[0], NULL);
		dropped[count++] = *group;
		*group = (struct group){.address = group->address};
		server_note_group(server, group);
	}
	rc = count ? fd_store_sweep(server->fd_store, is_needed, server) : 0;
	if (rc)
		log_line("cannot sweep the fd store: %s", strerror(-rc));
	for (uint32_t i = 0; i < count; i++)
		group_done(&dropped[i]);
	free(dropped);
	return count;
}

void server_clear_slot(struct server *server, uint8_t slot)
{
	for (uint32_t i = 0; i < server->group_count; i++)
		group_bar(&server->groups[i], slot);
	if (server->relay) {
		server->closed_channels += relay_close_slot(server->relay, slot);
		sweep_channels(server);
	}
}

void server_release_slot(struct server *server, uint8_t slot)
{
	server_clear_slot(server, slot);
	slot_return(&server->slots, slot, server_now_ms());
	server_note_lease(server, slot);
}
