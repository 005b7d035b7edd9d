/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports, and the discovery log page, which hosts read on each port.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/target/core/objects.h"

enum { ENTRIES_DEFAULT = 128, ENTRIES_MIN = 2, ADMIN_ENTRIES = 32 };

int target_port_create(struct target *target, const struct target_port_settings *settings,
	struct target_port **ret_port)
{
	struct target_port *port;
	size_t traddr_bytes = strlen(settings->traddr);
	size_t trsvcid_bytes = strlen(settings->trsvcid);
	uint16_t entries = settings->queue_entries ? settings->queue_entries : ENTRIES_DEFAULT;

	if (traddr_bytes >= DISCOVERY_TRADDR_BYTES || trsvcid_bytes >= DISCOVERY_SERVICE_BYTES ||
		entries < ENTRIES_MIN || entries > TARGET_IO_ENTRIES_MAX)
		return -EINVAL;
	if (target_port_find(target, settings->portid))
		return -EEXIST;
	port = calloc(1, sizeof(*port));
	if (!port)
		return -ENOMEM;
	port->target = target;
	port->queue_entries = entries;
	port->address = (struct discovery_entry){
		.trtype = (uint8_t)settings->trtype,
		.adrfam = (uint8_t)settings->adrfam,
		.treq = DISCOVERY_TREQ_NO_FLOW_CONTROL,
		.portid = settings->portid,
		.cntlid = NVME_CNTLID_DYNAMIC,
		.asqsz = ADMIN_ENTRIES,
		.rdma_qptype = DISCOVERY_QPTYPE_RC,
		.rdma_prtype = settings->rdma_prtype,
		.rdma_cms = DISCOVERY_CMS_RDMA_CM,
	};
	memcpy(port->address.traddr, settings->traddr, traddr_bytes);
	memcpy(port->address.trsvcid, settings->trsvcid, trsvcid_bytes);
	list_init(&port->links);
	list_init(&port->referrals);
	list_append(&target->ports, &port->node);
	discovery_changed(target);
	*ret_port = port;
	return 0;
}

static void end_controllers(struct target_port *port, struct target_subsystem *subsystem)
{
	list_for_each_safe(controller, &subsystem->controllers, struct target_controller, node)
		if (controller->port == port)
			controller_end(controller);
}

void target_port_destroy(struct target_port *port)
{
	struct target *target = port->target;

	list_for_each_safe(queue, &target->opening, struct target_queue, node)
		if (queue->port == port)
			queue_close(queue);
	list_for_each(subsystem, &target->subsystems, struct target_subsystem, node)
		end_controllers(port, subsystem);
	list_for_each_safe(link, &port->links, struct target_link, node)
		free(link);
	target_port_clear_referrals(port);
	list_remove(&port->node);
	free(port);
	discovery_changed(target);
}

struct target_port *target_port_find(struct target *target, uint16_t portid)
{
	list_for_each(port, &target->ports, struct target_port, node)
		if (port->address.portid == portid)
			return port;
	return NULL;
}

bool port_has(const struct target_port *port, const struct target_subsystem *subsystem)
{
	if (subsystem->is_discovery)
		return true;
	list_for_each(link, &port->links, struct target_link, node)
		if (link->subsystem == subsystem)
			return true;
	return false;
}

int target_port_link(struct target_port *port, struct target_subsystem *subsystem)
{
	struct target_link *link;

	if (port_has(port, subsystem))
		return 0;
	link = calloc(1, sizeof(*link));
	if (!link)
		return -ENOMEM;
	link->subsystem = subsystem;
	list_append(&port->links, &link->node);
	discovery_changed(port->target);
	return 0;
}

void target_port_unlink(struct target_port *port, struct target_subsystem *subsystem)
{
	list_for_each_safe(link, &port->links, struct target_link, node) {
		if (link->subsystem != subsystem)
			continue;
		list_remove(&link->node);
		free(link);
		end_controllers(port, subsystem);
		discovery_changed(port->target);
	}
}

int target_port_refer(struct target_port *port, const struct discovery_entry *entry)
{
	struct target_referral *referral = calloc(1, sizeof(*referral));

	if (!referral)
		return -ENOMEM;
	referral->entry = *entry;
	referral->entry.subtype = DISCOVERY_REFERRAL;
	list_append(&port->referrals, &referral->node);
	discovery_changed(port->target);
	return 0;
}

void target_port_clear_referrals(struct target_port *port)
{
	list_for_each_safe(referral, &port->referrals, struct target_referral, node) {
		list_remove(&referral->node);
		free(referral);
	}
	discovery_changed(port->target);
}

void discovery_changed(struct target *target)
{
	target->genctr++;
	if (!target->discovery)
		return;
	list_for_each(controller, &target->discovery->controllers, struct target_controller, node)
		controller_event(controller, EVENT_MASK_DISCOVERY);
}

static void entry_put(uint8_t *page, uint64_t *count, const struct target_port *port,
	const char *nqn, enum discovery_subtype subtype)
{
	struct discovery_entry entry = port->address;

	entry.subtype = (uint8_t)subtype;
	if (subtype == DISCOVERY_CURRENT)
		entry.eflags = DISCOVERY_EFLAGS_PERSISTENT;
	memcpy(entry.subnqn, nqn, strlen(nqn) + 1);
	discovery_entry_encode(
		&entry, page + DISCOVERY_HEADER_BYTES + *count * DISCOVERY_ENTRY_BYTES);
	++*count;
}

uint8_t *discovery_page(const struct target_port *port, const char *hostnqn, size_t *ret_bytes)
{
	struct discovery_header header = {.genctr = port->target->genctr};
	size_t bytes = DISCOVERY_HEADER_BYTES + DISCOVERY_ENTRY_BYTES;
	uint8_t *page;

	list_for_each(referral, &port->referrals, struct target_referral, node)
		bytes += DISCOVERY_ENTRY_BYTES;
	list_for_each(other, &port->target->ports, struct target_port, node)
		list_for_each(link, &other->links, struct target_link, node)
			bytes += DISCOVERY_ENTRY_BYTES;
	page = calloc(1, bytes);
	if (!page)
		return NULL;
	entry_put(page, &header.numrec, port, NVME_DISCOVERY_NQN, DISCOVERY_CURRENT);
	list_for_each(other, &port->target->ports, struct target_port, node)
		list_for_each(link, &other->links, struct target_link, node)
			if (subsystem_allows(link->subsystem, hostnqn))
				entry_put(page, &header.numrec, other, link->subsystem->nqn,
					DISCOVERY_NVM);
	list_for_each(referral, &port->referrals, struct target_referral, node)
		discovery_entry_encode(&referral->entry,
			page + DISCOVERY_HEADER_BYTES + header.numrec++ * DISCOVERY_ENTRY_BYTES);
	discovery_header_encode(&header, page);
	*ret_bytes = DISCOVERY_HEADER_BYTES + header.numrec * DISCOVERY_ENTRY_BYTES;
	return page;
}
