/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints: rdma_create_ep() makes an identifier, resolves or binds it, and makes its queue pair.
 */
#include <stdlib.h>

#include "front/rdmacm/id/id.h"

enum { RESOLVE_TIMEOUT_MS = 2000 };

/*
 * Bind the identifier. Keep `init`, for the queue pairs of the requests that the listener will get.
 */
static int prepare_passive(struct id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
	const struct ibv_qp_init_attr *init)
{
	if (rdma_bind_addr(&id->id, res->ai_src_addr))
		return -1;
	if (!init)
		return 0;
	id->qp_init = malloc(sizeof(*init));
	if (!id->qp_init)
		return fail_call("rdma_create_ep", errno);
	*id->qp_init = *init;
	id->qp_init->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	if (pd)
		id->id.pd = pd;
	return 0;
}

static int prepare_active(struct id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
	struct ibv_qp_init_attr *init)
{
	if (rdma_resolve_addr(&id->id, res->ai_src_addr, res->ai_dst_addr, RESOLVE_TIMEOUT_MS) ||
		rdma_resolve_route(&id->id, RESOLVE_TIMEOUT_MS))
		return -1;
	if (res->ai_connect_len > 0) {
		id->connect_data = malloc(res->ai_connect_len);
		if (!id->connect_data)
			return fail_call("rdma_create_ep", errno);
		memcpy(id->connect_data, res->ai_connect, res->ai_connect_len);
		id->connect_bytes = res->ai_connect_len;
	}
	if (!init)
		return 0;
	init->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	return rdma_create_qp(&id->id, pd, init);
}

int rdma_create_ep(struct rdma_cm_id **ret_id, struct rdma_addrinfo *res, struct ibv_pd *pd,
	struct ibv_qp_init_attr *init)
{
	struct rdma_cm_id *public;
	struct id *id;
	int rc, error;

	if (!ret_id || !res)
		return fail_errno(id_cause(REASON_ATTR_MISSING));
	if (rdma_create_id(NULL, &public, NULL, (enum rdma_port_space)res->ai_port_space))
		return -1;
	public->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	id = id_of(public);
	rc = res->ai_flags & RAI_PASSIVE ? prepare_passive(id, res, pd, init)
					 : prepare_active(id, res, pd, init);
	if (rc) {
		error = errno;
		rdma_destroy_ep(public);
		return fail_quietly(error);
	}
	*ret_id = public;
	return 0;
}

void rdma_destroy_ep(struct rdma_cm_id *public)
{
	if (!id_find(public))
		return;
	rdma_destroy_qp(public);
	rdma_destroy_srq(public);
	rdma_destroy_id(public);
}

int rdma_get_request(struct rdma_cm_id *public, struct rdma_cm_id **ret_id)
{
	struct id *listen = id_find(public);
	struct rdma_cm_event *event;

	if (!listen)
		return fail_errno(errno);
	if (!listen->is_sync || listen->state != ID_LISTENING)
		return fail_errno(id_cause(REASON_CM_STATE));
	id_ack_event(listen);
	if (rdma_get_cm_event(public->channel, &event))
		return -1;
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
		int status = event->status;

		rdma_ack_cm_event(event);
		return fail_quietly(status < 0 ? -status : EINVAL);
	}
	if (listen->qp_init) {
		struct ibv_qp_init_attr init = *listen->qp_init;

		/*
		 * Pass the endpoint's protection domain only if it belongs to the device at which
		 * the request arrived.
		 */
		if (rdma_create_qp(event->id,
			    public->pd && public->pd->context == event->id->verbs ? public->pd
										  : NULL,
			    &init)) {
			int error = errno;

			rdma_reject(event->id, NULL, 0);
			event->id->event = NULL;
			public = event->id;
			rdma_ack_cm_event(event);
			rdma_destroy_id(public);
			return fail_quietly(error);
		}
	}
	*ret_id = event->id;
	event->id->event = event;
	return 0;
}
