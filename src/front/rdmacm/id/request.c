/* SPDX-License-Identifier: BSD-2-Clause */
/* The identifier of a request: its addresses, and what both ends have agreed on. */
#include <errno.h>

#include "front/rdmacm/address.h"
#include "front/rdmacm/device.h"
#include "front/rdmacm/id/id.h"
#include "front/rdmacm/id/watch.h"
#include "wire/cm/cm_message.h"

static void addresses_of_request(struct id *id, const struct ip_cm_header *header, uint16_t port)
{
	struct rdma_addr *addr = &id->id.route.addr;
	struct ip_cm_header named = {.source = id->path.remote};
	struct gid local = cm_path_request_address(&id->request, &id->path, &named);

	address_make(&addr->src_storage, &local, port, id->path.ifindex);
	address_make(&addr->dst_storage, &named.source, header->source_port, id->path.ifindex);
}

static void agree_request(struct id *id, const struct cm_req *req)
{
	id->agreement = (struct id_agreement){
		.remote_qpn = req->local_qpn,
		.sq_psn = req->starting_psn,
		.rq_psn = nic_cm_random_psn(),
		.responder_resources = req->initiator_depth,
		.initiator_depth = req->responder_resources,
		.retry_count = req->retry_count,
		.rnr_retry_count = req->rnr_retry_count,
		.ack_timeout = req->primary_ack_timeout,
		.path_mtu = req->path_mtu,
		.has_srq = req->has_srq,
	};
	if (req->transport_service == CM_SERVICE_EXTENDED)
		id->id.qp_type = IBV_QPT_XRC_RECV;
	id->tos = req->primary_traffic_class;
}

int id_open_request(struct id *id)
{
	bool is_sidr = id->request.attribute == CM_SIDR_REQ;
	const uint8_t *data =
		is_sidr ? id->request.sidr_req.private_data : id->request.req.private_data;
	uint64_t service_id =
		is_sidr ? id->request.sidr_req.service_id : id->request.req.service_id;
	struct ip_cm_header header;
	struct gid local = id->path.local;
	int rc;

	/* From here on the program owns the identifier: after a failure, the caller destroys it. */
	pthread_mutex_lock(&id_lock);
	list_remove(&id->in_requests);
	id->references++;
	pthread_mutex_unlock(&id_lock);
	watch_add(id);
	if (!ip_cm_header_decode(&header, data))
		return -EPROTO;
	rc = id_take_local(id, DEVICE_KIND_ROCE, &local, id->path.ifindex);
	if (rc)
		return rc;
	addresses_of_request(id, &header, ip_cm_service_port(service_id));
	if (is_sidr)
		id->agreement.sq_psn = nic_cm_random_psn();
	else
		agree_request(id, &id->request.req);
	return id_fill_path(id);
}
