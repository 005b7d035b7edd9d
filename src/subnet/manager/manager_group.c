/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "subnet/manager/manager_internal.h"

enum {
	MTU_UNLESS_ASKED = 4, /* 2,048 bytes */
	RATE_UNLESS_ASKED = 3, /* 10 Gbit/s */
	MTU_MAX = 5, /* 4,096 bytes */
	/* A group exists while it has a member with one of these; only such a member creates it. */
	JOIN_KEEPS = SA_JOIN_FULL | SA_JOIN_SEND_ONLY_FULL,
	JOIN_ALL = JOIN_KEEPS | SA_JOIN_NON | SA_JOIN_SEND_ONLY,
};

/* The components that the creator of a group has to give (IBTA 15.2.5.17). */
static uint64_t creation_mask(void)
{
	return sa_mask_mc_member_port_gid | sa_mask_mc_member_qkey |
		sa_mask_mc_member_traffic_class | sa_mask_mc_member_pkey | sa_mask_mc_member_sl |
		sa_mask_mc_member_flow_label | sa_mask_mc_member_join_state;
}

struct manager_group *manager_find_group(
	const struct subnet_manager *manager, const struct gid *mgid)
{
	for (uint32_t i = 0; i < GROUPS_MAX; i++)
		if (manager->groups[i] && gid_is_equal(&manager->groups[i]->mgid, mgid))
			return manager->groups[i];
	return NULL;
}

static void group_destroy(struct subnet_manager *manager, struct manager_group *group)
{
	manager->groups[group->mlid - LID_MULTICAST_FIRST] = NULL;
	free(group->members);
	free(group);
}

void manager_groups_clear(struct subnet_manager *manager)
{
	for (uint32_t i = 0; i < GROUPS_MAX; i++)
		if (manager->groups[i])
			group_destroy(manager, manager->groups[i]);
}

/* --- joining --- */

static struct manager_member *member_find(
	const struct manager_group *group, const struct manager_lid *port)
{
	for (uint32_t i = 0; i < group->member_count; i++)
		if (group->members[i].node == port->node - 1 &&
			group->members[i].port == port->port)
			return &group->members[i];
	return NULL;
}

static bool group_has_full_member(const struct manager_group *group)
{
	for (uint32_t i = 0; i < group->member_count; i++)
		if (group->members[i].join_state & JOIN_KEEPS)
			return true;
	return false;
}

static struct manager_member *member_add(
	struct manager_group *group, const struct manager_lid *port)
{
	struct manager_member *members =
		realloc(group->members, (group->member_count + 1) * sizeof(*members));

	if (!members)
		return NULL;
	group->members = members;
	members[group->member_count] =
		(struct manager_member){.node = port->node - 1, .port = port->port};
	return &members[group->member_count++];
}

/* A GID that no group has, for a creator that names none. */
static struct gid gid_make(const struct subnet_manager *manager, uint8_t scope)
{
	struct gid gid = {{0xff, (uint8_t)(0x10 | (scope ? scope : 2)), 0xa0, 0x1b}};

	for (uint32_t i = 0; i < GROUPS_MAX; i++) {
		put_be32(gid.raw + 12, i + 1);
		if (!manager_find_group(manager, &gid))
			break;
	}
	return gid;
}

static uint8_t value_or(bool is_asked, uint8_t selector, uint8_t asked, uint8_t otherwise)
{
	return is_asked && (selector & 3) == SA_SELECT_EXACTLY && asked ? asked : otherwise;
}

/*
 * Choose the LID of a new group: the one that is asked for, if it is free, else the first free one.
 * A member asks for a LID if another manager has given it before. Skip the very first LID: OpenSM
 * gives that to its broadcast group, so another group would lose it to OpenSM.
 */
static uint32_t index_choose(const struct subnet_manager *manager, uint16_t mlid)
{
	uint32_t index = 1;

	if (mlid >= LID_MULTICAST_FIRST && mlid - LID_MULTICAST_FIRST < GROUPS_MAX &&
		!manager->groups[mlid - LID_MULTICAST_FIRST])
		return mlid - LID_MULTICAST_FIRST;
	while (index < GROUPS_MAX && manager->groups[index])
		index++;
	return index;
}

static uint16_t group_create(struct subnet_manager *manager, const struct sa_mc_member *asked,
	uint64_t mask, struct manager_group **ret_group)
{
	const uint8_t mtu = value_or(mask & sa_mask_mc_member_mtu, asked->mtu_selector, asked->mtu,
		MTU_UNLESS_ASKED);
	const uint8_t rate = value_or(mask & sa_mask_mc_member_rate, asked->rate_selector,
		asked->rate, RATE_UNLESS_ASKED);
	struct manager_group *group;
	uint32_t index;
	struct gid mgid;

	memcpy(mgid.raw, asked->mgid, sizeof(mgid.raw));
	if ((mask & creation_mask()) != creation_mask())
		return SA_STATUS_INSUFFICIENT_COMPONENTS;
	if (!(asked->join_state & JOIN_KEEPS) || mtu > MTU_MAX || !manager_rate_mbps(rate))
		return SA_STATUS_INVALID;
	if (gid_is_zero(&mgid))
		mgid = gid_make(manager, asked->scope);
	if (!gid_is_multicast(&mgid))
		return SA_STATUS_INVALID_GID;
	index = index_choose(manager, mask & sa_mask_mc_member_mlid ? asked->mlid : 0);
	group = index < GROUPS_MAX ? calloc(1, sizeof(*group)) : NULL;
	if (!group)
		return SA_STATUS_NO_RESOURCES;
	*group = (struct manager_group){
		.mgid = mgid,
		.mlid = (uint16_t)(LID_MULTICAST_FIRST + index),
		.pkey = asked->pkey,
		.qkey = asked->qkey,
		.flow_label = asked->flow_label,
		.mtu = mtu,
		.rate = rate,
		.life = value_or(mask & sa_mask_mc_member_life, asked->life_selector, asked->life,
			PACKET_LIFE),
		.sl = asked->sl,
		.traffic_class = asked->traffic_class,
		.hop_limit = asked->hop_limit,
		.scope = mgid.raw[1] & 0xf,
	};
	manager->groups[index] = group;
	*ret_group = group;
	return MAD_STATUS_OK;
}

/* Does the group's MTU or rate, `value`, contradict what a member asks for? */
static bool wish_is_refused(bool is_asked, uint8_t selector, uint32_t asked, uint32_t value)
{
	if (!is_asked)
		return false;
	switch (selector & 3) {
	case SA_SELECT_ABOVE:
		return value <= asked;
	case SA_SELECT_BELOW:
		return value >= asked;
	case SA_SELECT_EXACTLY:
		return value != asked;
	default:
		return false;
	}
}

static bool group_fits(
	const struct manager_group *group, const struct sa_mc_member *asked, uint64_t mask)
{
	const uint64_t mtu = sa_mask_mc_member_mtu | sa_mask_mc_member_mtu_selector;
	const uint64_t rate = sa_mask_mc_member_rate | sa_mask_mc_member_rate_selector;

	return !(mask & sa_mask_mc_member_qkey && asked->qkey != group->qkey) &&
		!(mask & sa_mask_mc_member_pkey && (asked->pkey ^ group->pkey) & 0x7fff) &&
		!wish_is_refused(
			(mask & mtu) == mtu, asked->mtu_selector, asked->mtu, group->mtu) &&
		!wish_is_refused((mask & rate) == rate, asked->rate_selector,
			manager_rate_mbps(asked->rate), manager_rate_mbps(group->rate));
}

/* --- records --- */

static void group_record_fill(const struct subnet *subnet, const struct manager_group *group,
	const struct manager_member *member, struct sa_mc_member *record)
{
	*record = (struct sa_mc_member){
		.qkey = group->qkey,
		.mlid = group->mlid,
		.mtu_selector = SA_SELECT_EXACTLY,
		.mtu = group->mtu,
		.traffic_class = group->traffic_class,
		.pkey = group->pkey,
		.rate_selector = SA_SELECT_EXACTLY,
		.rate = group->rate,
		.life_selector = SA_SELECT_EXACTLY,
		.life = group->life,
		.sl = group->sl,
		.flow_label = group->flow_label,
		.hop_limit = group->hop_limit,
		.scope = group->scope,
	};
	memcpy(record->mgid, group->mgid.raw, 16);
	if (member) {
		const struct gid gid =
			manager_port_gid(&subnet->nodes[member->node].ports[member->port]);

		memcpy(record->port_gid, gid.raw, 16);
		record->join_state = member->join_state;
	}
}

static void member_record_add(const struct subnet *subnet, const struct manager_group *group,
	const struct manager_member *member, struct manager_records *records)
{
	struct sa_mc_member record;
	uint8_t *to = manager_records_add(records);

	group_record_fill(subnet, group, member, &record);
	if (to)
		sa_mc_member_encode(&record, to);
}

static uint16_t group_join(struct subnet *subnet, const struct sa_mc_member *asked, uint64_t mask,
	const struct manager_lid *port, struct manager_records *records)
{
	struct manager_member *member;
	struct manager_group *group;
	uint16_t status;
	struct gid mgid;

	memcpy(mgid.raw, asked->mgid, sizeof(mgid.raw));
	group = mask & sa_mask_mc_member_mgid ? manager_find_group(subnet->manager, &mgid) : NULL;
	if (group && !group_fits(group, asked, mask))
		return SA_STATUS_INVALID;
	if (!group) {
		status = group_create(subnet->manager, asked, mask, &group);
		if (status)
			return status;
	}
	member = member_find(group, port);
	if (!member)
		member = member_add(group, port);
	if (!member)
		return SA_STATUS_NO_RESOURCES;
	member->join_state |= asked->join_state & JOIN_ALL;
	/* If there is no memory for the routes now, the next sweep makes them. */
	if (manager_route_groups(subnet))
		manager_notice_change(subnet);
	member_record_add(subnet, group, member, records);
	return MAD_STATUS_OK;
}

static uint16_t group_leave(struct subnet *subnet, const struct sa_mc_member *asked,
	const struct manager_lid *port, struct manager_records *records)
{
	struct manager_member *member;
	struct manager_group *group;
	struct gid mgid;

	memcpy(mgid.raw, asked->mgid, sizeof(mgid.raw));
	group = manager_find_group(subnet->manager, &mgid);
	member = group ? member_find(group, port) : NULL;
	if (!member || !(member->join_state & asked->join_state))
		return SA_STATUS_INVALID;
	member_record_add(subnet, group, member, records);
	member->join_state &= (uint8_t)~asked->join_state;
	if (!member->join_state)
		*member = group->members[--group->member_count];
	if (!group_has_full_member(group))
		group_destroy(subnet->manager, group);
	if (manager_route_groups(subnet))
		manager_notice_change(subnet);
	return MAD_STATUS_OK;
}

static void groups_get(const struct subnet *subnet, const struct sa_mc_member *asked, uint64_t mask,
	bool is_trusted, struct manager_records *records)
{
	const bool is_of_members = is_trusted ||
		mask & (sa_mask_mc_member_port_gid | sa_mask_mc_member_join_state);

	for (uint32_t i = 0; i < GROUPS_MAX; i++) {
		const struct manager_group *group = subnet->manager->groups[i];
		const uint32_t count = !group ? 0 : is_of_members ? group->member_count : 1;

		for (uint32_t k = 0; k < count; k++) {
			const struct manager_member *member =
				is_of_members ? &group->members[k] : NULL;
			struct sa_mc_member record;

			group_record_fill(subnet, group, member, &record);
			if (sa_mc_member_matches(&record, asked, mask))
				member_record_add(subnet, group, member, records);
		}
	}
}

uint16_t manager_groups_answer(
	struct subnet *subnet, const struct manager_query *query, struct manager_records *records)
{
	const uint64_t mask = query->component_mask;
	const struct manager_lid *port;
	struct sa_mc_member asked;
	struct gid port_gid;

	sa_mc_member_decode(&asked, query->record);
	if (query->method == MAD_METHOD_GET || query->method == MAD_METHOD_GET_TABLE) {
		groups_get(subnet, &asked, mask, query->is_trusted, records);
		return MAD_STATUS_OK;
	}
	memcpy(port_gid.raw, asked.port_gid, sizeof(port_gid.raw));
	if (!(mask & sa_mask_mc_member_port_gid) || !(mask & sa_mask_mc_member_join_state))
		return SA_STATUS_INSUFFICIENT_COMPONENTS;
	port = manager_find_gid(subnet, &port_gid);
	if (!port)
		return SA_STATUS_INVALID_GID;
	if (!(asked.join_state & JOIN_ALL))
		return SA_STATUS_INVALID;
	return query->method == MAD_METHOD_SET ? group_join(subnet, &asked, mask, port, records)
					       : group_leave(subnet, &asked, port, records);
}
