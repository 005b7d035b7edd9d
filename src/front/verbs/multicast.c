/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups. On RoCE a group is an IP address (IBTA annex A17.9), and the LID is ignored. On
 * InfiniBand the program has joined the group at the subnet administrator, which told it the LID.
 */
#include "front/verbs/qp.h"

#include "front/verbs/result.h"
#include "front/verbs/strict.h"

typedef int change_fn(
	struct nic_qp *qp, const struct gid *mgid, uint32_t ifindex, uint16_t mlid);

static int membership_change(
	struct ibv_qp *verbs, const union ibv_gid *verbs_gid, uint16_t mlid, change_fn *change_nic)
{
	struct qp_front *qp = qp_ref(verbs);
	struct gid mgid;
	int error;

	if (!qp)
		return result_cause(REASON_NO_OBJECT);
	memcpy(mgid.raw, verbs_gid->raw, sizeof(mgid.raw));
	error = -change_nic(qp->nic, &mgid, context_of(verbs->context)->device->ifindex,
		mlid);
	object_unref(&qp->object);
	return error;
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	int error = strict_refuse_lack(STRICT_HAS_MULTICAST);

	if (!error)
		error = result_as(membership_change(qp, gid, lid, nic_multicast_attach),
			REASON_GROUP_ADDRESS);
	return result_of("ibv_attach_mcast", error);
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return result_of("ibv_detach_mcast",
		result_as(membership_change(qp, gid, lid, nic_multicast_detach),
			REASON_GROUP_ABSENT));
}
