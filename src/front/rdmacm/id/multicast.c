/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups. On RoCE a group is an IP multicast address (IBTA annex A17.9), and no subnet
 * administrator takes part. On InfiniBand the administrator makes the group and gives it a LID. The
 * queue pair is attached when the program takes the event of the join.
 */
#include "front/rdmacm/id/multicast.h"

#include <errno.h>
#include <stdlib.h>

#include "front/rdmacm/address.h"
#include "front/rdmacm/device.h"
#include "front/rdmacm/id/event_cause.h"
#include "front/rdmacm/infiniband.h"

enum {
	MULTICAST_QPN = 0xffffff,
	JOIN_TIMEOUT_MS = 3000, /* as in Linux */
};

static struct multicast_group *group_find(struct id *id, const struct gid *gid)
{
	list_for_each(group, &id->groups, struct multicast_group, node)
		if (gid_is_equal(&group->gid, gid))
			return group;
	return NULL;
}

/* --- InfiniBand --- */

static enum event_cause join_cause(int error)
{
	switch (error) {
	case -ETIMEDOUT:
		return CAUSE_GROUP_SILENT;
	case -ENETDOWN:
		return CAUSE_GROUP_CUT_OFF;
	default:
		return CAUSE_GROUP_REFUSED;
	}
}

/* The subnet administrator has answered the request to join. */
static void on_join(struct nic_fabric_query *query, int error, const uint8_t *record)
{
	struct multicast_group *group = container_of(query, struct multicast_group, query);
	struct id *id = group->event.id;

	if (!error) {
		sa_mc_member_decode(&group->member, record);
		memcpy(group->mgid.raw, group->member.mgid, sizeof(group->mgid.raw));
	}
	if (!error && !group->is_held) {
		error = nic_fabric_group_hold(DEVICE_PORT, &group->mgid, group->join_state);
		group->is_held = !error;
	}
	if (error)
		id_fail_event(id, &group->event, join_cause(error), error);
	else
		id_post_event(id, &group->event, 0);
}

/* Request to join the group. Returns 0, and an event follows; or -errno. */
static int infiniband_join(struct multicast_group *group)
{
	uint16_t pkey = infiniband_group_pkey(group->event.id->path.ib.pkey);
	int rc = 0;

	group->mgid = infiniband_mgid(&group->gid, pkey);
	group->join_state = group->is_send_only ? SA_JOIN_SEND_ONLY_FULL : SA_JOIN_FULL;
	if (!gid_is_zero(&group->mgid)) {
		rc = nic_fabric_group_hold(DEVICE_PORT, &group->mgid, group->join_state);
		group->is_held = !rc;
	}
	if (rc)
		return rc;
	return nic_fabric_query_join(&group->query, DEVICE_PORT, &group->mgid, group->join_state,
		pkey, RDMA_UDP_QKEY, JOIN_TIMEOUT_MS);
}

static void infiniband_leave(struct multicast_group *group)
{
	if (group->is_held)
		nic_fabric_group_leave(DEVICE_PORT, &group->mgid, group->join_state);
}

/* The address vector of the group as the administrator has made it. */
static void infiniband_fill(const struct multicast_group *group, struct rdma_ud_param *ud)
{
	const struct sa_mc_member *member = &group->member;

	ud->qkey = member->qkey;
	ud->ah_attr.dlid = member->mlid;
	ud->ah_attr.sl = member->sl;
	ud->ah_attr.static_rate = member->rate;
	ud->ah_attr.grh.flow_label = member->flow_label;
	ud->ah_attr.grh.hop_limit = member->hop_limit;
	ud->ah_attr.grh.traffic_class = member->traffic_class;
	memcpy(ud->ah_attr.grh.dgid.raw, group->mgid.raw, sizeof(group->mgid.raw));
}

/* --- joining and leaving --- */

static bool group_is_possible(const struct gid *gid)
{
	return gid_is_multicast(gid) || (infiniband_is_used() && cm_address_is_any(gid));
}

static void group_free(struct multicast_group *group)
{
	if (infiniband_is_used())
		infiniband_leave(group);
	list_remove(&group->node);
	free(group);
}

static int group_join(
	struct id *id, const struct sockaddr *address, bool is_send_only, void *context)
{
	struct multicast_group *group;
	struct gid gid;
	int rc;

	if (!id->device || !id_is_datagram(id))
		return id_cause(REASON_CM_GROUP_ID);
	if (address_bytes(address) == 0)
		return id_cause(REASON_CM_FAMILY);
	gid = address_gid(address);
	if (!group_is_possible(&gid))
		return id_cause(REASON_GROUP_ADDRESS);
	group = calloc(1, sizeof(*group));
	if (!group)
		return id_cause(REASON_NO_MEMORY);
	group->gid = gid;
	group->context = context;
	group->is_send_only = is_send_only;
	group->event.id = id;
	group->event.group = group;
	group->event.type = RDMA_CM_EVENT_MULTICAST_JOIN;
	event_init(&group->event.event);
	group->query.on_answer = on_join;
	list_init(&group->query.link);
	list_append(&id->groups, &group->node);
	if (!infiniband_is_used()) {
		id_post_event(id, &group->event, 0);
		return 0;
	}
	rc = infiniband_join(group);
	if (rc)
		group_free(group);
	return -rc;
}

int rdma_join_multicast(struct rdma_cm_id *public, struct sockaddr *address, void *context)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER,
		.addr = address,
	};

	return rdma_join_multicast_ex(public, &attr, context);
}

int rdma_join_multicast_ex(
	struct rdma_cm_id *public, struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
	const uint32_t all = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	struct id *id = id_find(public);
	int error;

	if (!id)
		return fail_errno(errno);
	if (!attr || attr->comp_mask != all || !attr->addr ||
		attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return fail_errno(id_cause(REASON_ATTR_MISSING));
	error = group_join(
		id, attr->addr, attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, context);
	return error ? fail_errno(error) : id_complete(id);
}

int group_taken(struct multicast_group *group, struct rdma_cm_event *event)
{
	struct rdma_ud_param *ud = &event->param.ud;
	struct id *id = group->event.id;
	int error = 0;

	ud->private_data = group->context;
	ud->qp_num = MULTICAST_QPN;
	ud->qkey = RDMA_UDP_QKEY;
	ud->ah_attr = id_address_vector(id, &group->gid);
	ud->ah_attr.grh.hop_limit = 1; /* stay on this link */
	if (infiniband_is_used())
		infiniband_fill(group, ud);
	if (!group->is_send_only && id->id.qp)
		error = ibv_attach_mcast(id->id.qp, &ud->ah_attr.grh.dgid, group->member.mlid);
	group->is_attached = !group->is_send_only && id->id.qp && !error;
	return error;
}

void group_failed(const struct multicast_group *group, struct rdma_cm_event *event)
{
	event->param.ud.private_data = group->context;
}

void group_leave(struct multicast_group *group)
{
	struct id *id = group->event.id;
	const struct gid *gid = infiniband_is_used() ? &group->mgid : &group->gid;
	union ibv_gid attached;

	memcpy(attached.raw, gid->raw, sizeof(attached.raw));
	if (group->is_attached && id->id.qp)
		ibv_detach_mcast(id->id.qp, &attached, group->member.mlid);
	if (infiniband_is_used())
		nic_fabric_query_forget(&group->query);
	id_forget_event(id, &group->event);
	group_free(group);
}

int rdma_leave_multicast(struct rdma_cm_id *public, struct sockaddr *address)
{
	struct id *id = id_find(public);
	struct multicast_group *group;
	struct gid gid;

	if (!id)
		return fail_errno(errno);
	if (!address || address_bytes(address) == 0)
		return fail_errno(id_cause(REASON_CM_FAMILY));
	gid = address_gid(address);
	group = group_find(id, &gid);
	if (!group)
		return fail_errno(id_cause(REASON_CM_GROUP_ABSENT));
	group_leave(group);
	return 0;
}
