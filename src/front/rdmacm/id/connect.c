/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connecting, accepting, refusing, disconnecting.
 */

#include "base/arith.h"
#include "front/rdmacm/address.h"
#include "front/rdmacm/device.h"
#include "front/rdmacm/id/id.h"
#include "front/rdmacm/id/iwarp_connect.h"
#include "front/rdmacm/infiniband.h"
#include "wire/bth.h"

/*
 * The program's parameters. If the program has given none, these are the largest values that the
 * device and the peer permit.
 */
static struct rdma_conn_param param_or_default(const struct rdma_conn_param *param)
{
	if (param)
		return *param;
	return (struct rdma_conn_param){
		.responder_resources = RDMA_MAX_RESP_RES,
		.initiator_depth = RDMA_MAX_INIT_DEPTH,
		.retry_count = ID_RETRY_COUNT_MAX,
		.rnr_retry_count = ID_RETRY_COUNT_MAX,
	};
}

/*
 * Copy private data to `to`: first those from rdma_getaddrinfo() (id->connect_data), then those of
 * `param`. Returns the total length, or -EINVAL if that exceeds `room`.
 */
static int private_data(
	const struct id *id, const struct rdma_conn_param *param, uint8_t *to, size_t room)
{
	size_t bytes = param->private_data ? param->private_data_len : 0;

	if (id->connect_bytes > room || bytes > room - id->connect_bytes)
		return -id_cause(REASON_CM_DATA);
	if (id->connect_bytes > 0)
		memcpy(to, id->connect_data, id->connect_bytes);
	if (bytes > 0)
		memcpy(to + id->connect_bytes, param->private_data, bytes);
	return (int)(id->connect_bytes + bytes);
}

static void put_ip_header(const struct id *id, uint8_t *to)
{
	const struct ip_cm_header header = {
		.source_port = address_port(&id->id.route.addr.src_addr),
		.source = address_gid(&id->id.route.addr.src_addr),
		.destination = address_gid(&id->id.route.addr.dst_addr),
	};

	ip_cm_header_encode(&header, to);
}

static uint64_t remote_service(const struct id *id)
{
	return ip_cm_service_id((uint16_t)id->id.ps, address_port(&id->id.route.addr.dst_addr));
}

static uint8_t transport_of(enum ibv_qp_type qp_type)
{
	if (qp_type == IBV_QPT_UC)
		return CM_SERVICE_UC;
	return qp_type == IBV_QPT_XRC_SEND ? CM_SERVICE_EXTENDED : CM_SERVICE_RC;
}

void id_agree_reads(struct id *id, uint32_t responder_resources, uint32_t initiator_depth)
{
	id->agreement.responder_resources =
		(uint8_t)min_u32(responder_resources, id->device->responder_resources_max);
	id->agreement.initiator_depth =
		(uint8_t)min_u32(initiator_depth, id->device->initiator_depth_max);
}

void id_accept_reads(struct id *id, const struct rdma_conn_param *param)
{
	const struct id_agreement *requested = &id->agreement;

	id_agree_reads(id,
		param->responder_resources == RDMA_MAX_RESP_RES ? requested->responder_resources
								: param->responder_resources,
		param->initiator_depth == RDMA_MAX_INIT_DEPTH ? requested->initiator_depth
							      : param->initiator_depth);
}

uint16_t id_pkey(const struct id *id)
{
	return id->path.ib.pkey ? id->path.ib.pkey : BTH_PKEY_DEFAULT;
}

static int connect_stream(struct id *id, const struct rdma_conn_param *param)
{
	struct id_agreement *agreement = &id->agreement;
	struct cm_req req = {
		.service_id = remote_service(id),
		.local_qpn = id->id.qp ? id->id.qp->qp_num : param->qp_num,
		.transport_service = transport_of(id->id.qp_type),
		.extended_transport = id->id.qp_type == IBV_QPT_XRC_SEND ? CM_EXTENDED_XRC : 0,
		.has_flow_control = param->flow_control != 0,
		.starting_psn = nic_cm_random_psn(),
		.retry_count = (uint8_t)min_u32(param->retry_count, ID_RETRY_COUNT_MAX),
		.rnr_retry_count = (uint8_t)min_u32(param->rnr_retry_count, ID_RETRY_COUNT_MAX),
		.pkey = id_pkey(id),
		.path_mtu = agreement->path_mtu,
		.has_srq = id->id.qp ? id->id.qp->srq != NULL : param->srq,
		.primary_traffic_class = id->tos,
		.primary_hop_limit = ID_HOP_LIMIT,
		.primary_sl = id->path.ib.port ? id->path.ib.sl : id->tos >> 5,
		.is_primary_subnet_local = 0,
		.primary_ack_timeout = id->ack_timeout,
	};
	int rc = private_data(
		id, param, req.private_data + IP_CM_HEADER_BYTES, IP_CM_REQ_DATA_BYTES);

	if (rc < 0)
		return rc;
	put_ip_header(id, req.private_data);
	id_agree_reads(id, param->responder_resources, param->initiator_depth);
	req.responder_resources = agreement->responder_resources;
	req.initiator_depth = agreement->initiator_depth;
	agreement->rq_psn = req.starting_psn;
	agreement->retry_count = req.retry_count;
	agreement->rnr_retry_count = req.rnr_retry_count;
	agreement->ack_timeout = id->ack_timeout;
	id->state = ID_CONNECTING;
	return nic_cm_connect(&id->conn, &id->path, &req);
}

static int connect_datagram(struct id *id, const struct rdma_conn_param *param)
{
	struct cm_sidr_req request = {.service_id = remote_service(id), .pkey = id_pkey(id)};
	int rc = private_data(
		id, param, request.private_data + IP_CM_HEADER_BYTES, IP_CM_SIDR_DATA_BYTES);

	if (rc < 0)
		return rc;
	put_ip_header(id, request.private_data);
	id->state = ID_CONNECTING;
	return nic_cm_sidr_request(&id->conn, &id->path, &request);
}

static int connect_iwarp(struct id *id, const struct rdma_conn_param *param)
{
	uint8_t data[MPA_PRIVATE_BYTES_MAX];
	int bytes = private_data(id, param, data, mpa_private_room(true));

	return bytes < 0 ? bytes : iwarp_connect(id, param, data, (size_t)bytes);
}

int rdma_connect(struct rdma_cm_id *public, struct rdma_conn_param *given)
{
	struct rdma_conn_param param = param_or_default(given);
	struct id *id = id_find(public);
	struct agent_address local;
	int rc;

	if (!id)
		return fail_errno(errno);
	if (id->state != ID_ROUTE_RESOLVED)
		return fail_errno(id_cause(REASON_CM_STATE));
	local = agent_address_of(&id->path.local, id->path.ifindex);
	rc = id->is_iwarp ? connect_iwarp(id, &param) : nic_cm_use_address(&local);
	if (rc == 0 && !id->is_iwarp)
		rc = id_is_datagram(id) ? connect_datagram(id, &param) : connect_stream(id, &param);
	if (rc) {
		id->state = ID_ROUTE_RESOLVED;
		return fail_errno(-rc);
	}
	return id_complete(id);
}

/* --- the passive side --- */

static int accept_stream(struct id *id, const struct rdma_conn_param *param)
{
	struct id_agreement *agreement = &id->agreement;
	struct cm_rep rep = {0};
	int rc;

	id_accept_reads(id, param);
	rc = private_data(id, param, rep.private_data, sizeof(rep.private_data));
	if (rc < 0)
		return rc;
	rc = id->id.qp ? -id_qp_connect(id) : 0;
	if (rc)
		return id_cause_if(rc, REASON_CM_QP_MOVE);
	rep.local_qpn = id->id.qp ? id->id.qp->qp_num : param->qp_num;
	rep.starting_psn = agreement->rq_psn;
	rep.responder_resources = agreement->responder_resources;
	rep.initiator_depth = agreement->initiator_depth;
	rep.has_flow_control = param->flow_control != 0;
	rep.rnr_retry_count = (uint8_t)min_u32(param->rnr_retry_count, ID_RETRY_COUNT_MAX);
	rep.has_srq = id->id.qp ? id->id.qp->srq != NULL : param->srq;
	id->state = ID_ACCEPTED;
	return nic_cm_accept(&id->conn, &rep);
}

static int accept_datagram(struct id *id, const struct rdma_conn_param *param)
{
	struct cm_sidr_rep answer = {
		.status = CM_SIDR_SUCCESS,
		.qpn = id->id.qp ? id->id.qp->qp_num : param->qp_num,
		.qkey = RDMA_UDP_QKEY,
		.service_id = id->request.sidr_req.service_id,
	};
	int rc = private_data(id, param, answer.private_data, sizeof(answer.private_data));

	if (rc < 0)
		return rc;
	id->state = ID_CONNECTED;
	return nic_cm_sidr_answer(&id->conn, &answer);
}

static int accept_iwarp(struct id *id, const struct rdma_conn_param *param)
{
	uint8_t data[MPA_PRIVATE_BYTES_MAX];
	int bytes = private_data(id, param, data, mpa_data_room(&id->iw.mpa));

	return bytes < 0 ? bytes : iwarp_accept(id, param, data, (size_t)bytes);
}

int rdma_accept(struct rdma_cm_id *public, struct rdma_conn_param *given)
{
	struct rdma_conn_param param = param_or_default(given);
	struct id *id = id_find(public);
	int rc;

	if (!id)
		return fail_errno(errno);
	if (id->state != ID_REQUESTED)
		return fail_errno(id_cause(REASON_CM_STATE));
	id_set_accepted(id, true);
	if (id->is_iwarp)
		rc = accept_iwarp(id, &param);
	else
		rc = id_is_datagram(id) ? accept_datagram(id, &param) : accept_stream(id, &param);
	if (rc) {
		id->state = ID_REQUESTED;
		id_set_accepted(id, false);
		id_qp_fail(id);
		return fail_errno(-rc);
	}
	return id_is_datagram(id) ? 0 : id_complete(id);
}

static int id_reject(struct id *id, uint16_t reason, const void *data, uint8_t bytes)
{
	struct cm_sidr_rep refusal = {.status = CM_SIDR_REJECTED};
	struct cm_rej rej = {.reason = reason};

	if (id->state != ID_REQUESTED && id->state != ID_RESPONDED)
		return -id_cause(REASON_CM_STATE);
	if (bytes > (id_is_datagram(id) ? sizeof(refusal.private_data) : sizeof(rej.private_data)))
		return -id_cause(REASON_CM_DATA);
	id->state = ID_OVER;
	if (id->is_iwarp) {
		mpa_reject(&id->iw.mpa, data, bytes);
		nic_iwcm_reject(&id->iw);
		return 0;
	}
	if (id_is_datagram(id)) {
		refusal.service_id = id->request.sidr_req.service_id;
		if (bytes > 0)
			memcpy(refusal.private_data, data, bytes);
		return nic_cm_sidr_answer(&id->conn, &refusal);
	}
	if (bytes > 0)
		memcpy(rej.private_data, data, bytes);
	return nic_cm_reject(&id->conn, &rej);
}

static int connection_reject(
	struct rdma_cm_id *public, uint16_t reason, const void *data, uint8_t bytes)
{
	struct id *id = id_find(public);

	return id ? id_reject(id, reason, data, bytes) : -errno;
}

int rdma_reject(struct rdma_cm_id *public, const void *data, uint8_t bytes)
{
	int rc = connection_reject(public, CM_REJECT_CONSUMER, data, data ? bytes : 0);

	return rc ? fail_errno(-rc) : 0;
}

/* --- both sides --- */

int rdma_establish(struct rdma_cm_id *public)
{
	struct id *id = id_find(public);
	int rc;

	if (!id)
		return fail_errno(errno);
	if (id->id.qp || id->state != ID_RESPONDED)
		return fail_errno(id_cause(REASON_CM_STATE));
	rc = nic_cm_ready(&id->conn);
	if (rc)
		return fail_errno(-rc);
	id->state = ID_CONNECTED;
	return 0;
}

int rdma_notify(struct rdma_cm_id *public, enum ibv_event_type event)
{
	struct id *id = id_find(public);

	if (!id)
		return fail_errno(errno);
	if (event != IBV_EVENT_COMM_EST)
		return fail_errno(id_cause(REASON_CM_EVENT));
	/*
	 * This call fails if the RTU has arrived meanwhile. Then the connection is established
	 * already.
	 */
	nic_cm_establish(&id->conn);
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *public)
{
	struct id *id = id_find(public);

	if (!id)
		return fail_errno(errno);
	if (id_is_datagram(id) ||
		(id->state != ID_CONNECTED && id->state != ID_ACCEPTED && id->state != ID_OVER))
		return fail_errno(id_cause(REASON_CM_STATE));
	id_qp_fail(id);
	if (id->is_iwarp) {
		nic_iwcm_disconnect(&id->iw);
		return id->state == ID_OVER ? 0 : id_complete(id);
	}
	/*
	 * Send the pending acknowledgements before the DREQ. nic_cm_drive_lane() finds the lane by
	 * the connection, because the program may have created the queue pair itself.
	 */
	nic_cm_drive_lane(&id->conn);
	/*
	 * This call has no effect if the peer has begun to disconnect and this side has answered.
	 */
	nic_cm_disconnect(&id->conn);
	return id_complete(id);
}

/* --- attributes of the queue pair --- */

static void attr_init(const struct id *id, struct ibv_qp_attr *attr, int *mask)
{
	attr->pkey_index = infiniband_pkey_index(id->path.ib.pkey);
	attr->port_num = DEVICE_PORT;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	if (id_is_datagram(id)) {
		attr->qkey = RDMA_UDP_QKEY;
		*mask |= IBV_QP_QKEY;
		return;
	}
	/*
	 * Permit all remote access at the queue pair. The regions that the program registers limit
	 * that access.
	 */
	attr->qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	if (id->id.qp_type != IBV_QPT_UC)
		attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	*mask |= IBV_QP_ACCESS_FLAGS;
}

enum { MIN_RNR_TIMER = 12 /* the code of 0.64 ms */ };

struct ibv_ah_attr id_address_vector(const struct id *id, const struct gid *remote)
{
	struct ibv_ah_attr ah = {
		.grh.sgid_index = (uint8_t)id->gid_index,
		.grh.hop_limit = ID_HOP_LIMIT,
		.grh.traffic_class = id->tos,
		.dlid = id->path.ib.dlid,
		.sl = id->path.ib.sl,
		.is_global = 1,
		.port_num = DEVICE_PORT,
	};

	memcpy(ah.grh.dgid.raw, remote->raw, sizeof(remote->raw));
	return ah;
}

static void attr_rtr(const struct id *id, struct ibv_qp_attr *attr, int *mask)
{
	*mask = IBV_QP_STATE;
	/*
	 * Set the index of the P_Key, because a queue pair that was created before its route was
	 * resolved has index 0.
	 */
	if (id->path.ib.port) {
		attr->pkey_index = infiniband_pkey_index(id->path.ib.pkey);
		*mask |= IBV_QP_PKEY_INDEX;
	}
	if (id_is_datagram(id))
		return;
	attr->ah_attr = id_address_vector(id, &id->path.remote);
	if (!id->path.ib.port)
		attr->ah_attr.sl = id->tos >> 5;
	attr->path_mtu = (enum ibv_mtu)id->agreement.path_mtu;
	attr->dest_qp_num = id->agreement.remote_qpn;
	attr->rq_psn = id->agreement.rq_psn;
	*mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (id->id.qp_type != IBV_QPT_RC && id->id.qp_type != IBV_QPT_XRC_RECV)
		return; /* a queue pair of this type has no responder that executes READs */
	attr->max_dest_rd_atomic = id->agreement.responder_resources;
	attr->min_rnr_timer = MIN_RNR_TIMER;
	*mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

static void attr_rts(const struct id *id, struct ibv_qp_attr *attr, int *mask)
{
	attr->sq_psn = id->agreement.sq_psn;
	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (id_is_datagram(id) || id->id.qp_type == IBV_QPT_UC)
		return;
	attr->timeout = id->agreement.ack_timeout;
	*mask |= IBV_QP_TIMEOUT;
	if (id->id.qp_type == IBV_QPT_XRC_RECV)
		return;
	attr->retry_cnt = id->agreement.retry_count;
	attr->rnr_retry = id->agreement.rnr_retry_count;
	attr->max_rd_atomic = id->agreement.initiator_depth;
	*mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
}

/* Set the attributes and the mask for a move to attr->qp_state. Returns 0 or an errno. */
static int attr_for(const struct id *id, struct ibv_qp_attr *attr, int *mask)
{
	bool is_known = id_is_datagram(id) || id->agreement.remote_qpn != 0;

	/* The connection itself moves an iWARP queue pair to RTS, so the program sets nothing. */
	if (id->is_iwarp && (attr->qp_state == IBV_QPS_RTR || attr->qp_state == IBV_QPS_RTS)) {
		*mask = 0;
		return 0;
	}
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		attr_init(id, attr, mask);
		return 0;
	case IBV_QPS_RTR:
		if (!is_known)
			return id_cause(REASON_CM_UNCONNECTED);
		attr_rtr(id, attr, mask);
		return 0;
	case IBV_QPS_RTS:
		if (!is_known)
			return id_cause(REASON_CM_UNCONNECTED);
		attr_rts(id, attr, mask);
		return 0;
	case IBV_QPS_RESET:
	case IBV_QPS_SQD:
	case IBV_QPS_SQE:
	case IBV_QPS_ERR:
	case IBV_QPS_UNKNOWN:
		break;
	}
	return id_cause(REASON_CM_QP_STATE);
}

/*
 * Set every field of *attr, because programs (rping) pass a structure that is not initialised, and
 * then pass it to ibv_modify_qp().
 */
int rdma_init_qp_attr(struct rdma_cm_id *public, struct ibv_qp_attr *attr, int *mask)
{
	struct ibv_qp_attr known = {0};
	int error;

	if (!id_find(public))
		return fail_errno(errno);
	if (!attr || !mask || !public->verbs)
		return fail_errno(id_cause(REASON_ATTR_MISSING));
	known.qp_state = attr->qp_state;
	error = attr_for(id_of(public), &known, mask);
	if (error)
		return fail_errno(error);
	*attr = known;
	return 0;
}

static int qp_move(struct id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask, error;

	error = attr_for(id, &attr, &mask);
	return error ? error : ibv_modify_qp(id->id.qp, &attr, mask);
}

int id_qp_connect(struct id *id)
{
	int error;

	error = qp_move(id, IBV_QPS_RTR);
	if (!error)
		error = qp_move(id, IBV_QPS_RTS);
	return error;
}

int id_qp_fail(struct id *id)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (!id->id.qp || id_is_datagram(id))
		return 0;
	return ibv_modify_qp(id->id.qp, &attr, IBV_QP_STATE);
}

/* --- enhanced connection establishment: urnic has no options of a vendor --- */

int rdma_set_local_ece(struct rdma_cm_id *public, struct ibv_ece *ece)
{
	if (!public || !ece)
		return fail_errno(id_cause(REASON_ATTR_MISSING));
	return ece->vendor_id == 0 && ece->options == 0
		? 0
		: fail_errno(id_cause(REASON_UNSUPPORTED_BITS));
}

int rdma_get_remote_ece(struct rdma_cm_id *public, struct ibv_ece *ece)
{
	if (!public || !ece)
		return fail_errno(id_cause(REASON_ATTR_MISSING));
	memset(ece, 0, sizeof(*ece));
	return 0;
}

int rdma_reject_ece(struct rdma_cm_id *public, const void *data, uint8_t bytes)
{
	int rc = connection_reject(public, CM_REJECT_VENDOR_OPTION, data, data ? bytes : 0);

	return rc ? fail_errno(-rc) : 0;
}
