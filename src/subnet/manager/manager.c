/* SPDX-License-Identifier: BSD-2-Clause */
#include "subnet/manager/manager.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "subnet/manager/manager_internal.h"

/* --- its life --- */

/* Choose the manager's port: port 0 of the first switch, else port 1 of the first CA. */
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
	manager->state = IB_SM_DISCOVERING;
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

void subnet_manager_enable(struct subnet *subnet, bool is_enabled)
{
	subnet->manager->is_enabled = is_enabled;
	subnet->manager->is_change_pending = true;
	if (!is_enabled)
		manager_handover_stop(subnet);
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

/* Let members join again: this manager does not know the groups that another manager made. */
static void clients_reregister(struct subnet *subnet)
{
	const struct subnet_manager *manager = subnet->manager;

	for (uint32_t lid = 1; lid <= manager->lid_last; lid++)
		if (manager->lids[lid].node && manager->lids[lid].port)
			subnet_event_send(subnet, manager->lids[lid].node - 1,
				manager->lids[lid].port, SUBNET_CLIENT_REREGISTER);
}

/* Sweep as the master. After a failure (no memory, no LID left) ports and tables are unchanged. */
static void master_sweep(struct subnet *subnet)
{
	struct subnet_manager *manager = subnet->manager;
	const bool is_new = manager->is_new_master;

	manager->is_new_master = false;
	if (is_new)
		manager_groups_clear(manager);
	subnet->route_changes++;
	if (!manager_sweep(subnet) && is_new)
		clients_reregister(subnet);
}

static void manager_advance(struct subnet *subnet)
{
	struct subnet_manager *manager = subnet->manager;

	if (manager->is_enabled) {
		bool sweeps;

		manager_handover_advance(subnet);
		sweeps = manager->is_change_pending && manager->state == IB_SM_MASTER;
		manager->is_change_pending = false;
		if (sweeps)
			master_sweep(subnet);
	}
	manager_answer_advance(subnet);
}

static uint64_t manager_deadline_ns(const struct subnet *subnet)
{
	const struct subnet_manager *manager = subnet->manager;
	uint64_t deadline_ns = manager_answer_deadline_ns(manager);

	if (!manager->is_enabled)
		return deadline_ns;
	if (manager->is_change_pending)
		return 0;
	return min_u64(deadline_ns, manager_handover_deadline_ns(subnet));
}

/* --- SMPs to it --- */

/*
 * Answer an SMInfo. Returns false for a SubnSet with a wrong SM_Key, which gets no answer. A key of
 * zero is accepted, because sminfo of infiniband-diags sends it.
 */
static bool sm_info_answer(
	struct subnet *subnet, const struct mad_header *header, struct smp_flight *flight)
{
	uint16_t status = MAD_STATUS_OK;
	struct ib_sm_info info;

	ib_sm_info_decode(&info, flight->mad + SMP_DATA);
	if (header->method == MAD_METHOD_SET) {
		if (info.sm_key && info.sm_key != SM_KEY)
			return false;
		status = manager_control(subnet, header->attribute_modifier, &info);
	}
	info = manager_sm_info(subnet);
	memset(flight->mad + SMP_DATA, 0, SMP_DATA_BYTES);
	ib_sm_info_encode(&info, flight->mad + SMP_DATA);
	smp_turn(flight->mad, status);
	return true;
}

/*
 * Does the trap report a change that needs a sweep? A violation of a key needs none. Otherwise any
 * host could make the manager sweep, by frames with a wrong P_Key.
 */
static bool trap_needs_sweep(const uint8_t mad[MAD_BYTES])
{
	struct ib_notice notice;

	ib_notice_decode(&notice, mad + SMP_DATA);
	return notice.trap_number == TRAP_LINK_STATE || notice.trap_number == TRAP_LOCAL_CHANGES;
}

/* Answer a trap by TrapRepress, so that its sender does not repeat it. */
static void trap_answer(const struct mad_header *header, struct smp_flight *flight)
{
	struct mad_header answer = *header;

	answer.method = MAD_METHOD_TRAP_REPRESS;
	mad_header_encode(&answer, flight->mad);
}

/* Is a request for another subnet manager, a program at the same port? */
static bool is_for_user(const struct subnet *subnet, uint32_t in_port)
{
	const struct subnet_node *at = &subnet->nodes[subnet->manager->node];

	return !node_is_switch(at) && at->ports[in_port].user_capabilities & IB_CAPABILITY_IS_SM;
}

static bool manager_receive_smp(
	struct subnet *subnet, uint32_t node, struct smp_flight *flight, uint32_t in_port)
{
	const struct subnet_manager *manager = subnet->manager;
	const uint16_t dlid = flight->slid;
	struct mad_header header;

	mad_header_decode(&header, flight->mad);
	if (!manager->is_enabled || manager->node != node)
		return false;
	if (mad_header_is_response(&header))
		return manager_receive_response(subnet, flight->mad);
	if (is_for_user(subnet, in_port))
		return false;
	if (header.method == MAD_METHOD_GET || header.method == MAD_METHOD_SET) {
		if (!sm_info_answer(subnet, &header, flight))
			return true;
	} else if (header.method == MAD_METHOD_TRAP && manager->state == IB_SM_MASTER) {
		subnet->manager->is_change_pending |= trap_needs_sweep(flight->mad);
		trap_answer(&header, flight);
	} else {
		return false;
	}
	flight->slid = flight->dlid;
	flight->dlid = dlid;
	smp_send(subnet, node, node_is_switch(&subnet->nodes[node]) ? 0 : in_port, flight);
	return true;
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
