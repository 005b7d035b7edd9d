/* SPDX-License-Identifier: BSD-2-Clause */
#include "subnet/manager/manager.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "subnet/manager/manager_internal.h"

/* --- its life --- */

/* The first switch's port 0, else the first CA's port 1. */
static void place_choose(const struct subnet *subnet, struct subnet_manager *manager)
{
	manager->node = 0;
	manager->port = 1;
	for (uint32_t i = 0; i < subnet->node_count; i++) {
		if (node_is_switch(&subnet->nodes[i])) {
			manager->node = i;
			manager->port = 0;
			return;
		}
	}
}

static int manager_create(struct subnet *subnet)
{
	struct subnet_manager *manager = calloc(1, sizeof(*manager));

	if (!manager)
		return -ENOMEM;
	subnet->manager = manager;
	manager->is_enabled = true;
	manager->is_change_pending = true;
	manager->state = IB_SM_NOT_ACTIVE;
	place_choose(subnet, manager);
	manager->lids = calloc(LINEAR_FDB_CAP, sizeof(*manager->lids));
	manager->groups = calloc(GROUPS_MAX, sizeof(struct manager_group *));
	return manager->lids && manager->groups ? manager_answer_create(subnet) : -ENOMEM;
}

static void manager_destroy(struct subnet_manager *manager)
{
	if (!manager)
		return;
	manager_answer_destroy(manager);
	if (manager->groups)
		manager_groups_clear(manager);
	free(manager->groups);
	free(manager->lids);
	free(manager);
}

static struct ib_port_info *own_info(const struct subnet *subnet)
{
	return &subnet->nodes[subnet->manager->node].ports[subnet->manager->port].info;
}

static void state_set(struct subnet *subnet, enum ib_sm_state state)
{
	subnet->manager->state = state;
	if (state == IB_SM_MASTER)
		own_info(subnet)->capability_mask |= IB_CAPABILITY_IS_SM;
	else
		own_info(subnet)->capability_mask &= ~(uint32_t)IB_CAPABILITY_IS_SM;
}

void subnet_manager_enable(struct subnet *subnet, bool is_enabled)
{
	subnet->manager->is_enabled = is_enabled;
	subnet->manager->is_change_pending = true;
	if (!is_enabled)
		state_set(subnet, IB_SM_NOT_ACTIVE);
}

static bool manager_is_at(const struct subnet *subnet, uint32_t node)
{
	return subnet->manager->node == node && subnet->manager->state == IB_SM_MASTER;
}

void manager_notice_change(struct subnet *subnet)
{
	if (subnet->manager)
		subnet->manager->is_change_pending = true;
}

/* Has a CA's user set IsSM at one of its ports? The manager's own bit does not count. */
static bool other_manager_exists(const struct subnet *subnet)
{
	for (uint32_t i = 0; i < subnet->node_count; i++) {
		const struct subnet_node *node = &subnet->nodes[i];

		for (uint32_t port = 1; !node_is_switch(node) && port <= node->port_count; port++)
			if (node->ports[port].user_capabilities & IB_CAPABILITY_IS_SM)
				return true;
	}
	return false;
}

/* This manager does not know the groups that another manager made, so their members join again. */
static void clients_reregister(struct subnet *subnet)
{
	const struct subnet_manager *manager = subnet->manager;

	for (uint32_t lid = 1; lid <= manager->lid_last; lid++)
		if (manager->lids[lid].node && manager->lids[lid].port)
			subnet_event_send(subnet, manager->lids[lid].node - 1,
				manager->lids[lid].port, SUBNET_CLIENT_REREGISTER);
}

static void take_over(struct subnet *subnet)
{
	const bool is_new = subnet->manager->state != IB_SM_MASTER;

	state_set(subnet, IB_SM_MASTER);
	if (is_new)
		manager_groups_clear(subnet->manager);
	subnet->route_changes++;
	/* After a failure (no memory, no LID left) the ports and tables stay as they were. */
	if (!manager_sweep(subnet) && is_new)
		clients_reregister(subnet);
}

static void manager_advance(struct subnet *subnet)
{
	struct subnet_manager *manager = subnet->manager;

	if (manager->is_enabled && manager->is_change_pending) {
		const bool steps_back = other_manager_exists(subnet);

		manager->is_change_pending = false;
		if (steps_back)
			state_set(subnet, IB_SM_NOT_ACTIVE);
		else
			take_over(subnet);
	}
	manager_answer_advance(subnet);
}

static uint64_t manager_deadline_ns(const struct subnet *subnet)
{
	const struct subnet_manager *manager = subnet->manager;

	return manager->is_enabled && manager->is_change_pending
		? 0
		: manager_answer_deadline_ns(manager);
}

/* --- SMPs to it --- */

static void sm_info_answer(
	struct subnet *subnet, const struct mad_header *header, struct smp_flight *flight)
{
	const struct ib_sm_info info = {
		.guid = subnet->nodes[subnet->manager->node].guid,
		.act_count = (uint32_t)++subnet->manager->act_count,
		.state = (uint8_t)subnet->manager->state,
	};

	memset(flight->mad + SMP_DATA, 0, SMP_DATA_BYTES);
	ib_sm_info_encode(&info, flight->mad + SMP_DATA);
	smp_turn(flight->mad,
		header->method == MAD_METHOD_GET ? MAD_STATUS_OK
						 : MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE);
}

/*
 * Does the trap tell of a change that a sweep finds? Violations of keys do not: anyone could make
 * the manager sweep by frames with a wrong P_Key.
 */
static bool trap_needs_sweep(const uint8_t mad[MAD_BYTES])
{
	struct ib_notice notice;

	ib_notice_decode(&notice, mad + SMP_DATA);
	return notice.trap_number == TRAP_LINK_STATE || notice.trap_number == TRAP_LOCAL_CHANGES;
}

/* Tell the sender of a trap that it has arrived. */
static void trap_answer(const struct mad_header *header, struct smp_flight *flight)
{
	struct mad_header answer = *header;

	answer.method = MAD_METHOD_TRAP_REPRESS;
	mad_header_encode(&answer, flight->mad);
}

static void manager_receive_smp(struct subnet *subnet, struct smp_flight *flight, uint32_t in_port)
{
	const uint16_t dlid = flight->slid;
	struct mad_header header;

	mad_header_decode(&header, flight->mad);
	if (header.method == MAD_METHOD_TRAP) {
		subnet->manager->is_change_pending |= trap_needs_sweep(flight->mad);
		trap_answer(&header, flight);
	} else if (header.method == MAD_METHOD_GET || header.method == MAD_METHOD_SET) {
		sm_info_answer(subnet, &header, flight);
	} else {
		return;
	}
	flight->slid = flight->dlid;
	flight->dlid = dlid;
	smp_send(subnet, subnet->manager->node,
		node_is_switch(&subnet->nodes[subnet->manager->node]) ? 0 : in_port, flight);
}

const struct subnet_manager_calls subnet_embedded_manager = {
	.create = manager_create,
	.destroy = manager_destroy,
	.is_at = manager_is_at,
	.notice_change = manager_notice_change,
	.receive_smp = manager_receive_smp,
	.receive_query = manager_receive_query,
	.advance = manager_advance,
	.deadline_ns = manager_deadline_ns,
};
