/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/ah.h"

#include <stdlib.h>

#include "front/verbs/pd.h"
#include "front/verbs/result.h"
#include "wire/grh.h"

/* The hop limit of a reply, if the hop limit of the message is unknown. */
#define REPLY_HOP_LIMIT 0xff

static int ah_make(struct ah *ah, const struct ibv_ah_attr *attr, const struct context *context)
{
	struct qp_path route;
	int error = path_from_verbs(context->device, attr, attr->port_num, &route);

	if (device_is_iwarp(context->device))
		return result_cause(REASON_NOT_ON_IWARP);
	if (!error && gid_is_zero(&route.remote))
		error = result_cause(REASON_AH_NO_DGID);
	return error ? error : result_as(-nic_ah_create(&route, &ah->nic), REASON_AH_FAMILY);
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct context *context = context_of(pd->context);
	struct ah *ah = calloc(1, sizeof(*ah));
	int error;

	if (!ah)
		return result_null("ibv_create_ah", result_cause(REASON_NO_MEMORY));
	ah->verbs = (struct ibv_ah){.context = pd->context, .pd = pd};
	ah->pd = pd_ref(pd);
	error = ah->pd ? ah_make(ah, attr, context) : result_cause(REASON_NO_PARENT);
	return object_publish(&ah->object, OBJECT_AH, context, &ah->verbs.handle, error)
		? &ah->verbs
		: NULL;
}

void *ah_release(struct object *object)
{
	struct ah *ah = container_of(object, struct ah, object);

	if (ah->nic)
		nic_ah_destroy(ah->nic);
	object_unref(ah->pd);
	return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	return result_of("ibv_destroy_ah", object_destroy(ah->handle, OBJECT_AH, ah->context));
}

/*
 * Set *ret_attr to the address of the sender of a datagram over InfiniBand. Returns 0 or an errno.
 */
static int ah_from_wc_ib(struct device *device, uint8_t port_num, const struct ibv_wc *wc,
	const struct ibv_grh *grh, struct ibv_ah_attr *ret_attr)
{
	struct ibv_ah_attr attr = {
		.dlid = wc->slid,
		.sl = wc->sl,
		.src_path_bits = wc->dlid_path_bits,
		.port_num = port_num,
	};
	struct ip_header header;

	if (!device_has_port(device, port_num))
		return result_cause(REASON_PORT_NUMBER);
	if (wc->wc_flags & IBV_WC_GRH) {
		if (!grh_decode(&header, (const uint8_t *)grh))
			return result_cause(REASON_WC_NO_GRH);
		attr.is_global = 1;
		attr.grh.sgid_index = gid_is_multicast(&header.dgid)
			? 0
			: device_port_gid_index(device, port_num, &header.dgid);
		if (attr.grh.sgid_index == DEVICE_GID_NONE)
			return result_cause(REASON_WC_GID);
		attr.grh.hop_limit = REPLY_HOP_LIMIT;
		attr.grh.flow_label = header.flow_label;
		attr.grh.traffic_class = header.traffic_class;
		memcpy(attr.grh.dgid.raw, header.sgid.raw, sizeof(header.sgid.raw));
	}
	*ret_attr = attr;
	return 0;
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
	struct ibv_grh *grh, struct ibv_ah_attr *ah_attr)
{
	struct device *device = context_of(context)->device;
	struct ip_header header;
	uint8_t sgid_index;

	if (device_is_ib(device)) {
		int error = ah_from_wc_ib(device, port_num, wc, grh, ah_attr);

		return error ? result_minus_one("ibv_init_ah_from_wc", error) : 0;
	}
	/*
	 * RoCE packets always have a GRH. A completion without a GRH has no address of the sender.
	 */
	if (port_num != DEVICE_PORT)
		return result_minus_one("ibv_init_ah_from_wc", result_cause(REASON_PORT_NUMBER));
	if (!(wc->wc_flags & IBV_WC_GRH) || !grh_decode(&header, (const uint8_t *)grh))
		return result_minus_one("ibv_init_ah_from_wc", result_cause(REASON_WC_NO_GRH));
	sgid_index = device_gid_index(device, &header.dgid);
	if (sgid_index == DEVICE_GID_NONE)
		return result_minus_one("ibv_init_ah_from_wc", result_cause(REASON_WC_GID));
	*ah_attr = (struct ibv_ah_attr){
		.grh.sgid_index = sgid_index,
		.grh.hop_limit = REPLY_HOP_LIMIT,
		.grh.traffic_class = header.traffic_class,
		.dlid = wc->slid,
		.sl = wc->sl,
		.src_path_bits = wc->dlid_path_bits,
		.is_global = 1,
		.port_num = port_num,
	};
	memcpy(ah_attr->grh.dgid.raw, header.sgid.raw, sizeof(header.sgid.raw));
	return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(
	struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port_num)
{
	struct ibv_ah_attr attr;

	if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}
