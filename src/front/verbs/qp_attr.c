/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The attributes of a queue pair in the ABI's words and in the NIC's. Numbers are the same (tests/abi); the address is not.
 */
#include "front/verbs/qp.h"

int route_from_verbs(
	struct device *device, const struct ibv_ah_attr *ah, struct nic_route *ret_route)
{
	struct nic_route route = {
		.ifindex = device->ifindex,
		.traffic_class = ah->grh.traffic_class,
		.hop_limit = ah->grh.hop_limit,
	};

	/* RoCE has no local routes: every address is a global one (IBTA annex A16.4.1). */
	if (!ah->is_global || ah->port_num != DEVICE_PORT ||
		!device_gid(device, ah->grh.sgid_index, &route.local))
		return EINVAL;
	memcpy(route.remote.raw, ah->grh.dgid.raw, sizeof(route.remote.raw));
	*ret_route = route;
	return 0;
}

int qp_attr_from_verbs(struct device *device, const struct ibv_qp_attr *verbs, int mask,
	struct qp_attr *attr, struct nic_route *route)
{
	*attr = (struct qp_attr){
		.cur_state = (enum qp_state)verbs->cur_qp_state,
		.is_drain_told = verbs->en_sqd_async_notify != 0,
		.access = verbs->qp_access_flags,
		.pkey_index = verbs->pkey_index,
		.port = verbs->port_num,
		.qkey = verbs->qkey,
		.path_mtu = (uint32_t)verbs->path_mtu,
		.dest_qpn = verbs->dest_qp_num,
		.rq_psn = verbs->rq_psn,
		.sq_psn = verbs->sq_psn,
		.max_rd_atomic = verbs->max_rd_atomic,
		.max_dest_rd_atomic = verbs->max_dest_rd_atomic,
		.min_rnr_timer = verbs->min_rnr_timer,
		.timeout = verbs->timeout,
		.retry_cnt = verbs->retry_cnt,
		.rnr_retry = verbs->rnr_retry,
	};
	*route = (struct nic_route){0};
	return mask & IBV_QP_AV ? route_from_verbs(device, &verbs->ah_attr, route) : 0;
}

struct ibv_qp_attr qp_attr_to_verbs(const struct qp_front *qp, const struct nic_qp_state *nic)
{
	const struct qp_attr *attr = &nic->attr;

	return (struct ibv_qp_attr){
		.qp_state = (enum ibv_qp_state)nic->state,
		.cur_qp_state = (enum ibv_qp_state)nic->state,
		.path_mtu = (enum ibv_mtu)attr->path_mtu,
		.path_mig_state = IBV_MIG_MIGRATED,
		.qkey = attr->qkey,
		.rq_psn = attr->rq_psn,
		.sq_psn = attr->sq_psn,
		.dest_qp_num = attr->dest_qpn,
		.qp_access_flags = attr->access,
		.cap = qp->cap,
		.ah_attr = qp->ah_attr,
		.pkey_index = (uint16_t)attr->pkey_index,
		.en_sqd_async_notify = attr->is_drain_told,
		.sq_draining = nic->is_sq_draining,
		.max_rd_atomic = (uint8_t)attr->max_rd_atomic,
		.max_dest_rd_atomic = (uint8_t)attr->max_dest_rd_atomic,
		.min_rnr_timer = (uint8_t)attr->min_rnr_timer,
		.port_num = (uint8_t)attr->port,
		.timeout = (uint8_t)attr->timeout,
		.retry_cnt = (uint8_t)attr->retry_cnt,
		.rnr_retry = (uint8_t)attr->rnr_retry,
	};
}
