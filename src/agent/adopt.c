/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/adopt.h"

#include <string.h>
#include <unistd.h>

#include "agent/bag.h"
#include "agent/log.h"
#include "port/address.h"

struct adoption {
	struct server *server;
	bool is_own_bag;
};

/* A slot whose filter is off was leased when the last urnicd died. */
static void orphan_open_slots(struct server *server, const struct group *group, uint32_t first)
{
	for (uint32_t slot = first; slot < group->count; slot++) {
		if (!group_is_barred(group, (uint8_t)slot))
			slot_orphan(&server->slots, (uint8_t)slot);
	}
}

static bool adopt_sockets(struct adoption *adoption, const struct bag_label *label, const int *fds)
{
	struct server *server = adoption->server;
	struct group *group = server_group(server, &label->address);
	char text[ADDRESS_TEXT_BYTES];

	if (!group || !group_adopt(group, label->first_slot, fds, label->count))
		return false;
	if (!adoption->is_own_bag && bag_put(server->bag, label, fds) != 0)
		log_line("a bag is full: some sockets would not survive the end of this urnicd");
	if (label->first_slot == 0)
		server_watch_group(server, group);
	orphan_open_slots(server, group, label->first_slot);
	server->counters.sockets_adopted += label->count;
	server->has_adopted = true;
	log_line("took over %u sockets on %s from slot %u", label->count,
		gid_to_text(&label->address.gid, label->address.scope_ifindex, text),
		label->first_slot);
	return true;
}

static void visit(void *context, const struct bag_label *label, const int *fds)
{
	struct adoption *adoption = context;

	if (label->kind == BAG_USER) {
		slot_assign_user(&adoption->server->slots, (uint8_t)label->first_slot, label->uid);
		if (!adoption->is_own_bag)
			bag_put(adoption->server->bag, label, fds);
		return;
	}
	if (adopt_sockets(adoption, label, fds))
		return;
	for (uint32_t i = 0; i < label->count; i++)
		close(fds[i]);
}

void adopt_bag(struct server *server, int bag)
{
	struct adoption adoption = {.server = server, .is_own_bag = bag == server->bag};
	int rc = bag_visit(bag, visit, &adoption);

	if (rc)
		log_line("cannot read a bag: %s", strerror(-rc));
}
