/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Conversion of queue pair attributes between the ABI and the NIC. The numbers of enums and flags
 * are the same in both (tests/abi checks this); addresses are converted.
 */
#include "front/verbs/qp.h"
#include "front/verbs/result.h"
#include "wire/infiniband/lid_address.h"
#include "wire/infiniband/lrh.h"

/* The path bits of a LID. A port has at most 7 of them (LMC 7). */
#define PATH_BITS_MASK 0x7f

/*
 * Log why an address is refused. Every RoCE address is global, because RoCE has no local routes
 * (IBTA annex A16.4.1).
 */
static void path_refuse(const struct device *device, const struct ibv_ah_attr *ah, uint8_t port)
{
	if (device_is_ib(device) && device_has_port(device, port) && !ah->is_global)
		nic_failure_call(
			REASON_ADDRESS, 0, "ah_attr.dlid 0x%x is no LID of a port", ah->dlid);
	else if (!device_is_ib(device) && !ah->is_global)
		nic_failure_call(REASON_ADDRESS, 0,
			"RTR over RoCE needs ah_attr.is_global and a GRH, and so does an address handle");
	else if (!device_has_port(device, port))
		nic_failure_call(REASON_ADDRESS, 0, "ah_attr.port_num is %u; the device has %u",
			port, device->port_count);
	else
		nic_failure_call(REASON_ADDRESS, 0,
			"ah_attr.grh.sgid_index %u is beyond the end of the GID table",
			ah->grh.sgid_index);
}

/* Set the two ends of a path. Returns false when the device has no such path. */
static bool ends_from_verbs(
	struct device *device, const struct ibv_ah_attr *ah, uint8_t port, struct qp_path *path)
{
	bool is_ib = device_is_ib(device);

	if (!device_has_port(device, port) || (!is_ib && !ah->is_global))
		return false;
	if (is_ib) {
		if (ah->dlid == 0 || ah->dlid > LID_MULTICAST_LAST)
			return false;
		path->ib = (struct qp_path_ib){
			.dlid = ah->dlid,
			.port = port,
			.path_bits = ah->src_path_bits & PATH_BITS_MASK,
			.has_grh = ah->is_global,
		};
	}
	if (!ah->is_global) {
		path->local = lid_address_local(port, path->ib.path_bits);
		path->remote = lid_address_remote(ah->dlid);
		return true;
	}
	memcpy(path->remote.raw, ah->grh.dgid.raw, sizeof(path->remote.raw));
	return device_port_gid(device, port, ah->grh.sgid_index, &path->local);
}

int path_from_verbs(
	struct device *device, const struct ibv_ah_attr *ah, uint8_t port, struct qp_path *ret_path)
{
	struct qp_path path = {
		.ifindex = device->ifindex,
		.flow_label = ah->grh.flow_label,
		.traffic_class = ah->grh.traffic_class,
		.hop_limit = ah->grh.hop_limit,
		.service_level = ah->sl,
		.static_rate = ah->static_rate,
	};

	int rate_mbps = ah->static_rate == IBV_RATE_MAX
		? 0
		: ibv_rate_to_mbps((enum ibv_rate)ah->static_rate);

	if (rate_mbps < 0) {
		nic_failure_call(REASON_ADDRESS, 0, "ah_attr.static_rate %u is not a valid rate",
			ah->static_rate);
		return result_cause(REASON_ADDRESS);
	}
	if (rate_mbps < DEVICE_PORT_RATE_MBPS)
		path.rate_kbps = (uint32_t)rate_mbps * 1000;
	if (!ends_from_verbs(device, ah, port, &path)) {
		path_refuse(device, ah, port);
		return result_cause(REASON_ADDRESS);
	}
	*ret_path = path;
	return 0;
}

/* ah_from_path() for InfiniBand. */
static struct ibv_ah_attr ah_from_path_ib(struct device *device, const struct qp_path *path)
{
	struct ibv_ah_attr ah = {
		.dlid = path->ib.dlid,
		.sl = path->service_level,
		.src_path_bits = path->ib.path_bits,
		.static_rate = path->static_rate,
		.is_global = path->ib.has_grh,
		.port_num = path->ib.port,
	};

	if (!path->ib.has_grh)
		return ah;
	memcpy(ah.grh.dgid.raw, path->remote.raw, sizeof(path->remote.raw));
	ah.grh.flow_label = path->flow_label;
	ah.grh.sgid_index = device_port_gid_index(device, path->ib.port, &path->local);
	ah.grh.hop_limit = path->hop_limit;
	ah.grh.traffic_class = path->traffic_class;
	return ah;
}

static struct ibv_ah_attr ah_from_path(struct device *device, const struct qp_path *path)
{
	if (path->ib.port)
		return ah_from_path_ib(device, path);
	struct ibv_ah_attr ah = {
		.grh =
			{
				.flow_label = path->flow_label,
				.sgid_index = device_gid_index(device, &path->local),
				.hop_limit = path->hop_limit,
				.traffic_class = path->traffic_class,
			},
		.sl = path->service_level,
		.static_rate = path->static_rate,
		.is_global = 1,
		.port_num = DEVICE_PORT,
	};

	memcpy(ah.grh.dgid.raw, path->remote.raw, sizeof(path->remote.raw));
	return ah;
}

int qp_attr_from_verbs(
	struct device *device, const struct ibv_qp_attr *verbs, int mask, struct qp_attr *attr)
{
	int error = 0;

	*attr = (struct qp_attr){
		.cur_state = (enum qp_state)verbs->cur_qp_state,
		.has_drain_event = verbs->en_sqd_async_notify != 0,
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
		.alt_pkey_index = verbs->alt_pkey_index,
		.alt_port = verbs->alt_port_num,
		.alt_timeout = verbs->alt_timeout,
		.migration = (enum qp_migration)verbs->path_mig_state,
		.rate_limit_kbps = mask & IBV_QP_RATE_LIMIT ? verbs->rate_limit : 0,
	};
	if (mask & IBV_QP_AV)
		error = path_from_verbs(
			device, &verbs->ah_attr, verbs->ah_attr.port_num, &attr->path);
	if (!error && (mask & IBV_QP_ALT_PATH))
		error = path_from_verbs(
			device, &verbs->alt_ah_attr, verbs->alt_port_num, &attr->alt_path);
	return error;
}

struct ibv_qp_attr qp_attr_to_verbs(const struct qp_front *qp, const struct nic_qp_state *nic)
{
	struct device *device = context_of(qp->verbs.context)->device;
	const struct qp_attr *attr = &nic->attr;
	struct ibv_qp_attr verbs = {
		.qp_state = (enum ibv_qp_state)nic->state,
		.cur_qp_state = (enum ibv_qp_state)nic->state,
		.path_mtu = (enum ibv_mtu)attr->path_mtu,
		.path_mig_state = (enum ibv_mig_state)attr->migration,
		.qkey = attr->qkey,
		.rq_psn = attr->rq_psn,
		.sq_psn = attr->sq_psn,
		.dest_qp_num = attr->dest_qpn,
		.qp_access_flags = attr->access,
		.cap = qp->cap,
		.pkey_index = (uint16_t)attr->pkey_index,
		.en_sqd_async_notify = attr->has_drain_event,
		.sq_draining = nic->is_sq_draining,
		.max_rd_atomic = (uint8_t)attr->max_rd_atomic,
		.max_dest_rd_atomic = (uint8_t)attr->max_dest_rd_atomic,
		.min_rnr_timer = (uint8_t)attr->min_rnr_timer,
		.port_num = (uint8_t)attr->port,
		.timeout = (uint8_t)attr->timeout,
		.retry_cnt = (uint8_t)attr->retry_cnt,
		.rnr_retry = (uint8_t)attr->rnr_retry,
		.alt_pkey_index = (uint16_t)attr->alt_pkey_index,
		.alt_port_num = (uint8_t)attr->alt_port,
		.alt_timeout = (uint8_t)attr->alt_timeout,
		.rate_limit = attr->rate_limit_kbps,
	};

	if (nic->has_path)
		verbs.ah_attr = ah_from_path(device, &attr->path);
	if (nic->has_alt_path)
		verbs.alt_ah_attr = ah_from_path(device, &attr->alt_path);
	return verbs;
}
