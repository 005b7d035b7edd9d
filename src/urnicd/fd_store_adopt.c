/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/fd_store_adopt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "port/address.h"
#include "urnicd/lease/event_log.h"
#include "urnicd/lease/fd_store.h"

struct adoption {
	struct server *server;
	bool is_own_store; /* the store is the server's, not a survivor's */
	/* The last pass, which adopts channels, because all groups have been adopted. */
	bool is_for_channels;
	uint32_t sockets; /* how many sockets were adopted so far */
	bool has_ledger;
	struct ledger ledger;
};

static bool adopt_ledger(struct adoption *adoption, int fd)
{
	struct server *server = adoption->server;

	if (adoption->has_ledger || !ledger_read(fd, &adoption->ledger))
		return false;
	adoption->has_ledger = true;
	if (!adoption->is_own_store)
		return false;
	server->ledger = fd;
	server->generation = adoption->ledger.generation;
	return true;
}

static bool adopt_sockets(
	struct adoption *adoption, const struct fd_store_label *label, const int *fds)
{
	struct server *server = adoption->server;
	struct group *group = server_group(server, &label->address);
	char text[ADDRESS_TEXT_BYTES];

	if (!group || !group_adopt(group, label->first, fds, label->count))
		return false;
	if (!adoption->is_own_store && fd_store_put(server->fd_store, label, fds) != 0)
		log_line(
			"the fd store is full: some sockets would not survive the end of this urnicd");
	if (label->first == 0)
		server_watch_group(server, group);
	adoption->sockets += label->count;
	server->counters.sockets_adopted += label->count;
	server->has_adopted = true;
	log_line("took over %u sockets on %s", label->count,
		gid_to_text(&label->address.gid, label->address.scope_ifindex, text));
	return true;
}

/* Adopt a channel, if a survivor still has its other end. */
static bool adopt_channel(struct server *server, const struct fd_store_label *label, int fd)
{
	const struct group *group = server_group_find(server, &label->address);
	uint8_t slot = (uint8_t)label->first;
	int member = group && slot ? group_socket(group, slot) : -1;

	return server->relay && member >= 0 && server->slots.leases[slot].state == SLOT_ORPHAN &&
		relay_adopt(server->relay, &label->address, slot, member, fd) == 0;
}

static void message_adopt(void *context, const struct fd_store_label *label, const int *fds)
{
	struct adoption *adoption = context;

	if (label->kind == FD_STORE_LEDGER && !adoption->is_for_channels &&
		adopt_ledger(adoption, fds[0]))
		return;
	if (label->kind == FD_STORE_CHANNEL && adoption->is_for_channels &&
		adopt_channel(adoption->server, label, fds[0]))
		return;
	if (label->kind == FD_STORE_SOCKETS && !adoption->is_for_channels &&
		adopt_sockets(adoption, label, fds))
		return;
	for (uint32_t i = 0; i < label->count; i++)
		close(fds[i]);
}

/*
 * Restore leases and members from the ledger. A survivor's ledger that is older than the server's
 * own is ignored.
 */
static void ledger_restore(struct adoption *adoption)
{
	struct server *server = adoption->server;
	const struct ledger *ledger = &adoption->ledger;

	if (!adoption->has_ledger ||
		(!adoption->is_own_store && ledger->generation < server->generation))
		return;
	for (uint32_t i = 0; i < LEDGER_GROUPS_MAX; i++) {
		struct group *group = ledger->groups[i].is_used
			? server_group_find(server, &ledger->groups[i].address)
			: NULL;

		if (!group)
			continue;
		group_restore(group, &ledger->groups[i]);
		server_note_group(server, group);
	}
	for (unsigned slot = 1; slot < AGENT_SLOTS; slot++) {
		const struct ledger_lease *lease = &ledger->leases[slot];

		if (!(lease->flags & LEDGER_LEASED))
			continue;
		slot_orphan(&server->slots, (uint8_t)slot, lease->uid,
			lease->flags & LEDGER_LOW_PORT, server_now_ms());
		server_note_lease(server, (uint8_t)slot);
		server->has_adopted = true;
	}
	if (adoption->is_own_store)
		return;
	server->generation = ledger->generation + 1;
	ledger_put_generation(server->ledger, server->generation);
}

static bool is_same(int a, int b)
{
	struct stat of_a, of_b;

	return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && of_a.st_ino == of_b.st_ino &&
		of_a.st_dev == of_b.st_dev;
}

void fd_store_adopt(struct server *server, int store)
{
	struct adoption *adoption = calloc(1, sizeof(*adoption));
	uint32_t sockets;
	int rc = adoption ? 0 : -ENOMEM;

	if (adoption && (store == server->fd_store || !is_same(store, server->fd_store))) {
		adoption->server = server;
		adoption->is_own_store = store == server->fd_store;
		/*
		 * fd_store_sweep() may have changed the order of a group's messages, so read them
		 * until a pass adopts nothing.
		 */
		do {
			sockets = adoption->sockets;
			rc = fd_store_visit(store, message_adopt, adoption);
		} while (!rc && adoption->sockets > sockets);
		ledger_restore(adoption);
		adoption->is_for_channels = true;
		if (!rc)
			rc = fd_store_visit(store, message_adopt, adoption);
	}
	if (rc)
		log_line("cannot read an fd store: %s", strerror(-rc));
	free(adoption);
}
