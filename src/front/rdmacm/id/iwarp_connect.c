/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/rdmacm/id/iwarp_connect.h"

#include "base/arith.h"
#include "front/rdmacm/address.h"
#include "front/rdmacm/device.h"
#include "front/rdmacm/id/event_cause.h"
#include "front/rdmacm/id/watch.h"

/* --- events --- */

static struct id *spare_take(struct id *listen)
{
	struct id *id = NULL;

	pthread_mutex_lock(&id_lock);
	if (!list_is_empty(&listen->iw_spares)) {
		id = list_first(&listen->iw_spares, struct id, in_requests);
		list_remove(&id->in_requests);
	}
	pthread_mutex_unlock(&id_lock);
	return id;
}

static void on_request(struct nic_iw_conn *pending)
{
	struct id *listen = pending->listener->user;
	struct id *id = spare_take(listen);

	if (!id)
		return;
	nic_iwcm_locked_adopt(&id->iw, pending);
	id_request(id, listen, &listen->iw_spares_missing);
}

static void on_failure(struct id *id, int error)
{
	id_fail(id, event_cause_of_stream(error), error, strerror(-error));
}

void iwarp_take_event(enum nic_iw_event event, struct nic_iw_conn *conn)
{
	switch (event) {
	case NIC_IW_REQUESTED:
		on_request(conn);
		break;
	case NIC_IW_ACCEPTED:
		id_post(conn->user, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
		break;
	case NIC_IW_REJECTED:
		id_fail(conn->user, CAUSE_STREAM_REJECTED, 0, NULL);
		break;
	case NIC_IW_FAILED:
		on_failure(conn->user, conn->error);
		break;
	case NIC_IW_ENDED:
		id_post(conn->user, RDMA_CM_EVENT_DISCONNECTED, 0);
		break;
	}
}

void iwarp_report(const struct id *id, struct rdma_conn_param *param, uint8_t *data)
{
	const struct mpa_frame *frame = &id->iw.mpa.peer;
	struct mpa_reads reads = mpa_requested_reads(&id->iw.mpa);

	param->private_data_len = (uint8_t)min_u32(frame->private_bytes, UINT8_MAX);
	memcpy(data, frame->private_data, param->private_data_len);
	param->private_data = param->private_data_len ? data : NULL;
	param->responder_resources = (uint8_t)min_u32(reads.ird, UINT8_MAX);
	param->initiator_depth = (uint8_t)min_u32(reads.ord, UINT8_MAX);
}

/* --- listening --- */

int iwarp_add_spare(struct id *listen)
{
	struct id *id = id_alloc(NULL, listen->id.ps, listen->id.qp_type, listen->id.context);

	if (!id)
		return -ENOMEM;
	id->is_iwarp = true;
	id->iw.user = id;
	pthread_mutex_lock(&id_lock);
	list_append(&listen->iw_spares, &id->in_requests);
	pthread_mutex_unlock(&id_lock);
	return 0;
}

static struct port_tcp_address local_address(const struct id *id)
{
	return (struct port_tcp_address){
		.gid = id->claim.address.gid,
		.ifindex = id->claim.address.scope_ifindex,
		.port = address_port(&id->id.route.addr.src_addr),
	};
}

int iwarp_listen(struct id *id, uint32_t backlog)
{
	struct port_tcp_address local = local_address(id);
	int rc = nic_iwcm_start(iwarp_take_event);

	for (uint32_t i = 0; rc == 0 && i < backlog; i++)
		rc = iwarp_add_spare(id);
	if (rc == 0) {
		id->iw_listener.user = id;
		rc = nic_iwcm_listen(&id->iw_listener, &local,
			(id->claim.flags & AGENT_CLAIM_IPV6_ONLY) != 0, backlog);
	}
	if (rc)
		iwarp_unlisten(id);
	return rc;
}

void iwarp_unlisten(struct id *id)
{
	struct id *spare;

	nic_iwcm_unlisten(&id->iw_listener);
	while ((spare = spare_take(id)))
		id_unref(spare);
}

int iwarp_open_request(struct id *id)
{
	struct mpa_reads reads = mpa_requested_reads(&id->iw.mpa);
	struct rdma_addr *addr = &id->id.route.addr;
	int rc;

	pthread_mutex_lock(&id_lock);
	list_remove(&id->in_requests);
	pthread_mutex_unlock(&id_lock);
	watch_add(id);
	rc = id_take_local(id, DEVICE_KIND_IWARP, &id->iw.local.gid, id->iw.local.ifindex);
	if (rc)
		return rc;
	id->path.remote = id->iw.remote.gid;
	address_make(&addr->src_storage, &id->path.local, id->iw.local.port, id->path.ifindex);
	address_make(&addr->dst_storage, &id->path.remote, id->iw.remote.port, id->path.ifindex);
	id_agree_reads(id, reads.ird, reads.ord);
	return id_fill_path(id);
}

/* --- connecting --- */

static uint32_t qpn_of(const struct id *id, const struct rdma_conn_param *param)
{
	return id->id.qp ? id->id.qp->qp_num : param->qp_num;
}

int iwarp_connect(
	struct id *id, const struct rdma_conn_param *param, const uint8_t *data, size_t bytes)
{
	const struct mpa_policy policy = nic_iwcm_policy();
	struct mpa_reads reads;
	int rc = nic_iwcm_start(iwarp_take_event);

	if (rc)
		return rc;
	id_agree_reads(id, param->responder_resources, param->initiator_depth);
	reads = (struct mpa_reads){
		id->agreement.responder_resources, id->agreement.initiator_depth};
	id->iw_qpn = qpn_of(id, param);
	id->iw.user = id;
	id->iw.local = (struct port_tcp_address){.gid = id->path.local,
		.ifindex = id->path.ifindex,
		.port = address_port(&id->id.route.addr.src_addr)};
	id->iw.remote = (struct port_tcp_address){.gid = id->path.remote,
		.ifindex = id->path.ifindex,
		.port = address_port(&id->id.route.addr.dst_addr)};
	mpa_connect(&id->iw.mpa, &policy, &reads, data, bytes);
	id->state = ID_CONNECTING;
	rc = nic_iwcm_connect(&id->iw, id->tos);
	/*
	 * The port is free in rdma_cm's port space, but another TCP socket uses it. So let the
	 * kernel choose a port.
	 */
	if (rc == -EADDRINUSE) {
		id->iw.local.port = 0;
		rc = nic_iwcm_connect(&id->iw, id->tos);
	}
	return rc;
}

int iwarp_establish(struct id *id)
{
	int rc = nic_iwcm_open(
		&id->iw, id->id.qp ? id->id.qp->qp_num : id->iw_qpn, id->path.ifindex);

	if (rc)
		return rc;
	address_set_port(&id->id.route.addr.src_addr, id->iw.local.port);
	id->agreement.responder_resources = (uint8_t)id->iw.mpa.settings.ird;
	id->agreement.initiator_depth = (uint8_t)id->iw.mpa.settings.ord;
	return 0;
}

int iwarp_accept(
	struct id *id, const struct rdma_conn_param *param, const uint8_t *data, size_t bytes)
{
	struct mpa_reads reads;
	int rc;

	id_accept_reads(id, param);
	reads = (struct mpa_reads){
		id->agreement.responder_resources, id->agreement.initiator_depth};
	mpa_accept(&id->iw.mpa, &reads, data, bytes);
	id->state = ID_ACCEPTED;
	/*
	 * Post this event first, because the stream may end as soon as the queue pair has the
	 * stream.
	 */
	id_post(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	rc = nic_iwcm_open(&id->iw, qpn_of(id, param), id->path.ifindex);
	if (rc)
		id_forget_event(id, &id->events[RDMA_CM_EVENT_ESTABLISHED]);
	return rc;
}
