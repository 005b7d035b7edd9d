/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which subnet manager is the master (IBTA 14.4.1). The embedded manager finds the others by IsSM
 * of their ports, and polls them by SubnGet(SMInfo), with directed routes.
 *
 * The embedded manager is for subnets without another one. As the master it hands over to any other
 * manager, whatever that one's priority and GUID are. But the other manager compares priorities,
 * then GUIDs, and hands the mastership back to a STANDBY manager that ranks higher. So the embedded
 * manager is STANDBY only if all others rank higher by that rule. Otherwise it is NOT-ACTIVE, and
 * polls the master all the same.
 */
#include <string.h>

#include "subnet/manager/manager_internal.h"

enum {
	MASTER_INTERVAL_NS = 250000000, /* short: another manager may be ready to take over */
	STANDBY_INTERVAL_NS = 1000000000,
	LOST_MAX = 4, /* polls in a row without an answer, or without a master's answer */
};

/* The upper half of the manager's transaction IDs. The agents of CAs have small numbers there. */
#define TRANSACTION_PREFIX 0xfffffffeull

static struct node_port *own_port(const struct subnet *subnet)
{
	return &subnet->nodes[subnet->manager->node].ports[subnet->manager->port];
}

static uint64_t own_guid(const struct subnet *subnet)
{
	const struct subnet_node *node = &subnet->nodes[subnet->manager->node];

	return node_is_switch(node) ? node->guid : own_port(subnet)->guids[0];
}

/* Is a program the subnet manager at the embedded one's own port, which is then a CA's port? */
static bool own_port_is_taken(const struct subnet *subnet)
{
	return own_port(subnet)->user_capabilities & IB_CAPABILITY_IS_SM;
}

void manager_set_state(struct subnet *subnet, enum ib_sm_state state)
{
	subnet->manager->state = state;
	if (subnet->manager->is_enabled || own_port_is_taken(subnet))
		own_port(subnet)->info.capability_mask |= IB_CAPABILITY_IS_SM;
	else
		own_port(subnet)->info.capability_mask &= ~(uint32_t)IB_CAPABILITY_IS_SM;
}

/* --- the other managers --- */

static bool peer_is_alive(const struct manager_peer *peer)
{
	return peer->has_answered && peer->lost < LOST_MAX;
}

/* Does the manager of `info` rank higher than one with this priority and GUID (IBTA 14.4.1)? */
static bool rank_is_higher(const struct ib_sm_info *info, uint8_t priority, uint64_t guid)
{
	return info->priority > priority || (info->priority == priority && info->guid < guid);
}

/* The manager of the highest rank among those in one of two states; NULL: none. */
static struct manager_peer *peer_best(
	struct subnet_manager *manager, enum ib_sm_state state, enum ib_sm_state or_state)
{
	struct manager_peer *best = NULL;

	for (uint32_t i = 0; i < manager->peer_count; i++) {
		struct manager_peer *peer = &manager->peers[i];

		if (!peer_is_alive(peer) ||
			(peer->info.state != state && peer->info.state != or_state))
			continue;
		if (!best || rank_is_higher(&peer->info, best->info.priority, best->info.guid))
			best = peer;
	}
	return best;
}

static struct manager_peer *peer_find(
	struct subnet_manager *manager, const struct manager_peer *like)
{
	for (uint32_t i = 0; i < manager->peer_count; i++)
		if (manager->peers[i].node == like->node && manager->peers[i].port == like->port)
			return &manager->peers[i];
	return NULL;
}

/*
 * Find all ports with IsSM. Keep what is known of managers that are still there. Returns whether
 * there is a new one.
 */
static bool peers_find(struct subnet *subnet)
{
	struct subnet_manager *manager = subnet->manager;
	struct manager_peer found[MANAGER_PEERS_MAX];
	bool has_new = false;
	uint32_t count;

	/* Without memory, go on with the managers that are known. */
	if (manager_find_peers(subnet, found, &count))
		return false;
	for (uint32_t i = 0; i < count; i++) {
		const struct manager_peer *known = peer_find(manager, &found[i]);

		has_new |= !known;
		if (known) {
			const struct manager_peer path = found[i];

			found[i] = *known;
			found[i].hops = path.hops;
			memcpy(found[i].path, path.path, sizeof(path.path));
		}
	}
	memcpy(manager->peers, found, count * sizeof(*found));
	manager->peer_count = count;
	return has_new;
}

/* Send an SMInfo along the directed route to a manager. */
static void info_send(
	struct subnet *subnet, struct manager_peer *peer, uint8_t method, uint32_t modifier)
{
	struct subnet_manager *manager = subnet->manager;
	struct smp_flight flight = {.dlid = LID_PERMISSIVE, .slid = LID_PERMISSIVE};
	const struct mad_header header = {
		.base_version = MAD_BASE_VERSION,
		.management_class = MAD_CLASS_SUBN_DIRECTED,
		.class_version = 1,
		.method = method,
		.class_specific = peer->hops,
		.attribute_id = SM_ATTRIBUTE_SM_INFO,
		.attribute_modifier = modifier,
		.transaction_id = TRANSACTION_PREFIX << 32 | ++manager->transaction,
	};
	const struct ib_sm_info info = manager_sm_info(subnet);

	if (method == MAD_METHOD_SET)
		peer->set_transaction = header.transaction_id;
	else
		peer->get_transaction = header.transaction_id;
	mad_header_encode(&header, flight.mad);
	put_be16(flight.mad + SMP_DR_SLID, LID_PERMISSIVE);
	put_be16(flight.mad + SMP_DR_DLID, LID_PERMISSIVE);
	if (method == MAD_METHOD_SET)
		ib_sm_info_encode(&info, flight.mad + SMP_DATA);
	memcpy(flight.mad + SMP_INITIAL_PATH, peer->path, sizeof(peer->path));
	smp_send(subnet, manager->node, manager->port, &flight);
}

struct ib_sm_info manager_sm_info(const struct subnet *subnet)
{
	return (struct ib_sm_info){
		.guid = own_guid(subnet),
		.sm_key = SM_KEY,
		.act_count = ++subnet->manager->act_count,
		.state = (uint8_t)subnet->manager->state,
	};
}

/* --- states --- */

/* Another manager is the master, or will be: be STANDBY or NOT-ACTIVE. */
static void stand_by(struct subnet *subnet)
{
	struct subnet_manager *manager = subnet->manager;
	const uint64_t guid = own_guid(subnet);
	enum ib_sm_state state = IB_SM_STANDBY;

	for (uint32_t i = 0; i < manager->peer_count; i++)
		if (!rank_is_higher(&manager->peers[i].info, 0, guid))
			state = IB_SM_NOT_ACTIVE;
	manager->polls_without_master = 0;
	manager_set_state(subnet, state);
}

static void become_master(struct subnet *subnet)
{
	subnet->manager->is_new_master = true;
	subnet->manager->is_change_pending = true;
	manager_set_state(subnet, IB_SM_MASTER);
}

static void discovery_begin(struct subnet *subnet)
{
	struct subnet_manager *manager = subnet->manager;

	/* Forget what the others answered before they fell silent. */
	for (uint32_t i = 0; i < manager->peer_count; i++) {
		manager->peers[i].has_answered = false;
		manager->peers[i].lost = 0;
		manager->peers[i].get_transaction = 0;
	}
	manager_set_state(subnet, IB_SM_DISCOVERING);
}

/* Has each of the others answered, or missed LOST_MAX polls? */
static bool discovery_is_complete(const struct subnet_manager *manager)
{
	for (uint32_t i = 0; i < manager->peer_count; i++)
		if (!manager->peers[i].has_answered && manager->peers[i].lost < LOST_MAX)
			return false;
	return true;
}

/* Act on what the others have answered. */
static void state_decide(struct subnet *subnet)
{
	struct subnet_manager *manager = subnet->manager;
	struct manager_peer *peer;

	switch (manager->state) {
	case IB_SM_MASTER:
		peer = peer_best(manager, IB_SM_STANDBY, IB_SM_MASTER);
		/* If there is no answer to the handover, the next poll repeats it. */
		if (peer && !peer->set_transaction)
			info_send(subnet, peer, MAD_METHOD_SET, IB_SM_HANDOVER);
		break;
	case IB_SM_DISCOVERING:
		if (!discovery_is_complete(manager))
			break;
		if (peer_best(manager, IB_SM_MASTER, IB_SM_STANDBY) ||
			peer_best(manager, IB_SM_DISCOVERING, IB_SM_DISCOVERING))
			stand_by(subnet);
		else
			become_master(subnet);
		break;
	case IB_SM_NOT_ACTIVE:
	case IB_SM_STANDBY:
		/* More than LOST_MAX, because the last poll may still be answered. */
		if (manager->polls_without_master > LOST_MAX)
			discovery_begin(subnet);
		break;
	}
}

/* The peer has not answered a poll, or its answer does not count. */
static void peer_missed(struct manager_peer *peer)
{
	if (peer->lost < LOST_MAX)
		peer->lost++;
}

static void peers_poll(struct subnet *subnet)
{
	struct subnet_manager *manager = subnet->manager;

	manager->polls_without_master++;
	for (uint32_t i = 0; i < manager->peer_count; i++) {
		struct manager_peer *peer = &manager->peers[i];

		if (peer->get_transaction)
			peer_missed(peer);
		peer->set_transaction = 0;
		info_send(subnet, peer, MAD_METHOD_GET, 0);
	}
	state_decide(subnet);
	manager->poll_ns = subnet->now_ns +
		(manager->state == IB_SM_MASTER || manager->state == IB_SM_DISCOVERING
				? MASTER_INTERVAL_NS
				: STANDBY_INTERVAL_NS);
}

void manager_handover_advance(struct subnet *subnet)
{
	struct subnet_manager *manager = subnet->manager;

	if (manager->is_change_pending && peers_find(subnet))
		manager->poll_ns = subnet->now_ns;
	if (manager->is_disabled)
		return;
	if (own_port_is_taken(subnet))
		manager_set_state(subnet, IB_SM_NOT_ACTIVE);
	else if (manager->peer_count == 0 && manager->state != IB_SM_MASTER)
		become_master(subnet);
	else if (manager->peer_count && manager->poll_ns <= subnet->now_ns)
		peers_poll(subnet);
}

uint64_t manager_handover_deadline_ns(const struct subnet *subnet)
{
	const struct subnet_manager *manager = subnet->manager;

	return manager->peer_count && !manager->is_disabled && !own_port_is_taken(subnet)
		? manager->poll_ns
		: UINT64_MAX;
}

void manager_handover_stop(struct subnet *subnet)
{
	subnet->manager->peer_count = 0;
	subnet->manager->is_disabled = false;
	manager_set_state(subnet, IB_SM_NOT_ACTIVE);
}

/* --- what other managers send --- */

static struct manager_peer *peer_by_guid(struct subnet_manager *manager, uint64_t guid)
{
	for (uint32_t i = 0; i < manager->peer_count; i++)
		if (manager->peers[i].has_answered && manager->peers[i].info.guid == guid)
			return &manager->peers[i];
	return NULL;
}

/* Returns whether SubnSet(SMInfo) is legal in this state (IBTA 14.4.1). */
static bool control_is_legal(const struct subnet_manager *manager, uint32_t control)
{
	switch (control) {
	case IB_SM_HANDOVER:
	case IB_SM_DISCOVER:
		return manager->state == IB_SM_STANDBY || manager->state == IB_SM_MASTER;
	case IB_SM_ACKNOWLEDGE:
		return manager->state == IB_SM_MASTER;
	case IB_SM_DISABLE:
		return manager->state == IB_SM_STANDBY;
	case IB_SM_GO_STANDBY:
		return manager->state == IB_SM_NOT_ACTIVE;
	default:
		return false;
	}
}

uint16_t manager_control(struct subnet *subnet, uint32_t control, const struct ib_sm_info *sender)
{
	struct subnet_manager *manager = subnet->manager;
	struct manager_peer *peer = peer_by_guid(manager, sender->guid);

	if (!control_is_legal(manager, control))
		return MAD_STATUS_INVALID_VALUE;
	switch (control) {
	case IB_SM_HANDOVER:
		become_master(subnet);
		if (peer)
			info_send(subnet, peer, MAD_METHOD_SET, IB_SM_ACKNOWLEDGE);
		break;
	case IB_SM_ACKNOWLEDGE:
		/* Only a manager that was sent a handover may end the mastership. */
		if (peer && peer->set_transaction)
			stand_by(subnet);
		break;
	case IB_SM_DISABLE:
		manager->is_disabled = true;
		manager_set_state(subnet, IB_SM_NOT_ACTIVE);
		break;
	case IB_SM_GO_STANDBY:
		manager->is_disabled = false;
		manager->polls_without_master = 0;
		manager->is_change_pending = true;
		manager->poll_ns = subnet->now_ns;
		manager_set_state(subnet, IB_SM_STANDBY);
		break;
	default: /* IB_SM_DISCOVER */
		manager->is_change_pending = true;
		manager->poll_ns = subnet->now_ns;
		discovery_begin(subnet);
		break;
	}
	return MAD_STATUS_OK;
}

bool manager_receive_response(struct subnet *subnet, const uint8_t mad[MAD_BYTES])
{
	struct subnet_manager *manager = subnet->manager;
	struct mad_header header;

	mad_header_decode(&header, mad);
	if (header.transaction_id >> 32 != TRANSACTION_PREFIX)
		return false;
	for (uint32_t i = 0; i < manager->peer_count; i++) {
		struct manager_peer *peer = &manager->peers[i];
		const bool is_good = (header.status & ~SMP_STATUS_DIRECTION) == MAD_STATUS_OK;

		if (header.transaction_id == peer->set_transaction) {
			peer->set_transaction = 0;
			if (is_good && manager->state == IB_SM_MASTER &&
				header.attribute_modifier == IB_SM_HANDOVER)
				stand_by(subnet);
		} else if (header.transaction_id == peer->get_transaction) {
			peer->get_transaction = 0;
			if (!is_good) {
				peer_missed(peer);
				continue;
			}
			ib_sm_info_decode(&peer->info, mad + SMP_DATA);
			peer->has_answered = true;
			peer->lost = 0;
			if (peer->info.state == IB_SM_MASTER)
				manager->polls_without_master = 0;
			state_decide(subnet);
		}
	}
	return true;
}
