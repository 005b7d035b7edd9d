/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups. On RoCE a group is an IP multicast address (IBTA annex A17.9), and no subnet
 * administrator takes part. The queue pair is attached when the program takes the event of the
 * join.
 */
#include "front/rdmacm/id/multicast.h"

#include <stdlib.h>

#include "front/rdmacm/address.h"
#include "front/rdmacm/device.h"

enum { MULTICAST_QPN = 0xffffff };

static struct group *group_find(struct id *id, const struct gid *gid)
{
	list_for_each(group, &id->groups, struct group, node)
		if (gid_is_equal(&group->gid, gid))
			return group;
	return NULL;
}

static int group_join(
	struct id *id, const struct sockaddr *address, bool is_send_only, void *context)
{
	struct group *group;
	struct gid gid;

	if (!id->device || !id_is_datagram(id))
		return EINVAL;
	if (address_bytes(address) == 0)
		return EINVAL;
	gid = address_gid(address);
	if (!gid_is_multicast(&gid))
		return EINVAL;
	group = calloc(1, sizeof(*group));
	if (!group)
		return ENOMEM;
	group->gid = gid;
	group->context = context;
	group->is_send_only = is_send_only;
	group->event.id = id;
	group->event.group = group;
	group->event.type = RDMA_CM_EVENT_MULTICAST_JOIN;
	event_init(&group->event.event);
	list_append(&id->groups, &group->node);
	id_post_event(id, &group->event, 0);
	return 0;
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
		return -1;
	if (!attr || attr->comp_mask != all || !attr->addr ||
		attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return fail_errno(EINVAL);
	error = group_join(
		id, attr->addr, attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, context);
	return error ? fail_errno(error) : id_complete(id);
}

int group_taken(struct group *group, struct rdma_cm_event *event)
{
	struct rdma_ud_param *ud = &event->param.ud;
	struct id *id = group->event.id;
	int error = 0;

	ud->private_data = group->context;
	ud->qp_num = MULTICAST_QPN;
	ud->qkey = RDMA_UDP_QKEY;
	ud->ah_attr = id_address_vector(id, &group->gid);
	ud->ah_attr.grh.hop_limit = 1; /* stay on this link */
	if (!group->is_send_only && id->id.qp)
		error = ibv_attach_mcast(id->id.qp, &ud->ah_attr.grh.dgid, 0);
	group->is_attached = !group->is_send_only && id->id.qp && !error;
	return error;
}

void group_leave(struct group *group)
{
	struct id *id = group->event.id;
	union ibv_gid gid;

	memcpy(gid.raw, group->gid.raw, sizeof(gid.raw));
	if (group->is_attached && id->id.qp)
		ibv_detach_mcast(id->id.qp, &gid, 0);
	id_forget_event(id, &group->event);
	list_remove(&group->node);
	free(group);
}

int rdma_leave_multicast(struct rdma_cm_id *public, struct sockaddr *address)
{
	struct id *id = id_find(public);
	struct group *group;
	struct gid gid;

	if (!id)
		return -1;
	if (!address || address_bytes(address) == 0)
		return fail_errno(EINVAL);
	gid = address_gid(address);
	group = group_find(id, &gid);
	if (!group)
		return fail_errno(EADDRNOTAVAIL);
	group_leave(group);
	return 0;
}
